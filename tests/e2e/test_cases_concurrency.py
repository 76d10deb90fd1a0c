"""What went wrong between several processes in other tools: each reported case, and others of its kind."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import holders, program, trees
from tests.support.program import Ran
from tests.support.sandbox import OTHER_SID, Sandbox


def create_all(box: Sandbox, processes: int, rounds: int) -> list[Ran]:
    """Checkpoints from several processes at once. Gives every run."""
    ran: list[Ran] = []

    def work(number: int) -> None:
        for turn in range(rounds):
            (box.worktree / f"p{number}").write_text(f"{number} {turn}\n")
            arguments = ["checkpoint", "create", "--prompt", f"{number} {turn}", "--json", "-s", box.sid]
            ran.append(program.run(arguments, env=box.environment(), cwd=box.root))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ran


@pytest.mark.parametrize("rounds", [2, pytest.param(8, marks=pytest.mark.exhaustive)])
def test_case_56_parallel_captures(ready: Sandbox, rounds: int) -> None:
    before = ready.gitstates(["--yes"])
    ran = create_all(ready, processes=4, rounds=rounds)
    for run in ran:
        program.check(run, (0, 6))
    made = [run.json["checkpoint"]["id"] for run in ran if run.code == 0]
    assert made
    assert len(made) == len(set(made))
    assert len(ready.refs()) == len(made)
    assert set(made) == {record["id"] for record in ready.records() if record["type"] == "checkpoint_created"}
    for name in made:
        assert ready.checkpoint(name)["workspace"]["available"]
    ready.cli("timeline", "validate", ready.sid, session=False)
    ready.git("fsck", at=ready.repo)
    assert ready.gitstates(["--yes"]) == before


def test_case_56_left_over_locks_heal_and_the_users_lock_stays(ready: Sandbox) -> None:
    ready.cap()
    private = ready.session / "capture.git"
    for index in private.rglob("index"):
        ready.private(index.with_name("index.lock"), "")
    ready.private(private / "index.lock", "")
    ready.write("a.txt", "two\n")
    cp = ready.cap()
    assert ready.checkpoint(cp)["workspace"]["available"]
    assert not list(private.rglob("*.lock"))
    theirs = [
        Path(os.fsdecode(ready.git("rev-parse", "--git-path", name).rstrip(b"\n")))
        for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock")
    ]
    for path in theirs:
        path.write_text("")
    ready.write("a.txt", "three\n")
    cp = ready.cap()
    assert ready.checkpoint(cp)["workspace"]["available"]
    ready.write("a.txt", "four\n")
    ready.back(cp)
    assert ready.read("a.txt") == b"three\n"
    assert all(path.exists() for path in theirs)


def test_case_56_damaged_private_index_heals(ready: Sandbox) -> None:
    ready.cap()
    indexes = list((ready.session / "capture.git").rglob("index"))
    assert indexes
    for content in (b"", b"DIRC garbage", os.urandom(200)):
        for index in indexes:
            ready.private(index, content)
        ready.write("a.txt", content + b"x")
        cp = ready.cap()
        assert ready.checkpoint(cp)["workspace"]["available"], ready.checkpoint(cp)
        ready.write("a.txt", "later\n")
        ready.back(cp)
        assert ready.read("a.txt") == content + b"x"


def test_case_56_dead_private_directory_is_made_anew(ready: Sandbox) -> None:
    ready.cap()
    private = ready.session / "capture.git"
    for path in sorted(private.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    ready.write("a.txt", "two\n")
    cp = ready.cap()
    ready.write("a.txt", "three\n")
    ready.back(cp)
    assert ready.read("a.txt") == b"two\n"


@pytest.mark.parametrize("which", ["session lock", "event log"])
def test_case_56_lock_of_the_agent_makes_writers_busy_and_readers_go_on(ready: Sandbox, which: str) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    cp = ready.checkpoints()[0]["id"]
    token = ready.plan(cp, "both")["token"]
    path = ready.sessions / ".locks" / ready.sid if which == "session lock" else ready.agent.log
    before, timeline = ready.state(), ready.timeline.read_bytes()
    with holders.flock(path):
        for command in (
            ("rewind", "apply", token),
            ("undo", "--yes"),
            ("checkpoint", "create", "--prompt", "x"),
            ("checkpoint", "complete"),
        ):
            ready.cli(*command, "--json", code=6)
        for command in (
            ("checkpoint", "list"),
            ("session", "show"),
            ("timeline", "show"),
            ("rewind", "status"),
        ):
            ready.cli(*command, "--json")
        listed = ready.cli("session", "list", "--json", session=False).json["sessions"]
        assert [item["state"] for item in listed] == ["busy"]
    assert ready.state() == before
    assert ready.timeline.read_bytes() == timeline
    ready.apply(token)
    assert ready.read("a.txt") == b"one\n"


@pytest.mark.parametrize("how", ["standing in", "having open"])
def test_case_56_process_in_the_worktree_blocks_the_restore_only(ready: Sandbox, how: str) -> None:
    ready.turn("first", [("a.txt", "two\n"), ("d/f", "f\n")])
    cp = ready.checkpoints()[0]["id"]
    where = ready.worktree / "d" if how == "standing in" else ready.worktree / "d" / "f"
    hold = holders.standing_in if how == "standing in" else holders.having_open
    with hold(where) as pid:
        ready.create("while they work")
        ready.complete()
        token = ready.plan(cp, "both")["token"]
        before = ready.state()
        refused = ready.apply(token, code=6)
        assert str(pid) in refused.said
        assert ready.state() == before
    ready.apply(token)
    assert ready.read("a.txt") == b"one\n"


def test_case_56_conversation_rewind_does_not_mind_who_is_in_the_worktree(ready: Sandbox) -> None:
    """Conversation and files are two axes: nothing in the worktree changes, so nobody there is in the way."""
    ready.turn("first", [("a.txt", "two\n")])
    cp = ready.checkpoints()[0]["id"]
    with holders.standing_in(ready.worktree):
        done = ready.back(cp, "conversation")
    assert done["head"]["to"] is None
    assert ready.read("a.txt") == b"two\n"


def test_case_56_callers_own_shell_in_the_worktree_is_not_a_writer(ready: Sandbox) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    script = '"$0" undo --yes; echo "exit $?"; :'  # from the worktree, without -s: the directory says which
    ran = subprocess.run(
        ["sh", "-c", f"sh -c '{script}' \"$0\"; :", program.PROGRAM],
        env=ready.environment(),
        cwd=ready.worktree,
        capture_output=True,
        check=False,
    )
    assert b"exit 0" in ran.stdout, ran
    assert ready.read("a.txt") == b"one\n"


def test_case_56_sessions_do_not_hold_each_other_up(ready: Sandbox) -> None:
    with holders.flock(ready.sessions / ".locks" / OTHER_SID):
        ready.cap()


# -- 58: the token binds the preview to the present state


def rewrite_same_size_and_time(box: Sandbox) -> None:
    path = box.worktree / "a.txt"
    stamp = path.stat().st_mtime_ns
    path.write_text("owt\n")
    os.utime(path, ns=(stamp, stamp))


def commit(box: Sandbox) -> None:
    box.git("commit", "-q", "--allow-empty", "-m", "c")


EDITS: dict[str, Callable[[Sandbox], object]] = {
    "content": lambda box: box.write("a.txt", "TWO\n"),
    "same size and time": rewrite_same_size_and_time,
    "new file": lambda box: box.write("new", "n\n"),
    "deletion": lambda box: (box.worktree / "b").unlink(),
    "mode": lambda box: (box.worktree / "a.txt").chmod(0o755),
    "ignore rules": lambda box: box.write(".gitignore", "new\n"),
    "type": lambda box: ((box.worktree / "b").unlink(), (box.worktree / "b").symlink_to("a.txt")),
    "a file the restore will make": lambda box: box.write("gone", "made by the user\n"),
}


@pytest.fixture(scope="module")
def previewed(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A session with a checkpoint and files changed since; each test puts the files back as they were."""
    root = tmp_path_factory.mktemp("previewed")
    box = Sandbox(root)
    box.ready()
    box.write("b", "keep\n")
    box.write("gone", "g\n")
    box.cap()
    box.write("a.txt", "two\n")
    (box.worktree / "gone").unlink()
    return box


