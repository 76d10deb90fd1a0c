"""``yolop-cli checkpoint``: begin and end turns, look at checkpoints, take files out of them."""

from __future__ import annotations

import click

from yolop_cli.cli import arguments, candidates, taking_out, text
from yolop_cli.cli.command import Invocation, command, group
from yolop_cli.ground import paths
from yolop_cli.operations import compare, turns
from yolop_cli.operations.compare import Comparison, TreeChange
from yolop_cli.operations.inspect import Inspection
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.view import CheckpointView, WorkspaceView

_LETTERS = {"added": "A", "modified": "M", "deleted": "D", "type": "T", "mode": "m"}


@group(
    "checkpoint",
    "Create, compare and read checkpoints.",
    examples=["yolop-cli checkpoint list", "yolop-cli checkpoint diff cp_1_1"],
)
def checkpoint() -> None:
    """Create, compare and read checkpoints.

    A checkpoint is the state right before a turn: the conversation, and the files of the worktree.
    """


@command(
    checkpoint,
    "create",
    session=True,
    examples=[
        'yolop-cli checkpoint create --prompt "before the refactoring"',
        "git log -1 --format=%B | yolop-cli checkpoint create --prompt-file -",
    ],
)
@click.option("--prompt", metavar="TEXT", help="Use this prompt for the turn.")
@click.option(
    "--prompt-file",
    metavar="FILE",
    shell_complete=candidates.paths,
    help="Read the prompt from a file; - is standard input.",
)
@click.option(
    "--require-workspace", is_flag=True, help="Fail when the files cannot be captured, and record nothing."
)
@click.option(
    "--files",
    is_flag=True,
    help="Capture the files even if the session has no worktree of its own, into the store of its root.",
)
def create(
    invocation: Invocation,
    prompt: str | None,
    prompt_file: str | None,
    require_workspace: bool,
    files: bool,
) -> None:
    """Begin a turn: capture the files and record the checkpoint.

    A pending turn is closed as failed. If the files cannot be captured, the checkpoint holds the
    conversation only and the reason is printed.
    """
    words = arguments.prompt(prompt, prompt_file, invocation.places.here)
    session = invocation.session()
    begun = turns.begin(invocation.git, session, words, require_workspace=require_workspace, files=files)
    shown = _inspection(invocation).view(begun.checkpoint.id)
    if begun.checkpoint.files is None:
        invocation.screen.warn(f"conversation only: {begun.checkpoint.snapshot_error}")
    _show_result(invocation, shown, f"{shown.id} begins")


@command(checkpoint, "complete", session=True, examples=["yolop-cli checkpoint complete --failed"])
@click.argument("checkpoint_id", metavar="[ID]", required=False, shell_complete=candidates.checkpoints)
@click.option("--failed", is_flag=True, help="Record the turn as failed.")
def complete(invocation: Invocation, checkpoint_id: str | None, failed: bool) -> None:
    """End the pending turn and move the head to its checkpoint."""
    session = invocation.session()
    ended = turns.complete(invocation.git, session, checkpoint_id, success=not failed)
    shown = _inspection(invocation).view(ended.checkpoint.id)
    _show_result(invocation, shown, f"{shown.id} {shown.status}")


@command(checkpoint, "list", session=True, examples=["yolop-cli checkpoint list --all-branches"])
@click.option("--all-branches", is_flag=True, help="Include abandoned branches.")
def list_checkpoints(invocation: Invocation, all_branches: bool) -> None:
    """List the checkpoints of the active branch, newest first.

    The head is marked with *, a pending turn with >.
    """
    inspection = _inspection(invocation)
    state = inspection.timeline.state
    views = inspection.views(all_branches=all_branches)
    screen = invocation.screen

    def mark(one: CheckpointView) -> str:
        return "*" if one.id == state.head else ">" if one.id == state.pending else " " if one.active else "x"

    def created(one: CheckpointView) -> str:
        return text.day(one.created_at) if screen.terminal else one.created_at[:19]

    def render() -> None:
        screen.table(
            ("", "ID", "STATUS", "CREATED", "FILES", "PROMPT"),
            [
                (mark(one), one.id, one.status, created(one), _files(one), text.clip(one.prompt, 60))
                for one in views
            ],
            flexible="PROMPT",
            optional=("CREATED",),
            empty="no checkpoints",
        )

    value = {
        "session_id": inspection.session.id,
        "head": state.head,
        "checkpoints": [one.to_json() for one in views],
    }
    screen.result(value, render)


