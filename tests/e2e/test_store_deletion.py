"""What becomes of the snapshots in a directory's store when the session they were taken for goes, and what a
session that was forked may do with those of the one it comes from."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_crash import at_moment, spread
from tests.support import holders
from tests.support.agent import Agent
from tests.support.plainbox import PlainBox
from tests.support.sandbox import OTHER_SID, SID

GRANDCHILD = "session_00000000000070008000000000000003"


@pytest.fixture
def box(tmp_path: Path) -> PlainBox:
    """Two turns with files, a redo, and a snapshot that the user made."""
    made = PlainBox(tmp_path / "box")
    made.here()
    made.write("a.txt", "one\n")
    made.write(".cogitator/checkpoints.toml", 'grace = "0"\n')
    made.turn("first", [("a.txt", "two\n"), ("only", "of the first\n")])
    made.turn("second", [("a.txt", "three\n")])
    made.undo()
    return made


def users(box: PlainBox) -> str:
    made = box.cli("snapshot", "create", "--root", box.worktree, "--label", "mine", "--json")
    return str(made.json["id"])


def delete(box: PlainBox, *words: str, code: int = 0, **options: Any) -> Any:
    ran = box.cli("session", "delete", *words, "--json", code=code, **options)
    return ran.json if code == 0 else ran.error


def fork(box: PlainBox, sid: str = OTHER_SID, parent: str = SID, **metadata: Any) -> None:
    """A session with the records of another one, as forking will make it."""
    target = box.sessions / sid
    shutil.copytree(box.sessions / parent, target, ignore=shutil.ignore_patterns("capture.git"))
    for name in ("events.jsonl", "timeline.jsonl"):
        data = (target / name).read_bytes().replace(parent.encode(), sid.encode())
        box.private(target / name, data)
    value = {"active_root": str(box.worktree), "parent_session_id": parent, **metadata}
    box.private(target / "workspace.json", json.dumps(value))


def switched(box: PlainBox, sid: str) -> PlainBox:
    box.sid = sid
    box.agent = Agent(box.session)
    box.agent.sequence = 99
    return box


def listed(found: dict[str, Any], key: str) -> set[str]:
    return {one["snapshot_id"] for one in found[key]}


def test_delete_takes_the_sessions_snapshots_and_no_other(box: PlainBox) -> None:
    own = set(box.snapshots())
    mine = users(box)
    preview = delete(box)
    assert listed(preview, "snapshots") == own
    assert preview["kept_snapshots"] == []
    assert {one["root"] for one in preview["snapshots"]} == {str(box.worktree)}
    assert set(box.snapshots()) == {*own, mine}, "a preview deletes nothing"
    files = box.state()
    done = delete(box, "--token", preview["token"])
    assert done == {**preview, "deleted": True, "token": None}
    assert box.snapshots() == [mine]
    assert box.state() == files
    assert not box.session.exists()
    found = box.cli("snapshot", "gc", "--root", box.worktree, "--grace", "0", "--json", session=False).json
    assert found["deleted"] == 0, "what only they used went at once"
    assert box.cli("snapshot", "verify", "--root", box.worktree, "--json", session=False).json["ok"]


def test_the_preview_names_them_and_a_new_one_makes_its_token_stale(box: PlainBox) -> None:
    shown = box.cli("session", "delete").text
    for name in box.snapshots():
        assert f"would delete {name} in {box.worktree}" in shown
    token = delete(box)["token"]
    shutil.copy(
        box.worktree / f".cogitator/checkpoints/manifests/{box.snapshots()[0]}.json",
        box.worktree / ".cogitator/checkpoints/manifests/x.json",
    )
    delete(box, "--token", token)


def test_a_snapshot_taken_since_the_preview_is_stale(box: PlainBox) -> None:
    token = delete(box)["token"]
    waiting = box.records()
    box.turn("third", [("a.txt", "four\n")])
    box.private(box.timeline, b"".join(json.dumps(each).encode() + b"\n" for each in waiting))
    held = box.snapshots()
    assert delete(box, "--token", token, code=8)["code"] == "STALE"
    assert box.snapshots() == held


def test_what_a_fork_refers_to_stays_until_the_fork_goes(box: PlainBox) -> None:
    own = set(box.snapshots())
    fork(box)
    safety = box.records()[-1]["redo_file_snapshot"]["id"]
    kept = delete(box)["kept_snapshots"]
    assert {one["snapshot_id"] for one in kept} == own
    assert all(OTHER_SID in one["why"] for one in kept)
    delete(box, "--yes")
    assert set(box.snapshots()) == own

    switched(box, OTHER_SID)
    plan = delete(box)
    assert listed(plan, "snapshots") == own, "nobody else needs them any more"
    assert safety in own
    delete(box, "--yes")
    assert box.snapshots() == []


def test_deleting_a_fork_leaves_its_parents_snapshots(box: PlainBox) -> None:
    own = set(box.snapshots())
    fork(box)
    switched(box, OTHER_SID)
    new = box.turn("in the fork", [("a.txt", "fork\n")])
    extra = box.checkpoint(new)["workspace"]["snapshot_id"]
    assert listed(delete(box, "--yes"), "snapshots") == {extra}
    left = set(box.snapshots())
    assert own >= left and extra not in left


def test_a_session_of_unknown_content_may_need_everything(box: PlainBox) -> None:
    other = box.sessions / OTHER_SID
    other.mkdir(mode=0o700)
    (other / "timeline.jsonl").mkdir()
    found = delete(box)
    assert found["snapshots"] == []
    assert all(OTHER_SID in one["why"] for one in found["kept_snapshots"])


def test_a_mention_in_a_damaged_journal_counts(box: PlainBox) -> None:
    name = box.snapshots()[0]
    other = box.sessions / OTHER_SID
    other.mkdir(mode=0o700)
    box.private(other / "timeline.jsonl", b"\0\0{broken " + name.encode() + b"\n{}\n")
    found = delete(box, "--yes")
    assert listed(found, "kept_snapshots") == {name}
    assert box.snapshots() == [name]


def test_a_copy_that_a_user_made_elsewhere_stays(box: PlainBox) -> None:
    elsewhere = box.root / "elsewhere"
    elsewhere.mkdir()
    name = box.snapshots()[0]
    box.cli("snapshot", "copy", name, "--root", box.worktree, "--to", elsewhere, "--json")
    box.make_session(owned=False, root=elsewhere)
    found = delete(box)
    assert {one["root"] for one in found["snapshots"]} == {str(box.worktree)}
    delete(box, "--yes")
    assert os.listdir(elsewhere / ".cogitator/checkpoints/manifests") == [f"{name}.json"]


def test_a_directory_that_is_gone_is_named_and_does_not_stop_it(box: PlainBox) -> None:
    shutil.rmtree(box.worktree)
    found = delete(box, "--yes")
    assert found["snapshots"] == []
    assert {one["why"] for one in found["kept_snapshots"]} == {f"{box.worktree} is not here"}
    assert not box.session.exists()


def test_what_an_interrupted_restore_needs_stays(box: PlainBox) -> None:
    first, second = box.snapshots()[:2]
    box.write(
        ".cogitator/checkpoints/restoring.json",
        json.dumps({"snapshot_id": first, "safety_snapshot_id": second, "began_at": "2026-01-01T00:00:00Z"}),
        mode=0o600,
    )
    found = delete(box, "--yes")
    assert listed(found, "kept_snapshots") == {first, second}
    assert {first, second} <= set(box.snapshots())


def test_a_restore_in_the_directory_is_busy_and_nothing_goes(box: PlainBox) -> None:
    held = box.snapshots()
    with holders.flock(box.worktree / ".cogitator/checkpoints/locks/workspace.lock"):
        delete(box, "--yes", code=6)
    assert box.snapshots() == held
    assert box.session.exists()
    delete(box, "--yes")


def _killed_at(box: PlainBox, copy: Path, number: int, left: set[str]) -> None:
    shutil.rmtree(box.root)
    shutil.copytree(copy, box.root, symlinks=True)
    ran, _ = at_moment(box, "kill", number, "session", "delete", "--yes")
    assert ran.code in (0, -signal.SIGKILL), ran.dump()
    box.settle()
    if (box.session / "workspace.json").exists():
        box.cli("session", "delete", "--yes", "--json")
    assert set(box.snapshots()) == left, number
    found = box.cli("snapshot", "gc", "--root", box.worktree, "--grace", "0", "--json", session=False).json
    assert found["deferred"] == [], number
    assert not os.listdir(box.worktree / ".cogitator/checkpoints/tmp"), number
    again = box.cli("snapshot", "gc", "--root", box.worktree, "--grace", "0", "--json", session=False).json
    assert again["deleted"] == 0, number
    assert box.cli("snapshot", "verify", "--root", box.worktree, "--json", session=False).json["ok"], number


def _sweep(box: PlainBox, tmp_path: Path, samples: int) -> None:
    left = {users(box)}
    copy = tmp_path / "copy"
    shutil.copytree(box.root, copy, symlinks=True)
    ran, moments = at_moment(box, "count", 0, "session", "delete", "--yes")
    assert ran.code == 0, ran.dump()
    for number in spread(len(moments), samples):
        _killed_at(box, copy, number, left)


def test_killed_while_deleting(box: PlainBox, tmp_path: Path) -> None:
    _sweep(box, tmp_path, 6)


@pytest.mark.exhaustive
def test_killed_while_deleting_anywhere(box: PlainBox, tmp_path: Path) -> None:
    _sweep(box, tmp_path, 100_000)


# -- lineage


def test_a_fork_may_go_back_to_what_was_taken_for_its_parent(box: PlainBox) -> None:
    first = box.checkpoints("--all-branches")[-1]["id"]
    fork(box)
    fork(box, GRANDCHILD, OTHER_SID)
    for sid in (OTHER_SID, GRANDCHILD):
        switched(box, sid)
        assert box.checkpoint(first)["workspace"]["available"] is True
        box.back(first, None)
        assert box.read("a.txt") == b"one\n"
        assert not (box.worktree / "only").exists()
        box.redo()
        assert box.read("a.txt") == b"two\n"
    shutil.rmtree(box.sessions / SID)
    switched(box, OTHER_SID)
    box.back(first, None)
    assert box.read("a.txt") == b"one\n"


def test_retention_spares_what_a_fork_is_about_to_go_back_to(box: PlainBox) -> None:
    first = box.checkpoints("--all-branches")[-1]["id"]
    fork(box)
    switched(box, OTHER_SID)
    token = box.plan(first)["token"]
    users(box)
    box.cli("snapshot", "prune", "--root", box.worktree, "--keep-last", "1", "--json")
    box.apply(token)
    assert box.read("a.txt") == b"one\n"


@pytest.mark.parametrize("parent", [None, GRANDCHILD, "../" + SID, OTHER_SID, 7])
def test_another_lineage_is_refused(box: PlainBox, parent: object) -> None:
    first = box.checkpoints("--all-branches")[-1]["id"]
    fork(box, parent_session_id=parent)
    switched(box, OTHER_SID)
    files = box.state()
    assert box.checkpoint(first)["workspace"]["available"] is False
    refused = box.cli("rewind", "preview", first, "--mode", "files", "--json", code=4).error
    assert "another session" in refused["message"]
    assert box.state() == files


def test_the_lineage_goes_one_way_and_for_the_same_checkpoint_only(box: PlainBox) -> None:
    first, second = (one["id"] for one in reversed(box.checkpoints("--all-branches")))
    fork(box)
    switched(box, OTHER_SID)
    new = box.turn("in the fork", [("a.txt", "fork\n")])
    childs = box.checkpoint(new)["workspace"]["snapshot_id"]
    parents = box.checkpoint(first)["workspace"]["snapshot_id"]
    box.rewrite(lambda record: record.get("id") == new and record["file_snapshot"].update(id=parents))
    box.cli("rewind", "preview", new, "--mode", "files", "--json", code=4)
    switched(box, SID)
    box.rewrite(lambda record: record.get("id") == second and record["file_snapshot"].update(id=childs))
    box.cli("rewind", "preview", second, "--mode", "files", "--json", code=4)


def test_the_redo_of_a_parent_is_not_the_forks(box: PlainBox) -> None:
    fork(box)
    switched(box, OTHER_SID)
    box.cli("redo", "--yes", "--json", code=4)


def test_a_copied_snapshot_is_the_forks_in_its_own_directory(box: PlainBox) -> None:
    first = box.checkpoints("--all-branches")[-1]["id"]
    name = box.checkpoint(first)["workspace"]["snapshot_id"]
    elsewhere = box.root / "elsewhere"
    elsewhere.mkdir()
    fork(box, active_root=str(elsewhere))
    box.cli("snapshot", "copy", name, "--root", box.worktree, "--to", elsewhere, "--json")
    box.plain = elsewhere
    switched(box, OTHER_SID)
    box.back(first, None)
    assert box.read("a.txt") == b"one\n"
    plan = delete(box)
    assert listed(plan, "kept_snapshots") >= {name}, "the parent has its own of that name"
    switched(box, SID)
    delete(box, "--yes")
    switched(box, OTHER_SID)
    assert listed(delete(box), "snapshots") >= {name}
    delete(box, "--yes")
    assert box.snapshots() == []


def test_deleting_a_checkpoints_snapshot_that_a_fork_shares_is_refused(box: PlainBox) -> None:
    first = box.checkpoints("--all-branches")[-1]["id"]
    fork(box)
    held = box.snapshots()
    for sid, other in ((SID, OTHER_SID), (OTHER_SID, SID)):
        switched(box, sid)
        refused = box.cli("checkpoint", "delete", first, "--json", code=4).error
        assert other in refused["message"]
    assert box.snapshots() == held


@pytest.mark.parametrize("root", ["/a\0b", "", "relative", "/" + "x" * 5000])
def test_a_recorded_root_that_is_no_path(box: PlainBox, root: str) -> None:
    first = box.checkpoints("--all-branches")[-1]["id"]
    box.rewrite(lambda record: record.get("id") == first and record["file_snapshot"].update(root=root))
    assert box.checkpoint(first)["workspace"]["available"] is False
    box.cli("rewind", "preview", first, "--mode", "files", "--json", code=4)
    box.cli("timeline", "validate", "--json", code=(0, 1))
    box.cli("doctor", "--json", code=(0, 1))
    delete(box, "--yes")
