"""Turns that only their traces tell of: private refs whose ids carry a start, prompts in the event log.

The order is that of the event log. Rewinds leave no trace outside the journal but the snapshot of the files
before them, so each turn found this way follows the head before it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from yolop_cli.ground import ids
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.fold import Folding, TimelineState, fold
from yolop_cli.timeline.mending.repair_plan import Chunk, Step
from yolop_cli.timeline.mending.salvage import Lost
from yolop_cli.timeline.records import (
    CheckpointCreated,
    HeadMoved,
    Initialized,
    Record,
    Snapshot,
    TurnCompleted,
    to_line,
    type_name,
)

REASON = "the journal was lost; this turn was found again without its files"


@dataclass(frozen=True)
class Traced:
    """The items with the traced turns among them, the steps, and whether a turn was added at the end."""

    items: list[Chunk | Lost]
    steps: list[Step]
    at_end: bool


@dataclass(frozen=True)
class _Turn:
    start: int
    id: str | None
    tree: str | None = None
    prompt: str = ""
    end: int = 0


def with_traces(items: Sequence[Chunk | Lost], evidence: Evidence, now: str) -> Traced:
    """Add the turns that the records do not hold, each where its events come. Pure."""
    state = fold(_records(items))
    turns = _missing(state, items, evidence)
    merge = _Merge(evidence, now, _capture(items, evidence), {*_completed(items)})
    if state.baseline_end is None:
        merge.begin([*(turn.start for turn in turns), *_starts(state)])
    for item in items:
        record = item.record if isinstance(item, Chunk) else None
        while turns and record is not None and _comes_before(turns[0], record):
            merge.turn(turns.pop(0))
        merge.item(item)
    for turn in turns:
        merge.turn(turn)
    return Traced(merge.items, merge.steps, bool(turns))


def _comes_before(turn: _Turn, record: Record) -> bool:
    if isinstance(record, CheckpointCreated) and record.event_start > turn.start:
        return True
    return turn.id is not None and turn.id in _names(record)


class _Merge:
    """The new list of items, with the state of the records so far."""

    def __init__(self, evidence: Evidence, now: str, capture: str | None, completed: set[str]):
        self.evidence, self.now, self.capture, self.completed = evidence, now, capture, completed
        self.items: list[Chunk | Lost] = []
        self.steps: list[Step] = []
        self.folding = Folding()

    def item(self, item: Chunk | Lost) -> None:
        self.items.append(item)
        if isinstance(item, Chunk) and item.record is not None:
            self.folding.add(item.record)

    def begin(self, starts: list[int]) -> None:
        """The record that every timeline begins with, when there is anything to record."""
        last = self.evidence.last_sequence or 0
        if not starts and not last:
            return
        first = Initialized(min(starts, default=last + 1) - 1, self.now)
        self.item(Chunk(to_line(first) + b"\n", first))
        self.steps.append(Step("insert", "the first record of a timeline", record_type=type_name(first)))

    def turn(self, turn: _Turn) -> None:
        state = self.folding.state
        checkpoint_id = turn.id or _new_id(turn.start, state)
        snapshot = None
        if turn.tree is not None:
            reference = ids.reference(self.evidence.session_id, checkpoint_id)
            snapshot = Snapshot(turn.tree, reference, self.capture)
        parent = state.pending if state.pending is not None else state.head
        reason = None if snapshot is not None else REASON
        made: list[Record] = [
            CheckpointCreated(checkpoint_id, parent, turn.prompt, turn.start, snapshot, reason, self.now)
        ]
        if state.pending is not None:
            made.insert(0, TurnCompleted(state.pending, turn.start - 1, False, self.now))
        answered = _was_answered(self.evidence, turn.start, turn.end)
        failed = checkpoint_id not in self.completed and not answered
        if checkpoint_id not in self.completed:
            made.append(TurnCompleted(checkpoint_id, turn.end, answered, self.now))
        for record in made:
            self.item(Chunk(to_line(record) + b"\n", record))
        files = "with its files" if snapshot is not None else "without files"
        place = f"after {parent}" if parent is not None else "at the start"
        message = f"turn {checkpoint_id} from its traces, {files}{', as failed' if failed else ''}, {place}"
        self.steps.append(Step("insert", message, record_type="checkpoint_created"))


def missing(state: TimelineState, items: Sequence[Chunk | Lost], evidence: Evidence) -> int:
    """How many turns ``with_traces`` would add to items that fold to this state."""
    return len(_missing(state, items, evidence))


def _missing(state: TimelineState, items: Sequence[Chunk | Lost], evidence: Evidence) -> list[_Turn]:
    """The turns that traces tell of and no readable record does, in the order of the log."""
    found: dict[int, _Turn] = {}
    mentioned = sorted({name for record in _records(items) for name in _names(record)})
    for name in [*evidence.references, *mentioned]:
        start = ids.event_start_of(name)
        beyond = (
            name not in evidence.references
            and start is not None
            and start > (evidence.last_sequence or start)
        )
        if start is not None and name not in state.nodes and start not in found and not beyond:
            found[start] = _Turn(start, name, evidence.references.get(name))
    _add_prompts(found, state, evidence)
    starts = sorted({*found, *_starts(state)})
    after = dict(pairwise(starts))
    last = evidence.last_sequence or 0
    return [
        replace(found[start], end=after.get(start, max(last + 1, start)) - 1)
        for start in starts
        if start in found
    ]


def _add_prompts(found: dict[int, _Turn], state: TimelineState, evidence: Evidence) -> None:
    """Give each prompt to the turn it began; one that belongs to no turn began a turn of its own."""
    ends: dict[int, int | None] = dict.fromkeys(found)
    ends |= {node.checkpoint.event_start: node.event_end for node in state.nodes.values()}
    starts = sorted(ends)
    taken: set[int] = set()
    for sequence, text in evidence.prompts:
        if state.baseline_end is not None and sequence <= state.baseline_end:
            continue
        position = bisect_right(starts, sequence) - 1
        owner = starts[position] if position >= 0 else None
        end = ends[owner] if owner is not None else None
        if owner is not None and (owner not in taken if end is None else sequence <= end):
            taken.add(owner)
            if owner in found:
                found[owner] = replace(found[owner], prompt=text)
        else:
            found[sequence] = _Turn(sequence, None, None, text)


def _starts(state: TimelineState) -> list[int]:
    return [node.checkpoint.event_start for node in state.nodes.values()]


def _completed(items: Sequence[Chunk | Lost]) -> Iterator[str]:
    return (record.checkpoint_id for record in _records(items) if isinstance(record, TurnCompleted))


def _was_answered(evidence: Evidence, start: int, end: int) -> bool:
    position = bisect_left(evidence.answers, start)
    return position < len(evidence.answers) and evidence.answers[position] <= end


def _new_id(start: int, state: TimelineState) -> str:
    number = len(state.nodes) + 1
    while f"cp_{start}_{number}" in state.nodes:
        number += 1
    return f"cp_{start}_{number}"


def _capture(items: Sequence[Chunk | Lost], evidence: Evidence) -> str | None:
    """How this session's other snapshots were taken; alone, a ref does not tell."""
    captures = [
        record.snapshot.capture
        for record in _records(items)
        if isinstance(record, CheckpointCreated) and record.snapshot is not None
    ]
    return captures[-1] if captures else evidence.capture


def _records(items: Sequence[Chunk | Lost]) -> Iterator[Record]:
    return (item.record for item in items if isinstance(item, Chunk) and item.record is not None)


def _names(record: Record) -> tuple[str, ...]:
    """The checkpoints that a record names, its own aside."""
    match record:
        case CheckpointCreated():
            names: tuple[str | None, ...] = (record.parent,)
        case TurnCompleted():
            names = (record.checkpoint_id,)
        case HeadMoved():
            names = (record.to, record.redo_head, record.from_head)
        case _:
            names = ()
    return tuple(name for name in names if name is not None)
