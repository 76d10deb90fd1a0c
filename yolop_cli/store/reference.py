"""What the journal of a session says of a snapshot, and the checks before it is believed."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground.errors import NotFoundError, RefusedError
from yolop_cli.ground.paths import resolved
from yolop_cli.store import manifest
from yolop_cli.store.layout import Store, is_snapshot_id, is_workspace_id
from yolop_cli.store.manifest import Manifest


@dataclass(frozen=True)
class Reference:
    """``file_snapshot`` of a checkpoint: the snapshot, and the workspace and root it was taken in."""

    id: str
    workspace_id: str
    root: Path


def reference_to(store: Store, snapshot: Manifest) -> Reference:
    """What a checkpoint is to keep about a snapshot of this store."""
    return Reference(snapshot.id, store.workspace_id, store.root)


def referred(
    store: Store, reference: Reference, sessions: Collection[str], checkpoints: Collection[str] | None
) -> Manifest:
    """The snapshot a checkpoint refers to.

    ``sessions`` are the session and those it was forked from, ``checkpoints`` the ids the checkpoint has or
    had there (None for any: a safety snapshot belongs to its session). Raises ``RefusedError`` when the
    reference is malformed, forged, names another workspace, root, session or checkpoint, or a snapshot that
    was pruned; ``StorageError`` when the manifest is damaged.
    """
    is_path = b"\0" not in os.fsencode(reference.root)
    if not (is_path and is_snapshot_id(reference.id) and is_workspace_id(reference.workspace_id)):
        raise _refused(reference, "it is not a reference to a snapshot")
    try:
        snapshot = manifest.load(store, reference.id)
    except NotFoundError:
        raise _refused(reference, "there is no such snapshot (any more)") from None
    root = os.fsencode(resolved(reference.root))
    homes = [(snapshot.workspace_id, snapshot.root)]
    if snapshot.origin is not None:
        homes.append((snapshot.origin.workspace_id, snapshot.origin.root))
    if (reference.workspace_id, root) not in homes:
        raise _refused(reference, "it names another workspace or directory")
    if (snapshot.workspace_id, snapshot.root) != (store.workspace_id, os.fsencode(store.root)):
        raise _refused(reference, "the snapshot was taken of another directory")
    known = checkpoints is None or snapshot.label.checkpoint_id in checkpoints
    if snapshot.label.session_id not in sessions or not known:
        raise _refused(reference, "the snapshot was taken for another session or checkpoint")
    return snapshot


def _refused(reference: Reference, why: str) -> RefusedError:
    return RefusedError(
        f"the file snapshot of this checkpoint is refused: {why}",
        hint="the conversation alone can still be rewound",
        details={"snapshot_id": reference.id},
    )
