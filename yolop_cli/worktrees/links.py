"""The small files by which a linked worktree and its repository name each other.

A worktree has a ``.git`` file that names its administrative directory in the repository; that one has
``commondir`` (the repository) and ``gitdir`` (where the worktree is). Read here without git, so that
finding the repositories costs no process a worktree. Nothing below ``refs/`` is ever opened.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files, paths
from yolop_cli.ground.errors import NotFoundError, StorageError, os_reason

_UNDER_WAY = {
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase or am",
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "BISECT_LOG": "a bisect",
    "sequencer": "a series of picks",
}


class NotLinkedError(StorageError):
    """A directory is no linked worktree of any repository. The message is the reason."""


@dataclass(frozen=True)
class Link:
    """Where a worktree's ``.git`` file leads; the git directories are resolved.

    ``registered`` is where the repository says the worktree is; ``fault`` says why that is not this one.
    """

    admin: Path
    common: Path
    registered: Path
    fault: str | None = None

    @property
    def is_locked(self) -> bool:
        """Whether the worktree is locked at this moment."""
        return os.path.lexists(self.admin / "locked")

    def under_way(self) -> tuple[str, ...]:
        """The operations of git that were begun in the worktree and not ended."""
        return tuple(words for name, words in _UNDER_WAY.items() if os.path.lexists(self.admin / name))

    def has_submodules(self) -> bool:
        """Whether repositories of submodules lie in the administrative directory."""
        try:
            return bool(os.listdir(self.admin / "modules"))
        except OSError:
            return False


def read_link(worktree: Path) -> Link:
    """The link of the worktree at a resolved path.

    Raises ``NotLinkedError`` with the reason when there is none, ``StorageError`` when it cannot be read.
    """
    admin = _pointed_to(worktree)
    common = _common(admin)
    back = _content(admin / "gitdir")
    if common is None or back is None or admin.parent != common / "worktrees":
        raise NotLinkedError("its .git file points to a git directory that is not a linked worktree's")
    registered = Path(os.path.normpath(admin / back)).parent
    return Link(admin, common, registered, _fault(worktree, registered))


def common_directory(checkout: Path) -> Path | None:
    """The resolved common directory of the repository whose checkout, or bare directory, a path is.

    None when no repository is there.
    """
    inside = checkout / ".git"
    try:
        if os.path.isfile(inside):
            admin = _pointed_to(checkout)
            found = _common(admin) or admin
        else:
            found = paths.resolved(inside if os.path.isdir(inside) else checkout)
    except StorageError:
        return None
    return found if is_repository(found) else None


def enclosing(directory: Path) -> Path | None:
    """The repository of the nearest directory at or above a path that has one, or is a bare one."""
    for candidate in (directory, *directory.parents):
        if os.path.lexists(candidate / ".git") or is_repository(candidate):
            return common_directory(candidate)
    return None


def is_repository(directory: Path) -> bool:
    """Whether a directory has the shape of a git directory."""
    return os.path.isdir(directory / "objects") and os.path.lexists(directory / "HEAD")


def _pointed_to(worktree: Path) -> Path:
    """The git directory that the ``.git`` file names, resolved."""
    pointer = worktree / ".git"
    try:
        mode = os.lstat(pointer).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NotLinkedError("it has no .git file, so it is not a worktree") from None
    except OSError as error:
        raise StorageError(f"it cannot be read: {os_reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise NotLinkedError("it is a repository's main checkout, not a linked worktree")
    if not stat.S_ISREG(mode):
        raise NotLinkedError("its .git is not a file")
    text = _content(pointer)
    if text is None or not text.startswith("gitdir:"):
        raise NotLinkedError("its .git file names no git directory")
    named = Path(os.path.normpath(worktree / text.removeprefix("gitdir:").strip(" ")))
    if not os.path.isdir(named):
        raise NotLinkedError(_dangling(named))
    return paths.resolved(named)


def _dangling(named: Path) -> str:
    repository = named.parent.parent
    if named.parent.name == "worktrees" and is_repository(repository):
        return f"its repository {paths.show(repository)} no longer knows it"
    return (
        f"its .git file points nowhere ({paths.show(named)}): the repository moved, vanished or is not"
        " mounted; if it moved, run `git worktree repair` with this path there"
    )


def _common(admin: Path) -> Path | None:
    text = _content(admin / "commondir")
    return None if text is None else paths.resolved(admin / text)


def _fault(worktree: Path, registered: Path) -> str | None:
    mine, named = worktree / ".git", registered / ".git"
    if paths.resolved(named) == paths.resolved(mine):
        return None
    try:
        if mine.samefile(named):
            return None
    except OSError:
        pass
    if os.path.lexists(named):
        return f"its .git file is that of another worktree, {paths.show(registered)}"
    return (
        f"the repository knows it at {paths.show(registered)}, where nothing exists: it was moved;"
        " run `git worktree repair` in it"
    )


def _content(path: Path) -> str | None:
    try:
        data = files.read_bytes(path)
    except NotFoundError:
        return None
    return None if data is None or b"\0" in data else os.fsdecode(data.rstrip(b"\r\n"))
