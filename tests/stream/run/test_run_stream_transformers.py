from __future__ import annotations

import asyncio
import logging

import pytest
from run_stream_graphs import first, leaf, nested, opened, read, simple

from langgraph_async.errors import ConfigError
from langgraph_async.stream import StreamChannel, StreamTransformer, UpdatesTransformer


class Names(StreamTransformer):
    """Pushes the method of each event it sees."""

    key = "names"
    channel_name: str | None = None

    def init(self):
        self.channel = StreamChannel(self.channel_name)
        return {self.key: self.channel}

    def process(self, event):
        self.channel.push(event["method"])
        return True


def boom(state):
    raise ValueError("boom")


# -- factories -------------------------------------------------------------------------------------------------


async def test_an_instance_is_refused():
    with pytest.raises(TypeError, match="pre-built instance of Names"):
        await opened(simple(), transformers=[Names()])


@pytest.mark.parametrize("given", [5, lambda scope: 5, lambda scope: None])
async def test_what_makes_no_transformer_is_refused(given):
    with pytest.raises(TypeError, match="transformer"):
        await opened(simple(), transformers=[given])


async def test_a_factory_gets_the_scope():
    scopes = []

    def factory(scope):
        scopes.append(scope)
        return Names(scope)

    run = await opened(nested(), transformers=[factory])
    assert scopes == [()]
    await run.output()

    assert [len(scope) for scope in scopes] == [0, 1]
    assert scopes[1][0].startswith("inner:")


async def test_each_nested_graph_gets_an_instance_that_sees_its_events_only():
    made = []

    class Seen(Names):
        def __init__(self, scope=()):
            super().__init__(scope)
            self.seen = []
            made.append(self)

        def process(self, event):
            self.seen.append(tuple(event["params"]["namespace"]))
            return True

    run = await opened(nested(), transformers=[Seen])
    await run.output()

    assert made[0].scope == ()
    assert set(made[0].seen) == {(), made[1].scope}
    assert set(made[1].seen) == {made[1].scope}
    assert len(made[1].seen) == made[0].seen.count(made[1].scope)


async def test_transformers_come_in_order():
    order = []

    def named(name, **attributes):
        def process(self, event):
            if event["method"] == "values" and not event["params"]["namespace"]:
                order.append(name)
            return True

        return type(name, (StreamTransformer,), {"process": process, **attributes})

    class Values(UpdatesTransformer):
        pass

    graph = simple(transformers=[named("compiled"), named("compiled_before", before_builtins=True)])
    run = await opened(graph, transformers=[named("called"), named("called_before", before_builtins=True)])
    await anext(aiter(run.values))

    assert order == ["compiled_before", "called_before", "compiled", "called"]


async def test_a_transformer_before_the_built_in_ones_sees_an_event_first():
    class Replaced(StreamTransformer):
        before_builtins = True

        def process(self, event):
            if event["method"] == "values":
                event["params"]["data"] = "replaced"
            return True

    run = await opened(simple(), transformers=[Replaced])

    assert await run.output() == "replaced"


# -- init ------------------------------------------------------------------------------------------------------


async def test_init_must_return_a_dict():
    class Listed(Names):
        def init(self):
            return [1]

    with pytest.raises(TypeError, match=r"Listed.init\(\) must return a dict.*got list"):
        await opened(simple(), transformers=[Listed])


@pytest.mark.parametrize("key", ["values", "lifecycle"])
async def test_a_projection_of_a_name_that_is_taken_is_refused(key):
    with pytest.raises(ValueError, match=f"'{key}' belongs to"):
        await opened(simple(), transformers=[type("Taken", (Names,), {"key": key})])


async def test_two_transformers_cannot_have_one_projection():
    with pytest.raises(ValueError, match="'names' belongs to Names"):
        await opened(simple(transformers=[Names]), transformers=[Names])


async def test_a_transformer_that_takes_no_events_is_refused():
    class Nothing(StreamTransformer):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must override process"):
        await opened(simple(), transformers=[Nothing])
    with pytest.raises(NotImplementedError, match="Nothing must override process"):
        Nothing().process({})


