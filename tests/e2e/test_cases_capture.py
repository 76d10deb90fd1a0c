"""What went wrong in other tools when they took a snapshot: each reported case, and others of its kind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from pathlib import Path

import pytest

from tests.support import program, trees
from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import Sandbox


def no_leftovers(box: Sandbox) -> None:
    """No temporary file of ours or git's is left in the session or the repository."""
    places = [box.session, box.repo / ".git"]
    left = [
        path
        for place in places
        for path in place.rglob("*")
        if path.name.endswith((".lock", ".tmp")) or path.name.startswith("tmp_") or ".tmp" in path.name
    ]
    assert not left


def refuses_workspace(box: Sandbox, name: str, env: dict[str, str] | None = None) -> str:
    """A checkpoint without a snapshot: a reason in the list, and no workspace rewind. Gives the reason."""
    workspace = box.checkpoint(name)["workspace"]
    assert workspace["available"] is False
    assert workspace["reason"]
    before = box.state()
    box.cli("rewind", "preview", name, "--mode", "workspace", "--json", code=7, env=env)
    assert box.state() == before
    return str(workspace["reason"])


# -- 01: a failed step means no snapshot


def test_case_01_nested_repository_without_commit(ready: Sandbox) -> None:
    ready.cap()
    ready.write("a.txt", "two\n")
    ready.git("init", "-q", "nested")
    ready.write("nested/f", "theirs\n")
    nested = trees.state(ready.worktree / "nested" / ".git")
    cp = ready.cap()
    ready.write("a.txt", "three\n")
    assert program.changes(ready.plan(cp)) == {b"a.txt": "modified"}
    ready.back(cp)
    assert ready.read("a.txt") == b"two\n"
    assert ready.read("nested/f") == b"theirs\n"
    assert trees.state(ready.worktree / "nested" / ".git") == nested


def test_case_01_objects_that_cannot_be_written_make_no_snapshot(ready: Sandbox) -> None:
    first = ready.cap()
    ready.write("a.txt", "two\n")
    objects = ready.repo / ".git" / "objects"
    for directory in (objects, *(path for path in objects.rglob("*") if path.is_dir())):
        directory.chmod(0o555)
    try:
        refs = ready.refs()
        failed = ready.cli(
            "checkpoint", "create", "--prompt", "y", "--require-workspace", "--json",
            code=(7, 9), prefix=UNPRIVILEGED,
        )  # fmt: skip
        assert failed.error["message"]
        assert [cp["id"] for cp in ready.checkpoints()] == [first]
        second = ready.cap(prefix=UNPRIVILEGED)
        assert ready.refs() == refs
    finally:
        for directory in (objects, *(path for path in objects.rglob("*") if path.is_dir())):
            directory.chmod(0o755)
    record = next(r for r in ready.records() if r.get("id") == second)
    assert record["snapshot"] is None
    assert record["snapshot_error"]
    refuses_workspace(ready, second)
    ready.write("a.txt", "three\n")
    third = ready.cap()
    ready.write("a.txt", "four\n")
    ready.back(third)
    assert ready.read("a.txt") == b"three\n"


@pytest.mark.parametrize("damage", ["no pointer", "broken pointer", "no repository"])
def test_case_01_repository_in_trouble_is_a_reason_not_an_old_tree(ready: Sandbox, damage: str) -> None:
    first = ready.cap()
    ready.write("a.txt", "two\n")
    if damage == "no pointer":
        (ready.worktree / ".git").unlink()
    elif damage == "broken pointer":
        (ready.worktree / ".git").write_text("gitdir: /nowhere\n")
    else:
        (ready.repo / ".git").rename(ready.root / "gone")
    made = ready.create(watch=False)
    assert made["id"] != first
    assert made["workspace"]["available"] is False
    assert made["workspace"]["reason"]
    assert ready.read("a.txt") == b"two\n"


# -- 03: what cannot be read


