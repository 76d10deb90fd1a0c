"""What a restore would do to a worktree, as data: the preview shows it, and apply does exactly it.

Rules of the contract ("Preview", "Ignore rules move with the files"): every path that would change is
held by the recovery tree, also one that today's rules ignore; a path that the target's rules ignore is
not deleted; what the recovery tree cannot hold stops the restore before it starts.

Different in kind from ``store.snapshot_plan``: here git compares two trees and the ignore rules decide what
stays; there a walk of the directory is compared with listings, and excludes and exact modes decide.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from yolop_cli.ground import paths
from yolop_cli.ground.errors import DeniedError
from yolop_cli.ground.git import Git, GitError
from yolop_cli.trees import tree
from yolop_cli.trees.capture import Capture, capture, tracked
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.tree import Entry, TreeChange
from yolop_cli.trees.worktree_files import Disk

_SHOWN = 20
IGNORED_BY_TARGET = "ignored by the rules of the checkpoint"
SUBMODULE = "a submodule"


@dataclass(frozen=True)
class Kept:
    """A path that a restore leaves alone, and why."""

    path: bytes
    why: str


@dataclass(frozen=True)
class RestorePlan:
    """The way from the present files (the tree ``current``) to those of a snapshot (``target``).

    ``forced`` are paths that ``current`` holds although today's rules ignore them.
    """

    current: str
    target: str
    changes: tuple[TreeChange, ...]
    kept: tuple[Kept, ...]
    forced: frozenset[bytes]
    excludes: str

    @property
    def deletions(self) -> list[TreeChange]:
        """What would be deleted."""
        return [change for change in self.changes if change.new is None]

    @property
    def writes(self) -> list[tuple[TreeChange, Entry]]:
        """What would be written, with the entry it becomes."""
        return [(change, change.new) for change in self.changes if change.new is not None]

    @property
    def digest(self) -> str:
        """A fingerprint of the plan: two plans with the same one do the same."""
        digest = hashlib.sha256(f"{self.current} {self.target}".encode())
        for change in self.changes:
            new = "" if change.new is None else f"{change.new.mode} {change.new.oid}"
            digest.update(b"\0" + change.path + b"\0" + f"{change.change} {new}".encode())
        for kept in self.kept:
            digest.update(b"\0kept\0" + kept.path)
        return digest.hexdigest()


def plan_restore(git: Git, private: PrivateGit, target: str, undone: str | None = None) -> RestorePlan:
    """Capture the present files and plan the way to ``target`` (a tree of raw bytes).

    ``undone`` is the tree that a restore had put in the place of ``target``: what that restore made, and
    nobody changed since, goes whatever the rules say.

    Raises ``DeniedError`` with the paths when a change could not be undone or leaves the root,
    ``CaptureError`` when the present files cannot be held.
    """
    present = capture(git, private)
    changes = tree.differences(git, private.reading, present.tree, target)
    _refuse_unsafe(changes)
    disk = Disk(os.fsencode(private.checkout.root))
    made = frozenset() if undone is None else _made(git, private, target, undone)
    forced = _hidden(disk, changes) | {path for path in made if disk.look(path).kind in ("file", "link")}
    if forced:
        present = capture(git, private, forced)
        changes = tree.differences(git, private.reading, present.tree, target)
        unheld = [change.path for change in changes if change.path in forced and change.old is None]
        if unheld:
            raise _denied("no snapshot could hold what lies at these paths now", unheld)
    gone = made - _changed(git, private, undone, present.tree) if undone is not None and made else made
    return _settle(git, private, disk, present, target, changes, forced, gone)


def _settle(
    git: Git,
    private: PrivateGit,
    disk: Disk,
    present: Capture,
    target: str,
    changes: Sequence[TreeChange],
    forced: frozenset[bytes],
    gone: frozenset[bytes],
) -> RestorePlan:
    submodules = [
        change for change in changes if change.new is not None and change.new.mode == tree.SUBMODULE
    ]
    wanted = [change for change in changes if change not in submodules]
    kept = _kept_deletions(git, private, present, target, wanted) - gone
    final = tuple(change for change in wanted if change.path not in kept)
    _refuse_full_directories(disk, final)
    left = [Kept(change.path, SUBMODULE) for change in submodules]
    left += [Kept(path, IGNORED_BY_TARGET) for path in sorted(kept)]
    return RestorePlan(present.tree, target, final, tuple(left), forced, present.excludes)


def _refuse_unsafe(changes: Iterable[TreeChange]) -> None:
    wrong = [
        change.path
        for change in changes
        if change.new is not None
        and change.new.mode != tree.SUBMODULE
        and (not paths.is_safe(change.path) or paths.is_blocked(change.path))
    ]
    if wrong:
        raise _denied("the snapshot holds paths that a restore never writes", wrong)


def _hidden(disk: Disk, changes: Iterable[TreeChange]) -> frozenset[bytes]:
    """Paths on disk that the capture lacks and a write would replace. Raises ``DeniedError``."""
    changes = list(changes)
    leaving = {change.path for change in changes if change.new is None}
    hidden: set[bytes] = set()
    impossible: list[bytes] = []
    nested: list[bytes] = []
    for change in changes:
        if change.new is None or change.new.mode == tree.SUBMODULE:
            continue
        if any(disk.is_nested(directory) for directory in paths.ancestors(change.path)):
            nested.append(change.path)
            continue
        if change.old is not None:
            continue
        in_the_way = _in_the_way(disk, change.path)
        if in_the_way is None or in_the_way in leaving:
            continue
        if disk.stat(in_the_way).kind == "special":
            impossible.append(in_the_way)
        else:
            hidden.add(in_the_way)
    if nested:
        raise _denied("the snapshot holds paths that now lie in a nested repository", nested)
    if impossible:
        raise _denied("a pipe, socket or device is where the snapshot holds a file", impossible)
    return frozenset(hidden)


def _in_the_way(disk: Disk, path: bytes) -> bytes | None:
    """What must give way for a file to be made at a path: something at the path or above it, or nothing."""
    for directory in paths.ancestors(path):
        kind = disk.look(directory).kind
        if kind == "missing":
            return None
        if kind != "directory":
            return directory
    return path if disk.look(path).kind in ("file", "link", "special") else None


def _kept_deletions(
    git: Git, private: PrivateGit, present: Capture, target: str, changes: Sequence[TreeChange]
) -> set[bytes]:
    """Deletions not made, since the target's own rules ignore the path and nothing needs its place."""
    written = {change.path for change in changes if change.new is not None}
    above_written = {directory for path in written for directory in paths.ancestors(path)}
    candidates = [
        change.path
        for change in changes
        if change.new is None
        and change.path not in above_written
        and written.isdisjoint(paths.ancestors(change.path))
    ]
    ignored = tree.ignored_by_tree(git, private, present.excludes, target, candidates)
    # Ignore rules say nothing of a tracked path, so its absence from the target is a deletion.
    return ignored - tracked(git, private.checkout.real) if ignored else ignored


