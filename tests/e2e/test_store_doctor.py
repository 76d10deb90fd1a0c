"""doctor on the store of the directory that a session works in."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_crash import at_moment
from tests.support import holders
from tests.support.plainbox import PlainBox
from tests.support.sandbox import OTHER_SID


@pytest.fixture
def box(tmp_path: Path) -> PlainBox:
    made = PlainBox(tmp_path / "box")
    made.here()
    made.write("a.txt", "one\n")
    made.turn("first", [("a.txt", "two\n")])
    return made


def examined(box: PlainBox, *words: str, code: int | tuple[int, ...] = 0) -> dict[str, Any]:
    return dict(box.cli("doctor", *words, "--json", code=code).json["sessions"][0])


def codes(report: dict[str, Any]) -> list[str]:
    return [one["code"] for one in report["findings"]]


def _forget(box: PlainBox, lines: int) -> None:
    """Lose the end of the journal, as after a restore of an old copy of it."""
    kept = box.timeline.read_bytes().splitlines(keepends=True)[:-lines]
    box.private(box.timeline, b"".join(kept))


def test_a_sound_store_has_nothing_against_it(box: PlainBox) -> None:
    box.cli("snapshot", "create", "--root", box.worktree, "--json")
    box.undo()
    assert codes(examined(box)) == []
    box.redo()
    box.plan(box.checkpoints("--all-branches")[0]["id"], "workspace")
    assert codes(examined(box)) == []


def test_a_snapshot_that_no_record_names_goes_when_another_holds_its_files(box: PlainBox) -> None:
    safety = box.undo()["recovery"]["snapshot_id"]
    _forget(box, 1)
    report = examined(box)
    assert codes(report) == ["snapshot-without-record"]
    assert report["fixable"] == []
    assert f"snapshot delete {safety}" in report["findings"][0]["fix"]
    examined(box, "--fix")
    assert safety in box.snapshots(), "it may be the only copy"

    box.write("a.txt", "two\n")
    box.cli("snapshot", "create", "--root", box.worktree, "--json")
    report = examined(box, code=1)
    assert [one["reference"] for one in report["fixable"]] == [safety]
    held = set(box.snapshots())
    report = examined(box, "--fix")
    assert [one["kind"] for one in report["fixed"]] == ["snapshot"]
    assert held - set(box.snapshots()) == {safety}
    assert codes(report) == []


def test_two_that_nobody_names_do_not_vouch_for_each_other(box: PlainBox) -> None:
    box.undo()
    box.redo()
    box.undo()
    box.write("a.txt", "two\n")
    second = box.turn("again")
    own = box.checkpoint(second)["workspace"]["snapshot_id"]
    records = [each for each in box.records() if each.get("id") != second and each["type"] != "head_moved"]
    box.private(box.timeline, b"".join(json.dumps(each).encode() + b"\n" for each in records))
    report = examined(box, "--fix", code=(0, 1))
    assert own in box.snapshots() and report["fixed"] == []


def test_one_that_a_fork_names_is_needed(box: PlainBox) -> None:
    safety = box.undo()["recovery"]["snapshot_id"]
    _forget(box, 1)
    other = box.sessions / OTHER_SID
    other.mkdir(mode=0o700)
    box.private(other / "timeline.jsonl", json.dumps({"x": safety}))
    assert codes(examined(box)) == []


def test_a_killed_create_is_named_and_tidied(box: PlainBox) -> None:
    box.write("b.txt", "b\n" * 1000)
    words = ("checkpoint", "create", "--prompt", "x", "--files")
    _, moments = at_moment(box, "count", 0, *words)
    box.cli("checkpoint", "complete", "--json")
    found = set()
    for number in range(1, len(moments) + 1):
        ran, _ = at_moment(box, "kill", number, *words)
        box.settle()
        assert ran.code in (0, -signal.SIGKILL)
        report = examined(box, code=(0, 1))
        found |= set(codes(report))
        box.write("b.txt", f"{number}\n" * 1000)
        if len(found & {"leftover", "snapshot-without-record"}) == 2:
            break
    assert found >= {"leftover", "snapshot-without-record"}
    report = examined(box, "--fix", code=(0, 1))
    assert "leftover" not in codes(report)
    assert not list((box.worktree / ".cogitator/checkpoints/tmp").iterdir())


def test_nothing_is_left_over_while_somebody_works(box: PlainBox) -> None:
    store = box.worktree / ".cogitator/checkpoints"
    (store / "tmp/tmp-0123456789abcdef").write_bytes(b"half")
    (store / "locks/create.1.00000000").touch()
    with holders.flock(store / "locks/create.1.00000000"):
        assert codes(examined(box)) == []
        examined(box, "--fix")
        assert (store / "tmp/tmp-0123456789abcdef").exists()
    assert codes(examined(box, code=1)) == ["leftover"]
    examined(box, "--fix")
    assert not (store / "tmp/tmp-0123456789abcdef").exists()


def test_an_interrupted_restore_of_the_directory_is_an_error(box: PlainBox) -> None:
    name = box.snapshots()[0]
    record = {"snapshot_id": name, "safety_snapshot_id": name, "began_at": "2026-01-01T00:00:00Z"}
    box.write(".cogitator/checkpoints/restoring.json", json.dumps(record), mode=0o600)
    report = examined(box, "--fix", code=1)
    assert codes(report) == ["interrupted-restore"]
    assert f"snapshot restore {name}" in report["findings"][0]["fix"]


def test_a_stale_restore_takes_its_safety_snapshot_along(box: PlainBox) -> None:
    held = set(box.snapshots())
    box.plan(box.checkpoints()[0]["id"], "workspace")
    box.agent.answer("more")
    assert codes(examined(box, code=1)) == ["stale-restore"]
    examined(box, "--fix")
    assert set(box.snapshots()) == held


def test_a_store_that_cannot_be_read_is_named(box: PlainBox) -> None:
    (box.worktree / ".cogitator/checkpoints/config.json").write_text("{")
    report = examined(box, code=(0, 1))
    assert "snapshots-unreachable" in codes(report)
