"""``yolop-cli rewind``, ``undo`` and ``redo``: preview, confirm by token, apply."""

from __future__ import annotations

import sys
from typing import Any

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.arguments import mode_option
from yolop_cli.cli.command import Invocation, command, group
from yolop_cli.cli.screen import write_error
from yolop_cli.ground import paths
from yolop_cli.operations import apply as applying
from yolop_cli.operations import preview as previewing
from yolop_cli.operations.apply import Applied
from yolop_cli.operations.preview import Kept, Preview
from yolop_cli.session import restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Mode, Recovery, Stored, WaitingRestore

_LETTERS = {"added": "A", "modified": "M", "deleted": "D", "type": "T", "mode": "m"}
_COLORS = {"added": "green", "deleted": "red"}
_DECLINED = 130
_force = click.option(
    "--force", is_flag=True, help="Continue even if other processes are at work in the directory."
)


@group(
    "rewind",
    "Preview a restore, then apply it.",
    examples=["yolop-cli rewind preview cp_3_2", 'yolop-cli rewind apply "$token"'],
)
def rewind() -> None:
    """Go back to before a turn: the conversation, the files, or both.

    A preview shows everything that would change and prints a token. Nothing changes until the token is
    applied.
    """


@command(
    rewind,
    "preview",
    session=True,
    examples=[
        "yolop-cli rewind preview cp_3_2",
        "yolop-cli rewind preview cp_3_2 --mode files --json",
        "yolop-cli rewind preview --to-event 4",
    ],
)
@click.argument(
    "checkpoint_id", metavar="[CHECKPOINT]", required=False, shell_complete=candidates.checkpoints
)
@mode_option
@click.option("--to-event", type=int, metavar="N", help="Go back to right after this event.")
def preview(
    invocation: Invocation, checkpoint_id: str | None, mode: Mode | None, to_event: int | None
) -> None:
    """Show what going back would change, and prepare it.

    Only the recovery snapshot and restore.json are written. The token of an earlier preview becomes
    invalid.
    """
    if (checkpoint_id is None) == (to_event is None):
        raise click.UsageError("give a CHECKPOINT or --to-event")
    session = invocation.session()
    if to_event is not None:
        prepared = previewing.rewind_to_event(invocation.git, session, to_event, mode)
    else:
        assert checkpoint_id is not None
        prepared = previewing.rewind(invocation.git, session, checkpoint_id, mode)
    _show_preview(invocation, session, prepared)


@command(
    rewind,
    "apply",
    session=True,
    examples=["yolop-cli rewind apply 5f0c1d2e3a4b5c6d", 'yolop-cli rewind apply "$token" --print-prompt'],
)
@click.argument("token", shell_complete=candidates.tokens)
@_force
@click.option("--print-prompt", is_flag=True, help="Print only the prompt of the turn that was left.")
def apply(invocation: Invocation, token: str, force: bool, print_prompt: bool) -> None:
    """Apply the restore that the preview with this token showed.

    Refused as stale if the files, the head or the events changed since, and as busy while a process is at
    work in the worktree. --force stops no process, and never overrides another session at work there.
    """
    with invocation.session_to_settle() as session:
        done = applying.apply(invocation.git, session, token, force=force)
    _show_applied(invocation, session, done, print_prompt=print_prompt)


@command(rewind, "status", session=True, examples=["yolop-cli rewind status --json"])
def status(invocation: Invocation) -> None:
    """Show the restore that is waiting for its token, or the one that was interrupted."""
    session = invocation.session()
    waiting = restore_file.read(session)
    screen = invocation.screen

    def render() -> None:
        if waiting is None:
            screen.line("no restore is waiting")
            return
        screen.folded(
            f"{waiting.kind} to {waiting.checkpoint_id or 'the start'}, {waiting.mode}, {waiting.phase}, "
            f"{text.count(len(waiting.changes), 'path')}",
            2,
        )
        screen.line(f"token {waiting.token}")

    screen.result({"session_id": session.id, "restore": _status(waiting)}, render)


@command(rewind, "cancel", session=True, examples=["yolop-cli rewind cancel"])
@_force
def cancel(invocation: Invocation, force: bool) -> None:
    """Cancel the waiting restore and delete its recovery snapshot.

    A restore that was interrupted while it was changing files is taken back: every path it changed gets
    its old version. A path that someone changed since is left alone and listed.
    """
    screen = invocation.screen
    done = aside = None
    with invocation.session_to_settle() as session:
        try:
            done = applying.cancel(invocation.git, session, force=force)
        except restore_file.UnreadableRestoreError:
            aside = applying.set_aside_unreadable(session)

    def render() -> None:
        if aside is not None:
            screen.folded(
                f"restore.json was not readable and is now {text.clean(aside.name)}; no file was changed", 2
            )
        elif done is None:
            screen.line("no restore is waiting")
        elif done.files is None:
            screen.line(f"dropped the {done.waiting.kind}; nothing was changed")
        else:
            count = len(done.files.restored) + len(done.files.deleted)
            screen.line(f"put back {text.count(count, 'path')}; the head did not move")
            _show_kept(invocation, done.kept)

    value = {
        "session_id": session.id,
        "cancelled": done is not None or aside is not None,
        "kind": done.waiting.kind if done else None,
        "restored": [paths.to_json(path) for path in done.files.restored] if done and done.files else [],
        "deleted": [paths.to_json(path) for path in done.files.deleted] if done and done.files else [],
        "kept": [_kept(one) for one in done.kept] if done else [],
        "recovery": _recovery(done.recovery) if done else None,
    }
    screen.result(value, render)


