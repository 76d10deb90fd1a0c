"""``yolop-cli snapshot create|list|show|diff|restore``: take snapshots, look at them, go back."""

from __future__ import annotations

import click

from yolop_cli.cli import arguments, candidates, text
from yolop_cli.cli.command import Invocation, command
from yolop_cli.cli.snapshots import document
from yolop_cli.cli.snapshots.common import (
    SizeType,
    counting,
    keep_last_option,
    keep_within_option,
    root_of,
    root_option,
    say_interrupted,
    snapshot,
    store_of,
    warn_if_interrupted,
)
from yolop_cli.ground import paths
from yolop_cli.operations import snapshot as snapshots
from yolop_cli.operations.snapshot import Label, Manifest


@command(
    snapshot,
    "create",
    session=True,
    examples=[
        "yolop-cli snapshot create --label 'before the import'",
        "yolop-cli snapshot create --root ~/site --exclude '*.log' --keep-last 50",
    ],
)
@root_option
@click.option("--label", metavar="TEXT", help="Describe what the snapshot is for.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Exclude paths that match (as in .gitignore).")
@click.option("--max-file-bytes", type=SizeType(), metavar="SIZE", help="Skip larger files. [default: 10M]")
@click.option("--refuse-hard-links", is_flag=True, help="Skip files with more than one hard link.")
@keep_last_option
@keep_within_option
def create(
    invocation: Invocation,
    root: str | None,
    label: str | None,
    exclude: tuple[str, ...],
    max_file_bytes: int | None,
    refuse_hard_links: bool,
    keep_last: int | None,
    keep_within: float | None,
) -> None:
    """Take a snapshot of the directory.

    Files unchanged since the last snapshot are not read again. .git, node_modules and .cogitator are always
    excluded, at any depth.
    """
    wishes = snapshots.Wishes(
        tuple(arguments.words(pattern) for pattern in exclude),
        max_file_bytes,
        refuse_hard_links,
        keep_last,
        keep_within,
    )
    screen, where = invocation.screen, root_of(invocation, root)
    named = Label(arguments.words(label) if label is not None else None)
    warn_if_interrupted(screen, where)
    with counting(screen, "reading") as step:
        taken = snapshots.take(where, named, wishes, step, invocation.places.sessions)
    made = taken.snapshot

    def render() -> None:
        stats = made.stats
        screen.line(screen.styled(made.id, bold=True))
        screen.line(
            f"{text.count(stats.files, 'file')}, {document.size(stats.bytes)}: {stats.hashed} read, "
            f"{stats.reused} unchanged, {document.size(stats.stored_bytes)} stored"
        )
        for item in made.skipped:
            screen.line(f"skipped ({item.reason})\t{text.path(item.path)}")
        document.say_pruned(screen, taken.pruned)

    screen.result({**document.snapshot(made), "pruned": document.pruned(taken.pruned)}, render)


@command(snapshot, "list", session=True, examples=["yolop-cli snapshot list --root ~/site"])
@root_option
def list_snapshots(invocation: Invocation, root: str | None) -> None:
    """List the snapshots of the directory, newest first."""
    screen, where = invocation.screen, root_of(invocation, root)
    manifests: list[Manifest] = []
    unreadable: dict[str, str] = {}
    record = None
    if where.is_dir() and not snapshots.has_store(where):
        where = paths.resolved(where)
    else:
        with snapshots.opened(where) as store:
            say_interrupted(screen, store)
            where, record = store.root, snapshots.interrupted(store)
            manifests, unreadable = snapshots.load_all(store)

    def render() -> None:
        screen.table(
            ("ID", "CREATED", "KIND", "FILES", "SIZE", "FOR"),
            [
                (
                    one.id,
                    one.created_at[:19],
                    one.kind,
                    str(one.stats.files),
                    document.size(one.stats.bytes),
                    text.clip(_purpose(one), 60),
                )
                for one in manifests
            ],
            flexible="FOR",
            optional=("SIZE", "FILES"),
            empty=None if unreadable else f"no snapshots of {text.path(where)}",
        )
        for name, why in unreadable.items():
            screen.warn(f"{name}: {why}")

    value = {
        "root": paths.to_json(where),
        "snapshots": [document.snapshot(one) for one in manifests],
        "unreadable": [{"id": name, "reason": why} for name, why in unreadable.items()],
        "interrupted": None
        if record is None
        else {
            "snapshot_id": record.snapshot_id,
            "safety_snapshot_id": record.safety_snapshot_id,
            "began_at": record.began_at,
        },
    }
    screen.result(value, render)


