"""Which failures count as passing, how long a retry waits, and what keeps an idle limit off."""

import asyncio
from datetime import timedelta
from operator import add
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from langgraph_async import START, StateGraph
from langgraph_async.aio.clock import FakeClock
from langgraph_async.errors import NodeCancelledError, NodeTimeoutError
from langgraph_async.func import entrypoint, task
from langgraph_async.pregel.step.retry import wait_before_next
from langgraph_async.runtime import Runtime
from langgraph_async.types import RetryPolicy, TimeoutPolicy, default_retry_on


class State(TypedDict):
    log: Annotated[list[str], add]


class OddError(Exception):
    pass


def http_error(module: str, name: str, base: type[Exception], status: int | None) -> Exception:
    """An error as an HTTP client raises it, with the answer it got."""
    kind = type(name, (base,), {"__module__": f"{module}.exceptions"})
    error: Any = kind("http")
    error.response = None if status is None else type("Response", (), {"status_code": status})()
    return error


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (OddError(), True),
        (Exception(), True),
        (NodeCancelledError("a"), True),
        (NodeTimeoutError("a", 1.0, kind="run", run_timeout=1.0), True),
        (ValueError(), False),
        (TypeError(), False),
        (ZeroDivisionError(), False),
        (ImportError(), False),
        (KeyError(), False),
        (NameError(), False),
        (SyntaxError(), False),
        (RuntimeError(), False),
        (NotImplementedError(), False),
        (ReferenceError(), False),
        (StopIteration(), False),
        (StopAsyncIteration(), False),
        (OSError(), False),
        (TimeoutError(), False),
        (FileNotFoundError(), False),
        (http_error("httpx", "HTTPStatusError", Exception, 503), True),
        (http_error("httpx", "HTTPStatusError", Exception, 404), False),
        (http_error("requests", "HTTPError", OSError, 500), True),
        (http_error("requests", "HTTPError", OSError, 404), False),
        (http_error("requests", "HTTPError", OSError, None), True),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, Exception) else str(value),
)
def test_by_default_what_may_pass_is_tried_again(error: Exception, passing: bool) -> None:
    assert default_retry_on(error) is passing


def test_an_http_error_of_ones_own_is_judged_like_its_base() -> None:
    base = type(http_error("requests", "HTTPError", OSError, 500))
    error: Any = type("Mine", (base,), {"__module__": "mine"})("http")
    error.response = type("Response", (), {"status_code": 502})()
    assert default_retry_on(error) is True


@given(
    initial=st.floats(0, 100),
    factor=st.floats(0, 10),
    greatest=st.floats(0, 100),
    attempt=st.integers(1, 50),
    noise=st.floats(0, 1, exclude_max=True),
)
def test_jitter_adds_less_than_a_second_to_an_interval_within_its_bound(
    initial: float, factor: float, greatest: float, attempt: int, noise: float
) -> None:
    plain = RetryPolicy(initial, factor, greatest, 99, jitter=False)
    base = wait_before_next([plain], OddError(), attempt)
    assert base is not None
    assert 0 <= base <= greatest
    wait = wait_before_next([plain._replace(jitter=True)], OddError(), attempt, noise=lambda: noise)
    assert wait == base + noise


async def test_jitter_that_is_really_drawn_lies_between_nothing_and_a_second() -> None:
    class Eager(FakeClock):
        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.sleep(0)

    async def bad(state: State) -> State:
        raise OddError

    policy = RetryPolicy(initial_interval=2, backoff_factor=1, max_attempts=20)
    graph = StateGraph(State).add_node("a", bad, retry_policy=policy).add_edge(START, "a").compile()
    clock = graph.clock = Eager()
    with pytest.raises(OddError):
        await graph.ainvoke({"log": []})
    assert len(clock.slept) == 19
    assert all(2 <= seconds < 3 for seconds in clock.slept)
    assert len(set(clock.slept)) > 1


async def test_attempts_are_counted_over_all_policies() -> None:
    raised: list[str] = []

    class Eager(FakeClock):
        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.sleep(0)

    async def bad(state: State) -> State:
        error = OddError("odd") if len(raised) % 2 else ConnectionError("gone")
        raised.append(str(error))
        raise error

    policies = [
        RetryPolicy(1, 2, max_attempts=4, jitter=False, retry_on=ConnectionError),
        RetryPolicy(10, 1, max_attempts=9, jitter=False, retry_on=(LookupError, OddError)),
    ]
    graph = StateGraph(State).add_node("a", bad, retry_policy=policies).add_edge(START, "a").compile()
    clock = graph.clock = Eager()
    with pytest.raises(ConnectionError, match="gone"):
        await graph.ainvoke({"log": []})
    assert raised == ["gone", "odd", "gone", "odd", "gone"]
    assert clock.slept == [1, 10, 4, 10]


# -- timeouts --------------------------------------------------------------------------------------------------


