"""``yolop-cli demo``: a throw-away session to try every command on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, command
from yolop_cli.ground import paths
from yolop_cli.ground.errors import DeniedError
from yolop_cli.operations import demo as playing


@command(None, "demo", examples=["yolop-cli demo", "yolop-cli demo try-it"])
@click.argument("directory", required=False, metavar="[DIR]", shell_complete=candidates.directories)
def demo(invocation: Invocation, directory: str | None) -> None:
    """Create a throw-away repository and session, run three turns, rewind and redo.

    Everything is in DIR (a new temporary directory by default), where every other command can be tried.
    Remove the directory when you are done.
    """
    if directory is None:
        root = Path(tempfile.mkdtemp(prefix="yolop-demo-"))
    else:
        root = invocation.places.here / directory
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise DeniedError(f"{root} exists and is not empty", hint="name a directory that does not exist")
        root.mkdir(parents=True, exist_ok=True)
    done = playing.run(invocation.git, root)
    screen = invocation.screen

    def render() -> None:
        for step in done.steps:
            screen.line(f"{screen.styled('$', bold=True)} {step.command}")
            screen.folded(f"  {text.clean(step.result)}", 4)
        screen.line()
        screen.line("Try the other commands on it:")
        screen.line(f"  export YOLOP_SESSION={text.path(done.session.path)}")
        screen.line("  yolop-cli session show")
        screen.line("  yolop-cli checkpoint list")
        screen.line("  yolop-cli undo")
        screen.record(f"Everything is in {text.path(done.root)}", 2)
        screen.line("Remove that directory when you are done.")

    value = {
        "root": paths.to_json(done.root),
        "session": paths.to_json(done.session.path),
        "session_id": done.session.id,
        "worktree": paths.to_json(done.worktree),
        "steps": [{"command": step.command, "result": step.result} for step in done.steps],
    }
    screen.result(value, render)
