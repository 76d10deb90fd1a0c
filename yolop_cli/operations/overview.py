"""What a session looks like from outside: for lists, and in full for one session. Changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from yolop_cli.ground.errors import YolopError
from yolop_cli.ground.git import Git
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.session import events, lock, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.find import sessions
from yolop_cli.session.places import Places
from yolop_cli.session.workspace import Workspace
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.file import Timeline

Condition = Literal["ok", "tail", "corrupt", "busy"]
FILES = (
    "events.jsonl",
    "timeline.jsonl",
    "compaction-checkpoints.jsonl",
    "workspace.json",
    "restore.json",
    "timeline.rejected.jsonl",
    "capture.git",
)


@dataclass(frozen=True)
class Summary:
    """One session in a list; ``turns`` and ``head`` are None when the timeline cannot be read at all."""

    session: SessionDirectory
    metadata: Workspace
    created_at: str | None
    updated_at: str | None
    turns: int | None
    head: str | None
    state: Condition


@dataclass(frozen=True)
class FileState:
    """One file of the session directory, with its mode and its size in bytes where it is there."""

    name: str
    mode: int | None
    size: int | None


@dataclass(frozen=True)
class EventCounts:
    """How many events the log holds, how many of them are active, and the highest sequence."""

    events: int
    active: int
    last_sequence: int


def summaries(places: Places) -> Iterator[Summary]:
    """Every session, the one updated last first. A damaged one never hides the others."""
    found = [summary(session) for session in sessions(places)]
    yield from sorted(found, key=lambda one: (one.updated_at or "", one.session.id), reverse=True)


def summary(session: SessionDirectory) -> Summary:
    """One session for a list; reads the journal but not the event log."""
    metadata = workspace.read_or_empty(session.workspace)
    try:
        timeline: Timeline | None = timeline_file.load(session)
    except YolopError:
        timeline = None
    return Summary(
        session,
        metadata,
        metadata.created_at or _time(_born(session)),
        metadata.updated_at or _time(_touched(session)),
        len(timeline.state.nodes) if timeline else None,
        timeline.state.head if timeline else None,
        condition(session, timeline),
    )


def condition(session: SessionDirectory, timeline: Timeline | None) -> Condition:
    """The state of a session in one word; damage outranks a busy lock."""
    if timeline is None or timeline.health == "corrupt":
        return "corrupt"
    if lock.is_held(session):
        return "busy"
    return timeline.health


def file_states(session: SessionDirectory) -> list[FileState]:
    """The files that a session directory may hold, the missing ones too."""
    return [_file_state(session.path / name) for name in FILES]


def count_events(session: SessionDirectory, timeline: Timeline) -> EventCounts:
    """Count the events of the log in one pass."""
    activity = timeline.state.activity()
    total = active = last = 0
    for event in events.stream(session.events, session.id):
        total += 1
        active += activity.holds(event.sequence)
        last = max(last, event.sequence or 0)
    return EventCounts(total, active, last)


def _file_state(path: Path) -> FileState:
    try:
        info = os.lstat(path)
    except OSError:
        return FileState(path.name, None, None)
    return FileState(
        path.name, stat.S_IMODE(info.st_mode), info.st_size if stat.S_ISREG(info.st_mode) else None
    )


def _touched(session: SessionDirectory) -> float | None:
    times = [_mtime(path) for path in (session.timeline, session.events, session.path)]
    return max((time for time in times if time is not None), default=None)


def _born(session: SessionDirectory) -> float | None:
    # A session id is a UUIDv7: its first 48 bits are milliseconds since 1970.
    milliseconds = int(session.id[8:20], 16)
    return milliseconds / 1000 if milliseconds else None


def _mtime(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _time(seconds: float | None) -> str | None:
    if seconds is None or seconds > 253402300799:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def why_not_owned(git: Git, session: SessionDirectory) -> str | None:
    """Why a session does not own the worktree that it names, or None when it does."""
    try:
        owned_checkout(git, session)
    except YolopError as error:
        return error.message
    return None
