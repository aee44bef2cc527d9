"""Defaults, reducers that raise, and validation: departures S4, S5 and S8."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from drawings import State, chain, says
from pydantic import BaseModel
from threads import on, stored
from typing_extensions import TypedDict

from langgraph_async import END, START, Command, Overwrite, StateGraph
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import InvalidUpdateError, ReducerError

DURABILITIES = ["sync", "async", "exit"]


# -- S4: defaults of the schema ------------------------------------------------------------------------------


class Model(BaseModel):
    n: Annotated[int, operator.add] = 10
    items: Annotated[list, operator.add] = ["d"]
    name: str = "plain"


class Factories(BaseModel):
    from pydantic import Field

    n: Annotated[int, operator.add] = Field(default=10)
    items: Annotated[list, operator.add] = Field(default_factory=lambda: ["d"])
    name: str = "plain"


@dataclass
class Data:
    n: Annotated[int, operator.add] = 10
    items: Annotated[list, operator.add] = field(default_factory=lambda: ["d"])
    name: str = "plain"


@pytest.mark.parametrize("schema", [Model, Factories, Data])
@pytest.mark.parametrize("saved", [False, True])
async def test_defaults_of_reduced_keys_seed_the_state_of_each_thread_anew(schema, saved):
    seen: list[Any] = []

    async def node(state):
        seen.append((state.n, list(state.items), state.name))
        state.items.append("in place")
        return {"n": 5, "items": ["more"]}

    graph = chain(schema, InMemorySaver() if saved else None, node=node)

    for thread in ("one", "two"):
        out = await graph.ainvoke({}, on(thread))
        assert (out["n"], out["items"]) == (15, ["d", "more"])

    assert seen == [(10, ["d"], "plain")] * 2


@pytest.mark.parametrize("schema", [Model, Factories, Data])
async def test_a_given_value_is_added_to_the_default_and_a_later_turn_does_not_seed_again(schema):
    graph = chain(schema, InMemorySaver(), node=says({"n": 1}))

    assert (await graph.ainvoke({"n": 1, "items": ["i"]}, on()))["n"] == 12
    assert (await graph.ainvoke({"n": 1}, on())) == {"n": 14, "items": ["d", "i"]}


async def test_an_overwrite_takes_the_place_of_the_default():
    out = await chain(Model, node=says({"items": Overwrite(["only"])})).ainvoke({})

    assert out["items"] == ["only"]


@pytest.mark.parametrize("schema", [Model, Factories, Data])
async def test_a_schema_object_does_not_add_the_defaults_it_was_left_to_again(schema):
    graph = chain(schema, InMemorySaver(), node=lambda state: schema(name=state.name + "!"))

    assert await graph.ainvoke(schema(name="a"), on()) == {"n": 10, "items": ["d"], "name": "a!"}
    assert await graph.ainvoke(schema(items=["i"]), on()) == {"n": 10, "items": ["d", "i"], "name": "plain!"}


async def test_a_default_that_a_model_is_given_explicitly_is_a_write():
    out = await chain(Model, node=says({})).ainvoke(Model(n=10, items=["d"]))

    assert (out["n"], out["items"]) == (20, ["d", "d"])


@dataclass
class Replaced:
    n: Annotated[int, lambda old, new: new] = 0


async def test_a_schema_object_sets_a_replacing_key_back_to_its_default():
    graph = chain(Replaced, InMemorySaver(), node=says({}))
    await graph.ainvoke(Replaced(n=5), on())

    assert await graph.ainvoke(Replaced(n=0), on()) == {"n": 0}


# -- S5: a reducer that raises -------------------------------------------------------------------------------


class Fragile(TypedDict, total=False):
    log: Annotated[list, operator.add]
    n: Annotated[int, lambda a, b: a + b]


class Checked(BaseModel):
    log: Annotated[list, operator.add] = []
    n: Annotated[int, lambda a, b: b] = 0


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("schema", [Fragile, Checked])
async def test_a_reducer_that_raises_fails_the_step_and_the_thread_reads_as_before(schema, durability):
    saver = InMemorySaver()
    graph = chain(schema, saver, good=says({"log": ["good"], "n": 1}), bad=says({"log": ["bad"], "n": "text"}))

    with pytest.raises(ReducerError, match="'n'") as caught:
        await graph.ainvoke({"log": ["in"], "n": 1}, on(), durability=durability)

    assert caught.value.key == "n"
    assert caught.value.nodes == ("bad",)
    kept = await stored(graph, on())
    assert kept.values["log"] == ["in", "good"]
    assert kept.next == ("bad",)
    mended = chain(schema, saver, good=says({}), bad=says({"n": 5}))
    assert (await mended.ainvoke(None, on()))["n"] == (7 if schema is Fragile else 5)
    assert (await mended.ainvoke({"n": 1}, on()))["log"] == ["in", "good"]


@pytest.mark.parametrize("schema", [Fragile, Checked])
async def test_a_reducer_that_raises_on_the_input_leaves_the_thread_as_it_was(schema):
    saver = InMemorySaver()
    graph = chain(schema, saver, good=says({"log": ["good"], "n": 1}))
    await graph.ainvoke({"log": ["in"], "n": 1}, on())
    before = (await stored(graph, on())).values

    with pytest.raises(InvalidUpdateError, match="'n'"):
        await graph.ainvoke({"n": "text"}, on())

    assert (await stored(graph, on())).values == before
    assert (await graph.ainvoke({"n": 1}, on()))["log"] == ["in", "good", "good"]


async def test_a_reducer_that_raises_under_parallel_writes_runs_only_the_writers_again():
    ran: list[str] = []
    broken = [True]

    def fold(a, b):
        if broken and len(a + b) > 2:
            raise ZeroDivisionError("fold")
        return a + b

    class Parallel(TypedDict, total=False):
        items: Annotated[list, fold]
        x: int

    def node(name, update):
        async def run(state):
            ran.append(name)
            return update

        return run

    builder = StateGraph(Parallel)
    for name, update in {"a": {"items": [1]}, "b": {"items": [2, 3]}, "other": {"x": 1}}.items():
        builder.add_node(name, node(name, update))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(ReducerError) as caught:
        await graph.ainvoke({"items": []}, on())
    broken.clear()
    out = await graph.ainvoke(None, on())

    assert caught.value.nodes == ("a", "b")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert out == {"items": [1, 2, 3], "x": 1}
    assert sorted(ran) == ["a", "a", "b", "b", "other"]


async def test_a_reducer_that_raises_while_a_router_looks_names_the_key():
    builder = StateGraph(Fragile)
    builder.add_node("bad", says({"n": "text"}))
    builder.add_edge(START, "bad")
    builder.add_conditional_edges("bad", lambda state: END)

    with pytest.raises(ReducerError, match="'n'"):
        await builder.compile(checkpointer=InMemorySaver()).ainvoke({"n": 1}, on())


async def test_two_values_for_a_plain_key_leave_the_thread_as_before_the_step():
    builder = StateGraph(State)
    for name in "ab":
        builder.add_node(name, says({"x": name}))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=InMemorySaver())

    with pytest.raises(InvalidUpdateError, match="'x'.*\n.*\n.*'a', 'b'") as caught:
        await graph.ainvoke({"x": "in"}, on())

    assert caught.value.key == "x"
    kept = await stored(graph, on())
    assert kept.values["x"] == "in"
    assert kept.next == ("a", "b")


# -- S8: writes are validated where the schema validates ------------------------------------------------------


class Valid(BaseModel):
    n: int = 0
    words: Annotated[list[str], operator.add] = []


@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("update", [{"n": "no number"}, {"words": [1]}, Command(update={"n": "no number"})])
async def test_a_write_that_does_not_fit_a_pydantic_state_is_refused_wherever_it_is_made(where, update):
    graph = chain(Valid, InMemorySaver(), a=says(update if where == "first" else {"n": 1}), b=says(update))

    with pytest.raises(InvalidUpdateError, match=r"'(n|words)'"):
        await graph.ainvoke({"n": 5}, on())

    assert (await stored(graph, on())).next == (("a",) if where == "first" else ("b",))


async def test_an_input_that_does_not_fit_a_pydantic_state_is_refused():
    with pytest.raises(InvalidUpdateError, match="'n'"):
        await chain(Valid, a=says({})).ainvoke({"n": "no number"})


async def test_the_output_has_the_schemas_type_with_version_2():
    graph = chain(Valid, a=says({"n": "7"}))

    assert (await graph.ainvoke({}, version="v2")).value == Valid(n=7)
    assert (await graph.ainvoke({})) == {"n": 7, "words": []}
