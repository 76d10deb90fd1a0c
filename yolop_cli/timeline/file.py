"""timeline.jsonl as it stands: its readable records, the state they fold to, and its first damage.

Rules of the format page ("Reading"): a last line that cannot be read is a corrupt tail and is ignored;
any earlier one is a corrupt prefix, and what comes before it is all that counts until it is repaired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from yolop_cli.ground import journal
from yolop_cli.ground.errors import CorruptError
from yolop_cli.ground.strict_json import JsonFault, NotJsonError
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline.fold import TimelineState, fold
from yolop_cli.timeline.records import Dialect, Parsed, Record, is_readable, parse, to_line

Health = Literal["ok", "tail", "corrupt"]


@dataclass(frozen=True)
class Damage:
    """The first line that cannot be read, and why."""

    line: journal.Line
    fault: JsonFault


@dataclass(frozen=True, slots=True)
class Entry:
    """A readable record and the line it stands on."""

    line: journal.Line
    parsed: Parsed

    @property
    def record(self) -> Record:
        """The record itself."""
        return self.parsed.record


@dataclass(frozen=True)
class Timeline:
    """The readable part of a timeline. With a corrupt prefix that is what comes before the damage."""

    entries: tuple[Entry, ...] = ()
    damage: Damage | None = None
    health: Health = "ok"

    @cached_property
    def state(self) -> TimelineState:
        """What the records add up to."""
        return fold(entry.record for entry in self.entries)

    @property
    def dialect(self) -> Dialect:
        """The spelling the file already uses; in a new file the one the agent can read."""
        return next((entry.parsed.dialect for entry in self.entries if entry.parsed.dialect), "underscore")


def load(session: SessionDirectory) -> Timeline:
    """Read a session's timeline. Raises ``StorageError`` when the file cannot be read at all."""
    return of_lines(journal.read_lines(session.timeline))


def of_lines(lines: Sequence[journal.Line]) -> Timeline:
    """The timeline on some lines (blank ones left out already)."""
    entries: list[Entry] = []
    for position, line in enumerate(lines):
        try:
            entries.append(Entry(line, parse(line.data)))
        except NotJsonError as error:
            health: Health = "tail" if position == len(lines) - 1 else "corrupt"
            return Timeline(tuple(entries), Damage(line, error.fault), health)
    return Timeline(tuple(entries))


def writable(session: SessionDirectory, timeline: Timeline) -> Timeline:
    """The timeline again, for a command that will write. Raises ``CorruptError`` for a damaged prefix."""
    if timeline.health == "corrupt" and timeline.damage is not None:
        line = timeline.damage.line
        raise CorruptError(
            f"line {line.number} of {session.timeline} cannot be read: {timeline.damage.fault.message}; "
            "the session is read-only",
            hint=f"see `yolop-cli timeline validate -s {session.id}`, then repair or fork the session",
            details={"path": str(session.timeline), "line": line.number, "offset": line.offset},
        )
    return timeline


def append(session: SessionDirectory, timeline: Timeline, records: Sequence[Record]) -> journal.AppendReport:
    """Append records durably, in the file's own spelling, in one write. Raises ``StorageError``."""
    writable(session, timeline)
    return journal.append(
        session.timeline,
        [to_line(record, timeline.dialect) for record in records],
        readable=is_readable,
        rejected=session.rejected,
    )
