"""The cases of the snapshot store, end to end: the installed program on plain directories."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import program, trees
from tests.support.program import UNPRIVILEGED, Ran, path_bytes
from tests.support.sandbox import Sandbox


class Plain:
    """A plain directory with ``a.txt`` in it, and the snapshot commands on it."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.root = box.root / "plain"
        self.write("a.txt", "one\n")

    @property
    def home(self) -> Path:
        return self.root / ".cogitator" / "checkpoints"

    def write(self, name: str | bytes, content: str | bytes, mode: int | None = None) -> Path:
        return self.box.write(name, content, at=self.root, mode=mode)

    def ran(
        self, verb: str, *words: str | Path, code: int | Sequence[int] = 0, prefix: Sequence[str] = ()
    ) -> Ran:
        arguments = ["snapshot", verb, *map(str, words), "--root", str(self.root), "--json"]
        ran = program.run(arguments, env=self.box.environment(), cwd=self.box.root, prefix=prefix)
        program.check(ran, code)
        return ran

    def run(self, verb: str, *words: str | Path, code: int | Sequence[int] = 0) -> Any:
        ran = self.ran(verb, *words, code=code)
        return ran.json if ran.code not in program.CODES else ran.error

    def snap(self, *words: str) -> str:
        made: str = self.run("create", *words)["id"]
        return made

    def state(self) -> dict[bytes, trees.Entry]:
        return trees.state(self.root)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        arguments = ["snapshot", *words, "--root", str(self.root), "--json"]
        return program.start(arguments, self.box.environment(), self.box.root)

    def start_at(self, moment: tuple[str, str, str], *words: str) -> subprocess.Popen[bytes]:
        """Start it with something happening at a moment (tests/support/moments.py)."""
        arguments = [*moment, "snapshot", *words, "--root", str(self.root), "--json"]
        environment = {**self.box.environment(), "PYTHONPATH": str(program.ROOT)}
        return program.start(arguments, environment, self.box.root, prefix=program.MOMENTS)


@pytest.fixture
def plain(box: Sandbox) -> Plain:
    return Plain(box)


def kept(report: dict[str, Any]) -> dict[bytes, str]:
    return {path_bytes(item["path"]): item["why"] for item in report["kept"]}


def test_case_03_an_unreadable_path_is_skipped_and_left_alone(plain: Plain) -> None:
    plain.write("secret", "s\n", 0o000)
    plain.write("closed/x", "c\n")
    (plain.root / "closed").chmod(0o000)
    made = plain.ran("create", prefix=UNPRIVILEGED).json
    assert made["skipped"] == [
        {"path": "closed", "reason": "unreadable"},
        {"path": "secret", "reason": "unreadable"},
    ]
    (plain.root / "closed").chmod(0o755)
    plain.write("closed/since", "since\n")
    plain.write("a.txt", "two\n")
    done = plain.ran("restore", made["id"], prefix=UNPRIVILEGED).json
    assert kept(done) == {b"closed": "unreadable", b"secret": "unreadable"}
    assert (plain.root / "closed/since").exists() and (plain.root / "a.txt").read_text() == "one\n"


def test_case_41_a_collection_and_a_running_snapshot_exclude_each_other(plain: Plain) -> None:
    for number in range(30):
        plain.write(f"f{number:04d}", os.urandom(20_000))
    first = plain.snap()
    for path in plain.root.glob("f000*"):
        path.unlink()
    plain.snap()
    plain.run("delete", first)
    for number in range(30):
        plain.write(f"g{number:04d}", os.urandom(20_000))
    # All contents are written, and the pack has no name yet.
    report = plain.box.root / "moments"
    going = plain.start_at(("stop", r"os\.rename .*\.pack'", str(report)), "create")
    _, status = os.waitpid(going.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), report.read_text()
    deferred = plain.run("gc", "--grace", "0")["deferred"]
    assert len(deferred) == 1 and deferred[0].startswith("create.")
    going.send_signal(signal.SIGCONT)
    out, _ = going.communicate(timeout=120)
    made = json.loads(out)
    assert made["stats"]["files"] == 51
    before = plain.state()
    assert plain.run("verify")["ok"]
    for path in plain.root.glob("g001*"):
        path.unlink()
    plain.run("restore", made["id"])
    assert plain.state() == before


