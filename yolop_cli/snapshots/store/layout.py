"""Where the store keeps what: ``<root>/.cogitator/checkpoints`` and the directories in it.

    config.json       format version and workspace id, written once
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
import re
import secrets
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from yolop_cli import strict_json
from yolop_cli.errors import DeniedError, NotFoundError, StorageError, UsageError
from yolop_cli.paths import resolved, show
from yolop_cli.snapshots.store import disk

FORMAT = 1
HOME = b".cogitator"
_PARTS = (b"manifests", b"packs", b"locks", b"tmp")
CONFIG = b"config.json"
_SNAPSHOT = re.compile(r"snap_[0-9a-f]{24}\Z")
_WORKSPACE = re.compile(r"ws_[0-9a-f]{32}\Z")


@dataclass(frozen=True)
class Store:
    """An open store: its root and a descriptor for each of its directories."""

    root: Path
    workspace_id: str
    root_fd: int
    base: int
    manifests: int
    packs: int
    locks: int
    tmp: int


def is_snapshot_id(text: str) -> bool:
    """``snap_`` and 24 lowercase hex digits, the first twelve of them the time in milliseconds."""
    return _SNAPSHOT.match(text) is not None


def is_workspace_id(text: str) -> bool:
    """``ws_`` and 32 lowercase hex digits."""
    return _WORKSPACE.match(text) is not None


def new_snapshot_id() -> str:
    """A new id that sorts by the time it was made."""
    return f"snap_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(6)}"


def has_store(root: Path) -> bool:
    """Whether a directory has a store, without opening it. Raises ``OSError`` when that cannot be seen."""
    return (root / ".cogitator" / "checkpoints" / "config.json").is_file()


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
        home = _enter(HOME, root_fd, real, stack, create=create)
        base = _enter(b"checkpoints", home, real, stack, create=create)
        parts = [_enter(name, base, real, stack, create=create) for name in _PARTS]
        workspace_id = _workspace_id(base, parts[3], real, create=create)
        store = Store(real, workspace_id, root_fd, base, *parts)
        stack.enter_context(_helpful(real))
        yield store


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
            f"`yolop-cli snapshot verify --root {shlex.quote(show(root))}` tells what is damaged, "
            "`snapshot repair` mends it from the files still there"
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
    except FileNotFoundError:
        raise NotFoundError(
            f"{root} has no snapshots",
            hint="take one with `yolop-cli snapshot create`",
            details={"root": str(root)},
        ) from None
    except NotADirectoryError:  # also what O_NOFOLLOW says of a link to a directory
        raise _not_ours(name, root, "it is a symbolic link or a file") from None
    stack.callback(os.close, fd)
    status = os.fstat(fd)
    if os.geteuid() not in (0, status.st_uid):
        raise _not_ours(name, root, "it belongs to another user")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and name != HOME:
        raise _not_ours(name, root, "others may write in it")
    return fd


def _not_ours(name: bytes, root: Path, why: str) -> DeniedError:
    return DeniedError(
        f"the snapshot store of {root} is not usable: {name.decode()}: {why}",
        hint="move it aside, or make it a directory of your own with mode 0700",
        details={"root": str(root)},
    )


def _workspace_id(base: int, tmp: int, root: Path, *, create: bool) -> str:
    data = disk.read_file(CONFIG, base)
    if data is None and create:
        _write_config(base, tmp)
        data = disk.read_file(CONFIG, base)
    if data is None:
        raise NotFoundError(f"{root} has no snapshots", hint="take one with `yolop-cli snapshot create`")
    try:
        config = strict_json.loads(data)
        version, workspace_id = config["format"], config["workspace_id"]
    except (ValueError, KeyError, TypeError):
        raise _bad_config(root) from None
    if version != FORMAT:
        raise StorageError(f"the store of {root} has format {version!r}, this program knows {FORMAT}")
    if not (isinstance(workspace_id, str) and is_workspace_id(workspace_id)):
        raise _bad_config(root)
    return workspace_id


def _bad_config(root: Path) -> StorageError:
    return StorageError(
        f"the store of {root} has a damaged config.json",
        hint=f'write {{"format": {FORMAT}, "workspace_id": ID}} to it; each file in manifests/ has the ID',
    )


def _write_config(base: int, tmp: int) -> None:
    # Linked, not renamed: of two processes that make the store at once, both go on with one workspace id.
    config = {"format": FORMAT, "workspace_id": f"ws_{secrets.token_hex(16)}"}
    for name, data in ((b".gitignore", b"*\n"), (CONFIG, strict_json.dumps(config) + b"\n")):
        temporary = disk.temporary_name()
        fd = disk.create(temporary, tmp)
        try:
            disk.write(fd, data)
            disk.sync(fd)
            disk.link(temporary, tmp, name, base)
        except FileExistsError:
            pass
        finally:
            os.close(fd)
            disk.remove_quietly(temporary, tmp)
    disk.sync(base)
