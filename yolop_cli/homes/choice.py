"""Which home a snapshot has: the one place that knows both."""

from __future__ import annotations

from yolop_cli.homes.held import Held
from yolop_cli.homes.in_git import GitHome
from yolop_cli.homes.protocol import Home
from yolop_cli.session.restore_file import Recovery, Stored, Target
from yolop_cli.timeline.records import Files, FileSnapshot


def home_of(one: Held, files: Files | Target | Recovery | Stored) -> Home:
    """The home of a snapshot."""
    if isinstance(files, FileSnapshot | Stored):
        # Imported late: a session with a worktree of its own needs nothing of the store.
        from yolop_cli.homes.in_store import StoreHome

        return StoreHome(one)
    return GitHome(one)
