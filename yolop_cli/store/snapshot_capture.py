"""Taking a snapshot: one walk, packs made durable, and last the manifest that names them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from yolop_cli.ground import clock
from yolop_cli.store import disk, last_state, locks, manifest
from yolop_cli.store.layout import Store, new_snapshot_id
from yolop_cli.store.locks import Marker
from yolop_cli.store.manifest import SNAPSHOT, Label, Manifest, Rules
from yolop_cli.store.packs import Packs, PackWriter
from yolop_cli.store.walk import Progress, Scan, Scope, walk

_NONE = "there is no new snapshot"


@dataclass(frozen=True)
class Capture:
    """What a walk found, with everything it read waiting to be committed."""

    scan: Scan
    writer: PackWriter
    marker: Marker
    started: float


def create(
    store: Store,
    *,
    label: Label | None = None,
    rules: Rules | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Take a snapshot of the store's root.

    Raises ``BusyError`` while a restore changes the files or a collection runs, ``StorageError`` when the
    system fails; there is then no snapshot, and what was written is left to the next collection.
    """
    with (
        disk.reporting("take a snapshot", "there is no new snapshot"),
        locks.working(store, "create") as marker,
    ):
        with locks.reading_files(store), Packs(store) as packs:
            with capturing(store, packs, Scope(rules or Rules()), marker, progress) as capture:
                return commit(store, capture, label or Label())


@contextmanager
def capturing(
    store: Store, packs: Packs, scope: Scope, marker: Marker, progress: Progress | None = None
) -> Iterator[Capture]:
    """Walk and read; what was read is taken back at the end of the block unless it was committed."""
    started = time.monotonic()
    with PackWriter(store, packs) as writer:
        scan = walk(store, scope, last_state.load(store), writer, progress)
        yield Capture(scan, writer, marker, started)


def commit(store: Store, capture: Capture, label: Label, kind: str = SNAPSHOT) -> Manifest:
    """Make a capture a snapshot: objects durable first, then the manifest, then the state for the next."""
    scan, writer = capture.scan, capture.writer
    writer.finish()
    spent = int((time.monotonic() - capture.started) * 1000)
    made = Manifest(
        id=new_snapshot_id(),
        created_at=clock.now(),
        workspace_id=store.workspace_id,
        root=os.fsencode(store.root),
        tree=scan.tree,
        kind=kind,
        label=label,
        rules=scan.rules,
        skipped=scan.skipped,
        stats=replace(scan.stats, stored_bytes=writer.stored_bytes, duration_ms=spent),
    )
    manifest.save(store, made)
    last_state.save(store, made.id, scan.rules.exclude, scan.records(capture.marker.began_ns))
    return made
