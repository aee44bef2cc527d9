"""All kinds of threads that change hands, by name."""

from __future__ import annotations

from handover import kinds_edits, kinds_functional, kinds_nested, kinds_pauses, kinds_steps, kinds_values
from handover.kind import KINDS, Kind

FAMILIES = (kinds_steps, kinds_pauses, kinds_nested, kinds_functional, kinds_values, kinds_edits)

__all__ = ["FAMILIES", "KINDS", "Kind"]
