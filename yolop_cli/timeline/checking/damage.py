"""What any bytes at all are made of: whole records, and damage of a kind that can be named.

A line that is exactly one readable record is passed on as such. All else is gathered into blocks of
damaged lines, and each block is cut into pieces: every byte of it belongs to exactly one piece or is
ASCII white space. Records are found wherever they lie: glued to half of another one, several on a line,
spread over lines, behind a run of NUL bytes, with another writer's record in their middle.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from yolop_cli.ground import journal
from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.timeline.checking import objects, rejoin
from yolop_cli.timeline.checking.pieces import Piece, PieceKind, agrees
from yolop_cli.timeline.records import Parsed, parse

_BOM = b"\xef\xbb\xbf"
_NUL = re.compile(rb"\0+")
_RECORD_START = re.compile(rb'\{[ \t]*"type"[ \t]*:')
_VALUE_POSITION = re.compile(rb"[:,\[][ \t\r\f]*\Z")
_VALUE_END = re.compile(rb"[ \t\r\f]*[,}\]]")
_TAIL = re.compile(rb"[\"\]}\d][ \t\r\f]*\}[ \t\r\f]*\Z|(?:true|false|null)[ \t\r\f]*\}[ \t\r\f]*\Z")
_FIELD = re.compile(rb'"[a-z_]+"[ \t]*:')
# Bytes of blanks and formatting characters that are not ASCII white space, as UTF-8.
_BLANKS = re.compile(
    rb"(?:[\x0b\x1c-\x1f \t\r\f]|\xc2\x85|\xc2\xa0|\xe1\x9a\x80|\xe2\x80[\x80-\x8f\xa8\xa9\xaf]"
    rb"|\xe2\x81[\x9f\xa0]|\xe3\x80\x80)+\Z"
)
_MAX_INTERLEAVED = 4
_MOST_SCRAPS = 8


@dataclass(frozen=True, slots=True)
class Readable:
    """A line that is exactly one record."""

    line: journal.Line
    parsed: Parsed


@dataclass(frozen=True)
class Block:
    """Consecutive damaged lines (blank ones aside) and the pieces they are made of, in file order."""

    lines: tuple[journal.Line, ...]
    pieces: tuple[Piece, ...]

    def on_line(self, number: int) -> list[Piece]:
        """The pieces that begin on a line."""
        return [piece for piece in self.pieces if piece.line == number]


def scan(lines: Iterable[journal.Line]) -> Iterator[Readable | Block]:
    """The lines of a journal as readable lines and damaged blocks; blank lines are passed over."""
    damaged: list[journal.Line] = []
    for line in lines:
        if journal.is_blank(line.data):
            continue
        try:
            parsed = parse(line.data)
        except NotJsonError:
            damaged.append(line)
            continue
        if damaged:
            yield block(damaged)
            damaged = []
        yield Readable(line, parsed)
    if damaged:
        yield block(damaged)


def block(lines: Iterable[journal.Line]) -> Block:
    """Cut damaged lines into pieces."""
    kept = tuple(lines)
    text = _Text(kept)
    return Block(kept, tuple(rejoin.rejoined(_rejoined(list(_without_scraps(_pieces(text)))))))


def closed(piece: Piece) -> bytes | None:
    """A fragment with its missing final brace, when that alone makes it a record again; else None.

    A fragment that ends in a digit is left alone: more digits may have followed.
    """
    if piece.kind != "fragment" or not piece.data.rstrip().endswith((b'"', b"}", b"true", b"false", b"null")):
        return None
    whole = piece.data.rstrip() + b"}"
    return whole if _record(whole) else None


def legible(piece: Piece, name: str) -> str | None:
    """The text of a string field of a damaged record, when it can still be read."""
    match = re.search(rb'"' + name.encode() + rb'"[ \t]*:[ \t]*("(?:[^"\\\x00-\x1f]|\\.)*")', piece.data)
    if match is None:
        return None
    try:
        value = json.loads(match.group(1))
        value.encode("utf-8")
    except ValueError:
        return None
    return str(value)


class _Text:
    """Damaged lines as one text without line breaks, and the way back to offsets in the file."""

    def __init__(self, lines: tuple[journal.Line, ...]):
        self.starts: list[int] = []
        self.origins: list[int] = []
        self.numbers: list[int] = []
        parts: list[bytes] = []
        length = 0
        for line in lines:
            data = line.data.removesuffix(b"\r") if line.terminated else line.data
            self.starts.append(length)
            self.origins.append(line.offset)
            self.numbers.append(line.number)
            parts.append(data)
            length += len(data)
        self.data = b"".join(parts)

    def piece(self, kind: PieceKind, start: int, end: int) -> Piece:
        """The piece between two positions of the text."""
        first = self._index(start)
        spans: list[tuple[int, int]] = []
        index, position = first, start
        while position < end:
            stop = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.data)
            stop = min(stop, end)
            shift = self.origins[index] - self.starts[index]
            if position < stop:
                spans.append((position + shift, stop + shift))
            position, index = stop, index + 1
        return Piece(kind, self.data[start:end], tuple(spans), self.numbers[first])

    def _index(self, position: int) -> int:
        return bisect_right(self.starts, position) - 1

    def breaks(self, start: int, end: int) -> list[int]:
        """The positions between two others at which a line of the file begins."""
        return self.starts[bisect_right(self.starts, start) : bisect_left(self.starts, end)]


def _pieces(text: _Text) -> list[Piece]:
    pieces: list[Piece] = []
    done = 0
    for start, end in objects.find(text.data):
        piece = _object(text.piece("object", start, end))
        if _is_nested(text.data, done, start, piece) or not _fits(piece):
            continue
        pieces.extend(_damage(text, done, start))
        pieces.append(piece)
        done = end
    pieces.extend(_damage(text, done, len(text.data)))
    return pieces


def _is_nested(data: bytes, floor: int, start: int, piece: Piece) -> bool:
    """Whether an object is the value of a field of a record that itself cannot be read.

    A whole record is not, unless an outer one has begun before it and goes on after it: commas alone are what
    a list of records has between them.
    """
    if _VALUE_POSITION.search(data, max(floor, start - 64), start) is None:
        return False
    if piece.kind != "record":
        return True
    goes_on = _VALUE_END.match(data, start + len(piece.data)) is not None
    return goes_on and objects.START.search(data, floor, start) is not None


def _object(piece: Piece) -> Piece:
    try:
        parsed = parse(piece.data)
    except NotJsonError as error:
        return Piece("object", piece.data, piece.spans, piece.line, fault=error.fault)
    return Piece("record", piece.data, piece.spans, piece.line, parsed=parsed)


def _damage(text: _Text, start: int, end: int) -> Iterator[Piece]:
    """The pieces between two objects: cut at line breaks, NUL runs, marks, and where a record begins."""
    cuts = {start, end, *text.breaks(start, end)}
    for match in _NUL.finditer(text.data, start, end):
        cuts.update(match.span())
    for match in re.finditer(_BOM, text.data[start:end]):
        cuts.update((start + match.start(), start + match.end()))
    for match in _RECORD_START.finditer(text.data, start, end):
        cuts.add(match.start())
    ordered = sorted(cuts)
    for low, high in pairwise(ordered):
        if not journal.is_blank(text.data[low:high]):
            yield _classified(text.piece("text", low, high))


def _classified(piece: Piece) -> Piece:
    data = piece.data
    fault = None
    kind: PieceKind = "text"
    if not data.strip(b"\0"):
        kind = "nul"
    elif data == _BOM:
        kind = "bom"
    elif _BLANKS.match(data):
        kind = "blank"
    else:
        if (
            objects.START.match(data)
            or data.strip() in (b"{", b"}")
            or _FIELD.search(data)
            or _TAIL.search(data)
        ):
            kind = "fragment"
        try:
            parse(data)
        except NotJsonError as error:
            fault = error.fault
    return Piece(kind, data, piece.spans, piece.line, fault=fault)


def _without_scraps(pieces: list[Piece]) -> Iterator[Piece]:
    """One piece for a line's worth of scraps, as of a binary file, instead of thousands."""
    for (_, broken), group in groupby(
        pieces, lambda piece: (piece.line, piece.kind not in ("record", "object"))
    ):
        scraps = list(group)
        if not broken or len(scraps) <= _MOST_SCRAPS:
            yield from scraps
            continue
        spans = tuple(span for piece in scraps for span in piece.spans)
        data = b"".join(piece.data for piece in scraps)
        fault = next((piece.fault for piece in scraps if piece.fault and piece.fault.code == "utf8"), None)
        yield Piece("text", data, _merged(spans), scraps[0].line, fault=fault)


