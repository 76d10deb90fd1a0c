"""What is wrong with an event log: each line's form, the order of the sequences, whose events they are.

One pass; memory stays flat for a log of any size and for lines of any length. A quick look decides whether
an event has its form; the JSON Schema is only asked for words about one that has not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from yolop_cli.ground import schemas, strict_json
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.session import events
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.longline import Long, Whole
from yolop_cli.timeline.checking.event_form import has_form, is_event_id
from yolop_cli.timeline.fields import is_timestamp
from yolop_cli.timeline.findings import Finding, unreadable

MOST_FINDINGS = 1000
_PASSED_OVER = "readers skip the line; the event is lost to them"


@dataclass(frozen=True)
class LogReport:
    """What the check of one log found; ``more`` findings are counted but not kept."""

    id: str
    path: bytes
    events: int
    last_sequence: int | None
    findings: tuple[Finding, ...]
    more: int = 0

    @property
    def errors(self) -> int:
        """How many of the kept findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def check_log(session: SessionDirectory) -> LogReport:
    """Check a session's event log. A log that cannot be read is a finding; a missing one is sound."""
    walk = _Walk(session.id)
    try:
        for line, value in events.values(session.events):
            walk.line(line, value)
        walk.finish(_ends_with_line_feed(session))
    except (StorageError, OSError) as error:
        walk.findings.append(unreadable(error))
    path = os.fsencode(session.events)
    return LogReport(session.id, path, walk.events, walk.highest, tuple(walk.findings), walk.more)


def _ends_with_line_feed(session: SessionDirectory) -> bool:
    try:
        with session.events.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return True


@dataclass
class _Walk:
    session_id: str
    events: int = 0
    highest: int | None = None
    findings: list[Finding] = field(default_factory=list)
    more: int = 0
    unnumbered: int = 0
    first_unnumbered: Whole | Long | None = None
    last: tuple[Whole | Long, bool] | None = None

    def add(
        self, code: str, message: str, line: Whole | Long | None, kind: str | None, fix: str | None = None
    ) -> None:
        if len(self.findings) >= MOST_FINDINGS:
            self.more += 1
            return
        number, offset = (None, None) if line is None else (line.number, line.offset)
        self.findings.append(Finding(code, message, number, offset, kind, fix))

    def line(self, line: Whole | Long, value: dict[str, Any] | None) -> None:
        self.last = (line, value is not None)
        kind = value.get("type") if value is not None else None
        if value is None or not isinstance(kind, str):
            self.add("event-malformed", _why(line, value), line, None)
            return
        if value.get("session_id", self.session_id) != self.session_id:
            self.add("foreign-events", "an event of another session; readers skip it", line, kind[:60])
            return
        self.events += 1
        self._form(line, value, kind)
        self._sequence(line, value, kind)

    def finish(self, ended: bool) -> None:
        if self.last is not None and not ended:
            line, whole = self.last
            if whole:
                self.add(
                    "no-final-newline", "the last event is whole, but its line feed is missing", line, None
                )
            else:
                self._replace_last(line)
        if self.first_unnumbered is not None:
            count = "1 event has" if self.unnumbered == 1 else f"{self.unnumbered:,} events have"
            message = f"{count} no sequence, as in old logs, and so belongs to every branch"
            self.add("event-unnumbered", message, self.first_unnumbered, None)

    def _replace_last(self, line: Whole | Long) -> None:
        """Half an event at the end is what a crash leaves; say so instead of "malformed"."""
        if self.findings and self.findings[-1].line == line.number:
            self.findings.pop()
        message = "half an event at the end, as after a crash; " + _PASSED_OVER
        self.add("event-torn", message, line, None)

    def _form(self, line: Whole | Long, value: dict[str, Any], kind: str) -> None:
        if isinstance(line, Long):
            # Only its short members are known; the containers are there or the line would not close.
            wrong = not is_event_id(value.get("id")) or not is_timestamp(str(value.get("ts")))
            if wrong:
                self.add("event-form", "id or ts of a long event do not have their form", line, kind[:60])
        elif not has_form(value, kind):
            faults = schemas.errors("event", value)
            words = "; ".join(f"{path.removeprefix('$.')} {message}" for path, message in faults[:3])
            if words:
                self.add("event-form", words, line, kind[:60])

    def _sequence(self, line: Whole | Long, value: dict[str, Any], kind: str) -> None:
        sequence = value.get("sequence")
        if sequence is None:
            self.unnumbered += 1
            self.first_unnumbered = self.first_unnumbered or line
        elif not strict_json.is_int32(sequence):
            self.add("event-form", "sequence is not a 32-bit integer", line, kind[:60])
        elif self.highest is not None and sequence <= self.highest:
            same = "again" if sequence == self.highest else f"after {self.highest}"
            self.add("event-order", f"sequence {sequence} comes {same}; they only grow", line, kind[:60])
        else:
            self.highest = sequence


def _why(line: Whole | Long, value: dict[str, Any] | None) -> str:
    if value is not None:
        return f"an object without a type; {_PASSED_OVER}"
    if isinstance(line, Long):
        return f"not a whole JSON object ({line.length:,} bytes); {_PASSED_OVER}"
    nul = line.data.count(b"\0")
    if nul:
        return f"{nul:,} NUL bytes, as a file system leaves behind after a crash; {_PASSED_OVER}"
    try:
        strict_json.loads(line.data)
    except NotJsonError as error:
        return f"{error.fault.message}; {_PASSED_OVER}"
    return f"not a JSON object; {_PASSED_OVER}"
