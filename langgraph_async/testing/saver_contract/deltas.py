"""Contract: delta channels are rebuilt from the history above a checkpoint, which must therefore not be cut."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

from typing import Any

from langgraph_async.config import RunnableConfig
from langgraph_async.constants import MISSING
from langgraph_async.testing.saver_contract.samples import Branch, Saver, at, id_of, listed, needs, new_thread, values


async def _history(saver: Saver, config: RunnableConfig, *channels: str) -> dict[str, Any]:
    found = await saver.aget_delta_channel_history(config=config, channels=channels)
    return {name: dict(entry) for name, entry in found.items()}


async def _items(saver: Saver, config: RunnableConfig, channel: str = "log") -> list[Any]:
    """Return the channel rebuilt from a list as its seed and one write for each item."""
    stored = (await values(saver, config)).get(channel)
    if stored is not None:
        return list(stored)
    entry = (await _history(saver, config, channel))[channel]
    return [*entry.get("seed", []), *(value for _, _, value in entry["writes"])]


class _Log(Branch):
    """A branch whose channel ``log`` is stored as deltas, and ``n`` as a value."""

    def __init__(self, saver: Saver, thread_id: str | None = None, ns: str = "", run: str = "run") -> None:
        super().__init__(saver, thread_id, ns)
        self.run = run
        self.items: list[int] = []
        self.since = 0

    async def grow(self, *, snapshot: bool = False) -> RunnableConfig:
        """Write the next item, then store the checkpoint that has it, with the whole log if `snapshot`."""
        item = len(self.items)
        if item:
            await self.write(("n", item), ("log", item), task=f"t{item}")
            self.items.append(item)
        else:
            self.items.append(0)
        first = item == 0
        self.since = 0 if snapshot or first else self.since + 1
        log = list(self.items) if snapshot or first else MISSING
        extra: dict[str, Any] = {"run_id": self.run}
        if self.since:
            extra["counters_since_delta_snapshot"] = {"log": (self.since, self.since)}
        return await self.put(extra, n=item, log=log)


async def _logged(saver: Saver, count: int, snapshots: tuple[int, ...] = (), thread: str | None = None) -> _Log:
    log = _Log(saver, thread)
    for i in range(count):
        await log.grow(snapshot=i in snapshots)
    return log


class DeltaContract:
    """The history that delta channels are rebuilt from."""

    async def test_writes_come_oldest_first_after_the_nearest_stored_value(self, saver: Saver) -> None:
        log = await _logged(saver, 6, snapshots=(2,))

        assert await _history(saver, log.head, "log") == {
            "log": {"seed": [0, 1, 2], "writes": [("t3", "log", 3), ("t4", "log", 4), ("t5", "log", 5)]}
        }

    async def test_the_ancestor_with_the_stored_value_gives_its_own_writes(self, saver: Saver) -> None:
        log = await _logged(saver, 2)

        assert await _history(saver, log.head, "log") == {"log": {"seed": [0], "writes": [("t1", "log", 1)]}}

    async def test_writes_on_the_checkpoint_itself_are_left_out(self, saver: Saver) -> None:
        log = await _logged(saver, 2)
        await log.write(("log", 99), task="later")

        assert [w[2] for w in (await _history(saver, log.head, "log"))["log"]["writes"]] == [1]

    async def test_a_value_stored_on_the_checkpoint_itself_is_no_seed(self, saver: Saver) -> None:
        log = await _logged(saver, 3, snapshots=(2,))

        assert (await _history(saver, log.head, "log"))["log"]["seed"] == [0]

    async def test_an_older_checkpoint_has_its_own_history(self, saver: Saver) -> None:
        log = _Log(saver)
        configs = [await log.grow(snapshot=i == 3) for i in range(6)]

        assert [await _items(saver, c) for c in configs] == [list(range(i + 1)) for i in range(6)]

    async def test_without_a_stored_value_the_walk_ends_at_the_root(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=1)
        await branch.write(("log", 1), task="t")
        await branch.put(a=2)

        assert await _history(saver, branch.head, "log") == {"log": {"writes": [("t", "log", 1)]}}

    async def test_a_stored_none_is_a_value(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(log=None)
        await branch.put(a=1, log=MISSING)

        assert (await _history(saver, branch.head, "log"))["log"].get("seed", "nothing") is None

    async def test_each_channel_has_its_own_seed(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(x=["x0"], y=["y0"])
        await branch.write(("x", "x1"), ("y", "y1"), task="t1")
        await branch.put(x=MISSING, y=["y0", "y1"])
        await branch.write(("y", "y2"), ("x", "x2"), task="t2")
        await branch.put(x=MISSING, y=MISSING)

        assert await _history(saver, branch.head, "x", "y", "z") == {
            "x": {"seed": ["x0"], "writes": [("t1", "x", "x1"), ("t2", "x", "x2")]},
            "y": {"seed": ["y0", "y1"], "writes": [("t2", "y", "y2")]},
            "z": {"writes": []},
        }

    async def test_writes_of_one_step_are_sorted_by_path_id_and_position(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(log=[])
        await branch.write(("log", 4), task="a", path="~2")
        await branch.write(("log", 2), ("log", 3), task="z", path="~1")
        await branch.write(("log", 1), task="b", path="~1")
        await branch.put(log=MISSING)

        assert await _items(saver, branch.head) == [1, 2, 3, 4]

    async def test_no_channels_give_no_history(self, saver: Saver) -> None:
        log = await _logged(saver, 2)

        assert await _history(saver, log.head) == {}

    async def test_a_root_and_an_unknown_checkpoint_have_an_empty_history(self, saver: Saver) -> None:
        log = await _logged(saver, 1)

        assert await _history(saver, log.head, "log") == {"log": {"writes": []}}
        assert await _history(saver, at(new_thread()), "log") == {"log": {"writes": []}}

    async def test_without_an_id_the_history_is_that_of_the_newest(self, saver: Saver) -> None:
        log = await _logged(saver, 3)

        assert await _history(saver, at(log.thread_id), "log") == await _history(saver, log.head, "log")

    async def test_a_branch_has_only_its_own_ancestors(self, saver: Saver) -> None:
        left = Branch(saver)
        await left.put(log=[])
        right = left.fork()
        await left.write(("log", "l"), task="t")
        await left.put(log=MISSING)
        await left.write(("log", "ll"), task="t")
        await left.put(log=MISSING)
        await right.put(log=["right"])
        await right.put(log=MISSING)

        assert await _items(saver, left.head) == ["l", "ll"]
        assert await _items(saver, right.head) == ["right"]

    async def test_namespaces_have_their_own_history(self, saver: Saver) -> None:
        root = await _logged(saver, 3)
        sub = _Log(saver, root.thread_id, "sub")
        for _ in range(2):
            await sub.grow()

        assert await _items(saver, root.head) == [0, 1, 2]
        assert await _items(saver, sub.head) == [0, 1]

    async def test_a_copied_thread_has_its_history(self, saver: Saver) -> None:
        needs(saver, "acopy_thread")
        log, target = await _logged(saver, 5, snapshots=(2,)), new_thread()
        await saver.acopy_thread(log.thread_id, target)

        assert await _items(saver, at(target)) == [0, 1, 2, 3, 4]

    async def test_pruning_keeps_what_the_newest_is_rebuilt_from(self, saver: Saver) -> None:
        needs(saver, "aprune")
        log = await _logged(saver, 8, snapshots=(2, 5))
        await saver.aprune([log.thread_id])

        assert await _items(saver, log.head) == list(range(8))
        assert len(await listed(saver, at(log.thread_id))) == 3

    async def test_pruning_a_fresh_snapshot_keeps_it_alone(self, saver: Saver) -> None:
        needs(saver, "aprune")
        log = await _logged(saver, 5, snapshots=(4,))
        await saver.aprune([log.thread_id])

        assert await listed(saver, at(log.thread_id)) == [id_of(log.head)]
        assert await _items(saver, log.head) == list(range(5))

    async def test_a_pruned_log_grows_on(self, saver: Saver) -> None:
        needs(saver, "aprune")
        log = await _logged(saver, 4, snapshots=(1,))
        for _ in range(3):
            await saver.aprune([log.thread_id])
            await log.grow()

        assert await _items(saver, log.head) == list(range(7))

    async def test_deleting_a_run_keeps_what_later_runs_are_rebuilt_from(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        first, second = new_thread("run"), new_thread("run")
        log = _Log(saver, run=first)
        for i in range(4):
            await log.grow(snapshot=i == 2)
        log.run = second
        configs = [await log.grow() for _ in range(2)]
        await saver.adelete_for_runs([first])

        assert [await _items(saver, c) for c in configs] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]
        assert len(await listed(saver, at(log.thread_id))) == 4

    async def test_deleting_the_newest_run_goes_back_to_the_state_before(self, saver: Saver) -> None:
        needs(saver, "adelete_for_runs")
        first, second = new_thread("run"), new_thread("run")
        log = _Log(saver, run=first)
        for _ in range(3):
            await log.grow()
        before, log.run = log.head, second
        for _ in range(2):
            await log.grow()
        await saver.adelete_for_runs([second])

        assert await _items(saver, at(log.thread_id)) == [0, 1, 2]
        assert await listed(saver, at(log.thread_id), limit=1) == [id_of(before)]
