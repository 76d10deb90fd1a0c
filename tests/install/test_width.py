"""Every command on a session with long paths: no line over 80 columns; what finds nothing says so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.test_outputs_match_schemas import live_commands
from tests.support.program import PROGRAM
from tests.support.sandbox import SID, Sandbox
from tests.support.terminal import Terminal, width
from yolop_cli.ground import schemas

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# One word that must stay whole: a path or a ref, or an id at the end of a command line.
WHOLE = re.compile(r" *(?:fix: )?\S*(?:/\S*|session_[0-9a-f]{32}\S*)[,;:.]?\Z")
COMMAND = re.compile(r"(?:hint: .*|.*`|  (?:export|yolop-cli) ).*")
COMMANDS = (
    "session list",
    "session show",
    "timeline show",
    "timeline validate",
    "timeline validate --all",
    "timeline repair",
    "event list",
    "event validate",
    "compaction list",
    "compaction validate",
    "checkpoint list",
    "checkpoint show cp_1_1",
    "checkpoint diff cp_1_1",
    "checkpoint diff cp_1_1 --stat",
    "checkpoint verify",
    "rewind preview cp_1_1",
    "rewind status",
    "rewind cancel",
    "undo --yes",
    "redo --yes",
    "checkpoint create --prompt again",
    "checkpoint complete",
    "checkpoint extract cp_1_1 {root}/out",
    "checkpoint delete cp_1_1",
    "snapshot create --root {root}/plain",
    "snapshot list --root {root}/plain",
    "snapshot show latest --root {root}/plain",
    "snapshot restore latest --root {root}/plain",
    "snapshot verify --root {root}/plain",
    "snapshot gc --root {root}/plain",
    "snapshot diff latest --root {root}/plain",
    "snapshot extract latest {root}/taken --root {root}/plain",
    "snapshot prune --keep-last 1 --root {root}/plain --dry-run",
    "snapshot repair --root {root}/plain",
    "snapshot copy latest {root}/elsewhere --root {root}/plain",
    "snapshot delete latest --root {root}/plain",
    "worktree list",
    "worktree prune --dry-run",
    "doctor",
    "doctor --all --fix",
    "schema list",
    "schema validate {session}/workspace.json",
    "demo {root}/demo",
    "session delete",
    "session delete --yes",
    "doctor --all",
)
# What prints a file as it is, and what shows the same as a command above.
NOT_HERE = {"checkpoint cat", "snapshot cat", "schema show", "completion", "rewind apply"}


@pytest.fixture
def deep(tmp_path: Path) -> Sandbox:
    """A session of two turns below a directory with a long name, a record of it damaged, a mode open."""
    root = tmp_path / "a-directory-with-a-name-of-some-length" / "and-another-below-it"
    root.mkdir(parents=True)
    box = Sandbox(root)
    box.ready()
    box.turn("one", [("a.txt", "1\n")])
    box.turn("two", [("a.txt", "2\n"), ("b.txt", "2\n")])
    (root / "plain").mkdir()
    (root / "elsewhere").mkdir()
    (root / "plain" / "list").write_text("bread\n")
    (box.session / "events.jsonl").chmod(0o644)
    return box


def too_wide(shown: str) -> list[str]:
    """The lines over 80 columns; a row of fields separated by tabs is for programs."""
    lines = re.split(r"[\r\n]+", ESCAPE.sub("", shown))
    return [
        each
        for each in lines
        if width(each) > 80 and "\t" not in each and not WHOLE.match(each) and not COMMAND.match(each)
    ]


def test_every_command_is_tried_here() -> None:
    for words in live_commands():
        name = " ".join(words)
        assert name in NOT_HERE or any(f"{each} ".startswith(f"{name} ") for each in COMMANDS), name


def test_no_line_of_a_help_text_is_wider_than_80_columns(box: Sandbox) -> None:
    every = list(live_commands())
    for words in sorted({words[:length] for words in every for length in range(3)}):
        ran = box.cli(*words, "--help", session=False, watch=False)
        assert not [line for line in ran.text.split("\n") if width(line) > 80], (words, ran.text)


def test_no_line_is_wider_than_80_columns_on_a_terminal(deep: Sandbox) -> None:
    environment = deep.environment({"TERM": "xterm", "COLUMNS": "80", "YOLOP_SESSION": str(deep.session)})
    for command in COMMANDS:
        arguments = command.format(root=deep.root, session=deep.session).split()
        with Terminal([PROGRAM, *arguments], environment, deep.worktree, columns=80) as terminal:
            terminal.read_all()
            assert not too_wide(terminal.raw), (command, terminal.raw)


@pytest.mark.parametrize("damaged", [False, True], ids=["whole", "damaged"])
def test_no_line_of_prose_is_wider_than_80_columns_when_piped(deep: Sandbox, damaged: bool) -> None:
    if damaged:
        records = deep.timeline.read_bytes().split(b"\n")
        deep.private(deep.timeline, b"\n".join([records[0], b"\0" * 70 + records[1][:90], *records[2:]]))
    for command in ("session show", "timeline validate", "timeline repair", "doctor --fix", "doctor"):
        ran = deep.cli(*command.split(), code=(0, 1), watch=False)
        assert ran.text.strip() and not too_wide(ran.text), (command, ran.text)


@pytest.mark.parametrize(
    "command",
    [
        "session list",
        "timeline validate --all",
        "event validate --all",
        "compaction validate --all",
        "doctor --all",
        "worktree list",
        "snapshot list",
    ],
)
def test_a_listing_with_nothing_to_show_says_so(box: Sandbox, command: str) -> None:
    ran = box.cli(*command.split(), session=False, watch=False, cwd=box.home)
    assert re.match(r"no (sessions|worktrees|snapshots) ", ran.err.decode()), ran.err


@pytest.mark.parametrize("command", ["checkpoint list", "timeline show", "event list", "compaction list"])
def test_a_session_with_nothing_to_list_says_so(ready: Sandbox, command: str) -> None:
    assert re.match(r"no \S", ready.cli(*command.split(), watch=False).err.decode())


@pytest.mark.parametrize("noun", ["timeline", "event", "compaction"])
def test_a_check_of_no_session_is_clean(box: Sandbox, noun: str) -> None:
    document = box.cli(noun, "validate", "--all", "--json", session=False, watch=False, cwd=box.home).json
    assert document == {"sessions": [], "ok": True}
    assert not schemas.errors(f"output/{noun}-validate", document)


def parts_of(box: Sandbox, *arguments: str, code: int = 0) -> dict[str, dict[str, object]]:
    document = box.cli(
        "doctor", *arguments, "--json", session=False, watch=False, cwd=box.home, code=code
    ).json
    assert not schemas.errors("output/doctor", document)
    assert document["sessions"] == [] and document["ok"] is (code == 0)
    return {part["name"]: part for part in document["installation"]}


def test_doctor_checks_the_installation_where_there_is_no_session(box: Sandbox) -> None:
    parts = parts_of(box)
    assert {"yolop-cli", "python", "git", "data root", "completions", "man pages", "click"} <= set(parts)
    assert parts["data root"] | {"found": ""} == {
        "name": "data root",
        "status": "warning",
        "found": "",
        "path": str(box.data),
        "fix": f"chmod 700 {box.data}",
    }
    box.data.chmod(0o700)
    assert parts_of(box)["data root"]["status"] == "ok"
    assert parts_of(box, "--all") == parts_of(box)
    shown = box.cli("doctor", session=False, watch=False, cwd=box.home).text
    assert re.search(r"^git +ok: 2\.", shown, re.MULTILINE)
    box.cli("doctor", "-s", SID, session=False, watch=False, cwd=box.home, code=3)


def test_doctor_names_a_git_that_is_too_old_or_missing(box: Sandbox) -> None:
    tools = box.root / "tools"
    tools.mkdir()
    git = tools / "git"
    git.write_text("#!/bin/sh\necho git version 2.33.9\n")
    git.chmod(0o755)
    box.env["PATH"] = str(tools)
    assert parts_of(box, code=1)["git"]["status"] == "error"
    git.unlink()
    assert json.dumps(parts_of(box, code=1)["git"]["fix"]) == '"install git 2.34 or newer"'
