"""Checkpoints that are made without an engine."""

from langgraph_async.channels import LastValue
from langgraph_async.checkpoint.base import LATEST_VERSION, create_checkpoint, empty_checkpoint


def test_an_empty_checkpoint_holds_nothing():
    made = empty_checkpoint()

    assert (made["v"], made["channel_values"], made["channel_versions"]) == (LATEST_VERSION, {}, {})


def test_later_checkpoints_have_greater_ids():
    first = empty_checkpoint()

    assert create_checkpoint(first, None, 1)["id"] > first["id"]


def test_without_channels_the_values_are_kept():
    first = {**empty_checkpoint(), "channel_values": {"a": 1}}

    made = create_checkpoint(first, None, 1, id="x")

    assert (made["id"], made["channel_values"]) == ("x", {"a": 1})
    assert made["channel_values"] is not first["channel_values"]


def test_only_channels_that_have_a_version_and_a_value_are_stored():
    first = {**empty_checkpoint(), "channel_versions": {"a": "1", "empty": "1"}}
    channels = {
        "a": LastValue(int).from_checkpoint(7),
        "empty": LastValue(int),
        "new": LastValue(int).from_checkpoint(8),
    }

    assert create_checkpoint(first, channels, 1)["channel_values"] == {"a": 7}
