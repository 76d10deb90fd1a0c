"""Which paths the saved sessions name: what makes a worktree referenced and a repository worth a look."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from yolop_cli.ground import ids, paths
from yolop_cli.ground.errors import StorageError, YolopError
from yolop_cli.session import lock, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.places import DATA_DIR_VARIABLE, SESSIONS_DIR_VARIABLE, Places
from yolop_cli.session.workspace import Workspace

Key = TypeVar("Key")
_NOBODY_KNOWS = "they show which worktrees are in use; nothing is removed without them"


@dataclass(frozen=True)
class References:
    """What the saved sessions say of worktrees.

    ``named`` maps a resolved path, and every directory above it, to the sessions that name it; ``inodes``
    the device and inode of a named directory; ``worktrees`` are the paths said to be a worktree;
    ``unreadable`` are sessions whose metadata cannot be read; ``repositories`` maps a path said to be a
    repository to the sessions that say so.
    """

    directories: tuple[Path, ...]
    saved: frozenset[str]
    unreadable: frozenset[str]
    named: Mapping[Path, frozenset[str]]
    inodes: Mapping[tuple[int, int], frozenset[str]]
    worktrees: Mapping[Path, frozenset[str]]
    repositories: Mapping[Path, frozenset[str]]

    def of(self, path: Path, device: int = 0, inode: int = 0) -> frozenset[str]:
        """The sessions that name a path, or something below it."""
        sessions = self.named.get(paths.resolved(path), frozenset())
        return sessions | self.inodes.get((device, inode), frozenset())

    def is_running(self, session_id: str) -> bool:
        """Whether a process holds a lock of the session now, saved or not."""
        return any(lock.is_held(SessionDirectory(directory / session_id)) for directory in self.directories)

    def is_saved(self, session_id: str) -> bool:
        """Whether something of the session is on disk now, in any layout."""
        return session_id in self.saved or bool(holding(self.directories, session_id))


def load(places: Places) -> References:
    """Read the metadata of every session that this environment can name.

    A sessions directory chosen for this call adds to the usual ones and does not replace them: a worktree
    in use from the usual place must not look abandoned. Raises ``StorageError`` when one cannot be listed.
    """
    directories = session_directories(places)
    saved: set[str] = set()
    unreadable: set[str] = set()
    named: dict[Path, set[str]] = {}
    inodes: dict[tuple[int, int], set[str]] = {}
    worktrees: dict[Path, set[str]] = {}
    repositories: dict[Path, set[str]] = {}
    for session_id, metadata in _each(directories):
        saved.add(session_id)
        if metadata is None:
            unreadable.add(session_id)
            continue
        for path in _named_paths(metadata):
            real = paths.resolved(path)
            for directory in (real, *real.parents):
                named.setdefault(directory, set()).add(session_id)
            identity = _identity(real)
            if identity is not None:
                inodes.setdefault(identity, set()).add(session_id)
        if metadata.worktree is not None:
            worktrees.setdefault(paths.resolved(metadata.worktree.path), set()).add(session_id)
        for root in (metadata.repo_root, metadata.canonical_repo_root):
            if root is not None and root.is_absolute():
                repositories.setdefault(paths.resolved(root), set()).add(session_id)
    return References(
        directories,
        frozenset(saved),
        frozenset(unreadable),
        _frozen(named),
        _frozen(inodes),
        _frozen(worktrees),
        _frozen(repositories),
    )


def session_directories(places: Places) -> tuple[Path, ...]:
    """Every directory where this environment may have sessions, resolved: the chosen one first.

    What outranks another hides none of it here. Raises ``StorageError`` when one lies behind a link to
    nowhere, as of a disk that is not mounted: its sessions would count as gone.
    """
    found = [places.sessions]
    environ = dict(places.environ)
    for variable in (SESSIONS_DIR_VARIABLE, DATA_DIR_VARIABLE, "XDG_DATA_HOME", None):
        found.append(Places.of(environ, places.here).sessions)
        if variable is not None:
            environ[variable] = ""
    for directory in found:
        for path in (directory, *directory.parents):
            if os.path.islink(path) and not os.path.exists(path):
                raise StorageError(
                    f"cannot list the sessions in {paths.show(directory)}: {paths.show(path)} leads nowhere",
                    hint=_NOBODY_KNOWS,
                )
    return tuple(dict.fromkeys(paths.resolved(directory) for directory in found))


def holding(directories: Iterable[Path], session_id: str) -> list[Path]:
    """The sessions directories where something of a session is on disk now, in any layout."""
    return [
        directory
        for directory in directories
        if any(os.path.lexists(directory / name) for name in (session_id, f"{session_id}.jsonl"))
    ]


def _each(directories: Iterable[Path]) -> Iterable[tuple[str, Workspace | None]]:
    """Every session with its metadata; None when it cannot be read, or does not say what it must.

    A session in the old layout, a log beside the directories, has no metadata.
    """
    for directory in directories:
        try:
            names = sorted(os.listdir(directory))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StorageError(
                f"cannot list the sessions in {paths.show(directory)}: {error.strerror}",
                hint=_NOBODY_KNOWS,
            ) from None
        present = frozenset(names)
        for name in names:
            session_id = name.removesuffix(".jsonl")
            if ids.is_session_id(name):
                yield name, _metadata(SessionDirectory(directory / name))
            elif ids.is_session_id(session_id) and session_id not in present:
                yield session_id, None


def _metadata(session: SessionDirectory) -> Workspace | None:
    try:
        metadata = workspace.read(session.workspace)
    except YolopError:
        return None
    if metadata is None or metadata.active_root is None or metadata.worktree_unreadable:
        return None
    return metadata if all(path.is_absolute() for path in _named_paths(metadata)) else None


def _named_paths(metadata: Workspace) -> list[Path]:
    named = [metadata.active_root, metadata.worktree.path if metadata.worktree else None]
    return [path for path in named if path is not None]


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _frozen(found: Mapping[Key, set[str]]) -> dict[Key, frozenset[str]]:
    return {key: frozenset(sessions) for key, sessions in found.items()}