def test_case_03_unreadable_directory_and_file(ready: Sandbox) -> None:
    directory = ready.write("dir/s", "s\n").parent
    directory.chmod(0)
    cp1 = ready.cap(prefix=UNPRIVILEGED)
    directory.chmod(0o700)
    locked = ready.write("locked", "k\n", mode=0)
    cp2 = ready.cap(prefix=UNPRIVILEGED)
    locked.chmod(0o600)
    assert "dir" in refuses_workspace(ready, cp1)
    assert "locked" in refuses_workspace(ready, cp2)
    assert ready.read("dir/s") == b"s\n"


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "untracked"])
@pytest.mark.parametrize("mode", [0, 0o400, 0o100])
def test_case_03_directory_that_cannot_be_read_or_entered(ready: Sandbox, mode: int, tracked: bool) -> None:
    directory = ready.write("dir/s", "s\n").parent
    if tracked:
        ready.git("add", "-A")
        ready.git("commit", "-qm", "dir")
        ready.cap()
    directory.chmod(mode)
    cp = ready.cap(prefix=UNPRIVILEGED)
    directory.chmod(0o755)
    if tracked and mode == 0o100 and ready.checkpoint(cp)["workspace"]["available"]:
        ready.write("dir/s", "s2\n")  # known unchanged without listing: then it must come back whole
        ready.back(cp)
    else:
        assert "dir" in refuses_workspace(ready, cp)
    assert ready.read("dir/s") == b"s\n"


def test_case_03_unreadable_tracked_file_though_nothing_in_it_changed(ready: Sandbox) -> None:
    good = ready.cap()
    (ready.worktree / "a.txt").chmod(0)
    cp = ready.cap(prefix=UNPRIVILEGED)
    (ready.worktree / "a.txt").chmod(0o644)
    if not ready.checkpoint(cp)["workspace"]["available"]:
        assert "a.txt" in refuses_workspace(ready, cp)
    else:  # known unchanged without reading it: then it must come back whole
        ready.write("a.txt", "two\n")
        ready.back(cp)
        assert ready.read("a.txt") == b"one\n"
    assert ready.checkpoint(good)["workspace"]["available"]


def test_case_03_unreadable_ignored_paths_do_not_matter(ready: Sandbox) -> None:
    ready.write(".gitignore", "secret/\n*.key\n")
    secret = ready.write("secret/s", "s\n").parent
    ready.write("x.key", "k\n", mode=0)
    blocked = ready.write("node_modules/m", "m\n").parent
    secret.chmod(0)
    blocked.chmod(0)
    try:
        cp = ready.cap(prefix=UNPRIVILEGED)
        ready.write("a.txt", "two\n")
        ready.back(cp, prefix=UNPRIVILEGED)
    finally:
        secret.chmod(0o700)
        blocked.chmod(0o700)
    assert ready.read("a.txt") == b"one\n"
    assert ready.read("secret/s") == b"s\n"


