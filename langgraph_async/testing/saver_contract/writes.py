"""Contract: pending writes."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio

from langgraph_async.constants import ERROR, INTERRUPT, NULL_TASK_ID, RESUME, SCHEDULED
from langgraph_async.errors import SerializationError
from langgraph_async.testing.saver_contract.samples import (
    Branch,
    Saver,
    Unstorable,
    at,
    load,
    new_thread,
    pending,
    refused,
    values,
)


async def _started(saver: Saver, ns: str = "") -> Branch:
    branch = Branch(saver, ns=ns)
    await branch.put(a=0)
    return branch


class WritesContract:
    """Storing the writes of tasks, and reading them back."""

    async def test_a_new_checkpoint_has_no_pending_writes(self, saver: Saver) -> None:
        branch = await _started(saver)

        assert (await load(saver, branch.head)).pending_writes == []

    async def test_writes_come_back_in_order(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("b", 1), ("a", [2]), ("c", {"k": 3}), task="t")

        assert await branch.pending() == [("t", "b", 1), ("t", "a", [2]), ("t", "c", {"k": 3})]

    async def test_a_task_may_write_a_channel_twice(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), ("a", 2), task="t")

        assert await branch.pending() == [("t", "a", 1), ("t", "a", 2)]

    async def test_a_none_write_is_a_write(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("branch:to:b", None), task="t")

        assert await branch.pending() == [("t", "branch:to:b", None)]

    async def test_any_text_can_be_written(self, saver: Saver) -> None:
        branch = await _started(saver)
        texts = ["\0", "a\0b", "\u00e9\U0001f600", "it's", "%_", ""]
        await branch.write(*(("a", text) for text in texts), task="t")

        assert [value for _, _, value in await branch.pending()] == texts

    async def test_an_empty_list_of_writes_stores_nothing(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(task="t")

        assert await branch.pending() == []

    async def test_positions_sort_as_numbers(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(*(("a", i) for i in range(1_000)), task="t")

        assert [value for _, _, value in await branch.pending()] == list(range(1_000))

    async def test_tasks_sort_by_path_then_id_whatever_came_first(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 4), task="t1", path="~2")
        await branch.write(("a", 3), task="t9", path="~1")
        await branch.write(("a", 2), task="t5", path="~1")
        await branch.write(("a", 1), task="t7")

        assert [value for _, _, value in await branch.pending()] == [1, 2, 3, 4]

    async def test_paths_sort_by_code_point(self, saver: Saver) -> None:
        branch = await _started(saver)
        paths = ["", "Z", "_", "a", "a b", "ab", "~", "~~", "\u00e9"]
        for path in reversed(paths):
            await branch.write(("a", path), task="t" + str(len(path)) + path, path=path)

        assert [value for _, _, value in await branch.pending()] == sorted(paths)

    async def test_special_writes_come_before_the_others_of_their_task(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), (RESUME, ["r"]), (INTERRUPT, ["i"]), (ERROR, "e"), (SCHEDULED, None), task="t")

        assert [channel for _, channel, _ in await branch.pending()] == [RESUME, INTERRUPT, SCHEDULED, ERROR, "a"]

    async def test_storing_the_same_writes_again_changes_nothing(self, saver: Saver) -> None:
        branch = await _started(saver)
        for _ in range(3):
            await branch.write(("a", 1), ("b", 2), task="t")

        assert await branch.pending() == [("t", "a", 1), ("t", "b", 2)]

    async def test_a_position_that_is_stored_is_kept(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), task="t")
        await branch.write(("b", 2), task="t")

        assert await branch.pending() == [("t", "a", 1)]

    async def test_a_longer_list_adds_what_is_new(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), task=NULL_TASK_ID)
        await branch.write(("a", 1), ("b", 2), task=NULL_TASK_ID)

        assert await branch.pending() == [(NULL_TASK_ID, "a", 1), (NULL_TASK_ID, "b", 2)]

    async def test_special_writes_alone_replace_what_stands_there(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write((ERROR, "boom"), (RESUME, [1]), task="t")
        await branch.write((ERROR, None), task="t")
        await branch.write((RESUME, [1, 2]), task="t")

        assert await branch.pending() == [("t", RESUME, [1, 2]), ("t", ERROR, None)]

    async def test_special_writes_alone_leave_ordinary_ones(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), task="t")
        await branch.write((INTERRUPT, ["i"]), task="t")

        assert await branch.pending() == [("t", INTERRUPT, ["i"]), ("t", "a", 1)]

    async def test_a_mixed_list_keeps_what_is_stored(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write((RESUME, [1]), task="t")
        await branch.write(("a", 1), (RESUME, [1, 2]), task="t")

        assert await branch.pending() == [("t", RESUME, [1]), ("t", "a", 1)]

    async def test_of_several_special_writes_in_one_call_the_last_counts(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write((RESUME, [1]), (RESUME, [1, 2]), ("a", 1), task="t")
        await branch.write((RESUME, [1]), (RESUME, [1, 2]), task="u")

        assert await branch.pending() == [("t", RESUME, [1, 2]), ("t", "a", 1), ("u", RESUME, [1, 2])]

    async def test_tasks_do_not_touch_each_other(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write((ERROR, "one"), task="t1")
        await branch.write((ERROR, "two"), task="t2")

        assert await branch.pending() == [("t1", ERROR, "one"), ("t2", ERROR, "two")]

    async def test_writes_stored_at_once_by_many_tasks_are_all_kept(self, saver: Saver) -> None:
        branch = await _started(saver)
        await asyncio.gather(*(branch.write(("a", i), ("b", i), task=f"t{i:02}") for i in range(20)))

        assert [(t, v) for t, c, v in await branch.pending() if c == "a"] == [(f"t{i:02}", i) for i in range(20)]
        assert len(await branch.pending()) == 40

    async def test_the_next_checkpoint_has_no_pending_writes(self, saver: Saver) -> None:
        branch = await _started(saver)
        first = branch.head
        await branch.write(("a", 1), task="t")
        await branch.put(a=1)

        assert await branch.pending() == []
        assert await pending(saver, first) == [("t", "a", 1)]

    async def test_writes_do_not_change_values(self, saver: Saver) -> None:
        branch = await _started(saver)
        await branch.write(("a", 1), task="t")

        assert await values(saver, branch.head) == {"a": 0}

    async def test_writes_are_kept_apart_by_namespace_and_thread(self, saver: Saver) -> None:
        thread = new_thread()
        places = [(thread, ""), (thread, "a"), (thread, "a|b"), (thread + "_", ""), (thread + "%", "")]
        checkpoint, metadata, versions = Branch(saver, thread).next_checkpoint(a=0)
        for number, (name, ns) in enumerate(places):
            config = await saver.aput(at(name, ns), checkpoint, metadata, versions)
            await saver.aput_writes(config, [("a", number)], "t")

        found = [await pending(saver, at(name, ns, checkpoint["id"])) for name, ns in places]
        assert found == [[("t", "a", number)] for number in range(len(places))]

    async def test_writes_may_be_stored_before_their_checkpoint(self, saver: Saver) -> None:
        branch = Branch(saver)
        checkpoint, metadata, versions = branch.next_checkpoint(a=0)
        await saver.aput_writes(at(branch.thread_id, "", checkpoint["id"]), [("a", 1)], "t")
        config = await saver.aput(branch.head, checkpoint, metadata, versions)

        assert await pending(saver, config) == [("t", "a", 1)]

    async def test_overwriting_a_checkpoint_keeps_its_writes(self, saver: Saver) -> None:
        branch = Branch(saver)
        checkpoint, metadata, versions = branch.next_checkpoint(a=0)
        config = await saver.aput(branch.head, checkpoint, metadata, versions)
        await saver.aput_writes(config, [("a", 1)], "t")
        await saver.aput(branch.head, checkpoint, metadata, versions)

        assert await pending(saver, config) == [("t", "a", 1)]

    async def test_changing_a_written_value_changes_nothing_stored(self, saver: Saver) -> None:
        branch = await _started(saver)
        items = [1]
        await branch.write(("a", items), task="t")
        items.append(2)

        assert await branch.pending() == [("t", "a", [1])]

    async def test_an_unstorable_write_is_named_and_nothing_is_stored(self, saver: Saver) -> None:
        branch = await _started(saver)
        error = await refused(branch.write(("a", 1), ("broken", Unstorable()), task="task-7"), SerializationError)

        assert "broken" in str(error)
        assert "task-7" in str(error)
        assert await branch.pending() == []

    async def test_writes_need_a_checkpoint(self, saver: Saver) -> None:
        error = await refused(saver.aput_writes(at(new_thread()), [("a", 1)], "t"), KeyError)

        assert "checkpoint_id" in str(error)
