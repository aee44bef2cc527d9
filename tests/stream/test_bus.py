"""The bus, driven by hand: coroutines are stepped one future at a time, so every interleaving is chosen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langgraph_async.constants import MISSING
from langgraph_async.errors import ConfigError, StreamOverflowError
from langgraph_async.stream.bus import Bus


class Hand:
    """Drives one coroutine: it is `done`, or it waits for a future that is `ready` or not."""

    def __init__(self, coro: Coroutine[Any, Any, Any]) -> None:
        self._coro = coro
        self._future: asyncio.Future[Any] | None = None
        self.done = False
        self.result: Any = None
        self._advance()

    def _advance(self) -> None:
        try:
            self._future = self._coro.send(None)
        except StopIteration as stop:
            self.done, self.result = True, stop.value

    @property
    def ready(self) -> bool:
        return self._future is not None and self._future.done()

    def turn(self) -> bool:
        """Let it go on if what it waits for has come; say whether it is done."""
        if not self.done and self.ready:
            self._advance()
        return self.done

    def cancel(self) -> None:
        assert self._future is not None
        self._future.cancel()
        with pytest.raises(asyncio.CancelledError):
            self._coro.throw(asyncio.CancelledError())
        self.done = True


def take_all(bus: Bus) -> list[Any]:
    taken = []
    while (item := bus.get_nowait()) is not MISSING:
        taken.append(item)
    return taken


async def test_items_come_in_the_order_in_which_they_were_put() -> None:
    bus = Bus()
    for item in range(5):
        (bus.put if item % 2 else bus.put_fact)(item)
    bus.close()

    assert [item async for item in bus] == [0, 1, 2, 3, 4]


async def test_a_waiting_reader_is_woken_by_a_put() -> None:
    bus = Bus()
    reader = Hand(bus.wait())
    assert not reader.ready

    bus.put("a")

    assert reader.turn()
    assert reader.result is True
    assert take_all(bus) == ["a"]


async def test_the_reader_is_told_the_end_once_the_items_are_out() -> None:
    bus = Bus()
    bus.put("a")
    bus.close()

    assert await bus.wait()
    assert take_all(bus) == ["a"]
    assert not await bus.wait()
    assert not await bus.wait()


async def test_an_error_is_raised_once_after_the_items() -> None:
    bus = Bus()
    bus.put("a")
    bus.close(ValueError("boom"))
    bus.close(KeyError("too late"))

    assert await anext(bus) == "a"
    with pytest.raises(ValueError, match="boom"):
        await anext(bus)
    with pytest.raises(StopAsyncIteration):
        await anext(bus)


async def test_closing_wakes_a_reader_with_the_error() -> None:
    bus = Bus()
    reader = Hand(bus.wait())

    bus.close(ValueError("boom"))

    with pytest.raises(ValueError, match="boom"):
        reader.turn()


async def test_a_second_reader_is_refused() -> None:
    bus = Bus()
    reader = Hand(bus.wait())

    with pytest.raises(RuntimeError, match="one reader only"):
        await bus.wait()
    reader.cancel()


async def test_what_is_put_on_a_closed_bus_is_dropped() -> None:
    bus = Bus(soft_limit=1, hard_limit=1)
    bus.close()

    for item in range(3):
        bus.put(item)
        bus.put_fact(item)

    assert len(bus) == 0
    assert bus.closed


async def test_past_the_hard_limit_a_chunk_is_refused_with_advice() -> None:
    bus = Bus(soft_limit=1, hard_limit=2)
    bus.put(1)
    bus.put(2)

    with pytest.raises(StreamOverflowError, match=r"await writer\.drain\(\)") as caught:
        bus.put(3)
    assert caught.value.code == "STREAM_OVERFLOW"
    assert take_all(bus) == [1, 2]
    bus.put(4)


async def test_facts_are_never_refused_and_leave_the_chunks_their_limit() -> None:
    bus = Bus(soft_limit=1, hard_limit=2)
    for item in range(10):
        bus.put_fact(item)
    bus.put("a")
    bus.put("b")

    with pytest.raises(StreamOverflowError):
        bus.put("c")


async def test_a_reader_that_caught_up_makes_the_limit_strict_again() -> None:
    bus = Bus(soft_limit=1, hard_limit=2)
    for item in range(10):
        bus.put_fact(item)
    take_all(bus)
    reader = Hand(bus.wait())
    bus.put("a")
    assert reader.turn()
    bus.put("b")

    with pytest.raises(StreamOverflowError):
        bus.put("c")


@pytest.mark.parametrize(("soft", "hard"), [(0, 1), (2, 1), (-1, 5)])
async def test_impossible_limits_are_refused(soft: int, hard: int) -> None:
    with pytest.raises(ConfigError, match="soft_limit"):
        Bus(soft_limit=soft, hard_limit=hard)


# -- drain --------------------------------------------------------------------------------------------------


async def test_drain_returns_at_once_when_nothing_waits() -> None:
    bus = Bus()
    assert Hand(bus.drain()).done

    bus.put(1)
    bus.close()
    assert Hand(bus.drain()).done


async def test_drain_waits_for_what_was_there_and_not_for_what_comes_later() -> None:
    bus = Bus()
    bus.put(1)
    bus.put(2)
    drain = Hand(bus.drain())
    bus.put(3)

    bus.get_nowait()
    assert not drain.turn()
    bus.get_nowait()
    assert drain.turn()


async def test_closing_lets_everybody_go_who_waits_for_the_reader() -> None:
    bus = Bus(soft_limit=1)
    bus.put(1)
    bus.put(2)
    waiting = [Hand(bus.drain()), Hand(bus.drain()), Hand(bus.room()), Hand(bus.boundary())]
    assert not any(hand.ready for hand in waiting)

    bus.close()

    assert all(hand.turn() for hand in waiting)


async def test_room_waits_until_no_more_than_the_soft_limit_wait() -> None:
    bus = Bus(soft_limit=2)
    bus.put(1)
    bus.put(2)
    assert Hand(bus.room()).done
    bus.put(3)
    bus.put(4)
    room = Hand(bus.room())

    bus.get_nowait()
    assert not room.turn()
    bus.get_nowait()
    assert room.turn()


@pytest.mark.parametrize("name", ["drain", "room", "boundary"])
async def test_cancelling_one_who_waits_changes_nothing_for_the_others(name: str) -> None:
    bus = Bus(soft_limit=1)
    bus.put(1)
    bus.put(2)
    first, second = Hand(getattr(bus, name)()), Hand(getattr(bus, name)())

    first.cancel()
    take_all(bus)

    assert second.turn()
    assert not (bus._drains)
    assert not (bus._rooms)
    assert not (bus._boundaries)


async def test_cancelling_one_who_was_just_released_changes_nothing() -> None:
    bus = Bus()
    bus.put(1)
    first, second = Hand(bus.drain()), Hand(bus.drain())
    bus.get_nowait()
    assert first.ready
    assert second.ready

    first.cancel()

    assert second.turn()


# -- the superstep boundary ---------------------------------------------------------------------------------


async def test_boundary_returns_at_once_while_the_reader_is_waiting() -> None:
    bus = Bus()
    reader = Hand(bus.wait())

    assert Hand(bus.boundary()).done
    reader.cancel()


async def test_boundary_waits_for_a_reader_that_has_not_asked_yet() -> None:
    bus = Bus()
    boundary = Hand(bus.boundary())
    assert not boundary.ready

    reader = Hand(bus.wait())

    assert boundary.turn()
    reader.cancel()


async def test_an_item_in_the_readers_hand_holds_the_boundary() -> None:
    bus = Bus()
    bus.put("last")
    boundary = Hand(bus.boundary())

    assert await anext(bus) == "last"
    assert not boundary.turn()
    reader = Hand(bus.wait())
    assert boundary.turn()
    reader.cancel()


async def test_a_generator_over_the_bus_holds_the_boundary_while_it_is_suspended() -> None:
    bus = Bus()

    async def read() -> Any:
        async for item in bus:
            yield item

    stream = read()
    bus.put("last")
    boundary = asyncio.ensure_future(bus.boundary())

    assert await anext(stream) == "last"
    await asyncio.sleep(0)
    assert not boundary.done()

    more = asyncio.ensure_future(anext(stream))
    await boundary
    bus.close()
    with pytest.raises(StopAsyncIteration):
        await more


async def test_a_boundary_is_not_held_up_by_what_others_put_later() -> None:
    bus = Bus()
    bus.put("mine")
    boundary = Hand(bus.boundary())
    bus.put("another graph's")

    bus.get_nowait()
    bus.get_nowait()

    assert boundary.turn()


async def test_a_reader_that_was_cancelled_holds_the_boundary_until_it_comes_back() -> None:
    bus = Bus()
    reader = Hand(bus.wait())
    reader.cancel()
    boundary = Hand(bus.boundary())
    assert not boundary.ready

    again = Hand(bus.wait())

    assert boundary.turn()
    again.cancel()


# -- the reader is cancelled --------------------------------------------------------------------------------


async def test_a_cancelled_reader_may_come_back_and_has_lost_nothing() -> None:
    bus = Bus()
    Hand(bus.wait()).cancel()
    bus.put("a")

    assert await anext(bus) == "a"


async def test_an_item_that_woke_a_reader_which_is_then_cancelled_stays() -> None:
    bus = Bus()
    reader = Hand(bus.wait())
    bus.put("a")
    assert reader.ready

    reader.cancel()

    assert take_all(bus) == ["a"]


async def test_a_put_after_the_readers_cancellation_and_before_it_noticed_is_kept() -> None:
    bus = Bus()
    reader = asyncio.ensure_future(bus.wait())
    await asyncio.sleep(0)
    reader.cancel()
    bus.put("a")

    with pytest.raises(asyncio.CancelledError):
        await reader
    assert take_all(bus) == ["a"]


# -- threads ------------------------------------------------------------------------------------------------


def in_thread(function: Any, *args: Any) -> None:
    """Run `function` in a thread to its end while the event loop stands still."""
    failed: list[BaseException] = []

    def target() -> None:
        try:
            function(*args)
        except BaseException as error:  # handed to the test below
            failed.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


async def test_a_thread_wakes_the_waiting_reader() -> None:
    bus = Bus()
    reader = asyncio.ensure_future(anext(bus))
    await asyncio.sleep(0)

    await asyncio.to_thread(bus.put, "from a thread")

    assert await reader == "from a thread"


async def test_a_threads_chunks_come_before_what_the_loop_puts_afterwards() -> None:
    bus = Bus()
    for item in range(3):
        in_thread(bus.put, item)
    bus.put_fact("done")

    assert take_all(bus) == [0, 1, 2, "done"]


async def test_a_threads_chunks_are_not_lost_when_the_bus_closes() -> None:
    bus = Bus()
    in_thread(bus.put, "a")
    bus.close()

    assert [item async for item in bus] == ["a"]


async def test_drain_counts_a_threads_chunks() -> None:
    bus = Bus()
    in_thread(bus.put, "a")
    drain = Hand(bus.drain())
    assert not drain.done

    take_all(bus)

    assert drain.turn()


async def test_the_hard_limit_is_raised_in_the_thread_that_goes_past_it() -> None:
    bus = Bus(soft_limit=1, hard_limit=2)
    in_thread(bus.put, 1)
    in_thread(bus.put, 2)

    with pytest.raises(StreamOverflowError):
        in_thread(bus.put, 3)


async def test_many_threads_keep_each_their_order() -> None:
    bus = Bus()

    def write(name: int) -> None:
        for number in range(200):
            bus.put((name, number))

    writers = asyncio.gather(*(asyncio.to_thread(write, name) for name in range(4)))
    writers.add_done_callback(lambda _: bus.close())
    got = [item async for item in bus]
    await writers

    assert len(got) == 800
    for name in range(4):
        assert [number for who, number in got if who == name] == list(range(200))


async def test_waiting_for_the_reader_in_another_thread_is_refused() -> None:
    bus = Bus()

    def wait() -> None:
        asyncio.run(bus.drain())

    with pytest.raises(RuntimeError, match="event loop of the run"):
        await asyncio.to_thread(wait)


def test_a_thread_that_outlives_the_loop_writes_to_nobody() -> None:
    async def make() -> Bus:
        return Bus()

    bus = asyncio.run(make())

    in_thread(bus.put, "late")


# -- against a model ----------------------------------------------------------------------------------------

OPERATIONS = st.lists(
    st.sampled_from(
        [
            "put",
            "put",
            "fact",
            "thread",
            "get",
            "get",
            "wait",
            "drain",
            "room",
            "boundary",
            "cancel_reader",
            "cancel_waiter",
            "close",
        ]
    ),
    max_size=60,
)


class Model:
    """The bus as two lists and a few numbers, with every rule spelled out and checked after each operation."""

    def __init__(self, bus: Bus, soft: int, hard: int) -> None:
        self.bus, self.soft, self.hard = bus, soft, hard
        self.put: list[int] = []
        self.handed = 0
        self.consumed = -1
        self.facts = 0
        self.closed = False
        self.reader: Hand | None = None
        self.waiters: list[tuple[str, int, Hand]] = []

    def do(self, operation: str) -> None:
        getattr(self, f"do_{operation}")()
        self.check()

    def do_put(self, call: Any = None) -> None:
        item = len(self.put)
        waiting = len(self.put) - self.handed
        if not self.closed and waiting >= self.hard + self.facts:
            with pytest.raises(StreamOverflowError):
                self.bus.put(item)
            return
        (call or self.bus.put)(item)
        if not self.closed:
            self.put.append(item)

    def do_thread(self) -> None:
        self.do_put(lambda item: in_thread(self.bus.put, item))
        self.bus._pour()  # what the event loop would do next

    def do_fact(self) -> None:
        self.bus.put_fact(len(self.put))
        if not self.closed:
            self.put.append(len(self.put))
            self.facts += 1

    def do_get(self) -> None:
        if self.reader is not None and not self.reader.turn():
            return
        self.reader = None
        item = self.bus.get_nowait()
        self.consumed = self.handed
        if self.handed < len(self.put):
            assert item == self.put[self.handed]
            self.handed += 1
        else:
            assert item is MISSING

    def do_wait(self) -> None:
        if self.reader is not None:
            return
        self.reader = Hand(self.bus.wait())
        self.consumed = self.handed
        there = self.handed < len(self.put)
        assert self.reader.done == (there or self.closed)
        if self.reader.done:
            assert self.reader.result == there
            self.reader = None
        else:
            self.facts = 0

    def do_cancel_reader(self) -> None:
        if self.reader is not None and not self.reader.done:
            self.reader.cancel()
            self.consumed = -1
        self.reader = None

    def _stand(self, name: str, ticket: int, reached: int) -> None:
        hand = Hand(getattr(self.bus, name)())
        assert hand.done == (self.closed or reached >= ticket)
        if not hand.done:
            self.waiters.append((name, ticket, hand))

    def do_drain(self) -> None:
        self._stand("drain", len(self.put), self.handed)

    def do_room(self) -> None:
        self._stand("room", len(self.put) - self.soft, self.handed)

    def do_boundary(self) -> None:
        self._stand("boundary", len(self.put), self.consumed)

    def do_cancel_waiter(self) -> None:
        if self.waiters:
            self.waiters.pop(0)[2].cancel()

    def do_close(self) -> None:
        self.bus.close()
        self.closed = True

    def check(self) -> None:
        assert len(self.bus) == len(self.put) - self.handed
        if self.reader is not None and not self.reader.done:
            assert self.reader.ready == (self.closed or self.handed < len(self.put))
        staying = []
        for name, ticket, hand in self.waiters:
            reached = self.consumed if name == "boundary" else self.handed
            assert hand.ready == (self.closed or reached >= ticket), name
            if hand.ready:
                assert hand.turn()
            else:
                staying.append((name, ticket, hand))
        self.waiters = staying
        assert len(self.bus._drains) + len(self.bus._rooms) + len(self.bus._boundaries) == len(staying)


@given(operations=OPERATIONS, soft=st.integers(1, 3), extra=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_the_bus_does_what_a_plain_list_would(operations: list[str], soft: int, extra: int) -> None:
    async def play() -> None:
        model = Model(Bus(soft_limit=soft, hard_limit=soft + extra), soft, soft + extra)
        for operation in operations:
            model.do(operation)
        model.do_cancel_reader()
        for _, _, hand in model.waiters:
            hand.cancel()

    asyncio.run(play())
