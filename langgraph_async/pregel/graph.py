"""The engine as users hold it: a compiled graph, with everything that can be done with it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import Any, ClassVar, Generic, Literal, Self, overload

from langgraph_async.aio.clock import SYSTEM_CLOCK, Clock
from langgraph_async.aio.spawn import spawn
from langgraph_async.aio.threads import wait_settled
from langgraph_async.channels import BaseChannel, Topic
from langgraph_async.channels.managed import ManagedValue, is_managed_value
from langgraph_async.checkpoint.foreign.saver import as_saver
from langgraph_async.config import RunnableConfig, merge_configs
from langgraph_async.constants import TASKS
from langgraph_async.errors import GraphBuildError
from langgraph_async.pregel.address import subgraphs_of
from langgraph_async.pregel.begin import RunOptions, calling_task, make_run, names_task
from langgraph_async.pregel.blocking import BlockingView
from langgraph_async.pregel.builder import NodeBuilder
from langgraph_async.pregel.check import check_graph
from langgraph_async.pregel.edit import bulk_update
from langgraph_async.pregel.handle import Startable, result_of, with_run_id
from langgraph_async.pregel.inspect import history, snapshot
from langgraph_async.pregel.memo import namespaces
from langgraph_async.pregel.model import GraphSpec, RunScope, make_spec
from langgraph_async.pregel.node import Join, PregelNode, Schemas
from langgraph_async.pregel.policies import retry_policies, step_seconds
from langgraph_async.pregel.run_stream import RunStreams
from langgraph_async.pregel.schema_view import SchemaView
from langgraph_async.pregel.session import run_graph
from langgraph_async.pregel.sinks import Sink, plain_sink
from langgraph_async.pregel.streams import Call, Follow, end_stream, followed, streamed
from langgraph_async.runtime import RunControl
from langgraph_async.stream.bus import Bus
from langgraph_async.stream.log.base import EventLog
from langgraph_async.stream.parts import Collector, Mappers, Namespace, check_version, shape
from langgraph_async.stream.printing import printer
from langgraph_async.stream.wanted import Wanted, parse_modes
from langgraph_async.types import (
    All,
    CachePolicy,
    Durability,
    GraphOutput,
    RetryPolicy,
    Send,
    StateSnapshot,
    StateUpdate,
    StreamMode,
)
from langgraph_async.typing import ContextT, InputT, OutputT, StateT


class Pregel(Startable, RunStreams, SchemaView, BlockingView, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph that can be run: nodes, the channels between them, and how it talks to the outside.

    `StateGraph.compile` makes one; with `NodeBuilder` it can be put together by hand. Nothing of a run is kept in
    it, so one graph serves any number of runs at once.

    Args:
        nodes: Nodes, or builders of nodes, by name.
        channels: Channels by name; a managed value class is a key that nodes can only read.
        input_channels: Where the input is written: one channel (the input is its value) or several (a dict).
        output_channels: What a run returns: one channel's value, or a dict of several.
        stream_channels: What state reads show; by default all channels.
        checkpointer: A saver; None to take the one of the graph around it; True for memory of its own inside a
            graph; False for never.
        cache: Where results of nodes and functions with a `cache_policy` are kept; the cache of a graph around this
            one goes first.
        cache_policy: For nodes and called functions without a policy of their own, error handlers left out.
        joins: Barriers that must not be left half reached.
        renamed: Old node names to new ones, for threads that wait in a node under its old name.
        step_timeout: Seconds that a superstep may take; see `StateGraph.compile`.
        delta_storage: Store long lists whose reducer appends as what was appended; see `StateGraph.compile`.

    Attributes:
        clock: What waits of its runs go by; replaced in tests that should not wait.

    Raises:
        GraphBuildError: Something named does not exist, or a name cannot be used.
    """

    is_pregel: ClassVar[bool] = True

    def __init__(
        self,
        *,
        nodes: Mapping[str, PregelNode | NodeBuilder],
        channels: Mapping[str, BaseChannel[Any, Any, Any] | type[ManagedValue[Any]]],
        input_channels: str | Sequence[str],
        output_channels: str | Sequence[str],
        stream_channels: str | Sequence[str] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        stream_eager: bool = False,
        interrupt_after_nodes: All | Sequence[str] = (),
        interrupt_before_nodes: All | Sequence[str] = (),
        step_timeout: float | timedelta | None = None,
        debug: bool | None = None,
        checkpointer: Any = None,
        store: Any = None,
        cache: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] = (),
        cache_policy: CachePolicy | None = None,
        context_schema: Any = None,
        config: RunnableConfig | None = None,
        name: str = "LangGraph",
        auto_validate: bool = True,
        joins: Sequence[Join] = (),
        renamed: Mapping[str, str] | None = None,
        schemas: Schemas | None = None,
        stream_transformers: Sequence[Any] | None = None,
        delta_storage: bool = True,
    ) -> None:
        self.nodes: dict[str, PregelNode] = {
            key: node.build() if isinstance(node, NodeBuilder) else node for key, node in nodes.items()
        }
        self.channels: dict[str, Any] = _with_queue(channels)
        self.input_channels = _frozen(input_channels)
        self.output_channels = _frozen(output_channels)
        self.stream_channels = _frozen(stream_channels) if stream_channels is not None else None
        self.stream_mode = stream_mode
        self.stream_eager = stream_eager
        self.interrupt_after_nodes = interrupt_after_nodes
        self.interrupt_before_nodes = interrupt_before_nodes
        self.debug = bool(debug)
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.retry_policy = retry_policies(retry_policy, f"graph {name!r}")
        self.cache_policy = cache_policy
        self.context_schema = context_schema
        self.config = config
        self.name = name
        self.step_timeout = step_timeout
        self.joins = tuple(joins)
        self.renamed = dict(renamed or {})
        self.schemas = schemas
        self.stream_transformers = tuple(stream_transformers or ())
        self.delta_storage = delta_storage
        self.clock: Clock = SYSTEM_CLOCK
        self._spec: GraphSpec | None = None
        if auto_validate:
            self.validate()

    # -- the graph itself ---------------------------------------------------------------------------------------

    @property
    def checkpointer(self) -> Any:
        """The saver, True, False or None; a saver that was written for LangGraph in the form that the engine uses."""
        return self._checkpointer

    @checkpointer.setter
    def checkpointer(self, given: Any) -> None:
        self._checkpointer = as_saver(given)

    @property
    def step_timeout(self) -> float | None:
        """Seconds that a superstep may take, or None; may be set to a timedelta, too."""
        return self._step_timeout

    @step_timeout.setter
    def step_timeout(self, given: float | timedelta | None) -> None:
        self._step_timeout = step_seconds(given, self.name)

    @property
    def stream_channels_asis(self) -> str | tuple[str, ...]:
        """The channels that state reads show."""
        if self.stream_channels is not None:
            return self.stream_channels
        return tuple(key for key, channel in self.channels.items() if isinstance(channel, BaseChannel))

    @property
    def spec(self) -> GraphSpec:
        """What is worked out about the graph once, when it is first used."""
        if self._spec is None:
            self._spec = make_spec(
                name=self.name,
                nodes=self.nodes,
                channels={k: c for k, c in self.channels.items() if isinstance(c, BaseChannel)},
                managed={k: c for k, c in self.channels.items() if is_managed_value(c)},
                input_keys=self.input_channels,
                output_keys=self.output_channels,
                stream_keys=self.stream_channels_asis,
                joins=self.joins,
                renamed=self.renamed,
                schemas=self.schemas,
                retry_policy=self.retry_policy,
                cache_policy=self.cache_policy,
                delta_storage=self.delta_storage,
            )
        return self._spec

    def validate(self) -> Self:
        """Check that everything named exists, and return the graph.

        Raises:
            GraphBuildError: Something does not exist, or a name cannot be used.
        """
        check_graph(
            self.name,
            self.nodes,
            self.channels,
            inputs=self.input_channels,
            outputs=self.output_channels,
            streams=self.stream_channels_asis,
            breakpoints=(*self.interrupt_before_nodes, *self.interrupt_after_nodes),
        )
        return self

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """Return a shallow copy with some attributes replaced."""
        made = copy.copy(self)
        made._spec = None
        for key, value in (update or {}).items():
            setattr(made, key, value)
        return made

    def with_config(self, config: RunnableConfig | None = None, **more: Any) -> Self:
        """Return a copy whose runs start from this config, merged over the one bound before."""
        return self.copy({"config": merge_configs(self.config, config, more)})

    def get_name(self) -> str:
        """Return the graph's name."""
        return self.name

    # -- running ------------------------------------------------------------------------------------------------

    @overload
    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: Literal["values"] = "values",
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v2"],
    ) -> GraphOutput[OutputT]: ...

    @overload
    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
    ) -> Any: ...

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
    ) -> Any:
        """Run the graph to its end, or to a pause, and return its output.

        Args:
            input: A new input; a `Command`; or None to go on where the thread stands.
            config: Thread, tags, limits; see `RunnableConfig`.
            context: What nodes get as ``runtime.context``. Not stored.
            stream_mode: With anything but ``"values"``, a list of all streamed items is returned instead.
            print_mode: Modes to print while running.
            output_keys: Channels to return instead of the graph's output.
            interrupt_before: Nodes to stop before, for this run.
            interrupt_after: Nodes to stop after, for this run.
            durability: When checkpoints are stored: ``"sync"`` (before the next superstep), ``"async"`` (behind it;
                default) or ``"exit"`` (once, at the end).
            control: To ask the run to stop between supersteps.
            subgraphs: With another mode than values: include the items of nested graphs.
            debug: Print updates and values.
            version: ``"v1"`` returns the output, with the open questions under ``"__interrupt__"`` (a list);
                ``"v2"`` a `GraphOutput`.

        Raises:
            EmptyInputError: No input, and nothing to go on with.
            ThreadConflictError: The thread is busy.
            GraphRecursionError: The run is not finished after `recursion_limit` supersteps.
            BaseException: Whatever a node raises, unchanged.
        """
        modes, is_list = parse_modes(stream_mode, "values")
        options = _options(config, context, output_keys, interrupt_before, interrupt_after, durability, control)
        mappers = self.mappers(output_keys)
        sinks: list[Sink] = []
        collector: Collector | None = None
        if is_list or modes != {"values"}:
            collector = Collector(version, modes, is_list=is_list, subgraphs=subgraphs, mappers=mappers)
            sinks.append(plain_sink(collector, modes, subgraphs=subgraphs))
        check_version(version)
        sinks.extend(self._printers(print_mode, debug))
        run = self._begin(options, tuple(sinks), self.output_channels)
        if run.ns:
            mappers[run.ns_levels] = mappers[()]
        loop = await run_graph(run, input)
        if collector is not None:
            return collector.result()
        return result_of(run, loop, version, mappers[()].output)

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        stream_mode: StreamMode | Sequence[StreamMode] | None = None,
        print_mode: StreamMode | Sequence[StreamMode] = (),
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        durability: Durability | None = None,
        control: RunControl | None = None,
        subgraphs: bool = False,
        debug: bool | None = None,
        version: Literal["v1", "v2"] = "v1",
        event_log: EventLog | None = None,
        run_id: str | None = None,
        resume_from: int | None = None,
        on_disconnect: Literal["cancel", "continue"] = "cancel",
    ) -> AsyncGenerator[Any, None]:
        """Run the graph and yield what happens in it.

        The reader drives: a superstep starts when the reader has taken what the last one gave and asks for more.
        Leaving the generator, by ``break``, error, cancellation or ``aclose``, cancels the run and waits until
        every task of it has ended.

        Args:
            input: As for `ainvoke`.
            config: As for `ainvoke`.
            context: As for `ainvoke`.
            stream_mode: ``"values"`` (the state after each superstep), ``"updates"`` (what each task wrote),
                ``"messages"`` (tokens and messages, with metadata), ``"custom"`` (what nodes write to their stream
                writer), ``"tasks"``, ``"checkpoints"``, ``"debug"``, ``"tools"`` (calls of tools), or several, and
                then every item says its mode. By default the graph's own; for a call that passes the config of the
                node it is made in, ``"values"``.
            print_mode: As for `ainvoke`.
            output_keys: Restricts values and updates to these channels.
            interrupt_before: As for `ainvoke`.
            interrupt_after: As for `ainvoke`.
            durability: As for `ainvoke`.
            control: As for `ainvoke`.
            subgraphs: Include the items of nested graphs; then every item says its namespace.
            debug: As for `ainvoke`.
            version: ``"v1"`` yields bare payloads or tuples, ``"v2"`` always a `StreamPart`.
            event_log: Where the parts are kept before they are yielded; v2 parts then have a number, ``seq``.
            run_id: The run's id, in place of that of the config; with a log, one is made if there is none.
            resume_from: Start no run, but yield the parts of one in the log, those after this number: stored ones
                and those to come. Which run says `run_id`; by default it is the newest of the thread.
            on_disconnect: ``"continue"`` lets the run go on when the generator is left; see `background_runs`.

        Raises:
            EventLogError: The log does not have the run, or not what comes after `resume_from`.
            RunFailedError: The run that is read from the log failed, or was cancelled.
            BaseException: As for `ainvoke`, after everything that came before was yielded.
        """
        if event_log is not None or resume_from is not None or on_disconnect != "cancel":
            call = Call(
                context,
                stream_mode,
                print_mode,
                output_keys,
                interrupt_before,
                interrupt_after,
                durability,
                control,
                subgraphs,
                debug,
                version,
            )
            follow = Follow(event_log, run_id, resume_from, on_disconnect)
            async with aclosing(followed(self, input, config, call, follow)) as parts:
                async for part in parts:
                    yield part
            return
        config = with_run_id(config, run_id)
        parent = calling_task(self, config)
        modes, is_list = parse_modes(stream_mode, "values" if names_task(config, parent) else self.stream_mode)
        options = _options(config, context, output_keys, interrupt_before, interrupt_after, durability, control)
        mappers = self.mappers(output_keys)
        form = shape(version, is_list=is_list, subgraphs=subgraphs, mappers=mappers)
        bus = Bus()
        own = Sink(put=bus.put_fact, put_chunk=bus.put, bus=bus, wanted=Wanted.of(modes), subgraphs=subgraphs)
        sinks = (own, *self._printers(print_mode, debug))
        run = self._begin(options, sinks, self.stream_channels_asis)
        if run.ns:
            mappers[run.ns_levels] = mappers[()]
        held: list[Any] = []
        work = spawn(streamed(run, input, bus, held.append), name=f"{self.name} run")
        try:
            async for item in bus:
                yield form(*item)
            await wait_settled(work)
            work.result()
        finally:
            await end_stream(work, bus, held)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Run the graph on several inputs at once and return the outputs in their order.

        Args:
            inputs: The inputs.
            config: One config for all, or one for each.
            return_exceptions: Return what a run fails with in its place, instead of raising it.
            options: As for `ainvoke`.
        """
        configs = [config] * len(inputs) if config is None or isinstance(config, Mapping) else list(config)
        if len(configs) != len(inputs):
            raise ValueError(f"abatch got {len(inputs)} inputs but {len(configs)} configs.")
        results: list[Any] = [None] * len(inputs)

        async def one(index: int) -> None:
            try:
                results[index] = await self.ainvoke(inputs[index], configs[index], **options)
            except Exception as exc:
                if not return_exceptions:
                    raise
                results[index] = exc

        try:
            async with asyncio.TaskGroup() as group:
                for index in range(len(inputs)):
                    group.create_task(one(index))
        except BaseExceptionGroup as exc:
            raise exc.exceptions[0] from None
        return results

    def _begin(self, options: RunOptions, sinks: tuple[Sink, ...], default_keys: str | tuple[str, ...]) -> RunScope:
        parent = calling_task(self, options.config)
        call = parent.enter_graph() if parent is not None else 0
        return make_run(self, self.spec, options, parent=parent, sinks=sinks, default_keys=default_keys, call=call)

    def mappers(self, output_keys: str | Sequence[str] | None = None) -> dict[Namespace, Mappers]:
        """Return how v2 parts make values instances of the graph's schemas."""
        schemas = self.schemas
        if schemas is None:
            return {(): Mappers()}
        return {(): Mappers(output=schemas.output_mapper if output_keys is None else None, state=schemas.state_mapper)}

    def _printers(self, print_mode: StreamMode | Sequence[StreamMode], debug: bool | None) -> list[Sink]:
        modes, _ = parse_modes(print_mode, (), option="print_mode")
        if debug or (debug is None and self.debug):
            modes = modes | {"updates", "values"}
        return [plain_sink(printer(modes), modes, subgraphs=False)] if modes else []

    # -- state --------------------------------------------------------------------------------------------------

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """Return the state of a thread, or of one of its checkpoints.

        Args:
            config: Names the thread, and optionally ``checkpoint_id`` and the ``checkpoint_ns`` of a subgraph.
            subgraphs: Include the states of subgraphs in the tasks that hold them.

        Raises:
            ValueError: The graph has no checkpointer.
        """
        return await snapshot(self, config, subgraphs=subgraphs)

    def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Yield the states of a thread, newest first.

        Args:
            config: Names the thread.
            filter: Metadata entries that must be equal.
            before: Only states older than the checkpoint that this config names.
            limit: At most so many.
        """
        return history(self, config, filter=filter, before=before, limit=limit)

    async def aupdate_state(
        self, config: RunnableConfig, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """Change the state of a thread as if a node had returned `values`, and return the new checkpoint's config.

        Args:
            config: Names the thread, and optionally the checkpoint to fork from.
            values: What the node would have returned; None writes nothing but fires its edges.
            as_node: The node; found out when only one can be meant. ``END`` with None ends the superstep.
            task_id: Id under which the writes are stored.

        Raises:
            InvalidUpdateError: The node is unknown or cannot be found out, or the update cannot be taken.
            ThreadConflictError: The thread is busy, or changed meanwhile.
        """
        return await bulk_update(self, config, [[StateUpdate(values, as_node, task_id)]])

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Apply several supersteps of updates, one checkpoint each, and return the last checkpoint's config."""
        return await bulk_update(self, config, supersteps)

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, Pregel]]:
        """Yield the graphs that nodes are known to call, with the path of node names that leads to them.

        Args:
            namespace: Only the graph at this path.
            recurse: Include graphs inside graphs.
        """
        for found in subgraphs_of(self, namespace=namespace, recurse=recurse):
            yield found

    def get_subgraphs(self, *, namespace: str | None = None, recurse: bool = False) -> Iterable[tuple[str, Pregel]]:
        """Return what `aget_subgraphs` yields."""
        return subgraphs_of(self, namespace=namespace, recurse=recurse)

    async def aclear_cache(self, nodes: Iterable[str] | None = None) -> None:
        """Forget the cached results of `nodes`, or of all nodes.

        Names that the graph does not have are passed over. Graphs inside have results of their own.

        Raises:
            ValueError: The graph has no cache.
        """
        if self.cache is None:
            raise ValueError("No cache is set for this graph. Cannot clear cache.")
        wanted = self.nodes if nodes is None else {nodes} if isinstance(nodes, str) else set(nodes)
        known = [(name, node) for name, node in self.nodes.items() if name in wanted]
        await self.cache.aclear(namespaces(known, self.name))


def _frozen(keys: str | Sequence[str]) -> str | tuple[str, ...]:
    return keys if isinstance(keys, str) else tuple(keys)


def _with_queue(channels: Mapping[str, Any]) -> dict[str, Any]:
    queue = channels.get(TASKS)
    if queue is not None and not isinstance(queue, Topic):
        raise GraphBuildError(f"Channel {TASKS!r} is reserved for sends and must be a Topic, got {queue!r}.")
    made: dict[str, Any] = {**channels, TASKS: Topic(Send, accumulate=False)}
    for key, channel in made.items():
        if isinstance(channel, BaseChannel):
            channel.key = key
    return made


def _options(
    config: RunnableConfig | None,
    context: Any,
    output_keys: Any,
    interrupt_before: Any,
    interrupt_after: Any,
    durability: Durability | None,
    control: RunControl | None,
) -> RunOptions:
    return RunOptions(
        config=config,
        context=context,
        output_keys=output_keys,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        durability=durability,
        control=control,
    )
