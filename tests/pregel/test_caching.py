"""Nodes with a cache policy: what is kept, when it is used, and what must never be."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, Send, StateGraph, interrupt
from langgraph_async.aio.clock import FakeClock
from langgraph_async.cache.base import BaseCache, FullKey
from langgraph_async.cache.memory import InMemoryCache
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.serde.msgpack import JsonPlusSerializer
from langgraph_async.types import CachePolicy, RetryPolicy, default_cache_key


class State(TypedDict, total=False):
    n: int
    out: Annotated[list[Any], operator.add]


class Counted:
    """A node that counts its runs."""

    def __init__(self, result: Callable[[Any], Any] = lambda state: {"out": [state["n"] * 10]}) -> None:
        self.runs: list[Any] = []
        self.result = result

    async def __call__(self, state: Any) -> Any:
        self.runs.append(dict(state))
        return self.result(state)


class WatchedCache(InMemoryCache[Any]):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Sequence[FullKey]] = []
        self.given: list[Mapping[FullKey, Any]] = []

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        self.asked.append(list(keys))
        return await super().aget(keys)

    async def aset(self, pairs: Mapping[FullKey, Any]) -> None:
        self.given.append(dict(pairs))
        await super().aset(pairs)


class BrokenCache(BaseCache[Any]):
    """A cache whose server is gone."""

    async def aget(self, keys: Any) -> Any:
        raise ConnectionError("gone")

    async def aset(self, pairs: Any) -> None:
        raise ConnectionError("gone")

    async def aclear(self, namespaces: Any = None) -> None:
        raise ConnectionError("gone")


_ALWAYS = CachePolicy()


def graph_of(node: Any, *, policy: CachePolicy | None = _ALWAYS, **compiled: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("work", node, cache_policy=policy)
    builder.add_edge(START, "work")
    builder.add_edge("work", END)
    return builder.compile(**{"cache": InMemoryCache(), **compiled})


async def test_the_same_input_runs_a_node_once() -> None:
    node = Counted()
    graph = graph_of(node)

    first, second, other = [await graph.ainvoke({"n": n}) for n in (1, 1, 2)]

    assert (first, second, other) == ({"n": 1, "out": [10]}, {"n": 1, "out": [10]}, {"n": 2, "out": [20]})
    assert [run["n"] for run in node.runs] == [1, 2]


async def test_a_node_without_a_policy_is_not_cached_and_costs_the_cache_nothing() -> None:
    node, cache = Counted(), WatchedCache()
    graph = graph_of(node, policy=None, cache=cache)

    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert (len(node.runs), cache.asked, cache.given) == (2, [], [])


async def test_a_policy_without_a_cache_has_no_effect() -> None:
    node = Counted()
    graph = graph_of(node, cache=None)

    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert len(node.runs) == 2


async def test_a_hit_is_streamed_as_cached_and_has_no_task_result() -> None:
    graph = graph_of(Counted())
    await graph.ainvoke({"n": 1})

    found = [item async for item in graph.astream({"n": 1}, stream_mode=["updates", "tasks"])]

    assert ("updates", {"work": {"out": [10]}, "__metadata__": {"cached": True}}) in found
    assert [data for mode, data in found if mode == "tasks" and "result" in data] == []


async def test_a_miss_is_streamed_as_ever() -> None:
    graph = graph_of(Counted())

    assert [item async for item in graph.astream({"n": 1}, stream_mode="updates")] == [{"work": {"out": [10]}}]


async def test_the_writes_of_a_hit_are_stored_like_any() -> None:
    class Watching(InMemorySaver):
        def __init__(self) -> None:
            super().__init__()
            self.written: list[Any] = []

        async def acommit(self, config: Any, commit: Any) -> Any:
            self.written.extend(write for rows in commit.writes for write in rows.writes)
            return await super().acommit(config, commit)

    saver = Watching()
    graph = graph_of(Counted(), checkpointer=saver)

    for thread in ("a", "b"):
        await graph.ainvoke({"n": 1}, {"configurable": {"thread_id": thread}}, durability="sync")

    assert [value for channel, value in saver.written if channel == "out"] == [[10], [10]]


async def test_a_whole_superstep_is_looked_up_and_kept_at_once() -> None:
    cache = WatchedCache()
    builder = StateGraph(State)
    for name in ("a", "b"):
        builder.add_node(name, Counted(), cache_policy=CachePolicy())
        builder.add_edge(START, name)

    await builder.compile(cache=cache).ainvoke({"n": 1})

    assert [len(keys) for keys in cache.asked] == [2]
    assert [len(pairs) for pairs in cache.given] == [2]


async def test_each_send_is_cached_by_its_own_input() -> None:
    node = Counted()
    builder = StateGraph(State)
    builder.add_node("work", node, cache_policy=CachePolicy())
    builder.add_conditional_edges(START, lambda s: [Send("work", {"n": i}) for i in range(s["n"])], ["work"])
    graph = builder.compile(cache=InMemoryCache())

    assert (await graph.ainvoke({"n": 2}))["out"] == [0, 10]
    assert (await graph.ainvoke({"n": 4}))["out"] == [0, 10, 20, 30]

    assert [run["n"] for run in node.runs] == [0, 1, 2, 3]


async def test_a_routing_is_kept_with_the_result() -> None:
    node, end = Counted(), Counted(lambda state: {"out": ["end"]})
    builder = StateGraph(State)
    builder.add_node("work", node, cache_policy=CachePolicy())
    builder.add_node("end", end)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: "end", ["end"])
    graph = builder.compile(cache=InMemoryCache())

    outputs = [(await graph.ainvoke({"n": 1}))["out"] for _ in range(2)]

    assert outputs == [[10, "end"], [10, "end"]]
    assert (len(node.runs), len(end.runs)) == (1, 2)


async def test_a_command_is_kept_with_its_goto() -> None:
    node = Counted(lambda state: Command(update={"out": [1]}, goto="end"))
    builder = StateGraph(State)
    builder.add_node("work", node, cache_policy=CachePolicy(), destinations=("end",))
    builder.add_node("end", Counted(lambda state: {"out": ["end"]}))
    builder.add_edge(START, "work")
    graph = builder.compile(cache=InMemoryCache())

    assert [(await graph.ainvoke({"n": 1}))["out"] for _ in range(2)] == [[1, "end"], [1, "end"]]
    assert len(node.runs) == 1


async def test_a_node_that_writes_nothing_is_cached_too() -> None:
    node = Counted(lambda state: None)
    graph = graph_of(node)

    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert len(node.runs) == 1


async def test_a_failure_is_not_kept_and_what_succeeded_beside_it_is() -> None:
    def fail(state: Any) -> Any:
        raise ValueError("no")

    bad, good = Counted(fail), Counted()
    builder = StateGraph(State)
    for name, node in (("bad", bad), ("good", good)):
        builder.add_node(name, node, cache_policy=CachePolicy())
        builder.add_edge(START, name)
    graph = builder.compile(cache=InMemoryCache())

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await graph.ainvoke({"n": 1})

    assert (len(bad.runs), len(good.runs)) == (2, 1)


async def test_a_result_that_came_at_the_second_attempt_is_kept() -> None:
    def flaky(state: Any) -> Any:
        if len(node.runs) == 1:
            raise ValueError("once")
        return {"out": [1]}

    node = Counted(flaky)
    builder = StateGraph(State)
    retry = RetryPolicy(initial_interval=0, jitter=False, retry_on=ValueError)
    builder.add_node("work", node, cache_policy=CachePolicy(), retry_policy=retry)
    builder.add_edge(START, "work")
    graph = builder.compile(cache=InMemoryCache())

    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert len(node.runs) == 2


async def test_a_pause_and_what_its_answer_led_to_are_not_kept() -> None:
    cache = WatchedCache()
    graph = graph_of(lambda state: {"out": [interrupt("?")]}, cache=cache, checkpointer=InMemorySaver())

    for thread, answer in (("a", "yes"), ("b", "no")):
        config = {"configurable": {"thread_id": thread}}
        assert (await graph.ainvoke({"n": 1}, config))["__interrupt__"][0].value == "?"
        assert (await graph.ainvoke(Command(resume=answer), config))["out"] == [answer]

    assert cache.given == []


async def test_an_answer_to_a_graph_inside_is_not_kept_for_the_node_around_it() -> None:
    cache = WatchedCache()
    inner = graph_of(lambda state: {"out": [interrupt("?")]}, policy=None, cache=None)
    graph = graph_of(inner, cache=cache, checkpointer=InMemorySaver())

    for thread, answer in (("a", "yes"), ("b", "no")):
        config = {"configurable": {"thread_id": thread}}
        await graph.ainvoke({"n": 1}, config)
        assert (await graph.ainvoke(Command(resume=answer), config))["out"] == [answer]

    assert cache.given == []


async def test_a_node_runs_again_when_the_lifetime_of_its_result_is_over() -> None:
    clock, node = FakeClock(), Counted()
    graph = graph_of(node, policy=CachePolicy(ttl=10), cache=InMemoryCache(clock=clock))

    for wait in (0, 9, 1, 9):
        await clock.advance(wait)
        await graph.ainvoke({"n": 1})

    assert len(node.runs) == 2


async def test_a_step_that_is_run_again_from_an_old_checkpoint_is_served() -> None:
    node = Counted()
    graph = graph_of(node, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "a"}}
    await graph.ainvoke({"n": 1}, config)
    before = await anext(s async for s in graph.aget_state_history(config) if s.next == ("work",))

    again = await graph.ainvoke(None, await graph.aupdate_state(before.config, {"n": 1}))

    assert (again["out"], len(node.runs)) == ([10], 1)


async def test_a_finished_task_of_a_resumed_step_is_not_looked_up() -> None:
    cache, node = WatchedCache(), Counted()
    builder = StateGraph(State)
    builder.add_node("work", node, cache_policy=CachePolicy())
    builder.add_node("ask", lambda state: {"out": [interrupt("?")]})
    builder.add_edge(START, "work")
    builder.add_edge(START, "ask")
    graph = builder.compile(cache=cache, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "a"}}
    await graph.ainvoke({"n": 1}, config)

    result = await graph.ainvoke(Command(resume="yes"), config)

    assert (sorted(map(str, result["out"])), len(node.runs), len(cache.asked)) == (["10", "yes"], 1, 1)


# -- keys -----------------------------------------------------------------------------------------------------


async def test_a_key_of_ones_own_says_which_inputs_are_the_same() -> None:
    node = Counted()
    graph = graph_of(node, policy=CachePolicy(key_func=lambda state: str(state["n"] % 2)))

    assert [(await graph.ainvoke({"n": n}))["out"] for n in (1, 3, 2)] == [[10], [10], [20]]
    assert len(node.runs) == 2


async def test_a_node_that_changes_its_input_is_kept_by_what_it_was_given() -> None:
    def change(state: Any) -> Any:
        state["n"] = 99
        return {"out": [1]}

    runs = []

    async def work(state: State) -> Any:
        runs.append(state["n"])
        return change(state)

    graph = graph_of(work)
    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert runs == [1]


def adder(amount: int) -> Any:
    async def add(state: State) -> Any:
        return {"out": [state["n"] + amount]}

    return add


class Adder:
    def __init__(self, amount: int) -> None:
        self.amount = amount

    async def __call__(self, state: State) -> Any:
        return {"out": [state["n"] + self.amount]}

    async def method(self, state: State) -> Any:
        return {"out": [state["n"] + self.amount]}


@pytest.mark.parametrize(
    "make", [adder, Adder, lambda amount: Adder(amount).method], ids=["closure", "object", "method"]
)
async def test_functions_of_the_same_name_have_results_of_their_own(make: Any) -> None:
    cache: Any = InMemoryCache()

    one, ten = graph_of(make(1), cache=cache), graph_of(make(10), cache=cache)

    assert (await one.ainvoke({"n": 1}))["out"] == [2]
    assert (await ten.ainvoke({"n": 1}))["out"] == [11]


async def test_graphs_inside_that_differ_have_results_of_their_own() -> None:
    cache: Any = InMemoryCache()
    graphs = [graph_of(graph_of(adder(amount), policy=None), cache=cache) for amount in (1, 10)]

    assert [(await graph.ainvoke({"n": 1}))["out"] for graph in graphs] == [[2], [11]]


async def test_the_same_function_with_another_edge_has_results_of_its_own() -> None:
    cache: Any = InMemoryCache()
    node = Counted()

    def graph(follower: str) -> Any:
        builder = StateGraph(State)
        builder.add_node("work", node, cache_policy=CachePolicy())
        builder.add_node(follower, Counted(lambda state: {"out": [follower]}))
        builder.add_edge(START, "work")
        builder.add_edge("work", follower)
        return builder.compile(cache=cache)

    assert (await graph("left").ainvoke({"n": 1}))["out"] == [10, "left"]
    assert (await graph("right").ainvoke({"n": 1}))["out"] == [10, "right"]


async def test_a_graph_that_is_compiled_again_finds_what_was_kept() -> None:
    cache: Any = InMemoryCache()
    runs = 0

    async def work(state: State) -> Any:
        nonlocal runs
        runs += 1
        return {"out": [1]}

    for _ in range(2):
        await graph_of(work, cache=cache).ainvoke({"n": 1})

    assert runs == 1


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(_PLAIN)
def test_equal_inputs_have_equal_keys(value: Any) -> None:
    serde = JsonPlusSerializer()

    assert default_cache_key([value, value]) == default_cache_key(serde.loads_typed(serde.dumps_typed([value, value])))


# -- faults ---------------------------------------------------------------------------------------------------


async def test_a_cache_that_fails_fails_no_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "langgraph_async"):
        result = await graph_of(Counted(), cache=BrokenCache()).ainvoke({"n": 1})

    assert result["out"] == [10]
    assert sum("gone" in record.message for record in caplog.records) == 2


async def test_an_input_without_a_key_runs_uncached(caplog: pytest.LogCaptureFixture) -> None:
    node = Counted(lambda state: {"out": ["ran"]})
    graph = graph_of(node)

    with caplog.at_level(logging.WARNING, "langgraph_async"):
        for _ in range(2):
            await graph.ainvoke({"n": lambda: None})

    assert len(node.runs) == 2
    assert "no key for the input of 'work'" in caplog.text


async def test_a_result_that_cannot_be_stored_is_returned_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    marker = object()
    node = Counted(lambda state: {"out": [marker]})
    graph = graph_of(node)

    with caplog.at_level(logging.WARNING, "langgraph_async"):
        outputs = [(await graph.ainvoke({"n": 1}))["out"] for _ in range(2)]

    assert outputs == [[marker], [marker]]
    assert "could not keep results" in caplog.text


@pytest.mark.parametrize(
    "junk",
    [
        7,
        "x",
        [1],
        {"out": [1]},
        [["nowhere", 1]],
        [["out"]],
        [[["out"], [1]]],
        [[{}, [1]]],
        [["__pregel_tasks", 7]],
        [["__return__", {"out": [1]}]],
        [["__error__", "no"]],
    ],
    ids=str,
)
async def test_an_entry_that_is_no_result_counts_as_missing(junk: Any) -> None:
    class Junk(InMemoryCache[Any]):
        async def aget(self, keys: Any) -> Any:
            return dict.fromkeys(keys, junk)

    assert (await graph_of(Counted(), cache=Junk()).ainvoke({"n": 1}))["out"] == [10]


# -- who has a policy, and a cache ----------------------------------------------------------------------------


async def test_a_default_policy_is_for_nodes_and_not_for_error_handlers() -> None:
    def fail(state: Any) -> Any:
        raise ValueError("no")

    node, handler = Counted(fail), Counted(lambda state: {"out": ["handled"]})
    builder = StateGraph(State)
    builder.set_node_defaults(cache_policy=CachePolicy())
    builder.add_node("fine", (fine := Counted()))
    builder.add_node("work", node, error_handler=handler)
    builder.add_edge(START, "fine")
    builder.add_edge("fine", "work")
    graph = builder.compile(cache=InMemoryCache())

    outputs = [(await graph.ainvoke({"n": 1}))["out"] for _ in range(2)]

    assert outputs == [[10, "handled"], [10, "handled"]]
    assert (len(fine.runs), len(node.runs), len(handler.runs)) == (1, 2, 2)


async def test_a_graph_inside_uses_the_cache_of_the_graph_around_it() -> None:
    node, own, outer = Counted(), WatchedCache(), WatchedCache()
    graph = graph_of(graph_of(node, cache=own), policy=None, cache=outer)

    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert (len(node.runs), own.asked, len(outer.given)) == (1, [], 1)


async def test_a_graph_inside_keeps_its_own_cache_when_there_is_none_around() -> None:
    node = Counted()
    graph = graph_of(graph_of(node), policy=None, cache=None)

    await graph.ainvoke({"n": 1})
    await graph.ainvoke({"n": 1})

    assert len(node.runs) == 1


# -- clearing -------------------------------------------------------------------------------------------------


async def two_nodes() -> tuple[Any, Counted, Counted]:
    first, second = Counted(), Counted(lambda state: {"out": ["second"]})
    builder = StateGraph(State)
    builder.add_node("first", first, cache_policy=CachePolicy(key_func=lambda state: "k"))
    builder.add_node("second", second, cache_policy=CachePolicy(key_func=lambda state: "k"))
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    graph = builder.compile(cache=InMemoryCache())
    await graph.ainvoke({"n": 1})
    return graph, first, second


@pytest.mark.parametrize(
    ("nodes", "runs"),
    [(None, (2, 2)), (["first"], (2, 1)), ("second", (1, 2)), (["nobody"], (1, 1)), ([], (1, 1))],
    ids=str,
)
async def test_clearing_forgets_the_results_of_the_nodes_named(nodes: Any, runs: tuple[int, int]) -> None:
    graph, first, second = await two_nodes()

    await graph.aclear_cache(nodes)
    await graph.ainvoke({"n": 1})

    assert (len(first.runs), len(second.runs)) == runs


async def test_clearing_needs_a_cache() -> None:
    with pytest.raises(ValueError, match=r"No cache is set for this graph. Cannot clear cache."):
        await graph_of(Counted(), cache=None).aclear_cache()
