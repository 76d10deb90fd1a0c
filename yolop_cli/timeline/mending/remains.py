"""What a damaged record still tells: the fields of it that can be read, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from yolop_cli.timeline.checking.damage import legible
from yolop_cli.timeline.checking.pieces import Piece
from yolop_cli.timeline.fields import is_timestamp
from yolop_cli.timeline.mending.salvage import likely_type
from yolop_cli.timeline.records import TurnCompleted

_MOVE = b'{"type":"head_moved"'


def may_have_moved(piece: Piece) -> bool:
    """Whether what is left of a record is, or may be, the beginning of a move of the head."""
    kind = likely_type(piece)
    begun = piece.data.translate(None, b" \t")[: len(_MOVE)]
    return kind == "head_moved" or (kind is None and _MOVE.startswith(begun))


def targets_of(piece: Piece) -> list[str | None]:
    """Where a damaged move of the head says that it goes; more than one place when the field is repeated."""
    fields = re.findall(rb'"to"[ \t]*:[ \t]*(?:null\b|"(?:[^"\\\x00-\x1f]|\\.)*")?', piece.data)
    parts = (replace(piece, data=each) for each in fields)
    found = [legible_or_null(part, "to") for part in parts]
    return [one[0] for one in found if one is not None] if None not in found else []


def completion_of(
    pieces: Iterable[Piece],
    checkpoint_id: str,
    start: int,
    end: int | None = None,
    time: str | None = None,
) -> TurnCompleted | None:
    """The end of a turn as its damaged record tells it; ``end`` and ``time`` where it does not tell.

    What it tells must lie between the turn's start and ``end``.
    """
    for piece in pieces:
        if likely_type(piece) == "turn_completed" and legible(piece, "checkpoint_id") == checkpoint_id:
            told = integer(piece, "event_end")
            told_time = legible(piece, "completed_at")
            when = told_time if told_time is not None and is_timestamp(told_time) else time
            believed = told is not None and told >= start - 1 and (end is None or told <= end)
            last = told if believed else end
            if last is not None and when is not None:
                success = re.search(rb'"success"[ \t]*:[ \t]*true\b', piece.data) is not None
                return TurnCompleted(checkpoint_id, last, success, when)
    return None


def integer(piece: Piece, name: str) -> int | None:
    """An integer field of a damaged record, when it is whole and of 32 bits."""
    match = re.search(rb'"' + name.encode() + rb'"[ \t]*:[ \t]*(-?(?:0|[1-9]\d{0,9}))[ \t]*[,}]', piece.data)
    value = int(match.group(1)) if match is not None else None
    return value if value is not None and -(2**31) <= value < 2**31 else None


def legible_or_null(piece: Piece, name: str) -> tuple[str | None] | None:
    """A field of a damaged record that holds a string or null: (value,), or None when it cannot be read."""
    if re.search(rb'"' + name.encode() + rb'"[ \t]*:[ \t]*null\b', piece.data):
        return (None,)
    value = legible(piece, name)
    return (value,) if value is not None else None
