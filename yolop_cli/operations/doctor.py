"""``doctor``: everything that can be said against a session, and the cures that need no decision.

Looking takes no lock and changes nothing. A cure is planned from what was seen, and carried out under the
session's locks after looking again, so that a session that moved on meanwhile is left alone.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from yolop_cli import store as snapshots
from yolop_cli.ground import files, ids, journal, paths
from yolop_cli.ground.errors import StorageError, YolopError, os_reason
from yolop_cli.ground.git import Git
from yolop_cli.homes import session_snapshots, session_store
from yolop_cli.homes.held import is_unneeded
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.operations.check import check_session, mode_faults
from yolop_cli.session import events, lock, restore_file, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Recovery, Stored, WaitingRestore
from yolop_cli.timeline import compaction
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.checking import log_check
from yolop_cli.timeline.file import Timeline
from yolop_cli.timeline.findings import Finding, unreadable
from yolop_cli.timeline.records import CheckpointCreated, HeadMoved
from yolop_cli.trees import private_refs, tree_restore
from yolop_cli.trees.checkout import Checkout
from yolop_cli.trees.worktree_files import STAGE_PREFIX

CureKind = Literal["mode", "line-feed", "leftover", "restore", "ref", "snapshot", "store"]
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp\Z")
_FIX = "yolop-cli doctor --fix"


@dataclass(frozen=True)
class Cure:
    """Something that can be put right without a decision: a path or, for a ref, its name."""

    kind: CureKind
    what: str
    path: Path | None = None
    mode: int | None = None
    reference: str | None = None


@dataclass(frozen=True)
class Ailment:
    """A finding, and the file of the session it is about."""

    file: str
    finding: Finding


@dataclass(frozen=True)
class Examination:
    """What is wrong with one session, and what of it can be cured."""

    session: SessionDirectory
    ailments: tuple[Ailment, ...]
    cures: tuple[Cure, ...]
    busy: bool

    @property
    def is_sound(self) -> bool:
        """Whether there is no error and nothing to cure."""
        return not self.cures and not any(one.finding.severity == "error" for one in self.ailments)


@dataclass(frozen=True)
class Treated:
    """What was cured, and what could not be, with the reason."""

    cured: tuple[Cure, ...]
    failed: tuple[tuple[Cure, str], ...]


def examine(git: Git, session: SessionDirectory) -> Examination:
    """Look at everything at once. Raises nothing: what cannot be looked at is an ailment.

    While another process writes the session nothing of what it is about to finish counts as left behind.
    """
    report = check_session(git, session)
    ailments = [Ailment("session" if one.line is None else "timeline.jsonl", one) for one in report.findings]
    log = log_check.check_log(session)
    ailments += [Ailment("events.jsonl", one) for one in log.findings if one not in report.findings]
    found = compaction.check(session, log.last_sequence)
    ailments += [Ailment("compaction-checkpoints.jsonl", one) for one in found.findings]
    cures: list[Cure] = []
    busy = lock.is_held(session)
    try:
        for ailment, cure in () if busy else _beside(git, session):
            if ailment is not None:
                ailments.append(ailment)
            if cure is not None:
                cures.append(cure)
    except (YolopError, OSError) as error:
        ailments.append(Ailment("session", unreadable(error)))
    return Examination(session, tuple(ailments), tuple(cures), busy)


def treat(git: Git, session: SessionDirectory) -> Treated:
    """Cure what can be cured, seen again under the locks. Raises ``BusyError``, ``StorageError``."""
    cured = list(_entered(session))
    failed: list[tuple[Cure, str]] = []
    with lock.held(session) as descriptors:
        held_git = git.keeping(descriptors)
        try:
            cures = [cure for _, cure in _beside(held_git, session) if cure is not None]
        except OSError as error:
            raise files.failed("read", session.path, error) from None
        for cure in cures:
            try:
                _cure(held_git, session, cure)
                cured.append(cure)
            except YolopError as error:
                failed.append((cure, error.message))
            except OSError as error:
                failed.append((cure, os_reason(error)))
    return Treated(tuple(cured), tuple(failed))


def _entered(session: SessionDirectory) -> Iterator[Cure]:
    """The mode of a directory that its owner cannot enter: until it is set neither lock nor file is there."""
    if os.access(session.path, os.R_OK | os.W_OK | os.X_OK):
        return
    for path, mode, _ in mode_faults(session):
        if path == session.path:
            try:
                _set_mode(path, mode)
            except OSError as error:
                raise files.failed("set the mode of", path, error) from None
            yield Cure("mode", f"mode {mode:04o}", path, mode)


def _beside(git: Git, session: SessionDirectory) -> Iterator[tuple[Ailment | None, Cure | None]]:
    """What is found beside the journals' own findings, each with its cure where there is one."""
    for path, mode, _ in mode_faults(session):
        yield None, Cure("mode", f"mode {mode:04o}", path, mode)
    yield from _line_feeds(session)
    checkout = _checkout(git, session)
    if isinstance(checkout, Ailment):
        yield checkout, None
    usable = checkout if isinstance(checkout, Checkout) else None
    waiting = _waiting(session)
    timeline = _timeline(session)
    if waiting is not None:
        yield from _restore(session, waiting, timeline)
    if waiting is None and os.path.lexists(session.restore):
        usable = None  # it may name a recovery ref and a staging directory, so none of them is touched
    for path in _leftovers(session, usable, waiting):
        message = f"{path.name} was left behind by a command that was killed"
        finding = Finding("leftover", message, fix=_FIX)
        yield Ailment(path.name, finding), Cure("leftover", "left behind", path)
    if usable is not None and timeline is not None:
        for reference, tree in _unnamed(git, session, usable, timeline, waiting):
            yield None, Cure("ref", f"no record names it; its tree is {tree}", reference=reference)
    yield from _store(session, waiting)


