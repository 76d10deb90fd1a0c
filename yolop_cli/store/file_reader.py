"""Reading files that may change under the reader: each is taken whole, or not at all."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator

from yolop_cli.store import disk
from yolop_cli.store.last_state import Row
from yolop_cli.store.packs import CHUNK, PackWriter

TRIES = 5
UNREADABLE, TOO_LARGE, CHANGING, HARD_LINK = "unreadable", "too-large", "changing", "hard-link"
_TICK = 0.01  # seconds; a file system's clock moves in steps of up to this
_SET_ID = stat.S_ISUID | stat.S_ISGID


class _MovedError(Exception):
    """The file is no longer what it was when it was opened."""


class _UnreadableError(Exception):
    """The file is there but its content cannot be had. A failure to store it is another matter."""


class ContentReader:
    """Hashes files and, when it has a writer, stores what it read. ``hashed`` counts the files read."""

    def __init__(self, writer: PackWriter | None):
        self.writer = writer
        self.hashed = 0

    def read(self, name: bytes, at: int, limit: int | None) -> Row | str | None:
        """The row of a regular file, the reason why there is none, or None when the file is gone.

        A file that changes while it is read is read again, up to five times.
        """
        for _ in range(TRIES):
            try:
                fd = disk.open_file(name, at)
            except FileNotFoundError:
                return None
            except PermissionError:
                return UNREADABLE
            except OSError:  # a link, a socket or a device has taken its place
                return CHANGING
            try:
                return self._whole(fd, limit)
            except _MovedError:
                continue
            except _UnreadableError:
                return UNREADABLE
            finally:
                os.close(fd)
        return CHANGING

    def _whole(self, fd: int, limit: int | None) -> Row | str:
        before = os.fstat(fd)
        if _is_recent(before):
            # Its last change is so recent that another one now would leave the same times behind.
            time.sleep(_TICK)
            before = os.fstat(fd)
            if _is_recent(before):  # somebody is writing it
                raise _MovedError
        if not stat.S_ISREG(before.st_mode):
            return CHANGING
        if limit is not None and before.st_size > limit:
            return TOO_LARGE
        large = before.st_size > PackWriter.OWN
        digest = self._large(fd, before) if large else self._small(fd, before)
        self.hashed += 1
        return row_of(before, digest)

    def _small(self, fd: int, before: os.stat_result) -> str:
        data = _read(fd, before.st_size + 1)
        while 0 < len(data) < before.st_size:
            more = _read(fd, before.st_size + 1 - len(data))
            if not more:
                break
            data += more
        if len(data) != before.st_size or not _same(before, os.fstat(fd)):
            raise _MovedError
        digest = hashlib.sha256(data).hexdigest()
        if self.writer is not None:
            self.writer.add(digest, data)
        return digest

    def _large(self, fd: int, before: os.stat_result) -> str:
        chunks = _checked(fd, before)
        if self.writer is not None:
            return self.writer.add_stream(chunks)[0]
        hashing = hashlib.sha256()
        for chunk in chunks:
            hashing.update(chunk)
        return hashing.hexdigest()


def row_of(status: os.stat_result, digest: str) -> Row:
    """What is recorded of a file; its owner only where the mode makes running it act for the owner."""
    row = [
        status.st_mode,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        digest,
    ]
    if status.st_mode & _SET_ID:
        row.append((status.st_uid, status.st_gid))
    return row


def _read(fd: int, size: int) -> bytes:
    try:
        return os.read(fd, size)
    except OSError as error:
        raise _UnreadableError from error


def _checked(fd: int, before: os.stat_result) -> Iterator[bytes]:
    """The content in chunks; raises ``_MovedError`` before the end when the file changed."""
    size = 0
    while chunk := _read(fd, CHUNK):
        size += len(chunk)
        if size > before.st_size:
            raise _MovedError
        yield chunk
    if size != before.st_size or not _same(before, os.fstat(fd)):
        raise _MovedError


def _is_recent(status: os.stat_result) -> bool:
    return 0 <= time.time() - status.st_ctime < _TICK


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (
        before.st_size == after.st_size
        and before.st_mtime_ns == after.st_mtime_ns
        and before.st_ctime_ns == after.st_ctime_ns
        and before.st_mode == after.st_mode
    )
