"""Every readable record of a damaged timeline, in order, and what lay between them.

Only damaged bytes are touched: a line that can be read keeps its bytes (a carriage return at its end
and the dotted spelling of its type aside). Nothing is dropped: what is no record is set aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from yolop_cli.ground import journal
from yolop_cli.timeline.checking import objects, spelling
from yolop_cli.timeline.checking.damage import Block, Readable, closed, legible, scan
from yolop_cli.timeline.checking.pieces import Piece
from yolop_cli.timeline.mending.repair_plan import Chunk, Step
from yolop_cli.timeline.records import (
    DOTTED,
    CheckpointCreated,
    Parsed,
    Record,
    TurnCompleted,
    parse,
    type_name,
)

_MENDED = "the name of its field {!r} is corrected; one letter of it was damaged"
_NOISE = ("nul", "bom", "blank", "text")
_TYPES_BY_FIELD = (
    ("turn_completed", rb'"(?:checkpoint_id|event_end|success|completed_at)"'),
    ("head_moved", rb'"(?:redo_head|redo_snapshot|moved_at|from|to)"'),
    ("checkpoint_created", rb'"(?:prompt|event_start|parent|snapshot_error)"'),
    ("redo_cleared", rb'"cleared_at"'),
    ("initialized", rb'"baseline_end"'),
)


@dataclass(frozen=True)
class Lost:
    """A record that cannot be read any more.

    ``torn`` when another begins right after half of it; ``whole`` when it was written to its end.
    """

    piece: Piece
    torn: bool
    whole: bool = False


@dataclass
class Salvaged:
    """What a timeline is made of: chunks to keep and records lost between them, steps, bytes set aside."""

    items: list[Chunk | Lost] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    rejected: list[bytes] = field(default_factory=list)


def salvage(lines: Sequence[journal.Line]) -> Salvaged:
    """Take a timeline apart. Pure."""
    blanks = [line for line in lines if journal.is_blank(line.data)]
    found = Salvaged()
    scanned = list(scan(lines))
    whole = {record for item in scanned for record in _whole_records(item)}
    for item in scanned:
        first = item.line.number if isinstance(item, Readable) else item.lines[0].number
        while blanks and blanks[0].number < first:
            found.items.append(_blank(blanks.pop(0)))
        if isinstance(item, Readable):
            _readable(found, item)
        else:
            _block(found, item, whole)
    found.items.extend(_blank(line) for line in blanks)
    _drop_repeats(found)
    return found


def likely_type(piece: Piece) -> str | None:
    """The type that a damaged record had, by its type or else by the fields that can still be read."""
    name = legible(piece, "type")
    name = DOTTED.get(name, name) if name is not None else None
    names = [kind for kind, _ in _TYPES_BY_FIELD]
    if name in names:
        return name
    found = [kind for kind, fields in _TYPES_BY_FIELD if re.search(fields + rb"[ \t]*:", piece.data)]
    return found[0] if len(found) == 1 else None


def _whole_records(item: Readable | Block) -> Iterable[Record]:
    if isinstance(item, Readable):
        return (item.parsed.record,)
    return (piece.parsed.record for piece in item.pieces if piece.parsed is not None)


def _blank(line: journal.Line) -> Chunk:
    return Chunk(line.data + (b"\n" if line.terminated else b""), None, line.number)


def _readable(found: Salvaged, item: Readable) -> None:
    line, data, kind = item.line, item.line.data, type_name(item.parsed.record)
    if data.endswith(b"\r"):
        data = data.rstrip(b"\r")
        found.steps.append(
            Step("trim", "the carriage return at its end is removed", line.number, line.offset, kind)
        )
    if not line.terminated:
        found.steps.append(Step("close", "its line feed is added", line.number, line.offset, kind))
    _keep(found, data, item.parsed, line.number, line.offset)


def _keep(found: Salvaged, data: bytes, parsed: Parsed, line: int, offset: int) -> None:
    """Keep a record, its type spelled as the agent reads it."""
    kind = type_name(parsed.record)
    if parsed.dialect == "dotted":
        data = objects.replaced(data, ("type",), kind)
        message = "its type is spelled as the agent reads it"
        found.steps.append(Step("translate", message, line, offset, kind))
    for wrong, right in spelling.damaged_keys(parsed):
        found.rejected.append(data)
        data = spelling.with_key(data, wrong, right)
        message = _MENDED.format(right)
        found.steps.append(Step("correct", message, line, offset, kind))
    found.items.append(Chunk(data + b"\n", parse(data).record if parsed.unlisted else parsed.record, line))


def _block(found: Salvaged, block: Block, whole: set[Record]) -> None:
    for index, piece in enumerate(block.pieces):
        following = block.pieces[index + 1] if index + 1 < len(block.pieces) else None
        if piece.parsed is not None:
            found.steps.extend(_how_kept(block, piece))
            _keep(found, piece.data.strip(journal.BLANK), piece.parsed, piece.line, piece.offset)
            continue
        mended = closed(piece)
        parsed = parse(mended) if mended is not None else None
        if mended is not None and parsed is not None and parsed.record not in whole:
            message = "only its last brace was missing; it is added"
            found.steps.append(_step("close", message, piece, type_name(parsed.record)))
            _keep(found, mended, parsed, piece.line, piece.offset)
            continue
        spelled = spelling.mended(piece.data) if piece.kind == "object" else None
        if spelled is not None:
            found.rejected.append(piece.data)
            parsed = parse(spelled[0])
            message = _MENDED.format(spelled[1])
            found.steps.append(_step("correct", message, piece, type_name(parsed.record)))
            _keep(found, spelled[0], parsed, piece.line, piece.offset)
            continue
        _set_aside(found, piece, following, ended=block.lines[-1].terminated)


def _how_kept(block: Block, piece: Piece) -> Iterable[Step]:
    if piece.parsed is None:
        return
    kind = type_name(piece.parsed.record)
    neighbours = [other for other in block.on_line(piece.line) if other is not piece]
    if len(piece.spans) > 1:
        yield _step("join", f"its {len(piece.spans)} parts are put on one line", piece, kind)
    elif any(other.kind not in _NOISE for other in neighbours):
        yield _step("split", "it gets a line of its own", piece, kind)
    elif neighbours:
        yield _step("trim", "what is beside it on its line is removed", piece, kind)


def _set_aside(found: Salvaged, piece: Piece, following: Piece | None, *, ended: bool) -> None:
    glued = following is not None and following.kind == "record" and following.offset == piece.end
    torn = glued and piece.kind == "fragment" and objects.START.match(piece.data) is not None
    found.rejected.append(piece.data)
    found.steps.append(_step("aside", _why_aside(piece, torn), piece, likely_type(piece)))
    if piece.kind == "fragment" or (piece.kind == "object" and likely_type(piece) is not None):
        found.items.append(Lost(piece, torn, whole=piece.kind == "object" or (ended and _is_closed(piece))))


def _is_closed(piece: Piece) -> bool:
    return piece.data.rstrip().endswith(b"}")


def _why_aside(piece: Piece, torn: bool) -> str:
    size = f"{len(piece.data):,} {'byte' if len(piece.data) == 1 else 'bytes'}"
    match piece.kind:
        case "nul":
            return f"{size} of NUL"
        case "bom":
            return "a byte-order mark"
        case "blank" | "text":
            return f"{size} that are not part of a record"
        case "fragment" if torn:
            return f"half a record ({size}); another begins right after it"
        case "fragment":
            return f"part of a record ({size}) that could not be put together again"
        case _:
            reason = piece.fault.message if piece.fault is not None else "not a record"
            return f"the agent cannot read it: {reason}"


def _drop_repeats(found: Salvaged) -> None:
    """Set aside what was written twice: a checkpoint anywhere, any other record right after itself.

    A second checkpoint of a known id is set aside too, and with it the end of its turn.
    """
    seen = _Seen()
    items: list[Chunk | Lost] = []
    for item in found.items:
        record = item.record if isinstance(item, Chunk) else None
        message = seen.objection(record) if record is not None else None
        if isinstance(item, Chunk) and record is not None and message is not None:
            found.rejected.append(item.data.removesuffix(b"\n"))
            found.steps.append(Step("aside", message, item.line, None, type_name(record)))
        else:
            items.append(item)
    found.items = items


@dataclass
class _Seen:
    """The records that were kept so far, as far as they may be repeated."""

    previous: Record | None = None
    created: dict[str, Record] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    second: str | None = None

    def _is_created(self, record: Record) -> bool:
        return isinstance(record, CheckpointCreated) and self.created.get(record.id) == record

    def objection(self, record: Record) -> str | None:
        """Why the next record is to be left out; None when it is kept."""
        if record == self.previous or self._is_created(record):
            return "the same record was already written before"
        match record:
            case CheckpointCreated():
                self.second = record.id if record.id in self.created else None
                if self.second is not None:
                    return f"another checkpoint {record.id} was created before, and that one stays as it is"
                self.created[record.id] = record
            case TurnCompleted() if record.checkpoint_id == self.second and self.second in self.ended:
                return f"it ends the second {self.second}; the turn of the first had ended before"
            case TurnCompleted():
                self.ended.add(record.checkpoint_id)
            case _:
                pass
        self.previous = record
        return None


def _step(action: str, message: str, piece: Piece, kind: str | None) -> Step:
    return Step(action, message, piece.line, piece.offset, kind)  # type: ignore[arg-type]
