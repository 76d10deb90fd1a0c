"""Directories that sessions work in or lie in, so that going back in time there would harm one."""

from __future__ import annotations

from pathlib import Path

from yolop_cli.ground import paths
from yolop_cli.ground.errors import BusyError, DeniedError
from yolop_cli.session import lock, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.find import sessions_in


def refuse_home(root: Path, home: Path, hint: str | None = None) -> None:
    """Refuse a directory that holds the sessions in ``home``, or lies among them.

    Raises ``DeniedError``: restoring it would take the journals along.
    """
    root, home = paths.resolved(root), paths.resolved(home)
    if paths.is_below(home, root) or paths.is_below(root, home):
        raise DeniedError(f"{paths.show(root)} holds the sessions themselves", hint=hint)


def refuse_at_work(root: Path, home: Path, but: SessionDirectory | None = None) -> None:
    """Refuse while a session (``but`` aside) is at work in a directory, in one above or in one below.

    Raises ``BusyError``, ``StorageError`` when the sessions cannot be listed.
    """
    for other in sessions_in(home):
        if (but is None or other.id != but.id) and lock.is_held(other) and _works_around(other, root):
            raise BusyError(
                f"another session is at work in {paths.show(root)}: {other.id}",
                hint="wait for it to end, then try again",
                details={"session_id": other.id},
            )


def _works_around(session: SessionDirectory, root: Path) -> bool:
    metadata = workspace.read_or_empty(session.workspace)
    places = [metadata.active_root, metadata.worktree.path if metadata.worktree else None]
    return any(
        paths.is_below(place, root) or paths.is_below(root, place)
        for place in (paths.resolved(each) for each in places if each is not None and each.is_absolute())
    )
