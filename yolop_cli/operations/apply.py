"""Carry out a prepared restore, or take back one that was interrupted.

The order is the contract's: everything is compared with the preview, a durable mark is set before the
first file changes, the result is verified by capturing it again, and only then the head moves. What fails
before that is put back.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, replace
from pathlib import Path

from yolop_cli.ground import clock, paths
from yolop_cli.ground.errors import BusyError, RefusedError, StaleError, StorageError, YolopError
from yolop_cli.ground.git import Git
from yolop_cli.ground.processes import Writer, own_output
from yolop_cli.homes.choice import home_of
from yolop_cli.homes.held import Held, drop_waiting, held, is_finished
from yolop_cli.homes.protocol import AGAIN, Home
from yolop_cli.operations.turns import closing
from yolop_cli.session import lock, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Recovery, Stored, WaitingRestore
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.records import Files, FileSnapshot, HeadMoved, Record, RedoCleared, Snapshot
from yolop_cli.trees.tree_plan import Kept
from yolop_cli.trees.tree_restore import Restored


@dataclass(frozen=True)
class Applied:
    """A restore that took effect; ``files`` is None when only the conversation moved.

    ``recovery`` is the snapshot that redo would use, or one that holds what a redo replaced; ``overrode``
    are the processes at work in the directory that it was forced past.
    """

    waiting: WaitingRestore
    files: Restored | None
    kept: tuple[Kept, ...]
    recovery: Recovery | Stored | None
    overrode: tuple[Writer, ...] = ()


@dataclass(frozen=True)
class Cancelled:
    """A restore that was dropped (``files`` None) or taken back."""

    waiting: WaitingRestore
    files: Restored | None
    kept: tuple[Kept, ...]
    recovery: Recovery | Stored | None


def apply(git: Git, session: SessionDirectory, token: str, *, force: bool = False) -> Applied:
    """Do what the preview with this token showed, or finish it where it was interrupted.

    With ``force`` processes at work in the directory are no reason to refuse; another session's lock is.

    Raises ``RefusedError`` (no such token), ``StaleError``, ``BusyError``, ``StorageError``; after each of
    these the files and the head are as they were, unless the message says otherwise.
    """
    with held(git, session, settle=False) as one:
        waiting = one.waiting
        if one.finished is not None and one.finished.token == token:
            raise RefusedError("the restore with this token has already taken effect")
        if waiting is None or not hmac.compare_digest(waiting.token.encode(), os.fsencode(token)):
            raise RefusedError(
                "no restore is waiting for this token", hint="a token is valid until the next preview"
            )
        if waiting.phase == "applying":
            one, waiting = _resume(one, waiting, force=force)
        _refuse_stale(one, waiting)
        if not waiting.moves_files:
            _record(one, waiting, None)
            _forget(session)
            return Applied(waiting, None, (), None)
        return _apply_files(one, waiting, force=force)


def cancel(git: Git, session: SessionDirectory, *, force: bool = False) -> Cancelled | None:
    """Drop the restore that waits; one that was interrupted is taken back. None when there is none."""
    with held(git, session, settle=False) as one:
        waiting = one.waiting
        if waiting is None:
            return None
        if waiting.phase == "prepared":
            drop_waiting(one)
            return Cancelled(waiting, None, (), waiting.recovery)
        home = _home(one, waiting)
        _pass_by(home, force=force)
        files, kept = home.take_back(waiting)
        if kept:
            # The recovery snapshot stays: it alone holds the old versions of the paths left alone.
            restore_file.remove(session)
        else:
            drop_waiting(one)
        return Cancelled(waiting, files, kept, waiting.recovery)


def set_aside_unreadable(session: SessionDirectory) -> Path:
    """Take a restore.json that makes no sense out of the way; nothing of it is lost. Where it is then."""
    with lock.held(session):
        return restore_file.set_aside(session)


def _home(one: Held, waiting: WaitingRestore) -> Home:
    assert waiting.recovery is not None
    return home_of(one, waiting.recovery)


def _resume(one: Held, waiting: WaitingRestore, *, force: bool) -> tuple[Held, WaitingRestore]:
    """Bring an interrupted restore back to where it began, so that it can be applied whole."""
    home = _home(one, waiting)
    _pass_by(home, force=force)
    _, kept = home.take_back(waiting)
    if kept:
        raise StaleError(
            "some files changed since the restore was interrupted",
            hint="`yolop-cli rewind cancel` puts the others back",
            details={"paths": [paths.to_json(each.path) for each in kept]},
        )
    prepared = replace(waiting, phase="prepared", stage=None)
    restore_file.write(one.session, prepared)
    return replace(one, waiting=prepared), prepared


def _refuse_stale(one: Held, waiting: WaitingRestore) -> None:
    if one.effective_head != waiting.head_from or one.state.pending != waiting.pending:
        raise StaleError("the head moved since the preview", hint=AGAIN)
    if one.last_sequence != waiting.last_sequence:
        raise StaleError("the event log grew since the preview", hint=AGAIN)


def _pass_by(home: Home, *, force: bool) -> tuple[Writer, ...]:
    """The processes at work in the directory. Raises ``BusyError`` when there are any, unless forced."""
    busy = home.at_work()
    if busy and not force:
        first = busy[0]
        raise BusyError(
            f"process {first.pid} ({first.name}) is at work in the worktree: {first.why} {first.path}",
            hint="stop it, or have it leave the directory, then apply again; --force continues despite it",
            details={"processes": [each.to_json() for each in busy]},
        )
    return busy


def _refuse_own_output(root: Path, waiting: WaitingRestore) -> None:
    """Refuse to replace or delete the file that this command's own words go to."""
    outputs = own_output()
    own = [change.path for change in waiting.changes if outputs and _file_at(root, change.path) in outputs]
    if own:
        raise BusyError(
            f"the output of this command goes to {paths.show(own[0])}, which the restore would change",
            hint="send the output to a file outside the worktree",
            details={"paths": [paths.to_json(path) for path in own]},
        )


