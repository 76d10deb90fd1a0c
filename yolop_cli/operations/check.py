"""``timeline validate`` over whole sessions: all three passes, and what they need from log and repository.

Reads only: no lock is taken, no file is made.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from yolop_cli.ground import files, ids, journal, schemas, strict_json
from yolop_cli.ground.errors import DeniedError, NotFoundError, StorageError, YolopError
from yolop_cli.ground.git import Git
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.session import restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Recovery
from yolop_cli.timeline import log_facts
from yolop_cli.timeline.checking import semantic
from yolop_cli.timeline.checking.damage import scan
from yolop_cli.timeline.checking.semantic import RepositoryFacts
from yolop_cli.timeline.checking.validate import check
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.file import Entry
from yolop_cli.timeline.findings import Finding, Report, unreadable
from yolop_cli.timeline.fold import Redo, TimelineState, fold
from yolop_cli.timeline.log_facts import LogFacts
from yolop_cli.timeline.records import CheckpointCreated, FileSnapshot, HeadMoved, type_name
from yolop_cli.trees import connectivity, private_refs
from yolop_cli.trees.checkout import Checkout

_DOCUMENTS = (("workspace.json", "workspace"), ("restore.json", "restore"))
_MOST_FAULTS = 3
_TREE = re.compile(rb'"tree"\s*:\s*"([\x20-\x7e]*?)"')
_PRIVATE_FILES = (
    "events.jsonl",
    "timeline.jsonl",
    "compaction-checkpoints.jsonl",
    "workspace.json",
    "restore.json",
    "timeline.rejected.jsonl",
)


def check_session(git: Git, session: SessionDirectory) -> Report:
    """Everything that can be said against a session's timeline. What cannot be read is a finding."""
    try:
        return _check(git, session)
    except (StorageError, OSError) as error:
        return Report(session.id, os.fsencode(session.timeline), "corrupt", 0, (unreadable(error),))


def _check(git: Git, session: SessionDirectory) -> Report:
    path = os.fsencode(session.timeline)
    entries: list[Entry] = []
    try:
        with files.reading(session.timeline) as file:
            checked, is_there = check(scan(journal.lines(file)), entries), True
    except NotFoundError:
        checked, is_there = check(()), False
    except StorageError as error:
        return Report(session.id, path, "corrupt", 0, (unreadable(error), *mode_findings(session)))
    found = list(checked.findings)
    found += _meaning(git, session, entries, whole=checked.status != "corrupt")
    state = fold(entry.record for entry in entries)
    if not state.nodes and (checked.status != "corrupt" or not checked.records):
        found += semantic.check_loss(
            evidence(git, session),
            baseline_end=state.baseline_end,
            is_there=is_there,
        )
    found += [*document_findings(session), *mode_findings(session)]
    found.sort(key=lambda one: (one.line is None, one.line or 0, one.offset or 0))
    status = checked.status
    if status == "ok" and any(one.severity == "error" for one in found):
        status = "semantic"
    return Report(session.id, path, status, checked.records, tuple(found))


def evidence(git: Git, session: SessionDirectory) -> Evidence:
    """What a repair can go by beside the journal. What cannot be read counts as not there."""
    references: dict[str, str] = {}
    not_trees: frozenset[str] = frozenset()
    known = False
    try:
        checkout = owned_checkout(git, session)
        references, known = private_refs.of_session(git, checkout, session.id), True
        not_trees = _not_trees(git, checkout, session, references.values())
    except YolopError:
        pass
    named = ((ids.reference_name(session.id, reference), tree) for reference, tree in references.items())
    try:
        facts = log_facts.facts(session.events, session.id)
    except StorageError:
        facts = LogFacts()
    return Evidence(
        {name: tree for name, tree in named if name is not None},
        session.id,
        facts.prompts,
        facts.answers,
        facts.last_sequence,
        # A session with a private git directory has had its snapshots taken by this toolkit.
        "raw" if os.path.isdir(session.capture) else None,
        known,
        not_trees,
    )


def _not_trees(
    git: Git, checkout: Checkout, session: SessionDirectory, held: Collection[str]
) -> frozenset[str]:
    """Ids that stand for trees in the journal or in refs and are none.

    While a ref holds every tree of the journal, nothing is asked of git. Raises ``StorageError``.
    """
    named = {oid.decode("ascii") for oid in _TREE.findall(files.read_bytes(session.timeline) or b"")}
    if named <= set(held):
        return frozenset()
    asked = {oid for oid in named | set(held) if ids.is_object_id(oid)}
    return frozenset(asked - connectivity.present(git, checkout.real, asked, "tree"))


def _meaning(git: Git, session: SessionDirectory, entries: list[Entry], *, whole: bool) -> list[Finding]:
    state = fold(entry.record for entry in entries)
    found = semantic.check_records(session.id, entries)
    try:
        facts = log_facts.facts(session.events, session.id)
        found += semantic.check_log(entries, state, facts, whole=whole)
    except StorageError as error:
        found.append(unreadable(error))
    found += _repository(git, session, entries, state, whole=whole)
    found += _store(session, entries, state)
    return found