_yes = click.option("--yes", is_flag=True, help="Preview and apply in one step.")
_print_prompt = click.option(
    "--print-prompt", is_flag=True, help="Print only the prompt of the turn that was left (once applied)."
)


@command(
    None,
    "undo",
    session=True,
    examples=["yolop-cli undo", "yolop-cli undo --yes", "yolop-cli undo --mode chat"],
)
@mode_option
@_yes
@_force
@_print_prompt
def undo(invocation: Invocation, mode: Mode | None, yes: bool, force: bool, print_prompt: bool) -> int:
    """Undo the last turn.

    On a terminal, show the preview and ask. Elsewhere, print the preview with its token and change nothing,
    unless --yes is given.
    """
    session = invocation.session()
    prepared = previewing.undo(invocation.git, session, mode)
    return _confirm(invocation, session, prepared, yes=yes, force=force, print_prompt=print_prompt)


@command(None, "redo", session=True, examples=["yolop-cli redo", "yolop-cli redo --yes"])
@mode_option
@_yes
@_force
@_print_prompt
def redo(invocation: Invocation, mode: Mode | None, yes: bool, force: bool, print_prompt: bool) -> int:
    """Take back the last restore: return to the branch it left, with the files as they were.

    Only the last restore can be taken back, and only until the next turn begins. Asks as undo does.
    """
    session = invocation.session()
    prepared = previewing.redo(invocation.git, session, mode)
    return _confirm(invocation, session, prepared, yes=yes, force=force, print_prompt=print_prompt)


def _confirm(
    invocation: Invocation,
    session: SessionDirectory,
    prepared: Preview,
    *,
    yes: bool,
    force: bool,
    print_prompt: bool,
) -> int:
    screen = invocation.screen
    if not yes:
        asks = screen.terminal and sys.stdin.isatty() and not screen.as_json
        _show_preview(invocation, session, prepared, with_next_step=not asks)
        if not asks:
            return 0
        if not _agreed():
            applying.cancel(invocation.git, session)
            screen.note("nothing was changed")
            return _DECLINED
    done = applying.apply(invocation.git, session, prepared.waiting.token, force=force)
    _show_applied(invocation, session, done, print_prompt=print_prompt)
    return 0


def _agreed() -> bool:
    """The answer on the terminal; Ctrl-C and the end of input are a no."""
    try:
        return click.confirm("Apply?", default=False)
    except click.Abort:
        write_error("\n")
        return False


def _show_preview(
    invocation: Invocation, session: SessionDirectory, prepared: Preview, *, with_next_step: bool = True
) -> None:
    screen, waiting = invocation.screen, prepared.waiting

    def render() -> None:
        _say_conversation(invocation, waiting)
        _say_files(invocation, prepared)
        if with_next_step:
            screen.line(f"token {waiting.token}")
            screen.note(f"nothing has changed yet; to apply it: yolop-cli rewind apply {waiting.token}")

    screen.result(_preview(session, prepared), render)


def _say_conversation(invocation: Invocation, waiting: WaitingRestore) -> None:
    screen = invocation.screen
    if not waiting.moves_conversation:
        screen.line("conversation: unchanged")
        return
    turns = text.count(len(waiting.cut), "turn")
    events = text.count(waiting.cut_events, "event")
    target = waiting.head_to or "the start"
    screen.line(f"conversation: the head moves to {text.clean(target)}, leaving {turns} ({events})")
    if not waiting.exact:
        screen.line("  the event is inside a turn; this is the state before that turn")


def _say_files(invocation: Invocation, prepared: Preview) -> None:
    screen, waiting = invocation.screen, prepared.waiting
    if not waiting.moves_files or prepared.files is None:
        screen.line("files: unchanged")
        return
    counted = _counts(waiting)
    screen.line(
        f"files: {counted['added']} to add, {counted['modified']} to change, {counted['deleted']} to delete"
    )
    for change in waiting.changes:
        letter = screen.styled(_LETTERS[change.change], fg=_COLORS.get(change.change, "yellow"))
        screen.line(f"  {letter} {text.path(change.path)}")
    _show_kept(invocation, prepared.files.kept)
    filtered = prepared.files.through_filters
    if filtered:
        screen.line(f"  {text.count(len(filtered), 'path')} will go through the repository's filters")


