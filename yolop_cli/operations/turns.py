"""Begin and end a turn, drop a snapshot: the records of the format page ("Writing"), in its write order."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from yolop_cli.ground import clock
from yolop_cli.ground.errors import DeniedError, NotFoundError, RefusedError, YolopError
from yolop_cli.ground.git import Git, GitError
from yolop_cli.homes.held import Held, drop, drop_waiting, held
from yolop_cli.homes.in_git import check_reference
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.session import ref_repositories
from yolop_cli.session.directory import SessionDirectory
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
from yolop_cli.trees import private_refs
from yolop_cli.trees.capture import capture
from yolop_cli.trees.checkout import Checkout
from yolop_cli.trees.private_git import PrivateGit

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
        if isinstance(captured, Snapshot) and captured.reference is not None:
            checkpoint_id = captured.reference.rpartition("/")[2]  # another one where the ref was taken
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
        drop(one, redo.files if redo is not None else None)
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
            from yolop_cli.homes import session_store

            return session_store.delete(session, checkpoint_id, node.checkpoint.file_snapshot)
        snapshot = node.checkpoint.snapshot
        if snapshot is None or snapshot.reference is None:
            return None
        check_reference(session, snapshot)
        checkout = owned_checkout(one.git, session)
        return next(iter(private_refs.drop(one.git, checkout, session.id, [snapshot.reference])), None)


def closing(one: Held) -> list[Record]:
    """What ends a pending turn as interrupted, when something else begins."""
    pending = one.state.pending
    if pending is None:
        return []
    return [TurnCompleted(pending, _end(one, pending), False, clock.now())]


def _end(one: Held, pending: str) -> int:
    """The last event of a turn that ends now. A log that was lost must not make it end before its start."""
    return max(one.last_sequence, one.state.nodes[pending].checkpoint.event_start - 1)


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


def _new_id(state: TimelineState, event_start: int, taken: Collection[str] = ()) -> str:
    number = len(state.nodes) + 1
    while (name := f"cp_{event_start}_{number}") in state.nodes or name in taken:
        number += 1
    return name


def _capture(
    one: Held, checkpoint_id: str, *, require_workspace: bool, files: bool
) -> tuple[Files | None, str | None]:
    """Capture the files where the session keeps them: the snapshot, or None and the reason."""
    try:
        try:
            checkout = owned_checkout(one.git, one.session)
        except DeniedError:
            from yolop_cli.homes import session_store

            if files or session_store.wants_files(one.session):
                return session_store.take(one.session, checkpoint_id), None
            raise
        return _in_git(one, checkout, checkpoint_id), None
    except YolopError as error:
        if require_workspace:
            raise
        return None, error.message


def _in_git(one: Held, checkout: Checkout, checkpoint_id: str) -> Snapshot:
    """Capture and anchor the files of the worktree, under the id given or one whose ref is not taken.

    A run that was killed before its record leaves a ref that no record names; so does a journal that lost
    its end, or a session put back from an older copy. Then the ref is all that is left of its turn.
    """
    reference = one.session.reference(checkpoint_id)
    private = PrivateGit(one.session.capture, checkout)
    tree = capture(one.git.limited(CAPTURE_SECONDS), private).tree
    ref_repositories.remember(one.session.path.parent, checkout.common_dir)
    try:
        private_refs.create(one.git, checkout, reference, tree)
    except GitError:
        present = private_refs.of_session(one.git, checkout, one.session.id)
        if reference not in present:
            raise
        if present[reference] != tree:
            taken = {ref.rpartition("/")[2] for ref in present}
            reference = one.session.reference(_new_id(one.state, one.last_sequence + 1, taken))
            private_refs.create(one.git, checkout, reference, tree)
    return Snapshot(tree, reference, "raw")
