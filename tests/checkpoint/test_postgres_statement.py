"""How a group of commits goes to PostgreSQL: as one statement whose columns of texts are one text each."""

from __future__ import annotations

from typing import Any

import asyncpg
from hypothesis import given
from hypothesis import strategies as st

from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph_async.checkpoint.postgres.dump import Dumped, dump_commit
from langgraph_async.checkpoint.postgres.lane import Job
from langgraph_async.checkpoint.postgres.statement import Chain, Part, _packed, compose
from langgraph_async.checkpoint.postgres.tables import Tables
from langgraph_async.constants import MISSING
from langgraph_async.serde.jsonplus import JsonPlusSerializer
from langgraph_async.testing.saver_contract.samples import Branch, new_thread


@given(st.lists(st.text(st.sampled_from("\1\2\3ab"), max_size=4), min_size=1))
def test_a_column_of_texts_is_taken_apart_at_its_first_character(column: list[str]) -> None:
    text = _packed(column)

    assert text.split(text[0])[1:] == column


def dumped(checkpoint_id: str, *, task: str, head: Any = MISSING) -> Dumped:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_id": checkpoint_id}}
    writes = (TaskWrites(task, "", [("log", "text"), ("count", 3)]),)
    return dump_commit(JsonPlusSerializer(), config, StepCommit(writes, expected_head=head))


async def test_only_bytes_go_as_an_array() -> None:
    part = Part(("t", ""))
    assert part.take(Job(part.place, Chain.single(dumped("1", task="a"))))

    _, arguments = compose(Tables(), [part])

    assert [type(each) for each in arguments] == [str] * (len(arguments) - 1) + [tuple]
    assert [type(item) for item in arguments[-1]] == [bytes, bytes]


def test_commits_are_no_chain_when_two_write_the_same_task_or_find_another_head() -> None:
    first = dumped("1", task="a")

    assert Chain.of((first, dumped("1", task="b"))) is not None
    assert Chain.of((first, dumped("1", task="a"))) is None
    assert Chain.of((first, dumped("1", task="b", head="0"))) is None


async def test_names_with_control_characters_come_back_as_they_were(postgres_database: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(postgres_database) as saver:
        await saver.setup()
        branch = Branch(saver, f"\1{new_thread()}\2")
        await branch.put({"note": "\1\3"}, **{"\1key": [1], "\2": "text\1"})
        await branch.write(("\1key", "\1\2\3"), ("", None), task="\1task")
        found = await saver.aget_tuple(branch.head)

    assert found is not None
    assert found.checkpoint["channel_values"] == {"\1key": [1], "\2": "text\1"}
    assert found.metadata["note"] == "\1\3"  # type: ignore[typeddict-item]
    assert found.pending_writes == [("\1task", "\1key", "\1\2\3"), ("\1task", "", None)]


async def test_the_plan_of_a_commit_finds_rows_by_their_keys(empty_postgres_database: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(empty_postgres_database) as saver:
        await saver.setup()
    part = Part(("t", ""))
    part.take(Job(part.place, Chain.single(dumped("1", task="a", head="1"))))
    sql, arguments = compose(Tables(), [part])
    values = [f"'{each}'" if isinstance(each, str) else "ARRAY['x'::bytea, 'y'::bytea]" for each in arguments]
    conn = await asyncpg.connect(empty_postgres_database)
    try:
        await conn.execute("SET plan_cache_mode = force_generic_plan")
        await conn.execute(f"PREPARE storing AS {sql}")
        plan = await conn.fetch(f"EXPLAIN EXECUTE storing ({', '.join(values)})")
    finally:
        await conn.close()

    assert not [line for (line,) in plan if "Seq Scan" in line]
