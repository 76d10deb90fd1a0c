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

from yolop_cli import clock, paths
from yolop_cli.controller.preview import check_snapshot, raw_target, undone_tree
from yolop_cli.controller.turns import closing
from yolop_cli.controller.writing import Held, drop_references, drop_waiting, held
from yolop_cli.errors import BusyError, RefusedError, StaleError, StorageError, YolopError
from yolop_cli.git import Git
from yolop_cli.ownership import owned_checkout
from yolop_cli.session import lock, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Recovery, WaitingRestore
from yolop_cli.snapshots import refs
from yolop_cli.snapshots import restore as restoring
from yolop_cli.snapshots.checkout import Checkout, head_commit
from yolop_cli.snapshots.disk import Seen
from yolop_cli.snapshots.plan import Kept, RestorePlan, plan_restore
from yolop_cli.snapshots.private_git import PrivateGit
from yolop_cli.snapshots.restore import Restored, stage_name
from yolop_cli.snapshots.verified import put_back, verify
from yolop_cli.timeline.fold import Redo
from yolop_cli.timeline.records import HeadMoved, Record, RedoCleared, Snapshot
from yolop_cli.writers import own_output, writers

_AGAIN = "make a new preview: `yolop-cli rewind preview CHECKPOINT`, or `undo` or `redo` again"


@dataclass(frozen=True)
class Applied:
    """A restore that took effect; ``files`` is None when only the conversation moved.

    ``recovery`` is the snapshot that redo would use, or one that holds what a redo replaced.
    """

    waiting: WaitingRestore
    files: Restored | None
    kept: tuple[Kept, ...]
    recovery: Recovery | None


@dataclass(frozen=True)
class Cancelled:
    """A restore that was dropped (``files`` None) or taken back."""

    waiting: WaitingRestore
    files: Restored | None
    kept: tuple[Kept, ...]
    recovery: Recovery | None


def apply(git: Git, session: SessionDirectory, token: str) -> Applied:
    """Do what the preview with this token showed, or finish it where it was interrupted.

    Raises ``RefusedError`` (no such token), ``StaleError``, ``BusyError``, ``StorageError``; after each of
    these the files and the head are as they were, unless the message says otherwise.
    """
    with held(git, session, settle=False) as one:
        waiting = one.waiting
        if one.finished is not None and one.finished.token == token:
            raise RefusedError("the restore with this token has taken effect already")
        if waiting is None or not hmac.compare_digest(waiting.token.encode(), os.fsencode(token)):
            raise RefusedError(
                "no restore waits for this token", hint="a token holds for one preview, until the next one"
            )
        if waiting.phase == "applying":
            one, waiting = _resume(one, waiting)
        _refuse_stale(one, waiting)
        if not waiting.moves_files:
            _record(one, waiting, None)
            _forget(session)
            return Applied(waiting, None, (), None)
        return _apply_files(one, waiting)


def cancel(git: Git, session: SessionDirectory) -> Cancelled | None:
    """Drop the restore that waits; one that was interrupted is taken back. None when there is none."""
    with held(git, session, settle=False) as one:
        waiting = one.waiting
        if waiting is None:
            return None
        if waiting.phase == "prepared":
            drop_waiting(one)
            return Cancelled(waiting, None, (), waiting.recovery)
        _refuse_busy(owned_checkout(one.git, session))
        files, kept = _take_back(one, waiting)
        if kept:
            # The recovery ref stays: it alone holds the old versions of the paths left alone.
            restore_file.remove(session)
        else:
            drop_waiting(one)
        return Cancelled(waiting, files, kept, waiting.recovery)


def set_aside_unreadable(session: SessionDirectory) -> Path:
    """Take a restore.json that makes no sense out of the way; nothing of it is lost. Where it is then."""
    with lock.held(session):
        return restore_file.set_aside(session)


