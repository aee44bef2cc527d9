"""Contract: finding one checkpoint, and listing many."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

import asyncio
from typing import Any

from langgraph_async.testing.saver_contract.samples import (
    Branch,
    Saver,
    at,
    id_of,
    listed,
    load,
    new_thread,
    refused,
    values,
)


class ReadContract:
    """Finding one checkpoint."""

    async def test_an_unknown_thread_has_nothing(self, saver: Saver) -> None:
        assert await saver.aget_tuple(at(new_thread())) is None
        assert await saver.aget(at(new_thread())) is None

    async def test_an_unknown_namespace_or_id_has_nothing(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=1)

        assert await saver.aget_tuple(at(branch.thread_id, "other")) is None
        assert await saver.aget_tuple(at(branch.thread_id, "", "0")) is None

    async def test_without_an_id_the_newest_is_found(self, saver: Saver) -> None:
        branch = Branch(saver)
        for i in range(5):
            await branch.put(a=i)

        assert (await load(saver, at(branch.thread_id))).config == branch.head
        assert await values(saver, at(branch.thread_id, None)) == {"a": 4}

    async def test_an_empty_id_means_the_newest(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=1)
        await branch.put(a=2)
        config: Any = {"configurable": {"thread_id": branch.thread_id, "checkpoint_ns": "", "checkpoint_id": None}}

        assert await values(saver, config) == {"a": 2}
        assert await values(saver, at(branch.thread_id, "", "")) == {"a": 2}

    async def test_the_newest_is_the_one_with_the_greatest_id(self, saver: Saver) -> None:
        branch = Branch(saver)
        older = branch.next_checkpoint(a="older")
        newer = branch.next_checkpoint(a="newer")
        for checkpoint, metadata, versions in (newer, older):
            await saver.aput(at(branch.thread_id), checkpoint, metadata, versions)

        assert await values(saver, at(branch.thread_id)) == {"a": "newer"}
        assert await listed(saver, at(branch.thread_id)) == [newer[0]["id"], older[0]["id"]]

    async def test_an_older_checkpoint_is_found_by_id(self, saver: Saver) -> None:
        branch = Branch(saver)
        first = await branch.put(a=1)
        await branch.write(("a", 2), task="t")
        await branch.put(a=2)
        found = await load(saver, first)

        assert found.config == first
        assert found.checkpoint["channel_values"] == {"a": 1}
        assert found.pending_writes == [("t", "a", 2)]

    async def test_get_returns_the_checkpoint_alone(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=1)

        assert await saver.aget(branch.head) == (await load(saver, branch.head)).checkpoint

    async def test_the_newest_of_one_namespace_is_not_that_of_another(self, saver: Saver) -> None:
        root = Branch(saver)
        await root.put(a="root")
        await Branch(saver, root.thread_id, "sub").put(a="sub")

        assert await values(saver, at(root.thread_id)) == {"a": "root"}

    async def test_reading_needs_a_thread(self, saver: Saver) -> None:
        assert "thread_id" in str(await refused(saver.aget_tuple({"configurable": {}}), KeyError))

    async def test_a_long_thread_is_read_whole(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(n=i, **{f"k{i % 7}": [i]}) for i in range(500)]
        expected = {"n": 499, **{f"k{i % 7}": [i] for i in range(493, 500)}}

        assert await values(saver, at(branch.thread_id)) == expected
        assert (await values(saver, configs[250]))["n"] == 250
        assert await listed(saver, at(branch.thread_id)) == [id_of(c) for c in reversed(configs)]


class ListContract:
    """Listing checkpoints."""

    async def test_listing_an_unknown_thread_gives_nothing(self, saver: Saver) -> None:
        assert await listed(saver, at(new_thread())) == []

    async def test_the_newest_come_first(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(a=i) for i in range(5)]

        assert await listed(saver, at(branch.thread_id)) == [id_of(c) for c in reversed(configs)]

    async def test_an_item_is_what_reading_it_gives(self, saver: Saver) -> None:
        branch = Branch(saver)
        for i in range(3):
            await branch.put(a=[i])
            await branch.write(("a", i), task="t")

        items = [item async for item in saver.alist(at(branch.thread_id))]
        assert items == [await load(saver, item.config) for item in items]
        assert [item.pending_writes for item in items] == [[("t", "a", i)] for i in (2, 1, 0)]

    async def test_without_a_config_everything_is_listed(self, saver: Saver) -> None:
        one, other = Branch(saver), Branch(saver, ns="sub")
        ids = [id_of(await branch.put(a=i)) for i in range(2) for branch in (one, other)]
        found = await listed(saver, None)

        assert [i for i in found if i in ids] == sorted(ids, reverse=True)

    async def test_a_thread_is_listed_alone(self, saver: Saver) -> None:
        base = new_thread()
        ids = {name: id_of(await Branch(saver, name).put(a=1)) for name in (base, base + "_", base + "%", base + "1")}

        assert {name: await listed(saver, at(name)) for name in ids} == {name: [i] for name, i in ids.items()}

    async def test_without_a_namespace_all_of_the_thread_are_listed_by_id(self, saver: Saver) -> None:
        thread = new_thread()
        branches = [Branch(saver, thread, ns) for ns in ("", "a", "b")]
        ids = [id_of(await branch.put(a=i)) for i in range(3) for branch in branches]

        assert await listed(saver, at(thread, None)) == ids[::-1]

    async def test_a_named_namespace_is_listed_alone(self, saver: Saver) -> None:
        thread = new_thread()
        root = await Branch(saver, thread).put(a=1)
        sub = await Branch(saver, thread, "sub").put(a=1)

        assert await listed(saver, at(thread, "")) == [id_of(root)]
        assert await listed(saver, at(thread, "sub")) == [id_of(sub)]

    async def test_a_named_checkpoint_is_listed_alone(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(a=i) for i in range(3)]

        assert await listed(saver, configs[1]) == [id_of(configs[1])]

    async def test_a_filter_must_match_in_all_entries(self, saver: Saver) -> None:
        branch = Branch(saver)
        one = await branch.put({"user": "u1", "score": 1}, a=1)
        two = await branch.put({"user": "u1", "score": 2}, a=2)
        await branch.put({"user": "u2", "score": 2}, a=3)
        thread = at(branch.thread_id)

        assert await listed(saver, thread, filter={"user": "u1"}) == [id_of(two), id_of(one)]
        assert await listed(saver, thread, filter={"user": "u1", "score": 2}) == [id_of(two)]
        assert await listed(saver, thread, filter={"user": "u3"}) == []
        assert await listed(saver, thread, filter={"absent": "x"}) == []

    async def test_an_empty_filter_matches_everything(self, saver: Saver) -> None:
        branch = Branch(saver)
        config = await branch.put(a=1)

        assert await listed(saver, at(branch.thread_id), filter={}) == [id_of(config)]

    async def test_source_and_step_can_be_filtered(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(a=i) for i in range(3)]
        thread = at(branch.thread_id)

        assert await listed(saver, thread, filter={"source": "input"}) == [id_of(configs[0])]
        assert await listed(saver, thread, filter={"source": "loop", "step": 1}) == [id_of(configs[2])]
        assert await listed(saver, thread, filter={"step": -1}) == [id_of(configs[0])]

    async def test_filter_values_are_compared_with_their_type(self, saver: Saver) -> None:
        branch = Branch(saver)
        text = await branch.put({"key": "1"}, a=1)
        number = await branch.put({"key": 1}, a=2)
        odd = await branch.put({"key": "it's 100%_"}, a=3)
        thread = at(branch.thread_id)

        assert await listed(saver, thread, filter={"key": "1"}) == [id_of(text)]
        assert await listed(saver, thread, filter={"key": 1}) == [id_of(number)]
        assert await listed(saver, thread, filter={"key": "it's 100%_"}) == [id_of(odd)]

    async def test_a_filter_works_without_a_config(self, saver: Saver) -> None:
        mark = new_thread("mark")
        one = await Branch(saver).put({"mark": mark}, a=1)
        two = await Branch(saver, ns="sub").put({"mark": mark}, a=1)

        assert await listed(saver, None, filter={"mark": mark}) == [id_of(two), id_of(one)]

    async def test_before_is_exclusive(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(a=i) for i in range(4)]

        assert await listed(saver, at(branch.thread_id), before=configs[2]) == [id_of(c) for c in configs[1::-1]]
        assert await listed(saver, at(branch.thread_id), before=configs[0]) == []

    async def test_before_without_an_id_bounds_nothing(self, saver: Saver) -> None:
        branch = Branch(saver)
        config = await branch.put(a=1)

        assert await listed(saver, at(branch.thread_id), before=at(branch.thread_id)) == [id_of(config)]

    async def test_limit_bounds_the_number(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(a=i) for i in range(4)]
        thread = at(branch.thread_id)

        assert await listed(saver, thread, limit=2) == [id_of(configs[3]), id_of(configs[2])]
        assert await listed(saver, thread, limit=0) == []
        assert len(await listed(saver, thread, limit=99)) == 4

    async def test_limit_counts_what_filter_and_before_leave(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put({"even": i % 2 == 0}, a=i) for i in range(8)]

        found = await listed(saver, at(branch.thread_id), filter={"even": True}, before=configs[6], limit=2)
        assert found == [id_of(configs[4]), id_of(configs[2])]

    async def test_listing_goes_on_while_the_thread_grows_and_is_deleted(self, saver: Saver) -> None:
        branch = Branch(saver)
        for i in range(3):
            await branch.put(a=i)
        seen = 0
        async with asyncio.timeout(10):  # a saver that holds a lock while it lists waits for itself here
            async for _ in saver.alist(at(branch.thread_id)):
                seen += 1
                await branch.put(a="later")
                await saver.adelete_thread(branch.thread_id)

        assert 1 <= seen <= 3