def _file_at(root: Path, path: bytes) -> tuple[int, int] | None:
    try:
        info = os.lstat(os.fsencode(root) + b"/" + path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _apply_files(one: Held, waiting: WaitingRestore, *, force: bool) -> Applied:
    home = _home(one, waiting)
    overrode = _pass_by(home, force=force)
    _refuse_own_output(home.root, waiting)
    ready = home.ready(waiting)
    restore_file.write(one.session, ready.marked)
    try:
        files = ready.carry_out()
    except BaseException as error:
        _roll_back(one, ready.marked, error)
        raise
    redone = one.state.redo
    after = _record(one, ready.marked, home.as_redo(ready.marked))
    recovery = waiting.recovery
    if waiting.kind == "redo":
        recovery = home_of(after, home.as_redo(waiting)).used_up(waiting, redone)
    _forget(one.session)
    return Applied(ready.marked, files, ready.kept, recovery, overrode)


def _forget(session: SessionDirectory) -> None:
    """Remove the mark of a restore that has taken effect; what stays behind the next writer tidies up."""
    try:
        restore_file.remove(session)
    except StorageError:
        pass


def _roll_back(one: Held, waiting: WaitingRestore, error: BaseException) -> None:
    """Put the recovery snapshot back; on success nothing waits any more, else the mark stays."""
    try:
        _, kept = _home(one, waiting).take_back(waiting)
    except (YolopError, OSError) as second:
        if isinstance(error, YolopError):
            error.message = f"{error.message}; and the files could not be put back: {second}"
            held_by = name_of(waiting.recovery)
            error.hint = f"`yolop-cli rewind cancel` tries again; the files as they were are in {held_by}"
        return
    if kept:
        restore_file.remove(one.session)
        held_by = name_of(waiting.recovery)
        note = f"; {len(kept)} changed paths were left alone, their old versions are in {held_by}"
    else:
        drop_waiting(replace(one, waiting=waiting))
        note = "; the files are as they were before"
    if isinstance(error, YolopError) and not error.message.endswith(note):
        error.message += note


def name_of(recovery: Recovery | Stored | None) -> str:
    """How a recovery snapshot is called where it is kept."""
    if isinstance(recovery, Stored):
        return f"the snapshot {recovery.id}"
    return "nothing" if recovery is None else recovery.reference


def _record(one: Held, waiting: WaitingRestore, recovery: Files | None) -> Held:
    """Append what makes the restore count: the end of a pending turn, the new head, the end of a redo."""
    now = clock.now()
    left = _left_to_redo(one, waiting)
    redo_head, files = (waiting.head_from, recovery) if left is None else left
    records: list[Record] = [
        *closing(one),
        HeadMoved(
            waiting.head_from,
            waiting.head_to,
            redo_head,
            files if isinstance(files, Snapshot) else None,
            now,
            files if isinstance(files, FileSnapshot) else None,
        ),
    ]
    if waiting.kind == "redo" and left is None:
        records.append(RedoCleared(now))
    try:
        return one.append(*records)
    except BaseException as error:
        # Interrupted after the record was written, the restore has taken effect and stays.
        if recovery is not None and not is_finished(timeline_file.load(one.session), waiting):
            _roll_back(one, waiting, error)
        raise


def _left_to_redo(one: Held, waiting: WaitingRestore) -> tuple[str | None, Files | None] | None:
    """What a redo of one axis leaves for another redo: the axis it did not move."""
    redo = one.state.redo
    if waiting.kind != "redo" or redo is None or waiting.mode == "both":
        return None
    if waiting.mode == "conversation" and redo.files is not None:
        return redo.head, redo.files
    if waiting.mode == "workspace" and redo.head != one.state.head:
        return redo.head, None
    return None
