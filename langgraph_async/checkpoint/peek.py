"""Looks at one part of a stored checkpoint without reading the rest: for walks over many of them."""

from __future__ import annotations

from typing import Any

import msgpack  # type: ignore[import-untyped]

from langgraph_async.checkpoint.rows import TypedBytes


def stored_channels(data: TypedBytes) -> frozenset[str] | None:
    """Return the channels that have a value in a checkpoint stored as a whole; None if that takes reading it."""
    try:
        unpacker = _at(data, "channel_values")
        if unpacker is None:
            return None
        found: list[str] = []
        for _ in range(unpacker.read_map_header()):
            found.append(unpacker.unpack())
            unpacker.skip()
        return frozenset(found)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None


def channel_versions(data: TypedBytes) -> dict[str, Any] | None:
    """Return the versions in a stored checkpoint; None if that takes reading it."""
    try:
        unpacker = _at(data, "channel_versions")
        found = None if unpacker is None else unpacker.unpack()
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    plain = type(found) is dict and all(type(version) in (str, int, float) for version in found.values())
    return found if plain else None


def _at(data: TypedBytes, name: str) -> Any:
    kind, stored = data
    if kind != "msgpack":
        return None
    unpacker = msgpack.Unpacker(raw=False, max_buffer_size=len(stored))
    unpacker.feed(stored)
    for _ in range(unpacker.read_map_header()):
        if unpacker.unpack() == name:
            return unpacker
        unpacker.skip()
    return None
