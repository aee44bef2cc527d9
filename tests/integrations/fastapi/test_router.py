"""The routes of a graph, over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed (pip install fastapi)")
pytest.importorskip("uvicorn", reason="uvicorn is not installed (pip install uvicorn)")

import httpx
from drawings import State, chain, logs
from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel
from web_server import all_events, listening, run_tasks, serving

from langgraph_async import START, Runtime, Send, StateGraph, interrupt
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.sqlite import AsyncSqliteSaver
from langgraph_async.integrations.fastapi import drain_runs, graph_router
from langgraph_async.pregel import background_runs
from langgraph_async.stream.log import InMemoryEventLog
from langgraph_async.stream.log.sqlite import SqliteEventLog


class Gate:
    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, state: Any) -> Any:
        self.reached.set()
        try:
            await self.opened.wait()
            return {"log": ["gate"]}
        finally:
            self.ended.set()


async def asks(state: Any) -> Any:
    return {"log": [interrupt("Pay?")]}


def app_of(graph: Any, **options: Any) -> FastAPI:
    app = FastAPI(lifespan=drain_runs(0.05))
    app.include_router(graph_router(graph, **options))
    return app


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        yield client


async def turns_until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


def paused() -> Any:
    return chain(saver=InMemorySaver(), before=logs("before"), asks=asks, after=logs("after"))


# -- running -----------------------------------------------------------------------------------------------------


async def test_invoke_returns_output_and_status(client: httpx.AsyncClient) -> None:
    async with serving(app_of(chain(saver=InMemorySaver(), a=logs("a")))) as url:
        response = await client.post(f"{url}/threads/t/invoke", json={"input": {"log": ["x"]}, "run_id": "r"})

    assert response.status_code == 200
    assert response.json() == {
        "run_id": "r",
        "thread_id": "t",
        "status": "done",
        "output": {"log": ["x", "a"]},
        "interrupts": [],
    }


async def test_a_paused_run_is_answered_by_another_request(client: httpx.AsyncClient) -> None:
    async with serving(app_of(paused())) as url:
        first = (await client.post(f"{url}/threads/t/invoke", json={"input": {}})).json()
        state = (await client.get(f"{url}/threads/t/state")).json()
        answered = (await client.post(f"{url}/threads/t/resume", json={"answer": "yes"})).json()

    assert first["status"] == "paused"
    assert first["interrupts"][0]["value"] == "Pay?"
    assert state["next"] == ["asks"]
    assert state["interrupts"] == first["interrupts"]
    assert answered["status"] == "done"
    assert answered["output"] == {"log": ["before", "yes", "after"]}


@pytest.mark.parametrize("answer", [None, False, 0, "", {}, []])
async def test_an_answer_is_delivered_as_it_is(client: httpx.AsyncClient, answer: Any) -> None:
    async with serving(app_of(paused())) as url:
        await client.post(f"{url}/threads/t/invoke", json={"input": {}})
        found = (await client.post(f"{url}/threads/t/resume", json={"answer": answer})).json()
    assert found["output"]["log"][1] == answer


async def test_several_questions_are_answered_by_their_ids(client: httpx.AsyncClient) -> None:
    async def ask(n: int) -> Any:
        return {"log": [f"{n}:{interrupt(n)}"]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_conditional_edges(START, lambda _: [Send("ask", n) for n in range(2)])
    graph = builder.compile(checkpointer=InMemorySaver())
    async with serving(app_of(graph)) as url:
        first = (await client.post(f"{url}/threads/t/invoke", json={"input": {}})).json()
        vague = await client.post(f"{url}/threads/t/resume", json={"answer": "?"})
        answers = {q["id"]: f"answer {q['value']}" for q in first["interrupts"]}
        found = (await client.post(f"{url}/threads/t/resume", json={"answers": answers})).json()

    assert vague.status_code == 409
    assert found["output"]["log"] == ["0:answer 0", "1:answer 1"]


async def test_a_command_updates_and_goes_elsewhere(client: httpx.AsyncClient) -> None:
    graph = chain(saver=InMemorySaver(), a=logs("a"), b=logs("b"))
    async with serving(app_of(graph)) as url:
        await client.post(f"{url}/threads/t/invoke", json={"input": {}})
        body = {"command": {"update": {"log": ["u"]}, "goto": "b"}}
        found = (await client.post(f"{url}/threads/t/invoke", json=body)).json()
    assert found["output"]["log"] == ["a", "b", "u", "b"]


async def test_streaming_and_coming_back(client: httpx.AsyncClient) -> None:
    gate = Gate()
    graph = chain(saver=InMemorySaver(), a=logs("a"), gate=gate, b=logs("b"))
    async with serving(app_of(graph, on_disconnect="continue")) as url:
        at = f"{url}/threads/t/stream"
        async with listening(client, "POST", at, json={"input": {}}) as reader, aclosing(aiter(reader)) as events:
            seen = [await anext(events)]
        await gate.reached.wait()
        coming_back = asyncio.create_task(all_events(client, "GET", at, headers={"Last-Event-ID": str(seen[0].id)}))
        gate.opened.set()
        seen += await coming_back
        runs = (await client.get(f"{url}/threads/t/runs")).json()
        again = await all_events(client, "GET", at, params={"run_id": runs[0]["run_id"]})

    assert [next(iter(e.data["data"])) for e in seen[:-1]] == ["a", "gate", "b"]
    assert [str(e.id).split(":")[1] for e in seen] == ["1", "2", "3", "4"]
    assert [(run["status"], run["last_seq"]) for run in runs] == [("done", 4)]
    assert again == seen


async def test_answering_can_be_streamed(client: httpx.AsyncClient) -> None:
    async with serving(app_of(paused())) as url:
        first = await all_events(client, "POST", f"{url}/threads/t/stream", json={"input": {}})
        body = {"answer": "yes", "stream_mode": "values"}
        second = await all_events(client, "POST", f"{url}/threads/t/resume/stream", json=body)

    assert first[-1].data == {"status": "paused"}
    assert second[-2].data["data"] == {"log": ["before", "yes", "after"]}


async def test_a_client_that_leaves_an_invoke_ends_its_run(client: httpx.AsyncClient) -> None:
    gate = Gate()
    async with serving(app_of(chain(saver=InMemorySaver(), gate=gate))) as url:
        before = run_tasks()
        asking = asyncio.create_task(client.post(f"{url}/threads/t/invoke", json={"input": {}}))
        await gate.reached.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await gate.ended.wait()
        await turns_until(lambda: run_tasks() <= before and len(background_runs()) == 0)


async def test_a_run_goes_on_after_an_invoke_if_asked_to(client: httpx.AsyncClient) -> None:
    gate = Gate()
    async with serving(app_of(chain(saver=InMemorySaver(), gate=gate, b=logs("b")))) as url:
        body = {"input": {}, "on_disconnect": "continue"}
        asking = asyncio.create_task(client.post(f"{url}/threads/t/invoke", json=body))
        await gate.reached.wait()
        asking.cancel()
        await asyncio.wait([asking])
        gate.opened.set()
        await turns_until(lambda: len(background_runs()) == 0)
        state = (await client.get(f"{url}/threads/t/state")).json()
    assert state["values"] == {"log": ["gate", "b"]}


# -- cancelling --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "code"), [("cancel", 409), ("drain", 503)])
async def test_a_run_is_cancelled_or_drained(client: httpx.AsyncClient, action: str, code: int) -> None:
    gate = Gate()
    async with serving(app_of(chain(saver=InMemorySaver(), gate=gate, b=logs("b")))) as url:
        running = asyncio.create_task(client.post(f"{url}/threads/t/invoke", json={"input": {}, "run_id": "r"}))
        await gate.reached.wait()
        body = {"action": action, "wait": action == "cancel"}
        ended = await client.post(f"{url}/threads/t/cancel", json=body)
        gate.opened.set()
        answer = await running
        nothing = await client.post(f"{url}/threads/t/cancel")
        other = await client.post(f"{url}/threads/other/cancel")

    assert ended.json() == {"run_ids": ["r"]}
    assert answer.status_code == code
    assert gate.ended.is_set()
    assert nothing.status_code == other.status_code == 404


# -- threads -----------------------------------------------------------------------------------------------------


async def test_state_history_and_update(client: httpx.AsyncClient) -> None:
    async with serving(app_of(chain(saver=InMemorySaver(), a=logs("a"), b=logs("b")))) as url:
        await client.post(f"{url}/threads/t/invoke", json={"input": {}})
        history = (await client.get(f"{url}/threads/t/history")).json()
        two = (await client.get(f"{url}/threads/t/history", params={"limit": 2})).json()
        older = (await client.get(f"{url}/threads/t/history", params={"before": history[1]["checkpoint_id"]})).json()
        past = (
            await client.get(f"{url}/threads/t/state", params={"checkpoint_id": history[1]["checkpoint_id"]})
        ).json()
        made = (await client.post(f"{url}/threads/t/state", json={"values": {"log": ["hand"]}, "as_node": "a"})).json()
        state = (await client.get(f"{url}/threads/t/state")).json()

    assert [s["values"].get("log") for s in history] == [["a", "b"], ["a"], [], []]
    assert two == history[:2]
    assert older == history[2:]
    assert past == history[1]
    assert state["checkpoint_id"] == made["checkpoint_id"]
    assert state["values"] == {"log": ["a", "b", "hand"]}
    assert state["next"] == ["b"]
    assert history[0]["parent_checkpoint_id"] == history[1]["checkpoint_id"]


async def test_a_run_can_begin_at_an_old_checkpoint(client: httpx.AsyncClient) -> None:
    async with serving(app_of(chain(saver=InMemorySaver(), a=logs("a"), b=logs("b")))) as url:
        await client.post(f"{url}/threads/t/invoke", json={"input": {}})
        history = (await client.get(f"{url}/threads/t/history")).json()
        body = {"checkpoint_id": history[1]["checkpoint_id"]}
        found = (await client.post(f"{url}/threads/t/invoke", json=body)).json()
    assert found["output"] == {"log": ["a", "b"]}


# -- errors ------------------------------------------------------------------------------------------------------


async def test_errors_have_a_status_a_code_and_no_traceback(client: httpx.AsyncClient, caplog: Any) -> None:
    async def bad(state: Any) -> Any:
        raise ConnectionError("no luck")

    gate = Gate()
    good = chain(saver=InMemorySaver(), gate=gate)
    app = FastAPI()
    app.include_router(graph_router(good), prefix="/good")
    app.include_router(graph_router(chain(saver=InMemorySaver(), bad=bad)), prefix="/bad")
    async with serving(app) as url:
        running = asyncio.create_task(client.post(f"{url}/good/threads/busy/invoke", json={"input": {}}))
        await gate.reached.wait()
        at = f"{url}/good/threads"
        found = {
            "busy": await client.post(f"{at}/busy/invoke", json={"input": {}}),
            "busy stream": await client.post(f"{at}/busy/stream", json={"input": {}}),
            "busy update": await client.post(f"{at}/busy/state", json={"values": {}, "as_node": "gate"}),
            "no state": await client.get(f"{at}/none/state"),
            "nothing to go on with": await client.post(f"{at}/none/invoke", json={}),
            "no question": await client.post(f"{at}/none/resume", json={"answer": 1}),
            "no such question": await client.post(f"{at}/none/resume", json={"answers": {"0" * 32: 1}}),
            "both": await client.post(f"{at}/none/resume", json={"answers": {"0" * 32: 1}, "answer": 1}),
            "neither": await client.post(f"{at}/none/resume", json={}),
            "no such field": await client.post(f"{at}/none/invoke", json={"inptu": {}}),
            "no such mode": await client.post(f"{at}/none/stream", json={"input": {}, "stream_mode": "all"}),
            "bad input": await client.post(f"{at}/none/invoke", json={"input": 3}),
            "no such node": await client.post(f"{at}/none/invoke", json={"input": {}, "interrupt_before": ["x"]}),
            "no run": await client.get(f"{at}/none/stream"),
            "node": await client.post(f"{url}/bad/threads/t/invoke", json={"input": {}}),
        }
        gate.opened.set()
        await running

    statuses = {name: response.status_code for name, response in found.items()}
    assert statuses == {
        "busy": 409,
        "busy stream": 409,
        "busy update": 409,
        "no state": 404,
        "nothing to go on with": 422,
        "no question": 409,
        "no such question": 409,
        "both": 422,
        "neither": 422,
        "no such field": 422,
        "no such mode": 422,
        "bad input": 422,
        "no such node": 422,
        "no run": 404,
        "node": 500,
    }
    assert found["busy"].json()["detail"]["type"] == "ThreadConflictError"
    assert found["node"].json()["detail"] == {"type": "ConnectionError", "code": None, "message": "no luck"}
    assert not any("Traceback" in response.text for response in found.values())
    assert "no luck" in caplog.text


async def test_a_graph_without_a_checkpointer_runs_and_keeps_nothing(client: httpx.AsyncClient) -> None:
    async with serving(app_of(chain(a=logs("a")))) as url:
        run = await client.post(f"{url}/threads/t/invoke", json={"input": {}})
        state = await client.get(f"{url}/threads/t/state")
    assert run.json()["output"] == {"log": ["a"]}
    assert state.status_code == 404
    assert state.json()["detail"]["code"] == "NO_CHECKPOINTER"


# -- dependencies ------------------------------------------------------------------------------------------------


class User(BaseModel):
    name: str


async def signed_in(authorization: str = Header("")) -> User:
    if not authorization.startswith("Bearer "):
        raise HTTPException(401, "Who are you?")
    return User(name=authorization.removeprefix("Bearer "))


async def own_threads(thread_id: str, user: Annotated[User, Depends(signed_in)]) -> dict[str, Any]:
    return {"configurable": {"thread_id": f"{user.name}/{thread_id}"}, "tags": [user.name]}


async def test_dependencies_say_who_asks_and_keep_threads_apart(client: httpx.AsyncClient) -> None:
    async def greets(state: Any, runtime: Runtime[User]) -> Any:
        return {"log": [runtime.context.name]}

    log = InMemoryEventLog()
    graph = chain(saver=InMemorySaver(), greets=greets)
    app = app_of(graph, event_log=log, config=own_threads, context=signed_in, dependencies=[Depends(signed_in)])
    async with serving(app) as url:
        nobody = await client.post(f"{url}/threads/t/invoke", json={"input": {}})
        ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
        streamed = await all_events(client, "POST", f"{url}/threads/t/stream", json={"input": {}}, headers=ann)
        second = (await client.post(f"{url}/threads/t/invoke", json={"input": {}}, headers=bob)).json()
        state = (await client.get(f"{url}/threads/t/state", headers=ann)).json()
        stolen = await client.get(f"{url}/threads/t/stream", headers={**bob, "Last-Event-ID": str(streamed[0].id)})
        runs = (await client.get(f"{url}/threads/t/runs", headers=ann)).json()

    assert nobody.status_code == 401
    assert streamed[0].data["data"] == {"greets": {"log": ["ann"]}}
    assert second["output"] == {"log": ["bob"]}
    assert state["values"] == {"log": ["ann"]}
    assert stolen.status_code == 404
    assert [run["thread_id"] for run in runs] == ["t"]


async def test_an_input_model_checks_and_converts(client: httpx.AsyncClient) -> None:
    class Order(BaseModel):
        x: int

    async def shows(state: Any) -> Any:
        return {"log": [repr(state.x) if hasattr(state, "x") else repr(state["x"])]}

    async with serving(app_of(chain(saver=InMemorySaver(), shows=shows), input_model=Order)) as url:
        good = await client.post(f"{url}/threads/t/invoke", json={"input": {"x": "7"}})
        bad = await client.post(f"{url}/threads/t/invoke", json={"input": {"x": "seven"}})

    assert good.json()["output"]["log"] == ["7"]
    assert bad.status_code == 422
    assert bad.json()["detail"][0]["loc"] == ["x"]


async def test_the_description_of_the_api_is_complete(client: httpx.AsyncClient) -> None:
    async with serving(app_of(chain(saver=InMemorySaver(), a=logs("a")))) as url:
        described = (await client.get(f"{url}/openapi.json")).json()

    operations = {
        f"{method.upper()} {path}": operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert sorted(operations) == sorted(
        f"{method} /threads/{{thread_id}}/{name}"
        for method, name in [
            ("POST", "invoke"),
            ("POST", "stream"),
            ("GET", "stream"),
            ("POST", "resume"),
            ("POST", "resume/stream"),
            ("POST", "cancel"),
            ("GET", "runs"),
            ("GET", "state"),
            ("POST", "state"),
            ("GET", "history"),
        ]
    )
    assert all(operation["summary"] and operation["description"] for operation in operations.values())
    assert "409" in operations["POST /threads/{thread_id}/invoke"]["responses"]
    assert "text/event-stream" in operations["GET /threads/{thread_id}/stream"]["responses"]["200"]["content"]
    assert '"log"' in operations["POST /threads/{thread_id}/invoke"]["description"]
    assert "RunResult" in described["components"]["schemas"]


# -- several workers ---------------------------------------------------------------------------------------------


async def test_a_client_comes_back_to_another_worker(client: httpx.AsyncClient, tmp_path: Path) -> None:
    gate = Gate()
    path = tmp_path / "threads.db"
    opened = AsyncSqliteSaver.from_conn_string
    async with opened(path) as one, opened(path) as two:
        first = app_of(
            chain(saver=one, a=logs("a"), gate=gate, b=logs("b")),
            event_log=SqliteEventLog(one),
            on_disconnect="continue",
        )
        second = app_of(
            chain(saver=two, a=logs("a"), gate=gate, b=logs("b")), event_log=SqliteEventLog(two, poll_s=0.001)
        )
        async with serving(first) as here, serving(second) as there:
            connection = listening(client, "POST", f"{here}/threads/t/stream", json={"input": {}})
            async with connection as reader, aclosing(aiter(reader)) as events:
                seen = [await anext(events)]
            await gate.reached.wait()
            headers = {"Last-Event-ID": str(seen[0].id)}
            coming_back = asyncio.create_task(all_events(client, "GET", f"{there}/threads/t/stream", headers=headers))
            gate.opened.set()
            seen += await coming_back
            state = (await client.get(f"{there}/threads/t/state")).json()

    assert [str(e.id).split(":")[1] for e in seen] == ["1", "2", "3", "4"]
    assert seen[-1].data == {"status": "done"}
    assert state["values"] == {"log": ["a", "gate", "b"]}
