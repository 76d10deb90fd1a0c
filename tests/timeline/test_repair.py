"""Repair plans: each kind of damage is cured, no record is lost, no branch is guessed, twice is once."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import reader
from tests.timeline.journals import DAMAGE, data, healthy, moved, stamp
from yolop_cli.ground import journal
from yolop_cli.ground.errors import RefusedError
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.checking import semantic
from yolop_cli.timeline.checking.validate import check_bytes
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.findings import RULES
from yolop_cli.timeline.mending import strategies
from yolop_cli.timeline.mending.repair_plan import Plan, Strategy
from yolop_cli.timeline.records import is_readable

LINES = healthy(12)
SID = "session_00000000000070008000000000000001"
NOW = "2026-02-02T00:00:00Z"
TREE = "a" * 40
OTHER = "b" * 40
ELSEWHERE = "session_" + "9" * 32


def plan_of(
    content: bytes | None,
    strategy: Strategy = "salvage",
    evidence: Evidence | None = None,
    head: str | None = None,
) -> Plan:
    return strategies.plan(content, strategy, evidence or Evidence(session_id=SID), NOW, head=head)


def timeline(content: bytes) -> timeline_file.Timeline:
    lines = journal.lines(io.BytesIO(content))
    return timeline_file.of_lines([line for line in lines if not journal.is_blank(line.data)])


def problems(content: bytes) -> list[str]:
    found = [*check_bytes(content).findings, *semantic.check_records(SID, timeline(content).entries)]
    return [f"{one.code}: {one.message}" for one in found]


def record(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_sound_timeline_needs_nothing() -> None:
    for strategy in ("salvage", "truncate", "rebuild"):
        plan = plan_of(data(LINES), strategy)
        assert not plan.changes and plan.steps == () and plan.content == data(LINES)
    assert not plan_of(None).changes and not plan_of(b"").changes


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_kind_of_damage_is_cured(kind: str) -> None:
    damage, _, _, _ = DAMAGE[kind]
    content = damage(LINES)
    plan = plan_of(content)
    assert plan.changes and plan.steps and not plan.heads
    assert problems(plan.content) == []
    again = plan_of(plan.content)
    assert not again.changes and again.steps == ()
    # Whole lines keep their bytes, dotted types and carriage returns aside.
    whole = [line for line in content.split(b"\n") if is_readable(line) and line.strip(b" \t\r\f")]
    if kind not in ("dotted spelling", "CRLF", "one record over several CRLF lines"):
        kept = iter(plan.content.split(b"\n"))
        assert [line for line in whole if line not in kept] == []
    folded = reader.fold([json.loads(line) for line in plan.content.split(b"\n") if line.strip()])
    assert (folded.head, folded.pending) == (plan.after.head, plan.after.pending)
    assert timeline(plan.content).state == plan.after


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_set_aside_and_what_is_kept_is_all_there_was(kind: str) -> None:
    content = DAMAGE[kind][0](LINES)
    plan = plan_of(content)
    blank = b" \t\r\f\n"
    had = sorted(content.translate(None, blank))
    has = sorted(b"".join((plan.content, *plan.rejected)).translate(None, blank))
    missing = list(had)
    for byte in has:
        if byte in missing:
            missing.remove(byte)
    if kind != "dotted spelling":
        assert missing == []


@pytest.mark.parametrize("kind", DAMAGE)
def test_truncate_keeps_what_comes_before_the_damage(kind: str) -> None:
    content = DAMAGE[kind][0](LINES)
    plan = plan_of(content, "truncate")
    assert plan.after == timeline(content).state == plan.before
    assert check_bytes(plan.content).status == "ok"
    assert not plan_of(plan.content, "truncate").changes


def test_case_33_the_plan_says_which_record_was_completed() -> None:
    lines = healthy(4)
    lines[2] = lines[2][:60] + lines[2]
    lines[4:6] = [lines[4] + lines[5]]
    lines[5] = lines[5][:-1] + lines[6]
    del lines[6]
    plan = plan_of(data(lines))
    assert [step.line for step in plan.steps if step.action == "close"] == [6]
    assert plan.content == data(healthy(4))


def test_case_40_only_damaged_bytes_are_touched() -> None:
    lines = healthy(3)
    lines[1] = lines[1].replace(
        b'"prompt"', b'"extra": {"n": 1e2, "big": 12345678901234567890, "u": "\\u00e9\\/"} ,  "prompt"'
    )
    damaged = data([*lines[:4], b'{"type": ', *lines[4:]])
    plan = plan_of(damaged)
    assert plan.content == data(lines)
    assert plan.rejected == (b'{"type": ',)


def test_blank_lines_stay_where_they_are() -> None:
    content = LINES[0] + b"\n \t\r\n" + LINES[1] + b"\n\n" + b"\0\0\n" + LINES[2] + b"\n  "
    assert plan_of(content).content == LINES[0] + b"\n \t\r\n" + LINES[1] + b"\n\n" + LINES[2] + b"\n  "


def test_a_record_written_twice_is_kept_once() -> None:
    content = data([*LINES[:2], LINES[1] + LINES[1], LINES[2] + LINES[2], *LINES[3:]])
    plan = plan_of(content)
    assert plan.content == data(LINES)
    assert len(plan.rejected) == 3


class TestRepeatedIds:
    def test_a_second_checkpoint_of_a_known_id_is_set_aside_and_the_first_stays(self) -> None:
        lines = healthy(3)
        again = lines[5].replace(b'"cp_21_3"', b'"cp_1_1"').replace(b": 21", b": 31")
        again = again.replace(b'"cp_11_2"', b'"cp_21_3"')
        plan = plan_of(data([*lines, again]), evidence=Evidence(session_id=SID, last_sequence=30))
        assert plan.content == data(lines) and plan.rejected == (again,)
        assert plan.after.head == "cp_21_3" and plan.after.pending is None and plan.heads == ()
        ended = lines[2].replace(b'"event_end": 10', b'"event_end": 40')
        plan = plan_of(data([*lines, again, ended]))
        assert plan.content == data(lines) and plan.rejected == (again, ended)

    def test_a_second_one_while_the_first_goes_on_leaves_the_end_of_the_turn(self) -> None:
        lines = healthy(2)
        again = lines[3].replace(b"do ", b"did ")
        assert plan_of(data([*lines[:4], again, *lines[4:]])).content == data(lines)


class TestCycles:
    def test_a_cycle_is_cut_where_it_was_closed(self) -> None:
        lines = list(LINES)
        lines[1] = lines[1].replace(b'"parent": null', b'"parent": "cp_21_3"')
        assert plan_of(data(lines)).content == data(LINES)

    def test_a_checkpoint_that_is_its_own_parent(self) -> None:
        lines = list(LINES)
        lines[5] = lines[5].replace(b'"parent": "cp_11_2"', b'"parent": "cp_21_3"')
        plan = plan_of(data(lines))
        assert plan.content == data(LINES) and plan.rejected == (lines[5],)
        assert "parent is cp_11_2" in plan.steps[0].message

    def test_where_the_damage_hides_the_head_the_plan_says_that_it_guesses(self) -> None:
        lines = list(LINES)
        lines[5] = lines[5].replace(b'"parent": "cp_11_2"', b'"parent": "cp_21_3"')
        lost = (
            json.dumps(moved("cp_11_2", "cp_1_1", "cp_11_2", 9)).encode().replace(b"moved_at", b"moved\xff")
        )
        plan = plan_of(data([*lines[:5], lost, *lines[5:]]))
        assert any("guess" in step.message for step in plan.steps)
        assert problems(plan.content) == []


def test_parts_that_give_a_ref_of_no_session_are_not_one_record() -> None:
    """What was cut out of the middle took a part of the ref with it."""
    lines = list(healthy(2))
    reference = f"refs/yolop/checkpoints/{SID}/cp_11_2"
    lines[3] = lines[3].replace(b'"reference": null', f'"reference": "{reference}"'.encode())
    whole = lines[3]
    for gone, joined in ((30, False), (0, True)):
        at = whole.index(b"checkpoints/session") + 18
        torn = data([*lines[:3], whole[:at] + b"\n" + whole[at + gone :], lines[4]])
        plan = plan_of(torn, evidence=Evidence(session_id=SID))
        assert (whole in plan.content.split(b"\n")) == joined
        assert [one for one in problems(plan.content) if "foreign-reference" in one] == []


def test_a_ref_whose_damaged_name_nothing_tells_is_left_out() -> None:
    """As that of a recovery snapshot that was used up: its tree stays, its ref cannot be guessed."""
    reference = f"refs/yolop/checkpoints/{SID}/recovery_6_64ecd0`e"
    move = moved("cp_21_3", "cp_11_2", "cp_21_3", 9) | {
        "redo_snapshot": {"tree": TREE, "reference": reference}
    }
    content = data([*healthy(3), json.dumps(move).encode()])
    assert any("foreign-reference" in one for one in problems(content))
    plan = plan_of(content)
    assert problems(plan.content) == [] and plan.after.head == "cp_11_2"
    assert plan.after.redo is not None and plan.after.redo.snapshot is not None
    assert (plan.after.redo.snapshot.tree, plan.after.redo.snapshot.reference) == (TREE, None)


class TestOrder:
    """A parent whose record stands behind that of its child."""

    @pytest.mark.parametrize("turns", [[1, 0], [2, 1, 0], [0, 2, 1, 3], [3, 2, 0, 1]], ids=str)
    def test_turns_are_put_back_in_front_of_those_that_follow_from_them(self, turns: list[int]) -> None:
        lines = healthy(len(turns))
        content = data([lines[0], *(lines[1 + 2 * turn + half] for turn in turns for half in (0, 1))])
        assert any("parent-missing" in one for one in problems(content))
        plan = plan_of(content)
        last = json.loads(lines[-1])["checkpoint_id"]
        if turns[-1] == len(turns) - 1:
            assert not plan.heads
        else:
            # As the lines stand now the head is another one: which is right is not for us to say.
            assert plan.heads == (last, f"cp_{turns[-1] * 10 + 1}_{turns[-1] + 1}")
        chosen = plan_of(content, head=last)
        assert chosen.content == data(lines) and chosen.rejected == ()
        assert {step.action for step in chosen.steps} == {"order"}

    def test_only_the_beginning_moves_when_the_turn_ends_later(self) -> None:
        lines = healthy(3)
        plan = plan_of(data([*lines[:3], *lines[5:7], *lines[3:5]]), head="cp_21_3")
        assert plan.content == data(lines)
        late = lines[4].replace(b'"event_end": 20', b'"event_end": 30')
        plan = plan_of(data([*lines[:3], *lines[5:7], lines[3], late]), head="cp_21_3")
        assert [line for line in problems(plan.content) if "parent" in line or "overlap" in line] == []

    def test_turns_that_begin_at_the_same_event_stay_as_they_stand(self) -> None:
        lines = healthy(3)
        lines[1] = lines[1].replace(b'"event_start": 1,', b'"event_start": 11,')
        plan = plan_of(data(lines))
        kept = iter(plan.content.split(b"\n"))
        assert [line for line in lines if line not in kept] == []
        assert "order" not in {step.action for step in plan.steps}

    def test_a_parent_that_begins_later_is_not_believed(self) -> None:
        lines = healthy(3)
        wrong = lines[3].replace(b'"parent": "cp_1_1"', b'"parent": "cp_21_3"')
        right = lines[5].replace(b'"parent": "cp_11_2"', b'"parent": "cp_1_1"')
        plan = plan_of(data([*lines[:3], wrong, lines[4], right, lines[6]]))
        assert plan.after.nodes["cp_11_2"].checkpoint.parent == "cp_1_1" and plan.rejected == (wrong,)
        assert "begins later" in plan.steps[0].message
        assert [one for one in problems(plan.content) if "parent-missing" in one] == []

    def test_records_of_a_turn_in_any_order(self) -> None:
        lines = healthy(3)
        for swapped in ((3, 4), (2, 5), (1, 6), (1, 4)):
            mixed = list(lines)
            first, second = swapped
            mixed[first], mixed[second] = mixed[second], mixed[first]
            assert any("completed-unknown" in one or "parent" in one for one in problems(data(mixed)))
            plan = plan_of(data(mixed))
            plan = plan_of(data(mixed), head="cp_21_3") if plan.heads else plan
            found = problems(plan.content)
            assert [one for one in found if RULES[one.split(":")[0]].severity == "error"] == [], swapped
            assert not plan_of(plan.content).changes
            assert sorted(line for line in plan.content.split(b"\n") if line in lines) == sorted(lines)

    def test_a_head_that_is_asked_for_ends_a_turn_that_goes_on(self) -> None:
        lines = healthy(3)[:-1]
        plan = plan_of(data(lines), evidence=Evidence(session_id=SID, last_sequence=25), head="cp_1_1")
        assert plan.after.pending is None and plan.after.head == "cp_1_1"
        assert not plan_of(plan.content, evidence=Evidence(session_id=SID, last_sequence=25)).changes


class TestLostRecords:
    def test_a_lost_checkpoint_is_made_again_from_what_names_it(self) -> None:
        evidence = Evidence({"cp_11_2": TREE}, SID, ((11, "the lost prompt"),))
        content = data([*LINES[:3], b"\0" * 200 + b"garbage{", *LINES[4:]])
        plan = plan_of(content, evidence=evidence)
        made = plan.after.nodes["cp_11_2"].checkpoint
        assert (made.parent, made.prompt, made.event_start) == ("cp_1_1", "the lost prompt", 11)
        assert made.snapshot is not None and made.snapshot.tree == TREE
        assert made.snapshot.reference == f"refs/yolop/checkpoints/{SID}/cp_11_2"
        assert plan.after.active_path[:2] == ("cp_1_1", "cp_11_2")
        assert [step.action for step in plan.steps if step.line is None] == ["insert"]

    def test_what_can_still_be_read_of_it_is_used(self) -> None:
        content = data([*LINES[:3], LINES[3].replace(b"created_at", b"cre\xffted_at"), *LINES[4:]])
        made = plan_of(content).after.nodes["cp_11_2"].checkpoint
        original = json.loads(LINES[3])
        assert (made.parent, made.prompt) == (original["parent"], original["prompt"])
        assert made.snapshot_error

    def test_the_time_behind_a_block_of_nul_bytes_is_its_own(self) -> None:
        line = LINES[3]
        damaged = line[:120] + b"\0" * 50 + line[line.index(b'"snapshot"') + 5 :]
        assert stamp(1).encode() in damaged and stamp(1) != stamp(0)
        plan = plan_of(data([*LINES[:3], damaged, *LINES[4:]]))
        assert plan.after.nodes["cp_11_2"].checkpoint.created_at == stamp(1)

    def test_a_parent_that_ends_too_early_is_not_believed(self) -> None:
        lines = healthy(24)
        index = next(number for number, line in enumerate(lines) if b'"id": "cp_221_23"' in line)
        damaged = lines[index].replace(b'"parent": "cp_211_22"', b'"parent": "cp_211_2""')
        plan = plan_of(data([*lines[:index], damaged, *lines[index + 1 :]]))
        assert problems(plan.content) == []
        assert plan.after.nodes["cp_221_23"].checkpoint.parent == "cp_211_22"

    def test_a_lost_end_of_a_turn_is_closed_where_the_next_begins(self) -> None:
        content = data([*LINES[:2], *LINES[3:]])
        plan = plan_of(content)
        completion = plan.after.nodes["cp_1_1"].completion
        assert completion is not None and (completion.event_end, completion.success) == (10, False)

    def test_a_lost_baseline_reaches_to_the_first_turn(self) -> None:
        lines = [line.replace(b'"baseline_end": 0', b'"baseline_end": 7') for line in LINES]
        lines[1] = lines[1].replace(b'"event_start": 1,', b'"event_start": 8,').replace(b"cp_1_1", b"cp_8_1")
        lines = [line.replace(b"cp_1_1", b"cp_8_1") for line in lines]
        plan = plan_of(data([lines[0][:20], *lines[1:]]))
        assert plan.after.baseline_end == 7

    def test_a_lost_move_of_the_head_is_told_by_the_turn_after_it(self) -> None:
        lines = healthy(8)
        move = next(index for index, line in enumerate(lines) if b"head_moved" in line)
        plan = plan_of(data([*lines[:move], b"\xff" + lines[move][1:], *lines[move + 1 :]]))
        assert plan.after.active_path == timeline(data(lines)).state.active_path
        assert not plan.heads


class TestHeads:
    lines = healthy(3)
    move = json.dumps(moved("cp_21_3", "cp_1_1", "cp_21_3", 9)).encode()

    def damaged(self, move: bytes) -> bytes:
        return data([*self.lines, move, record(type="redo_cleared", cleared_at=stamp(9))])

    def test_it_refuses_to_choose_between_the_heads_that_are_possible(self) -> None:
        plan = plan_of(self.damaged(self.move.replace(b"moved_at", b"moved\xff")))
        assert plan.heads == ("cp_21_3", "cp_1_1")

    def test_any_checkpoint_is_possible_when_the_target_cannot_be_read(self) -> None:
        plan = plan_of(self.damaged(self.move.replace(b'"to": "cp', b'"to\xff": "cp')))
        assert plan.heads == ("cp_21_3", "cp_11_2", "cp_1_1", None)

    def test_it_does_what_head_says(self) -> None:
        content = self.damaged(self.move.replace(b"moved_at", b"moved\xff"))
        for head in ("cp_21_3", "cp_11_2", "cp_1_1"):
            plan = plan_of(content, head=head)
            assert plan.after.head == head and plan.heads == ()
            assert problems(plan.content) == []
            assert not plan_of(plan.content).changes
            assert not plan_of(plan.content, head=head).changes
        assert plan_of(content, head="none").after.head is None

    def test_a_head_that_is_no_checkpoint_is_refused(self) -> None:
        with pytest.raises(RefusedError):
            plan_of(data(self.lines), head="cp_9_9")

    def test_what_is_lost_at_the_very_end_never_took_effect(self) -> None:
        plan = plan_of(data([*self.lines, self.move[:70]]))
        assert plan.heads == () and plan.after.head == "cp_21_3"

    def test_a_torn_move_before_another_record_may_have_taken_effect(self) -> None:
        cleared = record(type="redo_cleared", cleared_at=stamp(9))
        plan = plan_of(data([*self.lines, self.move[:40] + cleared]))
        assert plan.heads == ("cp_21_3", "cp_11_2", "cp_1_1", None)
        assert plan_of(data([*self.lines, self.move[:9] + cleared])).heads
        # Written again, it says itself where the head is.
        plan = plan_of(data([*self.lines, self.move[:40] + self.move]))
        assert plan.heads == () and plan.after.head == "cp_1_1"

    def test_a_last_move_that_was_written_whole_took_effect(self) -> None:
        everywhere = ("cp_21_3", "cp_11_2", "cp_1_1", None)
        assert (
            plan_of(data([*self.lines, self.move.replace(b'"cp_1_1"', b'"cp_1\xff1"')])).heads == everywhere
        )
        twice = self.move.replace(b'"to": ', b'"to": "cp_11_2", "to": ')
        assert plan_of(data([*self.lines, twice])).heads == ("cp_21_3", "cp_11_2", "cp_1_1")

    def test_a_move_to_what_is_nowhere_is_no_head_and_makes_no_turn(self) -> None:
        lost = json.dumps(moved("cp_21_3", "cp_99_9", "cp_21_3", 9)).encode()
        plan = plan_of(data([*self.lines, lost]), evidence=Evidence(session_id=SID, last_sequence=30))
        assert plan.heads == ("cp_21_3", "cp_11_2", "cp_1_1", None)
        assert "cp_99_9" not in plan.after.nodes and plan.rejected == (lost,)
        assert plan.content == data(self.lines)

    @pytest.mark.parametrize("strategy", ["salvage", "rebuild"])
    def test_the_end_of_a_turn_that_is_nowhere_makes_no_turn_beyond_the_log(self, strategy: Strategy) -> None:
        lost = record(
            type="turn_completed", checkpoint_id="cp_42_1", event_end=45, success=True, completed_at=stamp(9)
        )
        content, evidence = data([*self.lines, lost]), Evidence(session_id=SID, last_sequence=30)
        plan = plan_of(content, strategy, evidence)
        assert plan.heads[0] == "cp_21_3" and "cp_42_1" not in plan.after.nodes
        assert plan_of(content, strategy, evidence, "cp_21_3").content == data(self.lines)

    def test_a_head_that_one_name_alone_tells_of_is_made_and_asked_about(self) -> None:
        lost = json.dumps(moved("cp_21_3", "cp_9_9", "cp_21_3", 9)).encode()
        plan = plan_of(data([*self.lines, lost]), evidence=Evidence(session_id=SID, last_sequence=30))
        assert plan.heads[0] == "cp_9_9" and len(plan.heads) == 5
        # Its ref, or its prompt in the log, is a second witness.
        witness = Evidence({"cp_31_4": TREE}, SID, last_sequence=40)
        ended = record(
            type="turn_completed", checkpoint_id="cp_31_4", event_end=40, success=True, completed_at=stamp(9)
        )
        plan = plan_of(data([*self.lines, ended]), evidence=witness)
        assert plan.heads == () and plan.after.head == "cp_31_4"

    def test_a_redo_and_a_parent_that_are_nowhere_become_the_head(self) -> None:
        evidence = Evidence(session_id=SID, last_sequence=40)
        back = json.dumps(moved("cp_21_3", "cp_1_1", "cp_99_9", 9)).encode()
        next_turn = self.lines[5].replace(b"cp_21_3", b"cp_31_4").replace(b": 21", b": 31")
        lost = next_turn.replace(b'"parent": "cp_11_2"', b'"parent": "cp_99_8"')
        plan = plan_of(data([*self.lines, back, lost]), evidence=evidence)
        assert plan.heads == () and list(plan.after.nodes) == ["cp_1_1", "cp_11_2", "cp_21_3", "cp_31_4"]
        assert plan.after.nodes["cp_31_4"].checkpoint.parent == "cp_1_1"
        assert plan.after.redo is not None and plan.after.redo.head == "cp_21_3"
        assert problems(plan.content) == []

    def test_a_later_record_that_tells_the_head_settles_it(self) -> None:
        more = [
            record(
                type="checkpoint_created",
                id="cp_31_4",
                parent="cp_1_1",
                prompt="",
                event_start=31,
                snapshot=None,
                snapshot_error=None,
                created_at=stamp(9),
            )
        ]
        plan = plan_of(data([*self.lines, b"\xff" + self.move, *more]))
        assert plan.heads == () and plan.after.head == "cp_1_1" and plan.after.pending == "cp_31_4"


class TestCorrections:
    def corrected(self, change: Callable[[list[bytes]], None]) -> Plan:
        lines = list(LINES)
        change(lines)
        plan = plan_of(data(lines))
        assert plan.content == data(LINES)
        assert {step.action for step in plan.steps} == {"correct"}
        assert [line for line in lines if line not in LINES] == list(plan.rejected)
        return plan

    def test_a_parent_with_a_damaged_letter(self) -> None:
        self.corrected(lambda lines: lines.__setitem__(5, lines[5].replace(b'"cp_11_2"', b'"cp_11_z"')))

    def test_an_id_with_a_damaged_letter(self) -> None:
        self.corrected(lambda lines: lines.__setitem__(3, lines[3].replace(b'"cp_11_2"', b'"cp_51_2"')))

    def test_a_start_that_runs_backward(self) -> None:
        self.corrected(
            lambda lines: lines.__setitem__(5, lines[5].replace(b'"event_start": 21', b'"event_start": 1'))
        )

    def test_a_turn_that_ends_after_the_next_begins(self) -> None:
        self.corrected(
            lambda lines: lines.__setitem__(4, lines[4].replace(b'"event_end": 20', b'"event_end": 90'))
        )

    def test_the_name_of_a_field(self) -> None:
        self.corrected(lambda lines: lines.__setitem__(3, lines[3].replace(b'"parent"', b'"pbrent"')))
        self.corrected(lambda lines: lines.__setitem__(3, lines[3].replace(b'"prompt"', b'"orompt"')))
        self.corrected(lambda lines: lines.__setitem__(3, lines[3].replace(b'"snapshot"', b'"snapshop"')))

    def test_a_tree_and_a_ref_are_told_by_the_repository(self) -> None:
        reference = f"refs/yolop/checkpoints/{SID}/cp_11_2"
        lines = list(LINES)
        snapshot = {"tree": TREE, "reference": reference}
        lines[3] = json.dumps(json.loads(lines[3]) | {"snapshot": snapshot}).encode()
        sound = data(lines)
        damaged = sound.replace(b"checkpoints/", b"checkpointz/").replace(b"aaaa", b"aaag", 1)
        assert plan_of(damaged, evidence=Evidence({"cp_11_2": TREE}, SID)).content == sound
        without = plan_of(sound.replace(b"aaaa", b"aaag", 1)).after.nodes["cp_11_2"].checkpoint
        assert without.snapshot is None and without.snapshot_error

    @pytest.mark.parametrize(
        ("tree", "name"),
        [
            (TREE, f"refs/yolop/checkpoints/{ELSEWHERE}/cp_11_2"),
            (TREE, f"refs/yolop/checkpoints/{SID}/cp_1_1"),
            (TREE, "refs/heads/main"),
            (OTHER, f"refs/yolop/checkpoints/{ELSEWHERE}/cp_11_2"),
            ("--help", None),
            ("", None),
            ("ab" * 20, None),
            ("--help", "refs/heads/main"),
        ],
    )
    def test_the_ref_of_a_turns_own_name_decides(self, tree: str, name: str | None) -> None:
        reference = f"refs/yolop/checkpoints/{SID}/cp_11_2"
        evidence = Evidence(
            {"cp_1_1": OTHER, "cp_11_2": TREE}, SID, refs_known=True, not_trees=frozenset({"ab" * 20})
        )
        lines = list(LINES)
        snapshots = [{"tree": TREE, "reference": reference}, {"tree": tree, "reference": name or reference}]
        sound, damaged = (
            data([*lines[:3], json.dumps(json.loads(lines[3]) | {"snapshot": one}).encode(), *lines[4:]])
            for one in snapshots
        )
        assert plan_of(damaged, evidence=evidence).content == sound
        assert not plan_of(sound, evidence=evidence).changes

    def test_a_start_inside_a_baseline_that_others_agree_with_moves_the_start(self) -> None:
        def created(name: str, parent: str | None, start: int) -> bytes:
            return record(
                type="checkpoint_created",
                id=name,
                parent=parent,
                prompt="",
                event_start=start,
                snapshot=None,
                created_at=stamp(start),
            )

        def ended(name: str, end: int) -> bytes:
            return record(
                type="turn_completed",
                checkpoint_id=name,
                event_end=end,
                success=True,
                completed_at=stamp(end),
            )

        lines = [
            record(type="initialized", baseline_end=40, created_at=stamp(0)),
            created("cp_41_1", None, 41),
            ended("cp_41_1", 42),
            created("cp_3_2", "cp_41_1", 3),
            ended("cp_3_2", 44),
            created("cp_45_3", "cp_3_2", 45),
            ended("cp_45_3", 46),
        ]
        plan = plan_of(data(lines))
        assert [step.line for step in plan.steps] == [4]
        assert plan.content == data(lines).replace(b'"event_start": 3,', b'"event_start": 43,')
        assert plan.after.active_path == ("cp_41_1", "cp_3_2", "cp_45_3")

    @pytest.mark.parametrize("start", [-5, -(2**31), 0])
    @pytest.mark.parametrize("where", [1, 5, None])
    def test_an_impossible_start_never_changes_the_baseline(self, start: int, where: int | None) -> None:
        lines = list(LINES)
        stray = json.loads(LINES[1]) | {"id": "cp_-5_77", "event_start": start, "parent": None}
        lines.insert(len(lines) if where is None else where, json.dumps(stray).encode())
        plan = plan_of(data(lines))
        assert plan.content.startswith(LINES[0] + b"\n")
        assert set(LINES) <= set(plan.content.split(b"\n"))
        assert [one for one in problems(plan.content) if RULES[one.split(":")[0]].severity == "error"] == []
        assert all(node.checkpoint.event_start > 0 for node in plan.after.nodes.values())
        assert plan.after.baseline_end == 0

    def test_a_tree_and_a_ref_that_are_both_there_and_differ_are_left(self) -> None:
        snapshot = {"tree": OTHER, "reference": f"refs/yolop/checkpoints/{SID}/cp_11_2"}
        lines = list(LINES)
        lines[3] = json.dumps(json.loads(lines[3]) | {"snapshot": snapshot}).encode()
        assert not plan_of(data(lines), evidence=Evidence({"cp_11_2": TREE}, SID, refs_known=True)).changes

    def test_a_ref_of_another_session_is_left_out_where_there_is_no_own(self) -> None:
        snapshot = {"tree": TREE, "reference": f"refs/yolop/checkpoints/{ELSEWHERE}/cp_11_2"}
        lines = list(LINES)
        lines[3] = json.dumps(json.loads(lines[3]) | {"snapshot": snapshot}).encode()
        assert not plan_of(data(lines)).changes  # the refs could not be read
        plan = plan_of(data(lines), evidence=Evidence({}, SID, refs_known=True))
        kept = plan.after.nodes["cp_11_2"].checkpoint.snapshot
        assert kept is not None and (kept.tree, kept.reference) == (TREE, None)


class TestRebuild:
    def test_a_lost_journal_is_made_again_from_refs_and_prompts(self) -> None:
        evidence = Evidence(
            {"cp_3_1": TREE, "cp_9_2": "b" * 40},
            SID,
            ((3, "one"), (10, "two"), (15, "three")),
            (5, 12),
            18,
        )
        plan = plan_of(None, "rebuild", evidence)
        assert problems(plan.content) == []
        state = plan.after
        assert state.baseline_end == 2 and state.head == "cp_15_3" and plan.heads == ()
        assert state.active_path == ("cp_3_1", "cp_9_2", "cp_15_3")
        nodes = [state.nodes[name] for name in state.active_path]
        assert [node.checkpoint.prompt for node in nodes] == ["one", "two", "three"]
        assert [node.event_end for node in nodes] == [8, 14, 18]
        assert [node.completion.success for node in nodes if node.completion] == [True, True, False]
        trees = [node.checkpoint.snapshot.tree if node.checkpoint.snapshot else None for node in nodes]
        assert trees == [TREE, "b" * 40, None]
        assert nodes[2].checkpoint.snapshot_error

    def test_readable_records_are_kept_and_only_gaps_are_filled(self) -> None:
        content = data([*LINES[:3], *LINES[5:9]])
        evidence = Evidence({"cp_11_2": TREE}, SID, ((1, "x"), (11, "lost"), (21, "y")), (), 60)
        plan = plan_of(content, "rebuild", evidence)
        assert problems(plan.content) == []
        assert plan.after.nodes["cp_11_2"].checkpoint.prompt == "lost"
        kept = iter(plan.content.split(b"\n"))
        assert [line for line in [*LINES[:3], *LINES[5:9]] if line not in kept] == []
        assert not plan_of(plan.content, "rebuild", evidence).changes

    def test_several_branches_ask_for_the_head(self) -> None:
        lines = healthy(7)[:-1]
        back = json.dumps(moved("cp_61_7", "cp_1_1", "cp_61_7", 9)).encode()
        evidence = Evidence({}, SID, ((81, "later"),), (), 85)
        plan = plan_of(data([*lines, back]), "rebuild", evidence)
        assert plan.heads and set(plan.heads) == {"cp_81_8", "cp_61_7"}
        assert plan_of(data([*lines, back]), "rebuild", evidence, "cp_61_7").after.head == "cp_61_7"

    def test_nothing_at_all_gives_nothing(self) -> None:
        assert not plan_of(None, "rebuild").changes


@given(st.randoms(use_true_random=False), st.sampled_from(["salvage", "truncate", "rebuild"]))
def test_whatever_is_in_the_file_a_repair_ends_in_readable_lines(
    rng: random.Random, strategy: Strategy
) -> None:
    content = bytearray(data(LINES[: rng.randint(1, 12)]))
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(content) + 1)
        content[at : at + rng.randint(0, 90)] = rng.choice(
            [b"", b"\0\0", b"\n", b"{", b"\xff", b'"', b"}\n{", b"x"]
        )
    plan = plan_of(bytes(content), strategy)
    if plan.heads:
        plan = plan_of(bytes(content), strategy, head=plan.heads[0] or "none")
    assert check_bytes(plan.content).status == "ok"
    again = plan_of(plan.content, strategy)
    assert not again.changes, [step.message for step in again.steps]


def test_an_unknown_field_one_letter_from_one_that_is_there_is_left_alone() -> None:
    start = record(type="initialized", baseline_end=0, created_at=NOW)
    fields = {"id": "cp_1_1", "parent": None, "prompt": "p", "event_start": 1, "created_at": NOW}
    created = record(type="checkpoint_created", **fields, snapshot=None, snapshut=None)
    ended = record(type="turn_completed", checkpoint_id="cp_1_1", event_end=1, success=True, completed_at=NOW)
    content = b"".join(line + b"\n" for line in (start, created, ended))
    assert plan_of(content).content == content


LISTS = {
    "a comma after each but the last": lambda lines: b",\n".join(lines) + b"\n",
    "a comma after each": lambda lines: b",\n".join(lines) + b",\n",
    "a list on many lines": lambda lines: b"[\n" + b",\n".join(lines) + b"\n]\n",
    "a list on one line": lambda lines: b"[" + b", ".join(lines) + b"]\n",
    "a list, indented": lambda lines: json.dumps([json.loads(line) for line in lines], indent=2).encode(),
    "each in a list": lambda lines: data([b"[" + line + b"]" for line in lines]),
    "two commas at the end": lambda lines: data([*lines[:-2], lines[-2] + b",", lines[-1] + b","]),
}


@pytest.mark.parametrize("name", LISTS)
def test_records_that_were_made_a_list_are_all_kept(name: str) -> None:
    lines = healthy(6)
    plan = plan_of(LISTS[name](lines))
    assert [json.loads(line) for line in plan.content.split(b"\n") if line] == [
        json.loads(line) for line in lines
    ]
    assert not plan.heads


@pytest.mark.parametrize("first", [2, 4])
def test_a_turn_whose_end_stands_later_is_not_ended_as_failed(first: int) -> None:
    """Two appends that crossed: the file is sound as it is."""
    lines = healthy(6)
    lines[first], lines[first + 1] = lines[first + 1], lines[first]
    assert not plan_of(data(lines)).changes
