"""What a restore would do, as data: compared from a walk of the files and the trees of a snapshot.

The plan is made before anything changes, so that a dry run reports exactly what the restore then does, and
refuses exactly what it refuses.

Different in kind from ``trees.tree_plan``: directories and all mode bits count here, a path is left alone for
an exclude pattern or a skip of the snapshot, and no ignore rule and no git has a say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from yolop_cli.ground.errors import DeniedError
from yolop_cli.ground.paths import ancestors, show, to_json
from yolop_cli.store import disk, mounts
from yolop_cli.store.excludes import ALWAYS, Matcher, excluded_at_any_level
from yolop_cli.store.file_reader import UNREADABLE
from yolop_cli.store.last_state import Row
from yolop_cli.store.layout import HOME, Store
from yolop_cli.store.listing import DIRECTORY, Entry, Listing
from yolop_cli.store.manifest import Manifest
from yolop_cli.store.walk import EXCLUDED, SPECIAL, Directory, Scan

ADDED, MODIFIED, DELETED, TYPE, MODE = "added", "modified", "deleted", "type", "mode"
ReadListing = Callable[[str], Listing]


@dataclass(frozen=True)
class Change:
    """One path that is to change: what it is now (None when it is not there), and what it will be."""

    path: bytes
    change: str
    before: Entry | None
    after: Entry | None


@dataclass(frozen=True)
class Kept:
    """A path that is left alone, with everything under it, and why."""

    path: bytes
    why: str


@dataclass(frozen=True)
class RestorePlan:
    """Every change, in the order of paths, and what is left alone.

    ``unchanged`` counts files and links that are already as the snapshot has them; ``opened`` are directories
    made read-only since, with their modes; they are writable while the restore runs.
    """

    snapshot_id: str
    current_tree: str
    target_tree: str
    changes: tuple[Change, ...]
    kept: tuple[Kept, ...]
    unchanged: int
    opened: Mapping[bytes, int] = field(default_factory=dict)
    seen: Mapping[bytes, Row] = field(default_factory=dict, compare=False, repr=False)

    @property
    def restored(self) -> tuple[bytes, ...]:
        """The paths that get what the snapshot has there."""
        return tuple(change.path for change in self.changes if change.after is not None)

    @property
    def deleted(self) -> tuple[bytes, ...]:
        """The paths that go, because the snapshot has nothing there."""
        return tuple(change.path for change in self.changes if change.after is None)

    @property
    def largest(self) -> int:
        """The size of the largest file written, replaced or deleted."""
        entries = (entry for change in self.changes for entry in (change.before, change.after))
        return max((entry.size for entry in entries if entry is not None), default=0)


def compare(
    store: Store, scan: Scan, target: Manifest, listing: ReadListing, excluded_here: Matcher | None = None
) -> RestorePlan:
    """The plan that takes the files a walk saw to what a snapshot holds.

    ``excluded_here`` are the excludes that every snapshot of the workspace obeys, whatever ``target`` did.
    Raises ``DeniedError`` with the paths when a change could not be undone from a safety snapshot, or a
    directory cannot be read or written; ``StorageError`` when a tree is missing or damaged.
    """
    comparison = _Comparison(scan, listing)
    comparison.run(target.tree)
    changes = tuple(sorted(comparison.changes, key=lambda change: change.path))
    denied = comparison.denied
    if excluded_here is not None:
        denied += _excluded(changes, excluded_here)
    denied += _mounted(store, changes)
    opened = _opened(store, scan, changes, denied)
    _refuse(denied)
    touched = sum(1 for change in changes if change.before and change.before.type != DIRECTORY)
    return RestorePlan(
        target.id,
        scan.tree,
        target.tree,
        changes,
        tuple(sorted(comparison.kept, key=lambda kept: kept.path)),
        sum(len(at.files) + len(at.links) for at in scan.directories) - touched - comparison.files_kept,
        opened,
        comparison.seen,
    )


class _Comparison:
    def __init__(self, scan: Scan, listing: ReadListing):
        self.scan, self.listing = scan, listing
        self.changes: list[Change] = []
        self.kept: list[Kept] = []
        self.denied: list[tuple[bytes, str]] = []
        self.seen: dict[bytes, Row] = {}
        self.files_kept = 0
        self.holding: dict[bytes, bytes] = {}  # directories with something in them that is left alone
        for at in scan.directories:
            for name, reason in at.left.items():
                path = at.child(name)
                if path != HOME:
                    self.kept.append(Kept(path, reason))
                for above in ancestors(path):
                    self.holding.setdefault(above, path)

    def run(self, tree: str) -> None:
        waiting = [(self.scan.root, tree)]
        while waiting:
            directory, target = waiting.pop()
            if directory.tree != target:
                waiting.extend(self._directory(directory, target))

    def _directory(self, directory: Directory, tree: str) -> Iterator[tuple[Directory, str]]:
        listing = self.listing(tree)
        for name, after in listing.items():
            if name in ALWAYS:
                continue
            path = directory.child(name)
            if name in directory.left:
                self._in_the_way(path, directory.left[name], after)
                continue
            below = directory.below.get(name)
            if below is not None and after.type == DIRECTORY:
                if below.mode != after.mode:
                    self._change(directory, name, MODE, after)
                yield below, after.hash
            else:
                self._entry(directory, name, after)
        for name in (*directory.files, *directory.links, *directory.below):
            if name not in listing:
                self._remove(directory, name)

    def _entry(self, directory: Directory, name: bytes, after: Entry) -> None:
        before = directory.entry(name)
        if before is None:
            self._change(directory, name, ADDED, after)
        elif before.type != after.type:
            if before.type == DIRECTORY and not self._empty(directory.below[name]):
                return
            self._change(directory, name, TYPE, after)
        elif before.hash != after.hash or before.target != after.target:
            self._change(directory, name, MODIFIED, after)
        elif before.mode != after.mode:
            self._change(directory, name, MODE, after)
        if after.type == DIRECTORY:
            self._add_below(directory.child(name), after.hash)

    def _add_below(self, path: bytes, tree: str) -> None:
        waiting = [(path, tree)]
        while waiting:
            at, tree = waiting.pop()
            for name, after in self.listing(tree).items():
                if name in ALWAYS:
                    continue
                self.changes.append(Change(at + b"/" + name, ADDED, None, after))
                if after.type == DIRECTORY:
                    waiting.append((at + b"/" + name, after.hash))

    def _remove(self, directory: Directory, name: bytes) -> None:
        below = directory.below.get(name)
        if below is not None:
            holds = self.holding.get(below.path)
            if holds is not None:
                self.kept.append(Kept(below.path, "holds-kept"))
                self.files_kept += sum(len(at.files) + len(at.links) for at in _all_below(below))
                return
            self._remove_below(below)
        self._change(directory, name, DELETED, None)

    def _empty(self, directory: Directory) -> bool:
        """Plan to remove all that a directory which must give way holds; False when some of it must stay."""
        holds = self.holding.get(directory.path)
        if holds is not None:
            self.denied.append((holds, "is in a directory that would have to be removed"))
            return False
        self._remove_below(directory)
        return True

    def _remove_below(self, directory: Directory) -> None:
        for at in _all_below(directory):
            for name in (*at.files, *at.links, *at.below):
                self._change(at, name, DELETED, None)

    def _change(self, directory: Directory, name: bytes, change: str, after: Entry | None) -> None:
        path = directory.child(name)
        row = directory.files.get(name)
        if row is not None:
            self.seen[path] = row
        self.changes.append(Change(path, change, directory.entry(name), after))

    def _in_the_way(self, path: bytes, reason: str, after: Entry) -> None:
        """The snapshot holds something where a thing lies that is left alone."""
        if reason in (EXCLUDED, SPECIAL):
            return
        if reason == UNREADABLE and after.type == DIRECTORY and not self.listing(after.hash):
            return
        self.denied.append((path, f"cannot be kept in a safety snapshot: {reason}"))


def _all_below(directory: Directory) -> Iterator[Directory]:
    waiting = [directory]
    while waiting:
        at = waiting.pop()
        yield at
        waiting.extend(at.below.values())


def _excluded(changes: tuple[Change, ...], match: Matcher) -> list[tuple[bytes, str]]:
    return [
        (change.path, "is left out of every snapshot of this directory")
        for change in changes
        if excluded_at_any_level(change.path, DIRECTORY in _types(change), match)
    ]


def _mounted(store: Store, changes: tuple[Change, ...]) -> list[tuple[bytes, str]]:
    """What would have to go or give way although something is mounted there: the system refuses that."""
    going = [change.path for change in changes if change.before is not None and change.change != MODE]
    mounted = mounts.below(store.root) if going else ()
    return [(path, "is a mount point") for path in going if path in mounted]


def _types(change: Change) -> tuple[str, ...]:
    return tuple(entry.type for entry in (change.before, change.after) if entry is not None)


def _opened(
    store: Store, scan: Scan, changes: tuple[Change, ...], denied: list[tuple[bytes, str]]
) -> dict[bytes, int]:
    """The directories that must be made writable first; what cannot be is added to ``denied``."""
    there = {at.path: at.mode for at in scan.directories}
    parents = {
        change.path.rpartition(b"/")[0]
        for change in changes
        if change.change != MODE and change.path.rpartition(b"/")[0] in there
    }
    opened = {}
    for path in sorted(parents):
        with disk.directory(path, store.root_fd) as fd:
            if os.access(b".", os.W_OK | os.X_OK, dir_fd=fd, effective_ids=True):
                continue
            if os.fstat(fd).st_uid == os.geteuid():
                opened[path] = there[path]
            else:
                denied.append((path or b".", "is another user's and cannot be written"))
    denied.extend(
        (change.path, "is another user's, so its mode cannot be set")
        for change in changes
        if change.change == MODE and not _may_set_mode(store, change.path)
    )
    return opened


def _may_set_mode(store: Store, path: bytes) -> bool:
    parent, _, name = path.rpartition(b"/")
    with disk.directory(parent, store.root_fd) as at:
        return os.geteuid() in (0, os.stat(name, dir_fd=at, follow_symlinks=False).st_uid)


def _refuse(denied: list[tuple[bytes, str]]) -> None:
    if not denied:
        return
    first, why = min(denied)
    more = f" (and {len(denied) - 1} more)" if len(denied) > 1 else ""
    raise DeniedError(
        f"the restore could not be undone or carried out: {show(first)} {why}{more}",
        hint="move these paths out of the way, then try again",
        details={
            "paths": [to_json(path) for path, _ in sorted(denied)],
            "reasons": [why for _, why in sorted(denied)],
        },
    )
