"""How values are handed to the packer."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import threading
from typing import Any

import pytest
import serde_types as user

from langgraph_async.serde.allowlist import collect_types
from langgraph_async.serde.identity import identical
from langgraph_async.serde.jsonplus import JsonPlusSerializer


def test_optional_libraries_are_not_loaded_by_the_serializer() -> None:
    code = (
        "import sys; from langgraph_async.serde.jsonplus import JsonPlusSerializer as S; s = S();"
        "s.loads_typed(s.dumps_typed({'a': (1, {2})}));"
        "print([m for m in ('numpy', 'pydantic', 'msgspec', 'attrs', 'langchain_core') if m in sys.modules])"
    )

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("text", ["Łódź ćma", "ԱԲ", "العربية", "日本語", "\u0100"])
def test_text_that_looks_like_a_bin_or_extension_is_written_natively(text: str) -> None:
    serde = JsonPlusSerializer()
    value = {"a": [text, 0.37, {"b": text * 100}]}

    assert identical(serde.loads_typed(serde.dumps_typed(value)), value)
    assert serde.dumps_typed(text * 3)[1][1 + (len(text.encode()) * 3 > 31) :] == (text * 3).encode()


@pytest.mark.parametrize("odd", [bytearray(b"x"), (1, 2), 2**70, "\ud800", {(1,): 2}, {dt.date(2024, 1, 1): 2}])
@pytest.mark.parametrize("size", [0, 600])
def test_something_odd_is_found_beside_plain_values(odd: Any, size: int) -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[user.Plain])
    value = {"plain": [{"x": "y"}] * size, "nested": [user.Plain([{"deep": [odd]}])]}

    assert identical(serde.loads_typed(serde.dumps_typed(value)), value)


def test_threads_may_share_a_serializer() -> None:
    serde = JsonPlusSerializer()
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(200):
            value = {"n": [(number, turn), {number}], 2**70 + number: dt.date(2024, 1, 1)}
            if serde.loads_typed(serde.dumps_typed(value)) != value:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_hints_that_cannot_be_looked_up_are_left_out() -> None:
    namespace: dict[str, Any] = {"user": user, "__name__": "serde_types"}
    exec(
        "from __future__ import annotations\nfrom typing import TypedDict\n"
        "class State(TypedDict):\n    a: Nowhere\n    b: list[Plain]\n",
        namespace,
    )

    assert collect_types(namespace["State"]) <= {user.Plain}
