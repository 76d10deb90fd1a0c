"""Begin and end a turn, drop a snapshot: the records of the format page ("Writing"), in its write order."""

from __future__ import annotations

from dataclasses import dataclass

from yolop_cli import clock, ids
from yolop_cli.controller.writing import Held, drop, drop_waiting, held
from yolop_cli.errors import DeniedError, NotFoundError, RefusedError, YolopError
from yolop_cli.git import Git, GitError
from yolop_cli.ownership import owned_checkout
from yolop_cli.session import repositories
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.snapshots import refs
from yolop_cli.snapshots.capture import capture
from yolop_cli.snapshots.checkout import Checkout
from yolop_cli.snapshots.private_git import PrivateGit
from yolop_cli.timeline.fold import TimelineState
from yolop_cli.timeline.records import (
    CheckpointCreated,
    Files,
    FileSnapshot,
    Initialized,
    Record,
    RedoCleared,
    Snapshot,
    TurnCompleted,
)

CAPTURE_SECONDS = 300.0


@dataclass(frozen=True)
class Begun:
    """A turn that began, and the state of the session then."""

    checkpoint: CheckpointCreated
    state: TimelineState


def begin(
    git: Git,
    session: SessionDirectory,
    prompt: str,
    *,
    require_workspace: bool = False,
    files: bool = False,
) -> Begun:
    """Begin a turn: capture the files, then record the checkpoint.

    A session that owns no worktree gets a snapshot in the store of its root, if ``files`` or the root's
    settings ask for it. A capture that fails makes a conversation-only checkpoint with the reason; with
    ``require_workspace`` it raises ``DeniedError`` (no worktree of the session's own) or what went wrong,
    and records nothing.
    """
    with held(git, session) as one:
        state = one.state
        event_start = one.last_sequence + 1
        checkpoint_id = _new_id(state, event_start)
        captured, reason = _capture(one, checkpoint_id, require_workspace=require_workspace, files=files)
        checkpoint = CheckpointCreated(
            checkpoint_id,
            one.effective_head,
            prompt,
            event_start,
            captured if isinstance(captured, Snapshot) else None,
            reason,
            clock.now(),
            captured if isinstance(captured, FileSnapshot) else None,
        )
        redo = state.redo
        clears = redo is not None and (redo.head is not None or redo.files is not None)
        one = one.append(*_opening(one), *([RedoCleared(clock.now())] if clears else []), checkpoint)
        _drop_unless_needed(one, redo.files if redo is not None else None)
        drop_waiting(one)
        return Begun(checkpoint, one.state)


def complete(git: Git, session: SessionDirectory, checkpoint_id: str | None, *, success: bool) -> Begun:
    """End a turn: the pending one, which ``checkpoint_id`` may name. Raises ``RefusedError``."""
    with held(git, session) as one:
        pending = one.state.pending
        if checkpoint_id is not None and checkpoint_id not in one.state.nodes:
            raise unknown_checkpoint(session, checkpoint_id)
        if pending is None or checkpoint_id not in (None, pending):
            what = (
                "no turn is pending" if checkpoint_id is None else f"{checkpoint_id} is not the pending turn"
            )
            raise RefusedError(what, hint="`yolop-cli checkpoint create` begins a turn")
        one = one.append(TurnCompleted(pending, _end(one, pending), success, clock.now()))
        return Begun(one.state.nodes[pending].checkpoint, one.state)


def drop_snapshot(git: Git, session: SessionDirectory, checkpoint_id: str) -> str | None:
    """Delete a checkpoint's snapshot; its record stays, as conversation-only.

    The ref that was deleted, or the id of the snapshot in a store; None when it had none.
    """
    with held(git, session) as one:
        node = one.state.nodes.get(checkpoint_id)
        if node is None:
            raise unknown_checkpoint(session, checkpoint_id)
        if one.waiting is not None and one.waiting.checkpoint_id == checkpoint_id:
            raise RefusedError(
                f"a restore to {checkpoint_id} is waiting for its token",
                hint="`yolop-cli rewind cancel` cancels it",
            )
        if node.checkpoint.file_snapshot is not None and node.checkpoint.snapshot is None:
            from yolop_cli import session_store

            return session_store.delete(session, checkpoint_id, node.checkpoint.file_snapshot)
        snapshot = node.checkpoint.snapshot
        if snapshot is None or snapshot.reference is None:
            return None
        check_reference(session, snapshot)
        checkout = owned_checkout(one.git, session)
        return next(iter(refs.drop(one.git, checkout, session.id, [snapshot.reference])), None)


