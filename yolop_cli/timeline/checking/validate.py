"""The first two passes of ``timeline validate``: bytes and JSON, then the form of each record.

Pure on what ``scan`` gives, and a thin reader around it. Nothing is written and no lock is taken.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from yolop_cli.ground import files, journal, schemas, strict_json
from yolop_cli.ground.errors import NotFoundError, StorageError
from yolop_cli.ground.strict_json import JsonFault, NotJsonError
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline.checking import spelling
from yolop_cli.timeline.checking.damage import Block, Readable, closed, legible, scan
from yolop_cli.timeline.checking.pieces import Piece
from yolop_cli.timeline.file import Entry
from yolop_cli.timeline.findings import Finding, Report, Status, unreadable
from yolop_cli.timeline.records import Parsed, type_name

_CODES = {
    "utf8": "invalid-utf8",
    "bom": "byte-order-mark",
    "nan": "not-a-number",
    "number": "number-range",
    "surrogate": "lone-surrogate",
    "depth": "too-deep",
    "repeated": "repeated-key",
    "type": "unknown-type",
    "missing": "missing-field",
    "integer": "bad-integer",
    "timestamp": "bad-timestamp",
    "schema": "wrong-type",
    "syntax": "not-json",
    "trailing": "trailing-garbage",
}
_OF_THE_FORM = frozenset({"missing", "integer", "timestamp", "schema"})
_MOST_FAULTS = 3
_REPAIR = "yolop-cli timeline repair"
_ASIDE = "sets the damaged bytes aside"


@dataclass(frozen=True)
class Checked:
    """What the two passes say of one file. ``records`` counts every whole record, wherever it lies."""

    status: Status
    records: int
    findings: tuple[Finding, ...]


def check(scanned: Iterable[Readable | Block], keep: list[Entry] | None = None) -> Checked:
    """Passes 1 and 2 over what ``scan`` found. Pure; holds one line or block at a time.

    ``keep`` is given the records before the first damage, with their places but without their bytes.
    """
    state = _State()
    for item in scanned:
        if keep is not None and isinstance(item, Readable) and state.first_damage is None:
            keep.append(Entry(replace(item.line, data=b""), item.parsed))
        if isinstance(item, Readable):
            state.readable(item)
        else:
            state.block(item)
    return state.result()


def check_bytes(data: bytes) -> Checked:
    """Passes 1 and 2 over the bytes of a timeline."""
    return check(scan(_lines(data)))


def check_session(session: SessionDirectory) -> Report:
    """Passes 1 and 2 over a session's timeline. A file that cannot be read is a finding, not an error."""
    path = os.fsencode(session.timeline)
    try:
        with files.reading(session.timeline) as file:
            checked = check(scan(journal.lines(file)))
    except NotFoundError:
        return Report(session.id, path, "ok", 0)
    except StorageError as error:
        return Report(session.id, path, "corrupt", 0, (unreadable(error),))
    return Report(session.id, path, checked.status, checked.records, checked.findings)


def _lines(data: bytes) -> Iterator[journal.Line]:
    return journal.lines(io.BytesIO(data))


@dataclass
class _Seen:
    """A harmless property of many lines, reported once at the first of them."""

    first: journal.Line
    count: int
    record_type: str


