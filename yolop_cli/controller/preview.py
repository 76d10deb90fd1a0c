"""Prepare a restore: what would change, bound to the present state by a token. Changes no file.

Conversation and workspace are two axes; a preview says of each whether it moves. The recovery snapshot is
taken first: without it there is no preview.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from yolop_cli import clock
from yolop_cli.controller.turns import check_reference, unknown_checkpoint
from yolop_cli.controller.writing import Held, drop_references, held
from yolop_cli.errors import DeniedError, RefusedError, StorageError
from yolop_cli.git import Git
from yolop_cli.ownership import owned_checkout
from yolop_cli.session import events, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Kind, Mode, Planned, Recovery, Target, WaitingRestore
from yolop_cli.snapshots import refs
from yolop_cli.snapshots.agent_trees import translate
from yolop_cli.snapshots.capture import capture
from yolop_cli.snapshots.checkout import Checkout, head_commit
from yolop_cli.snapshots.plan import RestorePlan, plan_restore
from yolop_cli.snapshots.private_git import PrivateGit
from yolop_cli.timeline.fold import Activity, TimelineState
from yolop_cli.timeline.records import Snapshot


@dataclass(frozen=True)
class Preview:
    """A prepared restore and, when files change, its plan and the paths that filters will convert."""

    waiting: WaitingRestore
    plan: RestorePlan | None
    through_filters: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class _Wanted:
    """Where a restore leads, before anything of the present was looked at."""

    kind: Kind
    mode: Mode
    checkpoint_id: str | None
    snapshot: Snapshot | None
    head_to: str | None
    prompt: str | None
    exact: bool = True


def rewind(git: Git, session: SessionDirectory, checkpoint_id: str, mode: Mode | None) -> Preview:
    """Prepare going back to before a turn.

    Raises ``NotFoundError``, ``RefusedError`` (not on the active branch), ``DeniedError`` (no snapshot, no
    worktree, a change that could not be undone), ``CaptureError``.
    """
    with held(git, session) as one:
        return _prepare(one, _rewind_to(one, checkpoint_id, mode, exact=True))


def rewind_to_event(git: Git, session: SessionDirectory, sequence: int, mode: Mode | None) -> Preview:
    """Prepare going back to right after an event, as near as checkpoints allow.

    ``exact`` is false when the event lies inside a turn: the restore then goes to before that turn.
    """
    with held(git, session) as one:
        checkpoint_id, exact = _checkpoint_at(one, sequence)
        return _prepare(one, _rewind_to(one, checkpoint_id, mode, exact=exact))


def undo(git: Git, session: SessionDirectory, mode: Mode | None) -> Preview:
    """Prepare going back to before the last turn. Raises ``RefusedError`` when there is none."""
    with held(git, session) as one:
        last = one.effective_head
        if last is None or last not in one.state.nodes:
            raise RefusedError("there is no turn to undo", hint="see `yolop-cli checkpoint list`")
        return _prepare(one, _rewind_to(one, last, mode, exact=True))


def redo(git: Git, session: SessionDirectory, mode: Mode | None) -> Preview:
    """Prepare taking the last restore back, on the axes it moved. Raises ``RefusedError``."""
    with held(git, session) as one:
        state = one.state
        target = state.redo
        if target is None or (target.head == state.head and target.snapshot is None):
            raise RefusedError(
                "there is nothing to redo", hint="a redo is there after a restore, until the next turn begins"
            )
        natural: Mode = "conversation"
        if target.snapshot is not None:
            natural = "workspace" if target.head == state.head else "both"
        chosen = mode or natural
        if chosen != "conversation" and target.snapshot is None:
            raise DeniedError(
                "the last restore left the files alone, so there are none to redo",
                hint="use --mode conversation",
            )
        if chosen == "both" and natural == "workspace":
            chosen = "workspace"
        return _prepare(one, _Wanted("redo", chosen, target.head, target.snapshot, target.head, prompt=None))


def _rewind_to(one: Held, checkpoint_id: str, mode: Mode | None, *, exact: bool) -> _Wanted:
    node = one.state.nodes.get(checkpoint_id)
    if node is None:
        raise unknown_checkpoint(one.session, checkpoint_id)
    if checkpoint_id not in one.state.live:
        raise RefusedError(
            f"{checkpoint_id} is not on the active branch",
            hint="see `yolop-cli checkpoint list`; `yolop-cli redo` goes back to the branch left last",
        )
    checkpoint = node.checkpoint
    chosen = mode or _default_mode(one, checkpoint.snapshot)
    if chosen != "conversation" and checkpoint.snapshot is None:
        reason = checkpoint.snapshot_error or "the files were not captured"
        raise DeniedError(
            f"{checkpoint_id} holds no files: {reason}",
            hint="rewind the conversation only (--mode conversation)",
        )
    return _Wanted(
        "rewind", chosen, checkpoint_id, checkpoint.snapshot, checkpoint.parent, checkpoint.prompt, exact
    )


def _default_mode(one: Held, snapshot: Snapshot | None) -> Mode:
    """Both axes when there is a snapshot, else the conversation.

    Trouble in looking is not "no snapshot": it is raised, so that half a rewind never passes for a whole one.
    """
    if snapshot is None:
        return "conversation"
    present = refs.of_session(one.git, owned_checkout(one.git, one.session), one.session.id)
    return "both" if snapshot.reference is None or snapshot.reference in present else "conversation"


def _checkpoint_at(one: Held, sequence: int) -> tuple[str, bool]:
    """The checkpoint that holds the state after an event, and whether exactly so."""
    state = one.state
    live = [state.nodes[checkpoint] for checkpoint in state.live]
    after = next((node for node in live if node.checkpoint.event_start > sequence), None)
    inside = next((node for node in reversed(live) if node.checkpoint.event_start <= sequence), None)
    known, followed = _event_known(one, sequence, after.checkpoint.event_start if after else None)
    if not known or not state.is_active(sequence):
        raise RefusedError(
            f"there is no event {sequence} on the active branch", hint="see `yolop-cli checkpoint list`"
        )
    if after is not None and not followed:
        return after.checkpoint.id, True
    if inside is not None and inside.holds(sequence):
        return inside.checkpoint.id, False
    raise RefusedError(
        f"no checkpoint lies at or after event {sequence}", hint="there is nothing to go back to"
    )


def _event_known(one: Held, sequence: int, before: int | None) -> tuple[bool, bool]:
    """Whether the log has the event, and whether conversation follows it before the next checkpoint."""
    activity = one.state.activity()
    known = followed = False
    for event in events.stream(one.session.events, one.session.id):
        if event.sequence is None:
            continue
        known = known or event.sequence == sequence
        between = sequence < event.sequence and (before is None or event.sequence < before)
        if between and activity.holds(event.sequence) and event.type not in events.NOTES:
            followed = True
    return known, followed


def _prepare(one: Held, wanted: _Wanted) -> Preview:
    state = one.state
    cut, cut_events = _cut(one, wanted) if wanted.mode != "workspace" else ((), 0)
    waiting = WaitingRestore(
        token=secrets.token_hex(8),
        kind=wanted.kind,
        mode=wanted.mode,
        checkpoint_id=wanted.checkpoint_id,
        exact=wanted.exact,
        prompt=wanted.prompt,
        created_at=clock.now(),
        head_from=one.effective_head,
        head_to=wanted.head_to if wanted.mode != "workspace" else one.effective_head,
        pending=state.pending,
        last_sequence=one.last_sequence,
        cut=cut,
        cut_events=cut_events,
    )
    preview = Preview(waiting, None)
    if waiting.moves_files:
        assert wanted.snapshot is not None
        preview = _prepare_files(one, waiting, wanted.snapshot)
    try:
        restore_file.write(one.session, preview.waiting)
    except StorageError:
        drop_references(one, [preview.waiting.recovery.reference] if preview.waiting.recovery else [])
        raise
    if one.waiting is not None and one.waiting.recovery is not None:
        drop_references(one, [one.waiting.recovery.reference])
    return preview


def _prepare_files(one: Held, waiting: WaitingRestore, snapshot: Snapshot) -> Preview:
    checkout = owned_checkout(one.git, one.session)
    private = PrivateGit(one.session.capture, checkout)
    check_snapshot(one, checkout, snapshot)
    raw, through_filters = raw_target(one.git, private, snapshot, run_filters=False)
    plan = plan_restore(one.git, private, raw, undone_tree(one, waiting.kind))
    reference = one.session.reference(f"recovery_{one.last_sequence}_{secrets.token_hex(4)}")
    git_head = head_commit(one.git, checkout)
    refs.create(one.git, checkout, reference, plan.current)
    prepared = replace(
        waiting,
        git_head=git_head,
        target=Target(snapshot.tree, snapshot.capture, raw),
        recovery=Recovery(plan.current, reference),
        changes=tuple(Planned(change.path, change.change) for change in plan.changes),
        plan_digest=plan.digest,
    )
    return Preview(prepared, plan, through_filters)


def check_snapshot(one: Held, checkout: Checkout, snapshot: Snapshot) -> None:
    """Whether a recorded snapshot is the session's own and still there.

    Raises ``RefusedError`` for a forged one, ``DeniedError`` for one that was deleted, ``StorageError`` when
    its tree is gone.
    """
    check_reference(one.session, snapshot)
    if snapshot.reference is not None:
        present = refs.of_session(one.git, checkout, one.session.id).get(snapshot.reference)
        if present is None:
            raise DeniedError(
                f"the snapshot is gone: there is no ref {snapshot.reference}",
                hint="rewind the conversation only (--mode conversation)",
            )
        if present != snapshot.tree:
            raise RefusedError(
                "the snapshot's ref does not hold the tree that was recorded",
                details={"recorded": snapshot.tree, "found": present},
            )
    kind = one.git.run(checkout.real, "cat-file", "-t", snapshot.tree, ok=(0, 128))
    if kind.status != 0:
        raise StorageError(
            f"the tree {snapshot.tree} of the snapshot is not in the repository; nothing was changed",
            hint="see `yolop-cli checkpoint verify`",
        )
    if kind.line() != "tree":
        raise RefusedError(f"the snapshot names a {kind.line()}, not a tree")


def undone_tree(one: Held, kind: Kind) -> str | None:
    """For a redo the tree that the restore it takes back had put in place, where the record says it."""
    redo = one.state.redo
    return (
        redo.snapshot.restored if kind == "redo" and redo is not None and redo.snapshot is not None else None
    )


def raw_target(
    git: Git, private: PrivateGit, snapshot: Snapshot, *, run_filters: bool
) -> tuple[str, tuple[bytes, ...]]:
    """The tree of exact bytes for a snapshot, and the paths that external filters still have to convert."""
    if snapshot.capture == "raw":
        return snapshot.tree, ()
    present = capture(git, private).tree
    translated = translate(git, private, snapshot.tree, present, run_filters=run_filters)
    return translated.tree, translated.unfiltered


def _cut(one: Held, wanted: _Wanted) -> tuple[tuple[str, ...], int]:
    """The checkpoints and how many events leave the conversation."""
    state = one.state
    stays = set(state.path_to(wanted.head_to))
    cut = tuple(checkpoint for checkpoint in state.live if checkpoint not in stays)
    before, after = state.activity(), _activity_at(state, wanted.head_to)
    count = sum(
        before.holds(event.sequence) and not after.holds(event.sequence)
        for event in events.stream(one.session.events, one.session.id)
    )
    return cut, count


def _activity_at(state: TimelineState, head: str | None) -> Activity:
    return replace(state, head=head, pending=None).activity()
