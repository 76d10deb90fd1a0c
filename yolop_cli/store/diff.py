"""What differs between two snapshots, or between a snapshot and the files as they are now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from yolop_cli.store import disk, last_state, locks
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import DIRECTORY, Entry, Listing
from yolop_cli.store.manifest import Manifest
from yolop_cli.store.packs import Packs
from yolop_cli.store.snapshot_plan import ADDED, DELETED, MODE, MODIFIED, TYPE, Change
from yolop_cli.store.snapshot_restore import scope_of
from yolop_cli.store.walk import Progress, walk

ReadListing = Callable[[str], Listing]


@dataclass(frozen=True)
class Difference:
    """The two trees and every path at which they differ, in the order of paths."""

    from_tree: str
    to_tree: str
    changes: tuple[Change, ...]


def entries(store: Store, snapshot: Manifest) -> list[tuple[bytes, Entry]]:
    """All that a snapshot holds, in the order of paths. Raises ``StorageError`` when a listing is damaged."""
    with disk.reporting("list the snapshot"), locks.working(store, "show"), Packs(store) as packs:
        empty = ""
        changes = _changes(empty, snapshot.tree, packs.listing)
        found = [(change.path, change.after) for change in changes if change.after is not None]
        return sorted(found, key=lambda item: item[0])


def diff(
    store: Store, base: Manifest, other: Manifest | None = None, progress: Progress | None = None
) -> Difference:
    """From ``base`` to ``other``, or to the files as they are now, seen by the rules of ``base``.

    Raises ``StorageError`` when a listing is missing or damaged, ``BusyError`` while a restore changes the
    files.
    """
    with disk.reporting("compare"), locks.working(store, "diff"), Packs(store) as packs:
        if other is not None:
            return _difference(base.tree, other.tree, packs.listing)
        with locks.reading_files(store):
            scan = walk(store, scope_of(base, packs), last_state.load(store), progress=progress)
        present = {at.tree: at for at in scan.directories}

        def listing(digest: str) -> Listing:
            return present[digest].listing() if digest in present else packs.listing(digest)

        return _difference(base.tree, scan.tree, listing)


def _difference(before: str, after: str, listing: ReadListing) -> Difference:
    changes = sorted(_changes(before, after, listing), key=lambda change: change.path)
    return Difference(before, after, tuple(changes))


def _changes(before: str, after: str, listing: ReadListing) -> Iterator[Change]:
    waiting: list[tuple[bytes, str | None, str | None]] = [(b"", before, after)]
    while waiting:
        prefix, old_tree, new_tree = waiting.pop()
        if old_tree == new_tree:
            continue
        old = listing(old_tree) if old_tree else {}
        new = listing(new_tree) if new_tree else {}
        for name in old.keys() | new.keys():
            path, was, now = prefix + name, old.get(name), new.get(name)
            kind = _kind(was, now)
            if kind is not None:
                yield Change(path, kind, was, now)
            waiting.append((path + b"/", _tree(was), _tree(now)))


def _kind(was: Entry | None, now: Entry | None) -> str | None:
    if was is None:
        return ADDED
    if now is None:
        return DELETED
    if was.type != now.type:
        return TYPE
    if was.type != DIRECTORY and (was.hash, was.target) != (now.hash, now.target):
        return MODIFIED
    return MODE if was.mode != now.mode else None


def _tree(entry: Entry | None) -> str | None:
    return entry.hash if entry is not None and entry.type == DIRECTORY else None
