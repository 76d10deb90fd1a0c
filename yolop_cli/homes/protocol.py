"""Where the files of a session's snapshots live, and the way back to them: one protocol, two homes.

A session that owns a worktree keeps its files in its repository (``in_git``), any other in the store of
the directory it works in (``in_store``). Preview and apply know only this protocol; ``choice`` picks one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from yolop_cli.ground.processes import Writer
from yolop_cli.session.restore_file import Recovery, Stored, WaitingRestore
from yolop_cli.timeline.fold import Redo
from yolop_cli.timeline.records import Files
from yolop_cli.trees.tree_plan import Kept
from yolop_cli.trees.tree_restore import Restored

AGAIN = "make a new preview: `yolop-cli rewind preview CHECKPOINT`, or `undo` or `redo` again"


@dataclass(frozen=True)
class FilesPlan:
    """What a preview shows of the files besides the changes.

    ``current`` and ``target`` are trees; ``through_filters`` are the paths that filters will convert.
    """

    current: str
    target: str
    kept: tuple[Kept, ...]
    through_filters: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Ready:
    """A restore compared with its preview once more. ``carry_out`` changes the files and verifies them."""

    marked: WaitingRestore
    kept: tuple[Kept, ...]
    carry_out: Callable[[], Restored]


class Home(Protocol):
    """Where snapshots are kept. Every method works on one held session."""

    @property
    def root(self) -> Path:
        """The directory whose files they are."""

    def holds(self, files: Files) -> bool:
        """Whether a recorded snapshot is still there. Trouble in looking is raised."""

    def prepare(self, waiting: WaitingRestore, files: Files) -> tuple[WaitingRestore, FilesPlan]:
        """Plan the way to a snapshot and take the recovery snapshot; no file changes.

        Raises ``RefusedError`` for a snapshot that is not the session's own, ``DeniedError`` for a change
        that could not be undone, ``StorageError``.
        """

    def at_work(self) -> tuple[Writer, ...]:
        """The processes at work in the directory. Raises ``BusyError`` when another session writes there."""

    def ready(self, waiting: WaitingRestore) -> Ready:
        """The plan made again, which must be the one that was shown. Raises ``StaleError``."""

    def take_back(self, waiting: WaitingRestore) -> tuple[Restored, tuple[Kept, ...]]:
        """Put back what an unfinished restore changed; what somebody changed since is left alone."""

    def as_redo(self, waiting: WaitingRestore) -> Files:
        """The recovery snapshot, as the record of the restore keeps it for a redo."""

    def used_up(self, waiting: WaitingRestore, redone: Redo | None) -> Recovery | Stored | None:
        """Delete the snapshots that a redo used up; what is left of its own recovery snapshot."""
