"""A repair as data: what it keeps, mends, makes and sets aside, and the state before and after.

A plan holds everything that carrying it out needs, so that what is done is exactly what was shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from yolop_cli.timeline.fold import TimelineState
from yolop_cli.timeline.records import Record

Strategy = Literal["salvage", "truncate", "rebuild"]
STRATEGIES: tuple[Strategy, ...] = ("salvage", "truncate", "rebuild")
Action = Literal["split", "join", "trim", "translate", "close", "correct", "order", "aside", "insert", "head"]
NO_HEAD = "none"


@dataclass(frozen=True)
class Step:
    """One thing a repair does.

    ``line`` and ``offset`` are those of the damaged file, None for a record that the repair makes.
    """

    action: Action
    message: str
    line: int | None = None
    offset: int | None = None
    record_type: str | None = None


@dataclass(frozen=True)
class Chunk:
    """Bytes of the new file: a record's line, or a blank line that is kept as it was (no record)."""

    data: bytes
    record: Record | None
    line: int | None = None


@dataclass(frozen=True)
class Plan:
    """A repair of one timeline. ``heads`` are the heads that are possible when nothing says which it is.

    ``source`` is what it is a repair of; None when there is no file. ``rebuildable`` is how many more turns
    the strategy ``rebuild`` would bring back.
    """

    strategy: Strategy
    source: bytes | None
    chunks: tuple[Chunk, ...]
    steps: tuple[Step, ...]
    rejected: tuple[bytes, ...]
    before: TimelineState
    after: TimelineState
    heads: tuple[str | None, ...] = ()
    rebuildable: int = 0

    @property
    def content(self) -> bytes:
        """The new file, whole."""
        return b"".join(chunk.data for chunk in self.chunks)

    @property
    def records(self) -> int:
        """How many records the new file has."""
        return sum(chunk.record is not None for chunk in self.chunks)

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return self.source != self.content and (self.source is not None or bool(self.chunks))


def step_json(step: Step) -> dict[str, Any]:
    """A step with the keys of the JSON output."""
    return {
        "action": step.action,
        "line": step.line,
        "offset": step.offset,
        "record_type": step.record_type,
        "message": step.message,
    }
