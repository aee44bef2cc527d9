"""Whole threads with an encrypting serializer, on every saver: nothing lies in the clear, nothing can be moved."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import asyncpg
import pytest

from langgraph_async import END, START, Command, StateGraph, interrupt
from langgraph_async.channels import DeltaChannel
from langgraph_async.checkpoint.base import BaseCheckpointSaver
from langgraph_async.checkpoint.memory import InMemorySaver
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_async.errors import EncryptionError, SerializationError
from langgraph_async.serde.base import SerializerProtocol
from langgraph_async.serde.encrypted import EncryptedSerializer
from langgraph_async.serde.jsonplus import JsonPlusSerializer
from langgraph_async.testing.saver_contract.samples import Branch, at, load

pytest.importorskip("cryptography")

Saver = BaseCheckpointSaver[Any]
CANARY = "canary-7f3a"
KEY, NEW_KEY = b"k" * 32, b"n" * 32
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Store:
    """One database, opened any number of times, each time by a saver of its own."""

    def open(self, serde: SerializerProtocol | None) -> AbstractAsyncContextManager[Saver]:
        raise NotImplementedError

    async def dump(self) -> str:
        """Return everything that is in it."""
        raise NotImplementedError

    async def move_writes(self) -> None:
        """Give each write on thread t the bytes of one on thread u."""
        raise NotImplementedError


class MemoryStore(Store):
    def __init__(self) -> None:
        self.data = InMemorySaver()

    @asynccontextmanager
    async def open(self, serde: SerializerProtocol | None) -> AsyncIterator[Saver]:
        saver = InMemorySaver(serde=serde)
        for name in ("storage", "writes", "blobs", "_write_keys", "_blob_keys"):
            setattr(saver, name, getattr(self.data, name))
        yield saver

    async def dump(self) -> str:
        return repr([self.data.storage, self.data.writes, self.data.blobs])

    async def move_writes(self) -> None:
        (mine,), (theirs,) = ([k for k in self.data.writes if k[0] == name] for name in "tu")
        self.data.writes[mine] = self.data.writes[theirs]


class SqliteStore(Store):
    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, serde: SerializerProtocol | None) -> AbstractAsyncContextManager[Saver]:
        return AsyncSqliteSaver.from_conn_string(self.path, synchronous="NORMAL", serde=serde)

    async def dump(self) -> str:
        with sqlite3.connect(self.path) as conn:
            rows = [conn.execute(f"SELECT * FROM {table}").fetchall() for table in ("checkpoints", "writes")]
        conn.close()
        files = [path.read_bytes() for path in self.path.parent.glob(f"{self.path.name}*")]
        return repr([rows, files])

    async def move_writes(self) -> None:
        with sqlite3.connect(self.path) as conn:
            conn.execute("UPDATE writes SET value = (SELECT value FROM writes WHERE thread_id = 'u')")
        conn.close()


class PostgresStore(Store):
    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def open(self, serde: SerializerProtocol | None) -> AbstractAsyncContextManager[Saver]:
        return AsyncPostgresSaver.from_conn_string(self.dsn, max_size=2, serde=serde)

    async def _run(self, *statements: str) -> list[Any]:
        conn = await asyncpg.connect(self.dsn)
        try:
            return [await conn.fetch(statement) for statement in statements]
        finally:
            await conn.close()

    async def dump(self) -> str:
        tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
        return repr(await self._run(*(f"SELECT * FROM {table}" for table in tables)))

    async def move_writes(self) -> None:
        await self._run(
            "UPDATE checkpoint_writes SET blob = (SELECT blob FROM checkpoint_writes WHERE thread_id = 'u')"
        )


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "a.db")
    return PostgresStore(request.getfixturevalue("postgres_database"))


def encrypted(*keys: bytes, **options: Any) -> EncryptedSerializer:
    return EncryptedSerializer.from_keys(*(keys or (KEY,)), **options)


def joined(state: Sequence[str], writes: Sequence[Sequence[str]]) -> list[str]:
    return [*state, *(each for write in writes for each in write)]


class State(TypedDict):
    text: str
    number: float
    log: Annotated[list[str], operator.add]
    lines: Annotated[list[str], DeltaChannel(joined)]


class Inner(TypedDict):
    text: str
    answer: str


def program(saver: Saver) -> Any:
    async def first(state: State) -> dict[str, Any]:
        return {"text": f"{CANARY} {state['text']}", "log": [f"{CANARY} first"], "lines": [f"{CANARY} line"]}

    async def ask(state: Inner) -> dict[str, Any]:
        return {"answer": interrupt(f"{CANARY} question"), "text": f"{CANARY} asked"}

    async def last(state: State) -> dict[str, Any]:
        return {"log": [f"{CANARY} last"], "lines": [f"{CANARY} end"]}

    inner = StateGraph(Inner).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END).compile()
    builder = StateGraph(State).add_node("first", first).add_node("inner", inner).add_node("last", last)
    builder.add_edge(START, "first").add_edge("first", "inner").add_edge("inner", "last").add_edge("last", END)
    return builder.compile(checkpointer=saver)


GIVEN: Any = {"text": f"{CANARY} input", "number": 1.5, "log": [], "lines": []}


async def paused(store: Store, serde: SerializerProtocol | None, config: Any = CONFIG) -> None:
    async with store.open(serde) as saver:
        await program(saver).ainvoke(GIVEN, config)


async def finished(store: Store, serde: SerializerProtocol | None, config: Any = CONFIG) -> Any:
    async with store.open(serde) as saver:
        return await program(saver).ainvoke(Command(resume=f"{CANARY} answer"), config)


DONE: Any = {
    "text": f"{CANARY} asked",
    "number": 1.5,
    "log": [f"{CANARY} first", f"{CANARY} last"],
    "lines": [f"{CANARY} line", f"{CANARY} end"],
}


async def test_a_paused_thread_goes_on_in_another_saver_that_has_the_key(store: Store) -> None:
    await paused(store, encrypted())

    assert await finished(store, encrypted()) == DONE


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_no_value_lies_in_the_database_in_the_clear(store: Store, durability: Any) -> None:
    async with store.open(encrypted()) as saver:
        graph = program(saver)
        await graph.ainvoke(GIVEN, CONFIG, durability=durability)
        assert CANARY not in await store.dump()
        await graph.ainvoke(Command(resume=f"{CANARY} answer"), CONFIG, durability=durability)
        await graph.aupdate_state(CONFIG, {"text": f"{CANARY} edited"})
    content = await store.dump()

    assert CANARY not in content
    assert "aesgcm" in content


async def test_without_encryption_the_values_would_be_found(store: Store) -> None:
    await paused(store, None)

    assert CANARY in await store.dump()


async def test_what_a_run_says_of_itself_stays_readable_to_be_searched(store: Store) -> None:
    config: Any = {**CONFIG, "metadata": {"tenant": "acme"}}
    await paused(store, encrypted(), config)
    async with store.open(encrypted()) as saver:
        assert [item async for item in saver.alist(None, filter={"tenant": "acme"})]
        assert [item async for item in saver.alist(None, filter={"tenant": "other"})] == []


async def test_history_forks_and_time_travel_work_on_encrypted_threads(store: Store) -> None:
    await paused(store, encrypted())
    await finished(store, encrypted())
    async with store.open(encrypted()) as saver:
        graph = program(saver)
        history = [state async for state in graph.aget_state_history(CONFIG)]
        before_last = next(state for state in history if state.next == ("last",))
        again = await graph.ainvoke(None, before_last.config)
        forked = await graph.aupdate_state(before_last.config, {"text": "forked"})
        other = await graph.ainvoke(None, forked)

    assert again == DONE
    assert other == {**DONE, "text": "forked"}


async def test_a_copied_thread_goes_on_by_itself(store: Store) -> None:
    await paused(store, encrypted())
    async with store.open(encrypted()) as saver:
        await saver.acopy_thread("t", "copy")
        await saver.adelete_thread("t")
    copy: Any = {"configurable": {"thread_id": "copy"}}

    assert await finished(store, encrypted(), copy) == DONE
    assert CANARY not in await store.dump()


async def test_a_pruned_thread_can_be_read(store: Store) -> None:
    await paused(store, encrypted())
    await finished(store, encrypted())
    async with store.open(encrypted()) as saver:
        await saver.aprune(["t"])
        state = await program(saver).aget_state(CONFIG)

    assert state.values == DONE


async def test_another_key_reads_nothing(store: Store) -> None:
    await paused(store, encrypted())
    async with store.open(encrypted(NEW_KEY)) as saver:
        with pytest.raises(EncryptionError, match="thread 't'") as caught:
            await program(saver).aget_state(CONFIG)

    assert caught.value.reason == "unknown_key"


async def test_no_key_reads_nothing(store: Store) -> None:
    await paused(store, encrypted())
    async with store.open(None) as saver:
        with pytest.raises(SerializationError, match="encrypted"):
            await program(saver).aget_state(CONFIG)


async def test_a_thread_goes_on_with_a_new_key_beside_the_old_one(store: Store) -> None:
    await paused(store, encrypted())

    assert await finished(store, encrypted(NEW_KEY, KEY)) == DONE


async def test_a_copy_is_good_with_the_new_key_alone(store: Store) -> None:
    await paused(store, encrypted())
    async with store.open(encrypted(NEW_KEY, KEY)) as saver:
        await saver.acopy_thread("t", "copy")

    assert await finished(store, encrypted(NEW_KEY), {"configurable": {"thread_id": "copy"}}) == DONE


async def test_plaintext_is_refused_and_the_row_is_named(store: Store) -> None:
    await paused(store, None)
    async with store.open(encrypted()) as saver:
        with pytest.raises(EncryptionError, match="thread 't'") as caught:
            await program(saver).aget_state(CONFIG)
        with pytest.raises(EncryptionError):
            await program(saver).ainvoke(Command(resume="x"), CONFIG)

    assert caught.value.reason == "plaintext"
    assert caught.value.where["checkpoint_id"]


async def test_a_thread_in_the_clear_goes_on_and_what_is_new_is_encrypted(store: Store) -> None:
    await paused(store, None)
    before = (await store.dump()).count("canary-7f3a last")
    lax = encrypted(allow_plaintext=True)

    assert await finished(store, lax) == DONE
    assert (await store.dump()).count("canary-7f3a last") == before == 0
    async with store.open(lax) as saver:
        assert (await program(saver).aget_state(CONFIG)).values == DONE


async def test_copying_a_thread_in_the_clear_encrypts_all_of_it(store: Store) -> None:
    await paused(store, None)
    async with store.open(encrypted(allow_plaintext=True)) as saver:
        await saver.acopy_thread("t", "copy")
        await saver.adelete_thread("t")
    copy: Any = {"configurable": {"thread_id": "copy"}}

    if not isinstance(store, SqliteStore):  # whose file keeps what was deleted, until it is vacuumed
        assert CANARY not in await store.dump()
    assert await finished(store, encrypted(), copy) == DONE
    async with store.open(encrypted()) as saver:
        assert len([state async for state in program(saver).aget_state_history(copy)]) > 3


async def test_a_write_that_was_moved_from_another_thread_is_refused(store: Store) -> None:
    async with store.open(encrypted()) as saver:
        for thread in "tu":
            branch = Branch(saver, thread)
            await branch.put(a=[thread])
            await branch.write(("a", [thread]))
    await store.move_writes()
    async with store.open(encrypted()) as saver:
        with pytest.raises(EncryptionError, match="what task task wrote to 'a'") as caught:
            await load(saver, at("t"))

    assert caught.value.reason == "changed"
    assert caught.value.where["thread_id"] == "t"


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE checkpoint_blobs SET blob = set_byte(blob, 40, (get_byte(blob, 40) + 1) % 256) WHERE channel = 'a'",
        "UPDATE checkpoint_blobs SET blob = substr(blob, 1, 20) WHERE channel = 'a'",
        "UPDATE checkpoint_blobs SET blob = NULL WHERE channel = 'a'",
        "UPDATE checkpoint_blobs SET type = 'bytes+aesgcm' WHERE channel = 'a'",
        "UPDATE checkpoint_blobs SET type = 'null', blob = '' WHERE channel = 'a'",
        "UPDATE checkpoint_blobs SET channel = 'b' WHERE channel = 'a'; "
        "UPDATE checkpoints SET checkpoint = replace(checkpoint::text, '\"a\"', '\"b\"')::jsonb",
        "UPDATE checkpoint_blobs SET checkpoint_ns = 'x'; UPDATE checkpoints SET checkpoint_ns = 'x'",
        "UPDATE checkpoints SET checkpoint = jsonb_set(checkpoint, '{channel_values}', '{\"b\": \"forged\"}')",
    ],
)
async def test_a_harmed_row_is_refused_on_postgres(postgres_database: str, harm: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database, max_size=2, serde=encrypted()) as saver:
        await Branch(saver, "t").put(a=["secret"])
        conn = await asyncpg.connect(postgres_database)
        await conn.execute(harm)
        await conn.close()
        with pytest.raises(EncryptionError, match="thread 't'"):
            await load(saver, at("t", "x" if "'x'" in harm else ""))


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 20)",
        "UPDATE checkpoints SET checkpoint = NULL",
        "UPDATE checkpoints SET type = NULL",
        "UPDATE checkpoints SET type = 'bytes+aesgcm'",
        "UPDATE checkpoints SET checkpoint_ns = 'x'",
        "UPDATE checkpoints SET checkpoint_id = 'x'",
        "UPDATE checkpoints SET type = 'msgpack', checkpoint = X'80'",
    ],
)
async def test_a_harmed_row_is_refused_on_sqlite(tmp_path: Path, harm: str) -> None:
    async with AsyncSqliteSaver.from_conn_string(tmp_path / "a.db", serde=encrypted()) as saver:
        await Branch(saver, "t").put(a=["secret"])
        with sqlite3.connect(tmp_path / "a.db") as conn:
            conn.execute(harm)
        conn.close()
        with pytest.raises(EncryptionError, match="thread 't'"):
            await load(saver, at("t", "x" if "ns = 'x'" in harm else ""))


async def test_a_value_that_cannot_be_stored_is_named_and_stores_nothing(store: Store) -> None:
    async with store.open(encrypted()) as saver:
        branch = Branch(saver, "t")
        with pytest.raises(SerializationError, match="'bad'") as caught:
            await branch.put(good=1, bad=[object()])

        assert caught.value.path[0] == "bad"
        assert await saver.aget_tuple(at("t")) is None


async def test_the_types_of_the_schema_are_allowed_inside(store: Store) -> None:
    class Holder(TypedDict):
        fault: Fault

    async def node(state: Holder) -> dict[str, Any]:
        return {"fault": Fault("b")}

    async with store.open(encrypted(serde=JsonPlusSerializer())) as saver:
        graph = StateGraph(Holder).add_node("n", node).add_edge(START, "n").compile(checkpointer=saver)
        await graph.ainvoke({"fault": Fault("a")}, CONFIG)
        state = await graph.aget_state(CONFIG)

    assert repr(state.values) == "{'fault': Fault('b')}"


class Fault(ValueError):
    pass
