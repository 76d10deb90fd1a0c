"""Take files out of a snapshot into a directory, never over something that is there and never out of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from yolop_cli.ground import files, paths
from yolop_cli.ground.errors import DeniedError, StorageError, os_reason
from yolop_cli.trees import tree
from yolop_cli.trees.tree import Content, Entry

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
Source = Callable[[list[Entry], Callable[[Entry, Content], None]], None]


def extract(entries: Sequence[Entry], source: Source, destination: Path) -> list[bytes]:
    """Write the entries below ``destination`` (made when missing); the paths written.

    Raises ``DeniedError`` before anything is written when a path exists there or is unsafe, ``StorageError``
    when the file system fails or a content is damaged; what was written whole until then stays.
    """
    top = os.fsencode(destination)
    unsafe = [entry.path for entry in entries if not paths.is_safe(entry.path)]
    there = [entry.path for entry in entries if os.path.lexists(top + b"/" + entry.path)]
    if unsafe or there:
        reason = (
            "the snapshot holds unsafe paths" if unsafe else f"{destination} has some of these files already"
        )
        raise DeniedError(
            reason,
            hint="extract into an empty directory",
            details={"paths": [paths.to_json(path) for path in unsafe or there]},
        )
    begun: list[bytes] = []

    def write(entry: Entry, content: Content) -> None:
        begun.append(entry.path)
        _write(top, entry, content)

    try:
        destination.mkdir(parents=True, exist_ok=True)
        source(list(entries), write)
    except OSError as error:
        raise _stopped(f"cannot write below {destination}: {os_reason(error)}", top, begun) from None
    except StorageError as error:
        raise _stopped(error.message, top, begun, error) from None
    return begun


def _stopped(message: str, top: bytes, begun: list[bytes], error: StorageError | None = None) -> StorageError:
    """The failure, once the file that was being written is gone again: no part of one stays."""
    if begun:
        with suppress(OSError), _parent(top, begun[-1]) as (fd, name):
            os.unlink(name, dir_fd=fd)
    whole = max(0, len(begun) - 1)
    state = f"{whole} {'file' if whole == 1 else 'files'} had been written, whole"
    return StorageError(
        f"{message}; {state}",
        hint=error.hint if error is not None else None,
        details={**(error.details if error is not None else {}), "state": state},
    )


def _write(top: bytes, entry: Entry, content: Content) -> None:
    with _parent(top, entry.path) as (fd, name):
        if entry.mode == tree.LINK:
            os.symlink(content.read(), name, dir_fd=fd)
            return
        mode = 0o777 if entry.mode == tree.EXECUTABLE else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(name, flags, mode, dir_fd=fd)
        try:
            for chunk in content.chunks():
                files.write_all(file, chunk)
        finally:
            os.close(file)


@contextmanager
def _parent(top: bytes, path: bytes) -> Iterator[tuple[int, bytes]]:
    *directories, name = path.split(b"/")
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for directory in directories:
            try:
                os.mkdir(directory, dir_fd=fd)
            except FileExistsError:
                pass
            below = os.open(directory, _DIRECTORY, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd, name
    finally:
        os.close(fd)
