"""Programs that look at what a node is given besides the state: config, runtime, context, injected parameters."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Any

from programs import S, compiled, graph, link, says
from pydantic import BaseModel
from traces import Trace, Turn, watch
from typing_extensions import TypedDict

VAR: contextvars.ContextVar[str] = contextvars.ContextVar("VAR", default="unset")


@dataclass
class Ctx:
    user: str
    level: int = 1


class CtxModel(BaseModel):
    user: str
    level: int = 1


class CtxDict(TypedDict):
    user: str


def bare(function: Any) -> Any:
    function.__annotations__ = {}
    return function


async def p_config_in_a_node(lg: Any, t: Trace) -> None:
    @bare
    async def look(state: S, config: Any) -> Any:
        conf = {k: v for k, v in config["configurable"].items() if not k.startswith("__pregel")}
        shown = {"conf": conf, "metadata": dict(sorted(config["metadata"].items())), "tags": config.get("tags") or []}
        t.add("config", shown)
        t.add("limit", min(config.get("recursion_limit", 10007), 10000))
        got = lg.get_config()
        t.add("same", got["metadata"] == config["metadata"])

    configs = [
        {"configurable": {"thread_id": "t"}},
        {"configurable": {"thread_id": "t", "mine": 1}, "tags": ["x", "y"], "metadata": {"m": {"k": 1}}},
        {"configurable": {"thread_id": 7}, "recursion_limit": 30, "run_name": "named"},
        {"configurable": {"thread_id": "t", "assistant_id": "as", "graph_id": "g"}, "custom_key": 5},
    ]
    builder = lg.StateGraph(S)
    builder.add_node("look", look, metadata={"node": "meta"})
    builder.add_node("again", look)
    link(lg, builder, "^-look look-again")
    for config in configs:
        t.case(config)
        await watch(t, lg, compiled(builder), [Turn({"x": 0}, config)], shapes=["ainvoke", "tasks"])


async def p_bound_config(lg: Any, t: Trace) -> None:
    @bare
    async def look(state: S, config: Any) -> Any:
        t.add("config", {k: config.get(k) for k in ("tags", "metadata")})
        t.add("mine", config["configurable"].get("mine"))

    builder = lg.StateGraph(S).add_node("look", look).add_edge(lg.START, "look")

    def build(saver: Any) -> Any:
        bound = {"tags": ["bound"], "metadata": {"b": 1, "m": 2}, "configurable": {"mine": "bound"}}
        return builder.compile(checkpointer=saver).with_config(bound)

    turns = [
        Turn({"x": 0}, {"configurable": {"thread_id": "t"}, "tags": ["call"], "metadata": {"m": 3}}),
        Turn({"x": 0}, {"configurable": {"thread_id": "t", "mine": "call"}}),
    ]
    await watch(t, lg, build, turns, shapes=["ainvoke", "tasks"])


async def p_config_in_a_subgraph(lg: Any, t: Trace) -> None:
    @bare
    async def look(state: S, config: Any) -> Any:
        conf = {k: v for k, v in config["configurable"].items() if not k.startswith("__pregel")}
        t.add(
            "config",
            {"conf": conf, "metadata": dict(sorted(config["metadata"].items())), "tags": config.get("tags") or []},
        )

    sub = lg.StateGraph(S).add_node("look", look).add_edge(lg.START, "look").compile()

    @bare
    async def call(state: S, config: Any) -> Any:
        await sub.ainvoke({"x": 1})
        await sub.ainvoke({"x": 1}, config)
        await sub.ainvoke({"x": 1}, {"tags": ["inner"], "metadata": {"i": 1}, "configurable": {"c": 1}})

    builder = lg.StateGraph(S)
    builder.add_node("sub", sub)
    builder.add_node("call", call)
    link(lg, builder, "^-sub sub-call")
    config = {"configurable": {"thread_id": "t", "mine": 1}, "tags": ["x"], "metadata": {"m": 1}}
    await watch(t, lg, compiled(builder), [Turn({"x": 0}, config)], shapes=["ainvoke"])


async def p_injected_parameters(lg: Any, t: Trace) -> None:
    @bare
    async def all_of_them(state: S, config: Any, writer: Any, store: Any, runtime: Any, previous: Any = "def") -> Any:
        t.add("got", [config is not None, callable(writer), store, type(runtime).__name__, previous])

    @bare
    async def keyword_only(state: S, *, config: Any, runtime: Any) -> Any:
        t.add("kw", [config is not None, type(runtime).__name__])

    @bare
    def sync(state: S, runtime: Any, config: Any) -> Any:
        t.add("sync", [config is not None, type(runtime).__name__, lg.get_config() is not None])

    class Node:
        async def __call__(self, state: S, config: Any) -> Any:
            t.add("object", config is not None)

    Node.__call__.__annotations__ = {}
    builder = lg.StateGraph(S)
    for name, node in {"a": all_of_them, "b": keyword_only, "c": sync, "d": Node()}.items():
        builder.add_node(name, node)
    link(lg, builder, "^a ab bc cd")
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke"])
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke"], saver=False)


async def p_runtime(lg: Any, t: Trace) -> None:
    @bare
    async def look(state: S, runtime: Any) -> Any:
        info = runtime.execution_info
        fields = ("checkpoint_id", "checkpoint_ns", "task_id", "thread_id", "run_id", "node_attempt")
        t.add("info", {name: getattr(info, name) for name in fields})
        t.add("given", [runtime.context, runtime.store, runtime.previous, runtime.server_info])
        t.add("drain", (runtime.drain_requested, runtime.drain_reason))

    builder = lg.StateGraph(S)
    builder.add_node("look", look)
    builder.add_node("sub", lg.StateGraph(S).add_node("look", look).add_edge(lg.START, "look").compile())
    link(lg, builder, "^-look look-sub")
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke"], context={"c": 1})
    config = {"configurable": {"thread_id": "t", "assistant_id": "as", "graph_id": "g"}}
    await watch(t, lg, compiled(builder), [Turn({"x": 0}, config)], shapes=["ainvoke"])


async def p_context(lg: Any, t: Trace) -> None:
    async def look(state: S) -> Any:
        t.add("context", lg.get_runtime().context)

    for schema in (None, Ctx, CtxModel, CtxDict):
        for given in (
            None,
            {"user": "u"},
            Ctx("o"),
            CtxModel(user="m", level=2),
            {"user": "u", "nope": 1},
            {"level": 3},
        ):
            t.case((schema and schema.__name__, given))
            builder = lg.StateGraph(S, context_schema=schema).add_node("a", look).add_edge(lg.START, "a")
            await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke"], saver=False, context=given)


async def p_context_variables(lg: Any, t: Trace) -> None:
    async def sets(state: S) -> Any:
        t.add("a", VAR.get())
        VAR.set("a")

    def sync(state: S) -> Any:
        t.add("b", VAR.get())
        VAR.set("b")

    async def last(state: S) -> Any:
        t.add("c", VAR.get())

    builder = lg.StateGraph(S)
    for name, node in {"a": sets, "b": sync, "c": last}.items():
        builder.add_node(name, node)
    link(lg, builder, "^a ab bc")
    token = VAR.set("caller")
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["ainvoke", "all"])
    t.add("after", VAR.get())
    VAR.reset(token)


async def p_outside_a_run(lg: Any, t: Trace) -> None:
    for name in ("get_config", "get_runtime", "get_stream_writer", "get_store"):
        try:
            t.add(name, getattr(lg, name)())
        except Exception as exc:
            t.add(name, exc)
    try:
        t.add("interrupt", lg.interrupt("x"))
    except BaseException as exc:
        t.add("interrupt", exc)


async def p_missing_thread(lg: Any, t: Trace) -> None:
    for config in ({}, {"configurable": {}}, {"configurable": {"other": 1}}, {"configurable": {"thread_id": 5}}):
        t.case(config)
        g = graph(lg, "a", "^a").compile(checkpointer=lg.InMemorySaver())
        try:
            t.add("result", await g.ainvoke({"x": 0}, config))
        except Exception as exc:
            t.add("raised", exc)


async def skipped_retries(lg: Any, t: Trace) -> None:
    calls: list[int] = []

    async def flaky(state: S) -> Any:
        calls.append(lg.get_runtime().execution_info.node_attempt)
        lg.get_stream_writer()(("try", calls[-1]))
        if calls[-1] < 3:
            raise ConnectionError("again")
        return {"log": calls.copy()}

    for attempts in (3, 2):
        t.case(attempts)
        policy = lg.RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=attempts)
        builder = lg.StateGraph(S).add_node("a", flaky, retry_policy=policy).add_edge(lg.START, "a")

        def build(saver: Any, builder: Any = builder) -> Any:
            calls.clear()
            return builder.compile(checkpointer=saver)

        await watch(t, lg, build, [{"x": 0}])


async def p_metadata_stored(lg: Any, t: Trace) -> None:
    config = {
        "configurable": {"thread_id": "t", "user": "u", "n": 1, "obj": [1], "__private": 1, "run_id": "r"},
        "metadata": {"m": 1, "nested": {"k": [1]}},
        "tags": ["x"],
    }
    await watch(t, lg, compiled(graph(lg, "a b", "^a ab")), [Turn({"x": 0}, config)], shapes=["ainvoke", "checkpoints"])


async def p_hidden_node(lg: Any, t: Trace) -> None:
    builder = graph(lg, "a b", "^a ab")
    await watch(
        t,
        lg,
        compiled(builder),
        [{"x": 0}],
        config={"tags": ["nostream", "seq:step:1", "u"], "configurable": {"thread_id": "t"}},
        shapes=["tasks"],
    )


async def p_runnable_returned(lg: Any, t: Trace) -> None:
    builder = lg.StateGraph(S).add_node("a", says("a"), metadata={"k": "v"}).add_edge(lg.START, "a")
    await watch(t, lg, compiled(builder), [{"x": 0}], shapes=["tasks", "all"])


async def p_debug_flag(lg: Any, t: Trace) -> None:
    import contextlib
    import io

    for options in ({"debug": True}, {"print_mode": ["updates", "tasks"]}, {"print_mode": "values"}):
        t.case(options)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            g = graph(lg, "a", "^a").compile()
            t.add("result", await g.ainvoke({"x": 0}, **options))
        t.add("printed", out.getvalue())
