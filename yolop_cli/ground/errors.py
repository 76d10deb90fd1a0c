"""The failures a user can meet: one class for each exit code of the command line.

A message says what is wrong in one line; a hint says what to do next; details carry what a script may
want (paths, git's own words). Everything that is not one of these is a mistake of our own (exit 70).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class YolopError(Exception):
    """A refusal or failure with a documented code. ``str()`` is the message."""

    code: ClassVar[str] = "IO"
    exit_status: ClassVar[int] = 9

    def __init__(self, message: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})


class UsageError(YolopError):
    """The arguments are wrong."""

    code = "USAGE"
    exit_status = 2


class NotFoundError(YolopError):
    """No such session, checkpoint, snapshot or path."""

    code = "NOT_FOUND"
    exit_status = 3


class RefusedError(YolopError):
    """Refused as given: not on the active branch, unknown token, nothing to undo."""

    code = "VALIDATION_ERROR"
    exit_status = 4


class CorruptError(YolopError):
    """The committed prefix of the timeline is damaged: read-only until it is repaired."""

    code = "CORRUPT"
    exit_status = 5


class BusyError(YolopError):
    """Another process is writing the session or its workspace."""

    code = "BUSY"
    exit_status = 6


class DeniedError(YolopError):
    """The ownership boundary, a path outside the root, or a change that could not be undone."""

    code = "DENIED"
    exit_status = 7


class StaleError(YolopError):
    """The files, the head or the events changed since the preview."""

    code = "STALE"
    exit_status = 8


class StorageError(YolopError):
    """Git or the file system failed; the message tells what state things are in."""

    code = "IO"
    exit_status = 9


def os_reason(error: OSError) -> str:
    """The system's words for an ``OSError``, without Python's number and repr."""
    return error.strerror or type(error).__name__
