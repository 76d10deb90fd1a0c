"""Which sessions a session was forked from, and which other sessions still name something of it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from yolop_cli.ground import files, ids
from yolop_cli.ground.errors import StorageError
from yolop_cli.session import workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.find import sessions_in

_BACKUP = "timeline.jsonl.bak-"


def ancestors(session: SessionDirectory) -> tuple[str, ...]:
    """The sessions that a session was forked from, the nearest first, as ``parent_session_id`` says.

    One that was deleted ends the line, and so does a repeat.
    """
    found: list[str] = []
    parent = workspace.read_or_empty(session.workspace).parent_session_id
    while parent is not None and ids.is_session_id(parent) and parent not in (*found, session.id):
        found.append(parent)
        parent = workspace.read_or_empty(session.path.with_name(parent) / "workspace.json").parent_session_id
    return tuple(found)


def named_by_others(session: SessionDirectory, names: Collection[str]) -> dict[str, str]:
    """Of some ids, those that another session of the same sessions directory names, and which one does.

    Whatever a journal, a waiting restore or a backup of a journal holds counts, damaged or not; a session
    whose files cannot be read may name them all. Raises ``StorageError`` when the sessions cannot be listed.
    """
    found: dict[str, str] = {}
    for other in sessions_in(session.path.parent) if names else ():
        if other.id != session.id:
            left = set(names) - found.keys()
            found |= dict.fromkeys(mentioned(other, left), other.id)
    return found


def mentioned(session: SessionDirectory, names: Collection[str]) -> frozenset[str]:
    """Of some ids, those whose bytes stand in a session's own files; all when one cannot be read."""
    try:
        held = b"\n".join(files.read_bytes(path) or b"" for path in _journals(session))
    except (OSError, StorageError):
        return frozenset(names)
    return frozenset(name for name in names if name.encode() in held)


def _journals(session: SessionDirectory) -> Iterator[Path]:
    yield from (session.timeline, session.rejected, session.restore)
    backups = (name for name in os.listdir(session.path) if name.startswith(_BACKUP))
    yield from (session.path / name for name in sorted(backups))