def _drop_unless_needed(one: Held, used_up: Files | None) -> None:
    """Delete what redo would have used, unless some checkpoint names it too."""
    if isinstance(used_up, Snapshot):
        held_by = (node.checkpoint.snapshot for node in one.state.nodes.values())
        if any(each is not None and each.reference == used_up.reference for each in held_by):
            return
    drop(one, used_up)


def closing(one: Held) -> list[Record]:
    """What ends a pending turn as interrupted, when something else begins."""
    pending = one.state.pending
    if pending is None:
        return []
    return [TurnCompleted(pending, _end(one, pending), False, clock.now())]


def _end(one: Held, pending: str) -> int:
    """The last event of a turn that ends now. A log that was lost must not make it end before its start."""
    return max(one.last_sequence, one.state.nodes[pending].checkpoint.event_start - 1)


def check_reference(session: SessionDirectory, snapshot: Snapshot) -> None:
    """Refuse a snapshot whose ref or tree is not what this session could have recorded."""
    reference = snapshot.reference
    if reference is not None and ids.reference_name(session.id, reference) is None:
        raise RefusedError(f"the snapshot's ref is not one of this session: {reference!r}")
    if not ids.is_object_id(snapshot.tree):
        raise RefusedError(f"the snapshot names no tree: {snapshot.tree!r}")


def unknown_checkpoint(session: SessionDirectory, checkpoint_id: str) -> NotFoundError:
    """The failure for an id that no checkpoint of the session has."""
    return NotFoundError(
        f"no checkpoint {checkpoint_id!r} in {session.id}",
        hint="see `yolop-cli checkpoint list --all-branches`",
    )


def _opening(one: Held) -> list[Record]:
    """The records due before a checkpoint: a baseline while there is none, the end of a pending turn."""
    state = one.state
    if state.nodes:
        return closing(one)
    if state.baseline_end is None or state.baseline_end < one.last_sequence:
        return [Initialized(one.last_sequence, clock.now())]
    return []


def _new_id(state: TimelineState, event_start: int) -> str:
    number = len(state.nodes) + 1
    while f"cp_{event_start}_{number}" in state.nodes:
        number += 1
    return f"cp_{event_start}_{number}"


def _capture(
    one: Held, checkpoint_id: str, *, require_workspace: bool, files: bool
) -> tuple[Files | None, str | None]:
    """Capture the files where the session keeps them: the snapshot, or None and the reason."""
    try:
        try:
            checkout = owned_checkout(one.git, one.session)
        except DeniedError:
            from yolop_cli import session_store

            if files or session_store.wants_files(one.session):
                return session_store.take(one.session, checkpoint_id), None
            raise
        return _in_git(one, checkout, checkpoint_id), None
    except YolopError as error:
        if require_workspace:
            raise
        return None, error.message


def _in_git(one: Held, checkout: Checkout, checkpoint_id: str) -> Snapshot:
    """Capture and anchor the files of the worktree."""
    reference = one.session.reference(checkpoint_id)
    private = PrivateGit(one.session.capture, checkout)
    tree = capture(one.git.limited(CAPTURE_SECONDS), private).tree
    repositories.remember(one.session.path.parent, checkout.common_dir)
    try:
        refs.create(one.git, checkout, reference, tree)
    except GitError:
        # A run that was killed before its record may have left this ref: no record names it.
        if not refs.drop(one.git, checkout, one.session.id, [reference]):
            raise
        refs.create(one.git, checkout, reference, tree)
    return Snapshot(tree, reference, "raw")
