"""``yolop-cli snapshot delete|prune|gc|verify|repair|copy``: keep the store small and whole."""

from __future__ import annotations

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, command
from yolop_cli.cli.snapshots import document
from yolop_cli.cli.snapshots.common import (
    counted,
    grace_option,
    keep_last_option,
    keep_within_option,
    root_option,
    snapshot,
    store_of,
)
from yolop_cli.ground import paths
from yolop_cli.ground.errors import UsageError
from yolop_cli.operations import snapshot as snapshots
from yolop_cli.operations.snapshot import Retention, Store

_DRY_RUN = click.option("-n", "--dry-run", is_flag=True, help="Show what would be done, and change nothing.")


@command(snapshot, "delete", session=True, examples=["yolop-cli snapshot delete 01a22debafcc"])
@click.argument("snapshot_ids", metavar="ID...", nargs=-1, required=True, shell_complete=candidates.snapshots)
@root_option
@grace_option
def delete(
    invocation: Invocation, snapshot_ids: tuple[str, ...], root: str | None, grace: float | None
) -> None:
    """Delete snapshots, then the contents that no other snapshot uses."""
    screen = invocation.screen
    with store_of(invocation, root) as store:
        ids = tuple(dict.fromkeys(_id(store, each) for each in snapshot_ids))
        done = snapshots.delete(store, ids, _grace(store, grace))

    def render() -> None:
        screen.line(f"{text.count(len(done.deleted), 'snapshot')} deleted")
        if done.gc is not None:
            document.show_gc(screen, done.gc, dry_run=False)

    screen.result(document.pruned(done), render)


@command(
    snapshot,
    "prune",
    session=True,
    examples=["yolop-cli snapshot prune --keep-last 50 --keep-within 14d --dry-run"],
)
@root_option
@keep_last_option
@keep_within_option
@click.option(
    "--protect",
    multiple=True,
    metavar="ID",
    shell_complete=candidates.snapshots,
    help="Keep this snapshot whatever the limits.",
)
@grace_option
@_DRY_RUN
def prune(
    invocation: Invocation,
    root: str | None,
    keep_last: int | None,
    keep_within: float | None,
    protect: tuple[str, ...],
    grace: float | None,
    dry_run: bool,
) -> None:
    """Delete the snapshots beyond the limits, then the contents that no other snapshot uses.

    Both limits apply: with --keep-last 50 --keep-within 14d, the newest 50 are kept unless they are older
    than 14 days. Without a limit, the settings of the directory apply.
    """
    screen = invocation.screen
    with store_of(invocation, root) as store:
        limits = Retention(keep_last, keep_within)
        if limits == Retention():
            limits = snapshots.load_settings(store.root).retention
        if limits == Retention():
            raise UsageError("no limit is set", hint="give --keep-last N, --keep-within TIME or both")
        protected = [_id(store, each) for each in protect]
        protected += snapshots.needed(store, invocation.places.sessions)
        done = snapshots.prune(store, limits, protect=protected, grace=_grace(store, grace), dry_run=dry_run)

    def render() -> None:
        for each in done.deleted:
            screen.line(each)
        verb = "would be deleted" if dry_run else "deleted"
        screen.line(f"{text.count(len(done.deleted), 'snapshot')} {verb}, {len(done.kept)} kept")
        if done.gc is not None:
            document.show_gc(screen, done.gc, dry_run=False)

    screen.result(document.pruned(done, dry_run=dry_run), render)


@command(snapshot, "gc", session=True, examples=["yolop-cli snapshot gc --grace 0"])
@root_option
@grace_option
@_DRY_RUN
def gc(invocation: Invocation, root: str | None, grace: float | None, dry_run: bool) -> None:
    """Delete contents that no snapshot uses, and what a crash left behind.

    While another process is using the store, the deletion is postponed.
    """
    screen = invocation.screen
    with store_of(invocation, root) as store:
        plan = snapshots.collect(store, _grace(store, grace), dry_run=dry_run)
    screen.result(document.gc(plan, dry_run=dry_run), lambda: document.show_gc(screen, plan, dry_run=dry_run))


