"""What is stored of calls, and what is not run again: after a pause, a failure, a cancellation."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, TypedDict

import pytest

from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.config import RunnableConfig
from langgraph_async.errors import UnknownInterruptError
from langgraph_async.func import entrypoint, task
from langgraph_async.graph import StateGraph
from langgraph_async.ids import interrupt_id, path_text, task_id
from langgraph_async.types import Command, interrupt

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


class Log(TypedDict, total=False):
    log: str


class SuspendingSaver(InMemorySaver):
    """Stores behind the run, as a database does, and notes what it was given."""

    immediate = False

    def __init__(self) -> None:
        super().__init__()
        self.stored: list[str] = []

    async def acommit(self, config: Any, commit: Any) -> Any:
        await asyncio.sleep(0)
        await super().acommit(config, commit)
        self.stored.extend(channel for writes in commit.writes for channel, _ in writes.writes)


@pytest.fixture
def runs() -> Counter[str]:
    return Counter()


@pytest.fixture(params=[InMemorySaver, SuspendingSaver], ids=["immediate", "suspending"])
def saver(request: pytest.FixtureRequest) -> InMemorySaver:
    made: InMemorySaver = request.param()
    return made


# -- pauses --------------------------------------------------------------------------------------------------


async def test_calls_that_are_done_are_not_run_again_after_a_pause(saver: InMemorySaver, runs: Counter[str]) -> None:
    @task
    async def mapper(number: int) -> str:
        runs["mapper"] += 1
        await asyncio.sleep(0)
        return f"{number}{number}"

    @entrypoint(checkpointer=saver)
    async def workflow(numbers: list[int]) -> list[str]:
        runs["workflow"] += 1
        mapped = await asyncio.gather(*map(mapper, numbers))
        answer: str = interrupt("question")
        return [text + answer for text in mapped]

    paused = [item async for item in workflow.astream([0, 1], THREAD)]
    done = await workflow.ainvoke(Command(resume="answer"), THREAD)

    assert paused[:2] == [{"mapper": "00"}, {"mapper": "11"}]
    assert paused[2]["__interrupt__"][0].value == "question"
    assert len(paused) == 3
    assert done == ["00answer", "11answer"]
    assert runs == {"mapper": 2, "workflow": 2}


@pytest.mark.parametrize("result", [None, 0, "", False, []])
async def test_falsy_results_are_remembered_too(result: Any, runs: Counter[str]) -> None:
    @task
    async def falsy() -> Any:
        runs["falsy"] += 1
        return result

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> list[Any]:
        return [await falsy(), interrupt("question")]

    await workflow.ainvoke(1, THREAD)

    assert await workflow.ainvoke(Command(resume="a"), THREAD) == [result, "a"]
    assert runs == {"falsy": 1}


async def test_a_question_of_a_task_is_asked_once_and_answered_there(saver: InMemorySaver, runs: Counter[str]) -> None:
    @task
    async def ask(question: str) -> str:
        runs[question] += 1
        answer: str = interrupt(question)
        return f"{question} {answer}"

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> list[str]:
        return [await ask("first"), await ask("second")]

    updates = [item async for item in workflow.astream(1, THREAD)]
    second = await workflow.ainvoke(Command(resume="one"), THREAD)
    done = await workflow.ainvoke(Command(resume="two"), THREAD)

    assert len(updates) == 1
    assert [q.value for q in updates[0]["__interrupt__"]] == ["first"]
    assert [q.value for q in second["__interrupt__"]] == ["second"]
    assert done == ["first one", "second two"]
    assert runs == {"first": 2, "second": 2}


async def test_tasks_that_ask_side_by_side_all_show_and_are_answered_by_id(
    saver: InMemorySaver, runs: Counter[str]
) -> None:
    @task
    async def ask(question: str) -> str:
        runs[question] += 1
        await asyncio.sleep(0)
        return question + interrupt(question)

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> list[str]:
        return await asyncio.gather(ask("a"), ask("b"), ask("c"))

    paused = await workflow.ainvoke(1, THREAD)
    ids = {q.value: q.id for q in paused["__interrupt__"]}
    with pytest.raises(UnknownInterruptError):
        await workflow.ainvoke(Command(resume="x"), THREAD)
    left = await workflow.ainvoke(Command(resume={ids["a"]: "1", ids["c"]: "3"}), THREAD)
    counted = dict(runs)
    done = await workflow.ainvoke(Command(resume="2"), THREAD)

    assert sorted(ids) == ["a", "b", "c"]
    assert [(q.value, q.id) for q in left["__interrupt__"]] == [("b", ids["b"])]
    assert counted == {"a": 2, "b": 1, "c": 2}
    assert done == ["a1", "b2", "c3"]
    assert runs == {"a": 2, "b": 2, "c": 2}


async def test_a_question_deep_inside_is_answered_there(runs: Counter[str]) -> None:
    @task
    async def ask(name: str) -> str:
        runs[name] += 1
        return name + interrupt(name)

    @task
    async def middle(name: str) -> str:
        runs["middle"] += 1
        return await ask(name)

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> list[str]:
        return await asyncio.gather(middle("a"), middle("b"))

    paused = await workflow.ainvoke(1, THREAD)
    ids = {q.value: q.id for q in paused["__interrupt__"]}
    left = await workflow.ainvoke(Command(resume={ids["b"]: "2"}), THREAD)
    done = await workflow.ainvoke(Command(resume={ids["a"]: "1"}), THREAD)

    assert [q.id for q in left["__interrupt__"]] == [ids["a"]]
    assert done == ["a1", "b2"]
    assert runs == {"middle": 4, "a": 2, "b": 2}


async def test_a_task_that_asks_several_times_keeps_its_answers() -> None:
    @task
    async def ask() -> list[str]:
        return [interrupt("one"), interrupt("two"), interrupt("three")]

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> list[str]:
        return await ask()

    asked = [await workflow.ainvoke(1, THREAD)]
    asked += [await workflow.ainvoke(Command(resume=answer), THREAD) for answer in "ab"]

    assert [q["__interrupt__"][0].value for q in asked] == ["one", "two", "three"]
    assert len({q["__interrupt__"][0].id for q in asked}) == 3
    assert await workflow.ainvoke(Command(resume="c"), THREAD) == ["a", "b", "c"]


async def test_a_task_that_pauses_pauses_its_caller_whatever_the_caller_does() -> None:
    @task
    async def ask() -> str:
        answer: str = interrupt("question")
        return answer

    @entrypoint(checkpointer=InMemorySaver())
    async def swallows(number: int) -> str:
        try:
            return await ask()
        except BaseException:
            return "swallowed"

    @entrypoint(checkpointer=InMemorySaver())
    async def ignores(number: int) -> str:
        ask()
        return "ignored"

    for workflow in (swallows, ignores):
        paused = await workflow.ainvoke(1, THREAD)
        assert [q.value for q in paused["__interrupt__"]] == ["question"]
        assert "__interrupt__" not in str(await workflow.ainvoke(Command(resume="a"), THREAD))


async def test_a_pause_lets_the_other_calls_finish(runs: Counter[str]) -> None:
    @task
    async def ask() -> str:
        answer: str = interrupt("question")
        return answer

    @task
    async def slow() -> str:
        runs["slow"] += 1
        for _ in range(5):
            await asyncio.sleep(0)
        runs["finished"] += 1
        return "slow"

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> list[str]:
        return await asyncio.gather(ask(), slow())

    await workflow.ainvoke(1, THREAD)

    assert runs == {"slow": 1, "finished": 1}
    assert await workflow.ainvoke(Command(resume="a"), THREAD) == ["a", "slow"]
    assert runs == {"slow": 1, "finished": 1}


async def test_a_sync_workflow_pauses_in_a_task_and_goes_on(runs: Counter[str]) -> None:
    @task
    def ask(question: str) -> str:
        runs[question] += 1
        answer: str = interrupt(question)
        return question + answer

    @entrypoint(checkpointer=InMemorySaver())
    def workflow(number: int) -> list[str]:
        return [future.result() for future in [ask("a"), ask("b")]]

    paused = await workflow.ainvoke(1, THREAD)
    answers = {q.id: q.value.upper() for q in paused["__interrupt__"]}

    assert await workflow.ainvoke(Command(resume=answers), THREAD) == ["aA", "bB"]
    assert runs == {"a": 2, "b": 2}


async def test_calls_of_a_node_are_not_run_again_after_a_pause(runs: Counter[str]) -> None:
    @task
    async def work(number: int) -> str:
        runs["work"] += 1
        return str(number)

    async def node(state: Log) -> Log:
        done = await asyncio.gather(work(1), work(2))
        return {"log": "".join(done) + interrupt("question")}

    builder = StateGraph(Log)
    builder.add_node("node", node)
    builder.set_entry_point("node")
    graph = builder.compile(checkpointer=InMemorySaver())

    await graph.ainvoke({}, THREAD)

    assert await graph.ainvoke(Command(resume="!"), THREAD) == {"log": "12!"}
    assert runs == {"work": 2}


async def test_a_graph_inside_a_task_goes_on_where_it_paused(runs: Counter[str]) -> None:
    async def before(state: Log) -> Log:
        runs["before"] += 1
        return {"log": state["log"] + "b"}

    async def ask(state: Log) -> Log:
        return {"log": state["log"] + interrupt("question")}

    builder = StateGraph(Log)
    builder.add_sequence([before, ask])
    builder.set_entry_point("before")
    graph = builder.compile()

    @task
    async def call(text: str) -> str:
        runs["call"] += 1
        first = await graph.ainvoke({"log": text})
        second = await graph.ainvoke({"log": first["log"]})
        return str(second["log"])

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(text: str) -> str:
        return await call(text)

    await workflow.ainvoke("x", THREAD)
    await workflow.ainvoke(Command(resume="1"), THREAD)

    assert await workflow.ainvoke(Command(resume="2"), THREAD) == "xb1b2"
    assert runs == {"before": 2, "call": 3}


# -- failures ------------------------------------------------------------------------------------------------


async def test_calls_that_are_done_are_not_run_again_after_a_failure(saver: InMemorySaver, runs: Counter[str]) -> None:
    @task
    async def work(name: str) -> str:
        runs[name] += 1
        if name == "bad" and runs[name] == 1:
            raise ValueError("once")
        return name

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> list[str]:
        return [await work("good"), await work("bad"), await work("last")]

    with pytest.raises(ValueError, match="once"):
        await workflow.ainvoke(1, THREAD)

    assert await workflow.ainvoke(None, THREAD) == ["good", "bad", "last"]
    assert runs == {"good": 1, "bad": 2, "last": 1}


async def test_a_new_input_runs_everything_again(runs: Counter[str]) -> None:
    @task
    async def work() -> int:
        runs["work"] += 1
        return runs["work"]

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> int:
        return await work()

    assert [await workflow.ainvoke(1, THREAD), await workflow.ainvoke(1, THREAD)] == [1, 2]


async def test_a_call_that_was_cancelled_runs_again(saver: InMemorySaver, runs: Counter[str]) -> None:
    @task
    async def wait(name: str) -> str:
        runs[name] += 1
        if name == "stuck" and runs[name] == 1:
            await asyncio.Event().wait()
        return name

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> list[Any]:
        stuck, fine = wait("stuck"), wait("fine")
        if runs["workflow"] == 0:
            runs["workflow"] = 1
            await asyncio.sleep(0)
            stuck.cancel()
        results = await asyncio.gather(stuck, fine, return_exceptions=True)
        return [str(interrupt("question")), *map(repr, results)]

    await workflow.ainvoke(1, THREAD)
    done = await workflow.ainvoke(Command(resume="a"), THREAD)

    assert done == ["a", "'stuck'", "'fine'"]
    assert runs == {"stuck": 2, "fine": 1, "workflow": 1}


async def test_a_call_that_failed_is_marked_as_past_when_it_has_succeeded(runs: Counter[str]) -> None:
    saver = InMemorySaver()

    @task
    async def flaky() -> str:
        runs["flaky"] += 1
        if runs["flaky"] == 1:
            raise ValueError("once")
        return "fine"

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> list[Any]:
        return [await flaky(), interrupt("question")]

    with pytest.raises(ValueError, match="once"):
        await workflow.ainvoke(1, THREAD)
    await workflow.ainvoke(None, THREAD)

    assert await workflow.ainvoke(Command(resume="a"), THREAD) == ["fine", "a"]
    assert runs == {"flaky": 2}


async def test_results_are_stored_before_the_caller_sees_them_with_sync_durability() -> None:
    saver = SuspendingSaver()
    seen: list[list[str]] = []

    @task
    async def work() -> str:
        return "done"

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> None:
        await work()
        seen.append(list(saver.stored))

    await workflow.ainvoke(1, THREAD, durability="sync")

    assert seen == [["__return__"]]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_results_outlive_a_pause_with_every_durability(
    saver: InMemorySaver, durability: Any, runs: Counter[str]
) -> None:
    @task
    async def work() -> str:
        runs["work"] += 1
        return "done"

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> list[str]:
        return [await work(), interrupt("question")]

    await workflow.ainvoke(1, THREAD, durability=durability)

    assert await workflow.ainvoke(Command(resume="a"), THREAD, durability=durability) == ["done", "a"]
    assert runs == {"work": 1}


async def test_results_outlive_a_cancelled_run(saver: InMemorySaver, runs: Counter[str]) -> None:
    reached = asyncio.Event()

    @task
    async def work() -> str:
        runs["work"] += 1
        return "done"

    @entrypoint(checkpointer=saver)
    async def workflow(number: int) -> str:
        found = await work()
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()
        return found

    run = asyncio.create_task(workflow.ainvoke(1, THREAD))
    await reached.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run

    assert await workflow.ainvoke(None, THREAD) == "done"
    assert runs == {"work": 1}


async def test_a_result_that_cannot_be_stored_fails_the_run_even_if_the_caller_goes_on() -> None:
    @task
    async def work() -> Any:
        return (number for number in range(3))

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> str:
        try:
            await work()
        except TypeError:
            return "went on"
        return "saw nothing"

    with pytest.raises(TypeError):
        await workflow.ainvoke(1, THREAD)


# -- what is on disk -----------------------------------------------------------------------------------------


async def test_ids_paths_and_questions_have_the_form_that_langgraph_reads() -> None:
    rows: list[Any] = []

    class Watched(InMemorySaver):
        async def acommit(self, config: Any, commit: Any) -> Any:
            rows.extend((config["configurable"]["checkpoint_id"], writes) for writes in commit.writes)
            return await super().acommit(config, commit)

    @task
    async def leaf() -> str:
        answer: str = interrupt("question")
        return answer

    @task
    async def middle() -> str:
        return await leaf()

    @entrypoint(checkpointer=Watched())
    async def flow(number: int) -> str:
        return await middle()

    paused = await flow.ainvoke(1, THREAD)

    ((checkpoint, leaf_row), (_, middle_row), (_, flow_row)) = rows
    flow_path: Any = ("__pregel_pull", "flow")
    middle_path: Any = ("__pregel_push", flow_path, 0, True)
    flow_ns = f"flow:{flow_row.task_id}"
    middle_ns = f"{flow_ns}|middle:{middle_row.task_id}"
    assert middle_row.task_id == task_id(
        checkpoint, f"{flow_ns}|middle", "0", "middle", "__pregel_push", path_text(flow_path), "0"
    )
    assert leaf_row.task_id == task_id(
        checkpoint, f"{middle_ns}|leaf", "0", "leaf", "__pregel_push", path_text(middle_path), "0"
    )
    assert middle_row.path == "~__pregel_push, ~__pregel_pull, flow, 0000000000, 0000000001"
    assert leaf_row.path == f"~__pregel_push, {middle_row.path}, 0000000000, 0000000001"
    assert paused["__interrupt__"][0].id == interrupt_id(f"{middle_ns}|leaf:{leaf_row.task_id}")


async def test_ids_are_those_that_langgraph_computed() -> None:
    checkpoint = "1f1ecff5-ae84-6e53-bfff-0c597ea538a0"
    flow, outer = "020179c7-6d2a-5d86-891e-1dd8f3e598e2", "a1f667ac-1243-4c6f-3856-ec7163beacd4"
    path = path_text(("__pregel_push", ("__pregel_pull", "flow"), 1, True))
    ns = f"flow:{flow}|outer:{outer}"

    assert (
        task_id(checkpoint, f"{ns}|leaf", "0", "leaf", "__pregel_push", path, "0")
        == "87cf2b31-062a-f6a6-e0f6-8a666a5d9d78"
    )
    assert interrupt_id(ns) == "ea1619adb046b0809ccc842d2046a0e7"


# -- streams -------------------------------------------------------------------------------------------------


async def test_a_result_is_streamed_before_anything_that_follows_it() -> None:
    @task
    async def work(name: str, writer: Any) -> str:
        writer(f"in {name}")
        return name

    @entrypoint()
    async def workflow(number: int, writer: Any) -> str:
        await work("a")
        writer("after a")
        await work("b")
        writer("after b")
        return "end"

    items = [item async for item in workflow.astream(1, stream_mode=["updates", "custom"])]

    assert items == [
        ("custom", "in a"),
        ("updates", {"work": "a"}),
        ("custom", "after a"),
        ("custom", "in b"),
        ("updates", {"work": "b"}),
        ("custom", "after b"),
        ("updates", {"workflow": "end"}),
    ]


async def test_an_item_reaches_the_reader_while_the_workflow_runs() -> None:
    go = asyncio.Event()

    @task
    async def work() -> str:
        return "done"

    @entrypoint()
    async def workflow(number: int) -> str:
        await work()
        await go.wait()
        return "end"

    stream = workflow.astream(1)
    assert await anext(stream) == {"work": "done"}
    go.set()
    assert await anext(stream) == {"workflow": "end"}
    await stream.aclose()


async def test_tasks_are_streamed_with_their_arguments_and_results(runs: Counter[str]) -> None:
    @task
    async def work(number: int, *, more: int) -> int:
        return number + more

    @task
    async def bad() -> None:
        raise ValueError("no")

    @entrypoint(checkpointer=InMemorySaver())
    async def workflow(number: int) -> Any:
        found = await work(number, more=2)
        await asyncio.gather(bad(), return_exceptions=True)
        return [found, interrupt("question")]

    def short(item: Any) -> tuple[Any, ...]:
        if "input" in item:
            return ("start", item["name"], item["input"], item["triggers"])
        return ("end", item["name"], item["result"], repr(item["error"]), len(item["interrupts"]))

    first = [short(item) async for item in workflow.astream(1, THREAD, stream_mode="tasks")]
    second = [short(item) async for item in workflow.astream(Command(resume=4), THREAD, stream_mode="tasks")]

    assert first == [
        ("start", "workflow", 1, ("__start__",)),
        ("start", "work", ((1,), {"more": 2}), ("__pregel_push",)),
        ("end", "work", {"__return__": 3}, "None", 0),
        ("start", "bad", ((), {}), ("__pregel_push",)),
        ("end", "bad", {}, "ValueError('no')", 0),
        ("end", "workflow", {}, "None", 1),
    ]
    assert second == [
        ("start", "workflow", 1, ("__start__",)),
        ("start", "work", ((1,), {"more": 2}), ("__pregel_push",)),
        ("start", "bad", ((), {}), ("__pregel_push",)),
        ("end", "bad", {}, "ValueError('no')", 0),
        ("end", "workflow", {"__end__": [3, 4]}, "None", 0),
    ]


async def test_a_graph_inside_a_task_is_streamed_in_its_namespace() -> None:
    async def node(state: Log) -> Log:
        return {"log": "x"}

    builder = StateGraph(Log)
    builder.add_node("node", node)
    builder.set_entry_point("node")
    graph = builder.compile()

    @task
    async def call() -> Any:
        return await graph.ainvoke({})

    @entrypoint()
    async def workflow(number: int) -> Any:
        return await call()

    items = [item async for item in workflow.astream(1, subgraphs=True)]

    assert [([level.split(":")[0] for level in ns], item) for ns, item in items] == [
        (["workflow", "call"], {"node": {"log": "x"}}),
        ([], {"call": {"log": "x"}}),
        ([], {"workflow": {"log": "x"}}),
    ]
