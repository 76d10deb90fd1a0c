"""The outside of the program: what it imports, how it helps, with what status it ends."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shlex
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from tests.support import holders, program
from tests.support.sandbox import Sandbox
from yolop_cli import __version__
from yolop_cli.cli import main as cli_main
from yolop_cli.cli.command import MAXIMUM_HELP_WIDTH, LazyGroup
from yolop_cli.cli.main import root, run

# -- imports


def imported(box: Sandbox, *arguments: str) -> set[str]:
    """The top-level modules that a run with a piped output imports."""
    command = [sys.executable, "-X", "importtime", program.PROGRAM, *arguments]
    ran = subprocess.run(
        command, env=box.environment(), cwd=box.root, capture_output=True, timeout=60, check=True
    )
    rows = [
        line.rsplit("|", 1)[-1].strip()
        for line in ran.stderr.decode().split("\n")
        if line.startswith("import time:")
    ]
    found = {name.split(".")[0] for name in rows}
    assert {"click", "yolop_cli"} <= found
    return found


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["session", "--help"]], ids=" ".join)
def test_what_only_tells_about_itself_starts_light(box: Sandbox, arguments: list[str]) -> None:
    heavy = {"rich", "rich_click", "jsonschema", "sh", "psutil", "asyncio", "orjson", "platformdirs"}
    if arguments[0] == "session":  # its group is loaded, and that reads events
        heavy -= {"orjson"}
    assert not imported(box, *arguments) & heavy


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "arguments", [["session", "list"], ["session", "show"], ["timeline", "show"]], ids=" ".join
)
def test_looking_at_a_session_starts_neither_git_nor_schemas(
    box: Sandbox, arguments: list[str], options: list[str]
) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    heavy = {"rich", "rich_click", "jsonschema", "sh", "psutil", "asyncio", "platformdirs"}
    if arguments == ["session", "show"]:  # it asks git who owns the worktree
        heavy -= {"sh", "asyncio"}
    assert not imported(box, *arguments, *options) & heavy


def test_version_is_the_packages(box: Sandbox) -> None:
    ran = box.cli("--version", session=False, watch=False)
    assert (ran.text, ran.err) == (f"yolop-cli {__version__}\n", b"")
    module = program.run(
        [], env=box.environment(), cwd=box.root, prefix=[sys.executable, "-m", "yolop_cli", "--version"]
    )
    assert module.out == ran.out


# -- help


def walk(command: click.Command = root, parent: click.Context | None = None) -> Iterator[click.Context]:
    """Every command of the live table, as a context that can draw its help."""
    context = click.Context(command, info_name=command.name, parent=parent, **cli_main.CONTEXT)
    yield context
    if isinstance(command, LazyGroup):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None and child.name == name
            yield from walk(child, context)


CONTEXTS = list(walk())
VERBS = [context for context in CONTEXTS if not isinstance(context.command, click.Group)]
GROUPS = [context for context in CONTEXTS if isinstance(context.command, click.Group)]


def path_of(context: click.Context) -> str:
    return context.command_path


@pytest.mark.parametrize("context", VERBS, ids=path_of)
def test_every_command_has_help_examples_and_json(context: click.Context) -> None:
    text = context.command.get_help(context)
    assert context.command.help and "\n  Examples:\n\n    " in text
    assert {"--json", "--color", "--debug", "--help"} <= set(text.replace(",", " ").split())
    assert "\x1b" not in text
    assert max(map(len, text.split("\n"))) <= MAXIMUM_HELP_WIDTH
    undocumented = [
        each.name for each in context.command.params if isinstance(each, click.Option) and not each.help
    ]
    assert undocumented == []


@pytest.mark.parametrize("context", VERBS, ids=path_of)
def test_every_example_is_a_call_of_the_command_that_its_options_allow(context: click.Context) -> None:
    epilog = context.command.epilog or ""
    examples = [line.strip() for line in epilog.split("\n") if "yolop-cli" in line]
    assert examples
    assert any(example.startswith(f"{context.command_path}") for example in examples)
    for example in examples:
        for call in example.split("|"):
            words = shlex.split(call)
            if words[0] == "yolop-cli":
                parse(words[1 : words.index(">") if ">" in words else None])


def parse(words: list[str]) -> None:
    """Parse a call as the program would, without running it."""
    context, command = click.Context(root, info_name="yolop-cli"), root
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    command.make_context(command.name, list(words), parent=context)


@pytest.mark.parametrize("context", GROUPS, ids=path_of)
def test_every_group_has_help_and_a_whole_summary_for_each_command(context: click.Context) -> None:
    group = context.command
    assert isinstance(group, LazyGroup) and group.help
    rows = group.summaries(context)
    assert [name for name, _, _ in rows] == group.list_commands(context)
    for _, summary, section in rows:
        assert summary.endswith(".") and not summary.endswith("...")
        assert section
    text = group.get_help(context)
    assert all(f"\n  {name} " in text for name, _, _ in rows)


def test_table_says_of_a_group_what_the_group_says_of_itself() -> None:
    for name, (_, _, summary, _) in cli_main.COMMANDS.items():
        found = root.get_command(CONTEXTS[0], name)
        assert found is not None
        if isinstance(found, click.Group):
            assert found.short_help == summary


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["sesion", "list"], "yolop-cli session"),
        (["session", "lst"], "yolop-cli session list"),
        (["checkpoint", "creat", "--prompt", "x"], "yolop-cli checkpoint create"),
        (["rewind", "aply", "x"], "yolop-cli rewind apply"),
        (["undoo"], "yolop-cli undo"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_mistyped_command_gets_the_near_one(
    typed: list[str], meant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(typed) == 2
    said = capfd.readouterr()
    assert said.out == "" and f"hint: did you mean `{meant}`?\n" in said.err
    assert run([*typed, "--json"]) == 2
    assert json.loads(capfd.readouterr().err)["error"]["hint"] == f"did you mean `{meant}`?"


def test_mistyped_option_gets_the_near_one_and_strange_command_the_help(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["undo", "--ys"]) == 2
    assert "--yes" in capfd.readouterr().err
    assert run(["xyzzy"]) == 2
    assert "hint: see `yolop-cli --help`\n" in capfd.readouterr().err


# -- exit statuses


def corrupt(box: Sandbox) -> None:
    box.timeline.write_bytes(b"{\n" + box.timeline.read_bytes())


def to_pipe(box: Sandbox) -> None:
    box.timeline.unlink()
    os.mkfifo(box.timeline, 0o600)


def to_link(box: Sandbox) -> None:
    box.session.rename(box.root / "moved")
    box.session.symlink_to(box.root / "moved")


def nothing(box: Sandbox) -> None:
    pass


STATUSES: list[tuple[int, Callable[[Sandbox], None], list[str]]] = [
    (0, nothing, ["session", "list"]),
    (2, nothing, ["session", "list", "--nonsense"]),
    (2, nothing, ["checkpoint", "create"]),
    (2, nothing, ["rewind", "preview", "cp_1_1", "--mode", "sideways"]),
    (3, nothing, ["session", "show", "-s", "ffff"]),
    (3, nothing, ["checkpoint", "show", "cp_9_9"]),
    (3, nothing, ["schema", "show", "nonsense"]),
    (4, nothing, ["rewind", "apply", "0123456789abcdef"]),
    (4, nothing, ["redo"]),
    (5, corrupt, ["checkpoint", "create", "--prompt", "x"]),
    (5, corrupt, ["undo", "--yes"]),
    (7, nothing, ["rewind", "preview", "cp_1_1", "--mode", "workspace"]),
    (7, nothing, ["checkpoint", "create", "--require-workspace", "--prompt", "x"]),
    (7, to_link, ["session", "show"]),
    (9, to_pipe, ["timeline", "show"]),
]


@pytest.mark.parametrize(
    ("status", "spoil", "arguments"), STATUSES, ids=[f"{each[0]} {' '.join(each[2])}" for each in STATUSES]
)
def test_status_of_every_refusal(
    box: Sandbox, status: int, spoil: Callable[[Sandbox], None], arguments: list[str]
) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    spoil(box)
    before = box.timeline.read_bytes() if box.timeline.is_file() else None
    plain = "schema" in arguments or "list" in arguments
    given = {"session": not plain, "watch": False, "code": status}
    assert box.cli(*arguments, "--json", **given).code == status
    text = box.cli(*arguments, **given)
    if status:
        assert b"\nhint: " in text.err or status == 9
    assert (box.timeline.read_bytes() if box.timeline.is_file() else None) == before


def test_status_1_is_for_what_was_checked_and_found(box: Sandbox) -> None:
    box.make_timeline(1)
    corrupt(box)
    box.cli("schema", "validate", box.timeline, "--json", session=False, watch=False, code=1)


def test_status_6_is_for_a_busy_session(box: Sandbox) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(1)
    with holders.flock(box.sessions / ".locks" / box.sid):
        for options in ([], ["--json"]):
            box.cli("checkpoint", "create", "--prompt", "x", *options, watch=False, code=6)


def test_status_8_is_for_what_moved_since_the_preview(box: Sandbox) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    token = box.plan("cp_1_1", "conversation", watch=False)["token"]
    box.agent.sequence = 90
    box.agent.answer("one more")
    box.cli("rewind", "apply", token, "--json", watch=False, code=8)


def test_status_70_is_one_line_with_nothing_private(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret prompt in /home/secret")

    monkeypatch.setattr("yolop_cli.ground.schemas.names", fail)
    assert run(["schema", "list"]) == 70
    said = capfd.readouterr()
    assert (said.out, len(said.err.split("\n"))) == ("", 3)
    assert "RuntimeError" in said.err and __version__ in said.err
    assert "secret" not in said.err and "/" not in said.err
    assert run(["schema", "list", "--json"]) == 70
    error = json.loads(capfd.readouterr().err)["error"]
    assert error["code"] == "BUG" and "RuntimeError" in error["details"]["report"]
    assert run(["schema", "list", "--debug"]) == 70
    assert "secret prompt" in capfd.readouterr().err


def test_a_file_of_ours_that_ends_early_is_no_interruption(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a compiled module that a full disk cut off: click would take it for a question left unanswered."""

    def fail(*_: object) -> None:
        raise EOFError("marshal data too short")

    monkeypatch.setattr("yolop_cli.ground.schemas.names", fail)
    assert run(["schema", "list", "--json"]) == 70
    assert "EOFError" in json.loads(capfd.readouterr().err)["error"]["details"]["report"]


