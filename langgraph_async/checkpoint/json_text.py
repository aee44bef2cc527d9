"""Writes small JSON documents, such as the metadata of a checkpoint, over and over."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Callable
from typing import Any


def json_encoder(*, ascii_only: bool, allow_nan: bool, separators: tuple[str, str]) -> Callable[[Any], str]:
    """Return a function that does what `json.dumps` does with these options; any number of threads may call it.

    The encoder of the standard library is made anew for each document, which takes longer than to write a small one;
    here it is made once. A structure that contains itself is found by its depth: that is a `RecursionError`.
    """
    plain = json.JSONEncoder(check_circular=False, ensure_ascii=ascii_only, allow_nan=allow_nan, separators=separators)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # not CPython
        return plain.encode
    texts = json.encoder.encode_basestring_ascii if ascii_only else json.encoder.encode_basestring
    write = make(None, plain.default, texts, None, separators[1], separators[0], False, False, allow_nan)

    def encode(value: Any) -> str:
        return "".join(write(value, 0))

    return encode


__all__ = ["json_encoder"]