def test_case_03_preview_over_an_unreadable_file_changes_nothing(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    locked = ready.write("locked", "only copy\n", mode=0)
    refs, timeline = ready.refs(), ready.timeline.read_bytes()
    ready.cli(
        "rewind", "preview", cp, "--mode", "workspace", "--json", code=(7, 9), prefix=UNPRIVILEGED
    )  # fmt: skip
    locked.chmod(0o600)
    assert ready.read("a.txt") == b"two\n"
    assert ready.read("locked") == b"only copy\n"
    assert ready.refs() == refs
    assert ready.timeline.read_bytes() == timeline
    assert not (ready.session / "restore.json").exists()


# -- 04: nested repositories


def test_case_04_nested_repositories_are_left_alone(ready: Sandbox) -> None:
    for name in ("lib/one", "two"):
        ready.git("init", "-q", name)
        ready.write(f"{name}/f", "x\n")
        ready.git("add", "-A", at=ready.worktree / name)
        ready.git("commit", "-qm", "n", at=ready.worktree / name)
        ready.write(f"{name}/f", "x\ndirty\n")
    gits = [ready.worktree / name / ".git" for name in ("lib/one", "two")]
    before = [trees.state(path) for path in gits]
    names = sorted(str(path) for path in ready.worktree.rglob(".git*"))
    for seconds in (0.05, 0.15, 0.25, 0.35):
        kill_after(ready, seconds, "checkpoint", "create", "--prompt", "x")
    ready.settle()
    assert sorted(str(path) for path in ready.worktree.rglob(".git*")) == names
    cp = ready.cap()
    (ready.worktree / "lib/one/f").unlink()
    ready.write("a.txt", "two\n")
    ready.back(cp)
    assert ready.read("a.txt") == b"one\n"
    assert not (ready.worktree / "lib/one/f").exists()
    assert sorted(str(path) for path in ready.worktree.rglob(".git*")) == names
    assert [trees.state(path) for path in gits] == before


def test_case_04_pointer_files_submodules_and_repositories_made_later(ready: Sandbox) -> None:
    ready.git("init", "-q", str(ready.root / "lib"), at=ready.root)
    ready.write("f", "lib\n", at=ready.root / "lib")
    ready.git("add", "-A", at=ready.root / "lib")
    ready.git("commit", "-qm", "lib", at=ready.root / "lib")
    ready.git("submodule", "--quiet", "add", str(ready.root / "lib"), "sub")
    ready.git("commit", "-qm", "sub")
    cp = ready.cap()
    ready.write("sub/f", "dirty\n")
    ready.write("sub/new", "new\n")
    ready.git("init", "-q", "later")
    ready.write("later/f", "later\n")
    ready.write("a.txt", "two\n")
    pointer = ready.read("sub/.git")
    plan = ready.plan(cp)
    assert program.changes(plan) == {b"a.txt": "modified"}
    ready.apply(plan["token"])
    assert ready.read("a.txt") == b"one\n"
    assert ready.read("sub/f") == b"dirty\n"
    assert ready.read("sub/new") == b"new\n"
    assert ready.read("sub/.git") == pointer
    assert ready.read("later/f") == b"later\n"


# -- 07, 08, 09: unusual repositories


def on_disk(box: Sandbox) -> list[str]:
    """The files of the worktree and git's flags for every index entry."""
    listed = box.git("ls-files", "-t", "-v").decode().split("\n")
    return [*listed, *(os.fsdecode(name) for name in trees.content(box.worktree))]


@pytest.mark.parametrize("cone", ["--cone", "--no-cone"])
def test_case_07_sparse_checkout(box: Sandbox, cone: str) -> None:
    box.make_repo(files={"a.txt": "one\n", "in/f": "1\n", "out/g": "2\n"})
    box.make_worktree()
    box.git("sparse-checkout", "set", cone, "in" if cone == "--cone" else "/in/")
    before = on_disk(box)
    cp = box.cap()
    box.write("in/f", "x\n")
    plan = box.plan(cp)
    assert program.changes(plan) == {b"in/f": "modified"}
    box.apply(plan["token"])
    assert box.read("in/f") == b"1\n"
    assert not (box.worktree / "out").exists()
    assert on_disk(box) == before


def test_case_07_flags_of_the_users_index_hide_nothing(ready: Sandbox) -> None:
    ready.write("b.txt", "b1\n")
    ready.git("add", "-A")
    ready.git("commit", "-qm", "b")
    ready.git("update-index", "--assume-unchanged", "a.txt")
    ready.git("update-index", "--skip-worktree", "b.txt")
    ready.write("a.txt", "a2\n")
    ready.write("b.txt", "b2\n")
    cp = ready.cap()
    ready.write("a.txt", "a3\n")
    ready.write("b.txt", "b3\n")
    assert program.changes(ready.plan(cp)) == {b"a.txt": "modified", b"b.txt": "modified"}
    ready.back(cp)
    assert (ready.read("a.txt"), ready.read("b.txt")) == (b"a2\n", b"b2\n")


def test_case_08_shallow_and_blobless_clone_works_offline(box: Sandbox) -> None:
    source = box.root / "src"
    box.git("init", "-q", "-b", "main", str(source), at=box.root)
    box.write("in/f", "1\n", at=source)
    box.write("out/g", "big\n", at=source)
    box.git("add", "-A", at=source)
    box.git("commit", "-qm", "m", at=source)
    box.git("config", "uploadpack.allowFilter", "true", at=source)
    options = ("-q", "--depth", "1", "--filter=blob:none", "--no-checkout")
    box.git("clone", *options, f"file://{source}", str(box.repo), at=box.root)
    box.git("sparse-checkout", "set", "--cone", "in", at=box.repo)
    box.git("checkout", "-q", "main", at=box.repo)
    box.make_worktree()
    box.git("sparse-checkout", "set", "--cone", "in")
    source.rename(box.root / "gone")
    cp = box.cap()
    box.write("in/f", "x\n")
    box.write("in/new", "n\n")
    plan = box.plan(cp)
    assert program.changes(plan) == {b"in/f": "modified", b"in/new": "deleted"}
    box.apply(plan["token"])
    assert box.read("in/f") == b"1\n"
    assert not (box.worktree / "in/new").exists()
    assert not (box.worktree / "out").exists()


def test_case_08_missing_object_is_named_and_nothing_changes(ready: Sandbox) -> None:
    ready.write("b.txt", "precious\n")
    cp = ready.cap()
    blob = ready.git("hash-object", "b.txt").decode().strip()
    ready.write("a.txt", "two\n")
    ready.write("b.txt", "other\n")
    (ready.repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    before, timeline = ready.state(), ready.timeline.read_bytes()
    ran = ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=(0, 7, 9))
    if ran.code == 0:
        ran = ready.apply(ran.json["token"], code=(7, 9))
    assert blob in ran.said or "b.txt" in ran.said
    assert ready.state() == before
    assert ready.timeline.read_bytes() == timeline


def test_case_09_sha256_repository_and_the_empty_worktree(box: Sandbox) -> None:
    box.ready("--object-format=sha256")
    cp = box.cap()
    box.write("a.txt", "two\n")
    box.back(cp)
    assert box.read("a.txt") == b"one\n"
    record = next(r for r in box.records() if r.get("id") == cp)
    assert len(record["snapshot"]["tree"]) == 64
    (box.worktree / "a.txt").unlink()
    empty = box.cap()
    box.write("z", "z\n")
    box.back(empty)
    assert trees.state(box.worktree) == {}
    box.git("show-ref", at=box.repo)
    box.git("fsck", "--strict", at=box.repo)


def test_case_09_empty_worktree_with_sha1(ready: Sandbox) -> None:
    (ready.worktree / "a.txt").unlink()
    empty = ready.cap()
    ready.write("d/z", "z\n")
    ready.back(empty)
    assert trees.state(ready.worktree) == {}
    ready.redo()
    assert ready.read("d/z") == b"z\n"
    ready.git("show-ref", at=ready.repo)
    assert b"missing" not in ready.git("fsck", at=ready.repo)


def test_case_09_repository_without_any_commit(box: Sandbox) -> None:
    box.make_repo()
    box.git("worktree", "add", "-q", "--detach", str(box.worktree), at=box.repo)
    box.git("checkout", "-q", "--orphan", "nothing")
    box.make_session(owned=True)
    cp = box.cap()
    box.write("a.txt", "two\n")
    box.back(cp)
    assert box.read("a.txt") == b"one\n"


# -- 10: states between commits


def conflicted(box: Sandbox) -> None:
    """Two branches that both changed a.txt."""
    box.git("checkout", "-qb", "other")
    box.write("a.txt", "two\n")
    box.git("commit", "-qam", "2")
    box.git("checkout", "-q", "work")
    box.write("a.txt", "three\n")
    box.git("commit", "-qam", "3")


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "bisect"])
def test_case_10_operation_in_progress(ready: Sandbox, operation: str) -> None:
    conflicted(ready)
    arguments = {
        "merge": ["merge", "other"],
        "rebase": ["rebase", "other"],
        "cherry-pick": ["cherry-pick", "other"],
        "revert": ["revert", "--no-edit", "HEAD~1"],
        "bisect": ["bisect", "start"],
    }[operation]
    ready.git(*arguments, ok=(0, 1))
    stages = ready.git("ls-files", "-u")
    assert stages or operation == "bisect"
    before, stamps = ready.state(), trees.stamps(ready.worktree)
    cp = ready.cap()  # the git state, index bytes and MERGE_HEAD included, is compared by every run
    assert (ready.state(), trees.stamps(ready.worktree)) == (before, stamps)
    ready.write("a.txt", "resolved\n")
    ready.git("add", "a.txt")
    ready.write("a.txt", "resolved\njunk\n")
    ready.back(cp)
    assert ready.state() == before
    assert ready.git("ls-files", "-u") == b""