def _resume(one: Held, waiting: WaitingRestore) -> tuple[Held, WaitingRestore]:
    """Bring an interrupted restore back to where it began, so that it can be applied whole."""
    _refuse_busy(owned_checkout(one.git, one.session))
    _, kept = _take_back(one, waiting)
    if kept:
        raise StaleError(
            "some files changed since the restore was interrupted",
            hint="`yolop-cli rewind cancel` puts the others back",
            details={"paths": [paths.to_json(each.path) for each in kept]},
        )
    prepared = replace(waiting, phase="prepared", stage=None)
    restore_file.write(one.session, prepared)
    return replace(one, waiting=prepared), prepared


def _take_back(one: Held, waiting: WaitingRestore) -> tuple[Restored, tuple[Kept, ...]]:
    assert waiting.recovery is not None and waiting.target is not None
    checkout = owned_checkout(one.git, one.session)
    private = PrivateGit(one.session.capture, checkout)
    planned = {change.path for change in waiting.changes}
    stage = waiting.stage or stage_name(waiting.token)
    return put_back(one.git, private, planned, waiting.recovery.tree, waiting.target.raw_tree, stage)


def _refuse_stale(one: Held, waiting: WaitingRestore) -> None:
    if one.effective_head != waiting.head_from or one.state.pending != waiting.pending:
        raise StaleError("the head moved since the preview", hint=_AGAIN)
    if one.last_sequence != waiting.last_sequence:
        raise StaleError("the event log grew since the preview", hint=_AGAIN)


def _refuse_busy(checkout: Checkout) -> None:
    busy = writers(checkout.root)
    if busy:
        first = busy[0]
        raise BusyError(
            f"process {first.pid} ({first.name}) is at work in the worktree: {first.why} {first.path}",
            hint="end it, or let it leave the directory, then apply again",
            details={
                "processes": [
                    {"pid": each.pid, "name": each.name, "why": each.why, "path": paths.to_json(each.path)}
                    for each in busy
                ]
            },
        )


def _refuse_own_output(private: PrivateGit, waiting: WaitingRestore) -> None:
    """Refuse to replace or delete the file that this command's own words go to."""
    outputs = own_output()
    if not outputs:
        return
    device = private.checkout.root.stat().st_dev
    there = restoring.look_at(private, [change.path for change in waiting.changes])
    own = [path for path, seen in there.items() if (device, seen.inode) in outputs]
    if own:
        raise BusyError(
            f"the output of this command goes to {paths.show(own[0])}, which the restore would change",
            hint="send the output to a file outside the worktree",
            details={"paths": [paths.to_json(path) for path in own]},
        )


def _apply_files(one: Held, waiting: WaitingRestore) -> Applied:
    assert waiting.target is not None and waiting.recovery is not None
    checkout = owned_checkout(one.git, one.session)
    private = PrivateGit(one.session.capture, checkout)
    _refuse_busy(checkout)
    if head_commit(one.git, checkout) != waiting.git_head:
        raise StaleError("a commit or checkout happened since the preview", hint=_AGAIN)
    snapshot = Snapshot(waiting.target.tree, None, waiting.target.capture)
    check_snapshot(one, checkout, snapshot)
    _refuse_own_output(private, waiting)
    plan, expected = _same_plan(one.git, private, waiting, snapshot, undone_tree(one, waiting.kind))
    marked = replace(
        waiting,
        phase="applying",
        stage=stage_name(waiting.token),
        target=replace(waiting.target, raw_tree=plan.target),
    )
    restore_file.write(one.session, marked)
    try:
        files = restoring.carry_out(one.git, private, plan, expected, marked.stage or "")
        verify(one.git, private, plan)
    except BaseException as error:
        _roll_back(one, marked, error)
        raise
    after = _record(one, marked, marked.recovery)
    recovery = _tidy_up(after, checkout, marked, one.state.redo)
    _forget(one.session)
    return Applied(marked, files, plan.kept, recovery)


def _forget(session: SessionDirectory) -> None:
    """Remove the mark of a restore that has taken effect; what stays behind the next writer tidies up."""
    try:
        restore_file.remove(session)
    except StorageError:
        pass


