"""timeline validate and repair by the installed program: each kind, each moment of a crash, each refusal."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from tests.e2e.test_crash import at_moment, spread
from tests.support import holders, reader
from tests.support.sandbox import Sandbox
from tests.timeline.journals import DAMAGE, data, healthy, moved, stamp

FEW = (
    "NUL block inside a record",
    "half a record, then the next glued to it",
    "one record over several lines",
)
LINES = healthy(9, snapshots=False)


def kinds() -> list[object]:
    return [kind if kind in FEW else pytest.param(kind, marks=pytest.mark.exhaustive) for kind in DAMAGE]


def damaged(box: Sandbox, content: bytes) -> Path:
    box.session.mkdir(mode=0o700, exist_ok=True)
    return box.private(box.timeline, content)


@pytest.mark.parametrize("kind", kinds())
def test_validate_complains_repair_cures_and_twice_is_once(box: Sandbox, kind: str) -> None:
    damage, code, status, _ = DAMAGE[kind]
    original = damage(LINES)
    damaged(box, original)
    report = box.cli("timeline", "validate", "--strict", "--json", code=1).json
    assert report["ok"] is False
    assert code in [one["code"] for one in report["sessions"][0]["findings"]]
    assert report["sessions"][0]["status"] == status
    plan = box.cli("timeline", "repair", "--json", code=1).json
    assert box.timeline.read_bytes() == original and plan["steps"]
    done = box.cli("timeline", "repair", "--apply", "--json").json
    assert done["applied"] and done["steps"] == plan["steps"] and done["after"] == plan["after"]
    assert Path(done["backup"]).read_bytes() == original
    box.cli("timeline", "validate", "--strict")
    folded = box.folded()
    assert (folded.head, folded.pending) == (done["after"]["head"], done["after"]["pending"])
    mended = box.timeline.read_bytes()
    again = box.cli("timeline", "repair", "--apply", "--json").json
    assert not again["changes"] and not again["applied"] and box.timeline.read_bytes() == mended


def test_killed_at_any_moment_the_file_is_the_old_or_the_new_one(box: Sandbox) -> None:
    original = DAMAGE["NUL block inside a record"][0](LINES)
    damaged(box, original)
    _, moments = at_moment(box, "count", 0, "timeline", "repair", "--apply")
    mended = box.timeline.read_bytes()
    for number in spread(len(moments), 16):
        for leftover in box.session.iterdir():
            leftover.unlink()
        box.private(box.timeline, original)
        ran, _ = at_moment(box, "kill", number, "timeline", "repair", "--apply")
        assert ran.code == -signal.SIGKILL
        now = box.timeline.read_bytes()
        assert now in (original, mended), moments[number - 1]
        box.cli("timeline", "repair", "--apply")
        box.cli("timeline", "validate")
        assert box.timeline.read_bytes().count(b"\n") == mended.count(b"\n")
        # What was set aside is there once, however often the repair began.
        assert (box.session / "timeline.rejected.jsonl").read_bytes().count(b"\0" * 64) == 1
        assert any(one.read_bytes() == original for one in box.session.glob("*.bak-*"))


@pytest.mark.parametrize(
    "delay",
    [0.4, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (0.2, 0.3, 0.34, 0.5, 0.6, 0.8))],
)
def test_killed_after_any_time_the_file_is_the_old_or_the_new_one(box: Sandbox, delay: float) -> None:
    lines = healthy(2000, snapshots=False)
    original = data([*lines[:9], b"\0" * 64, *lines[9:]])
    damaged(box, original)
    ran = box.cli(
        "timeline", "repair", "--apply", code=(-9, 137, 0), prefix=("timeout", "-s", "KILL", str(delay))
    )
    assert box.timeline.read_bytes() in (original, data(lines)), ran.dump()
    box.cli("timeline", "repair", "--apply")
    assert box.timeline.read_bytes() == data(lines)


def test_a_disk_that_fails_at_any_moment_changes_nothing(box: Sandbox) -> None:
    original = DAMAGE["two records on one line"][0](LINES)
    damaged(box, original)
    _, moments = at_moment(box, "count", 0, "timeline", "repair", "--apply")
    mended = box.timeline.read_bytes()
    for number in spread(len(moments), 6):
        box.private(box.timeline, original)
        ran, _ = at_moment(box, "fail", number, "timeline", "repair", "--apply")
        assert ran.code in (0, 6, 9), ran.dump()
        assert box.timeline.read_bytes() == (mended if ran.code == 0 else original), moments[number - 1]
        assert b"Traceback" not in ran.err


def test_a_repair_that_fails_leaves_no_copies_and_says_how_things_stand(box: Sandbox) -> None:
    original = DAMAGE["NUL block inside a record"][0](LINES)
    damaged(box, original)
    (box.session / "timeline.rejected.jsonl").mkdir(mode=0o700)
    for _ in range(2):
        ran = box.cli("timeline", "repair", "--apply", code=9)
        assert b"timeline.jsonl is as it was" in ran.err and b"hint: " in ran.err
    assert not list(box.session.glob("*.bak-*")) and box.timeline.read_bytes() == original
    (box.session / "timeline.rejected.jsonl").rmdir()
    box.cli("timeline", "repair", "--apply")
    (copy,) = box.session.glob("*.bak-*")
    assert copy.read_bytes() == original


def test_the_copy_of_a_killed_repair_is_used_again(box: Sandbox) -> None:
    original = DAMAGE["two records on one line"][0](LINES)
    damaged(box, original)
    box.private(box.session / "timeline.jsonl.bak-20260101T000000Z", original)
    done = box.cli("timeline", "repair", "--apply", "--json").json
    assert [os.fspath(one) for one in box.session.glob("*.bak-*")] == [done["backup"]]


MOVED = json.dumps(moved("cp_21_3", "cp_1_1", "cp_21_3", 9)).encode()


class TestHeads:
    def damaged(self, box: Sandbox) -> bytes:
        cleared = json.dumps({"type": "redo_cleared", "cleared_at": stamp(9)}).encode()
        content = data([*healthy(3, snapshots=False), MOVED.replace(b"moved_at", b"moved\xff"), cleared])
        damaged(box, content)
        return content

    def test_it_refuses_to_choose(self, box: Sandbox) -> None:
        content = self.damaged(box)
        shown = box.cli("timeline", "repair", code=1).text
        assert "cp_21_3" in shown and "cp_1_1" in shown and "--head" in shown
        refused = box.cli("timeline", "repair", "--apply", "--json", code=4)
        assert refused.error["details"]["heads"] == ["cp_21_3", "cp_1_1"]
        assert box.timeline.read_bytes() == content
        assert os.listdir(box.session) == ["timeline.jsonl"]

    @pytest.mark.parametrize("head", ["cp_21_3", "cp_11_2", "none"])
    def test_with_head_it_does_what_it_is_told(self, box: Sandbox, head: str) -> None:
        self.damaged(box)
        box.cli("timeline", "repair", "--head", head, "--apply")
        assert box.folded().head == (None if head == "none" else head)
        box.cli("timeline", "validate")
        assert box.cli("timeline", "repair", "--apply", "--json").json["changes"] is False

    def test_an_unknown_head_is_refused(self, box: Sandbox) -> None:
        content = self.damaged(box)
        box.cli("timeline", "repair", "--head", "cp_9_9", "--apply", code=4)
        assert box.timeline.read_bytes() == content


def test_a_busy_session_is_left_alone(box: Sandbox) -> None:
    original = DAMAGE["NUL tail"][0](LINES)
    damaged(box, original)
    locks = box.sessions / ".locks"
    locks.mkdir(mode=0o700)
    lock = box.private(locks / box.sid, b"")
    with holders.flock(lock):
        box.cli("timeline", "repair", "--apply", code=6)
        box.cli("timeline", "validate", code=1)
        box.cli("timeline", "repair", code=1)
    assert box.timeline.read_bytes() == original


def test_validate_writes_nothing_at_all(ready: Sandbox) -> None:
    ready.cap()
    ready.timeline.write_bytes(ready.timeline.read_bytes()[:-30])

    def everything() -> dict[str, tuple[int, int, int]]:
        found = {}
        for top, directories, names in os.walk(ready.data):
            for name in [*directories, *names]:
                info = os.lstat(os.path.join(top, name))
                found[os.path.join(top, name)] = (info.st_mtime_ns, info.st_ctime_ns, info.st_size)
        return found

    before = everything()
    ready.cli("timeline", "validate", code=1)
    ready.cli("timeline", "validate", "--all", "--format", "sarif", code=1, session=False)
    ready.cli("timeline", "repair", code=1)
    ready.cli("event", "validate")
    ready.cli("compaction", "validate")
    ready.cli("doctor", code=1)
    assert everything() == before
    # Not a single file is opened for writing, a lock least of all.
    _, moments = at_moment(ready, "count", 0, "timeline", "validate", "--all")
    opened = [one for one in moments if str(ready.data) in one]
    assert opened == []


def test_truncate_and_what_it_sets_aside(box: Sandbox) -> None:
    content = data([*LINES[:4], b"\0" * 9, *LINES[4:]])
    damaged(box, content)
    before = box.cli("timeline", "show", "--json").json["head"]
    box.cli("timeline", "repair", "--strategy", "truncate", "--apply")
    assert box.timeline.read_bytes() == data(LINES[:4])
    assert box.folded().head == before
    rejected = (box.session / "timeline.rejected.jsonl").read_bytes()
    assert rejected == content[len(data(LINES[:4])) :] + b"\n"


def test_rebuild_a_journal_that_is_gone_and_rewind_with_it(ready: Sandbox) -> None:
    ready.write("f", "one\n")
    for number, text in enumerate(("first", "second", "third")):
        name = ready.create(text)["id"]
        ready.agent.ask(text)
        ready.write("f", f"after {number}\n")
        ready.agent.answer("done")
        ready.complete()
    sound = ready.folded()
    before = ready.timeline.read_bytes()
    ready.timeline.unlink()
    plan = ready.cli("timeline", "repair", "--strategy", "rebuild", "--json", code=1).json
    assert plan["after"]["active_path"] == sound.active_path and not ready.timeline.exists()
    ready.cli("timeline", "repair", "--strategy", "rebuild", "--apply")
    ready.cli("timeline", "validate", "--strict")
    assert stat.S_IMODE(ready.timeline.stat().st_mode) == 0o600
    records = {
        one["id"]: one for one in reader.records(ready.timeline) if one["type"] == "checkpoint_created"
    }
    lost = [json.loads(line) for line in before.split(b"\n") if b"checkpoint_created" in line]
    for one in lost:
        made = records[one["id"]]
        assert (made["prompt"], made["parent"], made["event_start"]) == (
            one["prompt"],
            one["parent"],
            one["event_start"],
        )
        assert made["snapshot"]["tree"] == one["snapshot"]["tree"]
        assert made["snapshot"]["capture"] == "raw"
    ready.back(name)
    assert ready.read("f") == b"after 1\n"


def test_a_pipe_in_the_place_of_the_journal_is_a_finding(box: Sandbox) -> None:
    box.session.mkdir(mode=0o700)
    os.mkfifo(box.timeline, 0o600)
    assert "unreadable-file" in box.cli("timeline", "validate", code=1, timeout=20).text
    box.cli("timeline", "repair", code=9, timeout=20)


@pytest.fixture
def undone(ready: Sandbox) -> Sandbox:
    """Two turns with files and a log, the last one undone."""
    for number in range(2):
        ready.write("f", f"{number}\n")
        ready.create(f"turn {number}")
        ready.agent.ask(f"turn {number}")
        ready.write("f", f"after {number}\n")
        ready.agent.answer("done")
        ready.complete()
    ready.undo("--mode", "both", "--yes")
    return ready


@pytest.mark.parametrize("strategy", ["salvage", "truncate"])
def test_a_redo_whose_files_are_gone_is_cleared(undone: Sandbox, strategy: str) -> None:
    before = undone.timeline.read_bytes()
    for name in undone.refs():
        if "recovery" in name:
            undone.git("update-ref", "-d", name)
    undone.private(undone.timeline, before + b'{"type":"redo_cl')
    found = undone.cli("timeline", "validate", "--json", code=1).json["sessions"][0]["findings"]
    assert "timeline repair clears the redo" in next(
        one["fix"] for one in found if one["code"] == "recovery-missing"
    )
    undone.cli("timeline", "repair", "--strategy", strategy, "--apply")
    undone.cli("timeline", "validate")
    assert undone.timeline.read_bytes().startswith(before)
    assert reader.records(undone.timeline)[-1]["type"] == "redo_cleared"
    assert undone.cli("timeline", "repair", "--json").json["changes"] is False


def test_half_a_redo_whose_files_are_gone_asks_for_the_head(undone: Sandbox) -> None:
    before = undone.timeline.read_bytes()
    undone.redo("--mode", "both", "--yes")
    undone.private(undone.timeline, undone.timeline.read_bytes()[: len(before) + 60])
    plan = undone.cli("timeline", "repair", "--json", code=1).json
    assert len(plan["heads"]) > 1
    undone.cli("timeline", "repair", "--head", plan["heads"][1], "--apply")
    undone.cli("timeline", "validate")


def test_a_redo_whose_files_are_there_stays(undone: Sandbox) -> None:
    assert undone.cli("timeline", "repair", "--json").json["changes"] is False


class TestALostJournal:
    """Two turns, their refs and their prompts are there; the journal is not."""

    @pytest.mark.parametrize("content", [None, b"", b"\0" * 3000, "first"])
    def test_it_is_an_error_and_rebuild_is_named(self, undone: Sandbox, content: bytes | str | None) -> None:
        first = undone.timeline.read_bytes().split(b"\n")[0] + b"\n"
        undone.timeline.unlink()
        if content is not None:
            undone.private(undone.timeline, first if isinstance(content, str) else content)
        for words in (("timeline", "validate"), ("doctor",)):
            found = undone.cli(*words, "--json", code=1).json["sessions"][0]["findings"]
            lost = next(one for one in found if one["code"] == "journal-lost")
            assert "--strategy rebuild" in lost["fix"] and "2 refs" in lost["message"]
        plan = undone.cli("timeline", "repair", "--json", code=1).json
        assert plan["rebuildable"] == 2
        shown = undone.cli("timeline", "repair", code=1).text
        assert "show 2 turns" in shown and "--strategy rebuild" in shown
        # The snapshot from before the restore tells that the head was moved, and no longer where to.
        rebuilt = undone.cli("timeline", "repair", "--strategy", "rebuild", "--json", code=1).json
        second, first_id = (one for one in rebuilt["heads"] if one != "none")
        assert rebuilt["heads"] == [second, first_id, "none"]
        undone.cli("timeline", "repair", "--strategy", "rebuild", "--apply", code=4)
        undone.cli("timeline", "repair", "--strategy", "rebuild", "--head", first_id, "--apply")
        undone.cli("timeline", "validate")
        assert undone.cli("timeline", "show", "--json").json["head"] == first_id

    def test_the_end_alone_is_lost_at_the_end_of_a_line(self, undone: Sandbox) -> None:
        lines = undone.timeline.read_bytes().splitlines(keepends=True)
        undone.private(undone.timeline, b"".join(lines[:3]))
        report = undone.cli("timeline", "validate", "--json").json["sessions"][0]
        found = {one["code"]: one for one in report["findings"]}
        assert "1 prompt in the log" in found["prompt-without-turn"]["message"]
        assert "--strategy rebuild" in found["prompt-without-turn"]["fix"]
        undone.cli("timeline", "validate", "--strict", code=1)
        assert "show 1 turn " in undone.cli("timeline", "repair").text

    def test_a_log_without_a_journal_is_a_session_older_than_checkpoints(self, ready: Sandbox) -> None:
        ready.agent.ask("hello")
        report = ready.cli("timeline", "validate", "--json").json["sessions"][0]
        assert [one["code"] for one in report["findings"]] == ["journal-absent"]

    @pytest.mark.parametrize("baseline", [None, 0])
    def test_prompts_above_the_baseline_without_a_checkpoint_are_lost_turns(
        self, ready: Sandbox, baseline: int | None
    ) -> None:
        """No ref tells of them: the log and the journal that was begun do."""
        first = {"type": "initialized", "baseline_end": baseline, "created_at": stamp(0)}
        ready.agent.ask("hello")
        ready.private(ready.timeline, b"" if baseline is None else data([json.dumps(first).encode()]))
        for words in (("timeline", "validate"), ("doctor",)):
            report = ready.cli(*words, "--json", code=1).json["sessions"][0]
            assert [one["code"] for one in report["findings"]] == ["journal-lost"]
        assert "1 turn" in ready.cli("timeline", "repair", code=1).text
        ready.cli("timeline", "repair", "--strategy", "rebuild", "--apply")
        assert [one["prompt"] for one in ready.checkpoints()] == ["hello"]

    def test_a_journal_that_was_just_begun_has_lost_nothing(self, ready: Sandbox) -> None:
        ready.agent.ask("hello")
        last = ready.agent.sequence
        first = {"type": "initialized", "baseline_end": last, "created_at": stamp(0)}
        ready.private(ready.timeline, data([json.dumps(first).encode()]))
        assert ready.cli("timeline", "validate", "--json").json["sessions"][0]["findings"] == []


def test_a_recovery_snapshot_without_its_record_hints_at_a_lost_move(undone: Sandbox) -> None:
    lines = undone.timeline.read_bytes().splitlines(keepends=True)
    undone.private(undone.timeline, b"".join(lines[:-1]))
    (name,) = (name for name in undone.refs() if "recovery" in name)
    for words in (("timeline", "validate"), ("doctor",)):
        found = undone.cli(*words, "--json", code=(0, 1)).json["sessions"][0]["findings"]
        (hint,) = (one for one in found if one["code"] == "recovery-without-record")
        assert hint["severity"] == "warning" and name in hint["fix"] and "--head ID" in hint["fix"]
    undone.cli("doctor", "--fix", code=(0, 1))
    assert name in undone.refs()
    assert b"\tf\n" in undone.git("ls-tree", "-r", name)
    undone.cli("timeline", "repair", "--head", "none", "--apply")
    assert undone.folded().head is None


def test_a_plan_with_nothing_to_do_says_what_it_does_not_mend(undone: Sandbox) -> None:
    tree = undone.git("rev-parse", undone.checkpoints()[0]["workspace"]["tree"]).decode().strip()
    (undone.repo / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    shown = undone.cli("timeline", "repair", code=1)
    assert "nothing to repair" in shown.text and "tree-missing" in shown.text


def test_the_command_that_is_shown_names_the_same_session(box: Sandbox) -> None:
    damaged(box, DAMAGE["two records on one line"][0](LINES))
    elsewhere = box.home / "other sessions"
    box.sessions.rename(elsewhere)
    named = ("--sessions-dir", str(elsewhere), "-s", box.sid)
    shown = box.cli("timeline", "repair", *named, code=1, session=False).text
    assert f"timeline repair --sessions-dir '{elsewhere}' -s {box.sid} --apply" in shown
