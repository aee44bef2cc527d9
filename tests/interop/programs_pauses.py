"""Programs that stop: static breakpoints and questions, one after another, at once, in nested graphs."""

from __future__ import annotations

from typing import Any

from programs import S, compiled, graph, link, says
from traces import Trace, Turn, watch


def asks(lg: Any, name: str, times: int = 1) -> Any:
    """Return a node that asks, and logs the answers."""

    async def node(state: S) -> Any:
        return {"log": [f"{name}:{lg.interrupt(f'{name}?{i}')}" for i in range(times)]}

    return node


def asking(lg: Any, edges: str, questions: dict[str, int], silent: str = "") -> Any:
    builder = lg.StateGraph(S)
    for name, times in questions.items():
        builder.add_node(name, asks(lg, name, times))
    for name in silent.split():
        builder.add_node(name, says(name))
    link(lg, builder, edges)
    return builder


async def p_breakpoints(lg: Any, t: Trace) -> None:
    for options in (
        {"interrupt_before": ["b"]},
        {"interrupt_after": ["b"]},
        {"interrupt_before": "*"},
        {"interrupt_after": "*"},
        {"interrupt_before": ["b"], "interrupt_after": ["b"]},
        {"interrupt_before": ["a"]},
        {"interrupt_after": ["c"]},
    ):
        t.case(options)
        builder = graph(lg, "a b c", "^a ab bc")
        await watch(t, lg, compiled(builder, **options), [{"x": 0}, None, None, None, {"x": 1}, None])


