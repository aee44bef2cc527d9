"""`StateGraph`: draws a graph whose nodes read and write a shared state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Generic, Literal, Self

from langgraph_async.constants import DEFAULT_ERROR_HANDLER, END, ERROR_HANDLER_PREFIX, NS_END, NS_SEP, RESERVED, START
from langgraph_async.errors import GraphBuildError
from langgraph_async.graph.blueprint import Blueprint, NodeDefaults, NodeSpec, OnMissing
from langgraph_async.graph.branch import branch_of
from langgraph_async.graph.compile import CompiledStateGraph, compile_graph
from langgraph_async.graph.signature import command_destinations, first_parameter_schema
from langgraph_async.graph.validate import check_drawing
from langgraph_async.pregel.call import SupportsAinvoke, action_name, prepare
from langgraph_async.pregel.old_names import renamed
from langgraph_async.pregel.policies import checked_cache, checked_limit, retry_policies
from langgraph_async.pregel.suggest import did_you_mean
from langgraph_async.types import All, CachePolicy, Checkpointer, Limiter, RetryPolicy, TimeoutPolicy, TracePolicy
from langgraph_async.typing import ContextT, InputT, OutputT, StateT

logger: Final = logging.getLogger("langgraph_async")


class MissingActionError(GraphBuildError, RuntimeError):
    """A node has a name and nothing to do."""


class StateGraph(Blueprint, Generic[StateT, ContextT, InputT, OutputT]):
    """Draws a graph; `compile` makes it runnable.

    A node is a function from the state to an update of it. Each key of the state may be declared with a
    reducer, ``Annotated[list, operator.add]``, that joins what several nodes write.

    Example:
        >>> from typing_extensions import TypedDict
        >>> class State(TypedDict):
        ...     count: int
        >>> async def add(state: State) -> dict:
        ...     return {"count": state["count"] + 1}
        >>> graph = StateGraph(State).add_node(add).add_edge(START, "add").add_edge("add", END).compile()
    """

    def __init__(
        self,
        state_schema: type[StateT],
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
        **deprecated: Any,
    ) -> None:
        """Start a graph.

        Args:
            state_schema: TypedDict, dataclass, pydantic model or msgspec Struct whose fields are the state's keys;
                or any other type, for a state that is one value.
            context_schema: Type of what a run is given as `context`.
            input_schema: Type of the input, if it is not the state.
            output_schema: Type of the output, if it is not the state.
            deprecated: Old spellings: `config_schema`, `input`, `output`.

        Raises:
            SchemaError: A schema declares something that cannot work.
        """
        old = renamed(
            "StateGraph", deprecated, config_schema="context_schema", input="input_schema", output="output_schema"
        )
        super().__init__(
            state_schema,
            old.get("context_schema") if context_schema is None else context_schema,
            old.get("input_schema") if input_schema is None else input_schema,
            old.get("output_schema") if output_schema is None else output_schema,
        )

    # -- nodes --

    def add_node(
        self,
        node: str | Callable[..., Any] | SupportsAinvoke,
        action: Callable[..., Any] | SupportsAinvoke | None = None,
        *,
        defer: bool = False,
        metadata: Mapping[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        destinations: Mapping[str, str] | Sequence[str] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        trace_policy: TracePolicy | None = None,
        run_sync: Literal["thread", "inline"] = "thread",
        limit: Limiter | None = None,
        **deprecated: Any,
    ) -> Self:
        """Add a node.

        Args:
            node: Its name, or what it does; then the name is read off the function.
            action: What it does: a function (sync, async or a generator), or anything with ``ainvoke(input, config)``,
                for example another compiled graph.
            defer: Run it only when nothing else is left to run.
            metadata: Merged into the metadata of its config.
            input_schema: What it reads, if that is not what its first parameter is declared with, or the state.
            retry_policy: One policy, or several of which the first that matches the error counts.
            cache_policy: How its results are cached.
            error_handler: Takes over when it fails for good; may declare ``error: NodeError``.
            destinations: Where its commands may go: names, or a dict from names to labels. For checks and drawings.
            timeout: Seconds, timedelta or policy; for async nodes only.
            trace_policy: What tracers record of it.
            run_sync: Where a plain function runs: in a worker thread, or inline in the event loop.
            limit: How often it may start, and how many of it may run at once: shared with whatever has the same object.
            deprecated: Old spellings: `retry`, `input`.

        Raises:
            GraphBuildError: The name is taken, reserved or not allowed, or there is nothing to do.
        """
        old = renamed("add_node", deprecated, retry="retry_policy", input="input_schema")
        name, target = self._named(node, action)
        self._check_name(name)
        ends = _ends(name, target, destinations)
        schema = input_schema if input_schema is not None else old.get("input_schema")
        if schema is None:
            schema = first_parameter_schema(target)
        schema = self.state_schema if schema is None else schema
        prepared = prepare(target, name=name, run_sync=run_sync)
        bound = _timeout(name, timeout)
        self.register_schema(schema)
        if error_handler is not None:
            self._add_handler(name, schema, error_handler, run_sync)
        self.nodes[name] = NodeSpec(
            action=prepared,
            input_schema=schema,
            metadata=dict(metadata) if metadata else None,
            retry_policy=_retries(f"node {name!r}", old.get("retry_policy") if retry_policy is None else retry_policy),
            cache_policy=checked_cache(cache_policy, f"node {name!r}"),
            timeout=bound,
            ends=ends,
            defer=defer,
            error_handler_node=f"{ERROR_HANDLER_PREFIX}{name}" if error_handler is not None else None,
            trace_policy=trace_policy,
            limit=checked_limit(limit, f"node {name!r}"),
        )
        if self.compiled:
            logger.warning("Node %r was added to a graph that is already compiled; the compiled graph lacks it.", name)
        return self

    def _named(self, node: Any, action: Any) -> tuple[str, Any]:
        if isinstance(node, str):
            if action is None:
                raise MissingActionError(f"Node {node!r} has nothing to do. Call add_node({node!r}, function).")
            return node, action
        return action_name(node), node if action is None else action

    def _check_name(self, name: str) -> None:
        if name in self.nodes:
            raise GraphBuildError(f"Node `{name}` already present. Give each node a name of its own.")
        if name in (START, END) or name in RESERVED:
            raise GraphBuildError(f"Node `{name}` is reserved. Choose another name.")
        for character in (NS_SEP, NS_END):
            if character in name:
                raise GraphBuildError(
                    f"'{character}' is a reserved character and is not allowed in the node names. Rename {name!r}."
                )

    def _add_handler(self, name: str, schema: Any, handler: Any, run_sync: Literal["thread", "inline"]) -> None:
        handler_name = f"{ERROR_HANDLER_PREFIX}{name}"
        if handler_name in self.nodes:
            raise GraphBuildError(f"Node `{handler_name}` already present: it is the name of the handler of {name!r}.")
        self.nodes[handler_name] = NodeSpec(
            action=prepare(handler, name=handler_name, run_sync=run_sync),
            input_schema=schema,
            ends=_ends(handler_name, handler, None),
            is_error_handler=True,
        )

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Callable[..., Any] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> Self:
        """Set policies for nodes that have none of their own; subgraphs do not inherit them.

        Retries and timeouts count for error handlers too. What is None stays as it was.

        Raises:
            GraphBuildError: `timeout` is not positive, or `retry_policy` is no policy.
        """
        now = self.defaults
        retries = _retries("the node defaults", retry_policy)
        limit = _timeout("node defaults", timeout)
        handler = None if error_handler is None else prepare(error_handler, name=DEFAULT_ERROR_HANDLER)
        self.defaults = NodeDefaults(
            retry_policy=now.retry_policy if retries is None else retries,
            cache_policy=now.cache_policy if cache_policy is None else checked_cache(cache_policy, "nodes"),
            timeout=now.timeout if limit is None else limit,
            error_handler=now.error_handler if handler is None else handler,
        )
        return self

    # -- edges --

    def add_edge(self, start_key: str | Sequence[str], end_key: str, *, on_missing: OnMissing = "error") -> Self:
        """Run `end_key` after `start_key`; given a list of starts, once after all of them.

        Args:
            start_key: A node or `START`, or a list of nodes that are all waited for.
            end_key: A node or `END`.
            on_missing: For a list: what happens when the run would end and only some of the starts have run. An
                `UnreachedJoinError` by default; ``"skip"`` declares that it may happen.

        Raises:
            GraphBuildError: An edge out of END or into START, or a list that names unknown nodes.
        """
        if on_missing not in ("error", "skip"):
            raise GraphBuildError(f"on_missing must be 'error' or 'skip', got {on_missing!r}.")
        if self.compiled:
            logger.warning("An edge was added to a graph that is already compiled; the compiled graph lacks it.")
        if isinstance(start_key, str):
            _check_ends((start_key,), end_key)
            self._edges[(start_key, end_key)] = None
            return self
        starts = tuple(start_key)
        if not starts:
            raise GraphBuildError(f"The list of starts of the edge to {end_key!r} is empty. Name at least one node.")
        _check_ends(starts, end_key)
        for name in (*starts, end_key):
            if name not in self.nodes and name != END:
                raise GraphBuildError(f"Need to add_node `{name}` first.{did_you_mean(name, self.nodes)}")
        self._waiting[(starts, end_key)] = on_missing
        return self

    def add_conditional_edges(
        self, source: str, path: Callable[..., Any] | Any, path_map: Mapping[Any, str] | Sequence[str] | None = None
    ) -> Self:
        """After `source`, ask `path` where to go.

        Args:
            source: A node or `START`.
            path: From the state, with the writes of `source` applied, to a node name, `END`, a `Send`, or a list of
                these. Sync functions run inline.
            path_map: From results to node names, or a list of the names that `path` returns. If None it is read off
                a ``Literal[...]`` return hint, else every node can be reached.

        Raises:
            GraphBuildError: `source` has a branch of that name already, or `path` cannot be called.
        """
        if self.compiled:
            logger.warning("A branch was added to a graph that is already compiled; the compiled graph lacks it.")
        if source == END:
            raise GraphBuildError("END cannot be a start node. Add the branch to a node, or to START.")
        branch = branch_of(source, path, path_map)
        if branch.name in self.branches.get(source, {}):
            raise GraphBuildError(
                f"Branch with name `{branch.name}` already exists for node `{source}`. Give the function another name."
            )
        if branch.input_schema is not None:
            self.register_schema(branch.input_schema)
        self.branches.setdefault(source, {})[branch.name] = branch
        return self

    def add_sequence(self, nodes: Sequence[Callable[..., Any] | tuple[str, Callable[..., Any]]]) -> Self:
        """Add nodes, and edges from each to the next. An item is what the node does, or (name, what it does).

        Raises:
            GraphBuildError: There is no item, or two have the same name.
        """
        if not nodes:
            raise GraphBuildError("Sequence requires at least one node.")
        previous: str | None = None
        for item in nodes:
            name, action = item if isinstance(item, tuple) else (action_name(item), item)
            if name in self.nodes:
                raise GraphBuildError(
                    f"Node names must be unique: node with the name '{name}' already exists. Pass a (name, function) "
                    "tuple to give it another name."
                )
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """Start with node `key`: the same as ``add_edge(START, key)``."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Callable[..., Any] | Any, path_map: Mapping[Any, str] | Sequence[str] | None = None
    ) -> Self:
        """Ask `path` where to start: the same as ``add_conditional_edges(START, path, path_map)``."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """End after node `key`: the same as ``add_edge(key, END)``."""
        return self.add_edge(key, END)

    # -- compiling --

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check that the drawing can run.

        Args:
            interrupt: Names that must be nodes.

        Raises:
            GraphBuildError: An edge leads from or to nowhere, there is no entry point, or a name is unknown.
        """
        check_drawing(self, interrupts=interrupt or ())
        self.compiled = True
        return self

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: Any = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        renamed: Mapping[str, str] | None = None,
        transformers: Sequence[Any] | None = None,
        delta_storage: bool = True,
        step_timeout: float | timedelta | None = None,
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """Return the graph, ready to run. Can be called again; later additions do not change what it returned.

        Args:
            checkpointer: A saver; None, to take the enclosing graph's when nested; True, for memory of its own under
                the enclosing graph's saver; False, for none at all.
            cache: Where nodes with a `cache_policy` keep their results.
            store: What nodes get as ``runtime.store``.
            interrupt_before: Nodes to pause before, or ``"*"``.
            interrupt_after: Nodes to pause after, or ``"*"``.
            debug: Print what happens.
            name: What the graph is called, in messages and traces.
            renamed: Old node name to new one: threads that wait in the old node go on in the new one.
            transformers: Stream transformers for every run.
            delta_storage: Store a long list whose reducer is `operator.add` or `add_messages` as what was appended to
                it, and whole only at growing distances: what is stored grows with the conversation, not with its
                square. LangGraph 1.2.24 and later reads that, with the plain reducer in its schema, too. False stores
                such lists whole at each step, for a database that an older LangGraph reads, or in which old
                checkpoints are deleted by hand. Threads stored either way can be gone on with either way.

            step_timeout: Seconds, or a timedelta, that one superstep may take: then its nodes are cancelled and waited
                for (one that swallows the cancellation for 5 seconds at most), and the run fails with a
                `StepTimeoutError`, which is a `TimeoutError`. What nodes wrote that had ended is kept, so that going on
                runs only the others. Graphs inside have their own.

        Raises:
            GraphBuildError: The drawing cannot run, or `step_timeout` is not positive.
            TypeError: `checkpointer` is not a saver.
        """
        compiled = compile_graph(
            self,
            checkpointer=checkpointer,
            cache=cache,
            store=store,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            debug=debug,
            name=name or "LangGraph",
            renamed=renamed or {},
            transformers=transformers,
            delta_storage=delta_storage,
            step_timeout=step_timeout,
        )
        self.compiled = True
        return compiled