def _store(
    session: SessionDirectory, waiting: WaitingRestore | None
) -> Iterator[tuple[Ailment | None, Cure | None]]:
    """The store of the session's directory. As with refs, only what another one holds too is cured."""
    try:
        found = session_snapshots.upkeep(session)
    except (YolopError, OSError) as error:
        why = error.message if isinstance(error, YolopError) else os_reason(error)
        yield Ailment("session", Finding("snapshots-unreachable", f"the store cannot be read: {why}")), None
        return
    if found is None:
        return
    for name, is_held in found.unneeded:
        by_hand = snapshots.command(found.root, "delete", name)
        message = f"no record names the snapshot {name} of {paths.show(found.root)}"
        finding = Finding("snapshot-without-record", message, fix=_FIX if is_held else by_hand)
        yield (
            Ailment("session", finding),
            Cure("snapshot", message, found.root, reference=name) if is_held else None,
        )
    if found.leftovers:
        message = f"files of a killed command are left in the store of {paths.show(found.root)}"
        yield Ailment("session", Finding("leftover", message, fix=_FIX)), Cure("store", message, found.root)
    if found.interrupted is not None and (waiting is None or waiting.phase != "applying"):
        message = f"a restore in {paths.show(found.root)} was interrupted while it was changing files"
        undo = snapshots.command(found.root, "restore", found.interrupted.safety_snapshot_id)
        fix = f"{undo} puts them back"
        yield Ailment("session", Finding("interrupted-restore", message, fix=fix)), None


def _line_feeds(session: SessionDirectory) -> Iterator[tuple[None, Cure]]:
    """Journals whose last line would run together with the next one appended."""
    timeline = _timeline(session)
    if timeline is not None and timeline.health == "ok" and not _ends(session.timeline):
        yield None, Cure("line-feed", "the last line's line feed", session.timeline)
    if not _ends(session.events):
        yield None, Cure("line-feed", "the last line's line feed", session.events)


def _ends(path: Path) -> bool:
    try:
        with files.reading(path) as file:
            size = file.seek(0, os.SEEK_END)
            return size == 0 or os.pread(file.fileno(), 1, size - 1) == b"\n"
    except YolopError:
        return True


def _timeline(session: SessionDirectory) -> Timeline | None:
    try:
        return timeline_file.load(session)
    except StorageError:
        return None


def _checkout(git: Git, session: SessionDirectory) -> Checkout | Ailment | None:
    """The session's worktree; an ailment when it names one that cannot be used, None when it names none."""
    try:
        metadata = workspace.read(session.workspace)
        if metadata is None or metadata.worktree is None:
            return None
        return owned_checkout(git, session)
    except YolopError as error:
        return Ailment("workspace.json", Finding("unreachable-worktree", error.message))


def _waiting(session: SessionDirectory) -> WaitingRestore | None:
    """The restore that waits; None too when it cannot be read, which ``check_session`` says."""
    try:
        return restore_file.read(session)
    except StorageError:
        return None


def _restore(
    session: SessionDirectory, waiting: WaitingRestore, timeline: Timeline | None
) -> Iterator[tuple[Ailment, Cure | None]]:
    if waiting.phase == "applying":
        message = "a restore was interrupted while it was changing files"
        fix = f"yolop-cli rewind cancel puts them back; yolop-cli rewind apply {waiting.token} finishes it"
        yield Ailment("restore.json", Finding("interrupted-restore", message, fix=fix)), None
        return
    if timeline is None or timeline.health != "ok":
        return
    state = timeline.state
    head = state.pending if state.pending is not None else state.head
    moved = (waiting.head_from, waiting.pending) != (head, state.pending)
    if not moved and waiting.last_sequence == events.last_sequence(session.events, session.id):
        return
    what = "the head moved" if moved else "the event log grew"
    message = f"the waiting restore can no longer be applied: {what} since its preview"
    cure = Cure("restore", "it can no longer be applied", session.restore)
    yield Ailment("restore.json", Finding("stale-restore", message, fix=_FIX)), cure


