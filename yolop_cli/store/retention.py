"""Which snapshots go: by id, or because there are newer ones enough."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime

from yolop_cli.ground.errors import RefusedError, YolopError
from yolop_cli.store import disk, locks, manifest
from yolop_cli.store.gc import GcPlan, collect
from yolop_cli.store.layout import Store, command
from yolop_cli.store.manifest import Manifest, load_all
from yolop_cli.store.settings import GRACE, Retention
from yolop_cli.store.snapshot_restore import interrupted


@dataclass(frozen=True)
class Pruned:
    """The snapshots that went (or would), those that stay, and the collection that followed."""

    deleted: tuple[str, ...]
    kept: tuple[str, ...]
    gc: GcPlan | None
    error: str | None = None


def plan_prune(
    manifests: Collection[Manifest],
    retention: Retention,
    protect: Collection[str] = (),
    now: datetime | None = None,
) -> tuple[Manifest, ...]:
    """The snapshots a retention lets go: beyond the newest ``keep_last``, or older than ``keep_within``.

    Both limits hold at once. ``protect`` are ids that stay whatever the limits say. Pure.
    """
    moment = now or datetime.now(UTC)
    newest_first = sorted(manifests, key=lambda item: (item.created_at, item.id), reverse=True)
    return tuple(
        item
        for place, item in enumerate(newest_first)
        if item.id not in protect
        and (
            (retention.keep_last is not None and place >= retention.keep_last)
            or (retention.keep_within is not None and item.age_seconds(moment) > retention.keep_within)
        )
    )


def prune(
    store: Store,
    retention: Retention,
    *,
    protect: Collection[str] = (),
    grace: float = GRACE,
    dry_run: bool = False,
) -> Pruned:
    """Delete what a retention lets go, then collect. What an interrupted restore needs always stays.

    Raises ``BusyError`` while a restore changes the files, ``StorageError``.
    """
    with disk.reporting("prune the snapshots", _some(store)):
        with nullcontext() if dry_run else locks.reading_files(store):  # no restore begins to need one
            manifests, _ = load_all(store)
            going = plan_prune(manifests, retention, {*protect, *_needed(store)})
            ids = tuple(item.id for item in going)
            kept = tuple(item.id for item in manifests if item.id not in ids)
            if dry_run:
                return Pruned(ids, kept, None)
            deleted = tuple(manifest.delete(store, ids))
        return Pruned(deleted, kept, collect(store, grace))


def prune_after(
    store: Store, retention: Retention, *, protect: Collection[str] = (), grace: float = GRACE
) -> Pruned | None:
    """The retention that follows a snapshot, and never fails it. None when nothing is limited or goes."""
    if retention == Retention():
        return None
    try:
        if not prune(store, retention, protect=protect, dry_run=True).deleted:
            return None
        return prune(store, retention, protect=protect, grace=grace)
    except YolopError as error:
        return Pruned((), (), None, error.message)


def delete(store: Store, snapshot_ids: tuple[str, ...], grace: float = GRACE) -> Pruned:
    """Delete snapshots by their full ids, then collect; a manifest that cannot be read may be deleted too.

    Raises ``NotFoundError`` when one is not there, ``RefusedError`` when one is needed to undo an
    interrupted restore, ``BusyError`` while a restore changes the files; nothing is deleted then.
    """
    with disk.reporting("delete the snapshots", _some(store)):
        with locks.reading_files(store):  # no restore begins to need one
            for snapshot_id in snapshot_ids:
                if not manifest.exists(store, snapshot_id):
                    manifest.load(store, snapshot_id)  # says that it is not there
                if snapshot_id in _needed(store):
                    raise RefusedError(
                        f"{snapshot_id} is needed to undo the restore that was interrupted",
                        hint=f"first put the files back with `{command(store.root, 'restore', snapshot_id)}`",
                    )
            deleted = tuple(manifest.delete(store, snapshot_ids))
        kept = tuple(reversed(manifest.snapshot_ids(store)))
        return Pruned(deleted, kept, collect(store, grace))


def _some(store: Store) -> str:
    return f"some of them may be gone; `{command(store.root, 'list')}` shows what is there"


def _needed(store: Store) -> tuple[str, ...]:
    record = interrupted(store)
    return () if record is None else (record.snapshot_id, record.safety_snapshot_id)
