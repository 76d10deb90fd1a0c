"""What a damaged block is cut into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from yolop_cli.ground import ids
from yolop_cli.ground.strict_json import JsonFault
from yolop_cli.timeline.records import CheckpointCreated, HeadMoved, Parsed, Record, Snapshot

PieceKind = Literal["record", "object", "fragment", "nul", "bom", "blank", "text"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a damaged block.

    ``data`` are its bytes with the line breaks in its middle taken out; ``spans`` are the byte ranges of
    the file that they come from (more than one for a record with line breaks or another record inside).
    A record has ``parsed``, whatever else looks like JSON has the ``fault`` that makes it unreadable.
    """

    kind: PieceKind
    data: bytes
    spans: tuple[tuple[int, int], ...]
    line: int
    parsed: Parsed | None = None
    fault: JsonFault | None = None

    @property
    def offset(self) -> int:
        """Where the piece begins in the file."""
        return self.spans[0][0]

    @property
    def end(self) -> int:
        """Where the piece ends in the file."""
        return self.spans[-1][1]


def agrees(record: Record) -> bool:
    """Whether the parts of a record can be of one record.

    The agent's ids carry the start of the events, and the name of a ref has a form.
    """
    match record:
        case CheckpointCreated():
            start = ids.event_start_of(record.id)
            return (start is None or start == record.event_start) and _is_well_formed(record.snapshot)
        case HeadMoved():
            return _is_well_formed(record.redo_snapshot)
        case _:
            return True


def _is_well_formed(snapshot: Snapshot | None) -> bool:
    return snapshot is None or snapshot.reference is None or ids.is_reference(snapshot.reference)