# -- 11: names


C_LOCALE = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
ODD_NAMES = (
    b"bad\xff",
    b"caf\xc3\xa9",
    b"\xed\xa0\x80",
    b"nl\nx",
    b"cr\rx",
    b"tab\tx",
    b'q"x',
    b"back\\slash",
)


@pytest.mark.parametrize("locale", [{}, C_LOCALE], ids=["utf8", "C"])
def test_case_11_names_that_are_not_utf8(ready: Sandbox, locale: dict[str, str]) -> None:
    for name in ODD_NAMES:
        ready.write(name, name)
        ready.write(b"d\xfe/" + name, name)
    before = ready.state()
    cp = ready.cap()
    for name in ODD_NAMES:
        ready.write(name, "gone")
    shutil.rmtree(ready.worktree / os.fsdecode(b"d\xfe"))
    plan = ready.plan(cp, env=locale)
    assert set(program.changes(plan)) == {*ODD_NAMES, *(b"d\xfe/" + name for name in ODD_NAMES)}
    ready.apply(plan["token"], env=locale)
    assert ready.state() == before
    ready.redo()
    assert ready.read(ODD_NAMES[0]) == b"gone"


def test_case_11_text_output_escapes_control_characters(ready: Sandbox) -> None:
    cp = ready.cap("prompt \x1b[31mred\x07\x00".replace("\x00", ""))
    ready.write(b"esc\x1b[31m\x07", "x")
    ready.write(b"bad\xff", "x")
    ready.write("a\u202eb", "x")
    for command in (("rewind", "preview", cp, "--mode", "workspace"), ("checkpoint", "list"), ("undo",)):
        out = ready.cli(*command, env={"LC_ALL": "C.UTF-8"}).out
        assert not {byte for byte in out if byte < 32} - {ord("\n"), ord("\t")}
        assert "\u202e".encode() not in out
        assert out.decode("utf-8")


