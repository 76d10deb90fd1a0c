"""A session held for writing: both locks, a timeline that may be appended to, no half-done restore."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from yolop_cli.ground import files, ids
from yolop_cli.ground.errors import RefusedError, YolopError
from yolop_cli.ground.git import Git
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.session import events, lock, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Recovery, Stored, WaitingRestore
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.file import Timeline
from yolop_cli.timeline.fold import TimelineState
from yolop_cli.timeline.records import FileSnapshot, HeadMoved, Record, Snapshot
from yolop_cli.trees import private_refs
from yolop_cli.trees import tree_restore as restoring


@dataclass(frozen=True)
class Held:
    """A session whose locks are held; ``git`` starts children that keep them.

    ``finished`` is a restore that had been killed after its record and was tidied up just now.
    """

    session: SessionDirectory
    git: Git
    timeline: Timeline
    last_sequence: int
    waiting: WaitingRestore | None
    finished: WaitingRestore | None = None

    @property
    def state(self) -> TimelineState:
        """The folded timeline."""
        return self.timeline.state

    @property
    def effective_head(self) -> str | None:
        """The head once a pending turn is closed, as the next turn or a restore would close it."""
        return self.state.pending if self.state.pending is not None else self.state.head

    def append(self, *records: Record) -> Held:
        """Append records durably; the session as it is then."""
        timeline_file.append(self.session, self.timeline, records)
        return replace(self, timeline=timeline_file.load(self.session))


@contextmanager
def held(git: Git, session: SessionDirectory, *, settle: bool = True) -> Iterator[Held]:
    """Hold a session for writing.

    Raises ``BusyError``, ``CorruptError``, ``StorageError``; with ``settle`` also ``RefusedError`` when a
    restore was interrupted half-way and somebody has to say which way it shall go.
    """
    with lock.held(session) as descriptors:
        for directory in (session.path, session.capture):
            files.sweep_temporaries(directory)
        timeline = timeline_file.writable(session, timeline_file.load(session))
        waiting = restore_file.read(session)
        last = events.last_sequence(session.events, session.id)
        one = Held(session, git.keeping(descriptors), timeline, last, waiting)
        if waiting is not None and waiting.phase == "applying":
            one = _settle_finished(one, waiting)
            if settle and one.waiting is not None:
                raise interrupted(waiting)
        yield one


def interrupted(waiting: WaitingRestore) -> RefusedError:
    """The refusal while a half-done restore stands in the way."""
    return RefusedError(
        "a restore was interrupted while it was changing files",
        hint="`yolop-cli rewind cancel` puts the files back as they were before; "
        f"`yolop-cli rewind apply {waiting.token}` finishes it",
        details={"token": waiting.token},
    )


def is_finished(timeline: Timeline, waiting: WaitingRestore) -> bool:
    """Whether the record of a restore is in the journal, so that all but its tidying up is done."""
    return any(
        isinstance(entry.record, HeadMoved) and _names(entry.record, waiting.recovery)
        for entry in timeline.entries
    )


def _names(moved: HeadMoved, recovery: Recovery | Stored | None) -> bool:
    match recovery:
        case Recovery():
            return moved.redo_snapshot is not None and moved.redo_snapshot.reference == recovery.reference
        case Stored():
            return moved.redo_file_snapshot is not None and moved.redo_file_snapshot.id == recovery.id
        case None:
            return False


def _settle_finished(one: Held, waiting: WaitingRestore) -> Held:
    """Tidy up after a restore that was killed between its record and its end."""
    if not is_finished(one.timeline, waiting):
        return one
    if waiting.stage is not None:
        try:
            restoring.sweep(owned_checkout(one.git, one.session).root, waiting.stage)
        except (YolopError, OSError):
            pass  # what is left is a private directory that `doctor` names
    restore_file.remove(one.session)
    return replace(one, waiting=None, finished=waiting)


def drop_waiting(one: Held) -> Held:
    """Forget a prepared restore and its recovery snapshot."""
    if one.waiting is None:
        return one
    restore_file.remove(one.session)
    drop(one, one.waiting.recovery)
    return replace(one, waiting=None)


def drop(one: Held, *files: Snapshot | FileSnapshot | Recovery | Stored | None) -> None:
    """Delete snapshots of the session that no record needs any more.

    A repository or a store that is gone has none; what cannot be deleted stays behind, and `doctor` names
    it or retention takes it.
    """
    _drop_references(one, [each.reference for each in files if isinstance(each, Snapshot | Recovery)])
    stored = [each.id for each in files if isinstance(each, FileSnapshot | Stored)]
    if stored:
        from yolop_cli.homes import session_store

        session_store.drop(one.session, stored)


def is_unneeded(session: SessionDirectory, state: TimelineState, reference: str) -> bool:
    """Whether a ref is a recovery ref of the session that the timeline does not need.

    What names it may be forged, or older than the journal beside it: a checkpoint's ref goes only when
    somebody asks for it.
    """
    name = ids.reference_name(session.id, reference)
    named = {snapshot.reference for snapshot in state.snapshots()}
    return name is not None and ids.is_recovery_name(name) and reference not in named


def _drop_references(one: Held, references: Sequence[str | None]) -> None:
    wanted = [each for each in references if each is not None and is_unneeded(one.session, one.state, each)]
    if not wanted:
        return
    try:
        private_refs.drop(one.git, owned_checkout(one.git, one.session), one.session.id, wanted)
    except YolopError:
        pass