@command(checkpoint, "show", session=True, examples=["yolop-cli checkpoint show cp_1_1 --json"])
@click.argument("checkpoint_id", metavar="ID", shell_complete=candidates.checkpoints)
def show(invocation: Invocation, checkpoint_id: str) -> None:
    """Show one checkpoint in full."""
    inspection = _inspection(invocation)
    one = inspection.view(checkpoint_id)
    state = inspection.timeline.state
    children = [each for each, node in state.nodes.items() if node.checkpoint.parent == checkpoint_id]
    screen = invocation.screen

    def render() -> None:
        workspace = one.workspace
        rows = [
            ("checkpoint", one.id),
            ("parent", one.parent or "-"),
            ("children", ", ".join(children) or "-"),
            ("status", f"{one.status}{'' if one.active else ', not on the active branch'}"),
            ("created", one.created_at),
            ("events", f"{one.event_start} to {'now' if one.event_end is None else one.event_end}"),
            ("files", _held(workspace)),
            ("ref", workspace.reference or "-"),
        ]
        for name, shown in rows:
            screen.field(name, text.clean(shown), 12)
        screen.line()
        for line in one.prompt.split("\n"):
            screen.line(f"    {text.clean(line)}")

    value = {
        "session_id": inspection.session.id,
        "checkpoint": one.to_json(),
        "snapshot_error": inspection.checkpoint(checkpoint_id).snapshot_error,
        "children": children,
    }
    screen.result(value, render)


@command(
    checkpoint,
    "diff",
    session=True,
    examples=[
        "yolop-cli checkpoint diff cp_1_1",
        "yolop-cli checkpoint diff cp_1_1 cp_3_2 --stat",
        "yolop-cli checkpoint diff cp_1_1 --patch > turn.patch",
    ],
)
@click.argument("checkpoint_id", metavar="ID", shell_complete=candidates.checkpoints)
@click.argument("other", required=False, shell_complete=candidates.checkpoints)
@click.option("--workspace", is_flag=True, help="Compare with the files as they are now (the default).")
@click.option("--stat", "form", flag_value="stat", help="Show lines added and removed for each path.")
@click.option(
    "--name-status", "form", flag_value="name-status", help="Show how each path changed (the default)."
)
@click.option("--patch", "form", flag_value="patch", help="Show the whole difference as a patch.")
@click.option("--exit-code", is_flag=True, help="Exit 1 when there is a difference.")
def diff(
    invocation: Invocation,
    checkpoint_id: str,
    other: str | None,
    workspace: bool,
    form: str | None,
    exit_code: bool,
) -> int:
    """Compare the files of a checkpoint with the current files, or with another checkpoint."""
    if workspace and other is not None:
        raise click.UsageError("give OTHER or --workspace, not both")
    inspection = _inspection(invocation)
    with compare.checkpoints(inspection, checkpoint_id, other) as comparison:
        _show_comparison(invocation, inspection, comparison, (checkpoint_id, other), form or "name-status")
        return 1 if exit_code and comparison.changes else 0


@command(
    checkpoint, "cat", session=True, examples=["yolop-cli checkpoint cat cp_1_1 notes.txt > notes.txt.old"]
)
@click.argument("checkpoint_id", metavar="ID", shell_complete=candidates.checkpoints)
@click.argument("path", shell_complete=candidates.held_paths)
def cat(invocation: Invocation, checkpoint_id: str, path: str) -> None:
    """Print one file of a checkpoint, byte for byte, or the target of a link.

    On a terminal, control characters are escaped.
    """
    inspection = _inspection(invocation)
    wanted = inspection.relative(path)
    found = inspection.entries(checkpoint_id, [wanted])
    of = {"session_id": inspection.session.id, "checkpoint_id": checkpoint_id}
    taking_out.print_file(invocation.screen, of, found, wanted, inspection.source(checkpoint_id))


@command(
    checkpoint,
    "extract",
    session=True,
    examples=[
        "yolop-cli checkpoint extract cp_1_1 ../old",
        "yolop-cli checkpoint extract cp_5_3 ../notes shopping.txt",
    ],
)
@click.argument("checkpoint_id", metavar="ID", shell_complete=candidates.checkpoints)
@click.argument("destination", metavar="DEST", shell_complete=candidates.directories)
@click.argument("wanted", metavar="[PATH]...", nargs=-1, shell_complete=candidates.held_paths)
def extract(invocation: Invocation, checkpoint_id: str, destination: str, wanted: tuple[str, ...]) -> None:
    """Write the files of a checkpoint below DEST: all, or those at and below each PATH.

    Existing files are never overwritten.
    """
    inspection = _inspection(invocation)
    found = inspection.entries(checkpoint_id, [inspection.relative(path) for path in wanted])
    of = {"session_id": inspection.session.id, "checkpoint_id": checkpoint_id}
    target = invocation.places.here / destination
    taking_out.write_files(invocation.screen, of, found, target, inspection.source(checkpoint_id))