def test_case_41_what_a_killed_snapshot_left_is_collected(plain: Plain) -> None:
    plain.snap()
    for number in range(2000):
        plain.write(f"g{number:04d}", os.urandom(20_000))
    going = plain.start("create")
    wait_for(lambda: any(path.stat().st_size > 1 << 20 for path in (plain.home / "tmp").iterdir()))
    going.kill()
    going.communicate(timeout=60)
    assert list((plain.home / "tmp").iterdir())
    plain.run("gc", "--grace", "0")
    assert not list((plain.home / "tmp").iterdir())
    assert sorted(os.listdir(plain.home / "locks")) == ["gc.lock", "workspace.lock"]
    assert plain.run("verify")["ok"]


def wait_for(happened: Any) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if happened():
                return
        except FileNotFoundError:
            pass
        time.sleep(0.005)
    raise AssertionError("it did not happen")


def test_case_43_absent_because_skipped_is_not_absent(plain: Plain) -> None:
    plain.write("data.bin", os.urandom(2_000_000))
    plain.write("grow.log", "log\n")
    made = plain.snap("--max-file-bytes", "1000000")
    grown = b"log\n" + os.urandom(3_000_000)
    plain.write("grow.log", grown)
    plain.write("new.bin", os.urandom(2_000_000))
    plain.write("a.txt", "v2\n")
    plain.write("new.txt", "n\n")
    before = {name: (plain.root / name).read_bytes() for name in ("data.bin", "new.bin")}
    done = plain.run("restore", made)
    assert kept(done) == {b"data.bin": "too-large", b"new.bin": "too-large"}
    assert done["restored"] == ["a.txt", "grow.log"] and done["deleted"] == ["new.txt"]
    assert {name: (plain.root / name).read_bytes() for name in before} == before
    assert sorted(os.listdir(plain.root)) == [".cogitator", "a.txt", "data.bin", "grow.log", "new.bin"]
    plain.run("restore", done["safety_snapshot_id"])
    assert (plain.root / "grow.log").read_bytes() == grown


def test_case_44_equal_size_and_time_is_not_equal_content(plain: Plain) -> None:
    def write(name: str, content: str) -> None:
        os.utime(plain.write(name, content), (1_700_000_000, 1_700_000_000))

    write("x", "AAAA")
    plain.snap()
    write("x", "BBBB")
    first = plain.snap()
    write("y", "CCCC")
    (plain.root / "y").rename(plain.root / "x")
    second = plain.snap()
    for number in range(5):
        plain.write("x", f"{number:04d}")
        made = plain.snap()
        plain.write("x", "zzzz")
        plain.run("restore", made)
        assert (plain.root / "x").read_text() == f"{number:04d}"
    plain.run("restore", first)
    assert (plain.root / "x").read_text() == "BBBB"
    plain.run("restore", second)
    assert (plain.root / "x").read_text() == "CCCC"


