"""compaction-checkpoints.jsonl: which replacement of the model's context is in force, and what is wrong.

Rules of the format page: malformed lines are passed over; in force for a provider and model is the record
with the highest ``source_sequence`` that is active. A payload is private: it is read past and never kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from yolop_cli.ground import files, journal, schemas, strict_json
from yolop_cli.ground.errors import NotFoundError, StorageError
from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.session import events
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline.findings import Finding, unreadable
from yolop_cli.timeline.fold import Activity


@dataclass(frozen=True)
class Replacement:
    """One model-context replacement, its payload left out; ``line_bytes`` is the size of its line."""

    line: int
    id: str
    session_id: str
    source_sequence: int
    provider_type: str
    model: str
    format_version: int
    line_bytes: int


@dataclass(frozen=True)
class Judged:
    """A replacement, whether it is in force, and why not."""

    replacement: Replacement
    in_force: bool
    reason: str | None


@dataclass(frozen=True)
class CompactionReport:
    """What the check of the file found. ``records`` counts its readable records."""

    id: str
    path: bytes
    records: int
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)


def judge(session: SessionDirectory, activity: Activity) -> list[Judged]:
    """Every replacement in file order, and which one is in force for its provider and model.

    Raises ``StorageError`` when the file cannot be read.
    """
    found = [one for one in _values(session) if isinstance(one, Replacement)]
    best: dict[tuple[str, str], Replacement] = {}
    for one in found:
        key = (one.provider_type, one.model)
        if _why_not(one, session.id, activity) is None and (
            key not in best or one.source_sequence >= best[key].source_sequence
        ):
            best[key] = one
    return [_judged(one, best.get((one.provider_type, one.model)), session.id, activity) for one in found]


def check_session(session: SessionDirectory) -> CompactionReport:
    """As ``check``, against the log as it is now; a log that cannot be read is a finding too."""
    try:
        return check(session, events.last_sequence(session.events, session.id) or None)
    except (StorageError, OSError) as error:
        report = check(session, None)
        return replace(report, findings=(unreadable(error), *report.findings))


def check(session: SessionDirectory, last_sequence: int | None) -> CompactionReport:
    """What is wrong with the file; ``last_sequence`` is that of the log, None when it has none."""
    records = 0
    findings: list[Finding] = []
    try:
        for one in _values(session):
            if isinstance(one, Finding):
                findings.append(one)
                continue
            records += 1
            if isinstance(one, Replacement):
                findings += _doubts(one, session.id, last_sequence)
    except (StorageError, OSError) as error:
        findings.append(unreadable(error))
    return CompactionReport(session.id, os.fsencode(session.compaction), records, tuple(findings))


def _doubts(one: Replacement, session_id: str, last_sequence: int | None) -> Iterator[Finding]:
    if one.session_id != session_id:
        yield Finding("compaction-foreign", "it belongs to another session; readers skip it", one.line)
    elif last_sequence is not None and one.source_sequence > last_sequence:
        message = f"it replaces events up to {one.source_sequence}, the log ends at {last_sequence}"
        yield Finding("compaction-beyond-log", message, one.line)


def _judged(one: Replacement, best: Replacement | None, session_id: str, activity: Activity) -> Judged:
    if one is best:
        return Judged(one, True, None)
    reason = _why_not(one, session_id, activity)
    if reason is None and best is not None:
        reason = f"line {best.line} replaces more: up to event {best.source_sequence}"
    return Judged(one, False, reason)


def _why_not(one: Replacement, session_id: str, activity: Activity) -> str | None:
    if one.session_id != session_id:
        return "it belongs to another session"
    if not activity.holds(one.source_sequence):
        return f"event {one.source_sequence} is on an abandoned branch"
    return None


def _values(session: SessionDirectory) -> Iterator[Replacement | Finding | None]:
    """Each line that counts: a replacement, None for an attempt, a finding for what cannot be read."""
    try:
        with files.reading(session.compaction) as file:
            for line in journal.lines(file):
                if not journal.is_blank(line.data):
                    yield _value(line)
    except NotFoundError:
        return


def _value(line: journal.Line) -> Replacement | Finding | None:
    def finding(message: str) -> Finding:
        words = f"{message}; readers skip the line"
        return Finding("compaction-malformed", words, line.number, line.offset)

    try:
        value = strict_json.loads(line.data)
    except NotJsonError as error:
        return finding(error.fault.message)
    faults = schemas.errors("compaction-record", value)
    if faults:
        return finding("; ".join(f"{path.removeprefix('$.')} {message}" for path, message in faults[:3]))
    return _replacement(line, value["record"]) if value["record_type"] == "checkpoint" else None


def _replacement(line: journal.Line, record: dict[str, Any]) -> Replacement:
    return Replacement(
        line.number,
        record["id"],
        record["session_id"],
        record["source_sequence"],
        record["provider_type"],
        record["model"],
        record["format_version"],
        len(line.data),
    )
