"""Contract: deleting, copying and pruning."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

from typing import Any

from langgraph_async.checkpoint.base import CheckpointTuple
from langgraph_async.errors import ConfigError
from langgraph_async.testing.saver_contract.samples import (
    Branch,
    Saver,
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


async def _grown(saver: Saver, thread: str | None = None, ns: str = "", run: str = "run", steps: int = 3) -> Branch:
    """Return a branch whose every checkpoint has a write."""
    branch = Branch(saver, thread, ns)
    for i in range(steps):
        await branch.put({"run_id": run}, a=[i], **{f"only{i}": i})
        await branch.write(("a", [i]), task="t")
    return branch


async def _all(saver: Saver, thread: str) -> list[CheckpointTuple]:
    return [item async for item in saver.alist(at(thread, None))]


def _without_thread(item: CheckpointTuple) -> Any:
    parent = id_of(item.parent_config) if item.parent_config else None
    ns = item.config.get("configurable", {})["checkpoint_ns"]
    return ns, item.checkpoint, dict(item.metadata), parent, item.pending_writes


class DeleteContract:
    """Deleting threads and runs."""

    async def test_a_deleted_thread_is_gone_in_all_namespaces(self, saver: Saver) -> None:
        root = await _grown(saver)
        await _grown(saver, root.thread_id, "sub")
        await saver.adelete_thread(root.thread_id)

        assert await _all(saver, root.thread_id) == []
        assert await saver.aget_tuple(at(root.thread_id)) is None
        assert await saver.aget_tuple(root.head) is None

    async def test_deleting_removes_writes(self, saver: Saver) -> None:
        branch = Branch(saver)
        checkpoint, metadata, versions = branch.next_checkpoint(a=1)
        config = await saver.aput(branch.head, checkpoint, metadata, versions)
        await saver.aput_writes(config, [("a", 1)], "t")
        await saver.adelete_thread(branch.thread_id)
        await saver.aput(branch.head, checkpoint, metadata, versions)

        assert await pending(saver, config) == []

    async def test_deleting_removes_values(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=[1])
        await saver.adelete_thread(branch.thread_id)
        checkpoint, metadata, _ = branch.next_checkpoint()
        checkpoint["channel_values"] = {}
        config = await saver.aput(at(branch.thread_id), checkpoint, metadata, {})

        assert await values(saver, config) == {}

    async def test_threads_whose_ids_look_alike_survive(self, saver: Saver) -> None:
        base = new_thread()
        others = [base + tail for tail in ("_b", "%", "b", "_", " ")] + [base[:-1], base.upper(), "%"]
        for name in (base, *others):
            await _grown(saver, name, steps=1)
        before = [await _all(saver, name) for name in others]
        await saver.adelete_thread(base)

        assert await _all(saver, base) == []
        assert [await _all(saver, name) for name in others] == before
        await saver.adelete_thread("%")
        assert await _all(saver, others[0]) == before[0]

    async def test_deleting_an_unknown_thread_changes_nothing(self, saver: Saver) -> None:
        branch = await _grown(saver)
        await saver.adelete_thread(new_thread())

        assert len(await _all(saver, branch.thread_id)) == 3

    async def test_a_deleted_thread_can_start_again(self, saver: Saver) -> None:
        branch = await _grown(saver)
        await saver.adelete_thread(branch.thread_id)
        again = Branch(saver, branch.thread_id)
        await again.put(b=1)

        assert await values(saver, at(branch.thread_id)) == {"b": 1}
        assert len(await _all(saver, branch.thread_id)) == 1

    async def test_the_checkpoints_of_a_run_are_deleted_with_their_writes(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        keep, drop = new_thread("run"), new_thread("run")
        branch = await _grown(saver, run=keep, steps=2)
        kept = await _all(saver, branch.thread_id)
        gone = await branch.put({"run_id": drop}, a=9)
        await branch.write(("a", 1), task="t")
        await saver.adelete_for_runs([drop])

        assert await _all(saver, branch.thread_id) == kept
        assert await saver.aget_tuple(gone) is None

    async def test_several_runs_are_deleted_in_all_namespaces_and_threads(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        one, two, other = new_thread("run"), new_thread("run"), new_thread("run")
        threads = [
            (await _grown(saver, run=one)).thread_id,
            (await _grown(saver, ns="sub", run=two)).thread_id,
            (await _grown(saver, run=other)).thread_id,
        ]
        await saver.adelete_for_runs([one, two])

        assert [len(await _all(saver, name)) for name in threads] == [0, 0, 3]

    async def test_no_runs_and_unknown_runs_delete_nothing(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        branch = await _grown(saver, run=new_thread("run"))
        plain = Branch(saver)
        await plain.put(a=1)
        await saver.adelete_for_runs([])
        await saver.adelete_for_runs([new_thread("run"), "", "%"])

        assert len(await _all(saver, branch.thread_id)) == 3
        assert len(await _all(saver, plain.thread_id)) == 1

    async def test_what_a_deleted_run_leaves_behind_is_whole(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        early, late = new_thread("run"), new_thread("run")
        branch = await _grown(saver, run=early, steps=2)
        await branch.put({"run_id": late}, b=[1])
        await branch.put({"run_id": late}, b=[2])
        head = await load(saver, branch.head)
        await saver.adelete_for_runs([early])
        left = await _all(saver, branch.thread_id)

        assert left[0] == head
        assert [i.checkpoint["channel_values"]["a"] for i in left] == [[1], [1]]
        assert left[1].parent_config is None

    async def test_a_single_text_for_runs_is_refused(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        run: Any = new_thread("run")
        branch = await _grown(saver, run=run)
        await refused(saver.adelete_for_runs(run), TypeError)

        assert len(await _all(saver, branch.thread_id)) == 3


class CopyContract:
    """Copying threads."""

    async def test_a_copy_has_everything(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        source = await _grown(saver)
        await _grown(saver, source.thread_id, "sub", steps=2)
        target = new_thread()
        await saver.acopy_thread(source.thread_id, target)
        given, copied = await _all(saver, source.thread_id), await _all(saver, target)

        assert len(copied) == 5
        assert [_without_thread(i) for i in copied] == [_without_thread(i) for i in given]
        assert {i.config.get("configurable", {})["thread_id"] for i in copied} == {target}

    async def test_copying_leaves_the_source_as_it_was(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        source = await _grown(saver)
        before = await _all(saver, source.thread_id)
        await saver.acopy_thread(source.thread_id, new_thread())

        assert await _all(saver, source.thread_id) == before

    async def test_copy_and_source_live_apart(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        source, target = await _grown(saver), new_thread()
        await saver.acopy_thread(source.thread_id, target)
        await saver.aput_writes(at(target, "", id_of(source.head)), [("x", 1), ("y", 2)], "u")
        await source.put(a="more")
        await saver.adelete_thread(source.thread_id)
        found = await _all(saver, target)

        assert [i.checkpoint["channel_values"]["a"] for i in found] == [[2], [1], [0]]
        assert found[0].pending_writes == [("t", "a", [2]), ("u", "x", 1), ("u", "y", 2)]

    async def test_a_copy_can_be_continued(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        source, target = await _grown(saver), new_thread()
        await saver.acopy_thread(source.thread_id, target)
        branch = source.fork()
        branch.thread_id, branch.head = target, at(target, "", id_of(source.head))
        await branch.put(a="more")

        assert await values(saver, at(target)) == {"a": "more", "only0": 0, "only1": 1, "only2": 2}
        assert len(await _all(saver, source.thread_id)) == 3

    async def test_copying_an_unknown_thread_copies_nothing(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        target = new_thread()
        await saver.acopy_thread(new_thread(), target)

        assert await _all(saver, target) == []

    async def test_copying_a_thread_onto_itself_changes_nothing(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        source = await _grown(saver)
        before = await _all(saver, source.thread_id)
        await saver.acopy_thread(source.thread_id, source.thread_id)

        assert await _all(saver, source.thread_id) == before

    async def test_only_the_named_thread_is_copied(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        base, target = new_thread(), new_thread()
        for name in (base, base + "_", base + "%"):
            await _grown(saver, name, steps=1)
        await saver.acopy_thread(base, target)

        assert len(await _all(saver, target)) == 1

    async def test_copying_onto_a_thread_in_use_is_refused(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        source, target = await _grown(saver), await _grown(saver, steps=1)
        before = await _all(saver, target.thread_id)
        error = await refused(saver.acopy_thread(source.thread_id, target.thread_id), ConfigError)

        assert target.thread_id in str(error)
        assert await _all(saver, target.thread_id) == before


class PruneContract:
    """Pruning threads."""

    async def test_the_newest_checkpoint_of_each_namespace_stays_with_its_writes(self, saver: Saver) -> None:
        needs(saver, "aprune")
        root = await _grown(saver)
        sub = await _grown(saver, root.thread_id, "sub", steps=2)
        await saver.aprune([root.thread_id])

        assert set(await listed(saver, at(root.thread_id, None))) == {id_of(root.head), id_of(sub.head)}
        assert await values(saver, root.head) == {"a": [2], "only0": 0, "only1": 1, "only2": 2}
        assert await root.pending() == [("t", "a", [2])]
        assert await sub.pending() == [("t", "a", [1])]

    async def test_what_is_kept_has_no_lost_parent(self, saver: Saver) -> None:
        needs(saver, "aprune")
        branch = await _grown(saver)
        await saver.aprune([branch.thread_id], strategy="keep_latest")

        assert (await load(saver, branch.head)).parent_config is None

    async def test_a_pruned_thread_goes_on(self, saver: Saver) -> None:
        needs(saver, "aprune")
        branch = await _grown(saver)
        await saver.aprune([branch.thread_id])
        await branch.put(a="more")

        assert await values(saver, at(branch.thread_id)) == {"a": "more", "only0": 0, "only1": 1, "only2": 2}

    async def test_a_thread_of_one_checkpoint_stays_as_it_is(self, saver: Saver) -> None:
        needs(saver, "aprune")
        branch = await _grown(saver, steps=1)
        before = await _all(saver, branch.thread_id)
        await saver.aprune([branch.thread_id])

        assert await _all(saver, branch.thread_id) == before

    async def test_pruning_by_deleting_leaves_nothing(self, saver: Saver) -> None:
        needs(saver, "aprune")
        root = await _grown(saver)
        await _grown(saver, root.thread_id, "sub")
        await saver.aprune([root.thread_id], strategy="delete")

        assert await _all(saver, root.thread_id) == []

    async def test_only_the_named_threads_are_pruned(self, saver: Saver) -> None:
        needs(saver, "aprune")
        base = new_thread()
        names = [base, base + "b", base + "_", base + "%"]
        for name in names:
            await _grown(saver, name)
        await saver.aprune(names[:2])
        await saver.aprune([base + "_"], strategy="delete")

        assert [len(await _all(saver, name)) for name in names] == [1, 1, 0, 3]

    async def test_no_threads_and_unknown_threads_prune_nothing(self, saver: Saver) -> None:
        needs(saver, "aprune")
        branch = await _grown(saver)
        await saver.aprune([])
        await saver.aprune([new_thread()])
        await saver.aprune([new_thread()], strategy="delete")

        assert len(await _all(saver, branch.thread_id)) == 3

    async def test_a_single_text_for_threads_is_refused(self, saver: Saver) -> None:
        needs(saver, "aprune")
        branch = await _grown(saver)
        thread: Any = branch.thread_id
        await refused(saver.aprune(thread, strategy="delete"), TypeError)

        assert len(await _all(saver, branch.thread_id)) == 3

    async def test_an_unknown_strategy_is_refused(self, saver: Saver) -> None:
        needs(saver, "aprune")
        branch = await _grown(saver)
        strategy: Any = "keep_some"
        await refused(saver.aprune([branch.thread_id], strategy=strategy), ValueError)

        assert len(await _all(saver, branch.thread_id)) == 3
