"""Carry out a repair plan, exactly as planned: under the session's locks, whole or not at all.

The order is what makes a crash harmless. The original is copied aside first, then what was set aside is
appended to ``timeline.rejected.jsonl``, then the new file is written beside the old one, synced, renamed
over it, and the directory synced. Killed at any point, ``timeline.jsonl`` is the old file or the new one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import clock, files, journal
from yolop_cli.ground.errors import RefusedError, StaleError, StorageError
from yolop_cli.ground.git import Git
from yolop_cli.operations.check import evidence
from yolop_cli.session import lock
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline.checking.validate import check_bytes
from yolop_cli.timeline.mending import strategies
from yolop_cli.timeline.mending.repair_plan import NO_HEAD, Plan, Strategy

_FAILED_HINT = "fix what the error names, then repair again; no byte of the old file is lost"
_PLAN_HINT = "run `yolop-cli timeline repair` again to see the plan for the file as it is now"


@dataclass(frozen=True)
class Repaired:
    """What a repair did: nothing (no ``backup``), or the file's new content and where the old one is."""

    plan: Plan
    changed: bool
    backup: Path | None
    rejected: int


def plan(git: Git, session: SessionDirectory, strategy: Strategy, head: str | None = None) -> Plan:
    """The plan for a session's timeline as it is now. Changes nothing.

    Raises ``RefusedError`` for an unknown head, ``StorageError`` when the file cannot be read.
    """
    return strategies.plan(
        files.read_bytes(session.timeline), strategy, evidence(git, session), clock.now(), head=head
    )


def carry_out(session: SessionDirectory, plan: Plan) -> Repaired:
    """Do what the plan says. A plan without changes is carried out by doing nothing.

    Raises ``RefusedError`` when a head must be chosen first, ``BusyError`` while another process writes the
    session, ``StaleError`` when the file is not the one planned for, ``StorageError``.
    """
    if plan.heads:
        raise _undecided(plan)
    if not plan.changes:
        return Repaired(plan, False, None, 0)
    checked = check_bytes(plan.content)
    if checked.status != "ok":
        raise AssertionError("a repair plan whose result cannot be read")
    with lock.held(session):
        if files.read_bytes(session.timeline) != plan.source:
            raise StaleError("the timeline changed since the plan was made", hint=_PLAN_HINT)
        with _kept(session, plan.source) as backup:
            rejected = _set_aside(session, plan.rejected)
            _replace(session, plan.content)
        return Repaired(plan, True, backup, rejected)


def _undecided(plan: Plan) -> RefusedError:
    names = [name or NO_HEAD for name in plan.heads]
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return RefusedError(
        f"the damage hides which checkpoint was the head; it may be {shown}",
        hint="choose one with --head; `yolop-cli timeline show` shows what can be read",
        details={"heads": names},
    )


@contextmanager
def _kept(session: SessionDirectory, source: bytes | None) -> Iterator[Path | None]:
    """The old file copied aside while it is replaced; where the copy is.

    A copy that a killed repair left behind will do. When the old file stays after all, so that the copy is
    one of nothing, it is removed again, and the error says that the timeline is as it was.
    """
    backup = _copy_of(session, source) if source is not None else None
    made = None
    try:
        if source is not None and backup is None:
            made = backup = _free_name(session)
            files.write_atomic(backup, source)
        yield backup
    except StorageError as error:
        if not _is_as_it_was(session, source):
            raise
        if made is not None:
            with suppress(StorageError):
                files.remove_file(made)
        raise StorageError(
            f"{error.message}; {session.timeline.name} is as it was",
            hint=error.hint or _FAILED_HINT,
            details=error.details,
        ) from None


def _copy_of(session: SessionDirectory, source: bytes) -> Path | None:
    for path in sorted(session.path.glob("timeline.jsonl.bak-*")):
        with suppress(StorageError):
            if not path.is_symlink() and files.read_bytes(path) == source:
                return path
    return None


def _free_name(session: SessionDirectory) -> Path:
    moment = clock.stamp()
    for number in range(1000):
        path = session.path / f"timeline.jsonl.bak-{moment}{f'.{number}' if number else ''}"
        if not os.path.lexists(path):
            return path
    raise StorageError(f"cannot find a free name for a copy of {session.timeline}")


def _is_as_it_was(session: SessionDirectory, source: bytes | None) -> bool:
    try:
        return files.read_bytes(session.timeline) == source
    except StorageError:
        return False


def _set_aside(session: SessionDirectory, rejected: tuple[bytes, ...]) -> int:
    """Append what the new file leaves out; not again when a killed repair had done so already."""
    data = b"".join(piece + b"\n" for piece in rejected)
    if data and not (files.read_bytes(session.rejected) or b"").endswith(data):
        journal.append_bytes(session.rejected, data)
    return len(rejected)


def _replace(session: SessionDirectory, content: bytes) -> None:
    """Write the new file over the old one, which keeps its mode, its owner and, as a link, its target."""
    try:
        info = session.timeline.stat()
    except FileNotFoundError:
        files.write_atomic(session.timeline, content)
        return
    except OSError as error:
        raise files.failed("read", session.timeline, error) from None
    owner = (info.st_uid, info.st_gid)
    wanted = None if owner == (os.geteuid(), os.getegid()) else owner
    files.write_atomic(session.timeline, content, stat.S_IMODE(info.st_mode), owner=wanted)