@pytest.fixture
def odd(tmp_path: Path) -> Sandbox:
    """A sandbox whose every path has spaces, quotes and signs that mean something to shells and git."""
    box = Sandbox(tmp_path / "sp ace'\"\u00e9;$(x)\\n#")
    box.ready()
    return box


@pytest.mark.parametrize("locale", [{}, C_LOCALE], ids=["utf8", "C"])
def test_case_11_names_of_the_places_themselves(odd: Sandbox, locale: dict[str, str]) -> None:
    cp = odd.cap("\u00e9\u2028", env=locale)
    assert next(record for record in odd.records() if record.get("id") == cp)["prompt"] == "\u00e9\u2028"
    odd.write("a.txt", "two\n")
    odd.write("caf\u00e9", "x\n")
    assert "caf" in odd.cli("rewind", "preview", cp, "--mode", "workspace", env=locale).text
    odd.back(cp, env=locale)
    assert set(odd.state()) == {b"a.txt"}
    assert odd.read("a.txt") == b"one\n"
    odd.cli("checkpoint", "create", "--prompt", b"\xff\xfe", "--json", code=2)


def test_case_28_worktree_below_a_linked_directory(box: Sandbox) -> None:
    """The same place under two spellings: git keeps the resolved one, the session the other."""
    box.tmp.rmdir()
    (box.root / "real").mkdir()
    box.tmp.symlink_to("real")
    box.ready()
    cp = box.cap()
    assert box.checkpoint(cp)["workspace"]["available"]
    box.write("a.txt", "two\n")
    box.back(cp)
    assert box.read("a.txt") == b"one\n"
    assert (
        box.cli("checkpoint", "list", "--json", session=False, cwd=box.worktree).json["session_id"] == box.sid
    )


def test_case_08_objects_borrowed_from_another_repository(box: Sandbox) -> None:
    box.make_repo()
    source = box.repo.rename(box.root / "source")
    box.git("clone", "-q", "--shared", str(source), str(box.repo), at=box.root)
    box.make_worktree()
    cp = box.cap()
    box.write("a.txt", "two\n")
    box.back(cp)
    assert box.read("a.txt") == b"one\n"
    box.cli("checkpoint", "verify")


# -- 13: modes and links come from the file system


def test_case_13_modes_and_links_whatever_git_is_told(ready: Sandbox) -> None:
    ready.git("config", "core.fileMode", "false")
    ready.git("config", "core.symlinks", "false")
    run = ready.write("run.sh", "#!/bin/sh\n", mode=0o755)
    (ready.worktree / "link").symlink_to("a.txt")
    (ready.worktree / "dangling").symlink_to("nowhere")
    before = ready.state()
    cp = ready.cap()
    run.chmod(0o644)
    (ready.worktree / "link").unlink()
    (ready.worktree / "dangling").unlink()
    ready.write("link", "x")
    (ready.worktree / "a.txt").chmod(0o755)
    plan = ready.plan(cp)
    assert program.changes(plan) == {
        b"run.sh": "mode", b"a.txt": "mode", b"link": "type", b"dangling": "added"
    }  # fmt: skip
    ready.apply(plan["token"])
    assert ready.state() == before
    ready.redo()
    assert os.access(ready.worktree / "a.txt", os.X_OK)
    assert not (ready.worktree / "link").is_symlink()


