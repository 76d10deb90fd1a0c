"""Make salvaged records fit together again, from what is certain, and say what is not.

Three rules of the format page decide what a lost record must have said. The parent of a checkpoint is the
head when its turn began. A turn that is still open when another begins has ended just before it. A
checkpoint's id carries the start of its events. Nothing else is made up, and no turn beyond the end of the
log. When a record that is lost, or that names what is nowhere, could have moved the head and no later
record tells where to, every possible head is named and none is chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from yolop_cli.ground import ids
from yolop_cli.timeline.checking import objects
from yolop_cli.timeline.checking.damage import legible
from yolop_cli.timeline.checking.pieces import Piece
from yolop_cli.timeline.checking.spelling import nearest, one_letter_apart
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.fields import is_timestamp
from yolop_cli.timeline.fold import Folding
from yolop_cli.timeline.mending.remains import (
    completion_of,
    integer,
    legible_or_null,
    may_have_moved,
    targets_of,
)
from yolop_cli.timeline.mending.repair_plan import Chunk, Step
from yolop_cli.timeline.mending.salvage import Lost, likely_type
from yolop_cli.timeline.records import (
    CheckpointCreated,
    HeadMoved,
    Initialized,
    Record,
    RedoCleared,
    Snapshot,
    TurnCompleted,
    parse,
    to_line,
    type_name,
)

LOST_REASON = "the checkpoint's record was damaged; what could be read of it was written again"


@dataclass(frozen=True)
class Settled:
    """The records of the new file, the steps that made some of them, and every head that is possible."""

    chunks: tuple[Chunk, ...]
    steps: tuple[Step, ...]
    heads: tuple[str | None, ...]
    folding: Folding
    rejected: tuple[bytes, ...] = ()


def settle(items: Sequence[Chunk | Lost], evidence: Evidence, now: str, last_line: int | None) -> Settled:
    """Fill the gaps that lost records left. ``last_line`` is the last line that counts: what was lost
    at its end never took effect, unless it moved the head and was written whole. Pure."""
    walk = _Walk(evidence, now, items)
    last = max(
        (index for index, item in enumerate(items) if isinstance(item, Chunk) and item.record), default=-1
    )
    for index, (item, end) in enumerate(zip(items, _ends_before_next(items, evidence), strict=True)):
        if isinstance(item, Lost):
            walk.lost(item, at_end=item.piece.line == last_line and index > last)
        else:
            walk.chunk(item, end)
    walk.close_legibly()
    return Settled(tuple(walk.chunks), tuple(walk.steps), walk.heads(), walk.folding, tuple(walk.rejected))


@dataclass
class _Walk:
    evidence: Evidence
    now: str
    items: Sequence[Chunk | Lost]
    chunks: list[Chunk] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    folding: Folding = field(default_factory=Folding)
    # Lost since the last record that tells where the head was; all that were lost.
    gap: list[Piece] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    # The ends of turns that are still to come, by checkpoint.
    ends_to_come: Counter[str] = field(default_factory=Counter)
    parents: dict[str, str | None] = field(default_factory=dict)
    rejected: list[bytes] = field(default_factory=list)
    # Whether the head is one that nothing but a single record tells of, or was to be one that is nowhere.
    doubt: bool = False
    time: str | None = None

    def __post_init__(self) -> None:
        for item in self.items:
            if isinstance(item, Chunk) and isinstance(item.record, CheckpointCreated):
                self.parents.setdefault(item.record.id, item.record.parent)
            elif isinstance(item, Chunk) and isinstance(item.record, TurnCompleted):
                self.ends_to_come[item.record.checkpoint_id] += 1
        self.known = set(self.parents)
        snapshots = [
            item.record.snapshot
            for item in self.items
            if isinstance(item, Chunk) and isinstance(item.record, CheckpointCreated) and item.record.snapshot
        ]
        self.capture = snapshots[-1].capture if snapshots else self.evidence.capture

    def lost(self, item: Lost, *, at_end: bool) -> None:
        self.pieces.append(item.piece)
        moved = may_have_moved(item.piece)
        # A redo whose ref is gone was used up: half a move at the end may well have taken effect.
        durable = item.whole or self.evidence.lacks_redo(self.folding.state)
        if (durable and moved) if at_end else (moved or not item.torn):
            self.gap.append(item.piece)

    def chunk(self, chunk: Chunk, end: int | None) -> None:
        """Take the next record; ``end`` is the last event before the next turn after it."""
        target = _target(chunk.record)
        if target is not None and not self._is_or_can_be_made(target):
            self._set_aside(chunk, target)
            return
        made_up = target is not None and target not in self.known and not self._has_trace(target)
        record = chunk.record
        match record:
            case CheckpointCreated():
                self._end_pending(record.id, record.event_start - 1, record.created_at)
                chunk = self._rooted(chunk, record)
                parent = _parent_of(chunk)
                self._require(parent)
                self._begin(record)
                self._end_pending(record.id, record.event_start - 1, record.created_at)
                self._move_to(record, parent)
            case TurnCompleted():
                self.ends_to_come[record.checkpoint_id] -= 1
                self._require(record.checkpoint_id)
            case HeadMoved():
                self._end_pending(None, end, record.moved_at)
                chunk = self._with_known_redo(chunk, record)
                for checkpoint_id in (record.from_head, record.to, record.redo_head):
                    if checkpoint_id is not None and self._is_or_can_be_made(checkpoint_id):
                        self._require(checkpoint_id)
                self._end_pending(None, end, record.moved_at)
            case _:
                pass
        self._add(chunk)
        if isinstance(record, CheckpointCreated | TurnCompleted | HeadMoved):
            self.gap.clear()
            self.doubt = made_up

    def close_legibly(self) -> None:
        """End the pending turn as its own damaged record says, when enough of that can be read."""
        pending = self.folding.state.pending
        if pending is not None and self.gap:
            start = self.folding.state.nodes[pending].checkpoint.event_start
            record = completion_of(self.pieces, pending, start)
            if record is not None:
                how = "" if record.success else ", as failed"
                self._make(record, f"the end of turn {pending}{how}, from its damaged record")

    def heads(self) -> tuple[str | None, ...]:
        state = self.folding.state
        everywhere = dict.fromkeys([*reversed(list(state.nodes)), None])
        possible: dict[str | None, None] = {state.head: None}
        if self.doubt:
            possible.update(everywhere)
        for piece in self.gap:
            kind = likely_type(piece)
            if kind in ("initialized", "redo_cleared", "checkpoint_created"):
                continue
            if kind == "turn_completed":
                named = legible(piece, "checkpoint_id")
                if state.pending is None and named in state.nodes:
                    possible[named] = None
                continue
            targets = targets_of(piece) if kind == "head_moved" else []
            if targets and all(target is None or target in state.nodes for target in targets):
                possible.update(dict.fromkeys(targets))
            else:
                possible.update(everywhere)
        return tuple(possible) if len(possible) > 1 else ()

    def _set_aside(self, chunk: Chunk, target: str) -> None:
        """Leave out a record that makes the head a checkpoint that is nowhere."""
        kind = type_name(chunk.record) if chunk.record is not None else None
        message = (
            f"nothing else refers to {target}, and the event log ends before it: the head cannot be there"
        )
        self.rejected.append(chunk.data.removesuffix(b"\n"))
        self.steps.append(Step("aside", message, chunk.line, None, kind))
        self.doubt = True

    def _rooted(self, chunk: Chunk, record: CheckpointCreated) -> Chunk:
        """The record with the head as its parent when its own is nowhere, or leads back to it."""
        parent = record.parent
        is_later = parent in self.known and parent not in self.folding.state.nodes
        if parent is None or (self._is_or_can_be_made(parent) and not is_later):
            return chunk
        head = self.folding.state.head
        why = "does not exist"
        if is_later:
            why = "is its own descendant" if self._is_its_own_ancestor(record) else "begins later"
        message = f"its parent is {head or 'nothing'}, the head when it began; {parent} {why}"
        if len(self.heads()) > 1:
            message += ". This is a guess, since the damage before it hides the head"
        return self._corrected(chunk, "parent", head, message)

    def _is_its_own_ancestor(self, record: CheckpointCreated) -> bool:
        """Whether a parent that is only created later leads back to the checkpoint: there a cycle is cut."""
        step, seen = record.parent, set[str]()
        if step in self.folding.state.nodes and step != record.id:
            return False
        while step is not None and step != record.id and step not in seen:
            seen.add(step)
            step = self.parents.get(step)
        return step == record.id

    def _with_known_redo(self, chunk: Chunk, record: HeadMoved) -> Chunk:
        redo, head = record.redo_head, self.folding.state.head
        if redo is None or self._is_or_can_be_made(redo):
            return chunk
        message = f"redo goes to {head or 'the start'}, where the head was; {redo} does not exist"
        return self._corrected(chunk, "redo_head", head, message)

    def _corrected(self, chunk: Chunk, key: str, value: str | None, message: str) -> Chunk:
        line = chunk.data.removesuffix(b"\n")
        data = objects.replaced(line, (key,), value)
        record = parse(data).record
        self.rejected.append(line)
        self.steps.append(Step("correct", message, chunk.line, None, type_name(record)))
        return replace(chunk, data=data + b"\n", record=record)

    def _is_or_can_be_made(self, checkpoint_id: str) -> bool:
        """Whether a checkpoint is there, or something tells of it and the log reaches to it."""
        last = self.evidence.last_sequence
        if checkpoint_id in self.known or last is None or self._has_trace(checkpoint_id):
            return True
        return self._event_start(checkpoint_id, None) <= last

    def _has_trace(self, checkpoint_id: str) -> bool:
        """Whether more than the one name tells of a checkpoint: its damaged record, its ref, its prompt."""
        if self._piece_of(checkpoint_id) is not None or checkpoint_id in self.evidence.references:
            return True
        start = ids.event_start_of(checkpoint_id)
        return any(sequence == start for sequence, _ in self.evidence.prompts)

    def _end_pending(self, beginning: str | None, event_end: int | None, time: str) -> None:
        state = self.folding.state
        pending = state.pending
        if pending is None or pending == beginning or self.ends_to_come[pending] > 0:
            return
        start = state.nodes[pending].checkpoint.event_start
        end = None if event_end is None else max(event_end, start - 1)
        record = completion_of(self.pieces, pending, start, end, time)
        if record is None and end is not None:
            record = TurnCompleted(pending, end, False, time)
        if record is not None:
            how = "" if record.success else ", as failed"
            self._make(record, f"the end of turn {pending}{how}; it was still open when the next began")

    def _begin(self, first: CheckpointCreated) -> None:
        """The baseline, when the record of it is lost: it reaches to the first turn."""
        state = self.folding.state
        wanted = first.event_start - 1
        if wanted < 0 or state.nodes or (state.baseline_end is not None and state.baseline_end >= wanted):
            return
        if self.pieces or (state.baseline_end is None and wanted > 0):
            message = f"the conversation up to event {wanted} comes before the first turn"
            self._make(Initialized(wanted, first.created_at), message)

    def _move_to(self, record: CheckpointCreated, parent: str | None) -> None:
        head = self.folding.state.head
        if (self.gap or self.doubt) and head != parent:
            moved = HeadMoved(head, parent, head, None, record.created_at)
            self._make(moved, f"the head was {parent or 'before the first turn'} when {record.id} began")

    def _require(self, checkpoint_id: str | None) -> None:
        """Make a checkpoint that later records name and that is nowhere to be found."""
        if checkpoint_id is None or checkpoint_id in self.known:
            return
        self.known.add(checkpoint_id)
        piece = self._piece_of(checkpoint_id)
        start = self._event_start(checkpoint_id, piece)
        self._end_pending(checkpoint_id, start - 1, self._moment(piece))
        parent = self._parent(piece)
        if parent is not None:
            self._require(parent[0])
            self._end_pending(checkpoint_id, start - 1, self._moment(piece))
        snapshot = self._snapshot(checkpoint_id, piece)
        record = CheckpointCreated(
            checkpoint_id,
            parent[0] if parent is not None else self.folding.state.head,
            self._prompt(start, piece),
            start,
            snapshot,
            None if snapshot is not None else LOST_REASON,
            self._moment(piece),
        )
        self._begin(record)
        where = "its damaged record" if piece is not None else "what names it"
        files = "with its files" if snapshot is not None else "without files"
        self._make(record, f"checkpoint {checkpoint_id}, from {where}, {files}")

    def _piece_of(self, checkpoint_id: str) -> Piece | None:
        """The damaged record of a checkpoint, though a letter of its id be damaged too."""
        named = [(legible(piece, "id"), piece) for piece in self.pieces]
        exact = (piece for name, piece in named if name == checkpoint_id)
        near = (piece for name, piece in named if name and one_letter_apart(name, checkpoint_id))
        return next(exact, None) or next(near, None)

    def _parent(self, piece: Piece | None) -> tuple[str | None] | None:
        """The parent that a damaged record tells: (id or None,), or None when it cannot be read."""
        told = legible_or_null(piece, "parent") if piece is not None else None
        if told is None or told[0] is None or told[0] in self.known or told[0] in self.evidence.references:
            return told
        # Nothing else knows this name, and the record it stands in is damaged.
        known = nearest(told[0], self.folding.state.nodes)
        return (known,) if known is not None else None

    def _event_start(self, checkpoint_id: str, piece: Piece | None) -> int:
        told = integer(piece, "event_start") if piece is not None else None
        carried = ids.event_start_of(checkpoint_id)
        if told is None and carried is None:
            ends = [
                node.event_end or node.checkpoint.event_start for node in self.folding.state.nodes.values()
            ]
            return min(max(ends, default=self.folding.state.baseline_end or 0) + 1, 2**31 - 1)
        return carried if carried is not None else told or 0

    def _prompt(self, start: int, piece: Piece | None) -> str:
        told = legible(piece, "prompt") if piece is not None else None
        if told is not None:
            return told
        return next((text for sequence, text in self.evidence.prompts if sequence >= start), "")

    def _snapshot(self, checkpoint_id: str, piece: Piece | None) -> Snapshot | None:
        tree = legible(piece, "tree") if piece is not None else None
        reference = legible(piece, "reference") if piece is not None else None
        if tree is not None and ids.is_object_id(tree) and reference is not None:
            capture = legible(piece, "capture") if piece is not None else None
            return Snapshot(tree, reference, capture)
        anchored = self.evidence.references.get(checkpoint_id)
        if anchored is None:
            return None
        return Snapshot(anchored, ids.reference(self.evidence.session_id, checkpoint_id), self.capture)

    def _moment(self, piece: Piece | None) -> str:
        """When a checkpoint was created: as its damaged record says, or the rest of it on the same line."""
        if piece is None:
            return self.time or self.now
        told = legible(piece, "created_at")
        if told is None:
            rest = (one for one in self.pieces if one.line == piece.line and one.offset > piece.offset)
            parts = (one for one in rest if legible(one, "type") is None)
            told = next((time for one in parts if (time := legible(one, "created_at")) is not None), None)
        return told if told is not None and is_timestamp(told) else self.time or self.now

    def _make(self, record: Record, message: str) -> None:
        self.steps.append(Step("insert", message, record_type=type_name(record)))
        self._add(Chunk(to_line(record) + b"\n", record))

    def _add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        if chunk.record is not None:
            self.folding.add(chunk.record)
            self.time = _time_of(chunk.record)


def _target(record: Record | None) -> str | None:
    """The checkpoint that a record makes the head."""
    match record:
        case TurnCompleted():
            return record.checkpoint_id
        case HeadMoved():
            return record.to
        case _:
            return None


def _parent_of(chunk: Chunk) -> str | None:
    return chunk.record.parent if isinstance(chunk.record, CheckpointCreated) else None


def _ends_before_next(items: Sequence[Chunk | Lost], evidence: Evidence) -> list[int | None]:
    """For each item the last event before the next turn: where a turn that was left open must have ended."""
    ends: list[int | None] = []
    end = evidence.last_sequence
    for item in reversed(items):
        ends.append(end)
        if isinstance(item, Chunk) and isinstance(item.record, CheckpointCreated):
            end = item.record.event_start - 1
    return ends[::-1]


def _time_of(record: Record) -> str:
    match record:
        case Initialized() | CheckpointCreated():
            return record.created_at
        case TurnCompleted():
            return record.completed_at
        case HeadMoved():
            return record.moved_at
        case RedoCleared():
            return record.cleared_at