def _show_kept(invocation: Invocation, kept: tuple[Kept, ...]) -> None:
    for one in kept:
        invocation.screen.record(f"  = {text.path(one.path)} is left alone: {one.why}", 4)


def _show_applied(
    invocation: Invocation, session: SessionDirectory, done: Applied, *, print_prompt: bool
) -> None:
    screen, waiting = invocation.screen, done.waiting
    if done.overrode:
        names = ", ".join(f"{writer.name} ({writer.pid})" for writer in done.overrode[:5])
        screen.warn(f"continued despite {text.count(len(done.overrode), 'process')} at work here: {names}")

    def render() -> None:
        if print_prompt:
            screen.content(f"{waiting.prompt or ''}\n".encode())
            return
        if waiting.moves_conversation:
            screen.line(f"conversation: the head is {waiting.head_to or 'the start'}")
        if done.files is not None:
            restored, deleted = len(done.files.restored), len(done.files.deleted)
            screen.line(f"files: {restored} restored, {deleted} deleted")
            _show_kept(invocation, done.kept)
        if done.recovery is not None and waiting.kind == "redo":
            screen.record(f"what the redo replaced is kept in {applying.name_of(done.recovery)}", 2)
        if waiting.kind == "rewind":
            screen.note("`yolop-cli redo` takes this back, until the next turn begins")
        if waiting.prompt is not None and waiting.moves_conversation:
            screen.line("prompt:")
            for line in waiting.prompt.split("\n"):
                screen.line(f"    {text.clean(line)}")

    screen.result(_applied(session, done), render)


def _preview(session: SessionDirectory, prepared: Preview) -> dict[str, Any]:
    waiting, plan = prepared.waiting, prepared.files
    return {
        "session_id": session.id,
        "token": waiting.token,
        "kind": waiting.kind,
        "checkpoint_id": waiting.checkpoint_id,
        "mode": waiting.mode,
        "exact": waiting.exact,
        "prompt": waiting.prompt,
        "conversation": {
            "from": waiting.head_from,
            "to": waiting.head_to,
            "cut": list(waiting.cut),
            "cut_events": waiting.cut_events,
        }
        if waiting.moves_conversation
        else None,
        "workspace": None
        if plan is None
        else {
            "changes": [{"path": paths.to_json(one.path), "change": one.change} for one in waiting.changes],
            "counts": _counts(waiting),
            "kept": [_kept(one) for one in plan.kept],
            "current_tree": plan.current,
            "target_tree": plan.target,
            "through_filters": [paths.to_json(path) for path in plan.through_filters],
        },
        "recovery": _recovery(waiting.recovery),
    }


def _applied(session: SessionDirectory, done: Applied) -> dict[str, Any]:
    waiting = done.waiting
    return {
        "session_id": session.id,
        "kind": waiting.kind,
        "mode": waiting.mode,
        "head": {"from": waiting.head_from, "to": waiting.head_to},
        "prompt": waiting.prompt if waiting.moves_conversation else None,
        "workspace": None
        if done.files is None
        else {
            "restored": [paths.to_json(path) for path in done.files.restored],
            "deleted": [paths.to_json(path) for path in done.files.deleted],
            "kept": [_kept(one) for one in done.kept],
            "tree": _tree(waiting),
        },
        "recovery": _recovery(done.recovery),
        "overrode": [writer.to_json() for writer in done.overrode],
    }


def _status(waiting: WaitingRestore | None) -> dict[str, Any] | None:
    if waiting is None:
        return None
    return {
        "token": waiting.token,
        "kind": waiting.kind,
        "phase": waiting.phase,
        "checkpoint_id": waiting.checkpoint_id,
        "mode": waiting.mode,
        "created_at": waiting.created_at,
        "recovery": _recovery(waiting.recovery),
        "changes": len(waiting.changes),
    }


def _counts(waiting: WaitingRestore) -> dict[str, int]:
    added = sum(one.change == "added" for one in waiting.changes)
    deleted = sum(one.change == "deleted" for one in waiting.changes)
    return {"added": added, "modified": len(waiting.changes) - added - deleted, "deleted": deleted}


def _kept(one: Kept) -> dict[str, Any]:
    return {"path": paths.to_json(one.path), "why": one.why}


def _tree(waiting: WaitingRestore) -> str | None:
    target = waiting.target
    return None if target is None else target.tree if isinstance(target, Stored) else target.raw_tree


def _recovery(recovery: Recovery | Stored | None) -> dict[str, str] | None:
    if recovery is None:
        return None
    if isinstance(recovery, Stored):
        return {"tree": recovery.tree, "snapshot_id": recovery.id, "root": recovery.root}
    return {"tree": recovery.tree, "reference": recovery.reference}
