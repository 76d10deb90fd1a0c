"""The few calls through which the store changes the disk, and the one way it opens what lies below a root.

Every name is a single component relative to an open directory, and no symbolic link is ever followed, so a
link swapped in meanwhile cannot lead outside. All of them raise bare ``OSError``; the public functions of the
package turn it into ``StorageError`` (see ``reporting``).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from yolop_cli.ground.errors import StorageError, os_reason
from yolop_cli.ground.files import PRIVATE_DIRECTORY, PRIVATE_FILE, write_all
from yolop_cli.ground.paths import show

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MAKE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
MANY = 32  # from this many files on, one sync of the file system costs less than one a file


def open_directory(name: bytes, at: int) -> int:
    """A descriptor of the directory ``name`` in the open directory ``at``."""
    return os.open(name, _DIRECTORY, dir_fd=at)


def open_file(name: bytes, at: int) -> int:
    """A descriptor for reading; never waits on a pipe. The caller checks what kind of file it is."""
    return os.open(name, _READ, dir_fd=at)


@contextmanager
def directory(path: bytes, root: int) -> Iterator[int]:
    """The directory at a relative ``path`` (empty for the root itself), opened component by component."""
    fd = os.dup(root)
    try:
        for part in path.split(b"/") if path else ():
            below = open_directory(part, fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)


def create(name: bytes, at: int) -> int:
    """A new file, 0600, open for reading and writing."""
    return os.open(name, _MAKE, PRIVATE_FILE, dir_fd=at)


def write(fd: int, data: bytes | bytearray | memoryview) -> None:
    write_all(fd, data)  # type: ignore[arg-type]


def truncate(fd: int, size: int) -> None:
    os.ftruncate(fd, size)


def sync(fd: int) -> None:
    os.fsync(fd)


def sync_all(fd: int) -> None:
    """Everything written so far to the file system that ``fd`` lies on."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if call is None or call(fd) != 0:
        os.sync()


def rename(source: bytes, source_at: int, target: bytes, target_at: int) -> None:
    os.rename(source, target, src_dir_fd=source_at, dst_dir_fd=target_at)


def link(source: bytes, source_at: int, target: bytes, target_at: int) -> None:
    """Give a file a second name; fails when the name is taken."""
    os.link(source, target, src_dir_fd=source_at, dst_dir_fd=target_at, follow_symlinks=False)


def unlink(name: bytes, at: int) -> None:
    os.unlink(name, dir_fd=at)


def make_directory(name: bytes, at: int) -> None:
    os.mkdir(name, PRIVATE_DIRECTORY, dir_fd=at)


def remove_directory(name: bytes, at: int) -> None:
    os.rmdir(name, dir_fd=at)


def make_link(target: bytes, name: bytes, at: int) -> None:
    os.symlink(target, name, dir_fd=at)


def set_mode(fd: int, mode: int) -> None:
    os.fchmod(fd, mode)


def set_owner(fd: int, user: int, group: int) -> None:
    os.fchown(fd, user, group)


def set_time(fd: int, nanoseconds: int) -> None:
    os.utime(fd, ns=(nanoseconds, nanoseconds))


def temporary_name() -> bytes:
    return b"tmp-" + secrets.token_hex(8).encode()


def remove_quietly(name: bytes, at: int) -> None:
    """Remove a temporary file of ours if it is there; what stays is left to the next collection."""
    try:
        unlink(name, at)
    except OSError:
        pass


def read_file(name: bytes, at: int) -> bytes | None:
    """The whole of a small file of the store, or None when there is none.

    Anything else of that name (a directory, a link, a pipe) is an ``OSError`` that names it.
    """
    try:
        fd = open_file(name, at)
    except FileNotFoundError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a file", name)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(fd)


def foreign(name: bytes, at: int) -> str | None:
    """What is there in the place of a file of the store, in words; None when it is a file or nothing."""
    try:
        mode = os.stat(name, dir_fd=at, follow_symlinks=False).st_mode
    except OSError:
        return None
    if stat.S_ISREG(mode):
        return None
    return (
        "a directory" if stat.S_ISDIR(mode) else "a symbolic link" if stat.S_ISLNK(mode) else "a special file"
    )


def replace_file(name: bytes, at: int, data: bytes, scratch: int, *, durable: bool = True) -> None:
    """Write a file of the store whole: old bytes or new ones. ``scratch`` is the store's ``tmp/``."""
    temporary = temporary_name()
    try:
        fd = create(temporary, scratch)
        try:
            write(fd, data)
            if durable:
                sync(fd)
        finally:
            os.close(fd)
        rename(temporary, scratch, name, at)
    except BaseException:
        remove_quietly(temporary, scratch)
        raise
    if durable:
        sync(at)


@contextmanager
def about(path: bytes) -> Iterator[None]:
    """Let an ``OSError`` name the path below the root that it is about, and not a name in some directory."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


def reason(error: OSError) -> str:
    """The system's words, and the path or name they are about."""
    name = error.filename
    return os_reason(error) + (f": {show(name)}" if isinstance(name, str | bytes) else "")


@contextmanager
def reporting(doing: str, state: str = "nothing was changed") -> Iterator[None]:
    """Turn an ``OSError`` met while ``doing`` something into a ``StorageError``.

    It, and a ``StorageError`` that does not speak of it yet, says what ``state`` things are in.
    """
    try:
        yield
    except StorageError as error:
        if "state" not in error.details:
            error.message = f"{error.message}; {state}"
            error.args = (error.message,)
            error.details["state"] = state
        raise
    except OSError as error:
        raise StorageError(
            f"cannot {doing}: {reason(error)}; {state}", hint=_hint(error), details={"state": state}
        ) from error


def _hint(error: OSError) -> str | None:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, then try again"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "check the permissions there, then try again"
    if error.errno in (errno.EFBIG, errno.EMFILE, errno.ENFILE):
        return "raise the limit of this process (ulimit), then try again"
    if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT, errno.EISDIR, errno.EEXIST):
        return "something is changing the files; try again when it has finished"
    if error.errno in (errno.EBUSY, errno.ETXTBSY):
        return "check what uses or mounts it, then try again"
    return None
