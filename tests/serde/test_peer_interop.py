"""LangGraph reads what we write, and we read what it writes.

Runs only where ``LANGGRAPH_ASYNC_PEER_PYTHON`` names a Python that has LangGraph installed.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from typing import Any

import pytest

from langgraph_async.serde.identity import identical
from langgraph_async.serde.jsonplus import JsonPlusSerializer

PEER = os.environ.get("LANGGRAPH_ASYNC_PEER_PYTHON", "")
pytestmark = pytest.mark.skipif(not PEER, reason="LANGGRAPH_ASYNC_PEER_PYTHON is not set")

SETUP = """
import array, base64, collections, datetime as dt, decimal, fractions, http, ipaddress, json, logging, math, pathlib
import re, sys, time, types, urllib.parse, uuid, zoneinfo
from {package}.types import Command, Interrupt, Overwrite, Send
Paris = zoneinfo.ZoneInfo("Europe/Paris")
"""

FAITHFUL = [
    "[None, True, 1, -200, 2**64 - 1, 1.5, math.inf, 'x', b'y', {'a': [1]}]",
    "{1: 'a', (1, (2, None)): 'b', None: 'c', 2.5: 'd', b'x': 'e'}",
    "uuid.UUID(int=7)",
    "decimal.Decimal('1.10')",
    "{1}",
    "frozenset({'a'})",
    "collections.deque([1, 2])",
    "dt.datetime(2024, 1, 2, 3, 4, 5, 6)",
    "dt.datetime(2024, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-5, minutes=-30)))",
    "dt.date(2024, 1, 2)",
    "dt.time(1, 2, tzinfo=Paris, fold=1)",
    "dt.timedelta(-1, 2, 3)",
    "dt.timezone(dt.timedelta(hours=1), 'X')",
    "Paris",
    "ipaddress.ip_interface('1.2.3.4/24')",
    "ipaddress.ip_network('::/64')",
    "pathlib.Path('/a/b')",
    "re.compile('a+', re.I)",
    "re.compile(b'a')",
    "Send('n', {'a': [1]})",
    "Send('n', 1, timeout=2.0)",
    "Command(update={'a': 1}, goto=['n', Send('m', 1)], graph='__parent__')",
    "Command(resume={'a': 1})",
    "Command()",
    "[Interrupt('v', id='ab'), Overwrite([1])]",
]
LOST = [
    "(1, (2, [3]))",
    "[2**70, -2**70, 7**20000]",
    "[complex(1, -2), range(1, 9, 2), fractions.Fraction(1, 3)]",
    "['a\\ud800b', {'\\udfff': 1}]",
    "[bytearray(b'x')]",
    "{(1, 2), (3,)}",
    "{dt.date(2024, 1, 1): 1, frozenset({1}): 2, (dt.timedelta(1),): 3, 2**70: 4}",
    "[collections.OrderedDict(a=(1,)), collections.Counter('aab'), collections.deque([1], maxlen=3)]",
    "collections.defaultdict(list, {'a': [1]})",
    "collections.defaultdict(None, {'a': [1]})",
    "dt.datetime(2024, 10, 27, 2, 30, tzinfo=Paris, fold=1)",
    "dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1), 'X'))",
    "[pathlib.PurePosixPath('a'), pathlib.PureWindowsPath('a')]",
    "types.SimpleNamespace(a=1)",
    "[array.array('d', [1.5, -0.0]), array.array('q', [-(2**63)]), array.array('u', 'a'), array.array('b')]",
    "[collections.ChainMap({'a': (1,)}, {'b': 2}), types.MappingProxyType({'a': (1,)}), ...]",
    "[collections.UserDict(a=1), collections.UserList([1]), collections.UserString('x')]",
    "[time.gmtime(0), time.struct_time(range(9))]",
    "[http.HTTPStatus.OK, http.HTTPMethod.GET, urllib.parse.urlsplit('http://a/b?c'), urllib.parse.urldefrag(b'x#y')]",
    "Command(update=(('a', 1),), goto=('a', 'b'))",
]


def _peer(code: str, payload: Any) -> Any:
    program = SETUP.format(package="langgraph") + (
        "from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        "logging.disable(logging.CRITICAL)\n"
        "serde = JsonPlusSerializer(allowed_msgpack_modules=True)\n"
        "given = json.load(sys.stdin)\n"
    )
    done = subprocess.run(
        [PEER, "-c", program + code], input=json.dumps(payload), capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


def _value(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(SETUP.format(package="langgraph_async"), names)
    return eval(source, names)


def test_faithful_values_have_equal_bytes() -> None:
    theirs = _peer(
        "json.dump([base64.b64encode(serde.dumps_typed(eval(s))[1]).decode() for s in given], sys.stdout)", FAITHFUL
    )
    serde = JsonPlusSerializer()

    for source, stored in zip(FAITHFUL, map(base64.b64decode, theirs), strict=True):
        value = _value(source)
        assert serde.dumps_typed(value)[1] == stored, source
        assert identical(serde.loads_typed(("msgpack", stored)), value), source


def test_the_peer_reads_what_it_cannot_write_itself() -> None:
    serde = JsonPlusSerializer()
    ours = [[source, base64.b64encode(serde.dumps_typed(_value(source))[1]).decode()] for source in LOST]

    found = _peer(
        "out = []\n"
        "for source, stored in given:\n"
        "    value, twin = eval(source), serde.loads_typed(('msgpack', base64.b64decode(stored)))\n"
        "    out.append([source, type(value) is type(twin) and value == twin and repr(value) == repr(twin)"
        " if '7**' not in source else value == twin])\n"
        "json.dump(out, sys.stdout)",
        ours,
    )
    assert [source for source, equal in found if not equal] == []


def test_the_peer_reads_exceptions_and_notes() -> None:
    error = ValueError("x", 1)
    error.add_note("note")
    serde = JsonPlusSerializer()
    values = [error, _value("Command(resume=None)"), _value("Command(goto=[])")]
    stored = [base64.b64encode(serde.dumps_typed(value)[1]).decode() for value in values]

    found = _peer(
        "json.dump([repr(serde.loads_typed(('msgpack', base64.b64decode(s)))) for s in given], sys.stdout)", stored
    )

    assert found == ["ValueError('x', 1)", "Command()", "Command()"]
