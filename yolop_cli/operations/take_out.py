"""Take files out of a snapshot, wherever it is kept: which ones, their content, written below a directory."""

from __future__ import annotations

from collections.abc import Sequence

from yolop_cli.homes.stored_files import SnapshotFiles
from yolop_cli.store import Manifest, Store
from yolop_cli.trees.extract import Source, extract
from yolop_cli.trees.selection import relative, select
from yolop_cli.trees.tree import Content, Entry

__all__ = ["Content", "Entry", "Source", "extract", "of_snapshot", "relative"]


def of_snapshot(store: Store, manifest: Manifest, wanted: Sequence[str]) -> tuple[list[Entry], Source]:
    """The files and links of a snapshot at and below the paths wanted (all when none is), and their content.

    Raises ``DeniedError`` for a path outside the root, ``NotFoundError`` for one the snapshot does not hold.
    """
    held = SnapshotFiles(store, manifest)
    chosen = [relative(path, lambda: store.root) for path in wanted]
    return select(held.entries(), chosen, manifest.id), held.with_content
