"""Programs with graphs inside graphs."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from programs import S, compiled, link, says
from programs_pauses import asks
from traces import Trace, Turn, watch
from typing_extensions import TypedDict


class Inner(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    y: Any


class OnlyLog(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


def inner(lg: Any, question: bool = False, **options: Any) -> Any:
    builder = lg.StateGraph(S)
    builder.add_node("i1", says("i1"))
    builder.add_node("i2", asks(lg, "i2") if question else says("i2"))
    builder.add_node("i3", says("i3"))
    link(lg, builder, "^-i1 i1-i2 i2-i3")
    return builder.compile(**options)


def outer(lg: Any, node: Any, edges: str = "^-a a-sub sub-b") -> Any:
    builder = lg.StateGraph(S)
    builder.add_node("a", says("a"))
    builder.add_node("sub", node)
    builder.add_node("b", says("b"))
    link(lg, builder, edges)
    return builder


async def p_plain_subgraph(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(outer(lg, inner(lg))), [{"x": 0}, {"x": 1}])


async def p_subgraph_without_saver(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(outer(lg, inner(lg))), [{"x": 0}], saver=False)


async def p_subgraph_with_memory(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(outer(lg, inner(lg, checkpointer=True))), [{"x": 0}, {"x": 1}])


async def p_subgraph_never_stored(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(outer(lg, inner(lg, checkpointer=False))), [{"x": 0}, {"x": 1}])


async def p_subgraph_called_in_a_node(lg: Any, t: Trace) -> None:
    sub = inner(lg)

    async def call(state: S) -> Any:
        found = await sub.ainvoke({"log": ["call"]})
        return {"log": found["log"]}

    await watch(t, lg, compiled(outer(lg, call)), [{"x": 0}])


async def p_subgraph_called_twice(lg: Any, t: Trace) -> None:
    for memory in (None, True, False):
        t.case(memory)
        sub = inner(lg, checkpointer=memory)

        async def call(state: S, sub: Any = sub) -> Any:
            one = await sub.ainvoke({"log": ["one"]})
            two = await sub.ainvoke({"log": ["two"]})
            return {"log": [len(one["log"]), len(two["log"])]}

        await watch(t, lg, compiled(outer(lg, call)), [{"x": 0}, {"x": 1}])


async def p_subgraph_streamed_in_a_node(lg: Any, t: Trace) -> None:
    sub = inner(lg)

    async def call(state: S) -> Any:
        items = [item async for item in sub.astream({"log": ["call"]})]
        more = [
            item async for item in sub.astream({"log": ["call"]}, stream_mode=["updates", "custom"], subgraphs=True)
        ]
        return {"log": [t.plain(items), t.plain(more)]}

    await watch(t, lg, compiled(outer(lg, call)), [{"x": 0}])


async def p_other_schema_in_a_node(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(Inner)
    builder.add_node("i", lambda s: {"log": ["i"], "y": 1})
    builder.add_edge(lg.START, "i")
    await watch(t, lg, compiled(outer(lg, builder.compile())), [{"x": 0}])


async def p_three_levels(lg: Any, t: Trace) -> None:
    middle = lg.StateGraph(S)
    middle.add_node("m1", says("m1"))
    middle.add_node("deep", inner(lg))
    link(lg, middle, "^-m1 m1-deep")
    await watch(t, lg, compiled(outer(lg, middle.compile())), [{"x": 0}])


async def p_question_in_a_subgraph(lg: Any, t: Trace) -> None:
    for memory in (None, True, False):
        t.case(memory)
        sub = inner(lg, question=True, checkpointer=memory)
        await watch(t, lg, compiled(outer(lg, sub)), [{"x": 0}, lg.Command(resume="yes")])


async def p_question_in_a_called_subgraph(lg: Any, t: Trace) -> None:
    for memory in (None, True, False):
        t.case(memory)
        sub = inner(lg, question=True, checkpointer=memory)

        async def call(state: S, sub: Any = sub) -> Any:
            return {"log": (await sub.ainvoke({"log": ["c"]}))["log"]}

        await watch(t, lg, compiled(outer(lg, call)), [{"x": 0}, lg.Command(resume="yes")])


async def p_question_three_levels_down(lg: Any, t: Trace) -> None:
    middle = lg.StateGraph(S)
    middle.add_node("m1", says("m1"))
    middle.add_node("deep", inner(lg, question=True))
    link(lg, middle, "^-m1 m1-deep")
    await watch(t, lg, compiled(outer(lg, middle.compile())), [{"x": 0}, lg.Command(resume="yes")])


async def p_breakpoint_in_a_subgraph(lg: Any, t: Trace) -> None:
    for options in ({"interrupt_before": ["i2"]}, {"interrupt_after": ["i1"]}):
        t.case(options)
        await watch(t, lg, compiled(outer(lg, inner(lg, **options))), [{"x": 0}, None])


async def p_parent_command(lg: Any, t: Trace) -> None:
    commands = {
        "goto": {"goto": "b"},
        "update": {"update": {"x": 5, "log": ["up"]}, "goto": "b"},
        "send": {"goto": [lg.Send("b", {"x": 1})]},
        "plain": {"update": {"log": ["up"]}},
    }
    for name, fields in commands.items():
        for edges in ("^-a a-sub", "^-a a-sub sub-b"):
            t.case((name, edges))
            builder = lg.StateGraph(S)
            builder.add_node("i1", says("i1"))
            builder.add_node("i2", lambda s, f=fields: lg.Command(graph=lg.Command.PARENT, **f))
            link(lg, builder, "^-i1 i1-i2")
            await watch(t, lg, compiled(outer(lg, builder.compile(), edges)), [{"x": 0}])


async def p_parent_command_from_two_levels(lg: Any, t: Trace) -> None:
    deep = lg.StateGraph(S)
    deep.add_node("d", lambda s: lg.Command(graph=lg.Command.PARENT, goto="m2", update={"log": ["d"]}))
    deep.add_edge(lg.START, "d")
    middle = lg.StateGraph(S)
    middle.add_node("m1", deep.compile())
    middle.add_node("m2", lambda s: lg.Command(graph=lg.Command.PARENT, goto="b", update={"log": ["m2"]}))
    middle.add_edge(lg.START, "m1")
    await watch(t, lg, compiled(outer(lg, middle.compile(), "^-a a-sub")), [{"x": 0}])


async def p_raised_parent_command_by_name(lg: Any, t: Trace) -> None:
    def up(state: S) -> Any:
        raise lg.ParentCommand(lg.Command(graph="sub", goto="b", update={"log": ["up"]}))

    middle = lg.StateGraph(S)
    deep = lg.StateGraph(S).add_node("d", up).add_edge(lg.START, "d")
    middle.add_node("m", deep.compile())
    middle.add_edge(lg.START, "m")
    await watch(t, lg, compiled(outer(lg, middle.compile(), "^-a a-sub")), [{"x": 0}], shapes=["ainvoke", "all"])


async def p_failing_subgraph(lg: Any, t: Trace) -> None:
    calls: list[int] = []

    async def bad(state: S) -> Any:
        calls.append(1)
        if len(calls) % 2:
            raise ValueError("bad luck")
        return {"log": ["bad"]}

    builder = lg.StateGraph(S)
    builder.add_node("i1", says("i1"))
    builder.add_node("i2", bad)
    link(lg, builder, "^-i1 i1-i2")
    await watch(t, lg, compiled(outer(lg, builder.compile())), [{"x": 0}, None])


async def p_subgraphs_by_sends(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)
    only_log = lg.StateGraph(S, output_schema=OnlyLog)
    only_log.add_node("i", says("i"))
    link(lg, only_log, "^-i")
    builder.add_node("sub", only_log.compile())
    builder.add_conditional_edges(lg.START, lambda s: [lg.Send("sub", {"x": i}) for i in range(2)])
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke v2", "values", "all"])


async def p_own_thread_in_a_node(lg: Any, t: Trace) -> None:
    sub = inner(lg)

    async def call(state: S) -> Any:
        found = await sub.ainvoke({"log": ["c"]}, {"configurable": {"thread_id": "other"}})
        return {"log": found["log"]}

    await watch(t, lg, compiled(outer(lg, call)), [{"x": 0}])


async def p_custom_from_a_subgraph(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S)

    async def i(state: S) -> Any:
        lg.get_stream_writer()("from i")
        return {"log": ["i"]}

    builder.add_node("i", i)
    builder.add_edge(lg.START, "i")
    sub = builder.compile()

    async def call(state: S) -> Any:
        await sub.ainvoke({"log": ["c"]})
        lg.get_stream_writer()("from call")
        return {"log": [[item async for item in sub.astream({}, stream_mode="custom")]]}

    await watch(t, lg, compiled(outer(lg, call)), [{"x": 0}])
    await watch(t, lg, compiled(outer(lg, sub)), [{"x": 0}], shapes=["all", "all nested"])


async def p_subgraph_exit_durability(lg: Any, t: Trace) -> None:
    for memory in (None, True):
        t.case(memory)
        sub = inner(lg, question=True, checkpointer=memory)
        await watch(t, lg, compiled(outer(lg, sub)), [{"x": 0}, lg.Command(resume="1")], durability="exit")


async def p_state_of_an_inner_config(lg: Any, t: Trace) -> None:
    def look(state: S, config: dict) -> Any:
        conf = config["configurable"]
        return {"log": [{k: conf.get(k) for k in ("thread_id", "checkpoint_ns", "checkpoint_id", "mine")}]}

    look.__annotations__ = {}
    builder = lg.StateGraph(S).add_node("look", look).add_edge(lg.START, "look")
    turn = Turn({"x": 0}, {"configurable": {"thread_id": "t", "mine": 3}})
    await watch(t, lg, compiled(outer(lg, builder.compile())), [turn])
