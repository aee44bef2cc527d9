"""Savers written for LangGraph work here; the ones of these tests do without LangGraph."""

from __future__ import annotations

import asyncio
import gc
import operator
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from foreign_savers import (
    AsyncSaver,
    BlockingSaver,
    CompressedSerializer,
    FloatSaver,
    JsonPlusSerializer,
    LateSaver,
    PickleSerializer,
)
from typing_extensions import TypedDict

from langgraph_async import START, Command, Send, StateGraph, interrupt
from langgraph_async.channels import DeltaChannel
from langgraph_async.checkpoint.foreign.saver import ForeignSaver, as_saver
from langgraph_async.checkpoint.foreign.view import view_of
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.errors import SerializationError, ThreadConflictError
from langgraph_async.func import entrypoint, task
from langgraph_async.pregel import Pregel
from langgraph_async.serde.jsonplus import JsonPlusSerializer as OurSerializer
from langgraph_async.testing.savers import SaverContract
from langgraph_async.types import DeltaSnapshot, Interrupt

CONFIG: Any = {"configurable": {"thread_id": "1"}}

MAKERS: dict[str, Callable[[], Any]] = {
    "blocking": BlockingSaver,
    "async": AsyncSaver,
    "floats": FloatSaver,
    "own serializer": lambda: BlockingSaver(PickleSerializer()),
    "wrapped serializer": lambda: BlockingSaver(CompressedSerializer(JsonPlusSerializer())),
    "our serializer": lambda: BlockingSaver(OurSerializer()),
}


@pytest.fixture(params=MAKERS)
def foreign(request: pytest.FixtureRequest) -> Any:
    return MAKERS[request.param]()


@dataclass
class Point:
    x: int
    tags: tuple[str, ...] = ()


@dataclass
class Other:
    y: int


class OtherState(TypedDict):
    other: Other


class State(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    point: Point
    pair: tuple[int, int]


def _graph(saver: Any) -> Any:
    async def begin(state: State) -> Any:
        return {"log": ["begin"], "point": Point(1, ("a",)), "pair": (1, 2)}

    async def ask(state: State) -> Any:
        return {"log": [interrupt("go on?")]}

    def each(state: State) -> list[Send]:
        return [Send("work", {"number": number}) for number in range(2)]

    async def work(state: Any) -> Any:
        return {"log": [state["number"]]}

    builder = StateGraph(State).add_node(begin).add_node(ask).add_node(work)
    builder.add_edge(START, "begin").add_edge("begin", "ask").add_conditional_edges("ask", each, ["work"])
    return builder.compile(checkpointer=saver)


class TestBlocking(SaverContract):
    @pytest.fixture
    def saver(self) -> Any:
        return as_saver(BlockingSaver())


class TestWrapped(SaverContract):
    @pytest.fixture
    def saver(self) -> Any:
        return as_saver(BlockingSaver(CompressedSerializer(JsonPlusSerializer())))


# -- runs ----------------------------------------------------------------------------------------------------------


async def test_a_run_pauses_and_goes_on(foreign: Any) -> None:
    graph = _graph(foreign)

    paused = await graph.ainvoke({"log": []}, CONFIG)
    state = await graph.aget_state(CONFIG)
    ended = await _graph(foreign).ainvoke(Command(resume="yes"), CONFIG)

    assert [type(question) for question in paused["__interrupt__"]] == [Interrupt]
    assert (state.next, [q.value for t in state.tasks for q in t.interrupts]) == (("ask",), ["go on?"])
    assert ended == {"log": ["begin", "yes", 0, 1], "point": Point(1, ("a",)), "pair": (1, 2)}


async def test_sends_that_were_stored_are_run(foreign: Any) -> None:
    graph = _graph(foreign)
    await graph.ainvoke({"log": []}, CONFIG)

    await graph.ainvoke(Command(resume="yes"), CONFIG, interrupt_before=["work"])
    ended = await _graph(foreign).ainvoke(None, CONFIG)

    assert ended["log"] == ["begin", "yes", 0, 1]


async def test_a_thread_can_be_forked_and_edited(foreign: Any) -> None:
    graph = _graph(foreign)
    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume="yes"), CONFIG)
    history = [state async for state in graph.aget_state_history(CONFIG)]

    asked = next(state for state in history if state.next == ("ask",))
    again = await graph.ainvoke(Command(resume="no"), asked.config)
    await graph.aupdate_state(CONFIG, {"log": ["edited"]})

    assert [state.metadata["step"] for state in history] == [3, 2, 1, 0, -1]
    assert again["log"] == ["begin", "no", 0, 1]
    assert (await graph.aget_state(CONFIG)).values["log"] == ["begin", "no", 0, 1, "edited"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_failed_run_goes_on_where_it_failed(foreign: Any, durability: Any) -> None:
    ran: list[str] = []

    async def good(state: State) -> Any:
        ran.append("good")
        return {"log": ["good"]}

    async def bad(state: State) -> Any:
        ran.append("bad")
        if ran.count("bad") == 1:
            raise ValueError("no")
        return {"log": ["bad"]}

    builder = StateGraph(State).add_node(good).add_node(bad).add_edge(START, "good").add_edge(START, "bad")
    graph = builder.compile(checkpointer=foreign)

    with pytest.raises(ValueError, match="no"):
        await graph.ainvoke({"log": []}, CONFIG, durability=durability)
    ended = await graph.ainvoke(None, CONFIG, durability=durability)

    assert ended["log"] == ["bad", "good"] or ended["log"] == ["good", "bad"]
    assert sorted(ran) == ["bad", "bad", "good"]


async def test_subgraphs_keep_their_memory(foreign: Any) -> None:
    async def count(state: State) -> Any:
        return {"log": [len(state["log"])]}

    inner = StateGraph(State).add_node(count).add_edge(START, "count").compile(checkpointer=True)
    graph = StateGraph(State).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=foreign)

    await graph.ainvoke({"log": ["a"]}, CONFIG)
    await graph.ainvoke({"log": ["b"]}, CONFIG)

    namespaces = {item.config["configurable"]["checkpoint_ns"] async for item in graph.checkpointer.alist(CONFIG)}
    assert namespaces == {"", "inner"}