@dataclass
class _State:
    records: int = 0
    findings: list[Finding] = field(default_factory=list)
    # The whole records seen before each finding that should say how many follow it.
    before: list[tuple[int, int]] = field(default_factory=list)
    first_damage: journal.Line | None = None
    last: journal.Line | None = None
    last_readable: Readable | None = None
    dotted: _Seen | None = None
    crlf: _Seen | None = None

    def readable(self, item: Readable) -> None:
        line = self.last = item.line
        self.last_readable = item
        self._record(item.parsed, line, line.offset)
        if line.data.endswith(b"\r"):
            self.crlf = _counted(self.crlf, line, _name(item.parsed))

    def block(self, item: Block) -> None:
        if self.first_damage is None:
            self.first_damage = item.lines[0]
        self.last, self.last_readable = item.lines[-1], None
        self.before.append((len(self.findings), self.records))
        self.findings.extend(_damage(item))
        for line in item.lines:
            if line.data.endswith(b"\r") and any(piece.parsed for piece in item.on_line(line.number)):
                self.crlf = _counted(self.crlf, line, "")
        for piece in item.pieces:
            if piece.parsed is not None:
                self._record(piece.parsed, replace(item.lines[0], number=piece.line), piece.offset)

    def result(self) -> Checked:
        for index, records in self.before:
            finding, follow = self.findings[index], self.records - records
            words = f"; {_plural(follow, 'intact record')} after this point" if follow else ""
            self.findings[index] = replace(finding, message=finding.message + words)
        self._file_wide()
        self.findings.sort(key=lambda finding: (finding.line or 0, finding.offset or 0))
        return Checked(self._status(), self.records, tuple(self.findings))

    def _record(self, parsed: Parsed, line: journal.Line, offset: int) -> None:
        self.records += 1
        if parsed.dialect == "dotted":
            self.dotted = _counted(self.dotted, line, _name(parsed))
        if not parsed.unlisted:
            return
        damaged = dict(spelling.damaged_keys(parsed))
        for wrong, right in damaged.items():
            message = f"the field {right!r} is missing and there is one named {wrong!r}"
            fix = f"{_REPAIR} corrects the name"
            self.findings.append(Finding("damaged-key", message, line.number, offset, _name(parsed), fix))
        unknown = [name for name in parsed.unlisted if name not in damaged]
        if unknown:
            names = ", ".join(repr(name[:40]) for name in unknown[:_MOST_FAULTS])
            message = f"the agent ignores what it does not know: {names}"
            self.findings.append(Finding("unknown-field", message, line.number, offset, _name(parsed)))

    def _file_wide(self) -> None:
        if self.dotted is not None:
            self._once(
                "dotted-type",
                self.dotted,
                "the agent cannot read types spelled with a dot",
                f"{_REPAIR} translates them",
            )
        if self.crlf is not None:
            self._once("crlf", self.crlf, "a carriage return before the line feed", f"{_REPAIR} removes them")
        if self.last_readable is not None and not self.last_readable.line.terminated:
            line, parsed = self.last_readable.line, self.last_readable.parsed
            message = "the last record is whole, but its line feed is missing"
            fix = "the next command that writes adds it, and so does yolop-cli doctor --fix"
            end = line.offset + len(line.data)
            self.findings.append(Finding("no-final-newline", message, line.number, end, _name(parsed), fix))

    def _once(self, code: str, seen: _Seen, message: str, fix: str) -> None:
        words = f"{message} ({_plural(seen.count, 'line')}, this is the first)" if seen.count > 1 else message
        line = seen.first
        self.findings.append(Finding(code, words, line.number, line.offset, seen.record_type or None, fix))

    def _status(self) -> Status:
        if self.first_damage is None or self.last is None:
            return "ok"
        return "tail" if self.first_damage.number == self.last.number else "corrupt"


def _counted(seen: _Seen | None, line: journal.Line, record_type: str) -> _Seen:
    if seen is None:
        return _Seen(line, 1, record_type)
    seen.count += 1
    return seen


def _damage(block: Block) -> Iterator[Finding]:
    """The findings of one damaged block, in file order."""
    previous: Piece | None = None
    for index, piece in enumerate(block.pieces):
        following = block.pieces[index + 1] if index + 1 < len(block.pieces) else None
        before = previous if previous is not None and previous.line == piece.line else None
        after = following if following is not None and following.line == piece.line else None
        if piece.kind == "record":
            yield from _whole(block, piece, before)
        else:
            yield _broken(piece, before, after)
        previous = piece


def _whole(block: Block, piece: Piece, before: Piece | None) -> Iterator[Finding]:
    kind = _kind(piece)
    if len(piece.spans) > 1:
        inside = [other for other in block.pieces if piece.offset < other.offset < piece.end]
        code = "interleaved-record" if inside else "split-record"
        other = "another writer's record" if any(one.parsed for one in inside) else "something else"
        message = (
            f"{other} in the middle of this one"
            if inside
            else f"one record is spread over {_plural(len(piece.spans), 'line')}"
        )
        yield _finding(code, message, piece, kind, "joins its parts")
    elif before is not None and before.kind == "record":
        message = "another whole record comes before this one on the same line"
        yield _finding("several-records", message, piece, kind, "gives each its own line")