async def test_a_mode_that_is_unknown_is_refused():
    class Wrong(Names):
        required_stream_modes = ("update",)

    with pytest.raises(ConfigError, match="Did you mean 'updates'"):
        await opened(simple(), transformers=[Wrong])


async def test_a_transformer_gets_the_modes_that_it_requires():
    run = await opened(simple(), transformers=[type("Updates", (Names,), {"required_stream_modes": ("updates",)})])

    assert set(await read(run.names)) == {"values", "updates", "tasks"}


# -- events ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["process", "aprocess"])
async def test_false_keeps_an_event_out_of_the_stream_but_not_from_transformers(hook):
    class Silent(StreamTransformer):
        before_builtins = True

    async def later(self, event):
        await asyncio.sleep(0)
        return False

    setattr(Silent, hook, later if hook == "aprocess" else lambda self, event: False)
    run = await opened(simple(), transformers=[Silent, Names])
    values, names = aiter(run.values), aiter(run.names)

    assert await read(run) == []
    assert len(await read(values)) == 3
    assert (await read(names)).count("values") == 3


async def test_a_named_channel_is_told_as_events_before_the_event_that_caused_it():
    class Named(Names):
        channel_name = "mine"

    run = await opened(simple(), transformers=[Named])
    events = await read(run)

    told = [event for event in events if event["method"] == "custom:mine"]
    assert len(told) == events.count(told[0]) * len(told) > 0
    assert all(event["params"]["namespace"] == [] for event in told)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    first_value = next(index for index, event in enumerate(events) if event["method"] == "values")
    assert events[first_value - 1]["method"] == "custom:mine"
    assert events[first_value - 1]["params"]["data"] == "values"


async def test_events_of_a_named_channel_pass_no_transformer():
    class Named(Names):
        channel_name = "mine"

    run = await opened(simple(), transformers=[Named])

    assert "custom:mine" not in await read(run.names)


async def test_what_a_transformer_fails_with_ends_the_run_and_reaches_every_reader():
    class Failing(Names):
        def process(self, event):
            if event["params"]["data"] == {"trail": ["in", "first"]}:
                raise KeyError("mine")
            return True

    run = await opened(simple(), transformers=[Failing])
    values, names = aiter(run.values), aiter(run.names)

    with pytest.raises(KeyError, match="mine"):
        await read(names)
    assert await anext(values) == {"trail": ["in"]}
    assert await anext(values) == {"trail": ["in", "first"]}
    with pytest.raises(KeyError, match="mine"):
        await anext(values)
    assert len(asyncio.all_tasks()) == 1


# -- ends ------------------------------------------------------------------------------------------------------


def noting(notes, **extra):
    class Noting(StreamTransformer):
        def process(self, event):
            return True

        def finalize(self):
            notes.append(("finalized", len(self.scope)))

        def fail(self, err):
            notes.append((type(err).__name__, len(self.scope)))

    for name, value in extra.items():
        setattr(Noting, name, value)
    return Noting


async def test_transformers_are_finalized_inner_graphs_first():
    notes = []
    await (await opened(nested(), transformers=[noting(notes)])).output()

    assert notes == [("finalized", 1), ("finalized", 0)]


async def test_transformers_are_told_what_the_run_fails_with():
    notes = []
    run = await opened(nested(boom), transformers=[noting(notes)])
    with pytest.raises(ValueError, match="boom"):
        await run.output()

    assert notes == [("ValueError", 1), ("ValueError", 0)]


async def test_transformers_may_wait_at_the_end():
    class Waiting(Names):
        async def afinalize(self):
            await asyncio.sleep(0)
            self.channel.push("end")

    run = await opened(simple(), transformers=[Waiting])

    assert (await read(run.names))[-1] == "end"


async def test_a_transformer_that_fails_at_the_end_fails_the_run():
    async def afinalize(self):
        raise KeyError("end")

    notes = []
    run = await opened(simple(), transformers=[noting(notes), noting(notes, afinalize=afinalize), noting(notes)])

    with pytest.raises(KeyError, match="end"):
        await run.output()
    assert notes == [("finalized", 0), ("KeyError", 0), ("KeyError", 0)]