async def test_entrypoints_take_such_a_saver(foreign: Any) -> None:
    calls: list[int] = []

    @task
    async def double(number: int) -> Point:
        calls.append(number)
        return Point(number * 2)

    @entrypoint(checkpointer=foreign)
    async def flow(number: int, *, previous: Any = None) -> Point:
        doubled = await double(number)
        return Point(doubled.x + interrupt("more?") + (previous.x if previous else 0))

    await flow.ainvoke(1, CONFIG)
    first = await flow.ainvoke(Command(resume=10), CONFIG)
    await flow.ainvoke(1, CONFIG)
    second = await flow.ainvoke(Command(resume=10), CONFIG)

    assert (first, second, calls) == (Point(12), Point(24), [1, 1])


def _added(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class Deltas(TypedDict):
    log: Annotated[list[Any], DeltaChannel(_added, snapshot_frequency=3)]


async def test_delta_channels_are_rebuilt(foreign: Any) -> None:
    async def one(state: Any) -> Any:
        return {"log": [1]}

    async def two(state: Any) -> Any:
        return {"log": [2]}

    builder = StateGraph(Deltas).add_node(one).add_node(two).add_edge(START, "one").add_edge(START, "two")
    graph = builder.compile(checkpointer=foreign)

    for turn in range(4):
        await graph.ainvoke({"log": [f"turn {turn}"]}, CONFIG)

    state = await graph.aget_state(CONFIG)
    assert state.values["log"] == [item for turn in range(4) for item in (f"turn {turn}", 1, 2)]


# -- who is called, and with what ----------------------------------------------------------------------------------


async def test_blocking_methods_run_in_threads() -> None:
    saver = BlockingSaver()

    await _graph(saver).ainvoke({"log": []}, CONFIG)

    assert saver.threads
    assert "MainThread" not in saver.threads


async def test_the_saver_gets_what_users_configured_and_plain_dicts() -> None:
    saver = BlockingSaver()
    config: Any = {"configurable": {"thread_id": 7, "actor_id": "ann"}, "metadata": {"run_id": "r"}}
    graph = _graph(saver)

    await graph.ainvoke({"log": []}, config)
    stored = await graph.checkpointer.aget_tuple({"configurable": {"thread_id": "7"}})

    assert {config["configurable"]["actor_id"] for config in saver.configs[:-1]} == {"ann"}
    assert all(type(config) is dict and config["configurable"]["thread_id"] == "7" for config in saver.configs)
    assert stored is not None
    assert stored.metadata["run_id"] == "r"
    assert stored.metadata["actor_id"] == "ann"


async def test_checkpoints_hold_all_values() -> None:
    saver = BlockingSaver(PickleSerializer())
    await _graph(saver).ainvoke({"log": ["in"]}, CONFIG)

    found = await as_saver(saver).aget_tuple(CONFIG)

    assert found is not None
    assert found.checkpoint["channel_values"]["log"] == ["in", "begin"]
    assert found.checkpoint["channel_values"].keys() >= {"point", "pair", "branch:to:ask"}
    assert found.checkpoint["v"] == 4


async def test_a_method_that_is_not_implemented_async_is_called_in_its_blocking_form() -> None:
    class Half(BlockingSaver):
        async def aget_tuple(self, config: Any) -> Any:
            return self.get_tuple(config)

    saver = Half()

    assert (await _graph(saver).ainvoke({"log": []}, CONFIG))["log"] == ["begin"]
    assert "MainThread" in saver.threads


async def test_methods_that_a_saver_lacks_are_named_with_it() -> None:
    saver = as_saver(BlockingSaver())

    for name, arguments in (("aprune", (["1"],)), ("acopy_thread", ("1", "2")), ("adelete_for_runs", (["r"],))):
        with pytest.raises(NotImplementedError, match=rf"BlockingSaver offers neither {name}\(\) nor {name[1:]}\(\)"):
            await getattr(saver, name)(*arguments)
        assert not saver.offers(name)


async def test_whole_threads_are_deleted_by_the_saver(foreign: Any) -> None:
    saver = as_saver(foreign)
    await _graph(foreign).ainvoke({"log": []}, CONFIG)

    await saver.adelete_thread("1")

    assert await saver.aget_tuple(CONFIG) is None


async def test_an_error_of_the_saver_ends_the_run() -> None:
    class Full(BlockingSaver):
        def put(self, *args: Any) -> Any:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await _graph(Full()).ainvoke({"log": []}, CONFIG)


async def test_old_and_odd_checkpoints_are_completed() -> None:
    class Odd(BlockingSaver):
        def get_tuple(self, config: Any) -> Any:
            return types.SimpleNamespace(
                config=config,
                checkpoint={"id": "1f1ed166-4b75-6a0a-bfff-49dd91316299", "channel_versions": {}},
                metadata=None,
                parent_config={"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": None}},
                pending_writes=None,
            )

    found = await as_saver(Odd()).aget_tuple(CONFIG)

    assert found is not None
    assert (found.metadata, found.parent_config, found.pending_writes) == ({}, None, [])
    assert (found.checkpoint["v"], found.checkpoint["channel_values"]) == (1, {})
    assert found.config["configurable"] == {
        "thread_id": "1",
        "checkpoint_ns": "",
        "checkpoint_id": "1f1ed166-4b75-6a0a-bfff-49dd91316299",
    }


