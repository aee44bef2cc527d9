"""Programs over the engine without a builder."""

from __future__ import annotations

from typing import Any

from traces import Trace, watch


def plus(n: int) -> Any:
    async def add(value: Any) -> Any:
        return value + n

    return add


async def same(value: Any) -> Any:
    return value


async def total(values: Any) -> Any:
    return sum(values)


def pregel(lg: Any, nodes: dict[str, Any], channels: dict[str, Any], inputs: Any, outputs: Any, **more: Any) -> Any:
    return lambda saver: lg.Pregel(
        nodes=nodes, channels=channels, input_channels=inputs, output_channels=outputs, checkpointer=saver, **more
    )


async def p_one_process(lg: Any, t: Trace) -> None:
    one = lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("out")
    channels = {"in": lg.LastValue(int), "out": lg.LastValue(int)}
    await watch(t, lg, pregel(lg, {"one": one}, channels, "in", "out"), [2, 5, None])
    await watch(t, lg, pregel(lg, {"one": one}, channels, "in", ["out"]), [2], saver=False)
    await watch(t, lg, pregel(lg, {"one": one}, channels, ["in"], ["out", "in"]), [{"in": 3}, {"nope": 3}])


async def p_two_processes(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("mid"),
        "two": lg.NodeBuilder().subscribe_only("mid").do(plus(1)).write_to("out"),
    }
    for kind in (lg.LastValue, lg.EphemeralValue):
        channels = {"in": kind(int), "mid": kind(int), "out": kind(int)}
        t.case(kind.__name__)
        await watch(t, lg, pregel(lg, nodes, channels, "in", "out"), [2, 5])
        await watch(t, lg, pregel(lg, nodes, channels, "in", ["out", "mid"]), [2, 5])
        await watch(t, lg, pregel(lg, nodes, channels, "in", "out", stream_channels=["mid"]), [2])


async def p_output_that_vanishes(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("mid", "out"),
        "two": lg.NodeBuilder().subscribe_only("mid").do(plus(1)).write_to("else"),
    }
    channels = {
        "in": lg.EphemeralValue(int), "mid": lg.EphemeralValue(int), "out": lg.EphemeralValue(int),
        "else": lg.LastValue(int),
    }  # fmt: skip
    await watch(t, lg, pregel(lg, nodes, channels, "in", "out"), [2, 5])
    await watch(t, lg, pregel(lg, nodes, channels, "in", ["out", "mid"]), [2, 5])


async def p_topics(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("all", "each"),
        "two": lg.NodeBuilder().subscribe_only("in").do(plus(2)).write_to("all", "each"),
        "three": lg.NodeBuilder().subscribe_only("each").do(total).write_to("out"),
        "four": lg.NodeBuilder().subscribe_to("each", "in").read_from("all").do(same).write_to("seen"),
    }
    channels = {
        "in": lg.LastValue(int), "all": lg.Topic(int, accumulate=True), "each": lg.Topic(int),
        "out": lg.LastValue(int), "seen": lg.LastValue(dict),
    }  # fmt: skip
    await watch(t, lg, pregel(lg, nodes, channels, "in", ["out", "all", "each", "seen"]), [2, 5])


async def p_several_inputs(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("a").do(plus(1)).write_to("out"),
        "two": lg.NodeBuilder().subscribe_to("b", "c").do(same).write_to("seen"),
        "three": lg.NodeBuilder().subscribe_to("b", read=False).read_from("a", "b").do(same).write_to("read"),
    }
    channels = {k: lg.LastValue(object) for k in ("a", "b", "c", "out", "seen", "read")}
    build = pregel(lg, nodes, channels, ["a", "b", "c"], ["out", "seen", "read"])
    await watch(t, lg, build, [{"a": 1, "b": 2}, {"c": 3}, {"b": 4}, {"a": 9, "x": 1}, {}])


