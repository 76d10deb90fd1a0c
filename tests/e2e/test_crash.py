"""Killed or out of space at any moment: old or new, whole, reported, and mended by the next command.

The moments are exact: the interpreter's own announcements of changes are counted (tests/support/moments.py).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import program, reader, trees
from tests.support.program import MOMENTS, Ran
from tests.support.sandbox import Sandbox

SAMPLES = 4
STAGING = b".yolop-restore-"
PLACING = r"os\.rename .*b'f3'"  # a moment in the middle of putting files into their places


def at_moment(box: Sandbox, action: str, moment: int | str, *arguments: str) -> tuple[Ran, list[str]]:
    """Run the program with something happening at a moment. Gives the run and the moments it went through."""
    report = box.root / "moments"
    report.unlink(missing_ok=True)
    words = (action, str(moment), str(report), *arguments, "-s", box.sid)
    ran = program.run(words, env=box.environment(), cwd=box.root, prefix=MOMENTS)
    return ran, report.read_text().split("\n")[:-1] if report.exists() else []


def spread(count: int, samples: int) -> list[int]:
    """Some of the moments 1..count, evenly, the last ones among them: there the head moves."""
    if count <= samples:
        return list(range(1, count + 1))
    step = (count - 1) / (samples - 1)
    return sorted({1 + round(step * index) for index in range(samples)} | {count - 1})


class Scene:
    """A worktree with a checkpoint and many kinds of changes since."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        box.ready()
        for number in range(6):
            box.write(f"f{number}", f"old {number} {'0' * 500}\n")
        box.write("gone/deep/f", "old gone\n")
        box.write("type", "old file\n")
        box.write("dir/x", "old x\n")
        (box.worktree / "link").symlink_to("f1")
        box.write("mode", "old mode\n")
        self.old = box.state()
        self.cp = box.cap()
        for number in range(6):
            box.write(f"f{number}", f"new {number} {'1' * 500}\n")
        (box.worktree / "gone/deep/f").unlink()
        (box.worktree / "gone/deep").rmdir()
        (box.worktree / "gone").rmdir()
        (box.worktree / "type").unlink()
        box.write("type/inner", "new inner\n")
        (box.worktree / "dir/x").unlink()
        (box.worktree / "dir").rmdir()
        box.write("dir", "new file\n")
        (box.worktree / "link").unlink()
        (box.worktree / "link").symlink_to("f2")
        (box.worktree / "mode").chmod(0o755)
        box.write("d/n", "new n\n")
        self.new = box.state()
        self.git = box.gitstates(["--yes"])
        self.moments: list[str] = []

    def token(self) -> str:
        """A preview of the way back."""
        return str(self.box.plan(self.cp, "both", watch=False)["token"])

    def moves(self) -> int:
        """How often the head was moved."""
        return sum(record["type"] == "head_moved" for record in self.box.records())

    def assert_whole(self) -> None:
        """Each path holds its old or its new bytes; besides them there is only what was staged, apart."""
        for path, entry in self.box.state().items():
            if entry.kind != "directory" and not path.startswith(STAGING):
                assert entry in (self.old.get(path), self.new.get(path)), path
        assert self.box.gitstates(["--yes"]) == self.git

    def assert_no_strays(self) -> None:
        """No temporary file in the worktree or the session."""
        for root in (self.box.worktree, self.box.session, self.box.repo / ".git"):
            left = [path for path in root.rglob("*") if ".tmp" in path.name or path.name.endswith(".lock")]
            assert not [path for path in left if path.name != "info"], left
        assert set(self.box.state()) <= {*self.old, *self.new}
        assert len([ref for ref in self.box.refs() if "recovery" in ref]) <= 1

    def drop_empty_directories(self) -> None:
        """Remove the directories that neither side has."""
        for path, entry in self.box.state().items():
            if entry.kind == "directory" and path not in self.old:
                os.rmdir(os.fsencode(self.box.worktree) + b"/" + path)

    def after_a_crash(self, moves_before: int, where: str) -> bool:
        """Whatever happened, the session can go on. Gives whether the restore was complete."""
        box = self.box
        box.settle()
        reported = box.cli("rewind", "status", watch=False, code=(0, 1, 3, 4))
        complete = self.moves() > moves_before
        if complete:
            assert self.moves() == moves_before + 1, where
            assert box.state() == self.old, f"{where}\n{trees.difference(self.old, box.state())}"
            box.cli("rewind", "cancel", watch=False, code=(0, 3, 4))
            assert box.state() == self.old, where
            box.cli("redo", "--yes", watch=False)
        else:
            if trees.content(box.worktree) != {k: v for k, v in self.new.items() if v.kind != "directory"}:
                assert "interrupted" in reported.said, f"{where}\n{reported.dump()}"
            box.cli("rewind", "cancel", watch=False, code=(0, 3, 4))
            assert self.moves() == moves_before, where
        assert box.state() == self.new, f"{where}\n{trees.difference(self.new, box.state())}"
        assert not (box.session / "restore.json").exists(), where
        self.assert_whole()
        self.assert_no_strays()
        return complete


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    """The scene that tests hand on to each other, as long as each leaves it as it found it."""
    return {}