def test_case_13_mode_change_of_a_tracked_and_committed_file(ready: Sandbox) -> None:
    ready.git("config", "core.fileMode", "false")
    (ready.worktree / "a.txt").chmod(0o755)
    cp = ready.cap()
    (ready.worktree / "a.txt").chmod(0o644)
    ready.back(cp)
    assert os.access(ready.worktree / "a.txt", os.X_OK)
    assert ready.read("a.txt") == b"one\n"


# -- 14: bounded, and nothing left in the user's git directory


def kill_after(box: Sandbox, seconds: float, *arguments: str) -> int:
    """Start the program and kill it, alone, after some time. Gives its exit status."""
    child = program.start([*arguments, "-s", box.sid], env=box.environment(), cwd=box.root)
    try:
        child.communicate(timeout=seconds)
    except Exception:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    return child.returncode


def outside_objects(box: Sandbox) -> list[str]:
    """Every path in the user's git directories but the objects, our own refs aside."""
    listed = (path.relative_to(box.repo).as_posix() for path in (box.repo / ".git").rglob("*"))
    return sorted(path for path in listed if not path.startswith((".git/objects", ".git/refs/yolop")))


def test_case_14_killed_captures_leave_nothing_in_the_users_repository(ready: Sandbox) -> None:
    for number in range(1500):
        ready.write(f"u{number:05}", os.urandom(2048))
    before = outside_objects(ready)
    for seconds in (0.1, 0.2, 0.3, 0.45, 0.7):
        kill_after(ready, seconds, "checkpoint", "create", "--prompt", "x")
        ready.settle()
        assert outside_objects(ready) == before
    cp = ready.cap()
    no_leftovers(ready)
    assert outside_objects(ready) == before
    named = {
        record["id"]
        for record in ready.records()
        if record["type"] == "checkpoint_created" and record["snapshot"]
    }
    assert {ref.rsplit("/", 1)[1] for ref in ready.refs()} >= named
    for number in range(0, 1500, 100):
        ready.write(f"u{number:05}", "changed")
    before_state = ready.state()
    assert len(program.changes(ready.plan(cp))) == 15
    assert ready.state() == before_state


# -- 46, the part about worktrees: what is neither file nor link


def test_case_46_pipes_and_sockets_are_left_out_and_left_alone(ready: Sandbox) -> None:
    os.mkfifo(ready.worktree / "pipe")
    os.mkfifo(ready.worktree / "sub.jsonl")
    here = Path.cwd()
    os.chdir(ready.worktree)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("sock")
    finally:
        os.chdir(here)
    ready.write("d/f", "f\n")
    for name, target in (("dangling", "nowhere"), ("loop", "loop"), ("self", "."), ("abs", str(ready.root))):
        (ready.worktree / name).symlink_to(target)
    before = ready.state()
    cp = ready.cap()
    assert ready.checkpoint(cp)["workspace"]["available"]
    (ready.worktree / "dangling").unlink()
    (ready.worktree / "self").unlink()
    ready.write("self/inner", "x\n")
    ready.back(cp)
    assert ready.state() == before


@pytest.mark.parametrize("name", ["events.jsonl", "timeline.jsonl", "workspace.json", "restore.json"])
def test_case_46_pipe_in_place_of_a_session_file_hangs_nothing(ready: Sandbox, name: str) -> None:
    ready.cap()
    (ready.session / name).unlink(missing_ok=True)
    os.mkfifo(ready.session / name, 0o600)
    for command in (("checkpoint", "list"), ("checkpoint", "create", "--prompt", "x")):
        ready.cli(*command, code=(0, 7, 9), timeout=20)
    ready.cli("session", "list", session=False, timeout=20)


def test_case_47_bits_that_git_does_not_know_are_kept(ready: Sandbox) -> None:
    """A file that exists keeps its other bits; one made anew is never wider than what the umask allows."""
    ready.write("cred", "k\n", mode=0o600)
    ready.write("group", "g\n", mode=0o640)
    ready.write("gone", "x\n", mode=0o600)
    cp = ready.cap()
    ready.write("cred", "k2\n")
    ready.write("group", "g2\n")
    (ready.worktree / "gone").unlink()
    ready.back(cp)
    modes = {name: (ready.worktree / name).stat().st_mode & 0o777 for name in ("cred", "group", "gone")}
    assert modes["cred"] == 0o600
    assert modes["group"] == 0o640
    assert not modes["gone"] & 0o022