def test_a_policy_in_seconds_is_returned_as_it_is_and_others_are_brought_to_seconds() -> None:
    plain = TimeoutPolicy(run_timeout=1.5)
    assert TimeoutPolicy.coerce(plain) is plain
    assert TimeoutPolicy.coerce(None) is None
    assert TimeoutPolicy.coerce(TimeoutPolicy()) is None
    assert TimeoutPolicy.coerce(timedelta(minutes=1)) == TimeoutPolicy(run_timeout=60.0)
    brought = TimeoutPolicy.coerce(TimeoutPolicy(run_timeout=2, idle_timeout=timedelta(seconds=3)))
    assert brought == TimeoutPolicy(run_timeout=2.0, idle_timeout=3.0)
    assert type(brought.run_timeout) is float  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "timeout must be greater than 0"),
        (float("nan"), "timeout must be greater than 0"),
        (TimeoutPolicy(run_timeout=-1), "run_timeout must be greater than 0"),
        (TimeoutPolicy(idle_timeout=timedelta(0)), "idle_timeout must be greater than 0"),
        (TimeoutPolicy(refresh_on="never"), "refresh_on must be 'auto' or 'heartbeat'"),  # type: ignore[arg-type]
    ],
)
def test_a_limit_that_is_no_time_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TimeoutPolicy.coerce(value)


async def idle_run(node: Any, turns: int, clock: FakeClock, step: Any, **policy: Any) -> Any:
    """Run a node with an idle limit of 2 s; `step` happens every 1.5 s, `turns` times."""
    options = {"idle_timeout": 2, **policy}
    builder = StateGraph(State).add_node("a", node, timeout=TimeoutPolicy(**options)).add_edge(START, "a")
    graph = builder.compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    for _ in range(turns):
        watch = asyncio.create_task(clock.sleepers())
        await asyncio.wait({run, watch}, return_when=asyncio.FIRST_COMPLETED)
        watch.cancel()
        await clock.advance(1.5)
        step()
        for _ in range(50):
            await asyncio.sleep(0)
    return await run


@pytest.mark.parametrize("kind", ["nested steps", "called tasks"])
@pytest.mark.parametrize("refresh_on", ["auto", "heartbeat"])
async def test_what_happens_inside_is_a_sign_of_life_unless_only_heartbeats_count(kind: str, refresh_on: Any) -> None:
    clock, ticks = FakeClock(), asyncio.Queue[None]()

    async def tick(state: State) -> State:
        await ticks.get()
        return {"log": ["tick"]}

    inner = StateGraph(State)
    for name in "abc":
        inner.add_node(name, tick)
    nested = inner.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").compile()

    @task
    async def call() -> str:
        await ticks.get()
        return "tick"

    async def node(state: State) -> Any:
        if kind == "nested steps":
            return await nested.ainvoke({"log": []})
        return {"log": [await call() for _ in range(3)]}

    def step() -> None:
        ticks.put_nowait(None)

    if refresh_on == "auto":
        assert await idle_run(node, 3, clock, step) == {"log": ["tick"] * 3}
    else:
        with pytest.raises(NodeTimeoutError) as caught:
            await idle_run(node, 3, clock, step, refresh_on="heartbeat")
        assert (caught.value.kind, caught.value.timeout) == ("idle", 2.0)


async def test_a_heartbeat_where_nothing_is_timed_does_nothing() -> None:
    async def node(state: State, runtime: Runtime) -> State:
        runtime.heartbeat()
        return {"log": ["alive"]}

    graph = StateGraph(State).add_node("a", node).add_edge(START, "a").compile()
    assert await graph.ainvoke({"log": []}) == {"log": ["alive"]}


async def test_an_error_carries_both_limits() -> None:
    clock = FakeClock()

    async def node(state: State) -> State:
        await asyncio.Event().wait()
        raise AssertionError

    policy = TimeoutPolicy(run_timeout=9, idle_timeout=2)
    graph = StateGraph(State).add_node("a", node, timeout=policy).add_edge(START, "a").compile()
    graph.clock = clock
    run = asyncio.create_task(graph.ainvoke({"log": []}))
    await clock.sleepers()
    await clock.advance(2)
    with pytest.raises(NodeTimeoutError, match="idle timeout") as caught:
        await run
    error = caught.value
    assert (error.kind, error.timeout, error.idle_timeout, error.run_timeout) == ("idle", 2.0, 2.0, 9.0)


async def test_a_node_that_blocked_the_loop_past_its_time_has_succeeded() -> None:
    class Jumping(FakeClock):
        passed = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.passed

    clock = Jumping()

    async def node(state: State) -> State:
        clock.passed += 100
        return {"log": ["blocked"]}

    graph = StateGraph(State).add_node("a", node, timeout=1).add_edge(START, "a").compile()
    graph.clock = clock
    assert await graph.ainvoke({"log": []}) == {"log": ["blocked"]}


# -- old spellings ---------------------------------------------------------------------------------------------


def test_the_old_names_of_options_warn() -> None:
    with pytest.warns(DeprecationWarning, match="`retry` is deprecated.*`retry_policy`"):

        @task(retry=RetryPolicy(max_attempts=7))  # type: ignore[call-overload, untyped-decorator]
        async def one() -> int:
            return 1

    assert one.retry_policy[0].max_attempts == 7
    with pytest.warns(DeprecationWarning, match="`retry` is deprecated.*`retry_policy`"):
        assert entrypoint(retry=RetryPolicy(max_attempts=7)).retry_policy[0].max_attempts == 7
    with pytest.warns(DeprecationWarning, match="`config_schema` is deprecated.*`context_schema`"):
        assert entrypoint(config_schema=State).context_schema is State
    with pytest.raises(TypeError, match="'retry_polcy'"):
        task(retry_polcy=RetryPolicy())  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="'retry_polcy'"):
        entrypoint(retry_polcy=RetryPolicy())
