"""Which errors are the client's, with the status that says so; all others are the server's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from fastapi import HTTPException

from langgraph_async.errors import (
    ConfigError,
    EmptyInputError,
    EventLogError,
    InvalidUpdateError,
    MissingNodeError,
    ResumeError,
    ThreadConflictError,
)
from langgraph_async.stream.log.recorder import describe

log = logging.getLogger("langgraph_async")

_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (ThreadConflictError, 409),
    (ResumeError, 409),
    (MissingNodeError, 409),
    (ConfigError, 422),
    (EmptyInputError, 422),
)
_LOG_STATUSES: Final = {"unknown": 404, "exists": 409, "ahead": 409, "dropped": 410, "lost": 410}


def status_of(exc: BaseException) -> int | None:
    """Return the HTTP status of an error that the request has brought about; None for one of the server."""
    if isinstance(exc, EventLogError):
        return _LOG_STATUSES.get(exc.reason)
    if getattr(exc, "__notes__", None):  # it comes from a node
        return None
    if isinstance(exc, InvalidUpdateError):
        return 422
    return next((status for kind, status in _STATUSES if isinstance(exc, kind)), None)


def error_data(exc: BaseException) -> dict[str, Any]:
    """Return what a client is told of an error: no traceback, and of the message the first line only."""
    told = describe(exc)
    return {**told, "message": told["message"].split("\nError code:")[0]}


@contextmanager
def told_to_client() -> Iterator[None]:
    """Turn what is raised inside into an `HTTPException` whose detail has ``type``, ``code`` and ``message``."""
    try:
        yield
    except HTTPException:
        raise
    except Exception as exc:
        raise http_exception(exc) from exc


def http_exception(exc: Exception) -> HTTPException:
    """Return the `HTTPException` for an error; one of the server is logged, with its traceback."""
    status = status_of(exc)
    if status is None:
        log.error("A graph failed behind FastAPI", exc_info=exc)
    return HTTPException(status or 500, error_data(exc))


def not_found(code: str, message: str) -> HTTPException:
    """Return the `HTTPException` for something that is not there."""
    return HTTPException(404, {"type": "NotFound", "code": code, "message": message})
