"""A worktree and the repository behind it: where its git directories are, asked of git once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files, paths
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git, Where, discovered

_REF_SETTINGS = (("core.filesRefLockTimeout", "2000"), ("core.packedRefsTimeout", "2000"))


@dataclass(frozen=True)
class Checkout:
    """A worktree of a repository; all paths are resolved.

    ``git_dir`` is the worktree's own directory, ``common_dir`` the repository's; they are the same for the
    main checkout.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    object_format: str

    @property
    def is_linked(self) -> bool:
        """Whether this is a linked worktree and not the main checkout."""
        return self.git_dir != self.common_dir

    @property
    def real(self) -> Where:
        """The repository as it is, for refs and for reading; no user configuration, no hooks."""
        return Where(self.root, {"GIT_DIR": str(self.git_dir)}, _REF_SETTINGS)

    @property
    def objects(self) -> Path:
        """The repository's object directory."""
        return self.common_dir / "objects"


def open_checkout(git: Git, directory: Path) -> Checkout:
    """The worktree at exactly this directory.

    Raises ``GitError`` when git finds no repository there, ``StorageError`` when the directory is not the
    top of a worktree.
    """
    asked = git.run(discovered(directory), "rev-parse", "--show-object-format", "--absolute-git-dir")
    object_format, _, git_dir_text = asked.out.partition(b"\n")
    git_dir = paths.resolved(Path(os.fsdecode(git_dir_text.removesuffix(b"\n"))))
    root = paths.resolved(directory)
    pointer = root / ".git"
    if not pointer.exists():
        raise StorageError(f"{directory} is not the top of a worktree", details={"path": str(directory)})
    return Checkout(root, git_dir, _common_dir(git_dir), object_format.decode("ascii", "replace"))


def common_dir_of(git: Git, repository_root: Path) -> Path:
    """The resolved common directory of the repository that a path is the checkout of."""
    pointer = repository_root / ".git"
    if pointer.is_dir() and not pointer.is_symlink():
        return paths.resolved(pointer)
    asked = git.run(discovered(repository_root), "rev-parse", "--absolute-git-dir")
    return _common_dir(paths.resolved(Path(os.fsdecode(asked.out.removesuffix(b"\n")))))


def head_commit(git: Git, checkout: Checkout) -> str | None:
    """The commit that HEAD names, or None on an unborn branch."""
    asked = git.run(checkout.real, "rev-parse", "-q", "--verify", "HEAD^{commit}", ok=(0, 1, 128))
    return asked.line() if asked.status == 0 else None


def excludes_file(git: Git, checkout: Checkout) -> str:
    """The user's own ignore file, as their configuration names it, else git's default."""
    asked = git.run(
        discovered(checkout.root), "config", "-z", "--type=path", "--get", "core.excludesFile", ok=(0, 1)
    )
    if asked.status == 0 and asked.records():
        return os.fsdecode(asked.records()[0])
    base = git.environ.get("XDG_CONFIG_HOME") or os.path.join(git.environ.get("HOME", "/"), ".config")
    return os.path.join(base, "git", "ignore")


def _common_dir(git_dir: Path) -> Path:
    text = files.read_bytes(git_dir / "commondir")
    if text is None:
        return git_dir
    return paths.resolved(git_dir / os.fsdecode(text.rstrip(b"\n")))
