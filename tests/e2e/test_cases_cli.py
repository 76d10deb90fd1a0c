"""What went wrong at the command line of other tools: each reported case, and others of its kind."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.support import program
from tests.support.sandbox import Sandbox

PERSONAL = {
    "color.ui": "always",
    "diff.external": "false",
    "diff.noprefix": "true",
    "core.quotePath": "true",
    "status.relativePaths": "true",
    "core.pager": "cat; exit 1",
    "commit.gpgSign": "true",
    "tag.gpgSign": "true",
    "gpg.program": "false",
    "user.useConfigOnly": "true",
    "core.safecrlf": "true",
    "core.autocrlf": "true",
    "diff.renames": "copies",
    "core.abbrev": "4",
    "diff.mnemonicPrefix": "true",
    "core.ignoreCase": "true",
    "core.precomposeUnicode": "true",
    "core.preloadIndex": "false",
    "core.untrackedCache": "true",
    "core.splitIndex": "true",
    "index.version": "4",
    "diff.orderFile": "/nowhere",
    "diff.ignoreSubmodules": "all",
    "status.showUntrackedFiles": "no",
    "core.fsyncObjectFiles": "false",
    "log.showSignature": "true",
    "alias.write-tree": "!false",
    "core.editor": "false",
    "column.ui": "always",
}


def test_case_15_personal_settings_change_nothing(ready: Sandbox) -> None:
    for key, value in PERSONAL.items():
        ready.git("config", "--global", key, value)
    ready.git("config", "--global", "--unset", "user.email")
    ready.write("mixed.txt", "a\r\nb\n")
    ready.write(".gitattributes", "*.u16 working-tree-encoding=UTF-16\n")
    ready.write("x.u16", "plain")
    before = ready.state()
    cp = ready.cap(env={"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "GIT_PAGER": "false", "PAGER": "false"})
    assert ready.checkpoint(cp)["workspace"]["available"]
    ready.write("a.txt", "two\n")
    (ready.worktree / "mixed.txt").unlink()
    plan = ready.plan(cp)  # no escape codes: checked by every run
    assert program.changes(plan) == {b"a.txt": "modified", b"mixed.txt": "added"}
    ready.apply(plan["token"])
    assert ready.state() == before
    ready.cli("rewind", "preview", cp, "--mode", "workspace")
    ready.cli("checkpoint", "diff", cp)


def test_case_15_excludes_of_the_user_count_as_ignore_rules(ready: Sandbox) -> None:
    ready.write("ignore-me", "*.mine\n", at=ready.home)
    ready.git("config", "--global", "core.excludesFile", str(ready.home / "ignore-me"))
    cp = ready.cap()
    ready.write("x.mine", "ignored\n")
    ready.write("new", "n\n")
    assert program.changes(ready.plan(cp)) == {b"new": "deleted"}
    ready.back(cp)
    assert ready.read("x.mine") == b"ignored\n"


def test_case_15_broken_personal_configuration_gives_a_reason(ready: Sandbox) -> None:
    (ready.home / ".gitconfig").write_text("[broken\n")
    made = ready.cli(
        "checkpoint", "create", "--prompt", "x", "--json", code=(0, 9), watch=False
    )  # fmt: skip
    if made.code == 0:
        workspace = made.json["checkpoint"]["workspace"]
        assert workspace["available"] or workspace["reason"]


# -- 49: without a terminal nothing is confirmed


def test_case_49_piped_text_is_not_an_answer(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    timeline = ready.timeline.read_bytes()
    answers = {"nothing": b"", "yes": b"y\n" * 1000, "file": ready.read("a.txt")}
    for text in answers.values():
        ready.cli("rewind", "preview", cp, "--mode", "workspace", stdin=text, timeout=20)
        shown = ready.cli("undo", stdin=text, timeout=20)
        assert "--yes" in shown.said or "rewind apply" in shown.said
        ready.cli("redo", stdin=text, code=4, timeout=20)
    plan = ready.cli("rewind", "preview", cp, "--json", stdin=b"y\n" * 1000, timeout=20).json
    assert plan["token"]
    for wrong in ("", " ", "y", "yes"):
        ready.cli("rewind", "apply", wrong, "--json", code=(2, 4), stdin=b"y\n", timeout=20)
    assert ready.read("a.txt") == b"two\n"
    assert ready.timeline.read_bytes() == timeline


def test_case_49_closed_standard_input_and_output(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("a.txt", "two\n")
    undo = f'"$0" undo -s {ready.sid} <&-; echo "exit $?"'
    script = f'{undo}; "$0" rewind preview {cp} -s {ready.sid} --json <&- >&-'
    ran = subprocess.run(
        ["sh", "-c", script, program.PROGRAM],
        env=ready.environment(),
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert b"exit 0" in ran.stdout
    assert b"Traceback" not in ran.stderr
    assert ready.read("a.txt") == b"two\n"


def test_case_49_undo_prints_its_token_and_stops(ready: Sandbox) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    refs, timeline = set(ready.refs()), ready.timeline.read_bytes()
    plan = ready.cli("undo", "--json").json
    assert plan["kind"] == "rewind"
    assert plan["mode"] == "both"
    assert ready.read("a.txt") == b"two\n"
    assert ready.timeline.read_bytes() == timeline
    assert len(set(ready.refs()) - refs) <= 1  # the recovery snapshot
    text = ready.cli("undo").text
    assert ready.cli("rewind", "status", "--json").json
    token = ready.cli("undo", "--json").json["token"]
    assert token not in text  # each preview has a token of its own
    ready.apply(token)
    assert ready.read("a.txt") == b"one\n"


@pytest.mark.parametrize("answer,applied", [("y\n", True), ("n\n", False), ("\n", False), ("\x04", False)])
def test_case_49_on_a_terminal_it_shows_and_asks(ready: Sandbox, answer: str, applied: bool) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    ours, theirs = pty.openpty()
    try:
        child = program.start(
            ["undo", "-s", ready.sid],
            env=ready.environment({"TERM": "dumb"}),
            cwd=ready.root,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        os.write(ours, answer.encode())
        shown = read_all(ours)
        child.wait(30)
    finally:
        os.close(ours)
    assert b"a.txt" in shown, shown
    assert ready.read("a.txt") == (b"one\n" if applied else b"two\n"), shown
    if not applied:
        assert not any(record["type"] == "head_moved" for record in ready.records())


def read_all(fd: int) -> bytes:
    """Everything a terminal shows until its other side is closed."""
    shown = b""
    while True:
        try:
            block = os.read(fd, 4096)
        except OSError:
            return shown
        if not block:
            return shown
        shown += block


def test_case_49_asking_for_json_keeps_standard_output_json(ready: Sandbox) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    ready.cli("undo", "--json", stdin=b"y\n")
    ready.cli("rewind", "apply", "wrong", "--json", code=4)
    ready.cli("rewind", "apply", "--json", code=2)
    ready.cli("rewind", "preview", "nothing", "--json", code=3)
    ready.cli("rewind", "preview", "--json", code=2)
    ready.cli("rewind", "nonsense", "--json", code=2, session=False)


def test_case_49_closed_pipe_is_quiet(ready: Sandbox) -> None:
    for number in range(3):
        ready.cap(f"turn {number} " + "x" * 40_000)
    script = f'"$0" checkpoint list -s {ready.sid} --json | head -c 10 >"$1"; "$0" session list --json | true'
    ran = subprocess.run(
        ["bash", "-c", script, program.PROGRAM, str(ready.root / "out")],
        env=ready.environment(),
        capture_output=True,
        timeout=40,
        check=False,
    )
    assert ran.stderr == b""
