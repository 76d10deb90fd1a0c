"""Prepare a restore: what would change, bound to the present state by a token. Changes no file.

Conversation and workspace are two axes; a preview says of each whether it moves. The recovery snapshot is
taken first: without it there is no preview.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace

from yolop_cli.ground import clock
from yolop_cli.ground.errors import DeniedError, RefusedError, StorageError
from yolop_cli.ground.git import Git
from yolop_cli.homes.choice import home_of
from yolop_cli.homes.held import Held, drop, held
from yolop_cli.homes.protocol import FilesPlan
from yolop_cli.operations.turns import unknown_checkpoint
from yolop_cli.session import events, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Kind, Mode, WaitingRestore
from yolop_cli.timeline.fold import Activity, TimelineState
from yolop_cli.timeline.records import Files
from yolop_cli.trees.tree_plan import Kept as Kept


@dataclass(frozen=True)
class Preview:
    """A prepared restore and, when files change, what the plan says of them besides the changes."""

    waiting: WaitingRestore
    files: FilesPlan | None


@dataclass(frozen=True)
class _Wanted:
    """Where a restore leads, before anything of the present was looked at."""

    kind: Kind
    mode: Mode
    checkpoint_id: str | None
    files: Files | None
    head_to: str | None
    prompt: str | None
    exact: bool = True


def rewind(git: Git, session: SessionDirectory, checkpoint_id: str, mode: Mode | None) -> Preview:
    """Prepare going back to before a turn.

    Raises ``NotFoundError``, ``RefusedError`` (not on the active branch), ``DeniedError`` (no snapshot, no
    worktree, a change that could not be undone), ``CaptureError``.
    """
    with held(git, session) as one:
        return _prepare(one, _rewind_to(one, checkpoint_id, mode))


def rewind_to_event(git: Git, session: SessionDirectory, sequence: int, mode: Mode | None) -> Preview:
    """Prepare going back to right after an event, as near as checkpoints allow.

    ``exact`` is false when the event lies inside a turn: the restore then goes to before that turn.
    """
    with held(git, session) as one:
        checkpoint_id, exact = _checkpoint_at(one, sequence)
        return _prepare(one, _to_checkpoint(one, checkpoint_id, mode, exact=exact))


def undo(git: Git, session: SessionDirectory, mode: Mode | None) -> Preview:
    """Prepare going back to before the last turn. Raises ``RefusedError`` when there is none."""
    with held(git, session) as one:
        last = one.effective_head
        if last is None or last not in one.state.nodes:
            raise RefusedError("there is no turn to undo", hint="see `yolop-cli checkpoint list`")
        return _prepare(one, _rewind_to(one, last, mode))


def redo(git: Git, session: SessionDirectory, mode: Mode | None) -> Preview:
    """Prepare taking the last restore back, on the axes it moved. Raises ``RefusedError``."""
    with held(git, session) as one:
        state = one.state
        target = state.redo
        if target is None or (target.head == state.head and target.files is None):
            raise RefusedError(
                "there is nothing to redo",
                hint="`yolop-cli redo` takes back the last restore, until the next turn begins",
            )
        natural: Mode = "conversation"
        if target.files is not None:
            natural = "workspace" if target.head == state.head else "both"
        chosen = mode or natural
        if chosen != "conversation" and target.files is None:
            raise DeniedError(
                "the last restore changed no files, so there are none to redo",
                hint="use --mode conversation",
            )
        if chosen == "both" and natural == "workspace":
            chosen = "workspace"
        return _prepare(one, _Wanted("redo", chosen, target.head, target.files, target.head, prompt=None))


def _rewind_to(one: Held, checkpoint_id: str, mode: Mode | None) -> _Wanted:
    if checkpoint_id not in one.state.nodes:
        raise unknown_checkpoint(one.session, checkpoint_id)
    if checkpoint_id not in one.state.live:
        raise RefusedError(
            f"{checkpoint_id} is not on the active branch",
            hint="see `yolop-cli checkpoint list`; `yolop-cli redo` returns to the branch left last",
        )
    return _to_checkpoint(one, checkpoint_id, mode, exact=True)


def _to_checkpoint(one: Held, checkpoint_id: str, mode: Mode | None, *, exact: bool) -> _Wanted:
    checkpoint = one.state.nodes[checkpoint_id].checkpoint
    chosen = mode or _default_mode(one, checkpoint.files)
    if chosen != "conversation" and checkpoint.files is None:
        reason = checkpoint.snapshot_error or "the files were not captured"
        raise DeniedError(
            f"{checkpoint_id} holds no files: {reason}",
            hint="rewind the conversation only (--mode conversation)",
        )
    return _Wanted(
        "rewind", chosen, checkpoint_id, checkpoint.files, checkpoint.parent, checkpoint.prompt, exact
    )


def _default_mode(one: Held, files: Files | None) -> Mode:
    """Both axes when there is a snapshot, else the conversation.

    Trouble in looking is not "no snapshot": it is raised, so that half a rewind never passes for a whole one.
    """
    return "both" if files is not None and home_of(one, files).holds(files) else "conversation"


def _checkpoint_at(one: Held, sequence: int) -> tuple[str, bool]:
    """The checkpoint that holds the state after an event, and whether exactly so.

    At the end of a turn it is the one of the turn that followed: on any branch, the one written last, so
    that going back to the same event twice restores the same files. Inside a turn it is that turn's own.
    """
    state = one.state
    holding = next((name for name in reversed(state.live) if state.nodes[name].holds(sequence)), None)
    known, followed = _event_known(one, sequence, holding)
    if not known or not state.is_active(sequence):
        raise RefusedError(
            f"there is no event {sequence} on the active branch", hint="see `yolop-cli checkpoint list`"
        )
    next_live = state.live[0 if holding is None else state.live.index(holding) + 1 :][:1]
    following = [
        name
        for name, node in state.nodes.items()
        if node.checkpoint.event_start > sequence and (node.checkpoint.parent == holding or name in next_live)
    ]
    if following and not followed:
        return following[-1], True
    if holding is not None:
        return holding, False
    raise RefusedError(
        f"no checkpoint is at or after event {sequence}", hint="there is nothing to go back to"
    )


def _event_known(one: Held, sequence: int, holding: str | None) -> tuple[bool, bool]:
    """Whether the log has the event, and whether more was said after it up to the end of its turn."""
    activity = _activity_at(one.state, holding)
    known = followed = False
    for event in events.stream(one.session.events, one.session.id):
        if event.sequence is None:
            continue
        known = known or event.sequence == sequence
        if sequence < event.sequence and activity.holds(event.sequence) and event.type not in events.NOTES:
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
    plan = None
    if waiting.moves_files:
        assert wanted.files is not None
        waiting, plan = home_of(one, wanted.files).prepare(waiting, wanted.files)
    try:
        restore_file.write(one.session, waiting)
    except StorageError:
        drop(one, waiting.recovery)
        raise
    if one.waiting is not None:
        drop(one, one.waiting.recovery)
    return Preview(waiting, plan)


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
