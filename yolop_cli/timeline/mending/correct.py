"""Readable records that say something impossible, put right where the journal itself knows better.

A flipped bit can leave a record readable and wrong. What it must have said is told by what is written twice:
a checkpoint's id is named by the records around it and carries the start of its events, a turn ends
before the next begins, the conversation before the first turn ends where that turn begins, a snapshot's
ref carries the checkpoint's name and holds its tree. Only what pass 3 calls an error is touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from yolop_cli.ground import ids
from yolop_cli.timeline.checking import objects
from yolop_cli.timeline.checking.pieces import Piece
from yolop_cli.timeline.checking.spelling import nearest, one_letter_apart
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.fold import Folding, TimelineState
from yolop_cli.timeline.mending.repair_plan import Chunk, Step
from yolop_cli.timeline.mending.salvage import Lost, Salvaged
from yolop_cli.timeline.records import (
    CheckpointCreated,
    HeadMoved,
    Initialized,
    Record,
    Snapshot,
    TurnCompleted,
    parse,
    to_line,
    type_name,
)

R = TypeVar("R", CheckpointCreated, TurnCompleted, HeadMoved, Initialized)
LOST_TREE = "the tree in the checkpoint's record was damaged"


def correct(salvaged: Salvaged, evidence: Evidence) -> None:
    """Put impossible values right, in place; the records as they were are set aside."""
    desk = _Desk(salvaged, evidence)
    desk.ids()
    desk.starts()
    desk.ends()
    desk.snapshots()
    desk.finish()


@dataclass
class _Slot:
    """A record that may be corrected: where it is, its bytes now, and what was said of it.

    It is doubtful when the head moves to one of several checkpoints and nothing tells to which.
    """

    position: int
    chunk: Chunk
    said: list[str]
    doubtful: bool = False


class _Desk:
    def __init__(self, salvaged: Salvaged, evidence: Evidence):
        self.salvaged, self.evidence = salvaged, evidence
        self.slots = [
            _Slot(position, item, [])
            for position, item in enumerate(salvaged.items)
            if isinstance(item, Chunk) and item.record is not None
        ]

    def of(self, kind: type[R]) -> Iterator[tuple[_Slot, R]]:
        for slot in self.slots:
            if isinstance(slot.chunk.record, kind):
                yield slot, slot.chunk.record

    def put(self, slot: _Slot, path: tuple[str, ...], value: object, message: str) -> None:
        line = objects.replaced(slot.chunk.data.removesuffix(b"\n"), path, value)
        slot.chunk = replace(slot.chunk, data=line + b"\n", record=parse(line).record)
        slot.said.append(message)

    def finish(self) -> None:
        for slot in self.slots:
            if slot.doubtful:
                self._set_aside(slot)
            elif slot.said:
                original = self.salvaged.items[slot.position]
                if isinstance(original, Chunk) and slot.chunk.record is not None:
                    self.salvaged.rejected.append(original.data.removesuffix(b"\n"))
                    kind = type_name(slot.chunk.record)
                    message = "; ".join(slot.said)
                    self.salvaged.steps.append(Step("correct", message, slot.chunk.line, None, kind))
                self.salvaged.items[slot.position] = slot.chunk

    def _set_aside(self, slot: _Slot) -> None:
        data = slot.chunk.data.removesuffix(b"\n")
        self.salvaged.rejected.append(data)
        message = "the head moves to a checkpoint with a damaged letter; it may be one of several"
        self.salvaged.steps.append(Step("aside", message, slot.chunk.line, None, "head_moved"))
        # No line: it took effect, also when it is the last one.
        self.salvaged.items[slot.position] = Lost(Piece("object", data, ((0, 0),), 0), torn=False, whole=True)

    def ids(self) -> None:
        """Ids that nothing before has, one letter from one that something before has."""
        named: Counter[str] = Counter()
        for slot in self.slots:
            named.update(name for key, name in _references(slot.chunk.record) if key != "id")
        created: dict[str, _Slot] = {}
        folding = Folding()
        for index, slot in enumerate(self.slots):
            for key, name in _references(slot.chunk.record):
                if key == "id":
                    created[name] = slot
                    continue
                known = None if name in created else self._meant(key, name, created, folding.state, index)
                if known is None:
                    if key == "to" and name not in created:
                        slot.doubtful = any(one_letter_apart(name, one) for one in created)
                    continue
                if self._is_the_right_one(name, named[name], known, named[known], created[known]):
                    self.put(created[known], ("id",), name, f"its id is {name}, as the records after it say")
                    created[name] = created.pop(known)
                    self._rename(known, name)
                else:
                    self._rename(name, known)
            if slot.chunk.record is not None and not slot.doubtful:
                folding.add(slot.chunk.record)
        self._bad_ids(named)

    def _meant(
        self, key: str, name: str, created: Iterable[str], state: TimelineState, index: int
    ) -> str | None:
        """The checkpoint that a damaged name means: the only near one, or the one the rules ask for."""
        near = [one for one in created if one_letter_apart(name, one)]
        if len(near) < 2:
            return near[0] if near else None
        if key == "to":
            following = (slot.chunk.record for slot in self.slots[index + 1 :])
            wanted = next((one.parent for one in following if isinstance(one, CheckpointCreated)), None)
        else:
            wanted = state.pending if state.pending is not None else state.head
        return wanted if wanted in near else None

    def _is_the_right_one(self, unknown: str, uses: int, known: str, known_uses: int, slot: _Slot) -> bool:
        """Whether the id that is only named is right and the one of the checkpoint itself damaged."""
        if uses != known_uses:
            return uses > known_uses and ids.is_checkpoint_id(unknown)
        record = slot.chunk.record
        start = record.event_start if isinstance(record, CheckpointCreated) else None
        if not ids.is_checkpoint_id(known):
            return True
        return ids.event_start_of(unknown) == start and ids.event_start_of(known) != start

    def _rename(self, wrong: str, right: str) -> None:
        for slot in self.slots:
            for key, name in _references(slot.chunk.record):
                if name == wrong and key != "id":
                    self.put(slot, (key,), right, f"{key} is {right}, not {wrong}")

    def _bad_ids(self, named: Counter[str]) -> None:
        """Ids that no ref can carry: the one name that others give a turn beginning there, or a new one."""
        created = {record.id for _, record in self.of(CheckpointCreated)}
        traces = dict.fromkeys([*named, *self.evidence.references])
        for number, (slot, record) in enumerate(self.of(CheckpointCreated), start=1):
            made = f"cp_{record.event_start}_{number}"
            if ids.is_checkpoint_id(record.id):
                continue
            bad, start = record.id, record.event_start
            told = [one for one in traces if one not in created and ids.event_start_of(one) == start]
            name = told[0] if len(told) == 1 and bad not in named else made
            if name in created:
                continue
            created.add(name)
            self.put(slot, ("id",), name, f"its id is {name}")
            self._rename(bad, name)

    def starts(self) -> None:
        """Starts that run against the order of the log, where the id carries one that does not.

        A start that no turn can have is right after what comes before: a negative one, or one inside a
        baseline that ends where the first turn begins. One such record never changes the baseline.
        """
        ends = {record.checkpoint_id: record.event_end for _, record in self.of(TurnCompleted)}
        turns = list(self.of(CheckpointCreated))
        baselines = [record.baseline_end for _, record in self.of(Initialized)]
        baseline = max(baselines, default=-1)
        before = baseline + 1
        lowest = before if turns and turns[0][1].event_start == before else min(before, 1)
        for index, (slot, record) in enumerate(turns):
            start, carried = record.event_start, ids.event_start_of(record.id)
            following = turns[index + 1][1].event_start if index + 1 < len(turns) else None
            limits = (before, ends.get(record.id), following)
            if carried is not None and not _fits(start, *limits) and _fits(carried, *limits):
                self.put(slot, ("event_start",), carried, f"event_start is {carried}, as its id says")
                start = carried
            if start < lowest:
                start = max(before, 1)
                self.put(slot, ("event_start",), start, f"event_start is {start}, after what comes before it")
            before = max(before, start, ends.get(record.id, start - 1) + 1)

    def ends(self) -> None:
        """Turns that end before they begin or after the next begins; a baseline beyond the first turn."""
        starts = {record.id: record.event_start for _, record in self.of(CheckpointCreated)}
        ordered = sorted(starts.values())
        count = Counter(ordered)
        following = dict(pairwise(sorted(count)))
        for slot, record in self.of(TurnCompleted):
            start = starts.get(record.checkpoint_id)
            if start is None or count[start] > 1:
                continue
            limit = following.get(start)
            latest = self.evidence.last_sequence if limit is None else limit - 1
            wrong = record.event_end < start - 1 or (limit is not None and record.event_end >= limit)
            if wrong:
                wanted = max(latest if latest is not None else start, start - 1)
                self.put(slot, ("event_end",), wanted, f"event_end is {wanted}, before the next turn begins")
        for first, initialized in self.of(Initialized):
            wanted = ordered[0] - 1 if ordered else -1
            if 0 <= wanted < initialized.baseline_end:
                self.put(first, ("baseline_end",), wanted, f"baseline_end is {wanted}, before the first turn")

    def snapshots(self) -> None:
        """Refs that are none of this session, trees that are none, where the checkpoint's own ref tells."""
        for slot, created in self.of(CheckpointCreated):
            if created.snapshot is not None:
                self._snapshot(slot, "snapshot", created.snapshot, created.id)
        for slot, moved in self.of(HeadMoved):
            if moved.redo_snapshot is not None:
                name = (moved.redo_snapshot.reference or "").rpartition("/")[2]
                known = name if name in self.evidence.references else nearest(name, self.evidence.references)
                self._snapshot(slot, "redo_snapshot", moved.redo_snapshot, known or name)

    def _snapshot(self, slot: _Slot, key: str, snapshot: Snapshot, name: str) -> None:
        session_id, reference = self.evidence.session_id, snapshot.reference
        known = ids.is_session_id(session_id) and ids.is_checkpoint_id(name)
        own = ids.reference(session_id, name) if known else ""
        held = self.evidence.references.get(name)
        if held is not None and not self.evidence.is_tree(held):
            held = None
        is_anothers = reference is not None and reference != own and self._is_wrong(snapshot, held)
        if reference is not None and (one_letter_apart(reference, own) or (is_anothers and held is not None)):
            self.put(slot, (key, "reference"), own, f"its ref is {own}")
        elif reference is not None and not ids.is_reference(reference):
            self.put(slot, (key, "reference"), None, "its ref is left out; the name of it was damaged")
        elif is_anothers and self.evidence.refs_known:
            reference = None
            self.put(slot, (key, "reference"), None, "its ref is left out; it is not its own")
        if held is not None and self._is_damaged(snapshot.tree, held, is_anothers):
            self.put(slot, (key, "tree"), held, f"its tree is {held}, as its ref says")
        elif not ids.is_object_id(snapshot.tree):
            self._without_snapshot(slot, "the name of its tree was damaged")
        elif reference is None and not self.evidence.is_tree(snapshot.tree):
            self._without_snapshot(slot, "its tree is gone, and no ref keeps one")

    def _is_wrong(self, snapshot: Snapshot, held: str | None) -> bool:
        """Whether a ref that is not the checkpoint's own is damage: a foreign one, one that holds another
        tree than the record names, or one in the place of the own ref with that tree."""
        tree = snapshot.tree
        name = ids.reference_name(self.evidence.session_id, snapshot.reference or "")
        return name is None or held == tree or self.evidence.references.get(name, tree) != tree

    def _is_damaged(self, tree: str, held: str, is_anothers: bool) -> bool:
        """Whether the tree that a record names gives way to the one that its own ref holds.

        Where both are there and the record names its own ref, nothing tells which of them is right.
        """
        if tree == held:
            return False
        return is_anothers or one_letter_apart(tree, held) or not self.evidence.is_tree(tree)

    def _without_snapshot(self, slot: _Slot, why: str) -> None:
        """A record that names no tree holds no files; nothing tells which tree it was."""
        record = slot.chunk.record
        if isinstance(record, CheckpointCreated):
            record = replace(record, snapshot=None, snapshot_error=LOST_TREE)
        elif isinstance(record, HeadMoved):
            record = replace(record, redo_snapshot=None)
        if record is not None:
            slot.chunk = replace(slot.chunk, data=to_line(record) + b"\n", record=record)
            slot.said.append(f"it is without files; {why}")


def _fits(start: int, before: int, end: int | None, following: int | None) -> bool:
    if start < before or (end is not None and start > end + 1):
        return False
    return following is None or start <= following


def _references(record: Record | None) -> list[tuple[str, str]]:
    """The fields of a record that name a checkpoint, with the names."""
    match record:
        case CheckpointCreated():
            found = [("id", record.id), ("parent", record.parent)]
        case TurnCompleted():
            found = [("checkpoint_id", record.checkpoint_id)]
        case HeadMoved():
            found = [("from", record.from_head), ("to", record.to), ("redo_head", record.redo_head)]
        case _:
            found = []
    return [(key, name) for key, name in found if name is not None]
