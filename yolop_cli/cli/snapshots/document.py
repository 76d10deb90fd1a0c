"""What the snapshot commands print, as JSON and as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from yolop_cli.cli import text
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.operations import snapshot as snapshots
from yolop_cli.operations.snapshot import Change, GcPlan, Manifest, Pruned, RepairPlan, Verified

LETTERS = {"added": "A", "modified": "M", "deleted": "D", "type": "T", "mode": "m"}
_COLORS = {"added": "green", "deleted": "red"}
_SHOWN = 200


def snapshot(manifest: Manifest) -> dict[str, Any]:
    """A snapshot, as its manifest has it."""
    return {key: value for key, value in snapshots.to_document(manifest).items() if key != "format"}


def changes(found: Iterable[Change]) -> dict[str, Any]:
    """Changed paths, and how many of them were added, changed and deleted."""
    listed = list(found)
    kinds = [change.change for change in listed]
    return {
        "changes": [{"path": paths.to_json(change.path), "change": change.change} for change in listed],
        "counts": {
            "added": kinds.count("added"),
            "modified": len(kinds) - kinds.count("added") - kinds.count("deleted"),
            "deleted": kinds.count("deleted"),
        },
    }


def gc(plan: GcPlan, *, dry_run: bool) -> dict[str, Any]:
    """A collection, or the plan of one."""
    return {
        "dry_run": dry_run,
        "deferred": list(plan.deferred),
        "unreadable": list(plan.unreadable),
        "deleted": 0 if plan.deferred else plan.deleted,
        "freed_bytes": 0 if plan.deferred else plan.freed_bytes,
        "leftovers": len(plan.leftovers),
        "kept": plan.kept,
        "waiting": plan.waiting,
    }


def pruned(done: Pruned | None, *, dry_run: bool = False) -> dict[str, Any] | None:
    """The snapshots that went, and the collection that followed."""
    if done is None:
        return None
    return {
        "dry_run": dry_run,
        "deleted": list(done.deleted),
        "kept": list(done.kept),
        "gc": None if done.gc is None else gc(done.gc, dry_run=dry_run),
        "error": done.error,
    }


def restored(done: snapshots.Restored) -> dict[str, Any]:
    """A restore, or the plan of one."""
    plan = done.plan
    return {
        "snapshot_id": plan.snapshot_id,
        "dry_run": done.dry_run,
        "restored": [paths.to_json(path) for path in plan.restored],
        "deleted": [paths.to_json(path) for path in plan.deleted],
        **changes(plan.changes),
        "unchanged": plan.unchanged,
        "kept": [{"path": paths.to_json(item.path), "why": item.why} for item in plan.kept],
        "busy": done.is_busy,
        "writers": [writer.to_json() for writer in done.writers],
        "safety_snapshot_id": None if done.safety is None else done.safety.id,
        "pruned": pruned(done.pruned),
    }


def verified(found: Verified, *, quick: bool) -> dict[str, Any]:
    """What a check found."""
    return {
        "quick": quick,
        "snapshots": found.snapshots,
        "objects": found.objects,
        "bytes_read": found.bytes_read,
        "findings": [
            {
                "code": item.code,
                "severity": item.severity,
                "message": item.message,
                "object": item.object,
                "path": None if item.path is None else paths.to_json(item.path),
                "snapshots": list(item.snapshots),
                "fix": item.fix,
            }
            for item in found.findings
        ],
        "ok": found.ok,
    }


def repaired(plan: RepairPlan, *, applied: bool) -> dict[str, Any]:
    """A repair, or the plan of one."""
    return {
        "applied": applied,
        "needed": plan.is_needed,
        "lost": [
            {
                "object": item.object,
                "path": None if item.path is None else paths.to_json(item.path),
                "snapshots": list(item.snapshots),
                "source": None if item.source is None else paths.to_json(item.source),
            }
            for item in plan.lost
        ],
        "set_aside": [name.decode() for name in plan.aside],
        "modes": [paths.to_json(path) for path in plan.modes],
        "incomplete": list(plan.incomplete),
        "unreadable": list(plan.unreadable),
        "config": plan.config,
        "by_hand": list(plan.by_hand),
    }


def size(number: int) -> str:
    """Bytes for people: ``12 B``, ``3.4 KiB``, ``56 MiB``."""
    value, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if value >= 10 or units[0] == "B" else f"{value:.1f} {units[0]}"


def show_changes(screen: Screen, found: Iterable[Change]) -> None:
    """One line a path, the first 200 of them on a terminal."""
    listed = list(found)
    shown = listed[:_SHOWN] if screen.terminal else listed
    for change in shown:
        letter = screen.styled(LETTERS[change.change], fg=_COLORS.get(change.change, "yellow"))
        screen.line(f"{letter}\t{text.path(change.path)}")
    if len(shown) < len(listed):
        screen.line(f"... and {len(listed) - len(shown)} more (pipe or --json shows all)")


def say_pruned(screen: Screen, done: Pruned | None) -> None:
    """What a retention did, if anything."""
    if done is None:
        return
    if done.error is not None:
        screen.warn(f"older snapshots could not be pruned: {done.error}")
    elif done.deleted:
        screen.line(f"{text.count(len(done.deleted), 'older snapshot')} pruned")


def show_gc(screen: Screen, plan: GcPlan, *, dry_run: bool) -> None:
    """What a collection did, or why it left its sweep for later."""
    for name in plan.unreadable:
        screen.warn(f"{name} cannot be read completely; what it still refers to is kept")
    if plan.deferred:
        screen.folded(f"garbage collection postponed: {text.clean(', '.join(plan.deferred))}", 2)
        return
    done = "would be" if dry_run else "were"
    screen.line(
        f"{text.count(plan.deleted, 'object')} ({size(plan.freed_bytes)}) {done} deleted, "
        f"{plan.kept} in use, {plan.waiting} too recent"
    )
