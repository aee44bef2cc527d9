"""What does it cost to turn a value into bytes, and to read it back?"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.measure import Case, Library, Sampler, UnavailableError, repeated
from benchmarks.report import main


def messages() -> Any:
    try:
        from langchain_core.messages import AIMessage, HumanMessage
    except ImportError as exc:
        raise UnavailableError("messages need langchain_core") from exc
    source = random.Random(1)
    kinds = (HumanMessage, AIMessage)
    return [kinds[n % 2](content="word " * source.randrange(10, 70), id=f"{n:032x}") for n in range(200)]


def floats() -> Any:
    source = random.Random(2)
    return [source.gauss(0, 1) for _ in range(10_000)]


def nested(depth: int = 5, width: int = 5) -> Any:
    if not depth:
        return [1, "two", 3.5, None, True]
    return {f"key_{place}": nested(depth - 1, width) for place in range(width)}


def step() -> Any:
    """Return what is stored for a small superstep: a few counters and texts."""
    return {"number": 17, "question": "what is the weather like?", "done": False, "scores": [0.25, 0.5, 0.125]}


VALUES: dict[str, Callable[[], Any]] = {
    "an int": lambda: 17,
    "a small dict": step,
    "200 messages": messages,
    "10,000 floats": floats,
    "nested dict": nested,
}


def prepare(library: Library, value: str, read: bool) -> Sampler:
    serde = library.JsonPlusSerializer()
    given = VALUES[value]()
    stored = serde.dumps_typed(given)
    assert serde.loads_typed(stored) == given

    async def dump() -> None:
        serde.dumps_typed(given)

    async def load() -> None:
        serde.loads_typed(stored)

    return repeated(load if read else dump, 1)


CASES = [
    Case("serializer", f"{'read' if read else 'write'} {value}", "value", partial(prepare, value=value, read=read))
    for value in VALUES
    for read in (False, True)
]

if __name__ == "__main__":
    main(CASES)
