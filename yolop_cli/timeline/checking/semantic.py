"""Pass 3 of ``timeline validate``, as far as it needs no disk: whether the records fit together.

Rules of the format page ("State", "Writing"). Pure: records, facts of the log and facts of the repository in,
findings out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from yolop_cli.ground import ids
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.file import Entry
from yolop_cli.timeline.findings import Finding
from yolop_cli.timeline.fold import Folding, TimelineState
from yolop_cli.timeline.log_facts import LogFacts
from yolop_cli.timeline.records import CheckpointCreated, HeadMoved, Snapshot, TurnCompleted, type_name

_REPAIR = "yolop-cli timeline repair"
_MAKES = f"{_REPAIR} recreates it from what is left of it, or sets aside what names it"
_REDO = "redo"
_ROOTS = f"{_REPAIR} puts the parent first, or takes the head at that moment when the parent begins later"
_REBUILD = f"{_REPAIR} --strategy rebuild recreates its records"


@dataclass(frozen=True)
class RepositoryFacts:
    """The session's refs, the trees and blobs that are not there (each with a tree that needs it).

    ``waiting`` are refs that a prepared restore holds; ``id_length`` is that of the object format.
    """

    references: Mapping[str, str]
    missing_trees: Mapping[str, str] = field(default_factory=dict)
    missing_blobs: Mapping[str, str] = field(default_factory=dict)
    waiting: Collection[str] = ()
    id_length: int = 40


def check_records(session_id: str, entries: Sequence[Entry]) -> list[Finding]:
    """Whether the records make sense one after the other."""
    walk = _Walk(session_id)
    for entry in entries:
        walk.entry(entry)
    walk.finish()
    return walk.findings


class _Walk:
    def __init__(self, session_id: str):
        self.session_id = session_id
        self.findings: list[Finding] = []
        self.folding = Folding()
        self.created: dict[str, Entry] = {}
        self.completed: set[str] = set()
        self.orphans: list[tuple[Entry, str, str]] = []
        self.highest_start: tuple[int, str] | None = None

    def entry(self, entry: Entry) -> None:
        match entry.record:
            case CheckpointCreated():
                self._created(entry, entry.record)
            case TurnCompleted():
                self._turn(entry, entry.record)
            case HeadMoved():
                self._moved(entry, entry.record)
            case _:
                pass
        self.folding.add(entry.record)

    def finish(self) -> None:
        state = self.folding.state
        self._orphans()
        self._cycles(state)
        self._ranges(state)
        for name, node in state.nodes.items():
            if node.completion is None and name != state.pending:
                message = f"the turn of {name} never ended, though another began after it"
                self._add(
                    "never-completed", message, self.created[name], f"{_REPAIR} ends it where the next began"
                )

    def _add(self, code: str, message: str, entry: Entry, fix: str | None = None) -> None:
        line = entry.line
        self.findings.append(Finding(code, message, line.number, line.offset, type_name(entry.record), fix))

    def _created(self, entry: Entry, record: CheckpointCreated) -> None:
        if not ids.is_checkpoint_id(record.id):
            self._add("bad-id", f"{record.id[:60]!r} cannot be the name of a checkpoint", entry)
        if record.id in self.created:
            first = self.created[record.id].line.number
            self._add(
                "duplicate-id",
                f"{record.id} was created on line {first} already",
                entry,
                f"{_REPAIR} keeps the first and sets this one aside",
            )
        if record.parent is not None and record.parent != record.id and record.parent not in self.created:
            self.orphans.append((entry, record.id, record.parent))
        elif record.parent != self._effective_head():
            head = self._effective_head() or "nothing"
            message = f"{record.id} begins at {record.parent or 'nothing'}, but the head was {head}"
            self._add("parent-not-head", message, entry)
        start = ids.event_start_of(record.id)
        if start is not None and start != record.event_start:
            self._add(
                "id-differs",
                f"the id {record.id} encodes event {start}, its record says {record.event_start}",
                entry,
            )
        if self.highest_start is not None and record.event_start < self.highest_start[0]:
            message = f"{record.id} begins at event {record.event_start}, before {self.highest_start[1]} did"
            self._add("backward-range", message, entry)
        self.highest_start = max(
            self.highest_start or (record.event_start, record.id), (record.event_start, record.id)
        )
        self._snapshot(entry, record.snapshot, record.id)
        self.created.setdefault(record.id, entry)

    def _effective_head(self) -> str | None:
        state = self.folding.state
        return state.pending if state.pending is not None else state.head

    def _turn(self, entry: Entry, record: TurnCompleted) -> None:
        if record.checkpoint_id not in self.created:
            message = f"the turn of {record.checkpoint_id} ends, but it never began"
            self._add(
                "completed-unknown",
                message,
                entry,
                _MAKES,
            )
            return
        created = self.folding.state.nodes[record.checkpoint_id].checkpoint
        if record.checkpoint_id in self.completed:
            self._add("completed-twice", f"the turn of {record.checkpoint_id} ended before", entry)
        self.completed.add(record.checkpoint_id)
        if record.event_end < created.event_start - 1:
            start, end = created.event_start, record.event_end
            message = f"the turn of {record.checkpoint_id} begins at event {start} and ends at {end}"
            self._add("end-before-start", message, entry, f"{_REPAIR} ends it before the next begins")

    def _moved(self, entry: Entry, record: HeadMoved) -> None:
        for code, name, what in (
            ("head-unknown", record.to, "the head moves to"),
            ("redo-unknown", record.redo_head, "redo would go to"),
        ):
            if name is not None and name not in self.created:
                self._add(
                    code,
                    f"{what} {name}, which was never created",
                    entry,
                    _MAKES,
                )
        if record.from_head != self.folding.state.head:
            head = self.folding.state.head or "nothing"
            self._add("from-differs", f"the head was {head}, not {record.from_head or 'nothing'}", entry)
        self._snapshot(entry, record.redo_snapshot, "the recovery snapshot")

    def _snapshot(self, entry: Entry, snapshot: Snapshot | None, name: str) -> None:
        if snapshot is None:
            return
        if not ids.is_object_id(snapshot.tree):
            self._add("bad-tree", f"the snapshot of {name} names no tree: {snapshot.tree[:70]!r}", entry)
        reference = snapshot.reference
        if snapshot.capture not in (None, "raw"):
            self._add("unknown-capture", f"nothing is known of a capture {snapshot.capture[:20]!r}", entry)
        if reference is not None and ids.reference_name(self.session_id, reference) is None:
            self._add(
                "foreign-reference",
                f"the ref of {name} is not one of this session: {reference[:120]!r}",
                entry,
            )

    def _orphans(self) -> None:
        for entry, name, parent in self.orphans:
            message = f"the parent of {name}, {parent}, is not created before it"
            self._add("parent-missing", message, entry, _ROOTS if parent in self.created else _MAKES)

    def _cycles(self, state: TimelineState) -> None:
        sound: set[str] = set()
        for name in state.nodes:
            path: dict[str, None] = {}
            step: str | None = name
            while step is not None and step in state.nodes and step not in sound and step not in path:
                path[step] = None
                step = state.nodes[step].checkpoint.parent
            if step is not None and step in path:
                message = f"{step} is its own ancestor"
                fix = f"{_REPAIR} uses the head at that moment as its parent"
                self._add("parent-cycle", message, self.created[step], fix)
            sound.update(path)

    def _ranges(self, state: TimelineState) -> None:
        nodes = sorted(state.nodes.values(), key=lambda node: node.checkpoint.event_start)
        baseline = state.baseline_end
        end: int | None = baseline
        if nodes and nodes[0].checkpoint.event_start - 1 > (baseline or 0):
            first = nodes[0].checkpoint
            message = f"events {(baseline or 0) + 1} to {first.event_start - 1} belong to no turn"
            self._add("baseline-gap", message, self.created[first.id])
        owner = "the conversation before the first turn"
        for node in nodes:
            checkpoint, stop = node.checkpoint, node.event_end
            if end is not None and checkpoint.event_start <= end:
                message = f"event {checkpoint.event_start} belongs to {checkpoint.id} and to {owner}"
                self._add("overlapping-ranges", message, self.created[checkpoint.id])
            if stop is not None and (end is None or stop > end):
                end, owner = stop, checkpoint.id


def check_loss(evidence: Evidence, *, baseline_end: int | None, is_there: bool) -> Iterator[Finding]:
    """Whether a journal without a checkpoint has lost what others still tell of.

    A ref alone, above the log's last event, is that of a first turn that a crash kept from its record. A
    session older than checkpoints has a log and no journal. One with a journal has a record for each prompt
    above the baseline, since that record is written first.
    """
    starts = [start for name in evidence.references if (start := ids.event_start_of(name)) is not None]
    lost = len(starts) > 1 or any(start <= (evidence.last_sequence or 0) for start in starts)
    prompts = sum(sequence > (baseline_end or 0) for sequence, _ in evidence.prompts)
    refs = f"{len(starts)} {'ref' if len(starts) == 1 else 'refs'}"
    turns = f"{prompts} {'prompt' if prompts == 1 else 'prompts'}"
    if lost or (prompts and is_there):
        what = "holds no checkpoint" if is_there else "is gone"
        message = f"the journal {what}, though there are {refs} of checkpoints and {turns} in the log"
        yield Finding("journal-lost", message, fix=_REBUILD)
    elif prompts and not is_there:
        yield Finding("journal-absent", f"there is no journal, and {turns} in the log", fix=_REBUILD)


def _stray_prompts(state: TimelineState, log: LogFacts) -> list[int]:
    """The prompts above the baseline that belong to no turn: their sequences."""
    last = log.last_sequence or 0
    ranges = sorted(
        (node.checkpoint.event_start, last if node.event_end is None else node.event_end)
        for node in state.nodes.values()
    )
    starts, ends = [start for start, _ in ranges], list(accumulate((end for _, end in ranges), max))
    baseline = state.baseline_end or 0

    def is_owned(sequence: int) -> bool:
        position = bisect_right(starts, sequence)
        return position > 0 and sequence <= ends[position - 1]

    return [sequence for sequence, _ in log.prompts if sequence > baseline and not is_owned(sequence)]


def check_log(
    entries: Iterable[Entry], state: TimelineState, log: LogFacts, *, whole: bool = True
) -> Iterator[Finding]:
    """Whether the ranges and prompts are those of the event log.

    ``whole`` is False when only the beginning of the journal can be read.
    """
    if log.foreign:
        words = "1 event" if log.foreign == 1 else f"{log.foreign:,} events"
        message = f"{words} of another session in events.jsonl, the first on its line {log.first_foreign}"
        yield Finding("foreign-events", message)
    if log.last_sequence is None:
        return
    stray = _stray_prompts(state, log) if state.nodes and whole else []
    if stray:
        how_many = "1 prompt" if len(stray) == 1 else f"{len(stray):,} prompts"
        message = f"{how_many} in the log that no turn has, the first at event {stray[0]}"
        yield Finding("prompt-without-turn", f"{message}: records may be lost", fix=_REBUILD)
    created = {entry.record.id: entry for entry in entries if isinstance(entry.record, CheckpointCreated)}
    sequences = [sequence for sequence, _ in log.prompts]
    for name, node in state.nodes.items():
        checkpoint, entry = node.checkpoint, created[name]
        end = node.event_end if node.event_end is not None else log.last_sequence
        line, kind = entry.line, type_name(entry.record)
        if max(end, checkpoint.event_start - 1) > log.last_sequence:
            last = max(end, checkpoint.event_start - 1)
            message = f"{name} reaches to event {last}, the log only to {log.last_sequence}"
            yield Finding("range-beyond-log", message, line.number, line.offset, kind)
        position = bisect_left(sequences, checkpoint.event_start)
        if (
            position < len(sequences)
            and sequences[position] <= end
            and log.prompts[position][1] != checkpoint.prompt
        ):
            message = f"the prompt of {name} is not that of event {sequences[position]}"
            yield Finding("prompt-differs", message, line.number, line.offset, kind)


def check_repository(
    session_id: str, entries: Sequence[Entry], state: TimelineState, facts: RepositoryFacts
) -> Iterator[Finding]:
    """Whether the snapshots that the state names are there, and the refs that are there are named."""
    by_checkpoint = {
        entry.record.id: entry for entry in entries if isinstance(entry.record, CheckpointCreated)
    }
    named = [
        (name, node.checkpoint.snapshot, by_checkpoint[name])
        for name, node in state.nodes.items()
        if node.checkpoint.snapshot is not None
    ]
    if named and all(_is_foreign(snapshot, facts) for _, snapshot, _ in named):
        message = "neither the refs nor the trees of the snapshots are in the session's repository"
        first = named[0][2].line
        fix = "see `yolop-cli session show`: they were taken in another repository, or all were deleted"
        yield Finding("foreign-repository", message, first.number, first.offset, "checkpoint_created", fix)
    else:
        for name, snapshot, entry in named:
            yield from _snapshot_findings(name, snapshot, entry, facts, "ref-missing")
    redo = state.redo.snapshot if state.redo is not None else None
    moved = next((entry for entry in reversed(entries) if isinstance(entry.record, HeadMoved)), None)
    if redo is not None and moved is not None:
        yield from _snapshot_findings(_REDO, redo, moved, facts, "recovery-missing")
    needed = {snapshot.reference for snapshot in _snapshots(entries)} | set(facts.waiting)
    for reference in sorted(set(facts.references) - needed):
        name = ids.reference_name(session_id, reference) or reference
        if ids.is_recovery_name(name):
            message = (
                f"no record names {name}, files as they were before a restore: a move of the head is lost"
            )
            fix = f"`git ls-tree -r {reference}` lists them; {_REPAIR} --head ID moves a head that is wrong"
            yield Finding("recovery-without-record", f"{message}, or a preview was killed", fix=fix)
        else:
            fix = f"{_REPAIR} --strategy rebuild recreates its record"
            yield Finding("ref-without-record", f"no record names the ref {name}", fix=fix)


def _snapshots(entries: Iterable[Entry]) -> Iterator[Snapshot]:
    """Every snapshot that any record names: that of a redo used up may be the only one of its files."""
    for entry in entries:
        match entry.record:
            case CheckpointCreated(snapshot=snapshot) | HeadMoved(redo_snapshot=snapshot):
                if snapshot is not None:
                    yield snapshot
            case _:
                pass


def _is_foreign(snapshot: Snapshot, facts: RepositoryFacts) -> bool:
    if ids.is_object_id(snapshot.tree) and len(snapshot.tree) != facts.id_length:
        return True
    return snapshot.reference not in facts.references and snapshot.tree in facts.missing_trees


def _snapshot_findings(
    name: str, snapshot: Snapshot, entry: Entry, facts: RepositoryFacts, missing: str
) -> Iterator[Finding]:
    line, kind = entry.line, type_name(entry.record)

    def finding(code: str, message: str, fix: str | None = None) -> Finding:
        return Finding(code, message, line.number, line.offset, kind, fix)

    reference = snapshot.reference
    if reference is not None and reference not in facts.references:
        if missing == "recovery-missing":
            fix = f"{_REPAIR} clears the redo"
            yield finding(missing, f"the ref of {name} is gone: it cannot put files back", fix)
        else:
            yield finding(missing, f"the ref of {name} is gone: it is conversation-only now")
        return
    if reference is not None and facts.references[reference] != snapshot.tree:
        found = facts.references[reference][:12]
        message = f"the ref of {name} names {found}, its record {snapshot.tree[:12]}"
        yield finding("ref-differs", message, _way_out_of_difference(name, snapshot, reference, facts))
    if snapshot.tree in facts.missing_trees:
        message = f"the tree of {name}, {snapshot.tree}, is not in the repository"
        yield finding("tree-missing", message, _way_out_of_loss(name, reference))
        return
    for code, what, gaps in (
        ("tree-missing", "directories", facts.missing_trees),
        ("blob-missing", "files", facts.missing_blobs),
    ):
        gone = sorted(oid for oid, root in gaps.items() if root == snapshot.tree)
        if gone:
            message = f"the snapshot of {name} lacks the content of {len(gone)} {what}: {', '.join(gone[:3])}"
            see = "" if name == _REDO else f"yolop-cli checkpoint verify {name} shows more; "
            yield finding(code, message, see + _way_out_of_loss(name, reference))


def _way_out_of_difference(name: str, snapshot: Snapshot, reference: str, facts: RepositoryFacts) -> str:
    is_own = name == _REDO or reference.endswith(f"/{name}")
    if not is_own or snapshot.tree in facts.missing_trees or not ids.is_object_id(snapshot.tree):
        return f"{_REPAIR} takes the ref of its own name and the tree that it holds"
    return (
        f"`git update-ref {reference} {snapshot.tree}` if the record is right; "
        f"if not, {_way_out_of_loss(name, reference)}"
    )


def _way_out_of_loss(name: str, reference: str | None) -> str:
    """What ends an error about files that nothing brings back."""
    if reference is None:
        return f"{_REPAIR} leaves it without files"
    if name == _REDO:
        return f"the next turn clears the redo; or `git update-ref -d {reference}`, and {_REPAIR} clears it"
    return f"yolop-cli checkpoint delete {name} makes it conversation-only"