def test_case_46_pipes_sockets_and_links_of_every_kind(plain: Plain) -> None:
    os.mkfifo(plain.root / "pipe")
    os.mkfifo(plain.root / "sub.jsonl")
    here = os.open(plain.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/sock")
    os.close(here)
    for name, target in {
        "dangling": "nowhere",
        "loop": "loop",
        "self": ".",
        "abs": str(plain.box.root),
    }.items():
        (plain.root / name).symlink_to(target)
    (plain.box.root / "outside").write_text("out\n")
    before = plain.state()
    snapshot = plain.snap()
    (plain.root / "dangling").unlink()
    (plain.root / "self").unlink()
    (plain.root / "self").mkdir()
    done = plain.run("restore", snapshot)
    assert plain.state() == before
    assert kept(done) == {b"pipe": "special", b"sock": "special", b"sub.jsonl": "special"}
    held = plain.run("show", snapshot, "--files")["entries"]
    assert "outside" not in [entry["path"] for entry in held]


def test_case_47_modes_are_exact_and_the_store_is_private(plain: Plain) -> None:
    plain.write(".env", "k\n", 0o600)
    plain.write("s", "s\n", 0o4750)
    plain.write("w", "w\n", 0o666)
    before = plain.state()
    made = plain.snap()
    plain.write(".env", "k2\n", 0o644)
    (plain.root / "s").unlink()
    (plain.root / "w").chmod(0o600)
    old = os.umask(0)
    try:
        plain.run("restore", made)
    finally:
        os.umask(old)
    assert plain.state() == before
    assert not [path for path in plain.home.rglob("*") if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_busy_refuses_and_force_says_what_it_overrode(plain: Plain) -> None:
    made = plain.snap()
    plain.write("a.txt", "two\n")
    with subprocess.Popen(["sleep", "60"], cwd=plain.root) as sleeper:
        try:
            assert plain.run("restore", made, "--dry-run")["busy"] is True
            assert plain.run("restore", made, code=6)["details"]["writers"][0]["pid"] == sleeper.pid
            assert (plain.root / "a.txt").read_text() == "two\n"
            done = plain.run("restore", made, "--force")
            assert [writer["pid"] for writer in done["writers"]] == [sleeper.pid]
            assert sleeper.poll() is None, "nothing is stopped"
        finally:
            sleeper.kill()
    assert (plain.root / "a.txt").read_text() == "one\n"
    assert plain.run("restore", made, "--dry-run")["busy"] is False


def test_settings_of_the_directory(plain: Plain) -> None:
    plain.write("x.log", "log\n")
    (plain.root / ".cogitator").mkdir()
    settings = plain.root / ".cogitator" / "checkpoints.toml"
    settings.write_text('exclude = ["*.log"]\nkeep-last = 2\n')
    first = plain.snap()
    assert plain.run("show", first)["snapshot"]["exclude"] == ["*.log"]
    for number in range(3):
        plain.write("a.txt", f"{number}\n")
        plain.snap()
    assert len(plain.run("list")["snapshots"]) == 2
    settings.write_text("keep_last = 2\n")
    assert "keep_last" in plain.run("create", code=2)["message"]


def test_the_directory_is_the_sessions_or_the_current_one(plain: Plain) -> None:
    box = plain.box
    box.make_session(owned=False, root=plain.root)
    made = box.cli("snapshot", "create", "--json").json
    assert made["root"] == str(plain.root)
    here = program.run(["snapshot", "list", "--json"], env=box.environment(), cwd=plain.root)
    assert [one["id"] for one in here.json["snapshots"]] == [made["id"]]
    other = box.root / "other"
    other.mkdir()
    elsewhere = program.run(["snapshot", "list", "--json"], env=box.environment(), cwd=other)
    assert elsewhere.json == {"root": str(other), "snapshots": [], "unreadable": [], "interrupted": None}
    assert not list(other.iterdir())


def test_text_for_people(plain: Plain) -> None:
    plain.write("evil\x1b[31m\n", "x\n")
    made = plain.snap("--label", "so \x1b[31m red")
    plain.write("a.txt", "two\n")
    (plain.root / "evil\x1b[31m\n").unlink()
    words = ["--root", str(plain.root)]
    for verb, *rest in (
        ["create"], ["list"], ["show", made, "--files"], ["diff", made], ["restore", made, "--dry-run"],
        ["restore", made], ["verify"], ["gc"], ["prune", "--keep-last", "3"], ["repair"],
        ["copy", made, "--to", str(plain.box.tmp)], ["delete", made],
    ):  # fmt: skip
        ran = plain.box.cli("snapshot", verb, *rest, *words, session=False)
        assert ran.out, ran.dump()
    plain.box.cli("snapshot", "show", made, *words, session=False, code=3)


@pytest.mark.parametrize("name", ["pipe", "gone"])
def test_a_root_that_is_no_directory(plain: Plain, name: str) -> None:
    os.mkfifo(plain.box.root / "pipe")
    root = str(plain.box.root / name)
    for verb in ("create", "list", "verify", "gc"):
        plain.box.cli("snapshot", verb, "--root", root, session=False, code=(2, 3))


def test_a_restore_killed_half_way_is_told_and_taken_back(plain: Plain) -> None:
    for number in range(300):
        plain.write(f"f{number:03d}", "old\n")
    made = plain.snap()
    for number in range(300):
        plain.write(f"f{number:03d}", "new\n")
    before = plain.state()
    moment = ("kill", r"os\.rename .*b'f015'", str(plain.box.root / "moments"))
    going = plain.start_at(moment, "restore", made)
    going.communicate(timeout=60)
    record = plain.run("list")["interrupted"]
    said = plain.box.cli("snapshot", "list", "--root", str(plain.root), session=False).err
    assert b"was interrupted" in said and record["safety_snapshot_id"].encode() in said
    contents = {path.read_text() for path in plain.root.glob("f*")}
    assert contents <= {"old\n", "new\n"}
    plain.run("delete", record["safety_snapshot_id"], code=4)
    plain.run("restore", record["safety_snapshot_id"])
    assert plain.state() == before
    assert plain.run("list")["interrupted"] is None


def test_ctrl_c_leaves_the_old_files(plain: Plain) -> None:
    for number in range(30):
        plain.write(f"f{number:03d}", "old\n")
    made = plain.snap()
    for number in range(30):
        plain.write(f"f{number:03d}", "new\n")
    before = plain.state()
    moment = ("interrupt", r"os\.rename .*b'f015'", str(plain.box.root / "moments"))
    going = plain.start_at(moment, "restore", made)
    going.communicate(timeout=60)
    assert going.returncode == 130
    assert plain.state() == before
    assert plain.run("list")["interrupted"] is None
