"""A limit on how often and how many at once, shared by whatever holds the object.

What is inside a permit takes turns under it, instead of asking for a second one: so a node and the nodes of a graph
inside it may share a limit without waiting for each other for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from datetime import timedelta
from typing import Final

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock

_ROUNDING: Final = 1e-6
"""Part of a token that may be missing: sums of floats do not come out even."""


class _Gate:
    """A number of places, given out in the order of asking."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def try_enter(self) -> bool:
        if not self._free:
            return False
        self._free -= 1
        return True

    async def enter(self) -> None:
        """Take a place, waiting for one. A cancelled wait takes none."""
        if self.try_enter():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[turn] = None
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.leave()  # the place came together with the cancellation
            raise
        finally:
            self._waiting.pop(turn, None)

    def leave(self) -> None:
        """Give a place back: to the first who waits."""
        while self._waiting:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class _Bucket:
    """Tokens that come in at a steady rate, up to a number of them; whoever waits for one waits in line."""

    __slots__ = ("_clock", "_line", "_per_second", "_size", "_tokens", "_when")

    def __init__(self, per_second: float, size: int, clock: Clock) -> None:
        self._per_second = per_second
        self._size = size
        self._tokens = float(size)
        self._clock = clock
        self._when = clock.monotonic()
        self._line = _Gate(1)

    def start_over(self) -> None:
        """Forget who waits."""
        self._line = _Gate(1)

    def try_take(self) -> bool:
        if not self._line.try_enter():
            return False
        taken = self._take() <= 0
        self._line.leave()
        return taken

    async def take(self) -> None:
        """Take a token, waiting for one. A cancelled wait takes none."""
        await self._line.enter()
        try:
            while (seconds := self._take()) > 0:
                await self._clock.sleep(seconds)
        finally:
            self._line.leave()

    def _take(self) -> float:
        """Take a token, or return the seconds until there is one."""
        now = self._clock.monotonic()
        self._tokens = min(float(self._size), self._tokens + (now - self._when) * self._per_second)
        self._when = now
        missing = 1 - self._tokens
        if missing > _ROUNDING:
            return missing / self._per_second
        self._tokens -= 1
        return 0.0


class Permit:
    """Leave to run once, from a `Limiter`.

    Its place can be lent: to others, while something inside waits for a permit of its own. So nobody who waits keeps
    a place from those who could go on, and no two can wait for each other.

    Attributes:
        limiter: What gave it.
        within: The permit in whose place it runs, or ran when it was given; or None.
        lent: Whether others have its place.
    """

    __slots__ = ("_ended", "_gate", "_inner", "_waiting", "lent", "limiter", "within")

    def __init__(self, limiter: Limiter, gate: _Gate | None, within: Permit | None) -> None:
        self.limiter = limiter
        self.within = within
        self.lent = False
        self._gate = gate
        self._ended = False
        self._inner: _Turns | None = None
        self._waiting = 0

    @property
    def inner(self) -> _Gate:
        """Where those wait who run inside."""
        if self._inner is None:
            self._inner = _Turns(self)
        return self._inner

    def release(self) -> None:
        """Give it back; doing so again changes nothing."""
        if not self._ended:
            self._ended = True
            self.limiter.end(None if self.lent else self._gate)

    def begin_wait(self) -> None:
        """Note that something inside waits for a permit: the place is lent, as soon as nobody inside uses it."""
        self._waiting += 1
        self.settle()

    def end_wait(self) -> None:
        """Note that something inside waits no more. The place stays lent until `come_back`."""
        self._waiting -= 1

    def settle(self) -> None:
        """Lend the place if that is wanted, and possible."""
        if not self._waiting or self.lent or self._ended or self._gate is None:
            return
        if self._inner is None or self._inner.idle:
            self.lent = True
            self._gate.leave()

    async def come_back(self) -> None:
        """Take a place again, waiting for it, if it was lent. A cancelled wait takes none."""
        gate = self.limiter.gate_for(self.within) if self.lent and not self._ended else None
        if gate is None:
            return
        await gate.enter()
        if not self.lent or self._ended:
            gate.leave()  # somebody else has come back meanwhile, or it is over
            return
        self.lent, self._gate = False, gate
        self.settle()


class _Turns(_Gate):
    """The one place that those inside a permit take turns in."""

    __slots__ = ("_permit",)

    def __init__(self, permit: Permit) -> None:
        super().__init__(1)
        self._permit = permit

    @property
    def idle(self) -> bool:
        return self._free == 1

    def leave(self) -> None:
        super().leave()
        self._permit.settle()