async def test_what_a_transformer_fails_with_while_it_is_told_of_a_failure_is_logged(caplog):
    def fail(self, err):
        raise KeyError("again")

    run = await opened(simple(), transformers=[noting([], fail=fail), noting([], process=lambda *_: 1 / 0)])
    with pytest.raises(ZeroDivisionError):
        await run.output()

    assert "failed while it was told" in caplog.text


async def test_an_aborted_run_finalizes():
    notes = []
    run = await opened(nested(), transformers=[noting(notes)])
    await anext(aiter(run.values))
    await run.abort()

    assert notes == [("finalized", 0)]


# -- scheduling ------------------------------------------------------------------------------------------------


def scheduling(work, **options):
    class Scheduling(Names):
        done = False

        def process(self, event):
            if not self.done:
                self.done = True
                self.task = self.schedule(work(self), **options)
            return True

    return Scheduling


async def test_what_is_scheduled_is_waited_for_before_the_end():
    async def work(self):
        for _ in range(50):
            await asyncio.sleep(0)
        self.channel.push("scheduled")

    run = await opened(simple(), transformers=[scheduling(work)])

    assert await read(run.names) == ["scheduled"]


async def test_what_is_scheduled_may_fail_and_is_logged(caplog):
    async def work(self):
        raise KeyError("scheduled")

    with caplog.at_level(logging.ERROR):
        assert await (await opened(simple(), transformers=[scheduling(work)])).output()
    assert "A task scheduled by Scheduling failed" in caplog.text


async def test_what_is_scheduled_may_fail_the_run():
    async def work(self):
        raise KeyError("scheduled")

    with pytest.raises(KeyError, match="scheduled"):
        await (await opened(simple(), transformers=[scheduling(work, on_error="raise")])).output()


async def test_what_is_scheduled_is_cancelled_if_the_run_fails():
    seen = []

    async def work(self):
        seen.append(self)
        await asyncio.Event().wait()

    run = await opened(simpler_failing(), transformers=[scheduling(work)])
    with pytest.raises(ValueError, match="boom"):
        await run.output()

    assert [transformer.task.cancelled() for transformer in seen] == [True]
    assert len(asyncio.all_tasks()) == 1


def simpler_failing():
    from run_stream_graphs import chain

    return chain(first, leaf, boom)


async def test_what_is_scheduled_is_cancelled_if_the_run_is_aborted():
    async def work(self):
        await asyncio.Event().wait()

    run = await opened(simple(), transformers=[scheduling(work)])
    await anext(aiter(run.values))
    await run.abort()

    assert len(asyncio.all_tasks()) == 1


def test_nothing_is_scheduled_without_an_event_loop():
    async def work():
        pass

    with pytest.raises(RuntimeError, match="requires a running event loop"):
        Names().schedule(work())


async def test_what_is_to_happen_on_an_error_is_checked():
    async def work():
        pass

    with pytest.raises(ValueError, match="'log' or 'raise'"):
        Names().schedule(work(), on_error="ignore")


@pytest.mark.parametrize("hook", ["process", "aprocess", "afinalize"])
async def test_a_transformer_cannot_wait_for_the_stream_that_waits_for_it(hook):
    runs = []

    class Waiting(Names):
        async def _wait(self, *_):
            with pytest.raises(RuntimeError, match="transformer cannot wait"):
                await runs[0].output()
            with pytest.raises(RuntimeError, match="transformer cannot wait"):
                await runs[0].abort()
            return True

    if hook == "process":
        Waiting._native = True  # as a built-in one: delivered in the reader's own task
        Waiting.aprocess = Waiting._wait
    else:
        setattr(Waiting, hook, Waiting._wait)
    runs.append(await opened(simple(), transformers=[Waiting]))

    assert await runs[0].output() == {"trail": ["in", "first", "leaf"]}
