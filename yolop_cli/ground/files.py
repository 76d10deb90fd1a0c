"""Durable, private files: the few functions through which session files are opened and written.

Everything here raises ``StorageError`` with the system's reason, never a bare ``OSError``, so that a
command can say what state things are in. Files are made 0600 and directories 0700.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from yolop_cli.ground.errors import NotFoundError, StorageError, os_reason

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp\Z", re.DOTALL)


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a regular file (links followed), never waiting on a pipe or device.

    Raises ``NotFoundError`` when nothing is there, ``StorageError`` for all else, a link that leads nowhere
    among it: behind it is a file, on a disk that is not there now.
    """
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        if path.is_symlink():
            raise StorageError(
                f"{path} is a dangling symbolic link",
                hint="restore its target, or remove the link",
                details={"path": str(path)},
            ) from None
        raise NotFoundError(f"there is no {path}", details={"path": str(path)}) from None
    except OSError as error:
        raise failed("open", path, error) from None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StorageError(f"{path} is not a regular file", details={"path": str(path)})
    return fd


def open_regular_or_create(path: Path) -> int:
    """A descriptor for reading and appending, the file made 0600 when it is missing (0700 its directory)."""
    make_private_directory(path.parent)
    try:
        return open_regular(path, os.O_RDWR | os.O_APPEND)
    except NotFoundError:
        pass
    try:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, PRIVATE_FILE)
    except OSError as error:
        raise failed("create", path, error) from None


@contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A regular file open for reading. Raises as ``open_regular``."""
    with os.fdopen(open_regular(path), "rb") as file:
        try:
            yield file
        except OSError as error:
            raise failed("read", path, error) from None


def read_bytes(path: Path) -> bytes | None:
    """The content of a regular file, or None when there is none."""
    try:
        with reading(path) as file:
            return file.read()
    except NotFoundError:
        return None


def write_all(fd: int, data: bytes) -> None:
    """Write every byte of ``data``; raises ``OSError`` when the system takes fewer."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(
    path: Path, data: bytes, mode: int = PRIVATE_FILE, *, owner: tuple[int, int] | None = None
) -> None:
    """Replace a file whole and durably: old bytes or new bytes, never a mixture, also after a crash.

    A symbolic link is written at its target, so the link stays a link. ``owner`` is a user and a group to
    give the file to.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        try:
            if owner is not None:
                os.fchown(fd, *owner)
            os.fchmod(fd, mode)
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, target)
        sync_directory(target.parent)
    except OSError as error:
        remove_file(temporary)
        raise failed("write", path, error) from None
    except BaseException:
        remove_file(temporary)
        raise


def sweep_temporaries(directory: Path) -> None:
    """Remove what ``write_atomic`` left in a directory when it was killed; nobody may write there now."""
    try:
        names = [name for name in os.listdir(directory) if _TEMPORARY.match(name)]
    except OSError:
        return
    for name in names:
        remove_file(directory / name)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable. Raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private_directory(path: Path) -> None:
    """A directory of mode 0700, its missing parents too. Raises ``StorageError``."""
    try:
        missing = [path]
        while not missing[-1].parent.exists():
            missing.append(missing[-1].parent)
        for directory in reversed(missing):
            directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
    except OSError as error:
        raise failed("make the directory", path, error) from None


def remove_file(path: Path) -> bool:
    """Remove a file if it is there; whether it was. Raises ``StorageError``."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failed("remove", path, error) from None
    return True


def failed(verb: str, path: Path, error: OSError) -> StorageError:
    """The ``StorageError`` for an ``OSError`` met while doing ``verb`` to ``path``."""
    return StorageError(f"cannot {verb} {path}: {os_reason(error)}", details={"path": str(path)})
