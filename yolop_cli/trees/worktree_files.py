"""Looking at a worktree by bytes paths, without following a link and without leaving the root."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from yolop_cli.ground import paths

Kind = Literal["file", "link", "directory", "special", "missing"]
STAGE_PREFIX = b".yolop-restore-"
Fingerprint = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Seen:
    """What lies at a path: its kind, how many names it has, a fingerprint that any change to it changes."""

    kind: Kind
    mode: int = 0
    fingerprint: Fingerprint | None = None
    links: int = field(default=0, compare=False)

    @property
    def inode(self) -> int | None:
        """The number of the inode, None when nothing is there."""
        return None if self.fingerprint is None else self.fingerprint[4]

    def is_but_for_change_time(self, other: Seen) -> bool:
        """Whether both are the same file, all but the time of the inode's last change."""
        if self.fingerprint is None or other.fingerprint is None:
            return False
        mine, theirs = list(self.fingerprint), list(other.fingerprint)
        mine[3] = theirs[3] = 0
        return mine == theirs

    def changed_since(self, moment: int) -> bool:
        """Whether the inode changed at or after a moment, in whole seconds since 1970."""
        return self.fingerprint is not None and self.fingerprint[3] >= moment * 1_000_000_000


MISSING = Seen("missing")


@dataclass
class Disk:
    """A worktree looked at once: what is asked of a directory is remembered."""

    root: bytes
    _directories: dict[bytes, bool] = field(default_factory=dict)
    _nested: dict[bytes, bool] = field(default_factory=dict)

    def full(self, path: bytes) -> bytes:
        """The absolute path of a relative one."""
        return self.root + b"/" + path if path else self.root

    def look(self, path: bytes) -> Seen:
        """What lies at a path, reached through real directories only. Raises ``OSError`` when unreadable."""
        parent = path.rpartition(b"/")[0]
        if parent and not self.is_directory(parent):
            return MISSING
        return self.stat(path)

    def stat(self, path: bytes) -> Seen:
        """What lies at a path now. Raises ``OSError`` when that cannot be told."""
        return seen(lambda: os.lstat(self.full(path)))

    def is_directory(self, path: bytes) -> bool:
        """Whether a path is a directory, reached through directories and no link."""
        known = self._directories.get(path)
        if known is None:
            known = self.look(path).kind == "directory"
            self._directories[path] = known
        return known

    def is_outside(self, path: bytes) -> bool:
        """Whether no snapshot holds this path: blocked, in a nested repository, or a restore's own."""
        return (
            paths.is_blocked(path)
            or (path.startswith(STAGE_PREFIX) and b"/" in path)
            or any(self.is_nested(directory) for directory in paths.ancestors(path))
        )

    def is_nested(self, directory: bytes) -> bool:
        """Whether a directory below the root is a repository, or a submodule, of its own."""
        known = self._nested.get(directory)
        if known is None:
            known = self.is_directory(directory) and self.stat(directory + b"/.git").kind != "missing"
            self._nested[directory] = known
        return known


def seen(stat_it: Callable[[], os.stat_result]) -> Seen:
    """What a stat call finds; ``MISSING`` when nothing is there."""
    try:
        info = stat_it()
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    fingerprint = (info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
    return Seen(_kind(info.st_mode), info.st_mode, fingerprint, info.st_nlink)


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "special"
