"""The fold against a second reading of the format page, one that looks backwards instead of stepping."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support import reader
from tests.support.timelines import DIALECTS, RECORDS
from yolop_cli.timeline.fold import TimelineState, fold
from yolop_cli.timeline.records import (
    CheckpointCreated,
    Dialect,
    HeadMoved,
    Initialized,
    Record,
    TurnCompleted,
    parse,
    snapshot_json,
    to_line,
)

TIME = "2026-11-30T12:00:00Z"
PROBES = range(-4, 15)
SPELLED = st.lists(st.tuples(RECORDS, DIALECTS), max_size=25)


@dataclass
class Naive:
    """Every question answered by searching the whole list once more."""

    records: list[dict[str, Any]]

    def positions(self, kind: str) -> list[int]:
        return [at for at, record in enumerate(self.records) if record["type"].replace(".", "_") == kind]

    def created(self, name: str | None, before: int | None = None) -> int | None:
        """Where a checkpoint was created last."""
        stop = len(self.records) if before is None else before
        found = [at for at in self.positions("checkpoint_created") if self.records[at]["id"] == name]
        return max((at for at in found if at < stop), default=None)

    def completed(self, name: str) -> int | None:
        """Where it ended last since it was created last."""
        start = self.created(name)
        found = [at for at in self.positions("turn_completed") if self.records[at]["checkpoint_id"] == name]
        return max((at for at in found if start is not None and at > start), default=None)

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(self.records[at]["id"] for at in self.positions("checkpoint_created")))

    @property
    def baseline_end(self) -> int | None:
        found = self.positions("initialized")
        return self.records[found[-1]]["baseline_end"] if found else None

    @property
    def head(self) -> str | None:
        for at in reversed(range(len(self.records))):
            record = self.records[at]
            if at in self.positions("head_moved"):
                return record["to"]
            if (
                at in self.positions("turn_completed")
                and self.created(record["checkpoint_id"], at) is not None
            ):
                return record["checkpoint_id"]
        return None

    @property
    def pending(self) -> str | None:
        found = self.positions("checkpoint_created")
        if not found:
            return None
        name = self.records[found[-1]]["id"]
        return name if self.completed(name) is None else None

    @property
    def redo(self) -> tuple[str | None, Any] | None:
        moved, cleared = self.positions("head_moved"), self.positions("redo_cleared")
        if not moved or (cleared and cleared[-1] > moved[-1]):
            return None
        record = self.records[moved[-1]]
        return record["redo_head"], record["redo_snapshot"]

    def chain(self, name: str | None) -> list[str]:
        chain: list[str] = []
        while name is not None and (at := self.created(name)) is not None and name not in chain:
            chain.insert(0, name)
            name = self.records[at]["parent"]
        return chain

    def end(self, name: str) -> int | None:
        at = self.completed(name)
        return None if at is None else self.records[at]["event_end"]

    def status(self, name: str) -> str:
        at = self.completed(name)
        if at is not None:
            return "completed" if self.records[at]["success"] else "failed"
        return "pending" if name == self.pending else "interrupted"

    def is_active(self, sequence: int) -> bool:
        if not self.ids or (self.baseline_end is not None and sequence <= self.baseline_end):
            return True
        for name in {*self.chain(self.head), *([] if self.pending is None else [self.pending])}:
            at = self.created(name)
            assert at is not None
            end = self.end(name)
            if self.records[at]["event_start"] <= sequence <= (sequence if end is None else end):
                return True
        return False


def redo_of(state: TimelineState) -> tuple[str | None, Any] | None:
    return None if state.redo is None else (state.redo.head, snapshot_json(state.redo.snapshot))


@given(SPELLED)
def test_fold_is_what_the_format_page_says(spelled: list[tuple[Record, Dialect]]) -> None:
    lines = [to_line(record, dialect) for record, dialect in spelled]
    state = fold(parse(line).record for line in lines)
    on_disk = [json.loads(line) for line in lines]
    naive, second = Naive(on_disk), reader.fold(on_disk)

    assert list(state.nodes) == naive.ids == list(second.nodes)
    assert state.baseline_end == naive.baseline_end == second.baseline_end
    assert state.head == naive.head == second.head
    assert state.pending == naive.pending == second.pending
    assert redo_of(state) == naive.redo == second.redo
    assert list(state.active_path) == naive.chain(naive.head) == second.active_path
    for name in naive.ids:
        assert state.nodes[name].event_end == naive.end(name) == second.ends.get(name)
        assert state.status(name) == naive.status(name)
        assert list(state.path_to(name)) == naive.chain(name)
        at = naive.created(name)
        assert at is not None
        assert state.nodes[name].checkpoint == spelled[at][0]
    activity = state.activity()
    assert activity.holds(None)
    for sequence in PROBES:
        expected = naive.is_active(sequence)
        assert state.is_active(sequence) == expected == second.is_active(sequence)
        assert activity.holds(sequence) == expected


@given(SPELLED)
def test_snapshots_are_those_that_a_checkpoint_or_the_redo_still_names(
    spelled: list[tuple[Record, Dialect]],
) -> None:
    state = fold(record for record, _ in spelled)
    named = [node.checkpoint.snapshot for node in state.nodes.values()]
    redo = state.redo.snapshot if state.redo else None
    assert list(state.snapshots()) == [each for each in (*named, redo) if each is not None]


@given(st.lists(RECORDS, max_size=25), st.integers(0, 25))
def test_folding_changes_no_state_that_was_given_out(records: list[Record], cut: int) -> None:
    early = fold(records[:cut])
    before = dict(early.nodes)
    fold(records)
    assert dict(early.nodes) == before
    assert early == fold(records[:cut])


def turn(name: str, parent: str | None, start: int, end: int | None) -> list[Record]:
    begun: list[Record] = [CheckpointCreated(name, parent, "x", start, None, None, TIME)]
    return begun if end is None else [*begun, TurnCompleted(name, end, True, TIME)]


def moved(to: str | None) -> HeadMoved:
    return HeadMoved(None, to, None, None, TIME)


def test_nothing_recorded_yet_means_that_everything_is_active() -> None:
    for records in ([], [Initialized(3, TIME)], [moved("a")]):
        state = fold(records)
        assert all(state.is_active(sequence) for sequence in PROBES)
        assert (state.active_path, state.live, state.pending) == ((), (), None)


def test_cycle_of_parents_ends_where_it_repeats() -> None:
    state = fold([*turn("a", "c", 1, 2), *turn("b", "a", 3, 4), *turn("c", "b", 5, 6)])
    assert state.active_path == ("a", "b", "c")
    assert fold(turn("a", "a", 1, 2)).active_path == ("a",)


def test_unknown_parent_ends_the_path() -> None:
    state = fold([*turn("a", "gone", 1, 2), *turn("b", "a", 3, 4)])
    assert state.active_path == ("a", "b")
    assert not state.is_active(0)


def test_id_created_twice_is_open_again_with_its_new_fields() -> None:
    state = fold([*turn("a", None, 1, 2), *turn("b", "a", 3, 4), *turn("a", "b", 9, None)])
    assert (state.status("a"), state.pending, state.head) == ("pending", "a", "b")
    assert state.nodes["a"].event_end is None
    assert state.active_path == ("a", "b")
    assert [sequence for sequence in range(12) if state.is_active(sequence)] == [3, 4, 9, 10, 11]


def test_turn_that_was_never_created_moves_nothing() -> None:
    state = fold([*turn("a", None, 1, 2), TurnCompleted("ghost", 9, True, TIME)])
    assert (state.head, list(state.nodes)) == ("a", ["a"])


def test_pending_turn_is_live_beside_a_head_it_does_not_descend_from() -> None:
    state = fold([*turn("a", None, 1, 2), *turn("b", "a", 3, None), moved(None)])
    assert (state.active_path, state.live) == ((), ("b",))
    assert [sequence for sequence in range(6) if state.is_active(sequence)] == [3, 4, 5]


def test_head_moved_to_the_pending_turn_lists_it_once() -> None:
    state = fold([*turn("a", None, 1, 2), *turn("b", "a", 3, None), moved("b")])
    assert state.live == ("a", "b")


def test_later_turn_leaves_the_one_before_it_interrupted() -> None:
    state = fold([*turn("a", None, 1, None), *turn("b", None, 3, None)])
    assert (state.status("a"), state.status("b")) == ("interrupted", "pending")
    assert not state.is_active(2)


def test_long_paths_are_walked_without_recursion() -> None:
    length = 2000
    records = [
        each
        for number in range(length)
        for each in turn(f"cp_{number}", f"cp_{number - 1}" if number else None, number + 1, number + 1)
    ]
    assert len(fold(records).active_path) == length
