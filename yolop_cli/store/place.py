"""Carrying out a restore's plan, and nothing but that plan.

Order: read-only directories opened; what goes is removed, children before parents; what comes is put in
place, parents before children; modes of directories last, the deepest first; every changed directory
synced; then each path is looked at again. Each path has its old content or its new one at any instant,
never a part of either. ``trees.tree_restore`` says why it is another piece of code.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from yolop_cli.ground.errors import StaleError, StorageError
from yolop_cli.ground.paths import show, to_json
from yolop_cli.store import disk, stage
from yolop_cli.store.file_reader import row_of
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import DIRECTORY, FILE, SYMLINK, Entry
from yolop_cli.store.snapshot_plan import DELETED, MODE, TYPE, Change, RestorePlan


def check_still(store: Store, plan: RestorePlan) -> None:
    """Raise ``StaleError`` when a path that is to change is no longer what the plan says it is."""
    with _Parents(store.root_fd) as parents:
        for change in plan.changes:
            parent, _, name = change.path.rpartition(b"/")
            if change.before is None:
                _check_absent(parents, parent, name, change)
            else:
                _check_unmoved(parents.at(parent), name, change, plan)


def carry_out(store: Store, plan: RestorePlan, staged: Mapping[bytes, bytes]) -> None:
    """Do what the plan says. Raises ``OSError`` or ``StaleError`` at the first thing that fails."""
    with _Parents(store.root_fd) as parents:
        for path in plan.opened:
            _open_up(store, path)
        for change in reversed(plan.changes):
            with disk.about(change.path):
                _remove(parents, change, plan)
        for change in plan.changes:
            if change.after is not None:
                with disk.about(change.path):
                    _put(store, parents, change, plan, staged)
        _set_directory_modes(store, plan)
        _sync(store, plan)
        _verify(parents, plan)


class _Parents:
    """The directory that holds the path at hand, kept open while the next path lies in the same one."""

    def __init__(self, root: int):
        self.root = root
        self._path: bytes | None = None
        self._fd = -1

    def __enter__(self) -> _Parents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at(self, path: bytes) -> int:
        if path != self._path:
            self.close()
            with disk.directory(path, self.root) as fd:
                self._fd, self._path = os.dup(fd), path
        return self._fd

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._path = -1, None


def _check_absent(parents: _Parents, parent: bytes, name: bytes, change: Change) -> None:
    try:
        at = parents.at(parent)
    except (FileNotFoundError, NotADirectoryError):
        return  # its directory is still to be made
    try:
        os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return
    raise _stale(change.path)


def _check_unmoved(at: int, name: bytes, change: Change, plan: RestorePlan) -> None:
    try:
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        raise _stale(change.path) from None
    before, row = change.before, plan.seen.get(change.path)
    if before is None:
        return
    if before.type == FILE:
        same = row is not None and row_of(status, row[5])[:5] == row[:5]
    elif before.type == SYMLINK:
        same = stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=at) == before.target
    else:
        same = stat.S_ISDIR(status.st_mode)
    if not same:
        raise _stale(change.path)


def _open_up(store: Store, path: bytes) -> None:
    with disk.about(path), disk.directory(path, store.root_fd) as fd:
        disk.set_mode(fd, stat.S_IMODE(os.fstat(fd).st_mode) | stat.S_IRWXU)


def _gives_way(change: Change) -> bool:
    """Whether what is there must be removed first, because a directory comes or goes."""
    return change.change == TYPE and DIRECTORY in (_type(change.before), _type(change.after))


def _remove(parents: _Parents, change: Change, plan: RestorePlan) -> None:
    if change.change != DELETED and not _gives_way(change):
        return
    parent, _, name = change.path.rpartition(b"/")
    at = parents.at(parent)
    if _type(change.before) == DIRECTORY:
        disk.remove_directory(name, at)
    else:
        _check_unmoved(at, name, change, plan)
        disk.unlink(name, at)


def _put(
    store: Store, parents: _Parents, change: Change, plan: RestorePlan, staged: Mapping[bytes, bytes]
) -> None:
    parent, _, name = change.path.rpartition(b"/")
    at = parents.at(parent)
    if _type(change.after) == DIRECTORY:
        if change.change != MODE:
            disk.make_directory(name, at)
        return
    if change.before is None or _gives_way(change):
        _check_absent(parents, parent, name, change)
    else:
        _check_unmoved(at, name, change, plan)
    if change.change != MODE:
        stage.place(store, staged[change.path], name, at)
    elif change.after is not None:
        _set_file_mode(at, name, change.after.mode)


def _set_file_mode(at: int, name: bytes, mode: int) -> None:
    fd = disk.open_file(name, at)
    try:
        disk.set_mode(fd, mode)
    finally:
        os.close(fd)


def _set_directory_modes(store: Store, plan: RestorePlan) -> None:
    modes = dict(plan.opened)
    for change in plan.changes:
        if change.after is not None and change.after.type == DIRECTORY:
            modes[change.path] = change.after.mode
    for path in sorted(modes.keys() - _no_directories(plan), reverse=True):
        with disk.about(path), disk.directory(path, store.root_fd) as fd:
            disk.set_mode(fd, modes[path])


def _no_directories(plan: RestorePlan) -> set[bytes]:
    """The changed paths at which there is no directory afterwards."""
    return {change.path for change in plan.changes if _type(change.after) != DIRECTORY}


def _sync(store: Store, plan: RestorePlan) -> None:
    """One sync of the file system when there is much to sync, else one for each directory that changed."""
    parents = {change.path.rpartition(b"/")[0] for change in plan.changes} - _no_directories(plan)
    if len(parents) >= disk.MANY or any(change.change == MODE for change in plan.changes):
        disk.sync_all(store.root_fd)
        return
    for path in parents:
        with disk.directory(path, store.root_fd) as fd:
            disk.sync(fd)


def _verify(parents: _Parents, plan: RestorePlan) -> None:
    for change in plan.changes:
        if not _is_now(parents, change):
            raise StorageError(
                f"{show(change.path)} changed while it was restored",
                details={"path": to_json(change.path)},
            )


def _is_now(parents: _Parents, change: Change) -> bool:
    parent, _, name = change.path.rpartition(b"/")
    after = change.after
    try:
        at = parents.at(parent)
        status = os.stat(name, dir_fd=at, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return after is None
    if after is None:
        return False
    if after.type == SYMLINK:
        return stat.S_ISLNK(status.st_mode) and os.readlink(name, dir_fd=at) == after.target
    if (status.st_mode ^ after.mode) & 0o777:
        return False
    if after.type == DIRECTORY:
        return stat.S_ISDIR(status.st_mode)
    return stat.S_ISREG(status.st_mode) and status.st_size == after.size


def _type(entry: Entry | None) -> str | None:
    return None if entry is None else entry.type


def _stale(path: bytes) -> StaleError:
    return StaleError(
        f"{show(path)} changed since the plan was made",
        hint="look at the plan again with --dry-run",
        details={"path": to_json(path)},
    )
