"""Contents made ready under the store's ``tmp/`` before a restore changes anything.

Whatever can go wrong with a content (missing, damaged, no room for it) goes wrong here, while the files are
still as they were. What is left to do afterwards is renaming.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from yolop_cli.ground.paths import show, to_json
from yolop_cli.store import disk
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import FILE, SYMLINK, Entry
from yolop_cli.store.packs import CHUNK, DamagedError, Packs
from yolop_cli.store.snapshot_plan import MODE, Change, RestorePlan

_ZEROS = bytes(64 << 10)
_SET_ID = stat.S_ISUID | stat.S_ISGID


def check(packs: Packs, plan: RestorePlan) -> None:
    """Read every content the restore needs. Raises ``DamagedError`` when one is not what its hash says."""
    seen: set[str] = set()
    for change in _written(plan.changes):
        if change.after is not None and change.after.hash not in seen:
            seen.add(change.after.hash)
            for _ in _content(packs, change.path, change.after.hash):
                pass


@contextmanager
def staged(store: Store, packs: Packs, plan: RestorePlan) -> Iterator[dict[bytes, bytes]]:
    """The files and links to be put in place, by path, under temporary names; what is left over is removed.

    Files have their content, owner and mode, and are durable.
    """
    names: dict[bytes, bytes] = {}
    try:
        files = list(_written(plan.changes))
        for change in files:
            names[change.path] = disk.temporary_name()
            with disk.about(change.path):
                _stage_file(store, packs, change, names[change.path], sync=len(files) < disk.MANY)
        if len(files) >= disk.MANY:
            disk.sync_all(store.tmp)
        for change in plan.changes:
            if change.after is not None and change.after.type == SYMLINK:
                names[change.path] = disk.temporary_name()
                disk.make_link(change.after.target, names[change.path], store.tmp)
        yield names
    finally:
        for name in names.values():
            disk.remove_quietly(name, store.tmp)


def place(store: Store, temporary: bytes, name: bytes, at: int) -> None:
    """Rename something staged over a path; where that lies on another file system, copy it beside first."""
    try:
        disk.rename(temporary, store.tmp, name, at)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _carry_over(store, temporary, name, at)


def _written(changes: Iterable[Change]) -> Iterator[Change]:
    return (
        change
        for change in changes
        if change.after is not None and change.after.type == FILE and change.change != MODE
    )


def _content(packs: Packs, path: bytes, digest: str) -> Iterator[bytes]:
    try:
        yield from packs.stream(digest)
    except DamagedError as error:
        raise _lost(path, error) from error


def _lost(path: bytes, error: DamagedError) -> DamagedError:
    details = {"path": to_json(path), **error.details}
    return DamagedError(f"the snapshot has lost {show(path)}: {error.message}", details=details)


def _stage_file(store: Store, packs: Packs, change: Change, temporary: bytes, *, sync: bool) -> None:
    assert change.after is not None
    fd = disk.create(temporary, store.tmp)
    try:
        size = 0
        for chunk in _content(packs, change.path, change.after.hash):
            size += len(chunk)
            _write_sparse(fd, chunk)
        disk.truncate(fd, size)
        if size != change.after.size:
            raise _lost(change.path, DamagedError(f"{change.after.hash} is not of the size its tree says"))
        _give_owner_and_mode(store, fd, change.path, change.after)
        if sync:
            disk.sync(fd)
    finally:
        os.close(fd)


def _write_sparse(fd: int, chunk: bytes) -> None:
    """Write a chunk, leaving holes where it holds nothing but zeros for long."""
    if _ZEROS not in chunk:
        disk.write(fd, chunk)
        return
    for start in range(0, len(chunk), len(_ZEROS)):
        block = chunk[start : start + len(_ZEROS)]
        if block == _ZEROS:
            os.lseek(fd, len(block), os.SEEK_CUR)
        else:
            disk.write(fd, block)


def _give_owner_and_mode(store: Store, fd: int, path: bytes, after: Entry) -> None:
    """The owner of the file that is replaced where we may set it, and the mode of the snapshot.

    A set-id bit is given only where the file belongs to whom it belonged when the snapshot was taken: it
    must not make another user's program run as us.
    """
    status = os.fstat(fd)
    present = _owner_now(store, path)
    wanted = after.owner or present
    if wanted is not None and wanted != (status.st_uid, status.st_gid):
        try:
            disk.set_owner(fd, *wanted)
        except PermissionError:
            pass
    status = os.fstat(fd)
    mode = after.mode
    if after.mode & _SET_ID and after.owner != (status.st_uid, status.st_gid):
        mode &= ~_SET_ID
    disk.set_mode(fd, mode)


def _owner_now(store: Store, path: bytes) -> tuple[int, int] | None:
    parent, _, name = path.rpartition(b"/")
    try:
        with disk.directory(parent, store.root_fd) as at:
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
    except OSError:
        return None
    return status.st_uid, status.st_gid


def _carry_over(store: Store, temporary: bytes, name: bytes, at: int) -> None:
    beside = b".yolop-" + disk.temporary_name()
    status = os.stat(temporary, dir_fd=store.tmp, follow_symlinks=False)
    try:
        if stat.S_ISLNK(status.st_mode):
            disk.make_link(os.readlink(temporary, dir_fd=store.tmp), beside, at)
        else:
            _copy_file(store, temporary, beside, at, status)
        disk.rename(beside, at, name, at)
    except BaseException:
        disk.remove_quietly(beside, at)
        raise


def _copy_file(store: Store, temporary: bytes, beside: bytes, at: int, status: os.stat_result) -> None:
    source = disk.open_file(temporary, store.tmp)
    try:
        fd = disk.create(beside, at)
        try:
            while chunk := os.read(source, CHUNK):
                disk.write(fd, chunk)
            try:
                disk.set_owner(fd, status.st_uid, status.st_gid)
            except PermissionError:
                pass
            disk.set_mode(fd, stat.S_IMODE(status.st_mode))
            disk.sync(fd)
        finally:
            os.close(fd)
    finally:
        os.close(source)
