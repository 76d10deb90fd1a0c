"""Every example of every command is run as it stands, in the session of the demo."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from tests.support import program
from tests.support.program import PROGRAM
from tests.support.sandbox import Sandbox
from tests.support.tools import need
from yolop_cli.cli.command import Command, LazyGroup
from yolop_cli.cli.main import root

# What has to be there before the examples of a command, and stand-ins for what nobody can know.
BEFORE = {
    "rewind": "rewind preview cp_5_3",
    "rewind apply": "rewind preview cp_5_3",
    "session delete": "session delete",
    "checkpoint complete": 'checkpoint create --prompt "Go on"',
    "redo": "undo --yes",
    "snapshot": "snapshot create",
}
TOKEN, PREFIX, SNAPSHOT = "5f0c1d2e3a4b5c6d", "01a2", "01a22debafcc"


def examples() -> dict[str, tuple[str, ...]]:
    """Each command's words below the program's name, and its examples."""
    found: dict[str, tuple[str, ...]] = {}

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        assert isinstance(command, Command | LazyGroup)
        found[" ".join(words)] = command.examples
        if isinstance(command, click.Group):
            ctx = click.Context(command)
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                walk(below, (*words, name))

    walk(root, ())
    return found


EXAMPLES = examples()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, str]:
    """A sandbox with the demo in it as it was left, and the session's path."""
    box = Sandbox(tmp_path_factory.mktemp("examples"))
    (box.home / "site").mkdir()
    (box.home / "site/index.html").write_text("hello\n")
    (box.home / "elsewhere").mkdir()
    made = box.cli("demo", box.home / "demo", "--json", session=False, watch=False).json
    box.env["PATH"] = f"{Path(PROGRAM).parent}:{box.env['PATH']}"
    box.env["YOLOP_DATA_DIR"] = str(box.home / "demo/data")
    box.env["YOLOP_SESSION"] = made["session"]
    run(box, "yolop-cli snapshot create --root ~/site")
    shutil.copytree(box.home, box.root / "untouched", symlinks=True)
    return box, str(made["session"])


def run(box: Sandbox, line: str, **env: str) -> str:
    """What a command line prints in the demo's worktree. A shell runs those that ask one for something."""
    where: dict[str, Any] = {"env": box.environment(env), "cwd": box.home / "demo/worktree"}
    if re.search(r"[|$;&<>`(]", line):
        command = ("bash", "-c", "set -o pipefail; " + line)
        ran = subprocess.run(command, **where, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        code, out, err = ran.returncode, ran.stdout, ran.stderr
    else:
        first, *words = shlex.split(line)
        assert first == "yolop-cli"
        words = [re.sub("^~(?=/|$)", lambda _: str(box.home), word) for word in words]
        done = program.run(words, **where, timeout=120)
        code, out, err = done.code, done.out, done.err
    assert code == 0, f"{line}\n{out!r}\n{err!r}"
    assert b"Traceback" not in err
    return out.decode()


@pytest.mark.parametrize("words", EXAMPLES)
def test_the_examples_work(played: tuple[Sandbox, str], words: str) -> None:
    box, session = played
    prefix = Path(session).name.removeprefix("session_")[:12]
    assert EXAMPLES[words], f"{words or 'the program'} has no example"
    for example in EXAMPLES[words]:
        if "| jq" in example:
            need("jq")
        shutil.rmtree(box.home)
        shutil.copytree(box.root / "untouched", box.home, symlinks=True)
        token = ""
        if before := BEFORE.get("snapshot" if words.startswith("snapshot ") else words):
            token = "".join(re.findall(r"(?m)^token (\S+)", run(box, f"yolop-cli {before}")))
        line = example.replace(TOKEN, '"$token"').replace(f"-s {PREFIX}", f"-s {prefix}")
        if SNAPSHOT in line:
            made = json.loads(run(box, "yolop-cli snapshot list --json"))["snapshots"]
            line = line.replace(SNAPSHOT, made[-1]["id"].removeprefix("snap_"))
        run(box, line, token=token)
