"""A repair as data: what it keeps, mends, makes and sets aside, and the state before and after.

A plan holds everything that carrying it out needs, so that what is done is exactly what was shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from yolop_cli.ground import ids
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
class Evidence:
    """What a session still knows of its checkpoints without the journal.

    ``references`` are the private refs by name, ``prompts`` the prompts of the log with their sequences,
    ``answers`` the sequences of the agent's messages. ``capture`` is how snapshots were taken when no record
    tells. ``refs_known`` is False when the refs could not be read, so that none of them is known to be gone.
    ``not_trees`` are ids that the journal or a ref gives for a tree and that the repository has no tree of.
    """

    references: Mapping[str, str] = field(default_factory=dict)
    session_id: str = ""
    prompts: tuple[tuple[int, str], ...] = ()
    answers: tuple[int, ...] = ()
    last_sequence: int | None = None
    capture: str | None = None
    refs_known: bool = False
    not_trees: frozenset[str] = frozenset()

    def is_tree(self, text: str) -> bool:
        """Whether a text can be the id of a tree: it is an object id, and not known to be of no tree."""
        return ids.is_object_id(text) and text not in self.not_trees

    def lacks_redo(self, state: TimelineState) -> bool:
        """Whether the recovery ref of a redo is gone: it is deleted only once the redo is used up or void."""
        snapshot = state.redo.snapshot if state.redo is not None else None
        if snapshot is None or snapshot.reference is None or not self.refs_known:
            return False
        return ids.reference_name(self.session_id, snapshot.reference) not in self.references


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