def _leftovers(
    session: SessionDirectory, checkout: Checkout | None, waiting: WaitingRestore | None
) -> Iterator[Path]:
    """Temporary files, of commands that were killed: one that runs holds the session's lock."""
    for directory in (session.path, session.capture):
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        yield from (directory / name for name in names if _TEMPORARY.match(name))
    for name in ("work", "index.lock"):
        if os.path.lexists(session.capture / name):
            yield session.capture / name
    if checkout is None:
        return
    incoming = checkout.objects / f"tmp_yolop_{session.id}"
    if incoming.is_dir():
        yield incoming
    stages = sorted(name for name in os.listdir(os.fsencode(checkout.root)) if name.startswith(STAGE_PREFIX))
    needed = waiting.stage if waiting is not None and waiting.phase == "applying" else None
    yield from (checkout.root / os.fsdecode(name) for name in stages if os.fsdecode(name) != needed)


def _unnamed(
    git: Git,
    session: SessionDirectory,
    checkout: Checkout,
    timeline: Timeline,
    waiting: WaitingRestore | None,
) -> Iterator[tuple[str, str]]:
    """Recovery refs of the session, each with its tree, that no record, no waiting restore and no byte set
    aside names, and that hold nothing of their own: the same files are kept by a ref that is named.

    A journal can lose its end without a trace, and a copy of a session can be older than the session: then
    the ref of a checkpoint is all that is left of its turn, and a recovery ref may hold the only copy of
    somebody's files. Which of the two it is, is a decision, so all others stay.
    """
    if timeline.health != "ok" or not timeline.state.nodes:
        return
    try:
        there = private_refs.of_session(git, checkout, session.id)
    except YolopError:
        return
    recovery = waiting.recovery if waiting is not None else None
    named = {recovery.reference} if isinstance(recovery, Recovery) else set()
    for entry in timeline.entries:
        match entry.record:
            case CheckpointCreated(snapshot=snapshot) | HeadMoved(redo_snapshot=snapshot):
                if snapshot is not None and snapshot.reference is not None:
                    named.add(snapshot.reference)
            case _:
                pass
    kept = _set_aside(session)
    held = {there[reference] for reference in named if reference in there}
    for reference in sorted(set(there) - named):
        name = ids.reference_name(session.id, reference)
        if name is None or not ids.is_recovery_name(name) or name.encode("ascii") in kept:
            continue
        if there[reference] in held:
            yield reference, there[reference]


def _set_aside(session: SessionDirectory) -> bytes:
    """The bytes that repairs kept: a ref named there may still be wanted."""
    try:
        names = [name for name in os.listdir(session.path) if name.startswith("timeline.jsonl.bak-")]
        paths = [session.rejected, *(session.path / name for name in names)]
        return b"\n".join(files.read_bytes(path) or b"" for path in paths)
    except (OSError, StorageError):
        return b""


def _cure(git: Git, session: SessionDirectory, cure: Cure) -> None:
    match cure.kind:
        case "mode" if cure.path is not None and cure.mode is not None:
            _set_mode(cure.path, cure.mode)
        case "line-feed" if cure.path is not None:
            journal.append_bytes(cure.path, b"\n")
        case "leftover" if cure.path is not None:
            _remove(cure.path)
        case "restore":
            _drop_restore(git, session)
        case "ref" if cure.reference is not None:
            private_refs.drop(git, owned_checkout(git, session), session.id, [cure.reference])
        case "snapshot" if cure.path is not None and cure.reference is not None:
            session_snapshots.give_up(cure.path, (cure.reference,))
        case "store" if cure.path is not None:
            session_snapshots.tidy(cure.path)
        case _:
            raise AssertionError(cure)


def _set_mode(path: Path, mode: int) -> None:
    """Change the mode of the path itself, never of what a link put there meanwhile leads to."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        os.chmod(path, mode)  # a file without a read bit can only be named
        return
    try:
        os.fchmod(fd, mode)
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    if path.name.encode().startswith(STAGE_PREFIX):
        tree_restore.sweep(path.parent, path.name)
    elif stat.S_ISDIR(os.lstat(path).st_mode):
        shutil.rmtree(path)
    else:
        files.remove_file(path)


def _drop_restore(git: Git, session: SessionDirectory) -> None:
    waiting = restore_file.read(session)
    state = timeline_file.load(session).state
    restore_file.remove(session)
    if waiting is not None and isinstance(waiting.recovery, Recovery):
        reference = waiting.recovery.reference
        if is_unneeded(session, state, reference):
            private_refs.drop(git, owned_checkout(git, session), session.id, [reference])
    elif waiting is not None and isinstance(waiting.recovery, Stored):
        session_store.drop(session, [waiting.recovery.id])
