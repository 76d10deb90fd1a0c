"""Delete a session: its snapshots, its private refs, its directory, its lock file. Never a user's ref or
snapshot, never the worktree.

A preview gives a token bound to what is there now; deleting needs it. The directory goes last, so that a
deletion that was interrupted is finished by doing it again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files, paths
from yolop_cli.ground.errors import DeniedError, RefusedError, StaleError, StorageError, YolopError, os_reason
from yolop_cli.ground.git import Git
from yolop_cli.homes import session_snapshots
from yolop_cli.homes.session_snapshots import Share
from yolop_cli.session import lock, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.places import Places
from yolop_cli.session.workspace import Workspace
from yolop_cli.worktrees import contents, links, references, repository
from yolop_cli.worktrees.repository import Repository

_TOKEN = re.compile(r"[0-9a-f]{32}\Z")
_SCOPE = 8


@dataclass(frozen=True)
class Deletion:
    """What deleting a session takes away.

    ``refs`` are its private refs by repository, ``shares`` its snapshots by store; ``worktree`` is what it
    names as its own, and stays; ``missing`` are repositories it names that are not there. ``also_in`` are
    other sessions directories with a session of this id, which needs the refs and snapshots: then they stay.
    """

    session: SessionDirectory
    token: str
    files: int
    size: int
    refs: tuple[tuple[Repository, Mapping[str, str]], ...]
    worktree: Path | None
    missing: tuple[Path, ...]
    shares: tuple[Share, ...] = ()
    also_in: tuple[Path, ...] = ()


def plan(git: Git, places: Places, session: SessionDirectory) -> Deletion:
    """What a deletion would take away now. Changes nothing.

    Raises ``StorageError`` when the directory, a repository or the sessions cannot be looked at.
    """
    metadata = workspace.read_or_empty(session.workspace)
    commons, missing = _repositories(places, metadata)
    found = [
        (repo, repo.private.get(session.id, {})) for repo in (repository.look(git, one) for one in commons)
    ]
    also_in = _also_in(places, session)
    refs = () if also_in else tuple((repo, owned) for repo, owned in found if owned)
    listed = sorted(_files(session))
    state = hashlib.sha256()
    for name, size, changed in listed:
        state.update(b"%d %d %s\0" % (size, changed, name))
    for repo, owned in refs:
        state.update(os.fsencode(repo.common) + b"\0")
        state.update("".join(f"{name} {oid}\0" for name, oid in sorted(owned.items())).encode())
    shares = () if also_in else session_snapshots.shares(session)
    for share in shares:
        state.update(os.fsencode(share.root) + b"\0" + " ".join(share.own).encode() + b"\0")
    return Deletion(
        session,
        _scope(session) + state.hexdigest()[: 32 - _SCOPE],
        len(listed),
        sum(size for _, size, _ in listed),
        refs,
        metadata.worktree.path if metadata.worktree else None,
        missing,
        shares,
        also_in,
    )


def carry_out(git: Git, places: Places, session: SessionDirectory, token: str | None) -> Deletion:
    """Delete the session as the preview of ``token`` showed it (as it is now, for None).

    Raises ``BusyError`` when another process writes the session, ``RefusedError`` for a token that is not
    one of this session's, ``StaleError`` when something changed since the preview, ``DeniedError`` or
    ``StorageError`` when the directory cannot be removed whole.
    """
    if token is not None and not (_TOKEN.match(token) and token.startswith(_scope(session))):
        raise RefusedError(f"not a token for deleting {session.id}", hint=_again(session))
    with lock.held(session) as descriptors:
        git = git.keeping(descriptors)
        planned = plan(git, places, session)
        if token is not None and token != planned.token:
            raise StaleError(f"{session.id} changed since the preview", hint=_again(session))
        _check_removable(session)
        for share in planned.shares:
            session_snapshots.give_up(share.root, share.own)
        for repo, refs in planned.refs:
            repository.delete_refs(git, repo, refs)
        _remove(session)
    return planned


def _also_in(places: Places, session: SessionDirectory) -> tuple[Path, ...]:
    """The other sessions directories known here that hold a copy of the session, or its original."""
    own = paths.resolved(session.path.parent)
    found = references.holding(references.session_directories(places), session.id)
    return tuple(directory for directory in found if directory != own)


def _repositories(places: Places, metadata: Workspace) -> tuple[list[Path], tuple[Path, ...]]:
    """The repositories that may hold refs of the session, and the named ones that are not there."""
    found: set[Path] = set()
    missing: list[Path] = []
    for root in (metadata.repo_root, metadata.canonical_repo_root):
        common = links.common_directory(root) if root is not None else None
        if common is not None:
            found.add(common)
        elif root is not None and root not in missing:
            missing.append(root)
    if metadata.worktree is not None:
        try:
            found.add(links.read_link(paths.resolved(metadata.worktree.path)).common)
        except YolopError:
            pass  # no worktree there: the repository is looked at by its own name
    for directory in (metadata.active_root, places.here):
        common = links.enclosing(paths.resolved(directory)) if directory is not None else None
        if common is not None:
            found.add(common)
    return sorted(found), tuple(missing)


def _files(session: SessionDirectory) -> Iterator[tuple[bytes, int, int]]:
    """Name, size and time of every file of the session, an old log beside the directory too."""
    try:
        for directory, _, names in os.walk(os.fsencode(session.path), onerror=_raise):
            for name in names:
                path = os.path.join(directory, name)
                info = os.lstat(path)
                yield path, info.st_size, info.st_mtime_ns
        for log in _beside(session):
            info = os.lstat(log)
            yield os.fsencode(log), info.st_size, info.st_mtime_ns
    except OSError as error:
        raise files.failed("look into", session.path, error) from None


def _beside(session: SessionDirectory) -> list[Path]:
    log = session.path.parent / f"{session.id}.jsonl"
    try:
        return [log] if stat.S_ISREG(os.lstat(log).st_mode) else []
    except FileNotFoundError:
        return []


def _check_removable(session: SessionDirectory) -> None:
    tree = contents.walk(session.path)
    if tree.mounted is not None:
        raise DeniedError(f"another file system is mounted in the session: {paths.show(tree.mounted)}")
    if tree.stuck is not None:
        raise StorageError(
            f"cannot remove the whole session: {paths.show(tree.stuck)} cannot be emptied",
            hint="nothing was changed; make the directory writable and try again",
        )


def _remove(session: SessionDirectory) -> None:
    try:
        shutil.rmtree(session.path)
        for path in _beside(session):
            path.unlink()
        files.sync_directory(session.path.parent)
    except OSError as error:
        raise StorageError(
            f"the private refs and snapshots of {session.id} are gone, but not all of "
            f"{paths.show(session.path)}: {os_reason(error)}",
            hint="delete the session once more to finish",
        ) from None
    files.remove_file(session.lock)


def _raise(error: OSError) -> None:
    raise error


def _scope(session: SessionDirectory) -> str:
    return hashlib.sha256(b"delete\0" + os.fsencode(session.path)).hexdigest()[:_SCOPE]


def _again(session: SessionDirectory) -> str:
    return f"run `yolop-cli session delete -s {session.id}` again and use the token it prints"