def _merged(spans: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    merged = [spans[0]]
    for start, end in spans[1:]:
        if start == merged[-1][1]:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def _rejoined(pieces: list[Piece]) -> list[Piece]:
    """Put together a record in whose middle other whole records stand."""
    result = list(pieces)
    index = 0
    while index < len(result):
        head = result[index]
        if head.kind == "fragment" and objects.START.match(head.data):
            found = _remainder(result, index)
            if found is not None:
                position, whole = found
                result[index] = whole
                del result[position]
        index += 1
    return result


def _remainder(pieces: list[Piece], index: int) -> tuple[int, Piece] | None:
    head = pieces[index]
    for position in range(index + 1, min(index + 2 + _MAX_INTERLEAVED, len(pieces))):
        tail = pieces[position]
        if tail.kind == "record":
            continue
        if tail.kind != "fragment" or objects.START.match(tail.data):
            return None
        whole = _object(Piece("object", head.data + tail.data, head.spans + tail.spans, head.line))
        return (position, whole) if whole.kind == "record" and _fits(whole) else None
    return None


def _record(data: bytes) -> Parsed | None:
    try:
        return parse(data)
    except NotJsonError:
        return None


def _fits(piece: Piece) -> bool:
    return len(piece.spans) == 1 or piece.parsed is None or agrees(piece.parsed.record)
