"""Leaves the engine's own frames out of the tracebacks that users see."""

from __future__ import annotations

import pathlib
from types import TracebackType

_PACKAGE = str(pathlib.Path(__file__).parent.parent)


def trimmed(traceback: TracebackType | None) -> TracebackType | None:
    """Return `traceback` from the first frame on that is not the engine's; unchanged if all are."""
    found = traceback
    while found is not None and found.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        found = found.tb_next
    return found if found is not None else traceback
