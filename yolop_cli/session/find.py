"""Which session is meant: by path, id, prefix, environment, or the directory one stands in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from yolop_cli.ground import files, ids, paths
from yolop_cli.ground.errors import NotFoundError, RefusedError, StorageError, UsageError
from yolop_cli.session import workspace
from yolop_cli.session.directory import SessionDirectory, open_directory
from yolop_cli.session.places import SESSION_VARIABLE, Places

_LIST_HINT = "see `yolop-cli session list`"


def find(places: Places, named: str | None) -> SessionDirectory:
    """The session a user means.

    ``named`` is a path, a full id or a unique prefix; without it the environment and then the current
    directory decide. Raises ``NotFoundError``, ``UsageError`` for an ambiguous prefix, ``RefusedError`` for
    a tie, ``DeniedError`` for a link.
    """
    named = named if named is not None else places.environ.get(SESSION_VARIABLE) or None
    if named is None:
        return _of_directory(places)
    if ids.is_session_prefix(named):
        return _of_prefix(places, named)
    if os.sep in named or named == os.curdir:
        return open_directory(places.here / named)
    raise NotFoundError(f"no such session: {named!r}", hint=_LIST_HINT)


def sessions(places: Places) -> Iterator[SessionDirectory]:
    """Every session directory, by name; links and names that are not ids are passed over.

    Raises ``StorageError`` when the sessions directory is there but cannot be listed.
    """
    return sessions_in(places.sessions)


def sessions_in(directory: Path) -> Iterator[SessionDirectory]:
    """As ``sessions``, for a sessions directory."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise files.failed("list", directory, error) from None
    for entry in entries:
        if ids.is_session_id(entry.name) and entry.is_dir(follow_symlinks=False):
            yield SessionDirectory(paths.resolved(directory) / entry.name)


def _of_prefix(places: Places, prefix: str) -> SessionDirectory:
    full = prefix if prefix.startswith("session_") else f"session_{prefix}"
    if ids.is_session_id(full):
        return open_directory(places.sessions / full)
    found = [session for session in sessions(places) if session.id.startswith(full)]
    if not found:
        raise NotFoundError(f"no session begins with {full}", hint=_LIST_HINT)
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} sessions begin with {full}",
            hint="give more of the id",
            details={"sessions": [session.id for session in found]},
        )
    return found[0]


def _of_directory(places: Places) -> SessionDirectory:
    here = paths.resolved(places.here)
    best: list[SessionDirectory] = []
    depth = -1
    for session in sessions(places):
        root = _deepest_root(session, here)
        if root is None or len(root.parts) < depth:
            continue
        best = [*best, session] if len(root.parts) == depth else [session]
        depth = len(root.parts)
    if not best:
        raise NotFoundError(
            "no session belongs to this directory",
            hint=f"name one with -s or ${SESSION_VARIABLE}; {_LIST_HINT}",
        )
    if len(best) > 1:
        names = ", ".join(session.id for session in best)
        raise RefusedError(
            f"{len(best)} sessions belong to this directory: {names}",
            hint=f"name one with -s or ${SESSION_VARIABLE}",
            details={"sessions": [session.id for session in best]},
        )
    return best[0]


def _deepest_root(session: SessionDirectory, here: Path) -> Path | None:
    try:
        metadata = workspace.read(session.workspace)
    except StorageError:
        return None
    if metadata is None:
        return None
    roots = [metadata.active_root, metadata.worktree.path if metadata.worktree else None]
    holding = [
        root
        for root in (paths.resolved(path) for path in roots if path is not None and path.is_absolute())
        if paths.is_below(here, root)
    ]
    return max(holding, key=lambda root: len(root.parts), default=None)
