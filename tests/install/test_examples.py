"""Every example of every command is run as it stands, in the session of the demo."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from tests.support.program import PROGRAM
from tests.support.sandbox import Sandbox
from tests.support.tools import need
from yolop_cli.cli.command import Command, LazyGroup
from yolop_cli.cli.main import root

# What has to be there before the examples of a command, and stand-ins for what nobody can know.
BEFORE = {
    "rewind": "token=$(yolop-cli rewind preview cp_5_3 | sed -n 's/^token //p')",
    "rewind apply": "token=$(yolop-cli rewind preview cp_5_3 | sed -n 's/^token //p')",
    "session delete": "token=$(yolop-cli session delete | sed -n 's/^token //p')",
    "checkpoint complete": 'yolop-cli checkpoint create --prompt "Go on"',
    "redo": "yolop-cli undo --yes",
    "snapshot": "yolop-cli snapshot create",
}  # fmt: skip
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
    assert run(box, "yolop-cli snapshot create --root ~/site").returncode == 0
    shutil.copytree(box.home, box.root / "untouched", symlinks=True)
    return box, str(made["session"])


def run(box: Sandbox, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the demo's worktree."""
    return subprocess.run(
        ["bash", "-c", script], cwd=box.home / "demo/worktree", env=box.environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


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
        before = BEFORE.get("snapshot" if words.startswith("snapshot ") else words, ":")
        script = f"set -e; {before} >/dev/null; set +e; {example}"
        script = script.replace(TOKEN, '"$token"').replace(f"-s {PREFIX}", f"-s {prefix}")
        if SNAPSHOT in script:
            assert run(box, before).returncode == 0
            made = json.loads(run(box, "yolop-cli snapshot list --json").stdout)["snapshots"]
            script = script.replace(SNAPSHOT, made[-1]["id"].removeprefix("snap_"))
        ran = run(box, f"set -o pipefail; {script}")
        assert ran.returncode == 0, f"{script}\n{ran.stdout}\n{ran.stderr}"
        assert "Traceback" not in ran.stderr
