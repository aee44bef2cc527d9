"""The bytes of LangGraph, as it printed them, in both directions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import ipaddress
import re
import sys
import uuid
import zoneinfo
from collections import deque, namedtuple
from decimal import Decimal
from pathlib import PosixPath
from typing import Any

import numpy as np
import pydantic
import pytest
from langchain_core.messages import HumanMessage

from langgraph_async.serde.identity import identical
from langgraph_async.serde.jsonplus import JsonPlusSerializer
from langgraph_async.types import Command, DeltaSnapshot, Interrupt, Overwrite, Send


def _main(cls: Any) -> Any:
    cls.__module__, cls.__qualname__ = "__main__", cls.__name__
    return cls


Color = _main(enum.Enum("Color", {"RED": "r"}))
Pt = _main(namedtuple("Pt", "x y"))
DC = _main(dataclasses.make_dataclass("DC", [("a", Any), ("b", Any)]))
PM = _main(pydantic.create_model("PM", n=(int, ...), when=(dt.datetime, ...)))
SERDE = JsonPlusSerializer(allowed_msgpack_modules=[Color, Pt, DC, PM])

LG = "af6c616e6767726170682e7479706573"
ISO = "ad66726f6d69736f666f726d6174"
VALIDATE = "b36d6f64656c5f76616c69646174655f6a736f6e"
DATETIME = "a86461746574696d65"
NATIVE: list[tuple[Any, str]] = [
    ([None, False, True], "93c0c2c3"),
    (128, "cc80"),
    (-33, "d0df"),
    (2**64 - 1, "cfffffffffffffffff"),
    (-(2**63), "d38000000000000000"),
    (1.5, "cb3ff8000000000000"),
    (float("nan"), "cb7ff8000000000000"),
    ([b"\x01"], "91c40101"),
    ({"a": 1}, "81a16101"),
    ({(1, 2): 3}, "8192010203"),
    ({1.5: 1, None: 2, True: 3, b"x": 4, (1, 2): 5}, "85cb3ff800000000000001c002c303c401780492010205"),
]
CALLS: list[tuple[Any, str]] = [
    (
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "c72d0093a475756964a455554944d920" + b"12345678123456781234567812345678".hex(),
    ),
    (Decimal("1.10"), "c7160093a7646563696d616ca7446563696d616ca4312e3130"),
    ({1}, "d80093a86275696c74696e73a37365749101"),
    (set(), "c70f0093a86275696c74696e73a373657490"),
    (frozenset({1}), "c7160093a86275696c74696e73a966726f7a656e7365749101"),
    (deque([1, 2]), "c7160093ab636f6c6c656374696f6e73a56465717565920102"),
    (
        dt.datetime(2024, 1, 2, 3, 4, 5, 6),
        f"c73c0394{DATETIME}{DATETIME}ba323032342d30312d30325430333a30343a30352e303030303036{ISO}",
    ),
    (
        dt.datetime(2024, 1, 2, 3, 4, 5, tzinfo=dt.UTC),
        f"c73b0394{DATETIME}{DATETIME}b9323032342d30312d30325430333a30343a30352b30303a3030{ISO}",
    ),
    (dt.date(2024, 1, 2), f"c7150193{DATETIME}a46461746593cd07e80102"),
    (
        dt.time(3, 4, 5, 6),
        f"c7410293{DATETIME}a474696d6586a4686f757203a66d696e75746504a67365636f6e6405ab6d6963726f7365636f6e6406"
        "a6747a696e666fc0a4666f6c6400",
    ),
    (dt.timedelta(1, 2, 3), f"c7180193{DATETIME}a974696d6564656c746193010203"),
    (dt.UTC, f"c72f0193{DATETIME}a874696d657a6f6e6591c7180193{DATETIME}a974696d6564656c746193000000"),
    (zoneinfo.ZoneInfo("Europe/Paris"), "c7200093a87a6f6e65696e666fa85a6f6e65496e666fac4575726f70652f5061726973"),
    (Color.RED, "c7120093a85f5f6d61696e5f5fa5436f6c6f72a172"),
    (Pt(1, 2), "c7140293a85f5f6d61696e5f5fa2507482a17801a17902"),
    (DC(1, [2]), "c7150293a85f5f6d61696e5f5fa2444382a16101a1629102"),
    (
        PM(n=1, when=dt.datetime(2024, 1, 2)),
        f"c7620594a85f5f6d61696e5f5fa2504d82a16e01a47768656ec7350394{DATETIME}{DATETIME}"
        f"b3323032342d30312d30325430303a30303a3030{ISO}{VALIDATE}",
    ),
    (pydantic.SecretStr("x"), "c71c0093ae707964616e7469632e7479706573a9536563726574537472a178"),
    (re.compile("a+", re.IGNORECASE), "c7110193a27265a7636f6d70696c6592a2612b22"),
    (ipaddress.ip_address("1.2.3.4"), "c71f0093a9697061646472657373ab4950763441646472657373a7312e322e332e34"),
    (Send("n", {"a": 1}), f"c71d0193{LG}a453656e6492a16e81a16101"),
    (
        Send("n", 1, timeout=2.0),
        f"c7700193{LG}a453656e6493a16e01c7530293{LG}ad54696d656f7574506f6c69637983ab72756e5f74696d656f7574"
        "cb4000000000000000ac69646c655f74696d656f7574c0aa726566726573685f6f6ea46175746f",
    ),
    (
        Command(update={"a": 1}, goto="n"),
        f"c73b0293{LG}a7436f6d6d616e6484a56772617068c0a675706461746581a16101a6726573756d65c0a4676f746fa16e",
    ),
    (Command(), f"c7370293{LG}a7436f6d6d616e6484a56772617068c0a6757064617465c0a6726573756d65c0a4676f746f90"),
    (
        Interrupt("v", id="ab"),
        f"c73b0293{LG}a9496e7465727275707483a576616c7565a176a26964a26162af726573706f6e73655f736368656d61c0",
    ),
    (
        Overwrite([1]),
        f"c7370293{LG}a94f766572777269746582a576616c75659101a474797065ad5f5f6f76657277726974655f5f",
    ),
    (
        HumanMessage("hi", id="1"),
        "c7880594bd6c616e67636861696e5f636f72652e6d657373616765732e68756d616eac48756d616e4d65737361676586"
        "a7636f6e74656e74a26869b16164646974696f6e616c5f6b776172677380b1726573706f6e73655f6d6574616461746180"
        f"a474797065a568756d616ea46e616d65c0a26964a131{VALIDATE}",
    ),
    (DeltaSnapshot([1]), "d5079101"),
    (np.array([1, 2], "<i4"), "c7130694a33c69349102a143c4080100000002000000"),
    (
        np.asfortranarray(np.arange(4, dtype="<i8").reshape(2, 2)),
        "c72c0694a33c6938920202a146c420" + "".join(i.to_bytes(8, "little").hex() for i in (0, 2, 1, 3)),
    ),
    (np.array(5, "<i8"), "c7120694a33c693890a143c4080500000000000000"),
]
if sys.version_info < (3, 13):
    CALLS.append((PosixPath("/a/b"), "c71a0193a7706174686c6962a9506f7369785061746893a12fa161a162"))


@pytest.mark.parametrize(("value", "stored"), [*NATIVE, *CALLS], ids=lambda part: str(part)[:30])
def test_a_value_has_the_bytes_of_langgraph_and_comes_back(value: Any, stored: str) -> None:
    written = SERDE.dumps_typed(value)

    assert (written[0], written[1].hex()) == ("msgpack", stored)
    assert identical(SERDE.loads_typed(("msgpack", bytes.fromhex(stored))), value)


@pytest.mark.parametrize(
    ("value", "typed"),
    [(None, ("null", b"")), (b"x", ("bytes", b"x")), (bytearray(b"x"), ("bytearray", b"x"))],
    ids=["none", "bytes", "bytearray"],
)
def test_bare_values_have_tags_of_their_own(value: Any, typed: tuple[str, bytes]) -> None:
    assert SERDE.dumps_typed(value) == typed
    assert identical(SERDE.loads_typed(typed), value)


def test_a_float32_of_another_writer_is_read() -> None:
    assert SERDE.loads_typed(("msgpack", bytes.fromhex("ca3fc00000"))) == 1.5


def test_an_interrupt_of_an_older_version_is_read() -> None:
    stored = JsonPlusSerializer().dumps_typed({"value": 1, "resumable": True, "ns": ["a:b"], "when": "during"})[1]
    frame = bytes.fromhex(f"93{LG}a9496e74657272757074") + stored
    found = SERDE.loads_typed(("msgpack", bytes([0xC7, len(frame), 2]) + frame))

    assert found == Interrupt(1, ns=["a:b"])
