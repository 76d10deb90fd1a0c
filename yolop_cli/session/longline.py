"""Lines of any length in bounded memory.

A short line is given whole. Of a long one only the scalar members of its outermost object are kept, and
of those only short ones: enough to know an event's type, session and sequence. The scan checks the
structure (strings, escapes, nesting) but not every token; a line that does not close is not an object.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

_CHUNK = 1 << 18
_MEMBER_LIMIT = 4096
_SPACE = b" \t\r"
_STRUCTURE = re.compile(rb'["{}\[\],:]')
_STRING_END = re.compile(rb'["\\]')


@dataclass(frozen=True)
class Whole:
    """A line held in full, without its line feed.

    ``number`` counts from 1 at the position the reading began, ``offset`` is where it begins in the file.
    """

    number: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class Long:
    """A line too long to hold: the short scalar members of its object, or None when it is not one."""

    number: int
    offset: int
    length: int
    members: dict[str, Any] | None


def lines(file: BinaryIO, limit: int, span: int | None = None) -> Iterator[Whole | Long]:
    """The lines from the file's position on (``span`` bytes of them), blank ones left out."""
    offset, end = file.tell(), None if span is None else file.tell() + span
    number = 0
    while end is None or offset < end:
        data = file.readline(limit + 1)
        if not data:
            return
        start = offset
        number += 1
        offset += len(data)
        if data.endswith(b"\n") or len(data) <= limit:
            line = data.removesuffix(b"\n")
            if line.strip(b" \t\r\f"):
                yield Whole(number, start, line)
            continue
        scan = _Scan()
        while True:
            scan.feed(data.removesuffix(b"\n"))
            if data.endswith(b"\n"):
                break
            data = file.readline(_CHUNK)
            if not data:
                break
            offset += len(data)
        yield Long(number, start, offset - start, scan.result())


class _Scan:
    """A state machine over the bytes of one JSON object that keeps its short scalar members."""

    def __init__(self) -> None:
        self.members: dict[str, Any] = {}
        self.stack = bytearray()
        self.in_string = self.escaped = self.broken = self.closed = False
        self.key: str | None = None
        self.kept = bytearray()  # what stands since the last structural byte, at depth 1
        self.overlong = False

    def feed(self, data: bytes) -> None:
        position = 0
        while position < len(data) and not self.broken:
            position = self._string(data, position) if self.in_string else self._outside(data, position)

    def result(self) -> dict[str, Any] | None:
        return self.members if self.closed and not self.broken else None

    def _string(self, data: bytes, position: int) -> int:
        if self.escaped:
            self.escaped = False
            self._keep(data[position : position + 1])
            return position + 1
        match = _STRING_END.search(data, position)
        end = match.end() if match else len(data)
        self._keep(data[position:end])
        if match:
            self.escaped = match.group() == b"\\"
            self.in_string = self.escaped
        return end

    def _outside(self, data: bytes, position: int) -> int:
        match = _STRUCTURE.search(data, position)
        if match is None:
            self._keep(data[position:])
            return len(data)
        self._keep(data[position : match.start()])
        self._structure(match.group())
        return match.end()

    def _structure(self, byte: bytes) -> None:
        if byte == b'"':
            self.in_string = True
            self._keep(byte)
        elif byte in b"{[":
            self._open(byte)
        elif byte in b"}]":
            self._close(byte)
        elif not self.stack:
            self.broken = True
        elif len(self.stack) == 1:
            if byte == b":":
                key = self._scalar()
                self.key = key if isinstance(key, str) else None
            else:
                self._member()
            self._forget()

    def _open(self, byte: bytes) -> None:
        if not self.stack and (self.closed or byte != b"{"):
            self.broken = True
        if len(self.stack) == 1:
            self.overlong = True  # the member is a container, not a scalar
        self.stack += byte

    def _close(self, byte: bytes) -> None:
        if not self.stack or bytes(self.stack[-1:]) + byte not in (b"{}", b"[]"):
            self.broken = True
            return
        if len(self.stack) == 1:
            self._member()
            self._forget()
            self.closed = True
        del self.stack[-1:]

    def _member(self) -> None:
        if self.key is not None:
            self.members.pop(self.key, None)  # the last of a name counts, also when it is not kept
            value = self._scalar()
            if value is not None:
                self.members[self.key] = value
        self.key = None

    def _scalar(self) -> Any:
        if self.overlong:
            return None
        try:
            return orjson.loads(bytes(self.kept))
        except orjson.JSONDecodeError:
            return None

    def _forget(self) -> None:
        self.kept.clear()
        self.overlong = False

    def _keep(self, data: bytes) -> None:
        if len(self.stack) > 1:
            return
        if not self.stack:
            self.broken = self.broken or bool(data.strip(_SPACE))
            return
        if len(self.kept) + len(data) > _MEMBER_LIMIT:
            self.overlong = True
            self.kept.clear()
        if not self.overlong:
            self.kept += data
