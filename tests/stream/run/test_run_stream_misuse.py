"""Run streams, and handles, that are used where or how they cannot be; and ended after they have failed."""

from __future__ import annotations

import asyncio
import gc

import pytest
from run_stream_graphs import chain, opened, read, simple

from langgraph_async import stream_tokens
from langgraph_async.errors import ConfigError
from langgraph_async.stream import UpdatesTransformer


async def elsewhere(work):
    """Await what `work` makes in another event loop, in another thread."""
    return await asyncio.to_thread(lambda: asyncio.run(work()))


async def fails(state):
    async def model():
        yield "a"
        raise ConnectionError("gone")

    await stream_tokens(model()).collect()


@pytest.mark.parametrize("way", ["values", "output", "abort"])
async def test_a_run_stream_belongs_to_its_event_loop(way):
    run = await opened(simple())
    ways = {"values": lambda: read(run.values), "output": run.output, "abort": run.abort}

    async def work():
        await ways[way]()

    with pytest.raises(RuntimeError, match="This run stream belongs to another event loop"):
        await elsewhere(work)
    assert (await run.output())["trail"][0] == "in"


@pytest.mark.parametrize("way", ["iterate", "await", "aclose"])
async def test_a_handle_belongs_to_its_event_loop(way):
    run = simple().start({"trail": ["in"]})

    async def work():
        if way == "iterate":
            await read(run)
        elif way == "await":
            await run
        else:
            await run.aclose()

    with pytest.raises(RuntimeError, match="This run belongs to another event loop"):
        await elsewhere(work)
    assert (await run)["trail"][0] == "in"


async def test_a_run_that_failed_can_be_aborted_before_its_end_was_read():
    reports = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    run = await opened(chain(fails))
    message = await anext(aiter(run.messages))
    with pytest.raises(ConnectionError):
        await message.text
    for _ in range(20):
        await asyncio.sleep(0)
    await run.abort()

    del run, message
    gc.collect()
    assert reports == []


@pytest.mark.parametrize("names", [(["values"],), (5,), (None,), (), ("values", "values")], ids=repr)
async def test_interleave_refuses_what_is_no_name(names):
    run = await opened(simple())

    with pytest.raises(ValueError, match="takes the names"):
        run.interleave(*names)


@pytest.mark.parametrize("wrong", [5, UpdatesTransformer], ids=repr)
def test_transformers_are_a_list(wrong):
    with pytest.raises(TypeError, match="transformers must be a list"):
        simple().astream_events({"trail": []}, version="v3", transformers=wrong)


@pytest.mark.parametrize(
    "wrong", [{"control": 5}, {"interrupt_before": 5}, {"interrupt_after": 5}], ids=lambda wrong: next(iter(wrong))
)
async def test_an_option_of_another_type_is_refused(wrong):
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        await opened(simple(), **wrong)
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        simple().start({"trail": []}, **wrong)
