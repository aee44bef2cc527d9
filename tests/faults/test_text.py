"""Text that databases do not like: NUL, lone surrogates, and what looks like an escape, wherever text can be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from threads import on

from langgraph_async import START, Command, Interrupt, StateGraph, interrupt
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import ConfigError, LangGraphError
from langgraph_async.testing.saver_contract.samples import Branch, at, listed, load, pending

TEXTS = {
    "NUL": "a\0b",
    "only NUL": "\0",
    "NUL at the end": "ab\0",
    "surrogate": "a\ud800b",
    "low surrogate first": "\udc00\ud800",
    "NUL and surrogate": "\0\udfff",
    "escape": "\\u0000 \\ud800",
    "control": "\x01\x1f\x7f\x85\u2028",
    "beyond": "\U0010ffff\ufffe",
}


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        return AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", synchronous="NORMAL")
    return AsyncPostgresSaver.from_conn_string(request.getfixturevalue("postgres_database"), max_size=1)


@pytest.fixture
async def saver(opened: Any) -> AsyncIterator[Any]:
    async with opened as saver:
        yield saver


class State(TypedDict, total=False):
    text: Any
    answer: Any


def _graph(saver: Any) -> Any:
    async def ask(state: State) -> State:
        return {"answer": interrupt({state["text"]: [state["text"]]})}

    return StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)


texts = pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())


@texts
async def test_a_run_keeps_it_in_values_keys_questions_answers_and_metadata(saver: Any, text: str) -> None:
    graph = _graph(saver)
    config = on("t", metadata={"note": text, text: "key", "deep": {text: [text]}})
    paused = await graph.ainvoke({"text": text}, config)
    state = await graph.aget_state(on("t"))
    assert [question.value for question in paused["__interrupt__"]] == [{text: [text]}]
    assert [question.value for question in state.tasks[0].interrupts] == [{text: [text]}]
    assert state.values == {"text": text}

    assert await graph.ainvoke(Command(resume={text: text}), on("t")) == {"text": text, "answer": {text: text}}
    state = await graph.aget_state(on("t"))
    assert state.values == {"text": text, "answer": {text: text}}


@texts
async def test_a_saver_gives_back_values_and_writes_as_they_were_and_metadata_without_what_json_lacks(
    saver: Any, text: str
) -> None:
    branch = Branch(saver, "t")
    await branch.put({"note": text, "deep": {"key": [text]}}, plain=text, deep={text: [text, {text}]})
    await branch.write(("a", text), ("__interrupt__", [Interrupt(value=text, id="1")]), task="task")
    found = await load(saver, at("t"))
    note = found.metadata.get("note")

    assert found.checkpoint["channel_values"] == {"plain": text, "deep": {text: [text, {text}]}}
    assert await pending(saver, branch.head) == [
        ("task", "__interrupt__", [Interrupt(value=text, id="1")]),
        ("task", "a", text),
    ]
    kept = "".join(char for char in text if char != "\0" and not "\ud800" <= char <= "\udfff")
    assert note in {text, text.replace("\0", ""), kept}
    assert len([item async for item in saver.alist(at("t"), filter={"note": note})]) == 1
    assert len([item async for item in saver.alist(at("t"), filter={"note": text + "x"})]) == 0


@texts
async def test_a_name_is_kept_or_refused_in_so_many_words_and_others_are_stored_beside_it(
    saver: Any, text: str
) -> None:
    branches = [Branch(saver, f"t{n}") for n in range(4)]
    odd = Branch(saver, "odd")
    outcomes = await asyncio.gather(
        odd.put(**{text: 1}), *(branch.put(a=1) for branch in branches), return_exceptions=True
    )
    assert [at_ for at_ in outcomes[1:] if isinstance(at_, BaseException)] == []
    if isinstance(outcomes[0], BaseException):
        _assert_clear(outcomes[0])
        assert await listed(saver, at("odd")) == []
    else:
        assert (await load(saver, at("odd"))).checkpoint["channel_values"] == {text: 1}


def _assert_clear(error: BaseException) -> None:
    assert isinstance(error, LangGraphError)
    assert any(word in str(error) for word in ("NUL", "surrogate"))


@texts
async def test_a_thread_id_is_kept_apart_from_all_others_or_refused_in_so_many_words(saver: Any, text: str) -> None:
    graph = _graph(saver)
    await graph.ainvoke({"text": "other"}, on("ab"))
    (outcome,) = await asyncio.gather(graph.ainvoke({"text": 1}, on(text)), return_exceptions=True)
    if isinstance(outcome, BaseException):
        _assert_clear(outcome)
        assert {info.thread_id async for info in saver.alist_threads()} == {"ab"}
    else:
        assert (await graph.aget_state(on(text))).values == {"text": 1}
        assert {info.thread_id async for info in saver.alist_threads()} == {text, "ab"}
        await saver.adelete_thread(text)
        assert (await graph.aget_state(on(text))).values == {}
    assert (await graph.aget_state(on("ab"))).values == {"text": "other"}


@pytest.mark.parametrize("text", [TEXTS["NUL"], TEXTS["surrogate"]])
async def test_every_question_about_a_thread_that_cannot_be_is_refused_alone(saver: Any, text: str) -> None:
    if "\0" in text and isinstance(saver, AsyncSqliteSaver):
        pytest.skip("SQLite keeps NUL")
    await Branch(saver, "t").put(a=1)
    calls = [
        saver.aget_tuple(at(text)),
        listed(saver, at(text)),
        listed(saver, None, before=at("t", "", text)),
        saver.aget_delta_channel_history(config=at(text), channels=["a"]),
        saver.aput_writes(at(text, "", "1"), [("a", 1)], "task"),
        saver.adelete_thread(text),
        saver.adelete_for_runs([text]),
        saver.acopy_thread(text, "new"),
        saver.acopy_thread("t", text),
        saver.aprune([text]),
        saver.aprune([text, "t"], strategy="delete"),
    ]
    *refused, found = await asyncio.gather(*calls, listed(saver, at("t")), return_exceptions=True)

    assert [type(error) for error in refused] == [ConfigError] * len(calls)
    assert len(found) == 1
