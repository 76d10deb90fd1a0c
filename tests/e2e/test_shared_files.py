"""What a restore shares with others: names of a file, the readers of its output, the file it prints to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.program import PROGRAM
from tests.support.sandbox import Sandbox


def test_two_names_of_one_file_are_both_restored(ready: Sandbox) -> None:
    ready.write("h1", "h\n")
    os.link(ready.worktree / "h1", ready.worktree / "h2")
    cp = ready.cap()
    with (ready.worktree / "h1").open("a") as file:
        file.write("changed\n")
    assert ready.read("h2") == b"h\nchanged\n"
    before = ready.state()
    ready.back(cp)
    assert ready.read("h1") == ready.read("h2") == b"h\n"
    ready.redo()
    assert ready.state() == before


def test_another_name_outside_the_worktree_keeps_its_bytes_and_its_mode(ready: Sandbox) -> None:
    outside = ready.root / "outside"
    for name in ("bytes", "mode"):
        ready.write(name, f"{name}\n")
    cp = ready.cap()
    for name in ("bytes", "mode"):
        os.link(ready.worktree / name, f"{outside}-{name}")
    (ready.worktree / "bytes").write_bytes(b"edited\n")
    (ready.worktree / "mode").chmod(0o755)
    ready.back(cp)
    assert ready.read("bytes") == b"bytes\n"
    assert (ready.worktree / "mode").stat().st_mode & 0o777 == 0o644
    with open(f"{outside}-bytes", "rb") as file:
        assert file.read() == b"edited\n"
    assert os.stat(f"{outside}-mode").st_mode & 0o777 == 0o755


def in_shell(box: Sandbox, script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script}"],
        cwd=box.worktree,
        env=box.environment({"PATH": f"{Path(PROGRAM).parent}:{box.env['PATH']}"}),
        capture_output=True,
    )


def test_the_readers_of_the_output_are_not_at_work_in_the_worktree(ready: Sandbox) -> None:
    cp = ready.cap()
    for script in (
        "yolop-cli undo --yes --mode files | cat",
        "yolop-cli undo --yes --mode files --json 2>&1 | cat | tail -n 3",
        "yes | yolop-cli undo --yes --mode files | cat >/dev/null",
    ):
        ready.write("a.txt", "edited\n")
        ran = in_shell(ready, script)
        assert ran.returncode in (0, 141), ran
        assert ready.read("a.txt") == b"one\n", (script, ran)
    assert cp


def test_a_process_that_only_writes_to_the_same_pipe_is_at_work(ready: Sandbox) -> None:
    ready.cap()
    ready.write("a.txt", "edited\n")
    ran = in_shell(
        ready, "{ sleep 20 & yolop-cli undo --yes --mode files; status=$?; kill $!; exit $status; } | cat"
    )
    assert ran.returncode == 6, ran
    assert ready.read("a.txt") == b"edited\n"


def test_the_file_that_the_output_goes_to_is_not_taken_away(ready: Sandbox) -> None:
    ready.cap()
    ready.write("a.txt", "edited\n")
    ran = in_shell(ready, "yolop-cli undo --yes > log.txt")
    assert ran.returncode == 6, ran
    assert b"log.txt" in ran.stderr
    assert ready.read("a.txt") == b"edited\n"
    assert (ready.worktree / "log.txt").exists()


def test_a_restore_file_that_makes_no_sense_is_set_aside_by_cancel(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.private(ready.session / "restore.json", b"")
    ready.cli("session", "show", "--json")
    ready.cli("rewind", "preview", cp, code=9)
    ready.cli("rewind", "cancel")
    assert not (ready.session / "restore.json").exists()
    assert [path.read_bytes() for path in ready.session.glob("restore.json.unreadable-*")] == [b""]
    ready.write("a.txt", "edited\n")
    ready.back(cp)
    assert ready.read("a.txt") == b"one\n"


def test_a_name_that_git_will_not_hold_makes_no_snapshot(ready: Sandbox) -> None:
    ready.write("sub/.Git", "a plain file\n")
    made = ready.create()
    assert made["workspace"]["available"] is False
    assert ".Git" in made["workspace"]["reason"]


def test_without_its_recovery_snapshot_nothing_is_restored(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "edited\n")
    plan = ready.plan(cp)
    ready.git("update-ref", "-d", plan["recovery"]["reference"])
    ready.apply(plan["token"], code=8)
    assert ready.read("a.txt") == b"edited\n"


def test_doctor_keeps_what_an_unreadable_restore_file_may_name(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("untracked", "only copy\n")
    plan = ready.plan(cp)
    stage = ready.worktree / ".yolop-restore-0123456789abcdef"
    stage.mkdir()
    ready.private(ready.session / "restore.json", b"\0" * 40)
    ready.cli("doctor", ready.sid, "--fix", session=False, watch=False, code=(0, 1))
    assert plan["recovery"]["reference"] in ready.refs()
    assert stage.is_dir()