def _broken(piece: Piece, before: Piece | None, after: Piece | None) -> Finding:
    size = _plural(piece.end - piece.offset, "byte")
    match piece.kind:
        case "nul":
            count = _plural(len(piece.data), "NUL byte")
            return _finding("nul-bytes", count, piece, None, "removes them and keeps what follows")
        case "bom":
            return _finding("byte-order-mark", "a byte-order mark", piece, None, "removes it")
        case "blank":
            message = f"blanks that are not ASCII white space, {size}"
            return _finding("foreign-blank", message, piece, None, _ASIDE)
        case "object":
            return _refused(piece)
        case "fragment":
            return _fragment(piece, size, before, after)
        case _:
            return _text(piece, size, before)


def _fragment(piece: Piece, size: str, before: Piece | None, after: Piece | None) -> Finding:
    kind, data = _kind(piece), piece.data.strip()
    named = f" of a record ({kind})" if kind else " of a record"
    fix = _ASIDE if closed(piece) is None else "adds the brace that is missing"
    fault = piece.fault
    if fault is not None and fault.code == "utf8":
        return _finding("invalid-utf8", fault.message, piece, kind, _ASIDE)
    if fault is not None and data.startswith(b"{") and data.endswith(b"}") and fault.offset < len(data):
        return _finding("not-json", fault.message, piece, kind, _ASIDE)
    if after is not None and after.kind == "record" and data.startswith(b"{"):
        message = f"the beginning{named}, {size}, and right after it a whole record"
        return _finding("glued-record", message, piece, kind, f"splits the line and {fix}")
    if before is not None and before.kind == "record" and not data.startswith(b"{"):
        return _finding(
            "trailing-garbage", f"more after a whole record on its line, {size}", piece, kind, _ASIDE
        )
    part = "the beginning" if data.startswith(b"{") else "the end" if data.endswith(b"}") else "a part"
    return _finding("half-record", f"{part}{named}, {size}", piece, kind, fix)


def _text(piece: Piece, size: str, before: Piece | None) -> Finding:
    fault = piece.fault
    if fault is not None and fault.code == "utf8":
        return _finding("invalid-utf8", fault.message, piece, None, _ASIDE)
    if before is not None and before.kind == "record":
        return _finding(
            "trailing-garbage", f"more after a whole record on its line, {size}", piece, None, _ASIDE
        )
    if fault is not None and fault.code not in ("syntax", "trailing", "bom"):
        return _finding("not-a-record", f"JSON, but not a record: {fault.message}", piece, None, _ASIDE)
    return _finding("foreign-text", f"not part of any record, {size}", piece, None, _ASIDE)


def _refused(piece: Piece) -> Finding:
    """The finding for a whole JSON object that the agent would not read as a record."""
    fault = piece.fault or JsonFault("schema", 0, "not a record")
    kind = _kind(piece)
    code, message = _CODES[fault.code], fault.message
    if fault.code in _OF_THE_FORM:
        if kind is None:
            code = "not-a-record"
        else:
            message = _schema_words(piece.data) or message
    return _finding(code, message, piece, kind, _ASIDE)


def _schema_words(data: bytes) -> str | None:
    """What the JSON Schema says of an object: the path of each fault and what is wrong there."""
    try:
        value = strict_json.loads(data)
    except NotJsonError:
        return None
    faults = schemas.errors("timeline-record", value)
    words = (f"{path.removeprefix('$').removeprefix('.')} {message}".strip() for path, message in faults)
    return "; ".join(list(words)[:_MOST_FAULTS]) or None


def _finding(code: str, message: str, piece: Piece, kind: str | None, fix: str) -> Finding:
    offset = piece.offset
    if piece.fault is not None and len(piece.spans) == 1 and piece.kind in ("object", "fragment", "text"):
        offset += piece.fault.offset if code in ("invalid-utf8", "not-json") else 0
    return Finding(code, message, piece.line, offset, kind, f"{_REPAIR} {fix}")


def _kind(piece: Piece) -> str | None:
    if piece.parsed is not None:
        return _name(piece.parsed)
    name = legible(piece, "type")
    return name[:40] if name is not None else None


def _name(parsed: Parsed) -> str:
    """The type of a record, in the spelling it has in the file."""
    name = type_name(parsed.record)
    return name.replace("_", ".") if parsed.dialect == "dotted" else name


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
