"""A rewind gives back the same bytes, executable bits and links, whatever git is told to do with them."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support import program, trees
from tests.support.sandbox import Sandbox

ATTRIBUTES = {
    "auto": "text=auto",
    "lf": "text eol=lf",
    "crlf": "text eol=crlf",
    "ident": "ident",
    "filter": "filter=rot",
    "utf16": "text working-tree-encoding=UTF-16",
    "cp932": "working-tree-encoding=CP932",
    "binary": "-text -diff",
    "all": "text eol=lf ident filter=rot",
    "macro": "mine",
    "none": "!text",
}
CONFIG = {
    "core.autocrlf": "true",
    "core.fileMode": "false",
    "core.eol": "crlf",
    "core.safecrlf": "true",
    "filter.rot.clean": "tr a-z n-za-m",
    "filter.rot.smudge": "tr a-z n-za-m",
    "filter.rot.required": "true",
}
FIRST: dict[str, bytes] = {
    "crlf.txt": b"l1\r\nl2\r\n",
    "lf.txt": b"l1\nl2\n",
    "mixed.txt": b"m1\r\nm2\nm3\r",
    "id.txt": b"$Id$ $Id: abc $\n",
    "utf16.txt": "\ufefftext\r\n".encode("utf-16-le"),
    "nul.bin": b"a\0b\r\n\xff\xfe",
    "empty": b"",
    "no-newline.txt": b"end",
    "dir/sub/f.txt": b"deep\n",
    "run.sh": b"#!/bin/sh\r\n",
}
SECOND = {name: content.replace(b"\r\n", b"\n") + b"2" for name, content in FIRST.items()}
THIRD = {name: content.replace(b"\n", b"\r\n") + b"\r\n3" for name, content in FIRST.items()}


def fill(box: Sandbox, contents: dict[str, bytes], executable: bool, link: str) -> None:
    """All the files under each kind of attributes, some executable or not, and a link."""
    for name in ATTRIBUTES:
        for file, content in contents.items():
            box.write(f"{name}/{file}", content)
        (box.worktree / name / "run.sh").chmod(0o755 if executable else 0o644)
        (box.worktree / name / "lf.txt").chmod(0o644 if executable else 0o755)
        (box.worktree / name / "link").unlink(missing_ok=True)
        (box.worktree / name / "link").symlink_to(link)


def back_and_forth(box: Sandbox, attributes: str) -> None:
    """Three turns under such attributes, back to each of them and forward again."""
    for key, value in CONFIG.items():
        box.git("config", key, value, at=box.repo)
    box.write(".gitattributes", attributes)
    states, names = [], []
    for contents, executable, link in (
        (FIRST, True, "lf.txt"),
        (SECOND, False, "nowhere"),
        (THIRD, True, "dir"),
    ):
        fill(box, contents, executable, link)
        states.append(box.state())
        names.append(box.cap(watch=False))
    fill(box, FIRST, False, "run.sh")
    for name in ATTRIBUTES:
        (box.worktree / name / "lf.txt").unlink()
        box.write(f"{name}/new\n.txt", b"new\r\n")
    now = box.state()
    git = box.gitstates(["--yes"])
    for name, state in zip(names, states, strict=True):
        box.back(name, watch=False)
        assert box.state() == state
        box.cli("redo", "--yes", "--json", watch=False)
        assert box.state() == now
    assert box.gitstates(["--yes"]) == git


def test_three_turns_back_to_any_and_forward_again(ready: Sandbox) -> None:
    rules = "".join(f"{name}/** {attributes}\n" for name, attributes in ATTRIBUTES.items())
    back_and_forth(ready, f"[attr]mine text eol=lf ident filter=rot\n{rules}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(ATTRIBUTES.keys() - {"macro"}))
def test_three_turns_with_one_rule_for_everything(ready: Sandbox, name: str) -> None:
    back_and_forth(ready, f"* {ATTRIBUTES[name]}\n")


def test_attributes_that_change_between_capture_and_restore(ready: Sandbox) -> None:
    ready.write(".gitattributes", "* text eol=crlf\n")
    ready.write("f.txt", b"a\nb\r\n")
    before = ready.state()
    cp = ready.cap()
    ready.write(".gitattributes", "* text eol=lf ident\n")
    ready.write("f.txt", b"a\r\nb\n")
    ready.back(cp)
    assert ready.state() == before


def test_line_endings_alone_are_a_change(ready: Sandbox) -> None:
    ready.git("config", "core.autocrlf", "true")
    ready.write("f.txt", b"a\r\n")
    cp = ready.cap()
    ready.write("f.txt", b"a\n")
    assert program.changes(ready.plan(cp)) == {b"f.txt": "modified"}


def test_committed_content_that_git_would_convert(ready: Sandbox) -> None:
    """Files whose committed form differs from their bytes on disk look unmodified before and after."""
    ready.git("config", "core.autocrlf", "true", at=ready.repo)
    ready.write("f.txt", b"a\r\nb\r\n")
    ready.git("add", "f.txt")
    ready.git("commit", "-qm", "f")
    stamps = trees.stamps(ready.worktree)
    cp = ready.cap()
    assert program.changes(ready.plan(cp)) == {}
    ready.write("a.txt", "two\n")
    ready.back(cp)
    assert ready.read("f.txt") == b"a\r\nb\r\n"
    assert trees.stamps(ready.worktree)[b"f.txt"] == stamps[b"f.txt"]
    assert ready.git("status", "--porcelain", "f.txt") == b""


def test_commits_made_after_the_checkpoint_stay(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    ready.git("commit", "-qam", "two")
    head = ready.git("rev-parse", "HEAD")
    ready.back(cp)
    assert ready.read("a.txt") == b"one\n"
    assert ready.git("rev-parse", "HEAD") == head
    assert ready.git("status", "--porcelain") == b" M a.txt\n"


def test_capture_sees_every_edit_of_the_same_size_in_quick_succession(ready: Sandbox) -> None:
    """Git compares whole seconds here and there: an edit of the same size and second is not lost."""
    names, contents = [], []
    for number in range(6):
        ready.write("x", f"{number:04}")
        ready.write("a.txt", f"{number:04}")
        names.append(ready.create()["id"])
        contents.append(f"{number:04}".encode())
    ready.complete()
    for name, content in zip(names, contents, strict=True):
        assert ready.cli("checkpoint", "cat", name, "x", watch=False).out == content
        assert ready.cli("checkpoint", "cat", name, "a.txt", watch=False).out == content


def test_file_replaced_by_one_with_the_same_size_and_time(ready: Sandbox) -> None:
    ready.write("x", "AAAA")
    os.utime(ready.worktree / "x", (1_700_000_000, 1_700_000_000))
    first = ready.cap()
    ready.write("y", "BBBB")
    os.utime(ready.worktree / "y", (1_700_000_000, 1_700_000_000))
    (ready.worktree / "y").rename(ready.worktree / "x")
    second = ready.cap()
    ready.write("x", "CCCC")
    ready.back(first)
    assert ready.read("x") == b"AAAA"
    ready.back(second)
    assert ready.read("x") == b"BBBB"


# -- ignore rules move with the files


def test_file_ignored_by_the_targets_rules_survives_a_rewind_that_removes_todays(ready: Sandbox) -> None:
    ready.write(".gitignore", "*.env\n")
    ready.write("x.env", "secret\n")
    cp = ready.cap()
    ready.write(".gitignore", "")
    ready.write("a.txt", "two\n")
    plan = ready.plan(cp)
    assert b"x.env" not in program.changes(plan)
    assert b"x.env" in program.kept(plan)
    ready.apply(plan["token"])
    assert ready.read("x.env") == b"secret\n"
    assert ready.read(".gitignore") == b"*.env\n"
    ready.redo()
    assert ready.read("x.env") == b"secret\n"
    assert ready.read(".gitignore") == b""


def test_ignored_by_rules_of_the_target_in_a_subdirectory(ready: Sandbox) -> None:
    ready.write("db/.gitignore", "*\n!.gitignore\n")
    ready.write("db/data.sqlite", "rows\n")
    cp = ready.cap()
    (ready.worktree / "db/.gitignore").unlink()
    ready.back(cp)
    assert ready.read("db/data.sqlite") == b"rows\n"
    assert ready.read("db/.gitignore") == b"*\n!.gitignore\n"


def test_file_the_target_holds_comes_back_though_todays_rules_ignore_it(ready: Sandbox) -> None:
    ready.write("x.cfg", "kept\n")
    cp = ready.cap()
    ready.write(".gitignore", "*.cfg\n")
    ready.write("x.cfg", "replaced\n")
    ready.cap()
    plan = ready.plan(cp)
    assert program.changes(plan)[b"x.cfg"] == "modified"
    held = ready.git("cat-file", "-p", f"{plan['recovery']['tree']}:x.cfg", at=ready.repo)
    assert held == b"replaced\n"
    ready.apply(plan["token"])
    assert ready.read("x.cfg") == b"kept\n"
    ready.redo()
    assert ready.read("x.cfg") == b"replaced\n"
    assert ready.read(".gitignore") == b"*.cfg\n"


def test_ignored_file_that_was_deleted_comes_back_and_redo_deletes_it(ready: Sandbox) -> None:
    ready.write("x.cfg", "kept\n")
    cp = ready.cap()
    ready.write(".gitignore", "*.cfg\n")
    (ready.worktree / "x.cfg").unlink()
    before = ready.state()
    ready.back(cp)
    assert ready.read("x.cfg") == b"kept\n"
    ready.redo()
    assert ready.state() == before


def test_tracked_though_ignored_is_captured(ready: Sandbox) -> None:
    ready.write("x.log", "tracked\n")
    ready.git("add", "-f", "x.log")
    ready.git("commit", "-qm", "log")
    ready.write(".gitignore", "*.log\n")
    ready.write("y.log", "ignored\n")
    ready.write("x.log", "edited\n")
    cp = ready.cap()
    (ready.worktree / "x.log").unlink()
    second = ready.cap()
    ready.write("x.log", "back\n")
    ready.back(cp)
    assert ready.read("x.log") == b"edited\n"
    plan = ready.plan(second)
    ready.apply(plan["token"])
    # The target's rules ignore it, so whether it lay there then is not known: it goes, or is named as kept.
    assert (ready.worktree / "x.log").exists() == (b"x.log" in program.kept(plan))
    assert ready.read("y.log") == b"ignored\n"


def test_negated_rules_and_rules_outside_the_tree(ready: Sandbox) -> None:
    (ready.repo / ".git/info").mkdir(exist_ok=True)
    (ready.repo / ".git/info/exclude").write_text("*.tmp\n")
    ready.write(".gitignore", "*.log\n!keep.log\n!dist/\n")
    ready.write("keep.log", "k\n")
    ready.write("gone.log", "g\n")
    ready.write("x.tmp", "t\n")
    ready.write("dist/out", "o\n")
    cp = ready.cap()
    listed = ready.git(
        "ls-tree", "-r", "--name-only", ready.refs()[f"refs/yolop/checkpoints/{ready.sid}/{cp}"]
    )
    assert listed.split() == [b".gitignore", b"a.txt", b"keep.log"]
    ready.write("keep.log", "k2\n")
    ready.write("dist/out", "o2\n")
    ready.back(cp)
    assert ready.read("keep.log") == b"k\n"
    assert (ready.read("gone.log"), ready.read("x.tmp"), ready.read("dist/out")) == (b"g\n", b"t\n", b"o2\n")


# -- blocked names


BLOCKED = (".git", "node_modules", "target", "dist", "build", ".next", ".venv", "venv", ".tox", ".gradle")


def test_plain_files_and_links_of_blocked_names_are_captured(ready: Sandbox) -> None:
    for name in BLOCKED[1:]:
        ready.write(f"files/{name}", f"{name} 1\n")
        (ready.worktree / "links").mkdir(exist_ok=True)
        (ready.worktree / "links" / name).symlink_to("../a.txt")
    ready.write("build", "top\n")
    before = ready.state()
    cp = ready.cap()
    for name in BLOCKED[1:]:
        ready.write(f"files/{name}", f"{name} 2\n")
        (ready.worktree / "links" / name).unlink()
    (ready.worktree / "build").unlink()
    ready.back(cp)
    assert ready.state() == before


def test_blocked_directories_are_left_alone_at_any_depth(ready: Sandbox) -> None:
    for name in BLOCKED[1:]:
        ready.write(f"{name}/f", "1\n")
        ready.write(f"deep/er/{name}/g", "1\n")
    ready.write("deep/er/f", "1\n")
    cp = ready.cap()
    for name in BLOCKED[1:]:
        ready.write(f"{name}/f", "2\n")
        ready.write(f"deep/er/{name}/new", "2\n")
    ready.write("deep/er/f", "2\n")
    assert program.changes(ready.plan(cp)) == {b"deep/er/f": "modified"}
    ready.back(cp)
    assert ready.read("deep/er/f") == b"1\n"
    for name in BLOCKED[1:]:
        assert ready.read(f"{name}/f") == b"2\n"
        assert ready.read(f"deep/er/{name}/new") == b"2\n"


def test_committed_files_in_blocked_directories_are_left_alone(ready: Sandbox) -> None:
    ready.write("dist/committed", "1\n")
    ready.git("add", "-f", "dist/committed")
    ready.git("commit", "-qm", "dist")
    cp = ready.cap()
    ready.write("dist/committed", "2\n")
    ready.write("a.txt", "two\n")
    assert program.changes(ready.plan(cp)) == {b"a.txt": "modified"}
    ready.back(cp)
    assert ready.read("dist/committed") == b"2\n"


def test_blocked_name_that_turns_from_file_to_directory(ready: Sandbox) -> None:
    ready.write("build", "file\n")
    cp = ready.cap()
    (ready.worktree / "build").unlink()
    ready.write("build/out.o", "only copy\n")
    before = ready.state()
    refused = ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=7)
    assert "build" in refused.said
    assert ready.state() == before


def test_blocked_name_that_turns_from_directory_to_file(ready: Sandbox) -> None:
    ready.write("build/out.o", "o\n")
    cp = ready.cap()
    shutil.rmtree(ready.worktree / "build")
    ready.write("build", "file\n")
    ready.back(cp)
    assert not (ready.worktree / "build").exists()
    ready.redo()
    assert ready.read("build") == b"file\n"


# -- HEAD moves under a kept index


def test_switching_branches_between_captures(ready: Sandbox) -> None:
    ready.write("only-here", "h\n")
    ready.git("add", "-A")
    ready.git("commit", "-qm", "here")
    first = ready.cap()
    state = ready.state()
    ready.git("checkout", "-qb", "elsewhere", "HEAD~1")
    ready.write("other", "o\n")
    ready.git("add", "-A")
    ready.git("commit", "-qm", "there")
    second = ready.cap()
    there = ready.state()
    ready.back(first)
    assert ready.state() == state
    ready.back(second)
    assert ready.state() == there


def test_objects_survive_the_users_garbage_collection(ready: Sandbox) -> None:
    ready.write("b", "1\n")
    first = ready.cap()
    ready.write("b", "2\n")
    second = ready.cap()
    ready.git("pack-refs", "--all", "--prune", at=ready.repo)
    ready.git("gc", "-q", "--prune=now", at=ready.repo)
    ready.back(first)
    assert ready.read("b") == b"1\n"
    ready.git("gc", "-q", "--prune=now", at=ready.repo)
    ready.redo()
    assert ready.read("b") == b"2\n"
    ready.cap()
    ready.back(second)
    ready.git("fsck", "--strict", at=ready.repo)


@pytest.mark.parametrize("where", ["detached", "gone branch", "packed"])
def test_odd_heads(ready: Sandbox, where: str) -> None:
    if where == "detached":
        ready.git("checkout", "-q", "--detach")
    elif where == "gone branch":
        ready.git("update-ref", "-d", "refs/heads/work")
    else:
        ready.git("pack-refs", "--all", at=ready.repo)
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    ready.write("n", "n\n")
    ready.back(cp)
    assert ready.read("a.txt") == b"one\n"
    assert not (ready.worktree / "n").exists()


def test_redo_takes_away_a_file_the_rewind_brought_back_though_every_rule_ignores_it(ready: Sandbox) -> None:
    """Tracked and ignored at the checkpoint, untracked and deleted since: it comes back; redo undoes it."""
    ready.write(".gitignore", "*.log\n")
    ready.write("x.log", "tracked\n")
    ready.git("add", "-f", "-A")
    ready.git("commit", "-qm", "log")
    cp = ready.cap()
    ready.git("rm", "-q", "x.log")
    ready.git("commit", "-qm", "no log")
    before = ready.state()
    ready.back(cp)
    assert ready.read("x.log") == b"tracked\n"
    ready.redo()
    assert ready.state() == before
