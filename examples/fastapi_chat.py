"""A chat behind FastAPI: the answer streams word by word, and what costs money waits for a person.

Run it as it stands: it serves itself on a free port, and a client talks to it. With ``--serve`` it serves on port 8000,
and http://127.0.0.1:8000/docs shows what can be asked. Needs ``pip install 'langgraph-async[fastapi]' uvicorn httpx``.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import uvicorn
from fastapi import FastAPI
from typing_extensions import TypedDict

from langgraph_async import END, START, StateGraph, add_messages, interrupt, stream_tokens
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.integrations.fastapi import drain_runs, graph_router
from langgraph_async.stream.log import InMemoryEventLog

# -- a model, with the face of a real client's: put AsyncOpenAI() in its place -------------------------------------


class SmallModel:
    """Answers by rule, word by word."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=self)

    async def create(self, *, messages: list[dict[str, str]], **_: Any) -> AsyncIterator[Any]:
        return self._words(messages[-1]["content"])

    async def _words(self, asked: str) -> AsyncIterator[Any]:
        paid = re.fullmatch(r"pay (\d+) to (\w+)", asked)
        answer = f"PAY {paid[1]} {paid[2]}" if paid else f"You said: {asked}"
        for word in re.findall(r"\S+\s*", answer):
            await asyncio.sleep(0)  # the network
            yield {
                "id": "answer",
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": {"content": word}}],
            }


client = SmallModel()

# -- the graph ---------------------------------------------------------------------------------------------------


class Chat(TypedDict, total=False):
    messages: Annotated[list[dict[str, Any]], add_messages]
    order: str


async def talk(state: Chat) -> Chat:
    response = await client.chat.completions.create(model="small", messages=state["messages"], stream=True)
    message = await stream_tokens(response).collect()  # tells each word as it comes, and returns them together
    text = message["content"]
    return {"messages": [message], "order": text.removeprefix("PAY ") if text.startswith("PAY ") else ""}


async def approve(state: Chat) -> Chat:
    amount, whom = state["order"].split()
    done = f"Paid {amount} to {whom}." if interrupt(f"Pay {amount} to {whom}?") else "Not paid."
    return {"messages": [{"role": "assistant", "content": done}], "order": ""}


def build() -> Any:
    builder = StateGraph(Chat)
    builder.add_node(talk)
    builder.add_node(approve)
    builder.add_edge(START, "talk")
    builder.add_conditional_edges("talk", lambda state: "approve" if state["order"] else END, ["approve", END])
    builder.add_edge("approve", END)
    return builder.compile(checkpointer=InMemorySaver(), name="chat")


app = FastAPI(title="Chat", lifespan=drain_runs(grace_s=5))
app.include_router(graph_router(build(), event_log=InMemoryEventLog(), stream_mode=["messages", "updates"]))

# -- a client ----------------------------------------------------------------------------------------------------


async def events(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> AsyncIterator[tuple[str, Any]]:
    async with http.stream("POST", path, json=body) as response:
        response.raise_for_status()
        event = ""
        async for line in response.aiter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield event, json.loads(line.removeprefix("data: "))


async def say(http: httpx.AsyncClient, text: str) -> None:
    print(f"> {text}")
    body = {"input": {"messages": [{"role": "user", "content": text}]}}
    async for event, data in events(http, "/threads/ann/stream", body):
        if event == "messages":
            message, metadata = data["data"]
            if metadata["langgraph_node"] == "talk":
                print(message["content"], end="")
        elif event == "end":
            print(f" [{data['status']}]")


async def main() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()  # the client waits until the server is up
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        serving = asyncio.create_task(server.serve([sock]))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{sock.getsockname()[1]}", trust_env=False) as http:
            await say(http, "good morning")
            await say(http, "pay 500 to Bob")
            state = (await http.get("/threads/ann/state")).json()
            print("asked:", state["interrupts"][0]["value"])
            answered = (await http.post("/threads/ann/resume", json={"answer": True})).json()
            print(answered["output"]["messages"][-1]["content"])
        server.should_exit = True
        await serving


if __name__ == "__main__":
    if "--serve" in sys.argv:
        uvicorn.run(app, port=8000, ws="none")
    else:
        asyncio.run(main())
