"""The names of the tables, and of the one row in them that is not LangGraph's."""

from __future__ import annotations

from dataclasses import dataclass

GATE = "__gate__"
"""Channel of the row in `checkpoint_blobs` that makes competing commits to one namespace wait for each other.

Its type is ``empty`` and no checkpoint has a version of such a channel, so that LangGraph never reads it.
"""


@dataclass(frozen=True, slots=True)
class Tables:
    """Names of the tables, to be written into statements."""

    checkpoints: str = "checkpoints"
    blobs: str = "checkpoint_blobs"
    writes: str = "checkpoint_writes"
    migrations: str = "checkpoint_migrations"
    schema: str | None = None

    @classmethod
    def within(cls, schema: str | None) -> Tables:
        """Return the names of the tables in a schema; None: wherever the connection's `search_path` leads."""
        if schema is None:
            return cls()
        prefix = quoted(schema) + "."
        return cls(
            prefix + "checkpoints",
            prefix + "checkpoint_blobs",
            prefix + "checkpoint_writes",
            prefix + "checkpoint_migrations",
            schema,
        )


def quoted(name: str) -> str:
    """Return a name as SQL writes it.

    Raises:
        ValueError: PostgreSQL has no such names.
    """
    if not name or "\0" in name:
        raise ValueError(f"{name!r} cannot be the name of a schema.")
    return '"' + name.replace('"', '""') + '"'
