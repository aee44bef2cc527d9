"""The channel port: how one state key holds its value and takes a superstep's writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self

from typing_extensions import TypeVar

from langgraph_async.constants import MISSING, Missing
from langgraph_async.errors import EmptyChannelError

Value = TypeVar("Value", default=Any)
Update = TypeVar("Update", default=Any)
Stored = TypeVar("Stored", default=Any)


class BaseChannel(ABC, Generic[Value, Update, Stored]):
    """A cell of state that several tasks may write in one superstep.

    The contract, for those who write their own:

    - `update` is called at most once per superstep, with everything that was written to the channel in it, in
      the order of the tasks; with an empty sequence when others were written and this one was not, provided it
      has a value. A channel that lives for one superstep clears itself there.
    - `update`, `consume` and `finish` return True exactly when what is stored changed: True gives the channel a
      new version, which triggers its subscribers and stores the value.
    - None is a value like any other; "no value" is `MISSING`.
    - A copy shares no container that the channel itself changes in place.

    Attributes:
        typ: The declared type of the value.
        key: The channel's name in its graph; ``""`` until a graph assigns it. Used in messages.
    """

    __slots__ = ("key", "typ")

    reacts_to_empty: ClassVar[bool] = True
    """Whether ``update(())`` can change anything. The engine skips the call where it cannot."""

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "update" in cls.__dict__ and "reacts_to_empty" not in cls.__dict__:
            cls.reacts_to_empty = True  # another `update` than the one the inherited flag speaks of

    @property
    @abstractmethod
    def ValueType(self) -> Any:  # noqa: N802
        """Type of what `get` returns, for JSON schemas."""

    @property
    @abstractmethod
    def UpdateType(self) -> Any:  # noqa: N802
        """Type of what may be written, for JSON schemas."""

    @abstractmethod
    def get(self) -> Value:
        """Return the value.

        Raises:
            EmptyChannelError: There is none.
        """

    def is_available(self) -> bool:
        """Tell whether `get` would return a value."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    @abstractmethod
    def update(self, values: Sequence[Update]) -> bool:
        """Apply one superstep's writes; return whether anything changed.

        Raises:
            InvalidUpdateError: The writes cannot be taken together.
        """

    def checkpoint(self) -> Stored | Missing:
        """Return what to store, or `MISSING` for nothing."""
        try:
            value: Any = self.get()
        except EmptyChannelError:
            return MISSING
        return value  # type: ignore[no-any-return]

    @abstractmethod
    def from_checkpoint(self, checkpoint: Stored | Missing) -> Self:
        """Return a channel declared like this one that holds what was stored; with `MISSING`, a fresh one."""

    def copy(self) -> Self:
        """Return an independent channel with the same value."""
        return self.from_checkpoint(self.checkpoint())

    def consume(self) -> bool:
        """Note that the value triggered a task; return whether anything changed."""
        return False

    def finish(self) -> bool:
        """Note that the run is about to end; return whether anything changed."""
        return False