async def p_breakpoints_of_a_run(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a ab bc")
    turns = [
        Turn({"x": 0}, call={"interrupt_before": ["b"]}),
        Turn(None, call={"interrupt_after": ["b"]}),
        Turn(None, call={"interrupt_after": []}),
    ]
    await watch(t, lg, compiled(builder, interrupt_before=["c"]), turns)


async def p_breakpoint_without_saver(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a ab bc")
    await watch(t, lg, compiled(builder, interrupt_before=["b"]), [{"x": 0}], saver=False)


async def p_breakpoint_passed_by_commands(lg: Any, t: Trace) -> None:
    for command in (
        lg.Command(resume="x"),
        lg.Command(update={"x": 5}),
        lg.Command(goto="c"),
        lg.Command(goto=lg.Send("b", {"x": 3})),
    ):
        t.case(command)
        builder = graph(lg, "a b c", "^a ab bc")
        await watch(t, lg, compiled(builder, interrupt_before=["b"]), [{"x": 0}, command, None])


async def p_breakpoint_new_input(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c", "^a ab bc")
    await watch(t, lg, compiled(builder, interrupt_before=["b"]), [{"x": 0}, {"x": 1}, None])


async def p_breakpoint_in_parallel(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b c d", "^a ab ac bcd")
    await watch(t, lg, compiled(builder, interrupt_before=["b"]), [{"x": 0}, None])


async def p_breakpoint_on_sends(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "^a")
    builder.add_conditional_edges("a", lambda s: [lg.Send("b", {"x": 1}), lg.Send("b", {"x": 2})])
    await watch(t, lg, compiled(builder, interrupt_before=["b"], interrupt_after=["b"]), [{"x": 0}, None, None])


async def p_one_question(lg: Any, t: Trace) -> None:
    for answer in ("yes", 0, "", False, {"k": 1}, [1]):
        t.case(answer)
        builder = asking(lg, "^a ab bc", {"b": 1}, "a c")
        await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume=answer)])


async def p_question_without_saver(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(asking(lg, "^a ab", {"b": 1}, "a")), [{"x": 0}], saver=False)


async def p_two_questions_in_a_row(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ab", {"a": 2}, "b")
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1"), lg.Command(resume="2")])


async def p_question_then_question(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ab bc", {"a": 1, "b": 1}, "c")
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1"), lg.Command(resume="2"), {"x": 5}])


async def p_parallel_questions_by_map(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ^b ^s abd", {"a": 1, "b": 1}, "s d")

    def answers(last: Any) -> Any:
        return lg.Command(resume={q.id: f"to {q.value}" for q in last["__interrupt__"]})

    await watch(t, lg, compiled(builder), [{"x": 0}, answers], shapes=["ainvoke"])


async def p_parallel_questions_ambiguous(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ^b", {"a": 1, "b": 1})
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1")])


async def p_question_and_finished_sibling(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ^b abc", {"a": 1}, "b c")
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1")])


async def p_question_and_failing_sibling(lg: Any, t: Trace) -> None:
    async def bad(state: S) -> Any:
        raise ValueError("no")

    builder = asking(lg, "^a", {"a": 1})
    builder.add_node("z", bad)
    builder.add_edge(lg.START, "z")
    await watch(t, lg, compiled(builder), [{"x": 0}])


async def p_answer_with_update_and_goto(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ab", {"a": 1}, "b c")
    for command in (
        lg.Command(resume="1", update={"x": 7}),
        lg.Command(resume="1", goto="c"),
        lg.Command(resume="1", update={"log": ["u"]}, goto=["c"]),
    ):
        t.case(command)
        await watch(t, lg, compiled(builder), [{"x": 0}, command])


async def p_update_while_paused(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ab", {"a": 1}, "b c")
    for command in (lg.Command(update={"x": 7}), lg.Command(goto="c")):
        t.case(command)
        await watch(t, lg, compiled(builder), [{"x": 0}, command, lg.Command(resume="1")])


async def p_new_input_while_paused(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ab", {"a": 1}, "b")
    await watch(t, lg, compiled(builder), [{"x": 0}, {"x": 1}, lg.Command(resume="1"), None])


async def p_none_while_paused(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ^s asb", {"a": 1}, "b s")
    await watch(t, lg, compiled(builder), [{"x": 0}, None, lg.Command(resume="1")])


async def p_questions_from_sends(lg: Any, t: Trace) -> None:
    async def ask(state: Any) -> Any:
        return {"log": [lg.interrupt(state["i"])]}

    builder = lg.StateGraph(S)
    builder.add_node("a", ask)
    builder.add_conditional_edges(lg.START, lambda s: [lg.Send("a", {"i": i}) for i in range(3)])

    def answers(last: Any) -> Any:
        return lg.Command(resume={q.id: q.value * 10 for q in last["__interrupt__"]})

    await watch(t, lg, compiled(builder), [{"x": 0}, answers], shapes=["ainvoke"])


async def p_answer_nobody_asked(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "^a ab")
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1")])
    await watch(t, lg, compiled(builder), [lg.Command(resume="1")], shapes=["ainvoke", "all"])
    await watch(t, lg, compiled(builder), [lg.Command(resume="1")], saver=False, shapes=["ainvoke"])


async def p_none_after_the_end(lg: Any, t: Trace) -> None:
    await watch(t, lg, compiled(graph(lg, "a b", "^a ab")), [{"x": 0}, None, {}])


async def p_pauses_with_exit_durability(lg: Any, t: Trace) -> None:
    builder = asking(lg, "^a ^s asb", {"a": 1}, "b s")
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1")], durability="exit")


async def p_question_writes_custom(lg: Any, t: Trace) -> None:
    async def ask(state: S) -> Any:
        lg.get_stream_writer()("before")
        answer = lg.interrupt({"q": [1]})
        lg.get_stream_writer()(answer)
        return {"log": [answer]}

    builder = lg.StateGraph(S).add_node("a", ask).add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": 0}, lg.Command(resume="1")])


async def p_run_from_a_checkpoint(lg: Any, t: Trace) -> None:
    ids: list[str] = []

    def build(saver: Any) -> Any:
        ids.clear()
        ids.append(saver)
        return graph(lg, "a b c", "^a ab bc").compile(checkpointer=saver)

    for source in ({"x": 0}, None):
        t.case(source)
        for index in (1, 2, 3, 4):
            saver = lg.InMemorySaver()
            g = graph(lg, "a b c", "^a ab bc").compile(checkpointer=saver)
            await g.ainvoke({"x": 0}, {"configurable": {"thread_id": "t"}})
            rows = [row async for row in saver.alist({"configurable": {"thread_id": "t"}})]
            config = rows[index].config
            t.add("from", rows[index].metadata)
            mode = ["values", "updates", "tasks", "checkpoints"]
            async for item in g.astream(source and {"x": 9}, config, stream_mode=mode):
                t.add("item", item)
            from traces import stored

            await stored(t, saver)
