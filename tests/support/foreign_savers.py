"""Savers as others write them for LangGraph, small, and without LangGraph: nothing of our port is in them."""

from __future__ import annotations

import json
import pickle
import threading
import zlib
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

WRITES = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}


class JsonPlusSerializer:
    """Has the name of LangGraph's serializer; whoever lets it store something has not put ours in."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        raise AssertionError(f"LangGraph's serializer was given {obj!r}")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        raise AssertionError(f"LangGraph's serializer was given {data!r}")

    def dumps(self, obj: Any) -> bytes:
        return repr(obj).encode()


JsonPlusSerializer.__module__ = "langgraph.checkpoint.serde.jsonplus"


class PickleSerializer:
    """A serializer of a user's own."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        return "own", pickle.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        assert data[0] == "own", data
        return pickle.loads(data[1])


class CompressedSerializer:
    """A user's wrapper around another serializer, like one that encrypts."""

    def __init__(self, serde: Any) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        tag, data = self.serde.dumps_typed(obj)
        return f"{tag}+z", zlib.compress(data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        tag, _, name = data[0].partition("+")
        assert name == "z", data
        return self.serde.loads_typed((tag, zlib.decompress(data[1])))


class NoBase:
    """What LangGraph's base class gives: everything, not implemented."""

    serde: Any = JsonPlusSerializer()

    def __init__(self, serde: Any = None) -> None:
        if serde is not None:
            self.serde = serde

    @property
    def config_specs(self) -> list[Any]:
        return []

    def _missing(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def _amissing(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def alist(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError
        yield

    def get_next_version(self, current: Any, channel: None) -> Any:
        if isinstance(current, str):
            raise NotImplementedError
        return 1 if current is None else current + 1

    get_tuple = list = put = put_writes = _missing
    delete_thread = delete_for_runs = copy_thread = prune = _missing
    aget_tuple = aput = aput_writes = _amissing
    adelete_thread = adelete_for_runs = acopy_thread = aprune = _amissing


NoBase.__name__ = NoBase.__qualname__ = "BaseCheckpointSaver"


class BlockingSaver(NoBase):
    """Has blocking methods only, stores checkpoints whole, and counts versions as integers.

    Attributes:
        threads: Names of the threads that it was called in.
        configs: What it was called with.
    """

    def __init__(self, serde: Any = None) -> None:
        super().__init__(serde)
        self.rows: dict[str, dict[str, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
        self.writes: dict[tuple[str, str, str], dict[tuple[str, int], Any]] = defaultdict(dict)
        self.threads: set[str] = set()
        self.configs: list[Any] = []
        self.lock = threading.Lock()

    def _called(self, config: Any) -> tuple[str, str, str | None]:
        self.threads.add(threading.current_thread().name)
        self.configs.append(config)
        place = config["configurable"]
        return place["thread_id"], place["checkpoint_ns"], place.get("checkpoint_id")

    def get_tuple(self, config: Any) -> Any:
        thread_id, ns, checkpoint_id = self._called(config)
        found = self.rows.get(thread_id, {}).get(ns, {})
        if not found or (checkpoint_id is not None and checkpoint_id not in found):
            return None
        return self._tuple(thread_id, ns, checkpoint_id or max(found))

    def _tuple(self, thread_id: str, ns: str, checkpoint_id: str) -> Any:
        stored, metadata, parent = self.rows[thread_id][ns][checkpoint_id]
        writes = self.writes.get((thread_id, ns, checkpoint_id), {})
        ordered = sorted(writes.items(), key=lambda row: (row[1][2], *row[0]))
        place = {"thread_id": thread_id, "checkpoint_ns": ns}
        return SimpleNamespace(
            config={"configurable": {**place, "checkpoint_id": checkpoint_id}},
            checkpoint=self.serde.loads_typed(stored),
            metadata=json.loads(metadata),
            parent_config={"configurable": {**place, "checkpoint_id": parent}} if parent else None,
            pending_writes=[[task, row[0], self.serde.loads_typed(row[1])] for (task, _), row in ordered],
        )

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        self.threads.add(threading.current_thread().name)
        wanted = (config or {}).get("configurable", {})
        bound = before["configurable"]["checkpoint_id"] if before else None
        found = [
            (checkpoint_id, thread_id, ns)
            for thread_id, spaces in self.rows.items()
            for ns, rows in spaces.items()
            for checkpoint_id, (_, metadata, _) in rows.items()
            if wanted.get("thread_id", thread_id) == thread_id
            and wanted.get("checkpoint_ns", ns) == ns
            and wanted.get("checkpoint_id", checkpoint_id) == checkpoint_id
            and (bound is None or checkpoint_id < bound)
            and all(json.loads(metadata).get(key) == value for key, value in (filter or {}).items())
        ]
        for checkpoint_id, thread_id, ns in sorted(found, reverse=True)[:limit]:
            yield self._tuple(thread_id, ns, checkpoint_id)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        thread_id, ns, parent = self._called(config)
        stored = self.serde.dumps_typed(checkpoint)
        self.rows[thread_id][ns][checkpoint["id"]] = (stored, json.dumps(metadata), parent)
        return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        thread_id, ns, checkpoint_id = self._called(config)
        new = {
            (task_id, WRITES.get(channel, idx)): (channel, self.serde.dumps_typed(value), task_path)
            for idx, (channel, value) in enumerate(writes)
        }
        with self.lock:
            stored = self.writes[thread_id, ns, checkpoint_id or ""]
            replace = all(channel in WRITES for channel, _ in writes)
            stored.update({key: row for key, row in new.items() if replace or key not in stored})

    def delete_thread(self, thread_id: str) -> None:
        self.rows.pop(thread_id, None)
        for key in [key for key in self.writes if key[0] == thread_id]:
            del self.writes[key]


class AsyncSaver(NoBase):
    """Has async methods only, and versions that are text."""

    def __init__(self, serde: Any = None) -> None:
        super().__init__(serde)
        self.inner = BlockingSaver(serde)

    def get_next_version(self, current: Any, channel: None) -> str:
        return f"{int(current or 0) + 1:08}"

    async def aget_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    async def alist(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        for item in self.inner.list(config, filter=filter, before=before, limit=limit):
            yield item

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.inner.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:
        self.inner.put_writes(config, writes, task_id)

    async def adelete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)


class FloatSaver(BlockingSaver):
    """Counts versions in floats."""

    def get_next_version(self, current: Any, channel: None) -> float:
        return 1.0 if current is None else current + 1.0


class LateSaver(BlockingSaver):
    """Makes its storage when it is set up, not when it is made."""

    def __init__(self, serde: Any = None) -> None:
        super().__init__(serde)
        del self.rows

    def setup(self) -> None:
        self.rows = defaultdict(lambda: defaultdict(dict))