def _on_a_terminal_of_its_own() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def on_terminal(box: Sandbox, *arguments: str, keys: bytes) -> tuple[int, bytes]:
    """Run the program on a terminal of its own and press keys once it asks."""
    ours, theirs = pty.openpty()
    child = program.start(
        arguments,
        env=box.environment({"TERM": "dumb"}),
        cwd=box.root,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=_on_a_terminal_of_its_own,
    )
    os.close(theirs)
    shown, asked = b"", False
    try:
        while select.select([ours], [], [], 30)[0]:
            try:
                block = os.read(ours, 4096)
            except OSError:
                break
            shown += block
            if b"Apply?" in shown and not asked:
                asked = True
                os.write(ours, keys)
        return child.wait(30), shown
    finally:
        child.kill()
        child.wait()
        os.close(ours)


@pytest.mark.parametrize("keys", [b"\x03", b"\x04", b"n\n"], ids=["ctrl-c", "ctrl-d", "no"])
def test_status_130_when_the_question_is_not_answered_with_yes(box: Sandbox, keys: bytes) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    before = box.timeline.read_bytes()
    status, shown = on_terminal(box, "undo", "-s", box.sid, keys=keys)
    assert status == 130, shown
    assert b"Apply?" in shown and b"Traceback" not in shown
    assert box.timeline.read_bytes() == before
    assert box.cli("session", "show", "--json", watch=False).json["lock"]["held"] is False