def _made(git: Git, private: PrivateGit, target: str, undone: str) -> frozenset[bytes]:
    """Paths that going from ``target`` to ``undone`` had made."""
    try:
        changes = tree.differences(git, private.reading, target, undone)
    except GitError:
        return frozenset()  # the tree is gone: what cannot be told apart from the user's own files stays
    return frozenset(change.path for change in changes if change.change == "added")


def _changed(git: Git, private: PrivateGit, undone: str, present: str) -> frozenset[bytes]:
    """Paths that are not as the restore had left them."""
    return frozenset(change.path for change in tree.differences(git, private.reading, undone, present))


def _refuse_full_directories(disk: Disk, changes: Sequence[TreeChange]) -> None:
    """A directory where the target holds a file may go only if the recovery tree holds all that is in it."""
    leaving = {change.path for change in changes if change.new is None}
    lost: list[bytes] = []
    for change in changes:
        if change.new is not None and disk.look(change.path).kind == "directory":
            lost += [path for path in _files_below(disk, change.path) if path not in leaving]
    if lost:
        raise _denied(
            "a directory is where the snapshot holds a file, and no snapshot could hold what is in it",
            lost,
        )


def _files_below(disk: Disk, directory: bytes) -> list[bytes]:
    found: list[bytes] = []
    top = disk.full(directory)

    def unreadable(error: OSError) -> None:
        found.append(os.path.relpath(os.fsencode(error.filename or top), disk.root))

    for parent, directories, names in os.walk(top, onerror=unreadable):
        links = [name for name in directories if os.path.islink(os.path.join(parent, name))]
        found += [os.path.relpath(os.path.join(parent, name), disk.root) for name in (*names, *links)]
    return sorted(found)


def _denied(reason: str, wrong: Sequence[bytes]) -> DeniedError:
    shown = [paths.show(path) for path in wrong[:_SHOWN]]
    more = "" if len(wrong) <= _SHOWN else f" (and {len(wrong) - _SHOWN} more)"
    return DeniedError(
        f"{reason}: {', '.join(shown[:3])}{'' if len(wrong) <= 3 else ', …'}{more}",
        hint="move these paths away, or rewind the conversation only (--mode conversation)",
        details={"paths": [paths.to_json(path) for path in wrong]},
    )
