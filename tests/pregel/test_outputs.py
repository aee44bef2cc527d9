"""What a run returns."""

from __future__ import annotations

from langgraph_async.channels import EphemeralValue, LastValue
from langgraph_async.pregel.builder import NodeBuilder
from langgraph_async.pregel.graph import Pregel


async def plus_one(value: int) -> int:
    return value + 1


def two_steps(output: str | list[str]) -> Pregel:
    return Pregel(
        nodes={
            "one": NodeBuilder().subscribe_only("in").do(plus_one).write_to("middle", "out"),
            "two": NodeBuilder().subscribe_only("middle").do(plus_one).write_to("last"),
        },
        channels={
            "in": EphemeralValue(int),
            "middle": EphemeralValue(int),
            "out": EphemeralValue(int),
            "last": LastValue(int),
        },
        input_channels="in",
        output_channels=output,
    )


async def test_an_output_that_is_gone_at_the_end_is_returned_as_it_was_when_it_changed():
    assert await two_steps("out").ainvoke(1) == 2
    assert await two_steps(["out", "middle"]).ainvoke(1) == {"out": 2, "middle": 2}


async def test_outputs_that_stay_and_outputs_that_go_are_returned_as_of_the_last_change():
    assert await two_steps(["out", "last"]).ainvoke(1) == {"last": 3}