def _same_plan(
    git: Git, private: PrivateGit, waiting: WaitingRestore, snapshot: Snapshot, undone: str | None
) -> tuple[RestorePlan, dict[bytes, Seen]]:
    """The plan made again from the files as they are now, which must be the one that was shown.

    What lies at each path is noted before the files are compared, so that a change in between is seen when
    the path is about to be replaced.
    """
    expected = restoring.look_at(private, [change.path for change in waiting.changes])
    raw, unfiltered = raw_target(git, private, snapshot, run_filters=False)
    plan = plan_restore(git, private, raw, undone)
    if plan.digest != waiting.plan_digest:
        raise StaleError("the files changed since the preview", hint=_AGAIN)
    if unfiltered:
        raw, _ = raw_target(git, private, snapshot, run_filters=True)
        plan = plan_restore(git, private, raw, undone)
    return plan, expected


def _roll_back(one: Held, waiting: WaitingRestore, error: BaseException) -> None:
    """Put the recovery snapshot back; on success nothing waits any more, else the mark stays."""
    try:
        _, kept = _take_back(one, waiting)
    except (YolopError, OSError) as second:
        if isinstance(error, YolopError):
            error.message = f"{error.message}; and the files could not be put back: {second}"
            error.hint = "`yolop-cli rewind cancel` tries again; " + (
                f"the files as they were are in {waiting.recovery.reference}" if waiting.recovery else ""
            )
        return
    if kept:
        restore_file.remove(one.session)
        note = f"; {len(kept)} changed paths were left alone, their old versions are in the recovery ref"
    else:
        drop_waiting(replace(one, waiting=waiting))
        note = "; the files are as they were before"
    if isinstance(error, YolopError):
        error.message += note


def _record(one: Held, waiting: WaitingRestore, recovery: Recovery | None) -> Held:
    """Append what makes the restore count: the end of a pending turn, the new head, the end of a redo."""
    now = clock.now()
    redo_head, redo_snapshot = waiting.head_from, None
    if recovery is not None:
        restored = waiting.target.raw_tree if waiting.target is not None else None
        redo_snapshot = Snapshot(recovery.tree, recovery.reference, "raw", restored)
    left = _left_to_redo(one, waiting)
    if left is not None:
        redo_head, redo_snapshot = left
    records: list[Record] = [
        *closing(one),
        HeadMoved(waiting.head_from, waiting.head_to, redo_head, redo_snapshot, now),
    ]
    if waiting.kind == "redo" and left is None:
        records.append(RedoCleared(now))
    try:
        return one.append(*records)
    except StorageError as error:
        if recovery is not None:
            _roll_back(one, waiting, error)
        raise


def _left_to_redo(one: Held, waiting: WaitingRestore) -> tuple[str | None, Snapshot | None] | None:
    """What a redo of one axis leaves for another redo: the axis it did not move."""
    redo = one.state.redo
    if waiting.kind != "redo" or redo is None or waiting.mode == "both":
        return None
    if waiting.mode == "conversation" and redo.snapshot is not None:
        return redo.head, redo.snapshot
    if waiting.mode == "workspace" and redo.head != one.state.head:
        return redo.head, None
    return None


def _tidy_up(one: Held, checkout: Checkout, waiting: WaitingRestore, redone: Redo | None) -> Recovery | None:
    """Delete the refs that a redo used up.

    The recovery ref of a redo goes only if another ref of the session holds the same tree: else it is all
    that keeps what the redo replaced.
    """
    recovery = waiting.recovery
    if waiting.kind != "redo" or recovery is None:
        return recovery
    used_up = redone.snapshot.reference if redone is not None and redone.snapshot is not None else None
    drop_references(one, [used_up])
    try:
        present = refs.of_session(one.git, checkout, one.session.id)
    except StorageError:
        return recovery  # the restore has taken effect; a ref too many is no failure
    if any(tree == recovery.tree and reference != recovery.reference for reference, tree in present.items()):
        drop_references(one, [recovery.reference])
        return None
    return recovery