class Limiter:
    """A limit on how often nodes and tasks start, and on how many of them run at once.

    Whatever is given the same object shares the limit: nodes, graphs and runs of one event loop. Each attempt takes a
    permit when it starts and gives it back when it ends; those that wait are served in the order of asking. The wait
    counts neither against the node's timeouts nor against `max_concurrency`.

    A graph or task that is called inside a node with a limit, and has a node with the same limit, needs no place of
    its own: the nodes inside take turns in the place of the one around them. While something inside waits for a permit
    of another limit, the attempt around it counts as waiting too: others have its place meanwhile, and it takes one
    again, in the order of asking, before its code gets the result. So limits may be nested in any order, and an
    attempt may start while another one stands still in the middle; what must not overlap like that belongs in a node
    that calls nothing.

    Args:
        rate: How many may start per `per`.
        per: Seconds, or a timedelta.
        burst: How many may start at once after a pause; with 1 they are spaced evenly.
        concurrency: How many may run at once.
        clock: What the rate goes by; replaced in tests that should not wait.

    Raises:
        ValueError: There is neither `rate` nor `concurrency`, or a number cannot be used.

    Example:
        >>> api = Limiter(rate=50, per=60, burst=10, concurrency=4)
        >>> # builder.add_node("search", search, limit=api).add_node("fetch", fetch, limit=api)
        >>> api
        Limiter(rate=50, per=60, burst=10, concurrency=4)
    """

    __slots__ = ("_binding", "_bucket", "_gate", "_loop", "_users", "burst", "concurrency", "per", "rate")

    def __init__(
        self,
        *,
        rate: float | None = None,
        per: float | timedelta = 1.0,
        burst: int = 1,
        concurrency: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if rate is None and concurrency is None:
            raise ValueError("A Limiter needs rate=, concurrency= or both, got neither.")
        seconds = per.total_seconds() if isinstance(per, timedelta) else per
        if rate is not None:
            _check_number("rate", rate)
        elif burst != 1:
            raise ValueError(f"burst={burst!r} needs rate=: it is how many may start at once after a pause.")
        _check_number("per", seconds)
        _check_count("burst", burst)
        if concurrency is not None:
            _check_count("concurrency", concurrency)
        self.rate = rate
        self.per = float(seconds)
        self.burst = burst
        self.concurrency = concurrency
        self._gate = None if concurrency is None else _Gate(concurrency)
        self._bucket = None if rate is None else _Bucket(rate / self.per, burst, clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._users = 0
        self._binding = threading.Lock()

    def try_acquire(self, within: Permit | None = None) -> Permit | None:
        """Return a permit if that needs no waiting; see `acquire`."""
        self._begin()
        gate = self.gate_for(within)
        if gate is not None and not gate.try_enter():
            self._users -= 1
            return None
        if self._bucket is not None and not self._bucket.try_take():
            self.end(gate)
            return None
        return Permit(self, gate, within)

    async def acquire(self, within: Permit | None = None) -> Permit:
        """Return a permit, waiting for it. A cancelled wait takes none.

        Args:
            within: A permit of this limiter that is held around; those inside take turns in its place.

        Raises:
            RuntimeError: The limiter is in use on another event loop.
        """
        self._begin()
        gate = self.gate_for(within)
        try:
            if gate is not None:
                await gate.enter()
        except BaseException:
            self._users -= 1
            raise
        try:
            if self._bucket is not None:
                await self._bucket.take()
        except BaseException:
            self.end(gate)
            raise
        return Permit(self, gate, within)

    def gate_for(self, within: Permit | None) -> _Gate | None:
        """Return where to wait for a place inside `within`; None when any number may run."""
        if self._gate is None:
            return None
        while within is not None and within.lent:
            within = within.within
        return self._gate if within is None else within.inner

    def _begin(self) -> None:
        """Count a user, on the event loop that the others are on."""
        loop = asyncio.get_running_loop()
        with self._binding:
            if self._loop is not loop:
                if self._users and self._loop is not None and not self._loop.is_closed():
                    raise RuntimeError(
                        f"{self!r} is in use on another event loop, and a limit counts on one loop at a time. Make a "
                        "Limiter for each event loop, and divide the limit among them."
                    )
                self._start_over()
                self._loop = loop
            self._users += 1

    def _start_over(self) -> None:
        """Forget users whose event loop has ended; the tokens stay."""
        self._users = 0
        self._gate = None if self.concurrency is None else _Gate(self.concurrency)
        if self._bucket is not None:
            self._bucket.start_over()

    def end(self, gate: _Gate | None) -> None:
        """Count a user off, and give its place back."""
        self._users -= 1
        if gate is not None:
            gate.leave()

    def __repr__(self) -> str:
        rate = None if self.rate is None else f"rate={self.rate:g}, per={self.per:g}, burst={self.burst}"
        concurrency = None if self.concurrency is None else f"concurrency={self.concurrency}"
        return f"Limiter({', '.join(part for part in (rate, concurrency) if part)})"


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ValueError(f"{name} of a Limiter must be a finite number greater than 0, got {value!r}.")


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} of a Limiter must be a whole number of at least 1, got {value!r}.")
