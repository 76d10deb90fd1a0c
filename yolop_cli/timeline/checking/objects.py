"""Where whole JSON objects lie in bytes that are not one JSON document, in one pass over them.

Structure only: tokens must be JSON's (NaN and Infinity too, so that they can be named), bytes above ASCII
are taken as they come. Whether an object is a record is for ``records.parse`` to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from yolop_cli.ground.strict_json import MAX_DEPTH

START = re.compile(rb'\{[ \t\r]*"')
_TOKEN = re.compile(
    rb'[ \t\r]*+(?:(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*+")|(?P<structure>[{}\[\]:,])'
    rb"|(?P<scalar>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|NaN|-?Infinity))"
)
# A whole object is allowed to be deeper than the agent reads, so that this can be said of it.
_DEEPEST = 4 * MAX_DEPTH


def find(data: bytes) -> Iterator[tuple[int, int]]:
    """The outermost whole objects, as start and end, in order.

    Objects that are values of an unfinished object are among them: the caller tells them from records
    that were glued to it. An object that begins inside a string of an unfinished one is found as well,
    since that is how a record looks that was written behind half of another.
    """
    position = 0
    while match := START.search(data, position):
        run = _Run(data, match.start())
        yield from run.whole
        position = run.resume


@dataclass(frozen=True)
class Member:
    """A member of an object: the keys that lead to it, where its key stands, and its value if a scalar."""

    path: tuple[str, ...]
    key: tuple[int, int]
    value: tuple[int, int] | None


def members(data: bytes) -> Iterator[Member]:
    """The members of a whole object and of the objects in it (those in lists aside)."""
    above: list[str | None] = []
    key: tuple[int, int] | None = None
    position = 0
    while match := _TOKEN.match(data, position):
        position = match.end()
        structure = match["structure"]
        if structure in (b"{", b"[") or structure is None:
            span = match.span(match.lastgroup or 0)
            if key is None and structure is None and _is_key(data, position):
                key = span
                continue
            name = None if key is None else data[key[0] + 1 : key[1] - 1].decode("utf-8", "backslashreplace")
            if key is not None and name is not None and None not in above[1:]:
                path = tuple(one for one in (*above[1:], name) if one is not None)
                yield Member(path, key, span if structure is None else None)
            if structure is not None:
                above.append(name if structure == b"{" else None)
            key = None
        elif structure in (b"}", b"]") and above:
            above.pop()


def replaced(data: bytes, path: tuple[str, ...], value: object) -> bytes:
    """The object with one scalar member's value replaced; all other bytes stay."""
    span = next((one.value for one in members(data) if one.path == path), None)
    if span is None:
        return data
    return data[: span[0]] + json.dumps(value, ensure_ascii=False).encode() + data[span[1] :]


def _is_key(data: bytes, position: int) -> bool:
    match = _TOKEN.match(data, position)
    return match is not None and match["structure"] == b":"


class _Run:
    """One walk from an opening brace to its end, or to the first token that cannot stand where it is."""

    def __init__(self, data: bytes, start: int):
        self.whole: list[tuple[int, int]] = []
        self.last_string = start
        self.open: list[int] = []
        self.kinds = bytearray()
        self.expect = "value"
        position = start
        while (end := self._step(data, position)) is not None:
            position = end
            if not self.open:
                break
        ends = [end for _, end in self.whole]
        self.resume = max([start + 1, *ends, self.last_string + 1 if self.open else position])

    def _step(self, data: bytes, position: int) -> int | None:
        """Take one token; its end, or None when it cannot stand here."""
        match = _TOKEN.match(data, position)
        if match is None:
            return None
        kind = match.lastgroup
        if kind == "structure":
            return match.end() if self._structure(match["structure"], match.end()) else None
        if kind == "string":
            self.last_string = match.start("string")
            if self.expect in ("key", "key or end"):
                self.expect = "colon"
                return match.end()
        if self.expect not in ("value", "value or end"):
            return None
        self.expect = "comma or end"
        return match.end()

    def _structure(self, byte: bytes, end: int) -> bool:
        if byte in b"{[":
            if self.expect not in ("value", "value or end") or len(self.open) >= _DEEPEST:
                return False
            self.open.append(end - 1)
            self.kinds += byte
            self.expect = "key or end" if byte == b"{" else "value or end"
            return True
        if byte in b"}]":
            return self._close(byte, end)
        if byte == b":":
            fits, self.expect = self.expect == "colon", "value"
            return fits
        fits = self.expect == "comma or end"
        self.expect = "key" if self.kinds[-1:] == b"{" else "value"
        return fits

    def _close(self, byte: bytes, end: int) -> bool:
        if self.expect not in ("comma or end", "key or end" if byte == b"}" else "value or end"):
            return False
        if bytes(self.kinds[-1:]) + byte not in (b"{}", b"[]"):
            return False
        start = self.open.pop()
        del self.kinds[-1:]
        while self.whole and self.whole[-1][0] > start:
            self.whole.pop()
        if byte == b"}":
            self.whole.append((start, end))
        self.expect = "comma or end"
        return True
