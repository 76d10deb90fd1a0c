"""How every command is declared: a lazy table of groups, common options, help for terminals and pipes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from click.shell_completion import CompletionItem

from yolop_cli.cli import candidates, text
from yolop_cli.cli.screen import COLORS, Screen
from yolop_cli.ground import ids
from yolop_cli.ground.errors import UsageError, YolopError
from yolop_cli.ground.git import Git
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.find import find
from yolop_cli.session.find import sessions as all_sessions
from yolop_cli.session.places import SESSION_VARIABLE, SESSIONS_DIR_VARIABLE, Places

MAXIMUM_HELP_WIDTH = 100


@dataclass(frozen=True)
class Invocation:
    """What a command gets: where it was called, how it speaks, which session was named."""

    screen: Screen
    places: Places
    git: Git
    named: str | None = None

    def session(self) -> SessionDirectory:
        """The session meant; says so when a restore of it was interrupted. Raises as ``find``."""
        session = find(self.places, self.named)
        self._tell_interrupted(session)
        return session

    @contextmanager
    def session_to_settle(self) -> Iterator[SessionDirectory]:
        """As ``session``, for what ends an interrupted restore: it is told of only when that fails."""
        session = find(self.places, self.named)
        try:
            yield session
        except YolopError:
            self._tell_interrupted(session)
            raise

    def _tell_interrupted(self, session: SessionDirectory) -> None:
        if not os.path.lexists(session.restore):
            return
        from yolop_cli.operations.interruption import interruption

        found = interruption(session)
        if found is None:
            return
        if found.finished:
            self.screen.warn(
                f"a restore of {session.id} was interrupted after it took effect; there is nothing left to do"
            )
            return
        self.screen.warn(
            f"a restore of {session.id} was interrupted while it was changing files: the head did not move, "
            "but some files may already be those of the snapshot. `yolop-cli rewind cancel` puts them back, "
            f"`yolop-cli rewind apply {found.token}` finishes the restore"
        )

    def chosen(self, named: Sequence[str], *, every: bool) -> list[SessionDirectory]:
        """The sessions meant by a command that checks many: all, those named, or the one of ``session``.

        Raises as ``find``, and ``UsageError`` for both ways at once.
        """
        if every and (named or self.named):
            raise UsageError("--all selects every session; do not name any")
        if every:
            found = list(all_sessions(self.places))
            if not found:
                self.screen.remark(f"no sessions in {text.path(self.places.sessions)}")
            return found
        names = [*named, *([self.named] if self.named and named else [])]
        found = [find(self.places, name) for name in names] or [self.session()]
        return list({session.path: session for session in found}.values())

    def shown_ids(self, sessions: Iterable[str]) -> dict[str, str]:
        """For each id what a terminal shows: as short as -s takes it. When piped it stays as it is."""
        if not self.screen.terminal:
            return {one: one for one in sessions}
        return ids.shortened(list({*sessions, *(one.id for one in all_sessions(self.places))}))


class Command(click.Command):
    """A command whose help is drawn by rich-click on a terminal and plain when piped.

    ``examples`` are command lines that work in the session of ``yolop-cli demo``.
    """

    examples: tuple[str, ...] = ()

    def get_help(self, ctx: click.Context) -> str:
        return rich_help(self, ctx) if sys.stdout.isatty() else super().get_help(ctx)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called.

    ``table`` maps a name to (module, attribute, one-line summary, section of the help).
    """

    command_class = Command

    def __init__(
        self,
        *args: Any,
        table: dict[str, tuple[str, str, str, str]] | None = None,
        examples: Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, epilog=_epilog(examples), **kwargs)
        self.table = table or {}
        self.examples = tuple(examples)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *(name for name in self.commands if name not in self.table)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.table and cmd_name not in self.commands:
            module, attribute, _, _ = self.table[cmd_name]
            self.commands[cmd_name] = getattr(importlib.import_module(module), attribute)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = not args or args[0].startswith("-") or self.get_command(ctx, args[0]) is not None
        if not known and not ctx.resilient_parsing:
            self._unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        return rich_help(self, ctx) if sys.stdout.isatty() else super().get_help(ctx)

    def summaries(self, ctx: click.Context) -> list[tuple[str, str, str]]:
        """Each command's name, one-line summary and section of the help; imports none of them."""
        rows = []
        for name in self.list_commands(ctx):
            if name in self.table:
                _, _, summary, section = self.table[name]
            else:
                summary, section = self.commands[name].get_short_help_str(limit=200), "Commands"
            rows.append((name, summary, section))
        return rows

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Commands with their summaries, imported by none of them; options once a dash is typed."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        rows = self.summaries(ctx)
        return [
            CompletionItem(name, help=summary) for name, summary, _ in rows if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, summary, section in self.summaries(ctx):
            sections.setdefault(section, []).append((name, summary))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows)

    def _unknown(self, ctx: click.Context, name: str) -> NoReturn:
        import difflib

        near = difflib.get_close_matches(name, self.list_commands(ctx), n=1)
        raise UsageError(
            f"{ctx.command_path} has no command {name!r}",
            hint=f"did you mean `{ctx.command_path} {near[0]}`?"
            if near
            else f"see `{ctx.command_path} --help`",
        )