@pytest.mark.parametrize("edit", EDITS)
def test_case_58_any_edit_since_the_preview_stops_it(previewed: Sandbox, edit: str) -> None:
    box = previewed
    saved = {name: (box.worktree / os.fsdecode(name)).read_bytes() for name in trees.content(box.worktree)}
    token = box.plan("cp_1_1")["token"]
    EDITS[edit](box)
    before, timeline = box.state(), box.timeline.read_bytes()
    box.apply(token, code=8)
    assert box.state() == before
    assert box.timeline.read_bytes() == timeline
    if edit == "content":
        box.apply(token, code=(4, 8))  # it does not become good again by waiting
        assert box.state() == before
    for name in trees.content(box.worktree):
        (box.worktree / os.fsdecode(name)).unlink()
    for name, data in saved.items():
        box.write(name, data)


def test_case_58_new_commit_with_the_same_files_moves_no_ref_of_the_users(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    token = ready.plan(cp)["token"]
    commit(ready)
    head = ready.git("rev-parse", "HEAD")
    ran = ready.apply(token, code=(0, 8))
    assert ready.read("a.txt") == (b"one\n" if ran.code == 0 else b"two\n")
    assert ready.git("rev-parse", "HEAD") == head


@pytest.mark.parametrize("move", ["turn", "pending turn", "events", "head"])
def test_case_58_session_that_moved_since_the_preview(ready: Sandbox, move: str) -> None:
    cp = ready.turn("first", [("a.txt", "two\n")])
    ready.turn("second")
    token = ready.plan(cp, "both")["token"]
    if move == "turn":
        ready.cap()
    elif move == "pending turn":
        ready.create()
    elif move == "events":
        ready.agent.answer("one more thing")
    else:
        with ready.timeline.open("ab") as file:
            file.write(
                b'{"type":"head_moved","from":null,"to":"%s","redo_head":null,"redo_snapshot":null,'
                b'"moved_at":"2026-01-01T00:00:00Z"}\n' % cp.encode()
            )
    before, timeline = ready.state(), ready.timeline.read_bytes()
    ready.apply(token, code=(4, 8))
    assert ready.state() == before
    assert ready.timeline.read_bytes() == timeline


def test_case_58_tokens_are_single_use_and_only_the_newest_counts(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    older, newest = ready.plan(cp)["token"], ready.plan(cp)["token"]
    assert older != newest
    ready.apply(older, code=4)
    for forged in (
        newest + "x",
        newest[:-1],
        newest.swapcase(),
        "0" * len(newest),
        f" {newest}",
        newest + "\n",
    ):
        if forged != newest:
            ready.apply(forged, code=(2, 4))
    assert ready.read("a.txt") == b"two\n"
    ready.apply(newest)
    assert ready.read("a.txt") == b"one\n"
    ready.write("a.txt", "three\n")
    ready.apply(newest, code=(3, 4))
    assert ready.read("a.txt") == b"three\n"
    assert len([ref for ref in ready.refs() if "recovery" in ref]) <= 1


def test_case_58_token_of_another_session_is_refused(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    token = ready.plan(cp)["token"]
    mine = ready.sid
    ready.sid = OTHER_SID
    ready.make_timeline(1)
    ready.sid = mine
    ready.cli("rewind", "apply", token, "-s", OTHER_SID, "--json", code=(3, 4))
    assert ready.read("a.txt") == b"two\n"
    ready.apply(token)
    assert ready.read("a.txt") == b"one\n"