@command(snapshot, "verify", session=True, examples=["yolop-cli snapshot verify --quick"])
@root_option
@click.option("--quick", is_flag=True, help="Check only that the contents exist, without reading them.")
def verify(invocation: Invocation, root: str | None, quick: bool) -> int:
    """Check that every snapshot is complete and every content matches its hash.

    Nothing is changed. Exit 1 if something is wrong.
    """
    screen = invocation.screen
    with store_of(invocation, root) as store:
        with counted(screen, "checking") as step:
            found = snapshots.verify(store, quick=quick, progress=step)
        where = store.root

    def render() -> None:
        for item in found.findings:
            about = f" {text.path(item.path)}" if item.path else ""
            screen.folded(f"{item.severity} {item.code}{about}: {text.clean(item.message)}", 4)
            for each in item.snapshots:
                screen.line(f"    in {each}")
            if item.fix:
                screen.command("    fix:", f"yolop-cli {item.fix}")
        screen.line(
            f"{text.count(found.snapshots, 'snapshot')}, {text.count(found.objects, 'object')}, "
            f"{document.size(found.bytes_read)} read: {'ok' if found.ok else 'damaged'}"
        )

    screen.result({"root": paths.to_json(where), **document.verified(found, quick=quick)}, render)
    return 0 if found.ok else 1


@command(snapshot, "repair", session=True, examples=["yolop-cli snapshot repair --apply"])
@root_option
@click.option("--apply", is_flag=True, help="Carry out the plan.")
def repair(invocation: Invocation, root: str | None, apply: bool) -> int:
    """Repair the store from the files that are still in the directory.

    Damaged packs are kept in damaged/. Without --apply, only show the plan. Exit 1 if there is something to
    do, or if something remains damaged.
    """
    screen = invocation.screen
    with store_of(invocation, root) as store:
        plan = snapshots.repair(store, apply=apply)

    def render() -> None:
        for item in plan.lost:
            cure = f"from {text.path(item.source)}" if item.source is not None else "cannot be recovered"
            screen.line(f"{text.path(item.path or b'')}\t{item.object[:12]}\t{cure}")
        for name in plan.aside:
            screen.line(f"set aside\t{name.decode()}")
        for path in plan.modes:
            screen.line(f"make private\t{text.path(path)}")
        if plan.config:
            screen.line("rewrite\tconfig.json")
        for each in plan.incomplete:
            screen.line(f"remains incomplete\t{each}")
        for words in plan.by_hand:
            screen.line(f"cannot be repaired here\t{text.clean(words)}")
        if not plan.is_needed:
            left = plan.incomplete or plan.by_hand
            screen.line("nothing more can be repaired from the files" if left else "nothing to do")
        elif not apply:
            screen.line("nothing was changed; use --apply to carry this out")

    screen.result(document.repaired(plan, applied=apply), render)
    return 1 if (plan.is_needed and not apply) or plan.incomplete or plan.by_hand else 0


@command(snapshot, "copy", session=True, examples=["yolop-cli snapshot copy latest --to ~/elsewhere"])
@click.argument("snapshot_id", metavar="ID", shell_complete=candidates.snapshots)
@click.option(
    "--to",
    "target_root",
    metavar="DIR",
    shell_complete=candidates.directories,
    required=True,
    help="Copy into the store of this directory.",
)
@root_option
@_DRY_RUN
def copy(invocation: Invocation, snapshot_id: str, target_root: str, root: str | None, dry_run: bool) -> None:
    """Copy a snapshot with its contents into the store of another directory.

    It keeps its id; no file of that directory is changed.
    """
    screen, where = invocation.screen, invocation.places.here / target_root
    with store_of(invocation, root) as source:
        one = snapshots.find(source, snapshot_id)
        made_for_plan = dry_run and not snapshots.has_store(where)
        if made_for_plan:
            done = snapshots.plan_copy(source, one)
        else:
            with snapshots.opened(where, create=True) as target:
                done = snapshots.copy(source, one, target, dry_run=dry_run)

    def render() -> None:
        verb = "would be copied" if dry_run else "copied"
        if done.already_there:
            screen.line(f"{one.id} is already there")
        else:
            amount = f"{text.count(done.objects, 'object')}, {document.size(done.stored_bytes)}"
            screen.line(f"{one.id} {verb}: {amount}")

    value = {
        "snapshot": document.snapshot(done.manifest),
        "to": paths.to_json(where),
        "objects": done.objects,
        "stored_bytes": done.stored_bytes,
        "already_there": done.already_there,
        "dry_run": dry_run,
    }
    screen.result(value, render)


def _id(store: Store, given: str) -> str:
    return snapshots.find(store, given).id if given == "latest" else snapshots.find_id(store, given)


def _grace(store: Store, given: float | None) -> float:
    return snapshots.load_settings(store.root).grace if given is None else given
