"""Turns that stand behind a turn they led to, put where they belong.

A checkpoint's parent is created before it, so one whose events come first and whose record comes later was
misplaced, as by a tool that sorts or merges lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from yolop_cli.timeline.plans import Chunk, Step
from yolop_cli.timeline.records import CheckpointCreated, TurnCompleted, type_name
from yolop_cli.timeline.salvage import Salvaged


def put_in_order(salvaged: Salvaged) -> bool:
    """Move such turns up, in place: the record of the checkpoint and that of its end. Whether any moved."""
    places = _Places(salvaged)
    moved_before: dict[int, str] = {}
    order: dict[int, None] = {}
    for index in range(len(salvaged.items)):
        for earlier, child in reversed(list(places.misplaced(index, order))):
            for place in places.turn(earlier, child.event_start):
                if place not in order:
                    order[place] = None
                    moved_before[place] = child.id
        order[index] = None
    for place, child_id in moved_before.items():
        item = salvaged.items[place]
        if isinstance(item, Chunk) and item.record is not None:
            message = f"it comes before {child_id}, whose parent it is"
            if isinstance(item.record, TurnCompleted):
                message = f"it comes before {child_id}, which follows its turn"
            salvaged.steps.append(Step("order", message, item.line, None, type_name(item.record)))
    salvaged.items = [salvaged.items[index] for index in order]
    return bool(moved_before)


class _Places:
    """Where the records of each turn stand."""

    def __init__(self, salvaged: Salvaged):
        self.items = salvaged.items
        self.created: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        for index, item in enumerate(self.items):
            match item.record if isinstance(item, Chunk) else None:
                case CheckpointCreated(id=name):
                    self.created.setdefault(name, index)
                case TurnCompleted(checkpoint_id=name):
                    self.ended.setdefault(name, index)

    def _checkpoint(self, index: int) -> CheckpointCreated | None:
        item = self.items[index]
        record = item.record if isinstance(item, Chunk) else None
        return record if isinstance(record, CheckpointCreated) else None

    def misplaced(self, index: int, done: dict[int, None]) -> Iterator[tuple[int, CheckpointCreated]]:
        """The ancestors that stand behind a checkpoint and begin before it, each with its child."""
        child = self._checkpoint(index) if index not in done else None
        while child is not None and child.parent is not None:
            place = self.created.get(child.parent, -1)
            parent = self._checkpoint(place) if place > index and place not in done else None
            if parent is None or parent.event_start >= child.event_start:
                return
            yield place, child
            child = parent

    def turn(self, created: int, before: int) -> Iterator[int]:
        """The records of a turn: its beginning, and its end when that comes before an event."""
        yield created
        checkpoint = self._checkpoint(created)
        end = self.ended.get(checkpoint.id, -1) if checkpoint is not None else -1
        item = self.items[end]
        record = item.record if end > created and isinstance(item, Chunk) else None
        if isinstance(record, TurnCompleted) and record.event_end < before:
            yield end