@pytest.fixture
def scene(scenes: dict[str, Scene], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene with nothing half done in it."""
    if "clean" not in scenes:
        scenes["clean"] = Scene(Sandbox(tmp_path_factory.mktemp("scene")))
    mine = scenes.pop("clean")
    yield mine
    if mine.box.state() == mine.new and not (mine.box.session / "restore.json").exists():
        scenes["clean"] = mine


def count_moments(scene: Scene) -> list[str]:
    """The moments of an apply that is left alone; counted once, since it is much the same each time."""
    if scene.moments:
        return scene.moments
    ran, moments = at_moment(scene.box, "count", 0, "rewind", "apply", scene.token())
    assert ran.code == 0, ran.dump()
    assert scene.box.state() == scene.old
    scene.box.cli("redo", "--yes", watch=False)
    assert scene.box.state() == scene.new
    assert len(moments) > 20, moments
    scene.moments = moments
    return moments


def sweep(scene: Scene, action: str, samples: int | None) -> None:
    """Something at every (sampled) moment of apply."""
    moments = count_moments(scene)
    for number in spread(len(moments), samples or len(moments)):
        before, token = scene.moves(), scene.token()
        ran, seen = at_moment(scene.box, action, number, "rewind", "apply", token)
        where = f"{action} {number}: {seen[-1:]}\n{ran.dump()}"
        assert b"Traceback" not in ran.err, where
        if action == "kill" and len(seen) == number:
            assert ran.code == -signal.SIGKILL, where
            scene.assert_whole()
        elif action == "interrupt" and ran.code == 130:
            done = scene.moves() > before
            assert scene.box.state() == (scene.old if done else scene.new), where
        elif ran.code == 0:  # the failure could be passed over, or this run had fewer moments
            if action == "fail" and "os.rmdir" in "".join(seen[number - 1 : number]):
                scene.drop_empty_directories()  # one that cannot be removed may stay
            assert scene.box.state() == scene.old, where
        elif scene.moves() > before:  # the head has moved already: then the message says so
            assert ran.code == 9 and "took effect" in ran.said, where
        else:
            assert ran.code in (6, 7, 8, 9), where
            assert scene.moves() == before, where
            assert scene.box.state() == scene.new, (
                f"{where}\n{trees.difference(scene.new, scene.box.state())}"
            )
        scene.after_a_crash(before, where)


def test_case_25_killed_at_sampled_moments_of_apply(scene: Scene) -> None:
    sweep(scene, "kill", SAMPLES)


def test_case_25_out_of_space_at_sampled_moments_of_apply(scene: Scene) -> None:
    sweep(scene, "fail", SAMPLES)


def test_interrupted_by_the_user_at_sampled_moments_of_apply(scene: Scene) -> None:
    sweep(scene, "interrupt", 3)


@pytest.mark.exhaustive
def test_interrupted_by_the_user_at_every_moment_of_apply(scene: Scene) -> None:
    sweep(scene, "interrupt", None)


def test_case_58_edit_while_the_restore_runs_is_not_overwritten(scene: Scene) -> None:
    """The plan is checked once more path by path: a file saved in between stays, and all else is put back."""
    box = scene.box
    before = scene.moves()
    report = box.root / "moments"
    report.unlink(missing_ok=True)
    # f5 comes later.
    words = ("stop", PLACING, str(report), "rewind", "apply", scene.token(), "-s", box.sid)
    environment = {**box.environment(), "PYTHONPATH": str(program.ROOT)}
    child = program.start(words, env=environment, cwd=box.root, prefix=MOMENTS)
    _pid, status = os.waitpid(child.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), report.read_text()
    box.write("f5", "saved by the user meanwhile\n")
    child.send_signal(signal.SIGCONT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 8, (out, err)
    assert box.read("f5") == b"saved by the user meanwhile\n"
    assert scene.moves() == before
    assert {**box.state(), b"f5": scene.new[b"f5"]} == scene.new, err


@pytest.mark.exhaustive
def test_case_25_killed_at_every_moment_of_apply(scene: Scene) -> None:
    sweep(scene, "kill", None)


@pytest.mark.exhaustive
def test_case_25_out_of_space_at_every_moment_of_apply(scene: Scene) -> None:
    sweep(scene, "fail", None)


def killed_by_the_clock(scene: Scene, seconds: float) -> None:
    """Kill the program alone, so that a git process of its may live on, after some time."""
    before, token = scene.moves(), scene.token()
    child = program.start(
        ["rewind", "apply", token, "-s", scene.box.sid], env=scene.box.environment(), cwd=scene.box.root
    )
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    scene.after_a_crash(before, f"after {seconds:.3f} s")


def test_case_25_killed_by_the_clock(scene: Scene) -> None:
    whole = duration_of_apply(scene)
    for fraction in (0.6, 0.9):
        killed_by_the_clock(scene, whole * fraction)


@pytest.mark.exhaustive
def test_case_25_killed_by_the_clock_all_along(scene: Scene) -> None:
    whole = duration_of_apply(scene)
    for step in range(60):
        killed_by_the_clock(scene, whole * (0.2 + 0.8 * step / 60))


def duration_of_apply(scene: Scene) -> float:
    """How long an apply takes on this machine now."""
    token = scene.token()
    started = time.monotonic()
    scene.box.apply(token, watch=False)
    taken = time.monotonic() - started
    scene.box.cli("redo", "--yes", watch=False)
    return taken


def test_case_25_next_writer_reports_the_interrupted_restore(scene: Scene) -> None:
    """Half a restore is said aloud, with the way on, and nothing is lost."""
    before, token = scene.moves(), scene.token()
    at_moment(scene.box, "kill", PLACING, "rewind", "apply", token)
    scene.box.settle()
    assert scene.box.state() not in (scene.old, scene.new)
    for command in (("rewind", "status"), ("checkpoint", "list"), ("session", "show")):
        assert "interrupted" in scene.box.cli(*command, watch=False, code=(0, 1)).said, command
    for command in (
        ("checkpoint", "create", "--prompt", "x"),
        ("undo", "--yes"),
        ("rewind", "preview", scene.cp),
    ):
        refused = scene.box.cli(*command, watch=False, code=(4, 6, 8, 9))
        assert "rewind cancel" in refused.said, refused.dump()
    assert "interrupted" in scene.box.cli("rewind", "apply", "0" * 32, watch=False, code=(4, 8)).said
    refused = scene.box.cli("undo", "--json", watch=False, code=(4, 6, 8, 9))
    assert refused.error["hint"]  # and nothing beside the one document on standard error
    # Killed again while it puts things back, twice: the third time it succeeds.
    for number in (12, 20):
        at_moment(scene.box, "kill", number, "rewind", "cancel")
        scene.box.settle()
        scene.assert_whole()
    scene.after_a_crash(before, "killed in apply and in cancel")


def test_case_25_interrupted_restore_can_be_finished(scene: Scene) -> None:
    before, token = scene.moves(), scene.token()
    at_moment(scene.box, "kill", PLACING, "rewind", "apply", token)
    scene.box.settle()
    assert scene.box.state() not in (scene.old, scene.new)
    assert "interrupted" not in scene.box.cli("rewind", "apply", token, watch=False).said
    assert scene.box.state() == scene.old
    assert scene.moves() == before + 1
    scene.box.cli("redo", "--yes", watch=False)
    assert scene.box.state() == scene.new
    scene.assert_no_strays()


def test_case_25_edit_after_the_crash_is_not_lost(scene: Scene) -> None:
    """What the user did to a path in between is left alone by cancel, and named."""
    at_moment(scene.box, "kill", PLACING, "rewind", "apply", scene.token())
    scene.box.settle()
    scene.box.write("f0", "typed after the crash\n")
    scene.box.write("elsewhere", "typed after the crash\n")
    report = scene.box.cli("rewind", "cancel", watch=False)
    assert "f0" in report.said and report.err == b""
    assert scene.box.read("f0") == b"typed after the crash\n"
    assert scene.box.read("elsewhere") == b"typed after the crash\n"
    now = {**scene.box.state(), b"f0": scene.new[b"f0"]}
    del now[b"elsewhere"]
    assert now == scene.new
    recovery = [tree for ref, tree in scene.box.refs().items() if "recovery" in ref]
    assert any(
        scene.box.git("cat-file", "-p", f"{tree}:f0", at=scene.box.repo).startswith(b"new 0")
        for tree in recovery
    )


# -- capture


def test_case_14_killed_at_sampled_moments_of_capture(box: Sandbox) -> None:
    sweep_capture(box, SAMPLES)


@pytest.mark.exhaustive
def test_case_14_killed_at_every_moment_of_capture(box: Sandbox) -> None:
    sweep_capture(box, None)


def sweep_capture(box: Sandbox, samples: int | None) -> None:
    """A kill at (sampled) moments of ``checkpoint create``: no trace, and the next one works."""
    box.ready()
    box.cap()
    box.write("a.txt", "first\n")
    create = ("checkpoint", "create", "--prompt", "x")
    _ran, moments = at_moment(box, "count", 0, *create)
    for number in spread(len(moments), samples or len(moments)):
        box.write("a.txt", f"{number}\n")
        box.write(f"new/{number}", f"{number}\n")
        before, git = box.state(), box.gitstates()
        ran, seen = at_moment(box, "kill", number, *create)
        if ran.code == 0:
            continue  # this run had fewer moments
        box.settle()
        where = f"kill {number}: {seen[-1:]}"
        assert box.state() == before, where
        assert box.gitstates() == git, where
        name = box.create(watch=False)["id"]
        assert box.cli("checkpoint", "cat", name, "a.txt", watch=False).out == f"{number}\n".encode(), where
        left = [path for path in box.session.rglob("*") if path.name.endswith(".lock") or ".tmp" in path.name]
        assert not left, where
    assert reader.fold(box.records())
    named = {record["snapshot"]["reference"] for record in box.records() if record.get("snapshot")}
    assert named <= set(box.refs())
    box.git("fsck", at=box.repo)


def test_case_14_out_of_space_while_capturing(box: Sandbox) -> None:
    box.ready()
    box.cap()
    create = ("checkpoint", "create", "--prompt", "x")
    box.write("a.txt", "first\n")
    _ran, moments = at_moment(box, "count", 0, *create)
    for number in spread(len(moments), SAMPLES):
        box.write("a.txt", f"{number}\n")
        git = box.gitstates()
        ran, seen = at_moment(box, "fail", number, *create)
        where = f"fail {number}: {seen[-1:]}\n{ran.dump()}"
        assert b"Traceback" not in ran.err, where
        assert ran.code in (0, 9), where
        assert box.gitstates() == git, where
        newest = box.checkpoints(watch=False)[0] if ran.code == 0 else None
        if newest is not None and newest["workspace"]["available"]:
            assert (
                box.cli("checkpoint", "cat", newest["id"], "a.txt", watch=False).out == f"{number}\n".encode()
            )
        elif newest is not None:
            assert newest["workspace"]["reason"], where


# -- the journal on a full disk


def test_case_37_full_disk_while_appending(ready: Sandbox) -> None:
    """A file size limit instead of a full disk: what was appended is whole, the rest is taken back."""
    for _ in range(2):
        ready.turn("first", [])
    import resource

    size = ready.timeline.stat().st_size
    limit = size + 700

    def limited() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    failed: Ran | None = None
    for _ in range(8):
        arguments = ["checkpoint", "create", "--prompt", "x" * 300, "-s", ready.sid]
        # The limit would cut off what Python keeps of compiled modules as well.
        environment = ready.environment({"PYTHONDONTWRITEBYTECODE": "1"})
        child = program.start(arguments, env=environment, cwd=ready.root, preexec_fn=limited)
        out, err = child.communicate()
        if child.returncode:
            failed = Ran(tuple(arguments), tuple(arguments), child.returncode, out, err)
            break
    assert failed is not None
    assert failed.code == 9, failed.dump()
    assert ready.timeline.read_bytes().endswith(b"\n")
    records = ready.records()
    ready.cap()
    assert ready.records()[: len(records)] == records


def test_interrupt_leaves_a_consistent_directory(ready: Sandbox) -> None:
    for number in range(1200):
        Path(ready.worktree / f"u{number:04}").write_bytes(os.urandom(1024))
    for seconds in (0.15, 0.3, 0.5):
        child = program.start(
            ["checkpoint", "create", "--prompt", "x", "-s", ready.sid],
            env=ready.environment(),
            cwd=ready.root,
        )
        time.sleep(seconds)
        os.killpg(child.pid, signal.SIGINT)
        _out, err = child.communicate(timeout=30)
        assert child.returncode in (0, 130), err
        # Where a finalizer is interrupted, Python prints that and passes it over.
        assert b"Traceback" not in err or b"Exception ignored in" in err, err
    ready.settle()
    name = ready.create()["id"]
    assert ready.checkpoint(name)["workspace"]["available"]
