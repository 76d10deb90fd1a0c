"""The tests' own means: a run in the test's process is as one in its own, a copy is as what git makes."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support import inprocess, launching, program, unprivileged
from tests.support.sandbox import Sandbox
from yolop_cli.ground.git import Git, Where


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["--version"], None),
        (["session", "show", "--json"], None),
        (["checkpoint", "list"], None),
        (["checkpoint", "shw"], None),
        (["rewind", "apply", b"\xff", "--json"], None),
        (["schema", "validate", "-", "--schema", "event", "--json"], b'{"id": "\xff'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_run_here_says_what_a_process_says(
    ready: Sandbox, words: list[str | bytes], stdin: bytes | None
) -> None:
    ready.cap()
    env = ready.environment({"YOLOP_SESSION": ready.sid})
    here = program.run(words, env=env, cwd=ready.worktree, stdin=stdin)
    there = program.run(words, env=env, cwd=ready.worktree, stdin=stdin, process=True)
    assert (here.code, here.out, here.err) == (there.code, there.out, there.err)


def test_the_streams_are_as_the_interpreter_makes_them(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "import sys, json\nprint(json.dumps([[s.encoding, s.errors, s.line_buffering, s.isatty(), s.fileno()]"
        " for s in (sys.stdin, sys.stdout, sys.stderr)]))"
    )
    monkeypatch.setattr(inprocess, "main", lambda: exec(words, {}))
    status, here, err = inprocess.run([], box.environment(), box.root, None, 30)
    assert (status, err) == (0, b"")
    there = program.run([], env=box.environment(), cwd=box.root, prefix=[sys.executable, "-c", words])
    assert json.loads(here) == there.json


def test_nothing_of_a_run_is_left(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    from yolop_cli.cli import main as module

    def unruly() -> None:
        assert Path.cwd() == box.root and sys.argv == ["yolop-cli", "a", "b"]
        assert os.environ == box.environment() and tempfile.gettempdir() == str(box.tmp)
        os.write(1, b"bytes\xff")
        os.chdir("/")
        os.umask(0o077)
        os.environ["LEFT"] = "x"
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.setrecursionlimit(5000)
        module.COMMANDS["left"] = ("", "", "", "")
        raise SystemExit(300)

    def state() -> object:
        mask = os.umask(0)
        os.umask(mask)
        caught = signal.getsignal(signal.SIGINT)
        streams = (sys.stdin, sys.stdout, sys.stderr)
        limits = (sys.getrecursionlimit(), tempfile.tempdir)
        return Path.cwd(), mask, dict(os.environ), caught, limits, streams, sys.argv, dict(module.COMMANDS)

    monkeypatch.setattr(inprocess, "main", unruly)
    before = state()
    assert inprocess.run(["a", "b"], box.environment(), box.root, None, 30) == (300 & 0xFF, b"bytes\xff", b"")
    assert state() == before


def test_the_fork_without_privileges_has_those_that_setpriv_leaves(box: Sandbox) -> None:
    def shown() -> None:
        unprivileged.drop()
        os.execvp("grep", ["grep", "^Cap", "/proc/self/status"])

    there = program.run(
        [],
        env=box.environment(),
        cwd=box.root,
        prefix=[*program.UNPRIVILEGED, *("bash", "-c", "grep ^Cap /proc/self/status")],
        process=True,
    )
    assert inprocess.forked(shown, [], box.environment(), box.root, None, 30) == (0, there.out, b"")


def test_what_a_run_leaves_open_is_named(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    monkeypatch.setattr(
        inprocess, "main", lambda: opened.append(os.open(box.home / ".gitconfig", os.O_RDONLY))
    )
    with pytest.raises(inprocess.LeftOpenError, match="gitconfig"):
        inprocess.run([], box.environment(), box.root, None, 30)
    os.close(opened[0])


def test_a_run_that_hangs_is_ended(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang() -> None:
        while True:
            try:
                signal.pause()
            except Exception:
                pass

    monkeypatch.setattr(inprocess, "main", hang)
    with pytest.raises(inprocess.TookTooLongError):
        inprocess.run([], box.environment(), box.root, None, 0.1)
    with pytest.raises(inprocess.TookTooLongError):
        inprocess.forked(hang, [], box.environment(), box.root, None, 0.1)


def test_git_is_started_as_sh_starts_it(box: Sandbox) -> None:
    stub = box.root / "bin" / "git"
    stub.parent.mkdir()
    stub.write_text(
        '#!/bin/sh\nprintf "%s|" "$@"; cat; pwd; env | sort; ls /proc/$$/fd; '
        'grep -E "SigBlk|SigIgn" /proc/$$/status | tail -1; test $(cut -d" " -f6 /proc/$$/stat) = $$; '
        "echo $?; "
        "echo oops >&2; kill -$1 $$; exit 3\n"
    )
    stub.chmod(0o755)
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    git = Git({"PATH": f"{stub.parent}:/usr/bin:/bin", "ODD": "\udcff"}, keep=(reader, writer))
    said = []
    for how in (launching.light, launching.through_sh):
        with how():
            for number in ("0", "9", "13"):
                ran = git.run(Where(box.root), number, "ä", "\udcfe", stdin=b"in\n", ok=(3, -9, -13))
                said.append(
                    (ran.status, *(line for line in ran.out.split(b"\n") if b"SigIgn" not in line), ran.err)
                )
    os.close(reader)
    os.close(writer)
    assert [ran[0] for ran in said] == [3, -9, -13, 3, -9, -13]
    for light, through_sh in zip(said[:3], said[3:], strict=True):
        assert light == through_sh


def test_a_copy_is_as_what_git_makes(tmp_path: Path) -> None:
    boxes = [Sandbox(tmp_path / name) for name in ("made", "copy", "again")]
    boxes[0]._ready()
    for box in boxes[1:]:
        box.ready()
    looked = []
    for box in boxes:
        said = [
            box.git("worktree", "list", "--porcelain"),
            box.git("status", "--porcelain", "-z"),
            box.git("fsck", "--strict", at=box.repo),
            box.git("log", "--format=%H %D", "--all"),
            *(path.read_bytes() for path in (box.worktree / ".git", box.session / "workspace.json")),
        ]
        names = sorted(
            str(path.relative_to(box.root)) for path in box.root.rglob("*") if ".lock" not in path.name
        )
        modes = [oct((box.root / name).lstat().st_mode) for name in names]
        looked.append(([each.replace(os.fsencode(box.root), b"ROOT") for each in said], names, modes))
    assert looked[0] == looked[1] == looked[2]


def test_a_box_that_is_set_otherwise_gets_what_git_makes_of_it(box: Sandbox) -> None:
    (box.home / ".gitconfig").write_text("[user]\n\tname = another\n\temail = none\n")
    box.ready()
    assert box.git("log", "--format=%an") == b"another\n"
