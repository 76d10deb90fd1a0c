"""What a check can find: one value a finding, one table of all codes.

A code never changes its meaning. An error is something the agent cannot read or would read wrongly; a
warning is something it tolerates but that a user should know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]
Status = Literal["ok", "tail", "corrupt", "semantic"]


@dataclass(frozen=True)
class Rule:
    """A code of the table: its severity and one line of explanation."""

    severity: Severity
    explanation: str


@dataclass(frozen=True)
class Finding:
    """One finding: where it is in the file (``line`` from 1, ``offset`` in bytes from 0) and what helps.

    ``line`` and ``offset`` are None for a finding about the session as a whole.
    """

    code: str
    message: str
    line: int | None = None
    offset: int | None = None
    record_type: str | None = None
    fix: str | None = None

    @property
    def severity(self) -> Severity:
        """``error`` or ``warning``, as the table says."""
        return RULES[self.code].severity


@dataclass(frozen=True)
class Report:
    """What the check of one session found. ``path`` is that of the file that was read."""

    id: str
    path: bytes
    status: Status
    records: int
    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many of the findings are warnings."""
        return len(self.findings) - self.errors


def passed(reports: Iterable[Report], *, strict: bool = False) -> bool:
    """Whether nothing was found: no error, and with ``strict`` no warning either."""
    return not any(report.findings if strict else report.errors for report in reports)


def to_json(finding: Finding) -> dict[str, Any]:
    """A finding with the keys of the command line's contract."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "line": finding.line,
        "offset": finding.offset,
        "record_type": finding.record_type,
        "message": finding.message,
        "fix": finding.fix,
    }


RULES: dict[str, Rule] = {
    # Pass 1: bytes.
    "unreadable-file": Rule("error", "the file is there but the system does not let it be read"),
    "half-record": Rule("error", "a record was begun and not finished, as after a crash"),
    "glued-record": Rule("error", "a whole record stands on the same line right after half of another"),
    "several-records": Rule("error", "more than one whole record stands on one line"),
    "split-record": Rule("error", "one record is spread over several lines"),
    "interleaved-record": Rule("error", "another writer's record stands in the middle of this one"),
    "nul-bytes": Rule("error", "a run of NUL bytes, as a file system leaves behind after a crash"),
    "byte-order-mark": Rule("error", "a byte-order mark, which the agent takes for damage"),
    "invalid-utf8": Rule("error", "bytes that are not UTF-8"),
    "lone-surrogate": Rule("error", "a \\u escape that is half of a pair and no character"),
    "foreign-text": Rule("error", "text that is no part of a record, as from another program"),
    "foreign-blank": Rule("error", "a line of blanks that are not ASCII white space"),
    "trailing-garbage": Rule("error", "something follows a whole record on its line"),
    "not-json": Rule("error", "a line that was not cut short and still is not JSON"),
    "not-a-number": Rule("error", "NaN or Infinity, which JSON does not have"),
    "number-range": Rule("error", "a number that is larger than any the agent can read"),
    "too-deep": Rule("error", "more than 127 containers inside each other"),
    "repeated-key": Rule("error", "a field that is there more than once in one object"),
    "crlf": Rule(
        "warning", "lines end in carriage return and line feed; readable, but not what the agent writes"
    ),
    "no-final-newline": Rule("warning", "the last record is whole but its line feed is missing"),
    # Pass 2: schema.
    "not-a-record": Rule("error", "JSON, but not an object with a type"),
    "unknown-type": Rule("error", "a type of record that the agent does not know"),
    "missing-field": Rule("error", "a field that the record needs is missing"),
    "wrong-type": Rule("error", "a field holds another kind of value than it must"),
    "bad-integer": Rule("error", "a number that is not a whole one of 32 bits"),
    "bad-timestamp": Rule("error", "a time that is not RFC 3339 with a zone"),
    "unknown-field": Rule("warning", "a field that the format does not have; the agent ignores it"),
    "dotted-type": Rule("warning", "the dotted spelling of a type, which the agent cannot read"),
}