async def p_write_forms(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder()
        .subscribe_only("in")
        .do(plus(1))
        .do(plus(10))
        .write_to("out", twice=lambda v: v * 2, const=7, none=lambda v: None),
    }
    channels = {k: lg.LastValue(object) for k in ("in", "out", "twice", "const", "none")}
    await watch(t, lg, pregel(lg, nodes, channels, "in", ["out", "twice", "const", "none"]), [1])


async def p_none_written(lg: Any, t: Trace) -> None:
    async def nothing(value: Any) -> Any:
        return None

    nodes = {"one": lg.NodeBuilder().subscribe_only("in").do(nothing).write_to("out")}
    channels = {"in": lg.LastValue(int), "out": lg.LastValue(int)}
    await watch(t, lg, pregel(lg, nodes, channels, "in", "out"), [1])


async def p_cycle(lg: Any, t: Trace) -> None:
    async def half(value: int) -> int:
        return value // 2

    nodes = {
        "one": lg.NodeBuilder().subscribe_only("v").do(half).write_to("v"),
        "log": lg.NodeBuilder().subscribe_only("v").do(same).write_to("seen"),
    }
    channels = {"v": lg.EphemeralValue(object), "seen": lg.Topic(object, accumulate=True)}
    build = pregel(lg, nodes, channels, "v", ["v", "seen"], interrupt_after_nodes=["log"])
    await watch(t, lg, build, [16, None, None])


async def p_raw_breakpoints(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("mid"),
        "two": lg.NodeBuilder().subscribe_only("mid").do(plus(1)).write_to("out"),
    }
    channels = {"in": lg.LastValue(int), "mid": lg.LastValue(int), "out": lg.LastValue(int)}
    for options in ({"interrupt_before_nodes": ["two"]}, {"interrupt_after_nodes": ["one"]}):
        t.case(options)
        await watch(t, lg, pregel(lg, nodes, channels, "in", "out", **options), [2, None, 3, 4, None])


async def p_reducer_channel(lg: Any, t: Trace) -> None:
    import operator

    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("total"),
        "two": lg.NodeBuilder().subscribe_only("in").do(plus(2)).write_to("total"),
    }
    channels = {"in": lg.LastValue(int), "total": lg.BinaryOperatorAggregate(int, operator.add)}
    await watch(t, lg, pregel(lg, nodes, channels, "in", "total"), [2, 5])


async def p_untracked(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("u"),
        "two": lg.NodeBuilder().subscribe_only("u").do(plus(1)).write_to("out"),
    }
    channels = {"in": lg.LastValue(int), "u": lg.UntrackedValue(int), "out": lg.LastValue(int)}
    await watch(t, lg, pregel(lg, nodes, channels, "in", ["out", "u"]), [2, 5])


async def p_tags_and_metadata(lg: Any, t: Trace) -> None:
    nodes = {
        "one": lg.NodeBuilder().subscribe_only("in").do(plus(1)).meta("tag", kind="k").write_to("out"),
        "two": lg.NodeBuilder().subscribe_only("in").do(plus(1)).meta("langsmith:hidden").write_to("hid"),
    }
    channels = {"in": lg.LastValue(int), "out": lg.LastValue(int), "hid": lg.LastValue(int)}
    await watch(
        t,
        lg,
        pregel(lg, nodes, channels, "in", ["out", "hid"]),
        [2],
        config={"tags": ["a"], "metadata": {"m": 1}, "configurable": {"thread_id": "t"}},
    )


async def p_unknown_channels(lg: Any, t: Trace) -> None:
    one = lg.NodeBuilder().subscribe_only("in").do(plus(1)).write_to("out")
    for fields in (
        {"input_channels": "nope", "output_channels": "out"},
        {"input_channels": "in", "output_channels": "nope"},
        {"input_channels": "in", "output_channels": "out", "stream_channels": "nope"},
        {"input_channels": "in", "output_channels": "out", "interrupt_before_nodes": ["nope"]},
        {"input_channels": "out", "output_channels": "out"},
    ):
        try:
            lg.Pregel(nodes={"one": one}, channels={"in": lg.LastValue(int), "out": lg.LastValue(int)}, **fields)
            t.add("made", fields)
        except Exception as exc:
            t.add("refused", exc)
