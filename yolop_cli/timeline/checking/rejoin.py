"""Records torn apart by what was written into their middle, put together again.

Three shapes are known beside the record with a whole one inside it: the halves of two records in turn, as two
writers leave them, and a record with another program's words, or whole lines of it, in it. A record is
believed only when the bytes can be divided in a single way.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import orjson

from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.timeline.checking import objects
from yolop_cli.timeline.checking.pieces import Piece, agrees
from yolop_cli.timeline.records import LISTED, Record, parse, type_name

_RECORD_START = re.compile(rb'\{[ \t]*"type"[ \t]*:')
_RUN = re.compile(rb'[^"\x00]{4,}')
_WORD = re.compile(rb"[A-Za-z]{3}")
_LONGEST = 4096
_LONGEST_INSET = 200
_MOST_PIECES = 5

Cut = tuple[tuple[int, int], ...]


def rejoined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces of a block, those that are parts of records put together where that is certain."""
    result: list[Piece] = []
    index = 0
    while index < len(pieces):
        for count in range(1, _MOST_PIECES + 1):
            parts = pieces[index : index + count]
            made = _joined(parts, count) or _around_lines(parts, count)
            if made:
                result.extend(made)
                index += count
                break
        else:
            result.append(pieces[index])
            index += 1
    return result


def _joined(parts: Sequence[Piece], count: int) -> list[Piece]:
    if len(parts) < count or any(part.kind in ("record", "nul", "bom") for part in parts):
        return []
    data = b"".join(part.data for part in parts)
    if len(data) > _LONGEST or objects.START.match(data) is None or not data.rstrip().endswith(b"}"):
        return []
    starts = [match.start() for match in _RECORD_START.finditer(data)]
    if len(starts) == 2:
        return [_piece(parts, data, cut) for cut in _in_turn(data, starts[1])]
    cut = _around_inset(data) if len(starts) == 1 else None
    if cut is None:
        return []
    (_, start), (stop, _) = cut
    inset = _spans(parts, ((start, stop),))
    return [
        _piece(parts, data, cut),
        Piece("text", data[start:stop], inset, _line(parts, inset)),
    ]


def _around_lines(parts: Sequence[Piece], count: int) -> list[Piece]:
    """A record with whole lines of another program in it: a string may go on behind them."""
    if count < 3 or len(parts) < count or any(part.kind in ("record", "nul", "bom") for part in parts):
        return []
    first, *between, last = parts
    lines = [part.line for part in (first, *between, last)]
    if lines != sorted(lines) or first.line in lines[1:] or last.line in lines[:-1]:
        return []
    data = first.data + last.data
    if objects.START.match(data) is None or _complete(data) is None:
        return []
    cut = ((0, len(first.data)), (len(first.data), len(data)))
    return [_piece((first, last), data, cut), *between]


def _in_turn(data: bytes, second: int) -> tuple[Cut, ...]:
    """Two records whose halves stand in turn: where the halves of each are. Empty when it is not certain."""
    found: dict[tuple[Record, Record], tuple[Cut, ...]] = {}
    end = len(data)
    for stop in (match.end() for match in re.finditer(rb"\}", data[second:])):
        stop += second
        if stop == end:
            continue
        for turn in range(second + 1, stop):
            cuts: tuple[Cut, ...] = (((0, second), (turn, stop)), ((second, turn), (stop, end)))
            first, other = (_complete(_taken(data, cut)) for cut in cuts)
            if first is not None and other is not None:
                found.setdefault((first, other), cuts)
                if len(found) > 1:
                    return ()
    return next(iter(found.values()), ())


def _around_inset(data: bytes) -> Cut | None:
    """The two parts of a record around another program's words; None when it is not certain."""
    found: dict[Record, Cut] = {}
    for start, stop in sorted(_insets(data), key=lambda inset: inset[1] - inset[0]):
        cut = ((0, start), (stop, len(data)))
        whole = _complete(_taken(data, cut))
        if whole is not None:
            found.setdefault(whole, cut)
            if len(found) > 1:
                return None
    return next(iter(found.values()), None)


def _insets(data: bytes) -> Iterator[tuple[int, int]]:
    """Runs of words outside all strings: inside one, nothing tells them from what was written there."""
    for run in _RUN.finditer(data):
        low, high = run.span()
        if (data.count(b'"', 0, low) - data.count(b'\\"', 0, low)) % 2:
            continue
        for start in range(max(low, 1), high):
            for stop in range(start + 4, min(high, start + _LONGEST_INSET) + 1):
                if stop < len(data) and _WORD.search(data, start, stop):
                    yield start, stop


def _taken(data: bytes, cut: Cut) -> bytes:
    return b"".join(data[start:stop] for start, stop in cut)


def _complete(data: bytes) -> Record | None:
    """A record that has every field that a writer writes; None for anything else."""
    try:
        value = orjson.loads(data)  # Refuses most of them much sooner.
        parsed = parse(data)
    except (orjson.JSONDecodeError, NotJsonError):
        return None
    whole = all(name in value for name in LISTED[type_name(parsed.record)])
    return parsed.record if whole and agrees(parsed.record) else None


def _piece(parts: Sequence[Piece], data: bytes, cut: Cut) -> Piece:
    whole, spans = _taken(data, cut), _spans(parts, cut)
    return Piece("record", whole, spans, _line(parts, spans), parsed=parse(whole))


def _spans(parts: Sequence[Piece], cut: Cut) -> Cut:
    """Places in the bytes of some pieces as places in the file."""
    spans = [span for part in parts for span in part.spans]
    ends = list(accumulate(stop - start for start, stop in spans))
    places: list[tuple[int, int]] = []
    for start, stop in cut:
        at = start
        while at < stop:
            index = bisect_right(ends, at)
            shift, until = spans[index][1] - ends[index], min(stop, ends[index])
            places.append((at + shift, until + shift))
            at = until
    return tuple(places)


def _line(parts: Sequence[Piece], spans: Cut) -> int:
    return next(part.line for part in reversed(parts) if part.offset <= spans[0][0])
