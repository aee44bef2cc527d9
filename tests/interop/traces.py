"""Runs one program on either library and writes down what can be seen of it, ids and times made comparable."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

ALL_MODES = ["values", "updates", "custom", "tasks", "checkpoints", "debug"]
_PLACES = {
    "graph": ["StateGraph", "START", "END", "MessagesState", "add_messages"],
    "types": [
        "Send", "Command", "interrupt", "Interrupt", "Overwrite", "RetryPolicy", "CachePolicy",
        "StreamWriter", "StateSnapshot",
    ],
    "checkpoint.memory": ["InMemorySaver"],
    "channels": [
        "LastValue", "Topic", "EphemeralValue", "BinaryOperatorAggregate", "AnyValue", "UntrackedValue",
        "NamedBarrierValue",
    ],
    "managed": ["IsLastStep", "RemainingSteps"],
    "runtime": ["Runtime", "get_runtime"],
    "errors": ["ParentCommand", "GraphRecursionError", "InvalidUpdateError"],
}  # fmt: skip
_SPLIT_PLACES = {
    "Pregel": ("pregel", "pregel.graph"),
    "NodeBuilder": ("pregel", "pregel.builder"),
    "get_config": ("config", "runtime"),
    "get_stream_writer": ("config", "runtime"),
    "get_store": ("config", "runtime"),
}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX = re.compile(r"\b[0-9a-f]{32}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(\+00:00|Z)?")
ID = re.compile(r"\b(uuid|hex)\d+")
_QUESTION = re.compile(r"'id': '(hex\d+)'")
_VERSION = re.compile(r"\b0{16,}(\d+)\.[0-9.e-]+\b")


def library(package: str) -> SimpleNamespace:
    """Return the public names that programs use, of `langgraph` or of `langgraph_async`."""
    names: dict[str, Any] = {"package": package}
    for module, members in _PLACES.items():
        found = importlib.import_module(f"{package}.{module}")
        names |= {member: getattr(found, member) for member in members}
    for member, places in _SPLIT_PLACES.items():
        for module in places:
            found = importlib.import_module(f"{package}.{module}")
            if hasattr(found, member):
                names[member] = getattr(found, member)
                break
    return SimpleNamespace(**names)


@dataclasses.dataclass(frozen=True)
class Raised:
    """An error: the class names from itself to its bases, and its text."""

    classes: tuple[str, ...]
    text: str


@dataclasses.dataclass(frozen=True)
class Record:
    """An object of a library's or a program's class, by its class name and fields."""

    name: str
    fields: Any


class Trace:
    """What one program showed, entry by entry.

    Args:
        package: The library that it ran on.
    """

    def __init__(self, package: str) -> None:
        self.entries: list[tuple[str, Any]] = []
        self.package = package
        self._ids: dict[str, str] = {}

    def add(self, label: str, value: Any) -> None:
        """Write an entry down."""
        self.entries.append((label, self.plain(value)))

    def case(self, what: Any) -> None:
        """Begin the next case of the program."""
        self.fresh_ids()
        self.entries.append(("case", repr(self.plain(what))))

    def fresh_ids(self) -> None:
        """Number ids from the start again."""
        self._ids.clear()

    def plain(self, value: Any) -> Any:
        """Return the value with ids, times and versions replaced by what can be compared."""
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, (bool, int, float, bytes)):
            return value
        if isinstance(value, BaseException):
            names = tuple(c.__name__ for c in type(value).__mro__ if c.__name__ not in ("object", "BaseException"))
            return Raised(names, self._text(str(value)))
        if isinstance(value, Mapping):
            if value.get("error") is not None and "state" in value:
                value = {**value, "error": "<stored error>"}
            items = sorted(value.items()) if "checkpoint_ns" in value else value.items()
            return {self.plain(key): self.plain(item) for key, item in items}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return Record(type(value).__name__, {f: self.plain(getattr(value, f)) for f in value._fields})
        if isinstance(value, tuple):
            return tuple(self.plain(item) for item in value)
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted(repr(self.plain(item)) for item in value)
        return self._object(value)

    def _object(self, value: Any) -> Any:
        name = type(value).__name__
        if name == "Interrupt":
            return Record(name, {"value": self.plain(value.value), "id": self.plain(value.id)})
        if name == "Command":
            return Record(name, {f: self.plain(getattr(value, f)) for f in ("graph", "update", "goto")})
        if name == "Send":
            return Record(name, {"node": value.node, "arg": self.plain(value.arg)})
        if dataclasses.is_dataclass(value):
            return Record(name, {f.name: self.plain(getattr(value, f.name)) for f in dataclasses.fields(value)})
        if hasattr(type(value), "model_fields"):
            return Record(name, {f: self.plain(getattr(value, f)) for f in type(value).model_fields})
        if callable(value):
            return f"<callable {getattr(value, '__name__', name)}>"
        return self._text(re.sub(r" at 0x[0-9a-f]+", "", repr(value)))

    def _text(self, text: str) -> str:
        text = _VERSION.sub(lambda m: f"v{int(m[1])}", text)
        text = _TIME.sub("<time>", text)
        text = text.replace("langgraph_async", "langgraph")
        for pattern, kind in ((_UUID, "uuid"), (_HEX, "hex")):
            text = pattern.sub(lambda m, kind=kind: self._ids.setdefault(m[0], f"{kind}{len(self._ids)}"), text)
        return text


# -- watching runs ----------------------------------------------------------------------------------------------

Shape = Callable[[Any, Any, Any, dict[str, Any]], Awaitable[Any]]


def invoking(**options: Any) -> Shape:
    """Return a way of running that gives what `ainvoke` returns."""

    async def run(trace: Trace, graph: Any, value: Any, call: dict[str, Any]) -> Any:
        return await graph.ainvoke(value, **{**options, **call})

    return run


def streaming(**options: Any) -> Shape:
    """Return a way of running that writes down every item of `astream`."""

    async def run(trace: Trace, graph: Any, value: Any, call: dict[str, Any]) -> Any:
        async for item in _items(graph, value, {**options, **call}):
            trace.add("item", item)
        return "<end>"

    return run


def _items(graph: Any, value: Any, call: dict[str, Any]) -> AsyncIterator[Any]:
    return graph.astream(value, **call)


SHAPES: dict[str, Shape] = {
    "ainvoke": invoking(),
    "ainvoke v2": invoking(version="v2"),
    "ainvoke list": invoking(stream_mode=["updates", "values"]),
    "ainvoke updates": invoking(stream_mode="updates"),
    "default": streaming(),
    "values": streaming(stream_mode="values"),
    "tasks": streaming(stream_mode="tasks"),
    "checkpoints": streaming(stream_mode="checkpoints"),
    "all": streaming(stream_mode=ALL_MODES),
    "all nested": streaming(stream_mode=ALL_MODES, subgraphs=True),
    "values nested": streaming(stream_mode="values", subgraphs=True),
    "all v2": streaming(stream_mode=ALL_MODES, subgraphs=True, version="v2"),
}


@dataclasses.dataclass
class Turn:
    """One call of a graph: its input, its own config, its own arguments."""

    input: Any
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    call: dict[str, Any] = dataclasses.field(default_factory=dict)


async def watch(
    trace: Trace,
    lg: Any,
    build: Callable[[Any], Any],
    turns: Sequence[Any],
    *,
    saver: bool = True,
    shapes: Iterable[str] = tuple(SHAPES),
    **call: Any,
) -> None:
    """Run the turns on a fresh graph in every shape, and write everything down.

    Args:
        trace: Where to.
        lg: The library.
        build: Makes the compiled graph, given a saver or None.
        turns: Inputs, or `Turn`s, on one thread. A callable is given the last result and returns the input.
        saver: Whether there is a saver; then what is stored is written down too.
        shapes: Names of `SHAPES`.
        call: Arguments of every call.
    """
    for name in shapes:
        trace.fresh_ids()
        trace.add("shape", name)
        store = lg.InMemorySaver() if saver else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = build(store)
            last: Any = None
            for index, turn in enumerate(turns):
                last = await _one(trace, SHAPES[name], graph, turn, index, last, saver=saver, call=call)
        if store is not None and name == "ainvoke":
            await stored(trace, graph.checkpointer)


async def _one(
    trace: Trace, shape: Shape, graph: Any, turn: Any, index: int, last: Any, *, saver: bool, call: dict[str, Any]
) -> Any:
    turn = turn if isinstance(turn, Turn) else Turn(turn)
    config: dict[str, Any] = {**({"configurable": {"thread_id": "t"}} if saver else {}), **turn.config}
    value = turn.input(last) if callable(turn.input) and not isinstance(turn.input, type) else turn.input
    trace.add("turn", index)
    try:
        last = await shape(trace, graph, value, {"config": config, **call, **turn.call})
        trace.add("result", last)
    except BaseException as exc:
        trace.add("raised", exc)
    return last


async def stored(trace: Trace, saver: Any) -> None:
    """Write down what a saver has of the thread."""
    spaces: dict[str, list[Any]] = {}
    async for row in saver.alist(None):
        spaces.setdefault(row.config["configurable"]["checkpoint_ns"], []).append(row)
    trace.fresh_ids()
    for ns, rows in sorted(spaces.items(), key=lambda item: min(row.checkpoint["id"] for row in item[1])):
        rows.sort(key=lambda row: row.checkpoint["id"], reverse=True)
        for row in reversed(rows):
            kept = row.checkpoint
            trace.add(
                "checkpoint",
                {
                    "ns": ns,
                    "metadata": row.metadata,
                    "values": kept["channel_values"],
                    "versions": dict(sorted(kept["channel_versions"].items())),
                    "seen": dict(sorted(kept["versions_seen"].items())),
                    "updated": kept.get("updated_channels"),
                    "format": kept["v"],
                    "has parent": row.parent_config is not None,
                    "writes": _rows(row.pending_writes),
                },
            )


def _rows(writes: Iterable[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """Return stored writes with routing in one order (its own is a set's) and errors without their form."""
    rows: dict[str, list[tuple[str, str, Any]]] = {}
    for task, key, value in writes:
        answer_to_nobody = key == "__resume__" and task == "00000000-0000-0000-0000-000000000000"
        if not answer_to_nobody and key != "__no_writes__":
            rows.setdefault(task, []).append((task, key, "<error>" if key == "__error__" else value))
    for task, own in rows.items():
        if any(not key.startswith("__") for _, key, _ in own):
            rows[task] = [row for row in own if row[1] != "__error__"]
    for own in rows.values():
        own.sort(key=lambda row: row[1] if row[1].startswith(("branch:", "join:")) else "")
    return [row for own in rows.values() for row in own]


# -- comparing --------------------------------------------------------------------------------------------------


def differences(theirs: Any, ours: Any, path: str = "") -> list[str]:
    """Return where two plain values differ, one line for each place.

    An error of ours may be of a class below theirs; its text is not compared.
    """
    if isinstance(theirs, Raised) and isinstance(ours, Raised):
        same = theirs.classes[0] in ours.classes
        return [] if same else [f"{path}: {theirs} / {ours}"]
    if type(theirs) is not type(ours):
        return [f"{path}: {theirs!r} / {ours!r}"]
    if isinstance(theirs, Record):
        if theirs.name != ours.name:
            return [f"{path}: {theirs!r} / {ours!r}"]
        return differences(theirs.fields, ours.fields, f"{path}<{theirs.name}>")
    if isinstance(theirs, dict):
        return _mapping_differences(theirs, ours, path)
    if isinstance(theirs, (list, tuple)):
        if len(theirs) != len(ours):
            return [f"{path}: {len(theirs)} items / {len(ours)} items: {theirs!r} / {ours!r}"]
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [line for i, (a, b) in pairs for line in differences(a, b, f"{path}[{i}]")]
    return [] if theirs == ours else [f"{path}: {theirs!r} / {ours!r}"]


def _mapping_differences(theirs: dict[Any, Any], ours: dict[Any, Any], path: str) -> list[str]:
    lines = [f"{path}[{key!r}]: {theirs[key]!r} / -" for key in theirs if key not in ours]
    lines += [f"{path}[{key!r}]: - / {ours[key]!r}" for key in ours if key not in theirs]
    for key in theirs:
        if key in ours:
            lines += differences(theirs[key], ours[key], f"{path}[{key!r}]")
    unordered = ("'configurable'", "['seen']", "['versions']", "['values']", "['metadata']")
    if not lines and list(theirs) != list(ours) and not any(part in path for part in unordered):
        lines.append(f"{path}: order of keys {list(theirs)} / {list(ours)}")
    return lines


def sections(trace: Trace) -> dict[str, list[tuple[str, Any]]]:
    """Return the entries of a trace by case, shape and turn."""
    parts: dict[str, list[tuple[str, Any]]] = {}
    case = shape = turn = ""
    for label, value in trace.entries:
        if label == "case":
            case, shape, turn = f"{value} ", "", ""
        elif label == "shape":
            shape, turn = value, ""
        elif label == "turn":
            turn = f" turn {value}"
        else:
            key = f"{case}stored" if label == "checkpoint" else f"{case}{shape}{turn}"
            parts.setdefault(key, []).append((label, value))
    return parts


def compare(theirs: Trace, ours: Trace) -> list[str]:
    """Return where two traces differ, one line for each place."""
    left, right = sections(theirs), sections(ours)
    return [
        line
        for part in dict.fromkeys([*left, *right])
        for line in _entry_differences(_once(left.get(part, [])), _once(right.get(part, [])), part)
    ]


def _once(entries: list[Any]) -> list[Any]:
    """Leave out questions that an inner graph has shown already, and numbers of ids in what is stored."""
    shown: set[tuple[str, str]] = set()
    kept = []
    for label, value in entries:
        text = repr(value)
        asks = (label == "item" and "__interrupt__" in text) or "'interrupts': (R" in text
        asked = _QUESTION.findall(text) if asks else []
        mode = next((mode for mode in ("'values'", "'updates'") if mode in text[:60]), "")
        if asked and all((mode, question) in shown for question in asked):
            continue
        shown.update((mode, question) for question in asked)
        kept.append((label, unnumbered(value) if label == "checkpoint" else value))
    return kept


def unnumbered(value: Any) -> Any:
    """Return a plain value with ids that say only what they are ids of."""
    if isinstance(value, str):
        return ID.sub(r"\1", value)
    if isinstance(value, dict):
        return {unnumbered(key): unnumbered(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(unnumbered(item) for item in value)
    return Record(value.name, unnumbered(value.fields)) if isinstance(value, Record) else value


def _entry_differences(theirs: list[Any], ours: list[Any], path: str) -> list[str]:
    """Pair equal entries before comparing, so that one entry more does not make all others differ."""
    if len(theirs) == len(ours):
        return differences(theirs, ours, path)
    left, right = ([ID.sub(r"\1", repr(entry)) for entry in side] for side in (theirs, ours))
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    lines = []
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind != "equal":
            lines.append(f"{path} [{i}:{j}]: {' ; '.join(left[i:j]) or '-'} / {' ; '.join(right[k:m]) or '-'}")
    return lines