def _store(session: SessionDirectory, entries: list[Entry], state: TimelineState) -> Iterator[Finding]:
    """The snapshots that the records say a store keeps, checked against it."""
    for entry in entries:
        record = entry.record
        if isinstance(record, CheckpointCreated) and isinstance(record.files, FileSnapshot):
            why, code, what = _store_problem(session, record), "file-snapshot-refused", record.id
        elif isinstance(record, HeadMoved) and state.redo is not None and _is_redo(record, state.redo):
            why, code, what = _redo_problem(session, state.redo), "recovery-missing", "redo"
        else:
            continue
        if why is not None:
            line = entry.line
            yield Finding(code, f"{what}: {why}", line.number, line.offset, type_name(record))


def _is_redo(record: HeadMoved, redo: Redo) -> bool:
    return redo.file_snapshot is not None and record.redo_file_snapshot == redo.file_snapshot


def _store_problem(session: SessionDirectory, checkpoint: CheckpointCreated) -> str | None:
    from yolop_cli.homes import session_store

    return session_store.why_not(session, checkpoint)


def _redo_problem(session: SessionDirectory, redo: Redo) -> str | None:
    from yolop_cli.homes import session_store

    assert redo.file_snapshot is not None
    return session_store.why_no_redo(session, redo.file_snapshot)


def _repository(
    git: Git, session: SessionDirectory, entries: list[Entry], state: TimelineState, *, whole: bool
) -> Iterator[Finding]:
    named = state.snapshots()
    try:
        checkout = owned_checkout(git, session)
    except DeniedError as error:
        if named:
            yield Finding("snapshots-unreachable", f"the snapshots cannot be checked: {error.message}")
        return
    except YolopError as error:
        yield Finding("snapshots-unreachable", f"the snapshots cannot be checked: {error.message}")
        return
    try:
        references = private_refs.of_session(git, checkout, session.id)
        length = 64 if checkout.object_format == "sha256" else 40
        roots = {one.tree for one in named if ids.is_object_id(one.tree) and len(one.tree) == length}
        gaps = connectivity.gaps(git, checkout.real, sorted(roots))
        facts = RepositoryFacts(references, gaps.trees, gaps.blobs, _waiting(session), length)
        if not whole:
            # Records behind the damage may name what seems to be named by none.
            facts = replace(facts, waiting=(*facts.waiting, *references))
        yield from semantic.check_repository(session.id, entries, state, facts)
    except StorageError as error:
        yield Finding("snapshots-unreachable", f"the snapshots cannot be checked: {error.message}")


def _waiting(session: SessionDirectory) -> tuple[str, ...]:
    """The ref that a prepared or interrupted restore still needs."""
    try:
        waiting = restore_file.read(session)
    except StorageError:
        return ()
    recovery = waiting.recovery if waiting is not None else None
    return (recovery.reference,) if isinstance(recovery, Recovery) else ()


def document_findings(session: SessionDirectory) -> Iterator[Finding]:
    """What is wrong with the form of the session's other files."""
    for name, schema in _DOCUMENTS:
        try:
            data = files.read_bytes(session.path / name)
            if data is None:
                continue
            faults = schemas.errors(schema, strict_json.loads(data))
        except StorageError as error:
            yield unreadable(error)
            continue
        except strict_json.NotJsonError as error:
            faults = [("", error.fault.message)]
        words = "; ".join(f"{path} {message}".strip() for path, message in faults[:_MOST_FAULTS])
        fix = _fix_of_restore(session) if name == "restore.json" else None
        if words or fix:
            yield Finding("bad-file", f"{name}: {words or 'it makes no sense'}", fix=fix)


def _fix_of_restore(session: SessionDirectory) -> str | None:
    """What gets a restore.json that no command can use out of the way; None when it can be used."""
    try:
        restore_file.read(session)
    except StorageError as error:
        return error.hint
    return None


def mode_findings(session: SessionDirectory) -> Iterator[Finding]:
    """Files that are not 0600 and directories that are not 0700."""
    for path, mode, found in mode_faults(session):
        fix = f"yolop-cli doctor --fix sets {mode:04o}"
        name = path.relative_to(session.path if path.parent == session.path else session.path.parent)
        yield Finding("loose-mode", f"{name} has mode {found:04o}, not {mode:04o}", fix=fix)


def mode_faults(session: SessionDirectory) -> Iterator[tuple[Path, int, int]]:
    """The session's paths with another mode than theirs: the path, the right mode, the one found."""
    wanted = [(session.path, 0o700), (session.capture, 0o700), (session.lock, 0o600)]
    wanted += [(session.path / name, 0o600) for name in _PRIVATE_FILES]
    if session.events.parent != session.path:
        wanted.append((session.events, 0o600))
    for path, mode in wanted:
        found = _mode(path, mode)
        if found is not None and found != mode:
            yield path, mode, found


def _mode(path: Path, wanted: int) -> int | None:
    """The mode of the session's own file or directory; what a link leads to is not the session's."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return None
    right_kind = stat.S_ISDIR(found) if wanted == files.PRIVATE_DIRECTORY else stat.S_ISREG(found)
    return stat.S_IMODE(found) if right_kind else None
