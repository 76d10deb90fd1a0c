"""Who works in the store: markers, the collection's lock and the workspace's.

A snapshot, a restore, a copy or a check leaves a marker in ``locks/`` while it works, and holds a ``flock``
on it: the marker of a stopped process still counts, that of a dead one does not. A collection holds
``gc.lock`` exclusively and sweeps nothing while a marker is alive; a marker is made under the same lock
held shared. So a marker is either seen by the collection, or made after it ended, and what is reused is
looked up only after the marker is there.

``workspace.lock`` keeps two restores, or a restore and a snapshot, off the same files. Nobody waits for it. A
marker alone may have to wait, for a collection to end.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from yolop_cli.ground import clock, strict_json
from yolop_cli.ground.errors import BusyError
from yolop_cli.store import disk
from yolop_cli.store.layout import LOCKS, Store, not_ours

GC_LOCK = b"gc.lock"
WORKSPACE_LOCK = b"workspace.lock"
GC_PATH = b"locks/" + GC_LOCK
_LOCK_BELOW_ROOT = ".cogitator/checkpoints/locks/workspace.lock"
_LOCKS = (GC_LOCK, WORKSPACE_LOCK)
PATIENCE = 30.0  # seconds


@dataclass(frozen=True)
class Marker:
    """One process at work: what it does, and the moment it began by the file system's clock."""

    name: str
    kind: str
    began_ns: int


@contextmanager
def working(store: Store, kind: str) -> Iterator[Marker]:
    """Leave a marker while the block runs. Raises ``BusyError`` when a collection does not end in time."""
    why = f"garbage collection is in progress in {store.root}"
    with _taken(_open_lock(store, GC_LOCK), fcntl.LOCK_SH, why, PATIENCE):
        name = f"{kind}.{os.getpid()}.{secrets.token_hex(4)}"
        fd = disk.create(name.encode(), store.locks)
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        disk.write(fd, strict_json.dumps({"kind": kind, "pid": os.getpid(), "since": clock.now()}) + b"\n")
        yield Marker(name, kind, os.fstat(fd).st_mtime_ns)
    finally:
        disk.remove_quietly(name.encode(), store.locks)
        os.close(fd)


@contextmanager
def collecting(store: Store) -> Iterator[tuple[str, ...] | None]:
    """Hold ``gc.lock``: gives the names of the markers that are alive, or None when another collection runs.

    The markers of dead processes are removed on the way.
    """
    fd = _open_lock(store, GC_LOCK)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield tuple(sorted(_alive(store)))
    finally:
        os.close(fd)


@contextmanager
def reading_files(store: Store) -> Iterator[None]:
    """Keep restores out while the files are read, here and of directories around. Raises ``BusyError``."""
    with _files(store, fcntl.LOCK_SH, "a restore is changing the files"):
        yield


@contextmanager
def changing_files(store: Store) -> Iterator[None]:
    """Keep snapshots and other restores out while files are changed, also those of directories around.

    Raises ``BusyError``.
    """
    with _files(store, fcntl.LOCK_EX, "a snapshot or restore is in progress"):
        yield


@contextmanager
def _files(store: Store, how: int, why: str) -> Iterator[None]:
    """The workspace lock of the root and of every directory above it that has one, the outermost first."""
    with ExitStack() as stack:
        for above in reversed(store.root.parents):
            try:
                fd = os.open(above / _LOCK_BELOW_ROOT, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            stack.enter_context(_taken(fd, how, f"{why} in {above}"))
        stack.enter_context(_taken(_open_lock(store, WORKSPACE_LOCK), how, f"{why} in {store.root}"))
        yield


def is_restoring(store: Store) -> bool:
    """Whether a restore changes the files right now. Changes nothing."""
    return not _is_free(WORKSPACE_LOCK, store)


def somebody_works(store: Store) -> bool:
    """Whether a snapshot, a restore, a copy, a check or a collection goes on. Changes nothing."""
    return any(not _is_free(raw, store) for raw in map(os.fsencode, store.names(LOCKS)))


def _is_free(name: bytes, store: Store) -> bool:
    if LOCKS not in store.parts:
        return True
    try:
        fd = disk.open_file(name, store.locks)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def _alive(store: Store) -> Iterator[str]:
    for name in store.names(LOCKS):
        raw = os.fsencode(name)
        if raw in _LOCKS:
            continue
        try:
            fd = disk.open_file(raw, store.locks)
        except OSError:  # a link or a socket planted here, or a marker whose owner has just ended
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield name
        else:
            disk.remove_quietly(raw, store.locks)
        finally:
            os.close(fd)


def _open_lock(store: Store, name: bytes) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    at = store.locks
    kind = disk.foreign(name, at)
    if kind is not None:
        why, hint = f"it is {kind}, not a lock", "a lock is made again when it is needed"
        raise not_ours(b"locks/" + name, store.root, why, hint)
    return os.open(name, flags, 0o600, dir_fd=at)


def foreign(store: Store) -> Iterator[tuple[bytes, str]]:
    """What is in the place of a lock and keeps everybody from working: its path in the store, what it is."""
    for name in _LOCKS if LOCKS in store.parts else ():
        kind = disk.foreign(name, store.locks)
        if kind is not None:
            yield b"locks/" + name, kind


@contextmanager
def _taken(fd: int, how: int, why: str, patience: float = 0.0) -> Iterator[None]:
    """Hold a lock on an open file, which is closed at the end. Waits only so long."""
    try:
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(fd, how | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise BusyError(why, hint="wait for it to end, then try again") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(fd)
