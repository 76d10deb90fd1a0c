"""What lies below the roots where the agent keeps its worktrees: ``<root>/<repo-id>/<session-id>``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from yolop_cli.ground import ids, paths
from yolop_cli.ground.errors import os_reason


@dataclass(frozen=True)
class Trouble:
    """Something that could not be read or done, and why."""

    path: Path
    message: str


@dataclass(frozen=True)
class Entry:
    """A directory, or a link in its place, where a worktree should be.

    ``path`` is below the resolved ``root``, itself not resolved; ``owners`` are the user ids of the entry
    and of the directory above it; ``device`` and ``inode`` tell it apart from one put in its place.
    """

    root: Path
    path: Path
    kind: Literal["directory", "link", "unreadable"]
    owners: frozenset[int] = frozenset()
    device: int = 0
    inode: int = 0
    message: str | None = None

    @property
    def session_id(self) -> str | None:
        """The session whose name the directory bears, if it is a session's name."""
        return session_named(self.path)


def entries(roots: Iterable[Path]) -> tuple[list[Entry], list[Trouble]]:
    """Everything below the roots, by path; a root that is missing is empty, one bad entry hides no other."""
    found: list[Entry] = []
    troubles: list[Trouble] = []
    for root in real_roots(roots):
        for repository in _children(root, troubles):
            if repository.is_symlink():
                found.append(look(root, Path(repository.path)))
            elif repository.is_dir(follow_symlinks=False):
                children = _children(Path(repository.path), troubles)
                found += [
                    look(root, Path(child.path))
                    for child in children
                    if child.is_symlink() or child.is_dir(follow_symlinks=False)
                ]
    return sorted(found, key=lambda entry: os.fsencode(entry.path)), troubles


def real_roots(roots: Iterable[Path]) -> list[Path]:
    """The roots with their links followed, each once."""
    return list(dict.fromkeys(paths.resolved(root) for root in roots))


def session_named(path: Path) -> str | None:
    """The session id that is the last part of a path, if it is one."""
    return path.name if ids.is_session_id(path.name) else None


def look(root: Path, path: Path) -> Entry:
    """One entry as it is now; nothing is followed below the root."""
    try:
        info, above = os.lstat(path), os.lstat(path.parent)
    except OSError as error:
        return Entry(root, path, "unreadable", message=os_reason(error))
    owners = frozenset((info.st_uid,) if path.parent == root else (info.st_uid, above.st_uid))
    if stat.S_ISDIR(info.st_mode) and (stat.S_ISDIR(above.st_mode) or path.parent == root):
        return Entry(root, path, "directory", owners, info.st_dev, info.st_ino)
    return Entry(root, path, "link", owners, info.st_dev, info.st_ino)


def _children(directory: Path, troubles: list[Trouble]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as children:
            yield from children
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        troubles.append(Trouble(directory, f"cannot be listed: {os_reason(error)}"))
