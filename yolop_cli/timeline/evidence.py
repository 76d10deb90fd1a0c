"""What is known of a timeline's checkpoints without the journal: what checks and repairs hold it against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from yolop_cli.ground import ids
from yolop_cli.timeline.fold import TimelineState


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
