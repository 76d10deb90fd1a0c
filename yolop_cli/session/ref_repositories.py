"""The repositories that this toolkit made private refs in, remembered beside the sessions.

Refs outlive the session and the worktree that led to their repository, and then nothing else names it: a
prune could never find them. One symbolic link a repository in ``<sessions>/.repositories``: nothing to
parse, nothing to lock, and whatever goes wrong with it is of no consequence.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from yolop_cli.ground import files
from yolop_cli.ground.errors import StorageError

_DIRECTORY = ".repositories"


def remember(sessions: Path, common: Path) -> None:
    """Note a repository by its resolved git directory."""
    link = _link(sessions, common)
    try:
        files.make_private_directory(link.parent)
        os.symlink(common, link)
    except (OSError, StorageError):  # it is noted already, or cannot be: a capture does not fail for that
        return


def remembered(sessions: Path) -> list[Path]:
    """The repositories noted, also those that are not there any more."""
    try:
        names = sorted(os.listdir(sessions / _DIRECTORY))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            found.append(Path(os.readlink(sessions / _DIRECTORY / name)))
        except OSError:
            continue
    return found


def forget(sessions: Path, common: Path) -> None:
    """Drop the note of a repository that holds no private ref."""
    try:
        os.unlink(_link(sessions, common))
    except OSError:
        return


def _link(sessions: Path, common: Path) -> Path:
    return sessions / _DIRECTORY / hashlib.sha256(os.fsencode(common)).hexdigest()[:16]
