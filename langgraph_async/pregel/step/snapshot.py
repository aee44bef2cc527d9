"""Channels to checkpoints and back.

In: a loaded `CheckpointTuple` or a `StepState`. Out: the other. It may not await or do I/O, and may not change what
it is given.
"""

from __future__ import annotations

from langgraph_async.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph_async.constants import BRANCH_PREFIX, MISSING, TASKS
from langgraph_async.ids import checkpoint_id, time_text
from langgraph_async.pregel.model import GraphSpec, LiveChannels, StepState
from langgraph_async.pregel.renames import under_new_names
from langgraph_async.pregel.step_values import refresh_value
from langgraph_async.pregel.storable import without_untracked

FORMAT_VERSION = 4
_NOTHING_LOADED = -2


def empty_state(spec: GraphSpec) -> StepState:
    """Return the state of a thread on which nothing has run."""
    state = StepState(
        step=_NOTHING_LOADED + 1,
        checkpoint_id=checkpoint_id(_NOTHING_LOADED),
        version_format=FORMAT_VERSION,
        channels=LiveChannels(spec.channels),
        values={},
        containers=set(),
        holding=set(),
        versions={},
        newest=None,
        seen={},
        updated=None,
        pending=[],
        metadata={},
        parent_id=None,
        stored=False,
    )
    for key in spec.seeded:
        refresh_value(state, key, available=True)
    return state


def restore(spec: GraphSpec, loaded: CheckpointTuple) -> StepState:
    """Return the state that a checkpoint holds."""
    checkpoint = loaded.checkpoint
    state = empty_state(spec)
    known = under_new_names(spec, loaded)
    # What waits in a node that is no more was refused by `check_nodes_exist`, or is given up.
    versions = {k: v for k, v in known.versions.items() if not k.startswith(BRANCH_PREFIX) or k in spec.channels}
    state.step = loaded.metadata.get("step", _NOTHING_LOADED) + 1
    state.checkpoint_id = checkpoint["id"]
    state.version_format = checkpoint["v"]
    state.versions = versions
    # Under a new name a value is stored nowhere yet.
    state.dirty.update(versions.keys() - checkpoint["channel_versions"].keys())
    state.newest = max(versions.values()) if versions else None
    state.seen = known.seen
    state.old_names, state.old_channels = known.old_nodes, known.old_channels
    state.updated = known.updated
    state.pending = known.pending
    state.metadata = loaded.metadata
    state.parent_id = ((loaded.parent_config or {}).get("configurable") or {}).get("checkpoint_id")
    state.stored = True
    for key, value in known.values.items():
        declared = spec.channels.get(key)
        if declared is None:
            continue
        channel = declared.from_checkpoint(value)
        channel.key = key
        state.channels[key] = channel
        state.stored_values[key] = value
        available = channel.is_available()
        if available and key in spec.reactive:
            state.holding.add(key)
        if key in spec.value_keys:
            refresh_value(state, key, available=available)
    return state


def make_checkpoint(state: StepState, *, step: int, updated: set[str] | None, newest: str | None) -> Checkpoint:
    """Return the state as a new checkpoint.

    It shares no dict with the state: a saver may store it later. Values are shared, since channels replace them
    and never change them in place.

    Args:
        state: The state after a superstep; `take_changes` has brought its stored values up to date.
        step: Number of the superstep that led to it.
        updated: Channels that it changed, or None when unknown.
        newest: Newest checkpoint id of the place, which its own will be greater than.
    """
    return Checkpoint(
        v=FORMAT_VERSION,
        ts=time_text(),
        id=checkpoint_id(step, newest),
        channel_values=state.stored_values.copy(),
        channel_versions=state.versions.copy(),
        versions_seen=state.seen.copy(),
        updated_channels=sorted(updated) if updated is not None else None,
    )


def stub_of(state: StepState) -> tuple[Checkpoint, CheckpointMetadata]:
    """Return an empty state as a checkpoint that only carries writes."""
    checkpoint = Checkpoint(
        v=FORMAT_VERSION,
        ts=time_text(),
        id=state.checkpoint_id,
        channel_values={},
        channel_versions={},
        versions_seen={},
        updated_channels=None,
    )
    return checkpoint, {"step": _NOTHING_LOADED}


def is_stub(loaded: CheckpointTuple) -> bool:
    """Tell whether a checkpoint is what `stub_of` made: no run has begun there yet."""
    return not loaded.checkpoint["channel_versions"] and loaded.metadata.get("step") == _NOTHING_LOADED


def take_changes(state: StepState, spec: GraphSpec) -> ChannelVersions:
    """Bring `StepState.stored_values` into line with the channels that changed, and return their versions."""
    stored, channels = state.stored_values, state.channels
    for key in state.dirty:
        value = channels[key].checkpoint()
        if value is MISSING:
            stored.pop(key, None)
        elif key == TASKS and spec.untracked:
            stored[key] = [without_untracked(send, spec.untracked) for send in value]
        else:
            stored[key] = value
    versions = {key: state.versions[key] for key in state.dirty}
    state.dirty.clear()
    return versions


def metadata_of(source: str, step: int, parents: dict[str, str]) -> CheckpointMetadata:
    """Return the metadata of a checkpoint."""
    return {"source": source, "step": step, "parents": dict(parents)}  # type: ignore[typeddict-item]
