"""What a worktree holds that exists nowhere else, found without starting a program the repository names.

Git compares files through the filters that attributes and configuration choose, and those are programs.
So every filter driver that the configuration knows is switched off for the call. A file that would look
unchanged only through its filter then counts as changed, and the worktree is kept: the safe side.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import paths
from yolop_cli.ground.git import Git, Where
from yolop_cli.worktrees.links import Link

Settings = tuple[tuple[str, str], ...]
# What a user's configuration might hide from `git status`, and what would start a program for a submodule.
_WHOLE_STATUS: Settings = (("status.showUntrackedFiles", "normal"), ("status.submoduleSummary", "false"))
_PER_WORKTREE = ("includeif.", "extensions.worktreeconfig")
_GITLINK = b"160000"
_SYMLINK = b"120000"


@dataclass(frozen=True)
class Contents:
    """What git and a walk say of one worktree: its commit and full branch name, and how much is unsaved.

    ``hidden`` are changed files that git was told not to look at; ``gitlinks`` says that the index names
    submodules, which makes git ask for force.
    """

    head: str | None
    branch: str | None
    changed: int
    untracked: int
    hidden: int
    gitlinks: bool

    @property
    def is_clean(self) -> bool:
        """Whether everything that git does not ignore is in a commit."""
        return not (self.changed or self.untracked or self.hidden)


@dataclass(frozen=True)
class Tree:
    """What a walk over a worktree found: bytes in its files; what stands in the way of removing it.

    ``nested`` is a repository inside it, outside the usual build directories; ``mounted`` a directory on
    another file system; ``stuck`` a directory that cannot be listed or emptied.
    """

    size: int
    nested: Path | None = None
    mounted: Path | None = None
    stuck: Path | None = None


def driver_settings(git: Git, directory: Path, common: Path) -> tuple[Settings, bool]:
    """The settings that switch off all filter drivers a repository's configuration knows.

    Also whether one of its worktrees may see other settings than these. Raises ``GitError``.
    """
    names = _setting_names(git, Where(directory, {"GIT_DIR": os.fspath(common)}, users_config=True))
    varied = any(name.startswith(_PER_WORKTREE) for name in names)
    return _switched_off(names), varied


def place(git: Git, worktree: Path, link: Link, settings: Settings, *, varied: bool) -> Where:
    """Where git looks at a worktree: the user's configuration in force, every filter driver off."""
    variables = {"GIT_DIR": os.fspath(link.admin), "GIT_WORK_TREE": os.fspath(worktree)}
    where = Where(worktree, variables, _WHOLE_STATUS, users_config=True)
    if varied:
        settings = _switched_off(_setting_names(git, where))
    return where.with_config(*settings)


def look(git: Git, where: Where) -> Contents:
    """What a worktree holds, in one process, or two when git calls it clean. Raises ``GitError``."""
    rows = git.run(
        where,
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--no-ahead-behind",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=dirty",
    ).records()
    headers = dict(row[2:].split(b" ", 1) for row in rows if row.startswith(b"# "))
    oid = headers.get(b"branch.oid", b"(initial)").decode("ascii", "replace")
    branch = os.fsdecode(headers.get(b"branch.head", b"(detached)"))
    changed = sum(row[:2] in (b"1 ", b"2 ", b"u ") for row in rows)
    untracked = sum(row[:2] == b"? " for row in rows)
    hidden, gitlinks = (0, False) if changed or untracked else _behind_the_index(git, where)
    return Contents(
        None if oid.startswith("(") else oid,
        None if branch == "(detached)" else f"refs/heads/{branch}",
        changed,
        untracked,
        hidden,
        gitlinks,
    )


def walk(worktree: Path) -> Tree:
    """Look at every directory of a worktree, following no link and entering no other file system."""
    root = os.fsencode(worktree)
    device = os.lstat(root).st_dev
    if not os.access(worktree.parent, os.W_OK | os.X_OK):
        return Tree(0, stuck=worktree.parent)
    size = 0
    nested: bytes | None = None
    waiting = [(root, False)]
    while waiting:
        directory, build = waiting.pop()
        try:
            with os.scandir(directory) as children:
                entries = list(children)
            infos = [(entry, entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            return Tree(size, _path(nested), stuck=_path(directory))
        if not os.access(directory, os.W_OK | os.X_OK) and (entries or directory == root):
            return Tree(size, _path(nested), stuck=_path(directory))
        for entry, info in infos:
            if info.st_dev != device:
                return Tree(size, _path(nested), mounted=_path(entry.path))
            if stat.S_ISDIR(info.st_mode):
                waiting.append((entry.path, build or paths.is_blocked(entry.name + b"/")))
            else:
                size += info.st_size
            if entry.name == b".git" and directory != root and not build:
                nested = nested or directory
    return Tree(size, _path(nested))


def _path(raw: bytes | None) -> Path | None:
    return None if raw is None else Path(os.fsdecode(raw))


def _setting_names(git: Git, where: Where) -> list[str]:
    pattern = r"^(filter\.|includeif\.|extensions\.worktreeconfig$)"
    asked = git.run(where, "config", "-z", "--name-only", "--get-regexp", pattern, ok=(0, 1))
    return [os.fsdecode(name) for name in asked.records()]


def _switched_off(names: list[str]) -> Settings:
    drivers = sorted(
        {
            name[len("filter.") : name.rindex(".")]
            for name in names
            if name.count(".") > 1 and name.startswith("filter.")
        }
    )
    return tuple(
        (f"filter.{driver}.{key}", value)
        for driver in drivers
        for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
    )


def _behind_the_index(git: Git, where: Where) -> tuple[int, bool]:
    """How many files differ that git was told not to look at, and whether there are submodules."""
    hidden = 0
    gitlinks = False
    with git.streaming(where, "ls-files", "-z", "-s", "-v") as out:
        for row in out.read().split(b"\0"):
            fields, _, path = row.partition(b"\t")
            if not path:
                continue
            tag, mode, oid, _ = fields.split(b" ")
            gitlinks = gitlinks or mode == _GITLINK
            if tag.islower() or tag == b"S":
                hidden += _differs(os.fsencode(where.directory) + b"/" + path, mode, oid, present=tag == b"h")
    return hidden, gitlinks


def _differs(path: bytes, mode: bytes, oid: bytes, *, present: bool) -> bool:
    """Whether a file is not what the index says; one that is absent only where it should be ``present``."""
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            return mode != _SYMLINK or _blob(os.readlink(path), oid) != oid
        if not stat.S_ISREG(info.st_mode) or mode in (_SYMLINK, _GITLINK):
            return mode != _GITLINK
        with open(path, "rb", opener=_no_follow) as file:
            return _blob(file.read(), oid) != oid
    except FileNotFoundError:
        return present
    except OSError:
        return True


def _no_follow(path: str | bytes, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _blob(data: bytes, like: bytes) -> bytes:
    digest = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return digest(b"blob %d\0" % len(data) + data).hexdigest().encode("ascii")
