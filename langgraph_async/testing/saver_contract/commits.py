"""Contract: a superstep is stored as one, or not at all."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio
from typing import Any

from langgraph_async.checkpoint.base import StepCommit, TaskWrites
from langgraph_async.config import RunnableConfig
from langgraph_async.constants import ERROR, MISSING, Missing
from langgraph_async.errors import SerializationError, ThreadConflictError
from langgraph_async.testing.saver_contract.samples import (
    Branch,
    Saver,
    Unstorable,
    at,
    id_of,
    listed,
    load,
    needs,
    new_thread,
    pending,
    refused,
    values,
)


def _step(
    branch: Branch, writes: tuple[TaskWrites, ...] = (), expected_head: str | None | Missing = MISSING, **changed: Any
) -> StepCommit:
    checkpoint, metadata, versions = branch.next_checkpoint(**changed)
    return StepCommit(writes, checkpoint, metadata, versions, expected_head)


async def _started(saver: Saver, ns: str = "") -> Branch:
    needs(saver, "acommit")
    branch = Branch(saver, ns=ns)
    await branch.put(a=0)
    return branch


class CommitContract:
    """Storing whole supersteps; skipped for savers that do not offer it."""

    async def test_a_commit_stores_writes_and_checkpoint(self, saver: Saver) -> None:
        branch = await _started(saver)
        first = branch.head
        commit = _step(branch, (TaskWrites("t", "~p", [("a", 1)]),), id_of(first), a=1)
        second = await saver.acommit(first, commit)

        assert commit.checkpoint is not None
        assert (await load(saver, second)).checkpoint == commit.checkpoint
        assert (await load(saver, second)).parent_config == first
        assert await pending(saver, first) == [("t", "a", 1)]
        assert await pending(saver, second) == []

    async def test_a_commit_returns_the_coordinates_of_its_checkpoint(self, saver: Saver) -> None:
        branch = await _started(saver, ns="ns")
        commit = _step(branch, a=1)
        config = await saver.acommit(branch.head, commit)

        assert commit.checkpoint is not None
        assert config == at(branch.thread_id, "ns", commit.checkpoint["id"])

    async def test_a_commit_can_start_a_thread(self, saver: Saver) -> None:
        needs(saver, "acommit")
        branch = Branch(saver)
        config = await saver.acommit(branch.head, _step(branch, expected_head=None, a=1))

        assert await values(saver, config) == {"a": 1}
        assert (await load(saver, config)).parent_config is None

    async def test_a_commit_of_writes_alone_gives_its_config_back(self, saver: Saver) -> None:
        branch = await _started(saver)
        writes = (TaskWrites("t", "", [("a", 1)]),)
        config = await saver.acommit(branch.head, StepCommit(writes, expected_head=id_of(branch.head)))

        assert config == branch.head
        assert await branch.pending() == [("t", "a", 1)]

    async def test_an_empty_commit_stores_nothing(self, saver: Saver) -> None:
        branch = await _started(saver)

        assert await saver.acommit(branch.head, StepCommit()) == branch.head
        assert await listed(saver, at(branch.thread_id)) == [id_of(branch.head)]

    async def test_metadata_of_a_commit_is_merged_as_in_put(self, saver: Saver) -> None:
        branch = await _started(saver)
        config: RunnableConfig = {**branch.head, "metadata": {"tenant": 7}}
        found = await load(saver, await saver.acommit(config, _step(branch, a=1)))

        assert dict(found.metadata) == {"source": "loop", "step": 0, "parents": {}, "tenant": 7}

    async def test_without_new_versions_all_channels_are_stored(self, saver: Saver) -> None:
        needs(saver, "acommit")
        branch = Branch(saver)
        checkpoint, metadata, _ = branch.next_checkpoint(a=[1], b=2)
        config = await saver.acommit(branch.head, StepCommit(checkpoint=checkpoint, metadata=metadata))

        assert await values(saver, config) == {"a": [1], "b": 2}

    async def test_unchanged_channels_of_a_commit_are_found_by_their_version(self, saver: Saver) -> None:
        branch = await _started(saver)
        branch.head = await saver.acommit(branch.head, _step(branch, b=[1], c=MISSING))
        branch.head = await saver.acommit(branch.head, _step(branch, a=MISSING))

        assert await values(saver, branch.head) == {"b": [1]}

    async def test_writes_of_several_tasks_are_sorted_by_path_id_and_position(self, saver: Saver) -> None:
        branch = await _started(saver)
        writes = (
            TaskWrites("t2", "~b", [("a", 5)]),
            TaskWrites("t9", "~a", [("a", 3), ("a", 4)]),
            TaskWrites("t1", "~a", [("a", 1), (ERROR, "e")]),
        )
        await saver.acommit(branch.head, StepCommit(writes))

        assert [value for _, _, value in await branch.pending()] == ["e", 1, 3, 4, 5]

    async def test_writes_of_a_commit_keep_positions_that_are_stored(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), (ERROR, "e"), task="t")
        await saver.acommit(branch.head, StepCommit([TaskWrites("t", "", [("x", 9), ("b", 2), ("c", 3)])]))
        await saver.acommit(branch.head, StepCommit([TaskWrites("t", "", [(ERROR, None)])]))

        assert await branch.pending() == [("t", ERROR, None), ("t", "a", 1), ("t", "b", 2), ("t", "c", 3)]

    async def test_replace_forgets_what_the_task_wrote_before(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write((ERROR, "e"), ("a", 1), ("b", 2), task="t")
        await branch.write(("a", 1), task="other")
        await saver.acommit(branch.head, StepCommit([TaskWrites("t", "", [("c", 3)], replace=True)]))

        assert await branch.pending() == [("other", "a", 1), ("t", "c", 3)]

    async def test_replacing_with_nothing_removes_the_task(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), task="t")
        await saver.acommit(branch.head, StepCommit([TaskWrites("t", "", [], replace=True)]))

        assert await branch.pending() == []

    async def test_replace_touches_no_other_checkpoint(self, saver: Saver) -> None:
        branch = await _started(saver)
        first = branch.head
        await branch.write(("a", 1), task="t")
        await branch.put(a=1)
        await saver.acommit(branch.head, StepCommit([TaskWrites("t", "", [("b", 2)], replace=True)]))

        assert await pending(saver, first) == [("t", "a", 1)]
        assert await branch.pending() == [("t", "b", 2)]

    async def test_a_commit_on_a_head_that_moved_is_refused(self, saver: Saver) -> None:
        branch = await _started(saver)
        mine = branch.fork()
        old, new = branch.head, await branch.put(a=1)
        error = await refused(saver.acommit(old, _step(mine, expected_head=id_of(old), a=2)), ThreadConflictError)

        assert (error.thread_id, error.expected, error.found) == (branch.thread_id, id_of(old), id_of(new))
        assert branch.thread_id in str(error)

    async def test_a_refused_commit_stores_nothing(self, saver: Saver) -> None:
        branch = await _started(saver)
        mine = branch.fork()
        old, new = branch.head, await branch.put(a=1)
        writes = (TaskWrites("t", "", [("a", 2)], replace=True),)
        await saver.aput_writes(old, [("a", 1)], "t")
        await refused(saver.acommit(old, _step(mine, writes, id_of(old), a=2)), ThreadConflictError)

        assert await listed(saver, at(branch.thread_id)) == [id_of(new), id_of(old)]
        assert await pending(saver, old) == [("t", "a", 1)]
        assert await values(saver, new) == {"a": 1}

    async def test_writes_alone_are_refused_on_a_head_that_moved(self, saver: Saver) -> None:
        branch = await _started(saver)
        old = branch.head
        await branch.put(a=1)
        commit = StepCommit([TaskWrites("t", "", [("a", 1)])], expected_head=id_of(old))
        await refused(saver.acommit(old, commit), ThreadConflictError)

        assert await pending(saver, old) == []

    async def test_starting_a_thread_that_exists_is_refused(self, saver: Saver) -> None:
        branch = await _started(saver)
        new = Branch(saver, branch.thread_id)
        error = await refused(saver.acommit(new.head, _step(new, expected_head=None, a=1)), ThreadConflictError)

        assert (error.expected, error.found) == (None, id_of(branch.head))

    async def test_continuing_a_thread_that_is_gone_is_refused(self, saver: Saver) -> None:
        branch = await _started(saver)
        await saver.adelete_thread(branch.thread_id)
        commit = _step(branch, expected_head=id_of(branch.head), a=1)
        error = await refused(saver.acommit(branch.head, commit), ThreadConflictError)

        assert error.found is None
        assert await saver.aget_tuple(at(branch.thread_id)) is None

    async def test_without_an_expected_head_nothing_is_checked(self, saver: Saver) -> None:
        branch = await _started(saver)
        other = branch.fork()
        old = branch.head
        await branch.put(a=1)
        config = await saver.acommit(old, _step(other, a=2))

        assert (await load(saver, config)).parent_config == old

    async def test_a_fork_from_an_old_checkpoint_expects_the_newest(self, saver: Saver) -> None:
        branch = await _started(saver)
        fork, old = branch.fork(), branch.head
        head = await branch.put(a=1)
        config = await saver.acommit(old, _step(fork, expected_head=id_of(head), a=2))

        assert (await load(saver, at(branch.thread_id))).config == config
        assert (await load(saver, config)).parent_config == old

    async def test_heads_of_namespaces_are_checked_apart(self, saver: Saver) -> None:
        branch = await _started(saver)
        sub = Branch(saver, branch.thread_id, "sub")
        config = await saver.acommit(sub.head, _step(sub, expected_head=None, a="sub"))
        await branch.put(a=1)
        config = await saver.acommit(config, _step(sub, expected_head=id_of(config), a="sub2"))

        assert await values(saver, at(branch.thread_id, "sub")) == {"a": "sub2"}
        assert await values(saver, at(branch.thread_id)) == {"a": 1}

    async def test_of_twenty_commits_on_one_head_exactly_one_wins(self, saver: Saver) -> None:
        branch = await _started(saver)
        head = branch.head
        commits = [
            _step(branch.fork(), (TaskWrites(f"t{i}", "", [("a", i)]),), id_of(head), a=[i], winner=i)
            for i in range(20)
        ]
        results = await asyncio.gather(*(saver.acommit(head, c) for c in commits), return_exceptions=True)
        winners = [i for i, result in enumerate(results) if not isinstance(result, BaseException)]
        (winner,) = winners

        assert all(isinstance(r, ThreadConflictError) for i, r in enumerate(results) if i != winner)
        assert await pending(saver, head) == [(f"t{winner}", "a", winner)]
        assert await values(saver, at(branch.thread_id)) == {"a": [winner], "winner": winner}
        assert len(await listed(saver, at(branch.thread_id))) == 2

    async def test_of_twenty_commits_on_a_new_thread_exactly_one_wins(self, saver: Saver) -> None:
        needs(saver, "acommit")
        thread = new_thread()
        branches = [Branch(saver, thread) for _ in range(20)]
        commits = [saver.acommit(b.head, _step(b, expected_head=None, a=i)) for i, b in enumerate(branches)]
        results = await asyncio.gather(*commits, return_exceptions=True)

        assert sum(isinstance(r, ThreadConflictError) for r in results) == 19
        assert len(await listed(saver, at(thread, None))) == 1

    async def test_commits_on_different_threads_do_not_disturb_each_other(self, saver: Saver) -> None:
        needs(saver, "acommit")
        branches = [Branch(saver) for _ in range(10)]

        async def run(branch: Branch) -> None:
            expected: str | None = None
            for i in range(5):
                branch.head = await saver.acommit(branch.head, _step(branch, expected_head=expected, a=[i]))
                expected = id_of(branch.head)

        await asyncio.gather(*(run(branch) for branch in branches))
        assert [await values(saver, at(b.thread_id)) for b in branches] == [{"a": [4]}] * 10

    async def test_an_unstorable_value_leaves_neither_writes_nor_checkpoint(self, saver: Saver) -> None:
        branch = await _started(saver)
        head = branch.head
        writes = (TaskWrites("t", "", [("a", 1)]),)
        error = await refused(saver.acommit(head, _step(branch, writes, broken=Unstorable())), SerializationError)

        assert "broken" in str(error)
        assert await listed(saver, at(branch.thread_id)) == [id_of(head)]
        assert await pending(saver, head) == []

    async def test_an_unstorable_write_leaves_neither_writes_nor_checkpoint(self, saver: Saver) -> None:
        branch = await _started(saver)
        head = branch.head
        await branch.write(("a", 0), task="t1")
        writes = (
            TaskWrites("t1", "", [("b", 1)], replace=True),
            TaskWrites("t2", "", [("fine", 1), ("broken", Unstorable())]),
        )
        error = await refused(saver.acommit(head, _step(branch, writes, a=1)), SerializationError)

        assert "broken" in str(error)
        assert "t2" in str(error)
        assert await listed(saver, at(branch.thread_id)) == [id_of(head)]
        assert await pending(saver, head) == [("t1", "a", 0)]

    async def test_changing_what_was_committed_changes_nothing_stored(self, saver: Saver) -> None:
        branch = await _started(saver)
        items = [1]
        head = branch.head
        config = await saver.acommit(head, _step(branch, (TaskWrites("t", "", [("a", items)]),), a=items))
        items.append(2)

        assert await pending(saver, head) == [("t", "a", [1])]
        assert await values(saver, config) == {"a": [1]}

    async def test_committed_writes_need_a_checkpoint(self, saver: Saver) -> None:
        needs(saver, "acommit")
        commit = StepCommit([TaskWrites("t", "", [("a", 1)])])

        assert "checkpoint_id" in str(await refused(saver.acommit(at(new_thread()), commit), KeyError))

    async def test_writes_of_one_task_in_one_commit_count_one_after_the_other(self, saver: Saver) -> None:
        branch = await _started(saver)
        first = branch.head
        writes = (
            TaskWrites("t", "~p", [("a", 1), ("b", 2)]),
            TaskWrites("t", "~p", [("c", 3)]),  # its position is taken
            TaskWrites("t", "~p", [(ERROR, "first")]),
            TaskWrites("t", "~p", [(ERROR, "second")]),
            TaskWrites("u", "~q", [("a", 4), (ERROR, "third")]),
            TaskWrites("u", "~q", [("a", 5)], replace=True),
            TaskWrites("u", "~q", [(ERROR, "fourth")]),
        )
        await saver.acommit(first, _step(branch, writes, id_of(first), a=1))

        assert await pending(saver, first) == [
            ("t", ERROR, "second"),
            ("t", "a", 1),
            ("t", "b", 2),
            ("u", ERROR, "fourth"),
            ("u", "a", 5),
        ]