# -- the serializer ------------------------------------------------------------------------------------------------


async def test_nothing_of_the_saver_is_changed(foreign: Any) -> None:
    before = dict(vars(foreign))
    kind, serde = type(foreign), foreign.serde

    await _graph(foreign).ainvoke({"log": []}, CONFIG)

    assert (type(foreign), foreign.serde) == (kind, serde)
    assert vars(foreign).keys() == before.keys()


async def test_two_graphs_with_different_types_share_a_saver() -> None:
    async def make(state: OtherState) -> Any:
        return {"other": Other(3)}

    saver = BlockingSaver()
    one = _graph(saver)
    two = StateGraph(OtherState).add_node(make).add_edge(START, "make").compile(checkpointer=saver)

    await one.ainvoke({"log": []}, CONFIG)
    await two.ainvoke({"other": Other(1)}, {"configurable": {"thread_id": "2"}})

    assert (await one.aget_state(CONFIG)).values["point"] == Point(1, ("a",))
    assert (await two.aget_state({"configurable": {"thread_id": "2"}})).values["other"] == Other(3)


async def test_a_saver_may_be_set_up_after_the_graph_was_compiled() -> None:
    saver = LateSaver()
    graph = _graph(saver)

    saver.setup()

    assert (await graph.ainvoke({"log": []}, CONFIG))["log"] == ["begin"]
    assert "1" in saver.rows


async def test_a_serializer_that_is_configured_after_the_graph_was_compiled_counts() -> None:
    saver = BlockingSaver()
    graph = _graph(saver)

    saver.serde = CompressedSerializer(JsonPlusSerializer())
    await graph.ainvoke({"log": []}, CONFIG)

    assert {stored[0] for stored, _, _ in saver.rows["1"][""].values()} == {"msgpack+z"}


