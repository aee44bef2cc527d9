from __future__ import annotations

import gc

import pytest
from run_stream_graphs import opened, read, simple

from langgraph_async.errors import StreamOverflowError
from langgraph_async.stream import StreamChannel, StreamTransformer


class Probe(StreamTransformer):
    """Shows its channel under ``probe``."""

    def init(self):
        self.channel = StreamChannel()
        return {"probe": self.channel}

    def process(self, event):
        return True


async def channel(**options):
    made = []

    class Made(Probe):
        def init(self):
            self.channel = StreamChannel(**options)
            made.append(self.channel)
            return {"probe": self.channel}

    run = await opened(simple(), transformers=[Made])
    return made[0], run


@pytest.mark.parametrize("maxlen", [0, -1, True, 1.5, "3"])
def test_a_length_that_is_no_positive_number_is_refused(maxlen):
    with pytest.raises(ValueError, match="maxlen must be a positive int or None"):
        StreamChannel(maxlen=maxlen)


@pytest.mark.parametrize("read", [lambda c: c.__aiter__(), iter, lambda c: c.atee(2)])
def test_a_channel_of_no_run_cannot_be_read(read):
    with pytest.raises(TypeError, match="has not been bound"):
        read(StreamChannel())


async def test_a_channel_of_a_run_cannot_be_read_synchronously():
    made, _ = await channel()

    with pytest.raises(TypeError, match="bound to async mode"):
        iter(made)


async def test_a_channel_has_one_subscriber():
    made, _ = await channel()
    aiter(made)

    with pytest.raises(RuntimeError, match="already has a subscriber"):
        aiter(made)
    with pytest.raises(RuntimeError, match="already has a subscriber"):
        made.atee(2)


async def test_items_pushed_before_somebody_subscribes_are_not_kept():
    made, _ = await channel()
    made.push("lost")
    cursor = aiter(made)
    made.push("kept")

    assert await anext(cursor) == "kept"
    assert len(cursor) == 0


async def test_an_item_that_was_read_is_dropped():
    made, _ = await channel()
    cursor = aiter(made)
    made.push(1)
    made.push(2)
    assert len(cursor) == 2

    await anext(cursor)

    assert len(cursor) == 1


async def test_nothing_is_kept_for_a_cursor_that_was_dropped():
    made, _ = await channel()
    cursor = aiter(made)
    assert made.listened

    del cursor
    gc.collect()

    assert not made.listened


async def test_nothing_is_kept_for_a_cursor_that_was_closed():
    made, _ = await channel()
    cursor = aiter(made)
    made.push(1)

    await cursor.aclose()

    assert not made.listened
    assert await read(cursor) == []


async def test_a_closed_channel_gives_what_waits_and_ends():
    made, _ = await channel()
    cursor = aiter(made)
    made.push(1)
    made.close()
    made.close()

    assert await read(cursor) == [1]


async def test_a_failed_channel_gives_what_waits_and_raises_each_time():
    made, _ = await channel()
    cursor = aiter(made)
    made.push(1)
    made.fail(KeyError("a"))

    assert await anext(cursor) == 1
    for _ in range(2):
        with pytest.raises(KeyError, match="a"):
            await anext(cursor)


async def test_a_channel_stays_as_it_ended_first():
    made, _ = await channel()
    cursor = aiter(made)
    made.close()
    made.fail(KeyError("late"))

    assert await read(cursor) == []


async def test_pushing_to_a_closed_channel_is_refused_if_somebody_reads_it():
    made, _ = await channel()
    made.close()
    made.push("nobody minds")
    cursor = aiter(made)

    with pytest.raises(RuntimeError, match="Cannot push to a closed StreamChannel"):
        made.push(1)
    assert await read(cursor) == []


async def test_every_cursor_of_a_tee_gets_every_item():
    made, _ = await channel()
    left, right = made.atee(2)
    made.push(1)
    made.push(2)
    made.close()

    assert await read(left) == [1, 2]
    assert await read(right) == [1, 2]


async def test_a_tee_of_none_is_refused():
    made, _ = await channel()

    with pytest.raises(ValueError, match="at least one"):
        made.atee(0)
    assert len(made.atee(1)) == 1


async def test_a_reader_that_is_too_far_behind_gets_what_waits_and_then_an_error():
    made, _ = await channel(maxlen=2)
    slow, quick = made.atee(2)
    got = []
    for number in range(4):
        made.push(number)
        got.append(await anext(quick))

    assert got == [0, 1, 2, 3]
    assert [await anext(slow), await anext(slow)] == [0, 1]
    with pytest.raises(StreamOverflowError, match="does not keep up"):
        await anext(slow)


async def test_a_cursor_that_runs_dry_advances_the_run():
    run = await opened(simple(), transformers=[Probe])

    assert await read(run.probe) == []
    assert await run.output() == {"trail": ["in", "first", "leaf"]}
