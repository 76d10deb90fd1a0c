"""The ownership boundary: whether a session owns a worktree, and which (format page, "workspace.json").

Snapshots and restores happen only in a worktree that the session owns, so that a restore of the whole
captured state cannot erase edits from the user's main checkout or another session's worktree.
"""

from __future__ import annotations

import os
from pathlib import Path

from yolop_cli.ground import files, paths
from yolop_cli.ground.errors import DeniedError, StorageError, YolopError, os_reason
from yolop_cli.ground.git import Git
from yolop_cli.session import workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.trees.checkout import Checkout, common_dir_of, open_checkout


def owned_checkout(git: Git, session: SessionDirectory) -> Checkout:
    """The worktree that the session owns.

    Raises ``DeniedError`` whose message is the reason when it owns none, ``StorageError`` when git or the
    file system fails.
    """
    try:
        return _owned(git, session)
    except OSError as error:
        where = paths.show(error.filename or session.path)
        raise StorageError(f"the session's worktree cannot be read: {where}: {os_reason(error)}") from None


def _owned(git: Git, session: SessionDirectory) -> Checkout:
    metadata = workspace.read(session.workspace)
    if metadata is None or metadata.worktree is None:
        raise _denied("the session owns no worktree")
    if metadata.repo_root is None:
        raise _denied("the session names no repository")
    path = metadata.worktree.path
    if not path.is_absolute() or not path.is_dir():
        raise _denied(f"the session's worktree is gone: {path}")
    if paths.resolved(path) == paths.resolved(metadata.repo_root):
        raise _denied(f"{path} is the main checkout, not a worktree of the session's own")
    checkout = open_checkout(git, path)
    if not checkout.is_linked:
        raise _denied(f"{path} is the main checkout, not a worktree of the session's own")
    if not _is_registered(checkout):
        raise _denied(f"{path} is not a registered worktree of its repository")
    try:
        expected = common_dir_of(git, metadata.repo_root)
    except YolopError:
        raise _denied(f"the session's repository is not at {metadata.repo_root}") from None
    if expected != checkout.common_dir:
        raise _denied(f"{path} is a worktree of another repository than {metadata.repo_root}")
    return checkout


def _is_registered(checkout: Checkout) -> bool:
    """Whether the repository's entry for the worktree points back at it."""
    if checkout.git_dir.parent != checkout.common_dir / "worktrees":
        return False
    pointer = files.read_bytes(checkout.git_dir / "gitdir")
    if pointer is None:
        return False
    named = checkout.git_dir / os.fsdecode(pointer.rstrip(b"\n"))
    return paths.resolved(Path(named)) == checkout.root / ".git"


def _denied(reason: str) -> DeniedError:
    return DeniedError(reason, hint="only the conversation can be rewound; see `yolop-cli session show`")
