"""Arguments as the program means them: text in any locale, prompts from files, modes by any name."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from yolop_cli.ground import files
from yolop_cli.ground.errors import NotFoundError, UsageError
from yolop_cli.session.restore_file import Mode

_MODES: dict[str, Mode] = {
    "conversation": "conversation",
    "chat": "conversation",
    "workspace": "workspace",
    "files": "workspace",
    "code": "workspace",
    "both": "both",
    "all": "both",
}


def words(value: str) -> str:
    """A text argument, read as UTF-8 whatever the locale. Raises ``UsageError``."""
    try:
        return os.fsencode(value).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("a text argument is not UTF-8") from None


def prompt(given: str | None, file: str | None, here: Path) -> str:
    """The prompt from an option, a file or standard input. Raises ``UsageError``."""
    if (given is None) == (file is None):
        raise UsageError("give the prompt with --prompt or --prompt-file", hint="--prompt-file - reads it")
    if given is not None:
        return words(given)
    if file == "-":
        data = sys.stdin.buffer.read()
    else:
        assert file is not None
        found = files.read_bytes(here / file)
        if found is None:
            raise NotFoundError(f"there is no {file}")
        data = found
    try:
        return data.decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise UsageError("the prompt is not UTF-8") from None


_TOLD: dict[str, str] = {
    "conversation": "the conversation, not the files",
    "workspace": "the files, not the conversation",
    "both": "conversation and files",
}


class ModeType(click.ParamType):  # type: ignore[type-arg]
    """A restore mode, by any of its names."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Mode:
        mode = _MODES.get(str(value))
        if mode is None:
            self.fail(f"{value!r} is not one of {', '.join(_MODES)}", param, ctx)
        return mode

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        offered = [name for name in _MODES if name.startswith(incomplete) and (incomplete or name in _TOLD)]
        return [CompletionItem(name, help=_TOLD[_MODES[name]]) for name in offered]


_MODE_OPTIONS = (
    click.option(
        "--mode",
        type=ModeType(),
        metavar="MODE",
        help="conversation (chat), workspace (files, code) or both (all). [default: both where there is a "
        "snapshot, else conversation]",
    ),
    click.option("--no-conversation", is_flag=True, help="The files only, as --mode workspace."),
    click.option("--no-files", is_flag=True, help="The conversation only, as --mode conversation."),
)


def mode_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what a restore moves, given to the command as ``mode``."""

    @functools.wraps(function)
    def with_mode(*args: Any, mode: Mode | None, no_conversation: bool, no_files: bool, **rest: Any) -> Any:
        return function(*args, mode=_one_mode(mode, no_conversation, no_files), **rest)

    command: Callable[..., Any] = with_mode
    for option in reversed(_MODE_OPTIONS):
        command = option(command)
    return command


def _one_mode(mode: Mode | None, no_conversation: bool, no_files: bool) -> Mode | None:
    if no_conversation and no_files:
        raise UsageError("--no-conversation and --no-files leave nothing to restore")
    said: Mode | None = "workspace" if no_conversation else "conversation" if no_files else None
    if mode is not None and said is not None and mode != said:
        raise UsageError(
            f"--mode {mode} contradicts --{'no-conversation' if no_conversation else 'no-files'}"
        )
    return said or mode
