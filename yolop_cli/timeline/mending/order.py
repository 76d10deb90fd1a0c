"""Records that stand behind what comes after them, put where they belong.

Turns begin in the order of the log, and a checkpoint is created before anything names it. What does not keep
to that was misplaced, as by a tool that sorts or merges lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from yolop_cli.timeline.mending.repair_plan import Chunk, Step
from yolop_cli.timeline.mending.salvage import Salvaged
from yolop_cli.timeline.records import CheckpointCreated, HeadMoved, Record, TurnCompleted, type_name

_MESSAGE = "it is put in front of the records that come after it"


def put_in_order(salvaged: Salvaged) -> bool:
    """Move such records up, in place: those of a checkpoint and of its end. Whether any moved."""
    records = [item.record if isinstance(item, Chunk) else None for item in salvaged.items]
    turns = _Turns(records)
    order: dict[int, None] = {}
    moved: list[int] = []
    for index, record in enumerate(records):
        for place in turns.due(record, index) if index not in order else ():
            if place not in order and place != index:
                order[place] = None
                moved.append(place)
        order[index] = None
    for place in moved:
        item, record = salvaged.items[place], records[place]
        if isinstance(item, Chunk) and record is not None:
            salvaged.steps.append(Step("order", _MESSAGE, item.line, None, type_name(record)))
    salvaged.items = [salvaged.items[index] for index in order]
    return bool(moved)


_Place = tuple[int, int]  # where a turn begins: its first event, then the place of its record


class _Turns:
    """The turns in the order of the log, taken from the front as their records come due."""

    def __init__(self, records: list[Record | None]):
        self.records = records
        self.starts: dict[str, _Place] = {}
        self.ended: dict[str, int] = {}
        begun: list[tuple[_Place, str]] = []
        for index, record in enumerate(records):
            match record:
                case CheckpointCreated():
                    self.starts[record.id] = (record.event_start, index)
                    begun.append(((record.event_start, index), record.id))
                case TurnCompleted():
                    self.ended.setdefault(record.checkpoint_id, index)
                case _:
                    pass
        self.waiting = sorted(begun, reverse=True)

    def due(self, record: Record | None, index: int) -> Iterator[int]:
        """Where the records stand that must come before this one, in their order; its own place may be among
        them, and places that came before."""
        match record:
            case CheckpointCreated():
                yield from self._up_to((record.event_start, index), index)
            case TurnCompleted():
                yield from self._up_to(self.starts.get(record.checkpoint_id), index)
            case HeadMoved():
                named = (record.from_head, record.to, record.redo_head)
                begun = [self.starts[name] for name in named if name in self.starts]
                yield from self._up_to(max(begun, default=None), index)
            case _:
                pass

    def _up_to(self, last: _Place | None, index: int) -> Iterator[int]:
        while last is not None and self.waiting and self.waiting[-1][0] <= last:
            (_, created), name = self.waiting.pop()
            yield created
            end = self.ended.get(name, -1)
            record = self.records[end]
            moves = created > index and end > index
            if moves and isinstance(record, TurnCompleted) and record.event_end < last[0]:
                yield end