async def test_a_serializer_deep_inside_is_replaced_too() -> None:
    class Codec:
        def __init__(self, serde: Any) -> None:
            self.serde = serde

    class Deep(BlockingSaver):
        def __init__(self) -> None:
            super().__init__()
            self.codec = Codec(self.serde)
            self.jsonplus_serde = JsonPlusSerializer()

        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            self.codec.serde.dumps_typed(checkpoint)
            self.jsonplus_serde.dumps(metadata)
            self.jsonplus_serde.dumps_typed(checkpoint)
            return super().put(config, checkpoint, metadata, new_versions)

    assert (await _graph(Deep()).ainvoke({"log": []}, CONFIG))["log"] == ["begin"]


async def test_a_client_that_has_any_attribute_is_no_serializer() -> None:
    class Client:
        def __getattr__(self, name: str) -> Any:
            return self

    class Connected(BlockingSaver):
        def __init__(self) -> None:
            super().__init__()
            self.client = Client()

    assert (await _graph(Connected()).ainvoke({"log": []}, CONFIG))["log"] == ["begin"]


async def test_a_value_that_cannot_be_stored_is_named() -> None:
    async def node(state: State) -> Any:
        return {"log": [], "pair": object()}

    graph = StateGraph(State).add_node(node).add_edge(START, "node").compile(checkpointer=BlockingSaver())

    with pytest.raises(SerializationError, match="'pair'"):
        await graph.ainvoke({"log": []}, CONFIG)


def test_a_view_does_not_close_what_it_shares() -> None:
    closed: list[Any] = []

    class Closing(BlockingSaver):
        def __del__(self) -> None:
            closed.append(self)

    saver = Closing()
    adapter = as_saver(saver)
    assert adapter.serde is not saver.serde

    del adapter
    gc.collect()

    assert closed == []
    saver.__class__ = BlockingSaver


def test_an_object_that_cannot_have_a_view_is_left_as_it_is() -> None:
    class Slotted:
        __slots__ = ("serde",)

        def __init__(self) -> None:
            self.serde = JsonPlusSerializer()

    owner = Slotted()

    assert view_of(owner, lambda value: 1 if isinstance(value, JsonPlusSerializer) else None) is owner


# -- LangGraph's words ---------------------------------------------------------------------------------------------


@dataclass
class TheirSend:
    node: str
    arg: Any


@dataclass
class TheirInterrupt:
    value: Any
    id: str = "placeholder-id"


@dataclass
class TheirSnapshot:
    value: Any


TheirSend.__module__ = TheirInterrupt.__module__ = "langgraph.types"
TheirSnapshot.__module__ = "langgraph.checkpoint.serde.types"
TheirSend.__qualname__, TheirInterrupt.__qualname__, TheirSnapshot.__qualname__ = "Send", "Interrupt", "_DeltaSnapshot"