def _check_ends(starts: Sequence[str], end: str) -> None:
    if END in starts:
        raise GraphBuildError("END cannot be a start node. Edges lead to END, not out of it.")
    if end == START:
        raise GraphBuildError("START cannot be an end node. Name the node to go back to instead.")
    if len(starts) > 1 and START in starts:
        raise GraphBuildError("START cannot be waited for: it has always run. Leave it out of the list.")


def _ends(name: str, target: Any, destinations: Mapping[str, str] | Sequence[str] | None) -> Mapping[str, str]:
    if destinations is None:
        return {end: end for end in command_destinations(target)}
    if isinstance(destinations, str):
        raise GraphBuildError(f"destinations of node {name!r} must be a sequence of names or a dict, got a string.")
    return dict(destinations) if isinstance(destinations, Mapping) else {end: end for end in destinations}


def _retries(where: str, value: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...] | None:
    return None if value is None else retry_policies(value, where)


def _timeout(name: str, value: float | timedelta | TimeoutPolicy | None) -> TimeoutPolicy | None:
    try:
        return TimeoutPolicy.coerce(value)
    except ValueError as exc:
        raise GraphBuildError(f"The timeout of {name!r} cannot be used: {exc}.") from exc


__all__ = ["CompiledStateGraph", "StateGraph"]
