"""Where the store keeps what: ``<root>/.cogitator/checkpoints`` and the directories in it.

    config.json       format version and workspace id, written once (see identity.py)
    manifests/        one JSON file a snapshot
    packs/            contents and listings, many to a file (see packs.py)
    locks/            gc.lock, workspace.lock and the markers of those at work (see locks.py)
    tmp/              what is being written; anything here while nobody works is a leftover
    state             what the last snapshot saw of every file (see state.py); may be missing
    restoring.json    the restore that is changing files now, or was interrupted while it did

Directories are 0700, files 0600. All of it is reached through directory descriptors and never through a
symbolic link.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground.errors import DeniedError, NotFoundError, StorageError, UsageError
from yolop_cli.ground.paths import resolved, show
from yolop_cli.store import disk, identity
from yolop_cli.store.identity import FORMAT, command, is_snapshot_id, is_workspace_id

__all__ = [
    "FORMAT",
    "LOCKS",
    "MANIFESTS",
    "PACKS",
    "TMP",
    "Parts",
    "Store",
    "advise",
    "command",
    "has_store",
    "is_snapshot_id",
    "is_workspace_id",
    "keep_identity",
    "new_snapshot_id",
    "no_snapshots",
    "not_ours",
    "opened",
]

HOME = b".cogitator"
MANIFESTS, PACKS, LOCKS, TMP = b"manifests", b"packs", b"locks", b"tmp"
_PARTS = (MANIFESTS, PACKS, LOCKS, TMP)


class Parts:
    """The directories of a store. One that is absent (backups leave out empty ones) is made when needed."""

    def __init__(self, base: int, root: Path, stack: ExitStack):
        self._base, self._root, self._stack = base, root, stack
        self._open: dict[bytes, int] = {}

    def present(self, name: bytes) -> int | None:
        """The directory as it is, or None when it is absent."""
        if name not in self._open:
            try:
                self._open[name] = _enter(name, self._base, self._root, self._stack, create=False)
            except FileNotFoundError:
                return None
        return self._open[name]

    def __contains__(self, name: bytes) -> bool:
        return self.present(name) is not None

    def __getitem__(self, name: bytes) -> int:
        if name not in self:
            self._open[name] = _enter(name, self._base, self._root, self._stack, create=True)
        return self._open[name]


@dataclass(frozen=True)
class Store:
    """An open store: its root and a descriptor for each of its directories.

    Who only reads asks ``parts`` first whether a directory is there; the descriptors make what is absent.
    """

    root: Path
    workspace_id: str
    root_fd: int
    base: int
    parts: Parts

    @property
    def manifests(self) -> int:
        return self.parts[MANIFESTS]

    @property
    def packs(self) -> int:
        return self.parts[PACKS]

    @property
    def locks(self) -> int:
        return self.parts[LOCKS]

    @property
    def tmp(self) -> int:
        return self.parts[TMP]

    def names(self, part: bytes) -> list[str]:
        """What lies in one of the directories; nothing when it is absent."""
        return os.listdir(self.parts[part]) if part in self.parts else []


def new_snapshot_id() -> str:
    """A new id that sorts by the time it was made."""
    return f"snap_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(6)}"


def has_store(root: Path) -> bool:
    """Whether a directory has a store, without opening it. Raises ``OSError`` when that cannot be seen."""
    home = root / ".cogitator" / "checkpoints"
    try:
        os.lstat(home / "config.json")
        return True
    except (FileNotFoundError, NotADirectoryError):
        pass
    try:
        return bool(identity.manifest_ids(os.listdir(home / "manifests")))
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextmanager
def opened(root: Path, *, create: bool = False) -> Iterator[Store]:
    """The store of the directory ``root`` (links in the path to it are followed), made first with ``create``.

    Raises ``NotFoundError`` when there is no such directory or no store in it, ``DeniedError`` when a part of
    the store is a symbolic link or another user's, ``StorageError`` when it cannot be read or is of a newer
    format.
    """
    real = resolved(root)
    with ExitStack() as stack, disk.reporting(f"open the snapshots of {real}"):
        root_fd = _open_root(real, stack)
        try:
            home = _enter(HOME, root_fd, real, stack, create=create)
            base = _enter(b"checkpoints", home, real, stack, create=create)
        except FileNotFoundError:
            raise no_snapshots(real) from None
        parts = Parts(base, real, stack)
        enter = parts.__getitem__ if create else parts.present
        for name in _PARTS:  # what is not the user's own is refused before anything is read
            enter(name)
        workspace_id = _workspace_id(base, parts, real, create=create)
        store = Store(real, workspace_id, root_fd, base, parts)
        stack.enter_context(_helpful(real))
        yield store


def no_snapshots(root: Path) -> NotFoundError:
    """The refusal where nothing was ever stored."""
    return NotFoundError(
        f"{root} has no snapshots",
        hint=f"take one with `{command(root, 'create')}`",
        details={"root": str(root)},
    )


def keep_identity(store: Store) -> None:
    """Write ``config.json`` again when it is gone: before the manifests, where the id is too, change."""
    if not identity.is_kept(store.base):
        identity.keep(store.base, store.tmp, store.workspace_id)


@contextmanager
def _helpful(root: Path) -> Iterator[None]:
    """What goes wrong while the store is open has its own words, and says how to go on."""
    try:
        try:
            yield
        except OSError as error:
            raise StorageError(f"the snapshot store of {show(root)} failed: {disk.reason(error)}") from error
    except StorageError as error:
        advise(error, root)
        raise


def advise(error: StorageError, root: Path) -> None:
    """Let a failure name the directory whose store it is about, and the next command where it has no hint."""
    error.details.setdefault("root", str(root))
    if error.hint is None:
        error.hint = (
            f"`{command(root, 'verify')}` shows what is damaged, "
            f"`{command(root, 'repair')}` repairs it from the files still there"
        )


def _open_root(root: Path, stack: ExitStack) -> int:
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFoundError(f"there is no directory {root}", details={"path": str(root)}) from None
    except NotADirectoryError:
        raise UsageError(f"{root} is not a directory", details={"path": str(root)}) from None
    stack.callback(os.close, fd)
    return fd


def _enter(name: bytes, at: int, root: Path, stack: ExitStack, *, create: bool) -> int:
    if create:
        try:
            disk.make_directory(name, at)
            disk.sync(at)
        except FileExistsError:
            pass
    try:
        fd = disk.open_directory(name, at)
    except NotADirectoryError:  # also what O_NOFOLLOW says of a link to a directory
        raise not_ours(name, root, "it is a symbolic link or a file") from None
    stack.callback(os.close, fd)
    status = os.fstat(fd)
    if os.geteuid() not in (0, status.st_uid):
        raise not_ours(name, root, "it belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and name != HOME:
        raise not_ours(name, root, "others may write in it")
    return fd


def not_ours(
    name: bytes, root: Path, why: str, hint: str = "or make it a directory of your own with mode 0700"
) -> DeniedError:
    """The refusal to use what lies in the place of a part of the store."""
    return DeniedError(
        f"the snapshot store of {root} is not usable: {name.decode()}: {why}",
        hint=f"move it aside, {hint}",
        details={"root": str(root), "path": name.decode()},
    )


def _workspace_id(base: int, parts: Parts, root: Path, *, create: bool) -> str:
    manifests = parts.present(MANIFESTS)
    found = identity.read(base, manifests, root)
    if create and (found is None or not identity.is_kept(base)):
        identity.keep(base, parts[TMP], found or identity.new_workspace_id())
        found = identity.read(base, manifests, root)
    if found is None:
        raise no_snapshots(root)
    return found
