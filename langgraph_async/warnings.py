"""Categories of the warnings about spellings that are still understood, but will not be for ever."""

from __future__ import annotations


class LangGraphDeprecationWarning(DeprecationWarning):
    """Something works still and has a successor.

    Versions are those of LangGraph, whose names and deprecations this library follows.

    Attributes:
        message: What is deprecated and what to use instead, without a dot at the end.
        since: Major and minor version in which it was deprecated.
        expected_removal: Major and minor version in which it goes; by default the next major one.
    """

    def __init__(
        self, message: str, *args: object, since: tuple[int, int], expected_removal: tuple[int, int] | None = None
    ) -> None:
        super().__init__(message, *args)
        self.message = message.rstrip(".")
        self.since = since
        self.expected_removal = (since[0] + 1, 0) if expected_removal is None else expected_removal

    def __str__(self) -> str:
        since, removal = (".".join(map(str, version)) for version in (self.since, self.expected_removal))
        return f"{self.message}. Deprecated in LangGraph V{since} to be removed in V{removal}."


class LangGraphDeprecatedSinceV05(LangGraphDeprecationWarning):
    """Deprecated in 0.5, goes in 2.0."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(0, 5), expected_removal=(2, 0))


class LangGraphDeprecatedSinceV10(LangGraphDeprecationWarning):
    """Deprecated in 1.0, goes in 2.0."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 0), expected_removal=(2, 0))


class LangGraphDeprecatedSinceV11(LangGraphDeprecationWarning):
    """Deprecated in 1.1, goes in 3.0."""

    def __init__(self, message: str, *args: object) -> None:
        super().__init__(message, *args, since=(1, 1), expected_removal=(3, 0))


__all__ = [
    "LangGraphDeprecatedSinceV05",
    "LangGraphDeprecatedSinceV10",
    "LangGraphDeprecatedSinceV11",
    "LangGraphDeprecationWarning",
]
