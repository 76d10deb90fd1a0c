"""What snapshots and the present files hold, as chunks of bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from yolop_cli.ground.errors import StorageError, os_reason
from yolop_cli.ground.paths import show
from yolop_cli.store import disk, locks
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import DIRECTORY, FILE, SYMLINK, Entry
from yolop_cli.store.packs import CHUNK, Packs

__all__ = ["DIRECTORY", "FILE", "SYMLINK", "Stream", "contents", "present_files", "size"]
Stream = Callable[[bytes, Entry], Iterator[bytes]]


def size(entry: Entry) -> int:
    """How many bytes a file or the text of a link has."""
    return len(entry.target) if entry.type == SYMLINK else entry.size


@contextmanager
def contents(store: Store) -> Iterator[Stream]:
    """The content of entries of snapshots. Raises ``StorageError`` when one is missing or damaged."""
    with locks.working(store, "read"), Packs(store) as packs:

        def stream(_: bytes, entry: Entry) -> Iterator[bytes]:
            return iter((entry.target,)) if entry.type == SYMLINK else packs.stream(entry.hash)

        yield stream


def present_files(store: Store) -> Stream:
    """The content of files as they are now. Raises ``StorageError`` when one cannot be read."""

    def stream(path: bytes, entry: Entry) -> Iterator[bytes]:
        return iter((entry.target,)) if entry.type == SYMLINK else _of_file(store, path)

    return stream


def _of_file(store: Store, path: bytes) -> Iterator[bytes]:
    parent, _, name = path.rpartition(b"/")
    try:
        with disk.directory(parent, store.root_fd) as at:
            fd = disk.open_file(name, at)
        try:
            while chunk := os.read(fd, CHUNK):
                yield chunk
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(f"cannot read {show(path)}: {os_reason(error)}") from None
