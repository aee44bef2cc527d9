"""Every wrong use is an error that says what happened, where, and what to do."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from drawings import State, chain, logs, says
from pydantic import BaseModel
from threads import on, stored
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import (
    ConfigError,
    EmptyInputError,
    GraphBuildError,
    InvalidUpdateError,
    LangGraphError,
    MissingCoordinateError,
    ResumeError,
    SchemaError,
)


def builder(*names: str) -> StateGraph:
    made = StateGraph(State)
    for name in names:
        made.add_node(name, logs(name))
    return made


def explains(exc: BaseException, *words: str) -> None:
    text = str(exc)
    assert isinstance(exc, LangGraphError)
    assert exc.code
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"


def entered(*names: str) -> StateGraph:
    return builder(*names).add_edge(START, names[0])


class Unreduced(TypedDict):
    x: Annotated[int, lambda a: a]


DRAWINGS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "unknown_start": (lambda: entered("a").add_edge("nowhere", "a").compile(name="G"), ("'nowhere'", "'G'")),
    "unknown_end": (lambda: entered("apple").add_edge("apple", "appel").compile(name="G"), ("`appel`", "'G'", "apple")),
    "unknown_in_join": (lambda: entered("a").add_edge(["a", "nowhere"], "a"), ("`nowhere`", "add_node")),
    "unknown_in_path_map": (
        lambda: entered("a").add_conditional_edges("a", lambda s: "x", {"x": "nowhere"}).compile(name="G"),
        ("'nowhere'", "'a'", "'G'"),
    ),
    "unknown_source_of_branch": (
        lambda: entered("a").add_conditional_edges("nowhere", lambda s: "a").compile(name="G"),
        ("'nowhere'", "'G'"),
    ),
    "no_entry": (lambda: builder("a", "b").add_edge("a", "b").compile(name="G"), ("entrypoint", "'G'", "START")),
    "nothing": (lambda: StateGraph(State).compile(name="G"), ("entrypoint", "'G'")),
    "duplicate_node": (lambda: builder("a", "a"), ("`a`", "already present")),
    "duplicate_branch": (
        lambda: (
            entered("a").add_conditional_edges("a", lambda s: "a").add_conditional_edges("a", lambda s: END).compile()
        ),
        ("already exists", "`a`"),
    ),
    "duplicate_in_sequence": (lambda: StateGraph(State).add_sequence([("a", says({})), ("a", says({}))]), ("a",)),
    "empty_sequence": (lambda: StateGraph(State).add_sequence([]), ("at least one",)),
    "reserved_start": (lambda: builder(START), ("__start__", "reserved")),
    "reserved_end": (lambda: builder(END), ("__end__", "reserved")),
    "reserved_bar": (lambda: builder("a|b"), ("'|'", "a|b")),
    "reserved_colon": (lambda: builder("a:b"), ("':'", "a:b")),
    "edge_from_end": (lambda: entered("a").add_edge(END, "a"), ("END",)),
    "edge_to_start": (lambda: entered("a").add_edge("a", START), ("START",)),
    "breakpoint": (lambda: entered("apple").compile(name="G", interrupt_before=["appel"]), ("appel", "'G'", "apple")),
    "breakpoint_after": (lambda: entered("a").compile(name="G", interrupt_after=["b"]), ("`b`", "'G'")),
    "breakpoint_text": (
        lambda: entered("a").compile(name="G", interrupt_before="a"),
        ("interrupt_before", "'a'", "list"),
    ),
    "not_callable": (lambda: StateGraph(State).add_node("a", 5), ("function", "5")),
    "nothing_to_do": (lambda: StateGraph(State).add_node("a"), ("'a'", "add_node")),
    "renamed": (lambda: entered("a").compile(name="G", renamed={"old": "nowhere"}), ("'nowhere'", "'G'")),
    "on_missing": (lambda: entered("a").add_edge(["a"], "a", on_missing="maybe"), ("on_missing", "'maybe'")),
    "timeout_of_sync": (
        lambda: StateGraph(State).add_node("a", lambda s: {}, timeout=1).add_edge(START, "a").compile(),
        ("'a'", "async"),
    ),
}


@pytest.mark.parametrize("kind", DRAWINGS)
def test_a_drawing_that_cannot_run_is_refused(kind):
    make, words = DRAWINGS[kind]
    with pytest.raises((GraphBuildError, SchemaError)) as caught:
        make()

    explains(caught.value, *words)


@pytest.mark.parametrize("reducer", [lambda a: a, lambda a, b, c: a])
def test_a_reducer_that_does_not_take_two_values_is_refused_by_name(reducer):
    class Schema(TypedDict):
        total: Annotated[int, reducer]

    with pytest.raises(SchemaError) as caught:
        StateGraph(Schema)

    explains(caught.value, "total", "reducer")


@pytest.mark.parametrize("saver", [5, "saver", InMemorySaver, object()])
def test_a_checkpointer_that_is_none_is_refused(saver):
    with pytest.raises(TypeError, match="checkpointer"):
        entered("a").compile(checkpointer=saver)


@dataclass
class Ctx:
    user: str


class ModelCtx(BaseModel):
    user: str


CALLS: dict[str, tuple[Any, Any, tuple[str, ...]]] = {
    "durability": ({"durability": "later"}, {}, ("durability", "'sync'", "'later'")),
    "output_keys": ({"output_keys": ["lgo"]}, {}, ("lgo", "'G'", "log")),
    "output_key": ({"output_keys": "nothing"}, {}, ("nothing", "'G'")),
    "interrupt_before": ({"interrupt_before": ["nowhere"]}, {}, ("interrupt_before", "'nowhere'", "'G'")),
    "interrupt_after": ({"interrupt_after": ["nowhere"]}, {}, ("interrupt_after", "'nowhere'", "'G'")),
    "recursion_limit": ({}, {"recursion_limit": 0}, ("recursion_limit", "0")),
    "recursion_limit_negative": ({}, {"recursion_limit": -3}, ("recursion_limit", "-3")),
    "recursion_limit_text": ({}, {"recursion_limit": "5"}, ("recursion_limit", "'5'")),
    "recursion_limit_bool": ({}, {"recursion_limit": True}, ("recursion_limit", "True")),
    "recursion_limit_float": ({}, {"recursion_limit": 2.5}, ("recursion_limit", "2.5")),
    "max_concurrency": ({}, {"max_concurrency": 0}, ("max_concurrency", "0")),
    "max_concurrency_bool": ({}, {"max_concurrency": True}, ("max_concurrency", "True")),
    "max_concurrency_text": ({}, {"max_concurrency": "2"}, ("max_concurrency", "'2'")),
    "multitask": ({}, {"multitask_strategy": "queue"}, ("multitask_strategy", "'queue'", "'enqueue'")),
    "misplaced": ({}, {"configurable": {"thread_id": "t", "max_concurrency": 2}}, ("max_concurrency", "top level")),
    "configurable": ({}, {"configurable": "t"}, ("configurable", "dict")),
    "config": (None, "thread", ("config", "dict")),
    "tags": ({}, {"tags": "tag"}, ("tags", "list")),
    "metadata": ({}, {"metadata": ["m"]}, ("metadata", "dict")),
    "context": ({"context": 5}, {}, ("context", "Ctx")),
    "context_field": ({"context": {"name": "x"}}, {}, ("context", "name")),
    "context_model": ({"context": {"name": "x"}}, {}, ("context", "user")),
    "stream_mode": ({"stream_mode": "vlaues"}, {}, ("vlaues", "values")),
    "stream_modes": ({"stream_mode": ["values", 5]}, {}, ("5",)),
    "version": ({"version": "v3"}, {}, ("v3",)),
}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", CALLS)
async def test_a_wrong_argument_of_a_run_is_refused_before_anything_is_stored(kind, streamed):
    options, config, words = CALLS[kind]
    made = StateGraph(State, context_schema=ModelCtx if kind.endswith("model") else Ctx)
    made.add_node("a", logs("a"))
    made.add_edge(START, "a")
    graph = made.compile(checkpointer=InMemorySaver(), name="G")
    given = config if isinstance(config, str) else {**on(), **config}

    with pytest.raises(ConfigError) as caught:
        if streamed:
            async for _ in graph.astream({"log": []}, given, **(options or {})):
                pass
        else:
            await graph.ainvoke({"log": []}, given, **(options or {}))

    explains(caught.value, *words)
    assert (await stored(graph, on())).checkpoints == 0


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"configurable": {}},
        {"configurable": {"checkpoint_ns": ""}},
        {"configurable": {"checkpoint_id": "1"}},
        {"configurable": {"thread_id": None}},
    ],
)
async def test_a_config_without_a_thread_is_refused_where_there_is_a_saver(config):
    with pytest.raises(MissingCoordinateError) as caught:
        await chain(saver=InMemorySaver(), a=logs("a")).ainvoke({}, config)

    explains(caught.value, "thread_id", "'G'", "configurable")


async def test_a_checkpoint_that_does_not_exist_is_refused():
    graph = chain(saver=InMemorySaver(), a=logs("a"))
    await graph.ainvoke({}, on())

    with pytest.raises(ConfigError) as caught:
        await graph.ainvoke(None, {"configurable": {"thread_id": "t", "checkpoint_id": "nothing"}})

    explains(caught.value, "'nothing'", "'t'")


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("value", [None, Command()])
async def test_an_empty_input_is_refused(saved, value):
    graph = chain(saver=InMemorySaver() if saved else None, a=logs("a"))
    with pytest.raises(EmptyInputError) as caught:
        await graph.ainvoke(value, on())

    explains(caught.value, "input")


@pytest.mark.parametrize("value", ["text", 5, [1], [("log", [])], b"x", {1, 2}, object()])
async def test_an_input_that_is_no_dict_is_refused(value):
    graph = chain(saver=InMemorySaver(), a=logs("a"))
    with pytest.raises(InvalidUpdateError) as caught:
        await graph.ainvoke(value, on())

    explains(caught.value, "Expected dict", "input")
    assert (await stored(graph, on())).checkpoints == 0


async def test_a_resume_without_a_saver_is_refused():
    with pytest.raises(ResumeError) as caught:
        await chain(a=logs("a")).ainvoke(Command(resume="yes"))

    explains(caught.value, "checkpointer", "compile")


async def test_a_command_for_a_parent_of_a_root_is_refused():
    with pytest.raises(InvalidUpdateError, match="no parent graph"):
        await chain(saver=InMemorySaver(), a=logs("a")).ainvoke(Command(graph=Command.PARENT, update={"log": []}), on())
    graph = chain(saver=InMemorySaver(), a=logs("a"))
    await graph.ainvoke({}, on())
    with pytest.raises(InvalidUpdateError, match="no parent graph"):
        await graph.ainvoke(Command(graph=Command.PARENT, update={"log": []}), on())


@pytest.mark.parametrize("update", ["text", 5, [1], object()])
async def test_an_update_of_a_command_that_is_no_dict_is_refused(update):
    with pytest.raises(InvalidUpdateError, match=r"(?s)Expected dict.*'a'"):
        await chain(a=says(Command(update=update))).ainvoke({})


@pytest.mark.parametrize("goto", [5, ["a", 5], object()])
async def test_a_goto_that_is_no_name_is_refused(goto):
    with pytest.raises(InvalidUpdateError, match=r"goto.*'a'"):
        await chain(a=says(Command(goto=goto))).ainvoke({})


@pytest.mark.parametrize("result", [None, START, 5, ["a", None], {"a": 1}])
async def test_a_router_that_leads_nowhere_is_refused_by_name(result):
    def router(state):
        return result

    made = entered("a").add_conditional_edges("a", router)
    with pytest.raises(ValueError, match=r"'router'.*'a'") as caught:
        await made.compile().ainvoke({"log": []})

    explains(caught.value, "Branch")


async def test_a_router_whose_result_its_path_map_lacks_is_refused_by_name():
    def router(state):
        return "y"

    made = entered("a").add_conditional_edges("a", router, {"x": END})
    with pytest.raises(KeyError) as caught:
        await made.compile().ainvoke({"log": []})

    explains(caught.value, "'y'", "path_map", "'router'")


async def test_two_values_for_a_plain_key_name_key_and_nodes():
    made = StateGraph(State)
    for name in ("one", "two"):
        made.add_node(name, says({"x": name}))
        made.add_edge(START, name)
    with pytest.raises(InvalidUpdateError) as caught:
        await made.compile(name="G").ainvoke({})

    explains(caught.value, "'x'", "'one'", "'two'", "'G'", "Annotated", "INVALID_CONCURRENT_GRAPH_UPDATE")


async def test_two_nodes_cannot_both_overwrite_a_key():
    from langgraph_async import Overwrite

    class Reduced(TypedDict):
        log: Annotated[list, operator.add]

    made = StateGraph(Reduced)
    for name in ("one", "two"):
        made.add_node(name, says({"log": Overwrite([name])}))
        made.add_edge(START, name)
    with pytest.raises(InvalidUpdateError) as caught:
        await made.compile().ainvoke({"log": []})

    explains(caught.value, "'log'", "'one', 'two'")


async def test_a_graph_with_memory_of_its_own_cannot_be_a_root():
    with pytest.raises(RuntimeError, match="checkpointer=True"):
        await entered("a").compile(checkpointer=True).ainvoke({}, on())


async def test_a_batch_with_a_wrong_number_of_configs_is_refused():
    with pytest.raises(ValueError, match=r"2 inputs.*1 configs"):
        await chain(a=logs("a")).abatch([{}, {}], [{}])


def test_a_blocking_call_inside_an_event_loop_says_what_to_use():
    import asyncio

    async def main():
        chain(a=logs("a")).invoke({})

    with pytest.raises(RuntimeError, match="ainvoke"):
        asyncio.run(main())
