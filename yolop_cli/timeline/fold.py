"""The state that a timeline's records add up to. Pure: records in, state out.

Rules of the format page ("State"). Every question about branches (the active path, whether an event
belongs to the conversation, what redo would do) is asked of ``TimelineState``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from yolop_cli.timeline.records import (
    CheckpointCreated,
    Files,
    FileSnapshot,
    HeadMoved,
    Initialized,
    Record,
    RedoCleared,
    Snapshot,
    TurnCompleted,
)

Status = Literal["pending", "completed", "failed", "interrupted"]


@dataclass(frozen=True, slots=True)
class Node:
    """A checkpoint and how its turn ended; ``completion`` is None while the event range is open."""

    checkpoint: CheckpointCreated
    completion: TurnCompleted | None = None

    @property
    def event_end(self) -> int | None:
        """The last event of the turn, or None while it is open."""
        return None if self.completion is None else self.completion.event_end

    def holds(self, sequence: int) -> bool:
        """Whether an event of this sequence lies in the turn's range."""
        end = self.event_end
        return self.checkpoint.event_start <= sequence and (end is None or sequence <= end)


@dataclass(frozen=True)
class Redo:
    """What the last restore left behind: the head to go back to, and the files as they were."""

    head: str | None
    snapshot: Snapshot | None
    file_snapshot: FileSnapshot | None = None

    @property
    def files(self) -> Files | None:
        """The files as they were, in git or in a store."""
        return self.snapshot if self.snapshot is not None else self.file_snapshot


@dataclass(frozen=True)
class TimelineState:
    """The folded journal. ``nodes`` are in the order in which they were first created."""

    baseline_end: int | None = None
    nodes: Mapping[str, Node] = field(default_factory=dict)
    head: str | None = None
    pending: str | None = None
    redo: Redo | None = None

    def path_to(self, head: str | None) -> tuple[str, ...]:
        """The checkpoints from the oldest to ``head``: parents until null, an unknown id or a repeat."""
        path: list[str] = []
        seen: set[str] = set()
        while head is not None and head in self.nodes and head not in seen:
            seen.add(head)
            path.append(head)
            head = self.nodes[head].checkpoint.parent
        return tuple(reversed(path))

    @property
    def active_path(self) -> tuple[str, ...]:
        """The checkpoints of the active branch, oldest first; the pending one is not among them."""
        return self.path_to(self.head)

    @property
    def live(self) -> tuple[str, ...]:
        """The active path and after it the pending checkpoint, where there is one."""
        path = self.active_path
        pending = self.pending
        return path if pending is None or pending in path else (*path, pending)

    def is_active(self, sequence: int) -> bool:
        """Whether an event belongs to the conversation (all do while there is no checkpoint)."""
        if not self.nodes or (self.baseline_end is not None and sequence <= self.baseline_end):
            return True
        return any(self.nodes[checkpoint].holds(sequence) for checkpoint in self.live)

    def activity(self) -> Activity:
        """The same question prepared for many events."""
        spans = tuple(
            (self.nodes[checkpoint].checkpoint.event_start, self.nodes[checkpoint].event_end)
            for checkpoint in self.live
        )
        return Activity(self.baseline_end, spans, everything=not self.nodes)

    def status(self, checkpoint_id: str) -> Status:
        """How a checkpoint's turn stands; interrupted is one that neither ended nor goes on."""
        completion = self.nodes[checkpoint_id].completion
        if completion is not None:
            return "completed" if completion.success else "failed"
        return "pending" if checkpoint_id == self.pending else "interrupted"

    def snapshots(self) -> tuple[Snapshot, ...]:
        """Every snapshot that the state still names: the checkpoints' and the one redo would use."""
        named = [node.checkpoint.snapshot for node in self.nodes.values()]
        if self.redo is not None:
            named.append(self.redo.snapshot)
        return tuple(snapshot for snapshot in named if snapshot is not None)


@dataclass(frozen=True)
class Activity:
    """Which event sequences are active, as the spans of the live checkpoints."""

    baseline_end: int | None
    spans: tuple[tuple[int, int | None], ...]
    everything: bool

    def holds(self, sequence: int | None) -> bool:
        """Whether an event is active; one without a sequence always is."""
        if self.everything or sequence is None:
            return True
        if self.baseline_end is not None and sequence <= self.baseline_end:
            return True
        return any(start <= sequence and (end is None or sequence <= end) for start, end in self.spans)


class Folding:
    """A fold that goes on: ``state`` after the records added so far."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._baseline_end: int | None = None
        self._head: str | None = None
        self._pending: str | None = None
        self._redo: Redo | None = None

    @property
    def state(self) -> TimelineState:
        """The state now. Its nodes grow with the records that are added later."""
        return TimelineState(self._baseline_end, self._nodes, self._head, self._pending, self._redo)

    def add(self, record: Record) -> None:
        """Take the next record."""
        match record:
            case Initialized():
                self._baseline_end = record.baseline_end
            case CheckpointCreated():
                self._nodes[record.id] = Node(record)
                self._pending = record.id
            case TurnCompleted():
                node = self._nodes.get(record.checkpoint_id)
                if node is not None:
                    self._nodes[record.checkpoint_id] = Node(node.checkpoint, record)
                    self._head = record.checkpoint_id
                if self._pending == record.checkpoint_id:
                    self._pending = None
            case HeadMoved():
                self._head = record.to
                self._redo = Redo(record.redo_head, record.redo_snapshot, record.redo_file_snapshot)
            case RedoCleared():
                self._redo = None


def fold(records: Iterable[Record]) -> TimelineState:
    """The state after the records, in their order."""
    folding = Folding()
    for record in records:
        folding.add(record)
    return folding.state
