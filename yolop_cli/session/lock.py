"""The two locks that say who writes a session: its lock file and its event log.

The agent holds both for as long as it runs. They are taken without waiting; a lock that is held means
another process writes the session. The kernel releases them when the holder, and every git process it
started, is gone.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yolop_cli.ground import files
from yolop_cli.ground.errors import BusyError, NotFoundError, StorageError
from yolop_cli.session.directory import SessionDirectory


@contextmanager
def held(session: SessionDirectory) -> Iterator[tuple[int, ...]]:
    """Hold both locks; gives their descriptors, for children that must keep them.

    Raises ``BusyError`` when another process has one of them, ``StorageError`` when they cannot be made.
    """
    descriptors: list[int] = []
    try:
        files.make_private_directory(session.lock.parent)
        descriptors.append(_open_lock(session.lock))
        _take(descriptors[-1], session)
        events = _open_events(session.events)
        if events is not None:
            descriptors.append(events)
            _take(events, session)
        yield tuple(descriptors)
    finally:
        for descriptor in reversed(descriptors):
            os.close(descriptor)


def is_held(session: SessionDirectory) -> bool:
    """Whether another process holds a lock of the session now. Makes no file and leaves no lock."""
    return any(_probe(path) for path in (session.lock, session.events))


def holder(session: SessionDirectory) -> int | None:
    """The process that holds the session's lock file, where the system tells (Linux), else None."""
    try:
        wanted = os.stat(session.lock).st_ino
        with open("/proc/locks", encoding="ascii") as table:
            rows = [line.split() for line in table]
    except OSError:
        return None
    for row in rows:
        # 1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF
        if row[1] == "FLOCK" and row[3] == "WRITE" and row[5].rsplit(":", 1)[-1] == str(wanted):
            return int(row[4]) if int(row[4]) > 0 else None
    return None


def _probe(path: Path) -> bool:
    try:
        fd = files.open_regular(path)
    except Exception:  # what cannot be opened cannot be seen as held
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _open_lock(path: Path) -> int:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise files.failed("open the lock", path, error) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StorageError(f"the lock {path} is not a regular file", details={"path": str(path)})
    return fd


def _open_events(path: Path) -> int | None:
    try:
        return files.open_regular(path)
    except NotFoundError:
        return None


def _take(fd: int, session: SessionDirectory) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise BusyError(
            f"another process is writing {session.id}",
            hint="wait for the agent (or the other command) to end, then try again",
            details={"session_id": session.id, "lock": str(session.lock)},
        ) from None