@command(
    checkpoint,
    "verify",
    session=True,
    examples=["yolop-cli checkpoint verify", "yolop-cli checkpoint verify cp_1_1"],
)
@click.argument("wanted", metavar="[ID]...", nargs=-1, shell_complete=candidates.checkpoints)
def verify(invocation: Invocation, wanted: tuple[str, ...]) -> int:
    """Check that the ref, the tree and every blob of each checkpoint exist and are intact.

    Without ID, check every checkpoint of every branch. Exit 1 if something is wrong.
    """
    from yolop_cli.cli.checkpoint_verify import report

    inspection = _inspection(invocation)
    return report(invocation.screen, inspection, list(wanted))


@command(checkpoint, "delete", session=True, examples=["yolop-cli checkpoint delete cp_1_1"])
@click.argument("checkpoint_id", metavar="ID", shell_complete=candidates.checkpoints)
def delete(invocation: Invocation, checkpoint_id: str) -> None:
    """Delete the snapshot of a checkpoint; its record stays, as conversation-only.

    Git removes the content at its next garbage collection, unless something else refers to it.
    """
    session = invocation.session()
    reference = turns.drop_snapshot(invocation.git, session, checkpoint_id)
    one = _inspection(invocation).view(checkpoint_id)
    screen = invocation.screen
    value = {"session_id": session.id, "checkpoint": one.to_json(), "deleted_reference": reference}
    said = f"deleted {reference}" if reference else f"{checkpoint_id} had no snapshot"
    screen.result(value, lambda: screen.record(said, 2))


def _inspection(invocation: Invocation) -> Inspection:
    session = invocation.session()
    return Inspection(invocation.git, session, timeline_file.load(session))


def _held(workspace: WorkspaceView) -> str:
    if not workspace.available:
        return f"none: {workspace.reason}"
    return f"snapshot {workspace.snapshot_id}" if workspace.kind == "store" else f"tree {workspace.tree}"


def _files(one: CheckpointView) -> str:
    return one.workspace.kind or "-" if one.workspace.available else "conversation-only"


def _show_result(invocation: Invocation, one: CheckpointView, said: str) -> None:
    value = {"session_id": invocation.session().id, "checkpoint": one.to_json()}
    kept = one.workspace.reference or one.workspace.snapshot_id
    files = f", files in {kept}" if one.workspace.available else ""
    invocation.screen.result(value, lambda: invocation.screen.record(f"{said}{files}", 2))


def _show_comparison(
    invocation: Invocation,
    inspection: Inspection,
    comparison: Comparison,
    ids: tuple[str, str | None],
    form: str,
) -> None:
    screen = invocation.screen
    numbers = comparison.numbers() if screen.as_json or form == "stat" else {}
    patch = comparison.patch(color=screen.color and not screen.as_json) if form == "patch" else None

    def render() -> None:
        if patch is not None:
            screen.content(patch, styled=screen.color)
            return
        for change in comparison.changes:
            path = text.path(change.path)
            if form == "stat":
                added, removed = numbers.get(change.path, (None, None))
                screen.line(text.line_counts(added, removed, path))
            else:
                screen.line(f"{_LETTERS[change.change]}\t{path}")

    value = {
        "session_id": inspection.session.id,
        "from": {"checkpoint_id": ids[0], "tree": comparison.old},
        "to": {"checkpoint_id": ids[1], "tree": comparison.new},
        "changes": [
            {
                "path": paths.to_json(change.path),
                "change": change.change,
                "insertions": numbers.get(change.path, (None, None))[0],
                "deletions": numbers.get(change.path, (None, None))[1],
            }
            for change in comparison.changes
        ],
        "counts": counts(comparison.changes),
        "patch": None if patch is None else patch.decode("utf-8", "backslashreplace"),
    }
    screen.result(value, render)


def counts(changes: list[TreeChange]) -> dict[str, int]:
    """How many paths were added, modified (type and mode too) and deleted."""
    added = sum(change.change == "added" for change in changes)
    deleted = sum(change.change == "deleted" for change in changes)
    return {"added": added, "modified": len(changes) - added - deleted, "deleted": deleted}
