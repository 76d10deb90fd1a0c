"""What went wrong in other tools when they put files back: each reported case, and others of its kind."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support import program, trees
from tests.support.sandbox import Sandbox


def exclude(box: Sandbox, *lines: str) -> None:
    """Set the user's own ignore rules outside the worktree (the common git directory's info/exclude)."""
    path = box.repo / ".git" / "info" / "exclude"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines))


# -- 16: exact in both directions, and every deletion is announced


def test_case_16_deletions_are_in_the_preview_and_come_back(ready: Sandbox) -> None:
    ready.write("tracked", "old\n")
    ready.git("add", "-A")
    ready.git("commit", "-qm", "t")
    (ready.worktree / "tracked").unlink()
    cp = ready.cap()
    ready.write("output/run.bin", os.urandom(300_000))
    ready.git("checkout", "-q", "--", "tracked")
    before = ready.state()
    plan = ready.plan(cp)
    assert program.changes(plan) == {b"output/run.bin": "deleted", b"tracked": "deleted"}
    assert plan["workspace"]["counts"] == {"added": 0, "modified": 0, "deleted": 2}
    done = ready.apply(plan["token"]).json
    assert {program.path_bytes(path) for path in done["workspace"]["deleted"]} == {
        b"output/run.bin",
        b"tracked",
    }
    assert set(ready.state()) == {b"a.txt"}
    token = ready.cli("redo", "--json").json["token"]
    ready.apply(token)
    assert ready.state() == before


def test_case_16_what_the_recovery_snapshot_cannot_hold_is_not_deleted(ready: Sandbox) -> None:
    ready.write(".gitignore", "*.log\n")
    cp = ready.cap()
    ready.write("x.log", "ignored\n")
    ready.write("node_modules/m.js", "m\n")
    ready.write("sub/build/out.o", "o\n")
    ready.write("sub/new", "n\n")
    os.mkfifo(ready.worktree / "pipe")
    (ready.worktree / "empty").mkdir()
    assert program.changes(ready.plan(cp)) == {b"sub/new": "deleted"}
    ready.back(cp)
    assert ready.read("x.log") == b"ignored\n"
    assert ready.read("node_modules/m.js") == b"m\n"
    assert ready.read("sub/build/out.o") == b"o\n"
    assert (ready.worktree / "pipe").is_fifo()
    assert (ready.worktree / "empty").is_dir()
    assert not (ready.worktree / "sub/new").exists()


def test_case_16_emptied_directories_go_and_others_stay(ready: Sandbox) -> None:
    ready.write("keep/k", "k\n")
    cp = ready.cap()
    ready.write("keep/deep/er/n", "n\n")
    ready.write("made/for/n", "n\n")
    (ready.worktree / "made/other").mkdir()
    ready.back(cp)
    assert not (ready.worktree / "keep/deep").exists()
    assert not (ready.worktree / "made/for").exists()
    assert (ready.worktree / "keep/k").exists()


# -- 18: names are literal bytes


HOSTILE = (
    *(" lead", "trail ", "caf\u00e9", "-rf", "--", ":(top)a.txt", ":(glob)*.c", ":!x", "*.c", "[ab].c"),
    *("a.c", "b.c", "q'x", "a;b", "$HOME", "~", "..x", "con:", "x\u2028y", "@", "HEAD", "a\\b", "!neg"),
    *("#hash", "dir /x", "t\ttab"),
)


def test_case_18_hostile_names_touch_exactly_themselves(ready: Sandbox) -> None:
    for name in HOSTILE:
        ready.write(name, f"v1 {name}")
    before = ready.state()
    cp = ready.cap()
    for name in ("*.c", ":(glob)*.c", " lead", "caf\u00e9"):
        ready.write(name, "v2")
    (ready.worktree / "-rf").unlink()
    ready.write(":(top)new", "n")
    stamps = trees.stamps(ready.worktree)
    plan = ready.plan(cp)
    assert program.changes(plan) == {
        b"*.c": "modified",
        b":(glob)*.c": "modified",
        b" lead": "modified",
        "caf\u00e9".encode(): "modified",
        b"-rf": "added",
        b":(top)new": "deleted",
    }
    ready.apply(plan["token"])
    assert ready.state() == before
    after = trees.stamps(ready.worktree)
    assert {name: after[name] for name in (b"a.c", b"b.c", b"[ab].c")} == {
        name: stamps[name] for name in (b"a.c", b"b.c", b"[ab].c")
    }


def test_case_18_every_hostile_name_deleted_and_back(ready: Sandbox) -> None:
    empty = ready.cap()
    for name in HOSTILE:
        ready.write(name, f"v1 {name}")
    before = ready.state()
    ready.back(empty)
    assert set(ready.state()) == {b"a.txt"}
    ready.redo()
    assert ready.state() == before


# -- 20: bytes, not normalised text


def test_case_20_line_endings_are_bytes(ready: Sandbox) -> None:
    ready.git("config", "core.autocrlf", "true")
    ready.write(".gitattributes", "*.md text eol=lf\n*.id ident\n")
    ready.write("w.txt", "l1\r\nl2\r\n")
    ready.write("mix.md", "m1\r\nm2\n")
    ready.write("k.id", "$Id$ x\n")
    before = ready.state()
    cp = ready.cap()
    ready.write("w.txt", "l1\nl2\n")
    ready.write("mix.md", "m1\nm2\n")
    ready.write("k.id", "$Id: abc $ x\n")
    ready.git("add", "-A")
    plan = ready.plan(cp)
    assert program.changes(plan) == dict.fromkeys((b"w.txt", b"mix.md", b"k.id"), "modified")
    ready.apply(plan["token"])
    assert ready.state() == before
    ready.git("config", "core.autocrlf", "false")
    ready.back(cp)
    assert ready.state() == before


def test_case_20_agents_snapshot_is_restored_with_the_conversions_on(ready: Sandbox) -> None:
    """A snapshot without the mark was made through ``git add``: what is stored is normalised text."""
    ready.write(".gitattributes", "*.txt text eol=crlf\n")
    ready.write("w.txt", "l1\r\nl2\r\n")
    before = ready.read("w.txt")
    index = {"GIT_INDEX_FILE": str(ready.root / "agent-index")}
    env = {**ready.env, **index}
    trees.git(ready.worktree, "add", "-A", env=env)
    tree = trees.git(ready.worktree, "write-tree", env=env).decode().strip()
    ready.git("update-ref", f"refs/yolop/checkpoints/{ready.sid}/cp_1_1", tree, at=ready.repo)
    ready.agent_checkpoint("cp_1_1", tree)
    ready.write("w.txt", "changed\r\n")
    assert b"w.txt" in program.changes(ready.plan("cp_1_1"))
    ready.back("cp_1_1")
    assert ready.read("w.txt") == before
    ready.redo()
    assert ready.read("w.txt") == b"changed\r\n"


# -- 22: type changes


def test_case_22_every_type_becomes_every_other(ready: Sandbox) -> None:
    ready.write("x", "f\n")
    ready.write("y/g", "g\n")
    (ready.worktree / "z").symlink_to("a.txt")
    ready.write("f2l", "f\n")
    (ready.worktree / "l2f").symlink_to("y")
    ready.write("d2l/inner/h", "h\n")
    before = ready.state()
    cp = ready.cap()
    for name in ("x", "z", "f2l", "l2f"):
        (ready.worktree / name).unlink()
    shutil.rmtree(ready.worktree / "y")
    shutil.rmtree(ready.worktree / "d2l")
    ready.write("x/deep/n", "n\n")
    ready.write("y", "now a file\n")
    ready.write("z/n", "n\n")
    (ready.worktree / "f2l").symlink_to("x")
    ready.write("l2f", "file\n")
    (ready.worktree / "d2l").symlink_to("x/deep")
    changed = ready.state()
    ready.back(cp)
    assert ready.state() == before
    ready.redo()
    assert ready.state() == changed


@pytest.mark.parametrize("held", ["ignored", "blocked", "nested", "pipe"])
def test_case_22_directory_that_still_holds_something_stops_the_restore(ready: Sandbox, held: str) -> None:
    ready.write("x", "f\n")
    cp = ready.cap()
    (ready.worktree / "x").unlink()
    ready.write("x/t", "tracked\n")
    ready.write("a.txt", "two\n")
    if held == "ignored":
        exclude(ready, "x/secret")
        ready.write("x/secret", "only copy\n")
    elif held == "blocked":
        ready.write("x/target/out.o", "only copy\n")
    elif held == "nested":
        ready.git("init", "-q", "x/repo")
        ready.write("x/repo/f", "only copy\n")
    else:
        os.mkfifo(ready.worktree / "x/pipe")
    before = ready.state()
    refused = ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=7)
    assert "x" in refused.said
    name = {"ignored": "x/secret", "blocked": "x/target", "nested": "x/repo", "pipe": "x/pipe"}[held]
    assert name in refused.said
    assert ready.state() == before
    assert not (ready.session / "restore.json").exists()
    assert not any("recovery" in ref for ref in ready.refs())


def test_case_22_parent_that_became_a_link_is_never_followed(ready: Sandbox) -> None:
    outside = ready.root / "outside"
    ready.write("f", "outside\n", at=outside)
    ready.write("d/f", "inside\n")
    before = ready.state()
    cp = ready.cap()
    shutil.rmtree(ready.worktree / "d")
    (ready.worktree / "d").symlink_to(outside)
    ready.back(cp)
    assert ready.state() == before
    assert (outside / "f").read_text() == "outside\n"
    ready.redo()
    assert (ready.worktree / "d").is_symlink()
    assert (outside / "f").read_text() == "outside\n"


# -- 24: write only what differs


def test_case_24_unchanged_files_keep_time_and_inode(ready: Sandbox) -> None:
    for number in range(30):
        ready.write(f"f{number}", f"{number}\n")
        os.utime(ready.worktree / f"f{number}", (1_600_000_000, 1_600_000_000))
    (ready.worktree / "link").symlink_to("f1")
    cp = ready.cap()
    before = trees.stamps(ready.worktree)
    plan = ready.plan(cp)
    assert program.changes(plan) == {}
    assert plan["token"]
    ready.apply(plan["token"])
    assert trees.stamps(ready.worktree) == before
    ready.write("f7", "x\n")
    (ready.worktree / "f8").chmod(0o755)
    ready.back(cp)
    after = trees.stamps(ready.worktree)
    assert {name for name in before if before[name] != after[name]} == {b"f7"}
    assert not os.access(ready.worktree / "f8", os.X_OK)
    ready.redo()
    again = trees.stamps(ready.worktree)
    assert {name for name in before if before[name] != again[name]} == {b"f7"}
    assert os.access(ready.worktree / "f8", os.X_OK)


def test_case_24_the_users_index_stays_fresh(ready: Sandbox) -> None:
    for number in range(10):
        ready.write(f"f{number}", f"{number}\n")
    ready.git("add", "-A")
    ready.git("commit", "-qm", "f")
    cp = ready.cap()
    ready.write("new", "n\n")
    ready.back(cp)
    assert ready.git("diff-files", "-z") == b""  # compares stat data only: nothing looks touched


# -- the rest of the kind: directories the restore needs but may not write


def test_case_16_read_only_directory_makes_the_restore_roll_back(ready: Sandbox) -> None:
    ready.write("a/f", "1\n")
    ready.write("z/g", "1\n")
    cp = ready.cap()
    ready.write("a/f", "2\n")
    ready.write("z/g", "2\n")
    locked = ready.worktree / "z"
    locked.chmod(0o555)
    before, head = ready.state(), ready.folded().head
    try:
        plan = ready.cli(
            "rewind",
            "preview",
            cp,
            "--mode",
            "workspace",
            "--json",
            code=(0, 7, 9),
            prefix=program.UNPRIVILEGED,
        )
        if plan.code == 0:
            ready.apply(plan.json["token"], code=(7, 9), prefix=program.UNPRIVILEGED)
        assert ready.state() == before
        assert ready.folded().head == head
        assert not any(record["type"] == "head_moved" for record in ready.records())
    finally:
        locked.chmod(0o755)
    ready.cli("rewind", "cancel", code=(0, 3, 4))
    ready.back(cp)
    assert (ready.read("a/f"), ready.read("z/g")) == (b"1\n", b"1\n")


def test_case_16_hard_links_are_cut_not_written_through(ready: Sandbox) -> None:
    """A file is replaced by rename, so another name of the same inode elsewhere keeps its bytes."""
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    outside: Path = ready.root / "outside"
    os.link(ready.worktree / "a.txt", outside)
    ready.back(cp)
    assert ready.read("a.txt") == b"one\n"
    assert outside.read_text() == "two\n"
