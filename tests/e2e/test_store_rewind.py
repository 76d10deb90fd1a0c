"""Rewinds of sessions that own no worktree: a plain directory, a shared checkout, and whatever stands in the
way."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.test_crash import at_moment
from tests.support import holders, program
from tests.support.agent import Agent
from tests.support.plainbox import PlainBox, State, three_turns
from tests.support.sandbox import OTHER_SID, SID, Sandbox


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[PlainBox, list[str], list[State], Path]:
    """Three turns, made once, and a copy to start each test from in the same place."""
    box = PlainBox(tmp_path_factory.mktemp("store") / "box")
    names, states = three_turns(box)
    copy = box.root.with_name("copy")
    shutil.copytree(box.root, copy, symlinks=True)
    return box, names, states, copy


@pytest.fixture
def three(template: tuple[PlainBox, list[str], list[State], Path]) -> tuple[PlainBox, list[str], list[State]]:
    """Three turns in a plain directory: the sandbox, the ids, the states before each turn and at the end."""
    box, names, states, copy = template
    shutil.rmtree(box.root)
    shutil.copytree(copy, box.root, symlinks=True)
    box.sid = SID
    box.agent = Agent(box.session)
    box.agent.sequence = 9
    return box, list(names), list(states)


@pytest.fixture
def plain(tmp_path: Path) -> PlainBox:
    """A plain directory with one file, and a session in it."""
    box = PlainBox(tmp_path / "box")
    box.here()
    box.write("a.txt", "one\n")
    return box


# -- checkpoints


def test_no_snapshot_unless_asked_for(plain: PlainBox) -> None:
    made = plain.create("x", "--prompt", "x")
    assert made["workspace"]["available"] is False
    assert "owns no worktree" in made["workspace"]["reason"]
    assert not (plain.worktree / ".cogitator").exists()
    plain.cli("checkpoint", "create", "--prompt", "x", "--require-workspace", "--json", code=7)


def test_asked_for_on_the_command_line_or_in_the_settings(plain: PlainBox) -> None:
    made = plain.create()
    assert made["workspace"]["kind"] == "store"
    assert made["workspace"]["available"] is True
    assert made["workspace"]["snapshot_id"] in plain.snapshots()
    recorded = plain.records()[-1]
    assert recorded["snapshot"] is None
    assert recorded["file_snapshot"]["id"] == made["workspace"]["snapshot_id"]
    assert recorded["file_snapshot"]["root"] == str(plain.worktree)
    plain.write(".cogitator/checkpoints.toml", "files = true\n")
    second = plain.create("x", "--prompt", "x")
    assert second["workspace"]["kind"] == "store"
    assert len(plain.snapshots()) == 2


def test_a_failing_snapshot_is_a_conversation_only_checkpoint_with_the_reason(plain: PlainBox) -> None:
    plain.write(".cogitator/checkpoints.toml", "files = maybe\n")
    made = plain.create()
    assert made["workspace"]["available"] is False
    assert "checkpoints.toml" in made["workspace"]["reason"]
    before = plain.timeline.read_bytes()
    plain.cli("checkpoint", "create", "--prompt", "x", "--files", "--require-workspace", "--json", code=2)
    assert plain.timeline.read_bytes() == before


def test_a_root_that_holds_the_sessions_is_refused(tmp_path: Path) -> None:
    box = PlainBox(tmp_path / "box")
    box.plain = box.root
    box.make_session(owned=False, root=box.root)
    made = box.create()
    assert made["workspace"]["available"] is False
    assert "sessions" in made["workspace"]["reason"]
    assert not (box.root / ".cogitator").exists()
    for root in (box.root, box.sessions, box.session):
        for words in (("create",), ("restore", "latest")):
            ran = box.cli("snapshot", *words, "--root", root, session=False, code=7)
            assert "holds the sessions" in ran.said
    assert not (box.root / ".cogitator").exists()


def test_a_session_that_owns_its_worktree_keeps_using_git(ready: Sandbox) -> None:
    ran = ready.cli("checkpoint", "create", "--prompt", "x", "--files", "--json").json
    assert ran["checkpoint"]["workspace"]["kind"] == "git"
    assert not (ready.worktree / ".cogitator").exists()


# -- there and back


@pytest.mark.parametrize("turn", [0, 1, 2])
def test_rewind_to_any_turn_and_redo(three: tuple[PlainBox, list[str], list[State]], turn: int) -> None:
    box, names, states = three
    plan = box.plan(names[turn], None)
    assert plan["mode"] == "both"
    assert plan["recovery"]["tree"] == plan["workspace"]["current_tree"]
    assert plan["recovery"]["snapshot_id"] in box.snapshots()
    assert box.state() == states[3]
    done = box.apply(plan["token"]).json
    assert box.state() == states[turn]
    assert done["workspace"]["tree"] == plan["workspace"]["target_tree"]
    assert done["head"]["to"] == (names[turn - 1] if turn else None)
    moved = box.records()[-1]
    assert moved["redo_snapshot"] is None
    assert moved["redo_file_snapshot"]["id"] == plan["recovery"]["snapshot_id"]
    box.redo()
    assert box.state() == states[3]
    assert box.folded().head == names[2]
    assert plan["recovery"]["snapshot_id"] not in box.snapshots(), "a redo that was used up goes"
    box.cli("undo", "--yes", "--json")
    assert box.state() == states[2]


def test_each_axis_alone(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, states = three
    box.cli("rewind", "preview", names[0], "--no-files", "--no-conversation", "--json", code=2)
    box.cli("rewind", "preview", names[0], "--mode", "chat", "--no-conversation", "--json", code=2)
    talk = box.cli("rewind", "preview", names[0], "--no-files", "--json").json
    assert (talk["mode"], talk["workspace"]) == ("conversation", None)
    files = box.cli("rewind", "preview", names[1], "--no-conversation", "--json").json
    assert (files["mode"], files["conversation"]) == ("workspace", None)
    box.apply(files["token"])
    assert box.state() == states[1]
    assert box.folded().head == names[2]
    box.cli("redo", "--no-conversation", "--yes", "--json")
    assert box.state() == states[3]


def test_a_new_turn_clears_the_redo_and_its_snapshot(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, _ = three
    safety = box.back(names[1], None)["recovery"]["snapshot_id"]
    assert safety in box.snapshots()
    box.cap("fourth")
    assert safety not in box.snapshots()
    box.cli("redo", "--yes", "--json", code=4)


def test_cancel_drops_the_safety_snapshot_and_so_does_the_next_preview(
    three: tuple[PlainBox, list[str], list[State]],
) -> None:
    box, names, states = three
    first = box.plan(names[0])["recovery"]["snapshot_id"]
    second = box.plan(names[1])["recovery"]["snapshot_id"]
    assert first not in box.snapshots()
    box.cli("rewind", "cancel", "--json")
    assert second not in box.snapshots()
    assert box.state() == states[3]


def test_retention_spares_what_redo_and_a_waiting_restore_need(
    three: tuple[PlainBox, list[str], list[State]],
) -> None:
    box, names, states = three
    box.write(".cogitator/checkpoints.toml", "keep-last = 1\n")
    box.back(names[1], None)
    box.cli("snapshot", "create", "--root", box.worktree, "--json")
    box.cli("snapshot", "prune", "--root", box.worktree, "--keep-last", "1", "--json")
    waiting = box.cli("redo", "--json").json
    box.cli("snapshot", "create", "--root", box.worktree, "--json")
    box.apply(waiting["token"])
    assert box.state() == states[3]


def test_the_main_checkout_works_through_the_store_and_git_sees_nothing(tmp_path: Path) -> None:
    box = PlainBox(tmp_path / "box")
    box.make_repo()
    box.plain = box.repo
    box.make_session(owned=False, root=box.repo, repo_root=str(box.repo))
    git = box.gitstates()
    name = box.turn("edit", [("a.txt", "two\n"), ("new", "n\n")])
    box.back(name, None)
    assert box.read("a.txt") == b"one\n"
    assert not (box.repo / "new").exists()
    assert box.gitstates() == git
    assert box.refs() == {}
    box.redo()
    assert (box.read("a.txt"), box.read("new")) == (b"two\n", b"n\n")


# -- what is left alone, and what stops it


def test_kept_and_skipped_paths_stay_and_are_named(plain: PlainBox) -> None:
    plain.write(".cogitator/checkpoints.toml", 'exclude = ["*.log"]\nmax-file-bytes = 100\n')
    plain.write("big", "b" * 200)
    name = plain.turn("edit", [("x.log", "log\n"), ("big", "c" * 300), ("node_modules/m", "m\n")])
    plain.write("a.txt", "two\n")
    plan = plain.plan(name, None)
    assert program.changes(plan) == {b"a.txt": "modified"}
    assert program.kept(plan) == {b"x.log": "excluded", b"big": "too-large", b"node_modules": "excluded"}
    done = plain.apply(plan["token"]).json
    assert program.kept(done) == program.kept(plan)
    assert plain.read("big") == b"c" * 300
    assert plain.read("x.log") == b"log\n"


def test_a_change_that_could_not_be_undone_is_denied(plain: PlainBox) -> None:
    name = plain.turn("edit", [("a.txt", "two\n")])
    plain.write(".cogitator/checkpoints.toml", 'exclude = ["a.*"]\n')
    before = plain.state()
    ran = plain.cli("rewind", "preview", name, "--json", code=7)
    assert ran.error["details"]["paths"] == ["a.txt"]
    assert plain.state() == before
    assert not (plain.session / "restore.json").exists()


def test_stale_when_a_file_moved_since_the_preview(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, _ = three
    token = box.plan(names[1], None)["token"]
    box.write("other", "mine\n")
    before, records = box.state(), box.timeline.read_bytes()
    box.apply(token, code=8)
    assert (box.state(), box.timeline.read_bytes()) == (before, records)
    (box.worktree / "other").unlink()
    box.apply(token)


def test_busy_for_a_process_in_the_directory_unless_forced(
    three: tuple[PlainBox, list[str], list[State]],
) -> None:
    box, names, states = three
    token = box.plan(names[1], None)["token"]
    with holders.standing_in(box.worktree / "d") as pid:
        box.apply(token, code=6)
        assert box.state() == states[3]
        done = box.cli("rewind", "apply", token, "--force", "--json").json
        assert [each["pid"] for each in done["overrode"]] == [pid]
        assert box.state() == states[1]
        said = box.cli("redo", "--yes", "--force").said
        assert str(pid) in said
        assert box.state() == states[3]


def test_force_is_for_a_worktree_too(ready: Sandbox) -> None:
    name = ready.turn("edit", [("a.txt", "two\n")])
    token = ready.plan(name, None)["token"]
    with holders.standing_in(ready.worktree) as pid:
        ready.apply(token, code=6)
        done = ready.cli("rewind", "apply", token, "--force", "--json").json
        assert [each["pid"] for each in done["overrode"]] == [pid]
    assert ready.read("a.txt") == b"one\n"


@pytest.mark.parametrize("where", ["same", "inside", "around"])
def test_another_session_at_work_around_the_root_is_busy_and_never_forced(
    three: tuple[PlainBox, list[str], list[State]], where: str
) -> None:
    box, names, states = three
    root = {"same": box.worktree, "inside": box.worktree / "d", "around": box.root}[where]
    other = box.sessions / OTHER_SID
    other.mkdir(mode=0o700)
    box.private(other / "workspace.json", json.dumps({"active_root": str(root)}))
    token = box.plan(names[1], None)["token"]
    restore = ("snapshot", "restore", box.snapshots()[0], "--root", box.worktree, "--json")
    with holders.flock(box.sessions / ".locks" / OTHER_SID):
        assert OTHER_SID in box.cli("rewind", "apply", token, "--force", "--json", code=6).error["message"]
        for words in (restore, (*restore, "--force")):
            assert OTHER_SID in box.cli(*words, session=False, code=6).error["message"]
        assert box.state() == states[3]
    box.apply(token)
    assert box.state() == states[1]


def test_without_its_safety_snapshot_a_prepared_rewind_is_stale(
    three: tuple[PlainBox, list[str], list[State]],
) -> None:
    box, names, states = three
    plan = box.plan(names[1], None)
    box.cli("snapshot", "delete", plan["recovery"]["snapshot_id"], "--root", box.worktree, session=False)
    refused = box.cli("rewind", "apply", plan["token"], "--json", code=8)
    assert "preview" in refused.error["hint"] and box.state() == states[3]
    box.apply(box.plan(names[1], None)["token"])
    assert box.state() == states[1]


def test_two_sessions_share_one_root(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, states = three
    first = box.sid
    box.sid = OTHER_SID
    box.make_session(owned=False, root=box.worktree)
    box.agent = Agent(box.session)
    mine = box.turn("other", [("a.txt", "other\n")])
    own = box.checkpoint(mine)["workspace"]["snapshot_id"]
    box.back(mine, None)
    assert box.state() == states[3]
    box.sid = first
    box.rewrite(lambda record: record.get("id") == names[1] and record["file_snapshot"].update(id=own))
    box.cli("rewind", "preview", names[1], "--mode", "files", "--json", code=4)
    box.back(names[0], None)
    assert box.state() == states[0]


# -- what a journal says is not believed


@pytest.mark.parametrize("forgery", ["checkpoint", "unknown", "malformed", "workspace", "root", "safety"])
def test_forged_references_are_refused_before_anything_changes(
    three: tuple[PlainBox, list[str], list[State]], forgery: str
) -> None:
    box, names, states = three
    ids = {name: box.checkpoint(name)["workspace"]["snapshot_id"] for name in names}
    if forgery == "safety":
        box.back(names[1], "conversation")
        box.redo()
    change = {
        "checkpoint": {"id": ids[names[0]]},
        "unknown": {"id": "snap_" + "0" * 24},
        "malformed": {"id": "../../../etc/passwd"},
        "workspace": {"workspace_id": "ws_" + "0" * 32},
        "root": {"root": str(box.home)},
        "safety": {"id": box.plan(names[1])["recovery"]["snapshot_id"]},
    }[forgery]
    box.rewrite(lambda record: record.get("id") == names[1] and record["file_snapshot"].update(change))
    held, records = box.snapshots(), box.timeline.read_bytes()
    view = box.checkpoint(names[1])["workspace"]
    assert view["available"] is False
    assert view["kind"] == "store"
    assert view["reason"]
    box.cli("rewind", "preview", names[1], "--mode", "files", "--json", code=4)
    assert (box.state(), box.timeline.read_bytes(), box.snapshots()) == (states[3], records, held)
    if forgery != "unknown":
        box.cli("rewind", "preview", names[1], "--json", code=4)
    box.cli("rewind", "preview", names[1], "--mode", "chat", "--json")


def test_a_forged_redo_is_refused(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, states = three
    first = box.checkpoint(names[0])["workspace"]["snapshot_id"]
    box.back(names[1], None)
    box.rewrite(
        lambda record: "redo_file_snapshot" in record and record["redo_file_snapshot"].update(id=first)
    )
    box.cli("redo", "--yes", "--json", code=4)
    assert box.state() == states[1]
    box.cap("next")
    assert first in box.snapshots(), "clearing a redo deletes no snapshot of a checkpoint"


def test_a_root_that_moved_is_refused(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, _ = three
    elsewhere = box.root / "elsewhere"
    elsewhere.mkdir()
    box.make_session(owned=False, root=elsewhere)
    box.cli("rewind", "preview", names[1], "--mode", "files", "--json", code=4)
    box.cli("snapshot", "create", "--root", elsewhere, "--json")
    box.cli("rewind", "preview", names[1], "--mode", "files", "--json", code=4)
    shutil.copytree(box.worktree / ".cogitator", elsewhere / ".cogitator", dirs_exist_ok=True)
    box.cli("rewind", "preview", names[1], "--mode", "files", "--json", code=4)
    assert os.listdir(elsewhere) == [".cogitator"]


# -- points between turns


def test_the_end_of_a_turn_is_exact_on_every_branch(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, states = three
    end = box.checkpoint(names[0])["event_end"]
    for _ in range(2):
        plan = box.cli("rewind", "preview", "--to-event", str(end), "--json").json
        assert (plan["exact"], plan["checkpoint_id"]) == (True, names[1])
        box.apply(plan["token"])
        assert box.state() == states[1]
        assert box.folded().head == names[0]
        box.write("a.txt", "something else\n")
    inside = box.cli("rewind", "preview", "--to-event", str(end - 1), "--json").json
    assert (inside["exact"], inside["checkpoint_id"]) == (False, names[0])
    last = box.turn("again", [("a.txt", "again\n")])
    plan = box.cli("rewind", "preview", "--to-event", str(end), "--json").json
    assert (plan["exact"], plan["checkpoint_id"]) == (True, last), "the one written last"


# -- cut off


def _scene(box: PlainBox) -> tuple[str, State, State]:
    box.here()
    for number in range(4):
        box.write(f"f{number}", f"old {number}\n")
    box.write("gone/deep/f", "old gone\n")
    box.write("type", "old file\n")
    box.write("dir/x", "old x\n")
    box.write("mode", "m\n")
    (box.worktree / "closed").mkdir()
    box.write("closed/c", "old c\n")
    (box.worktree / "closed").chmod(0o500)
    old = box.state()
    name = box.cap()
    (box.worktree / "closed").chmod(0o700)
    box.write("closed/c", "new c\n")
    (box.worktree / "closed").chmod(0o550)
    for number in range(4):
        box.write(f"f{number}", f"new {number}\n")
    shutil.rmtree(box.worktree / "gone")
    (box.worktree / "type").unlink()
    box.write("type/inner", "new inner\n")
    shutil.rmtree(box.worktree / "dir")
    box.write("dir", "new file\n")
    (box.worktree / "mode").chmod(0o755)
    box.write("d/n", "new n\n")
    return name, old, box.state()


def test_taking_back_leaves_alone_what_somebody_changed_since(tmp_path: Path) -> None:
    box = PlainBox(tmp_path / "box")
    name, _, new = _scene(box)
    token = str(box.plan(name, None)["token"])
    at_moment(box, "kill", r"os\.rename .*b'f1'", "rewind", "apply", token)  # f0 comes before it
    box.settle()
    assert box.read("f0") == b"old 0\n"
    box.write("f0", "mine\n")
    box.write("gone/deep/mine", "mine too\n")
    box.write("unrelated", "u\n")
    done = box.cli("rewind", "cancel", "--json").json
    assert {program.path_bytes(each["path"]) for each in done["kept"]} >= {b"f0"}
    assert box.read("f0") == b"mine\n"
    assert box.read("gone/deep/mine") == b"mine too\n"
    assert box.read("unrelated") == b"u\n"
    after = box.state()
    for path in (b"f1", b"f2", b"f3", b"type/inner", b"dir", b"d/n", b"closed", b"closed/c"):
        assert after[path] == new[path], path
    assert done["recovery"]["snapshot_id"] in box.snapshots()


# -- looking at them


def test_show_cat_extract_and_verify(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, _ = three
    shown = box.cli("checkpoint", "show", names[2], "--json").json["checkpoint"]["workspace"]
    assert (shown["kind"], shown["tree"], shown["reference"]) == ("store", None, None)
    assert shown["snapshot_id"] in box.cli("checkpoint", "show", names[2]).text
    assert box.cli("checkpoint", "cat", names[2], "a.txt").out == b"three\n"
    assert box.cli("checkpoint", "cat", names[2], str(box.worktree / "a.txt")).out == b"three\n"
    assert box.cli("checkpoint", "cat", names[2], "link", "--json").json["content"] == "nowhere"
    box.cli("checkpoint", "cat", names[2], "none", "--json", code=3)
    box.cli("checkpoint", "extract", names[2], str(box.root / "out"), "--json")
    assert (box.root / "out" / "d/e/f").read_bytes() == b"deep\n"
    assert (box.root / "out" / os.fsdecode(b"n\xff")).read_bytes() == b"odd\n"
    found = box.cli("checkpoint", "verify", "--json").json
    assert [row["status"] for row in found["checkpoints"]] == ["ok", "ok", "ok"]
    assert all(row["blobs"] for row in found["checkpoints"])


def test_diff_against_another_checkpoint_and_the_present(
    three: tuple[PlainBox, list[str], list[State]],
) -> None:
    box, names, _ = three
    now = box.cli("checkpoint", "diff", names[2], "--json").json
    assert {each["path"]: each["change"] for each in now["changes"]} == {"a.txt": "modified", "last": "added"}
    lines = {each["path"]: (each["insertions"], each["deletions"]) for each in now["changes"]}
    assert lines == {"a.txt": (1, 1), "last": (1, 0)}
    patch = box.cli("checkpoint", "diff", names[2], "--patch").text
    assert "-three\n+four\n" in patch
    assert "+++ b/last\n@@ -0,0 +1 @@\n+l\n" in patch
    between = box.cli("checkpoint", "diff", names[0], names[1], "--json").json
    found = {program.path_bytes(each["path"]): each["change"] for each in between["changes"]}
    assert found[b"n\xff"] == "added"
    assert found[b"empty"] == "deleted"
    assert found[b"run"] == "mode"
    assert box.cli("checkpoint", "diff", names[0], names[0], "--exit-code").out == b""
    box.cli("checkpoint", "diff", names[0], names[1], "--exit-code", code=1)


def test_verify_names_what_rotted(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, _names, _ = three
    for pack in (box.worktree / ".cogitator/checkpoints/packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[0] ^= 0xFF
        pack.write_bytes(data)
    found = box.cli("checkpoint", "verify", "--json", code=1).json
    assert any(row["problems"] for row in found["checkpoints"])


def test_delete_leaves_a_conversation_only_checkpoint(three: tuple[PlainBox, list[str], list[State]]) -> None:
    box, names, states = three
    own = box.checkpoint(names[1])["workspace"]["snapshot_id"]
    gone = box.cli("checkpoint", "delete", names[1], "--json").json
    assert gone["deleted_reference"] == own
    assert gone["checkpoint"]["workspace"]["available"] is False
    assert own not in box.snapshots()
    box.cli("rewind", "preview", names[1], "--mode", "both", "--json", code=4)
    assert box.plan(names[1], None)["mode"] == "conversation"
    box.cli("rewind", "cancel", "--json")
    assert box.cli("checkpoint", "delete", names[1], "--json").json["deleted_reference"] is None
    box.rewrite(lambda record: record.get("id") == names[2] and record.update(id="cp_7_9"))
    box.cli("checkpoint", "delete", "cp_7_9", "--json", code=4)
    assert box.state() == states[3]


def test_validate_names_snapshots_that_are_gone_or_forged(
    three: tuple[PlainBox, list[str], list[State]],
) -> None:
    box, names, _ = three
    clean = box.cli("timeline", "validate", "--json").json["sessions"][0]["findings"]
    assert clean == []
    safety = box.back(names[2], None)["recovery"]["snapshot_id"]
    box.cli("checkpoint", "delete", names[0], "--json")
    box.cli("snapshot", "delete", safety, "--root", box.worktree, "--json")
    found = box.cli("timeline", "validate", "--json", code=1).json["sessions"][0]["findings"]
    assert [each["code"] for each in found] == ["file-snapshot-refused", "recovery-missing"]
    box.cli("redo", "--yes", "--json", code=4)