def rich_help(command: click.Command, ctx: click.Context) -> str:
    """The help of a command as rich-click draws it, through a twin of rich-click's own kind."""
    import rich_click

    config = rich_click.RichHelpConfiguration(
        text_markup=None,
        max_width=MAXIMUM_HELP_WIDTH,
        use_click_short_help=True,
        commands_before_options=True,
    )
    described: dict[str, Any] = {
        "name": command.name,
        "params": command.params,
        "help": command.help,
        # rich-click joins the lines of a paragraph, so that each example has to be one of its own.
        "epilog": "\n\n".join(line for line in (command.epilog or "").split("\n") if line.strip("\b ")),
        "context_settings": {**CONTEXT, "rich_help_config": config},
    }
    if not isinstance(command, LazyGroup):
        twin: rich_click.RichCommand = rich_click.RichCommand(**described)
    else:
        rows = command.summaries(ctx)
        commands = {name: click.Command(name, short_help=words) for name, words, _ in rows}
        twin = rich_click.RichGroup(**described, commands=commands)
        sections: dict[str, list[str]] = {}
        for name, _, section in rows:
            sections.setdefault(section, []).append(name)
        for section, names in sections.items():
            twin.add_panel(rich_click.RichCommandPanel(section, commands=names))
    with rich_click.RichContext(
        twin, info_name=ctx.info_name, parent=ctx.parent, **twin.context_settings
    ) as context:
        return twin.get_help(context).rstrip("\n")


def group(
    name: str, summary: str, *, examples: Sequence[str] = ()
) -> Callable[[Callable[..., None]], LazyGroup]:
    """Declare a noun; its verbs are added with ``command``."""
    return click.group(name, cls=LazyGroup, short_help=summary, examples=examples, context_settings=CONTEXT)


def command(
    parent: click.Group | None,
    name: str,
    *,
    session: bool = False,
    sessions: bool = False,
    examples: Sequence[str] = (),
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Declare a verb (a command of the root without ``parent``) with the common options.

    ``session`` adds the choice of one session, ``sessions`` only that of the sessions directory.

    The function gets an ``Invocation`` and its own parameters, and returns an exit status or None for 0.
    """

    def declare(function: Callable[..., int | None]) -> click.Command:
        declared = _invoked(function)
        for option in _options(session=session, sessions=sessions or session):
            declared = option(declared)
        # Click lists the parameters declared last first: the command's own before the common ones.
        declared.__click_params__ += getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
        made = click.command(name, cls=Command, epilog=_epilog(examples), context_settings=CONTEXT)(declared)
        made.examples = tuple(examples)
        if parent is not None:
            parent.add_command(made)
        return made

    return declare


def _epilog(examples: Sequence[str]) -> str | None:
    shown = "\n".join(f"  {line}" for line in examples)
    return f"Examples:\n\n\b\n{shown}" if examples else None


def _invoked(function: Callable[..., int | None]) -> Callable[..., int]:
    def call(
        as_json: bool,
        color: str,
        debug: bool,
        sessions_dir: str | None = None,
        session: str | None = None,
        **rest: Any,
    ) -> int:
        environ = os.environ
        screen = Screen.of(as_json, color, environ)
        places = Places.of(environ, Path.cwd(), Path(sessions_dir) if sessions_dir else None)
        return function(Invocation(screen, places, Git(environ), session), **rest) or 0

    call.__doc__ = function.__doc__
    call.__name__ = function.__name__
    return call


def _options(*, session: bool, sessions: bool) -> list[Callable[[Any], Any]]:
    options = [
        click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        click.option(
            "--color",
            type=click.Choice(COLORS),
            default="auto",
            show_default=True,
            help="Use colour on a terminal, always, or never.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    ]
    if sessions:
        options.append(
            click.option(
                "--sessions-dir",
                metavar="DIR",
                shell_complete=candidates.directories,
                envvar=SESSIONS_DIR_VARIABLE,
                show_envvar=True,
                help="Look up session ids in this directory.",
            )
        )
    if session:
        options.append(
            click.option(
                "-s",
                "--session",
                metavar="SESSION",
                shell_complete=candidates.sessions,
                help="Use this session: its directory, its id, or the beginning of its id. "
                f"[env var: {SESSION_VARIABLE}; default: the session of the current directory]",
            )
        )
    return options


def sessions_argument(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """``[SESSION]...`` and ``--all``, for a command that checks many sessions (``Invocation.chosen``)."""
    every = click.option("--all", "every", is_flag=True, help="Select every session.")
    named = click.argument("sessions", nargs=-1, metavar="[SESSION]...", shell_complete=candidates.sessions)
    return every(named(function))


CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": MAXIMUM_HELP_WIDTH,
}
