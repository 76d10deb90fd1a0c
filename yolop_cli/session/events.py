"""The event log, streamed: memory stays flat for a log, or a single line, of any size.

Readers skip malformed lines and lines of another session, as the agent does (format page,
"events.jsonl"). A line longer than ``WHOLE_LINE`` is never held: only its top-level ``type``,
``session_id`` and ``sequence`` are read from it, by ``longline.head``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from yolop_cli.ground import files
from yolop_cli.ground.errors import NotFoundError
from yolop_cli.ground.strict_json import is_int32
from yolop_cli.session import longline

WHOLE_LINE = 1 << 20
_BLOCK = 1 << 20
# The types that are written to a log; others only take a sequence.
TYPES = (
    "input.message",
    "output.message.completed",
    "tool.completed",
    "reason.completed",
    "reason.item",
    "session.title.updated",
)
# Events that say something about a session without being part of what was said.
NOTES = frozenset({"session.title.updated"})


@dataclass(frozen=True)
class Event:
    """One event: ``sequence`` is None in old logs; ``body`` is None for a line too long to hold."""

    type: str
    sequence: int | None
    body: dict[str, Any] | None

    @property
    def prompt(self) -> str | None:
        """The text of an ``input.message``, its parts joined by line feeds; else None."""
        if self.type != "input.message" or self.body is None:
            return None
        return message_text(self.body)


def message_text(body: dict[str, Any]) -> str | None:
    """The text parts of an event's message, joined by line feeds."""
    data = body.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return None
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(part for part in parts if isinstance(part, str))


def values(path: Path) -> Iterator[tuple[longline.Whole | longline.Long, dict[str, Any] | None]]:
    """Every line of the log that counts and its object, None for a malformed one; none without a log."""
    try:
        with files.reading(path) as file:
            for line in longline.lines(file, WHOLE_LINE):
                yield line, _value(line)
    except NotFoundError:
        return


def stream(path: Path, session_id: str) -> Iterator[Event]:
    """The session's events in the order of the log; none when there is no log."""
    for line, value in values(path):
        event = event_of(line, value, session_id)
        if event is not None:
            yield event


def last_sequence(path: Path, session_id: str) -> int:
    """The highest sequence in the log, 0 when there is none. Reads the end of the file only.

    Sequences only grow, so the last block that holds one of this session's events decides.
    """
    try:
        with files.reading(path) as file:
            return _last_sequence(file, session_id)
    except NotFoundError:
        return 0


def _last_sequence(file: BinaryIO, session_id: str) -> int:
    stop = os.fstat(file.fileno()).st_size
    while stop > 0:
        start = _line_start(file, max(0, stop - _BLOCK))
        file.seek(start)
        found = [
            event.sequence
            for line in longline.lines(file, WHOLE_LINE, stop - start)
            if (event := event_of(line, _value(line), session_id)) is not None and event.sequence is not None
        ]
        if found:
            return max(found)
        stop = start
    return 0


def _line_start(file: BinaryIO, position: int) -> int:
    """The start of the line that holds the byte at ``position``."""
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        cut = file.read(position - start).rfind(b"\n")
        if cut >= 0:
            return start + cut + 1
        position = start
    return 0


def _value(line: longline.Whole | longline.Long) -> dict[str, Any] | None:
    return _whole(line.data) if isinstance(line, longline.Whole) else line.members


def event_of(
    line: longline.Whole | longline.Long, value: dict[str, Any] | None, session_id: str
) -> Event | None:
    """The event on a line, or None when readers skip it."""
    if value is None or value.get("session_id", session_id) != session_id:
        return None
    kind, sequence = value.get("type"), value.get("sequence")
    if not isinstance(kind, str):
        return None
    body = value if isinstance(line, longline.Whole) else None
    return Event(kind, sequence if is_int32(sequence) else None, body)


def _whole(data: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