@command(snapshot, "show", session=True, examples=["yolop-cli snapshot show latest --files"])
@click.argument("snapshot_id", metavar="ID", shell_complete=candidates.snapshots)
@root_option
@click.option("--files", is_flag=True, help="List everything it holds.")
def show(invocation: Invocation, snapshot_id: str, root: str | None, files: bool) -> None:
    """Show one snapshot in full."""
    screen = invocation.screen
    with store_of(invocation, root) as store:
        one = snapshots.find(store, snapshot_id)
        entries = list(snapshots.entries(store, one)) if files else None

    def render() -> None:
        stats = one.stats
        rows = [
            ("snapshot", one.id),
            ("created", one.created_at),
            ("kind", one.kind),
            ("for", _purpose(one) or "-"),
            ("root", text.path(one.root)),
            ("tree", one.tree),
            ("files", f"{stats.files}, {document.size(stats.bytes)}"),
            ("cost", f"{stats.hashed} read, {stats.reused} unchanged, {stats.duration_ms} ms"),
            ("excludes", " ".join(one.rules.exclude) or "-"),
            ("limit", document.size(one.rules.max_file_bytes)),
        ]
        for name, shown in rows:
            screen.field(name, text.clean(shown), 10)
        for item in one.skipped:
            screen.line(f"skipped    {text.path(item.path)} ({item.reason})")
        for path, entry in entries or ():
            arrow = f" -> {text.path(entry.target)}" if entry.type == "symlink" else ""
            screen.line(f"{entry.mode:04o}\t{entry.type}\t{entry.size}\t{text.path(path)}{arrow}")

    value = {
        "snapshot": document.snapshot(one),
        "entries": None
        if entries is None
        else [
            {
                "path": paths.to_json(path),
                "type": entry.type,
                "mode": entry.mode if entry.type != "symlink" else None,
                "size": entry.size if entry.type == "file" else None,
                "object": entry.hash or None,
                "target": paths.to_json(entry.target) if entry.type == "symlink" else None,
            }
            for path, entry in entries
        ],
    }
    screen.result(value, render)


@command(
    snapshot,
    "diff",
    session=True,
    examples=[
        "yolop-cli snapshot diff latest",
        "yolop-cli snapshot diff 01a22debafcc latest --stat",
        "yolop-cli snapshot diff latest --patch > since.patch",
    ],
)
@click.argument("snapshot_id", metavar="ID", shell_complete=candidates.snapshots)
@click.argument("other", metavar="[OTHER]", required=False, shell_complete=candidates.snapshots)
@root_option
@click.option("--stat", "form", flag_value="stat", help="Show lines added and removed for each path.")
@click.option(
    "--name-status", "form", flag_value="name-status", help="Show how each path changed (the default)."
)
@click.option("--patch", "form", flag_value="patch", help="Show the whole difference as a patch.")
@click.option("--exit-code", is_flag=True, help="Exit 1 when something differs.")
def diff(
    invocation: Invocation,
    snapshot_id: str,
    other: str | None,
    root: str | None,
    form: str | None,
    exit_code: bool,
) -> int:
    """Show what changed between a snapshot and another one, or the current files.

    --stat and --patch are in git's format, which has no directories and only the executable bit of modes.
    """
    from yolop_cli.operations import compare

    screen = invocation.screen
    with store_of(invocation, root) as store:
        with counting(screen, "comparing") as step:
            base = snapshots.find(store, snapshot_id)
            second = snapshots.find(store, other) if other is not None else None
            found = snapshots.diff(store, base, second, step)
        with compare.snapshots(invocation.git, store, found, present=second is None) as comparison:
            numbers = comparison.numbers() if form == "stat" else {}
            patch = comparison.patch(color=screen.color and not screen.as_json) if form == "patch" else None
        where = store.root

    def render() -> None:
        if patch is not None:
            screen.content(patch, styled=screen.color)
        elif form == "stat":
            for path, (added, removed) in numbers.items():
                screen.line(text.line_counts(added, removed, text.path(path)))
        else:
            document.show_changes(screen, found.changes)

    value = {
        "root": paths.to_json(where),
        "from": {"snapshot_id": base.id, "tree": found.from_tree},
        "to": {"snapshot_id": second.id if second else None, "tree": found.to_tree},
        **document.changes(found.changes),
        "patch": None if patch is None else patch.decode("utf-8", "backslashreplace"),
    }
    screen.result(value, render)
    return 1 if exit_code and found.changes else 0


@command(
    snapshot,
    "restore",
    session=True,
    examples=["yolop-cli snapshot restore latest --dry-run", "yolop-cli snapshot restore 01a22debafcc"],
)
@click.argument("snapshot_id", metavar="ID", shell_complete=candidates.snapshots)
@root_option
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be done, and change nothing.")
@click.option("--force", is_flag=True, help="Continue even if other processes are at work in the directory.")
def restore(invocation: Invocation, snapshot_id: str, root: str | None, dry_run: bool, force: bool) -> None:
    """Restore the directory to a snapshot.

    A safety snapshot of the current files is taken first; restoring that one undoes this. Only what differs
    is written. If a change could not be undone, the restore is refused before anything changes.
    """
    screen, where = invocation.screen, root_of(invocation, root)
    warn_if_interrupted(screen, where)
    with counting(screen, "comparing") as step:
        done = snapshots.restore(
            where,
            snapshot_id,
            dry_run=dry_run,
            force=force,
            progress=step,
            sessions=invocation.places.sessions,
        )
    if done.writers:
        names = ", ".join(f"{writer.name} ({writer.pid})" for writer in done.writers[:5])
        went = "would be refused because of" if dry_run else "continued despite"
        screen.warn(f"the restore {went} processes at work here: {names}")

    def render() -> None:
        plan = done.plan
        document.show_changes(screen, plan.changes)
        for item in plan.kept:
            screen.line(f"kept ({item.why})\t{text.path(item.path)}")
        verb = "would be " if dry_run else ""
        screen.line(f"{len(plan.restored)} {verb}restored, {len(plan.deleted)} {verb}deleted")
        if done.safety is not None:
            undo = snapshots.command(paths.resolved(where), "restore", done.safety.id)
            screen.command("to undo this:", undo)
        document.say_pruned(screen, done.pruned)

    screen.result(document.restored(done), render)


def _purpose(one: Manifest) -> str:
    label = one.label
    return label.text or " ".join(filter(None, (label.session_id, label.checkpoint_id)))