def test_answer_yes_goes_through(box: Sandbox) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    status, shown = on_terminal(box, "undo", "-s", box.sid, keys=b"y\n")
    assert status == 0, shown
    assert box.folded().head == "cp_1_1"


WRITERS = [
    ["--version"],
    ["--help"],
    ["schema", "list"],
    ["schema", "show", "event"],
    ["schema", "list", "--json"],
]


@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_status_141_and_no_word_when_the_reader_went_away(box: Sandbox, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    child = program.start(arguments, env=box.environment(), cwd=box.root, stdout=writer)
    os.close(writer)
    _, said = child.communicate(timeout=30)
    assert (child.returncode, said) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_full_disk_under_the_output_is_an_error_of_its_own(box: Sandbox, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        child = program.start(arguments, env=box.environment(), cwd=box.root, stdout=full)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 9, said
    assert b"No space left on device" in said and said.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_errors_that_cannot_be_written_keep_their_exit_status(box: Sandbox) -> None:
    script = '"$0" nosuch > /dev/full 2> /dev/full'
    ran = subprocess.run(["bash", "-c", script, str(program.PROGRAM)], env=box.environment(), cwd=box.root)
    assert ran.returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_the_null_device(box: Sandbox, closed: str) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    calls = [
        "schema list",
        "session show --json",
        "--version",
        "checkpoint create --prompt x",
        "checkpoint complete",
    ]
    script = "; ".join(f'"$0" {call} {closed} || echo "{call}: $?" >> "$1"' for call in calls)
    ran = subprocess.run(
        [
            "bash",
            "-c",
            f'{script}; "$0" checkpoint shw {closed}; echo "$?" >> "$1"',
            program.PROGRAM,
            str(box.root / "out"),
        ],
        env=box.environment({"YOLOP_SESSION": box.sid}),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (box.root / "out").read_text() == "2\n", ran
    assert b"Traceback" not in ran.stderr
    state = box.folded()  # no word of the output went into a file of the session
    assert (len(state.nodes), state.pending) == (3, None)
