"""Contract: what is put comes back."""
# ruff: noqa: D102 - the names are the sentences

from __future__ import annotations

from typing import Any

from langgraph_async.checkpoint.base import Checkpoint
from langgraph_async.constants import MISSING
from langgraph_async.errors import SerializationError
from langgraph_async.testing.saver_contract.samples import (
    Branch,
    Saver,
    Unstorable,
    at,
    id_of,
    load,
    new_thread,
    pairs,
    refused,
    same,
    values,
)

_PRIMITIVES: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "int64": 2**63 - 1,
    "float": 1.5,
    "huge": 1e308,
    "negative_zero": -0.0,
    "infinite": float("inf"),
    "not_a_number": float("nan"),
    "whole_float": 3.0,
    "empty": "",
    "digits": "1",
    "bytes": b"\x00\xff",
}
_TEXTS = (
    "nul \0 inside",
    "\0",
    "\x01\x7f\u0085",
    "e\u0301 \u00e9",
    "\U0001f600",
    "\u202eabc",
    "\ufeff",
    "'\";--",
    "\\u0000",
    "%_",
)


class PutContract:
    """Putting checkpoints."""

    async def test_put_returns_the_coordinates_of_the_new_checkpoint(self, saver: Saver) -> None:
        branch = Branch(saver, ns="ns")
        checkpoint, metadata, versions = branch.next_checkpoint(a=1)
        config = await saver.aput(branch.head, checkpoint, metadata, versions)

        assert config.get("configurable") == {
            "thread_id": branch.thread_id,
            "checkpoint_ns": "ns",
            "checkpoint_id": checkpoint["id"],
        }

    async def test_a_checkpoint_comes_back_equal(self, saver: Saver) -> None:
        branch = Branch(saver)
        checkpoint, metadata, versions = branch.next_checkpoint(a=1, b=["x", {"y": [None, 2.5]}])
        config = await saver.aput(branch.head, checkpoint, metadata, versions)

        assert (await load(saver, config)).checkpoint == checkpoint

    async def test_primitive_values_keep_their_type_and_value(self, saver: Saver) -> None:
        config = await Branch(saver).put(**_PRIMITIVES)
        found = await values(saver, config)

        assert [k for k, given in _PRIMITIVES.items() if not same(found.get(k, MISSING), given)] == []

    async def test_primitives_inside_containers_keep_their_type_and_value(self, saver: Saver) -> None:
        given = {"list": list(_PRIMITIVES.values()), "map": _PRIMITIVES}
        config = await Branch(saver).put(nested=given)

        assert same((await values(saver, config))["nested"], given)

    async def test_any_text_comes_back_as_a_value(self, saver: Saver) -> None:
        config = await Branch(saver).put(**{f"c{i}": text for i, text in enumerate(_TEXTS)}, all=list(_TEXTS))
        found = await values(saver, config)

        assert [found[f"c{i}"] for i in range(len(_TEXTS))] == list(_TEXTS)
        assert found["all"] == list(_TEXTS)

    async def test_a_large_value_comes_back(self, saver: Saver) -> None:
        config = await Branch(saver).put(a="x" * 1_000_000, b=list(range(10_000)))
        found = await values(saver, config)

        assert len(found["a"]) == 1_000_000
        assert found["b"] == list(range(10_000))

    async def test_none_is_a_value_and_a_channel_without_value_is_absent(self, saver: Saver) -> None:
        config = await Branch(saver).put(none=None, nothing=MISSING)
        found = await load(saver, config)

        assert found.checkpoint["channel_values"] == {"none": None}
        assert found.checkpoint["channel_versions"].keys() == {"none", "nothing"}

    async def test_an_empty_checkpoint_comes_back(self, saver: Saver) -> None:
        config = await Branch(saver).put()
        found = (await load(saver, config)).checkpoint

        assert (found["channel_values"], found["channel_versions"], found["updated_channels"]) == ({}, {}, [])

    async def test_unknown_updated_channels_come_back_as_none(self, saver: Saver) -> None:
        branch = Branch(saver)
        checkpoint, metadata, versions = branch.next_checkpoint(a=1)
        checkpoint["updated_channels"] = None
        config = await saver.aput(branch.head, checkpoint, metadata, versions)

        assert (await load(saver, config)).checkpoint["updated_channels"] is None

    async def test_any_channel_name_can_be_stored(self, saver: Saver) -> None:
        names = [
            "branch:to:a",
            "join:a+b:c",
            "$.x",
            "it's",
            'a"b',
            "a.b[0]",
            "\u00e9\U0001f600",
            "",
            "a b",
            "%",
            "__start__",
        ]
        config = await Branch(saver).put(**{name: i for i, name in enumerate(names)})

        assert await values(saver, config) == {name: i for i, name in enumerate(names)}

    async def test_metadata_comes_back(self, saver: Saver) -> None:
        branch = Branch(saver)
        given = {"parents": {"": "p", "a:b": "q"}, "step": -2, "source": "fork", "extra": {"k": ["v", 1, None]}}
        config = await branch.put(given, a=1)

        assert dict((await load(saver, config)).metadata) == given

    async def test_metadata_takes_in_the_plain_values_of_the_config(self, saver: Saver) -> None:
        branch = Branch(saver)
        branch.head = {
            "configurable": {"thread_id": branch.thread_id, "user": "u", "run_id": "r", "__own": 1, "object": [1]},
            "metadata": {"tenant": 7, "step": 99, "langgraph_node": "n"},
        }
        config = await branch.put(a=1)

        assert dict((await load(saver, config)).metadata) == {
            "source": "input",
            "step": -1,
            "parents": {},
            "user": "u",
            "run_id": "r",
            "tenant": 7,
        }

    async def test_nul_in_metadata_does_not_fail(self, saver: Saver) -> None:
        config = await Branch(saver).put({"note": "a\0b"}, a=1)

        assert dict((await load(saver, config)).metadata)["note"] == "ab"

    async def test_delta_counters_come_back(self, saver: Saver) -> None:
        config = await Branch(saver).put({"counters_since_delta_snapshot": {"log": (3, 5)}}, a=1)
        found = (await load(saver, config)).metadata

        assert pairs(dict(found.get("counters_since_delta_snapshot", {}))) == {"log": (3, 5)}

    async def test_the_first_checkpoint_has_no_parent(self, saver: Saver) -> None:
        config = await Branch(saver).put(a=1)

        assert (await load(saver, config)).parent_config is None

    async def test_a_checkpoint_knows_its_parent(self, saver: Saver) -> None:
        branch = Branch(saver, ns="ns")
        first = await branch.put(a=1)
        second = await branch.put(a=2)

        assert (await load(saver, second)).parent_config == first

    async def test_two_branches_of_one_parent_keep_their_own_values(self, saver: Saver) -> None:
        left = Branch(saver)
        parent = await left.put(a=0, shared=[1])
        right = left.fork()
        await left.put(a="left")
        await right.put(a="right")

        assert await values(saver, left.head) == {"a": "left", "shared": [1]}
        assert await values(saver, right.head) == {"a": "right", "shared": [1]}
        assert (await load(saver, right.head)).parent_config == parent

    async def test_unchanged_channels_are_found_by_their_version(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=[1], b="b", c={"k": 1})
        await branch.put(a=[2])
        config = await branch.put(b="bb")

        assert await values(saver, config) == {"a": [2], "b": "bb", "c": {"k": 1}}

    async def test_older_checkpoints_keep_their_values(self, saver: Saver) -> None:
        branch = Branch(saver)
        configs = [await branch.put(a=[i]) for i in range(4)]

        assert [await values(saver, c) for c in configs] == [{"a": [i]} for i in range(4)]

    async def test_a_channel_may_appear_later(self, saver: Saver) -> None:
        branch = Branch(saver)
        first = await branch.put(a=1)
        second = await branch.put(b=[2])

        assert await values(saver, first) == {"a": 1}
        assert await values(saver, second) == {"a": 1, "b": [2]}

    async def test_a_channel_that_lost_its_value_hides_the_older_one(self, saver: Saver) -> None:
        branch = Branch(saver)
        first = await branch.put(plain=1, boxed=[1], keep=2)
        second = await branch.put(plain=MISSING, boxed=MISSING)

        assert await values(saver, first) == {"plain": 1, "boxed": [1], "keep": 2}
        assert await values(saver, second) == {"keep": 2}

    async def test_a_channel_that_lost_its_value_can_get_one_again(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=[1])
        await branch.put(a=MISSING)
        config = await branch.put(a=None)

        assert await values(saver, config) == {"a": None}

    async def test_a_removed_channel_is_gone(self, saver: Saver) -> None:
        branch = Branch(saver)
        await branch.put(a=[1], b=[2])
        del branch.values["a"], branch.versions["a"]
        config = await branch.put(b=[3])

        assert await values(saver, config) == {"b": [3]}

    async def test_putting_an_id_again_overwrites_it(self, saver: Saver) -> None:
        branch = Branch(saver)
        parent = await branch.put(a=[0])
        checkpoint, metadata, versions = branch.next_checkpoint(a=[1])
        await saver.aput(parent, checkpoint, metadata, versions)
        again, _, newer = branch.next_checkpoint(a=[2])
        again["id"] = checkpoint["id"]
        config = await saver.aput(parent, again, {**metadata, "source": "update"}, newer)
        found = await load(saver, config)

        assert found.checkpoint["channel_values"] == {"a": [2]}
        assert found.metadata.get("source") == "update"

    async def test_namespaces_are_kept_apart(self, saver: Saver) -> None:
        thread = new_thread()
        names = ["", "a", "a|b", "a:1", "a%", "A"]
        configs = [await Branch(saver, thread, ns).put(a=[ns]) for ns in names]

        assert [await values(saver, c) for c in configs] == [{"a": [ns]} for ns in names]
        assert [await values(saver, at(thread, ns)) for ns in names] == [{"a": [ns]} for ns in names]

    async def test_a_config_without_namespace_means_the_root(self, saver: Saver) -> None:
        branch = Branch(saver)
        branch.head = at(branch.thread_id, None)
        config = await branch.put(a=1)

        assert config.get("configurable", {})["checkpoint_ns"] == ""
        assert await values(saver, at(branch.thread_id, "")) == {"a": 1}

    async def test_threads_whose_ids_look_alike_are_kept_apart(self, saver: Saver) -> None:
        base = new_thread()
        names = [
            base + tail
            for tail in ("", "_b", "%", "b", "'", '"', " ", "\u00e9", "e\u0301", "\U0001f600", ":", "|", "/")
        ]
        for name in names:
            await Branch(saver, name).put(a=[name])

        assert [await values(saver, at(name)) for name in names] == [{"a": [name]} for name in names]

    async def test_changing_what_was_passed_changes_nothing_stored(self, saver: Saver) -> None:
        branch = Branch(saver)
        items = [1]
        checkpoint, metadata, versions = branch.next_checkpoint(a=items)
        config = await saver.aput(branch.head, checkpoint, metadata, versions)
        items.append(2)
        _spoil(checkpoint)
        metadata.get("parents", {})["x"] = "y"
        found = await load(saver, config)

        assert found.checkpoint["channel_values"] == {"a": [1]}
        assert found.checkpoint["updated_channels"] == ["a"]
        assert found.checkpoint["channel_versions"].keys() == {"a"}
        assert found.checkpoint["versions_seen"].keys() == {"__input__", "node"}
        assert found.metadata.get("parents") == {}

    async def test_changing_what_was_read_changes_nothing_stored(self, saver: Saver) -> None:
        branch = Branch(saver)
        config = await branch.put(a=[1])
        await branch.write(("a", [1]))
        first = await load(saver, config)
        first.checkpoint["channel_values"]["a"].append(2)
        _spoil(first.checkpoint)
        first.metadata["step"] = 99
        first.config.get("configurable", {})["thread_id"] = "other"
        assert first.pending_writes is not None
        first.pending_writes[0][2].append(2)
        first.pending_writes.append(("t", "c", 1))
        second = await load(saver, config)

        assert second.checkpoint["channel_values"] == {"a": [1]}
        assert second.checkpoint["updated_channels"] == ["a"]
        assert second.metadata.get("step") == -1
        assert second.pending_writes == [("task", "a", [1])]

    async def test_the_config_that_was_passed_stays_as_it_was(self, saver: Saver) -> None:
        branch = Branch(saver)
        given = at(branch.thread_id, None)
        branch.head = given
        await branch.put(a=1)

        assert given == at(branch.thread_id, None)

    async def test_an_unstorable_value_is_named_and_nothing_is_stored(self, saver: Saver) -> None:
        branch = Branch(saver)
        before = await branch.put(a=1)
        error = await refused(branch.put(fine=[1], broken=Unstorable()), SerializationError)

        assert "broken" in str(error)
        assert id_of((await load(saver, at(branch.thread_id))).config) == id_of(before)

    async def test_versions_grow(self, saver: Saver) -> None:
        versions = [saver.get_next_version(None, None)]
        for _ in range(1_100):
            versions.append(saver.get_next_version(versions[-1], None))

        assert versions == sorted(set(versions))

    async def test_a_thread_is_required(self, saver: Saver) -> None:
        checkpoint, metadata, versions = Branch(saver).next_checkpoint(a=1)

        assert "thread_id" in str(
            await refused(saver.aput({"configurable": {}}, checkpoint, metadata, versions), KeyError)
        )


def _spoil(checkpoint: Checkpoint) -> None:
    checkpoint["channel_values"]["b"] = 1
    checkpoint["channel_versions"]["b"] = "9"
    checkpoint["versions_seen"]["b"] = {}
    assert checkpoint["updated_channels"] is not None
    checkpoint["updated_channels"].append("b")