@pytest.fixture
def their_words(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """LangGraph's classes, as far as a saver can see them."""
    words, snapshots = types.ModuleType("langgraph.types"), types.ModuleType("langgraph.checkpoint.serde.types")
    for module, kind in ((words, TheirSend), (words, TheirInterrupt), (snapshots, TheirSnapshot)):
        setattr(module, kind.__qualname__, kind)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return words


@dataclass
class Watched:
    """A saver's own serializer, which keeps objects as they are."""

    seen: list[Any] = field(default_factory=list)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        self.seen.append(obj)
        return "kept", str(len(self.seen) - 1).encode()

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return self.seen[int(data[1])]


async def test_a_serializer_that_stays_is_given_langgraph_s_words(their_words: Any) -> None:
    serde = Watched()
    graph = _graph(BlockingSaver(serde))

    await graph.ainvoke({"log": []}, CONFIG)
    asked = (await graph.aget_state(CONFIG)).tasks[0].interrupts
    await graph.ainvoke(Command(resume="yes"), CONFIG, interrupt_before=["work"])
    ended = await graph.ainvoke(None, CONFIG)

    kinds = {type(item) for obj in serde.seen for item in (obj if isinstance(obj, list) else [obj])}
    assert {TheirSend, TheirInterrupt} <= kinds
    assert not {Send, Interrupt} & kinds
    assert [type(question) for question in asked] == [Interrupt]
    assert ended["log"] == ["begin", "yes", 0, 1]


async def test_a_saver_that_does_not_use_the_serializer_it_shows_is_given_langgraph_s_words(their_words: Any) -> None:
    hidden = Watched()

    class Hiding(BlockingSaver):
        def _tuple(self, *place: str) -> Any:
            return BlockingSaver._tuple(_with_serde(self, hidden), *place)

        def put(self, *args: Any) -> Any:
            return BlockingSaver.put(_with_serde(self, hidden), *args)

        def put_writes(self, *args: Any) -> None:
            BlockingSaver.put_writes(_with_serde(self, hidden), *args)

    saver = Hiding()
    graph = _graph(saver)

    await graph.ainvoke({"log": []}, CONFIG)
    await graph.ainvoke(Command(resume={"deep": [Interrupt("kept", "1")]}), CONFIG, interrupt_before=["work"])
    ended = await graph.ainvoke(None, CONFIG)

    assert "response_schema" not in repr(hidden.seen), "our Interrupt has this, the other has not"
    assert ended["log"] == ["begin", {"deep": [Interrupt("kept", "1")]}, 0, 1]


def _with_serde(saver: Any, serde: Any) -> Any:
    other = BlockingSaver(serde)
    other.rows, other.writes = saver.rows, saver.writes
    return other


class Derived(OurSerializer):
    """A user's serializer, made from ours."""


@pytest.mark.parametrize("given", [JsonPlusSerializer(), OurSerializer(), Derived()])
async def test_our_serializer_stores_langgraph_s_words(their_words: Any, given: Any) -> None:
    serde = as_saver(BlockingSaver(given)).serde

    stored = [TheirSend("a", {"x": TheirInterrupt("q", "1")}), TheirSnapshot([1])]

    assert serde.loads_typed(serde.dumps_typed(stored)) == [Send("a", {"x": Interrupt("q", "1")}), DeltaSnapshot([1])]


# -- one run a thread ----------------------------------------------------------------------------------------------


async def test_two_graphs_on_one_saver_know_of_each_other_s_runs() -> None:
    saver = BlockingSaver()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def wait(state: State) -> Any:
        entered.set()
        await leave.wait()
        return {"log": ["waited"]}

    one = StateGraph(State).add_node(wait).add_edge(START, "wait").compile(checkpointer=saver)
    running = asyncio.ensure_future(one.ainvoke({"log": []}, CONFIG))
    await entered.wait()

    with pytest.raises(ThreadConflictError):
        await _graph(saver).ainvoke({"log": []}, CONFIG)
    leave.set()

    assert (await running)["log"] == ["waited"]


async def test_a_checkpoint_that_another_process_stored_meanwhile_is_a_conflict() -> None:
    saver = BlockingSaver()
    elsewhere = BlockingSaver()
    elsewhere.rows, elsewhere.writes = saver.rows, saver.writes

    async def overtake(state: State) -> Any:
        await _graph(elsewhere).ainvoke({"log": ["other"]}, CONFIG)
        return {"log": ["late"]}

    graph = StateGraph(State).add_node(overtake).add_edge(START, "overtake").compile(checkpointer=saver)

    with pytest.raises(ThreadConflictError, match="Another run changed thread '1' first"):
        await graph.ainvoke({"log": []}, CONFIG, durability="sync")
    assert (await _graph(saver).aget_state(CONFIG)).values["log"][-1] == "begin"


async def test_a_store_that_is_slow_to_show_what_was_put_is_no_conflict() -> None:
    class Behind(BlockingSaver):
        def get_tuple(self, config: Any) -> Any:
            ids = sorted(self.rows.get("1", {}).get("", {}))
            if "checkpoint_id" in config["configurable"] or len(ids) < 2:
                return super().get_tuple(config)
            return self._tuple("1", "", ids[-2])

    assert (await _graph(Behind()).ainvoke({"log": []}, CONFIG))["log"] == ["begin"]


# -- what is taken for such a saver --------------------------------------------------------------------------------


def test_our_savers_stay_as_they_are() -> None:
    ours = InMemorySaver()

    assert as_saver(ours) is ours
    assert [as_saver(word) for word in (None, True, False)] == [None, True, False]


def test_a_saver_given_to_a_graph_later_works_too() -> None:
    graph: Any = Pregel(nodes={}, channels={}, input_channels=[], output_channels=[], auto_validate=False)

    graph.checkpointer = BlockingSaver()

    assert isinstance(graph.checkpointer, ForeignSaver)
    assert isinstance(graph.checkpointer.wrapped, BlockingSaver)
