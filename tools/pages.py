"""Make the manual pages and the completion scripts from the live commands.

Run ``python tools/pages.py`` after a change of a command; ``--check`` writes nothing and exits 1 when a page
or script is stale.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import roff

from yolop_cli import __version__
from yolop_cli.cli import completion
from yolop_cli.cli.command import Command, LazyGroup
from yolop_cli.cli.main import root
from yolop_cli.ground import errors

HERE = Path(__file__).resolve().parents[1]
GENERATED = ("man/man1", "man/man5", "completions")
PROGRAM = "yolop-cli"
_SCRIPTS = {"yolop-cli.bash": "bash", "_yolop-cli": "zsh", "yolop-cli.fish": "fish"}
_FORMAT_PAGES = {
    "yolop-session": (
        "the directory of a Yolop session",
        ("Places", "Files", "Metadata", "Events", "Compaction", "Snapshots"),
        "yolop-timeline",
    ),
    "yolop-timeline": (
        "the journal of a Yolop session's checkpoints",
        ("Records", "Reading a timeline", "State", "Writing a timeline", "Write order"),
        "yolop-session",
    ),
}
_INTRODUCTION = """*Must* marks what loses something, or makes a record lie, when it is not kept; *should*
marks what `yolop-cli doctor --fix` can put right. What only yolop-cli writes is marked *(toolkit)*: the agent
passes over it."""
_STATUSES = {
    0: "Success; a check found nothing.",
    1: "A check found something.",
    70: "A bug in yolop-cli. The message ends in a report to paste.",
    130: "Interrupted, or a question was answered with no.",
    141: "The reader of the output closed it.",
}
_SESSION_FILES = {
    "~/.local/share/yolop/sessions/": "The sessions, a directory each; see yolop-session(5).",
    "timeline.jsonl": "In a session's directory: the journal of its checkpoints; see yolop-timeline(5).",
    "restore.json": "In a session's directory: the restore that is waiting for its token.",
}
_FILES = {
    "worktree": {
        "/tmp/yolop/worktrees/, ~/.yolop/worktrees/": "The worktrees. The first place follows `TMPDIR`.",
    },
    "snapshot": {".cogitator/checkpoints/": "In the directory itself: its snapshots."},
    "schema": {"share/yolop-cli/schemas/": "The schemas, below the prefix of the installation."},
    "demo": {"/tmp/yolop-demo-*/": "Created when no directory is given; follows `TMPDIR`."},
    "completion": {
        "share/bash-completion/completions/, share/zsh/site-functions/, share/fish/vendor_completions.d/":
            "The same scripts, below the prefix of the installation.",
    },
}  # fmt: skip
_ENVIRONMENT = {
    "session": {
        "YOLOP_SESSION": "The session to use when `--session` is not given. Without either, it is the "
        "session whose worktree contains the current directory.",
    },
    "sessions_dir": {
        "YOLOP_SESSIONS_DIR": "The directory of the sessions when `--sessions-dir` is not given.",
        "YOLOP_DATA_DIR": "The directory above `sessions/`. Default: `$XDG_DATA_HOME/yolop`, or "
        "`~/.local/share/yolop`.",
    },
    "": {"NO_COLOR": "If set, use no colour, unless `--color always` is given."},
}


@dataclass(frozen=True)
class Page:
    """One command, and the way to it from the program's name."""

    context: click.Context

    @property
    def command(self) -> click.Command:
        """The command itself."""
        return self.context.command

    @property
    def words(self) -> tuple[str, ...]:
        """The command line that calls it."""
        return tuple(self.context.command_path.split(" "))

    @property
    def name(self) -> str:
        """The name of its page."""
        return "-".join(self.words)

    @property
    def summary(self) -> str:
        """One line on what it does."""
        parent = self.context.parent
        if (
            parent is not None
            and isinstance(parent.command, LazyGroup)
            and self.words[-1] in parent.command.table
        ):
            return parent.command.table[self.words[-1]][2].rstrip(".")
        return self.command.get_short_help_str(limit=200).rstrip(".")


def walk(context: click.Context) -> Iterator[Page]:
    """The command of a context, and every command below it."""
    yield Page(context)
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            command = context.command.get_command(context, name)
            assert command is not None
            yield from walk(_context(command, name, context))


def commands() -> list[Page]:
    """Every command of the program, the program first."""
    return list(walk(_context(root, PROGRAM)))


def _context(command: click.Command, name: str, parent: click.Context | None = None) -> click.Context:
    return click.Context(command, parent, name, **command.context_settings)


def command_page(page: Page, every: list[Page]) -> str:
    """The manual page of one command."""
    lines = [
        *roff.header(page.name, 1, f"{PROGRAM} {__version__}", "Yolop sessions"),
        *roff.section("Name", [f"{roff.plain(page.name)} \\- {roff.plain(page.summary)}"]),
        *roff.section("Synopsis", [".PP", _synopsis(page)]),
        *roff.section("Description", roff.paragraphs(_description(page))),
        *roff.section("Commands", _commands(page)),
        *roff.section("Options", _options(page)),
        *roff.section("Exit status", _statuses()),
        *roff.section("Environment", _environment(page, every)),
        *roff.section("Files", _files(page)),
        *roff.section("Examples", roff.verbatim(_examples(page))),
        *roff.section("See also", [".PP", roff.guarded(", ".join(_see_also(page, every)))]),
    ]
    return "\n".join(lines) + "\n"


def format_page(name: str) -> str:
    """One of the pages on the format, from the sections of the document that are its own."""
    summary, own, other = _FORMAT_PAGES[name]
    sections = dict(roff.markdown((HERE / "docs/format.md").read_text()))
    lines = [
        *roff.header(name, 5, f"{PROGRAM} {__version__}", "Yolop sessions"),
        *roff.section("Name", [f"{roff.plain(name)} \\- {roff.plain(summary)}"]),
        *roff.section("Description", roff.paragraphs(_INTRODUCTION)),
        *(line for heading in own for line in roff.section(heading, sections[heading])),
        *roff.section("See also", [".PP", f"{roff.bold(PROGRAM)}(1), {roff.bold(other)}(5)"]),
    ]
    return "\n".join(lines) + "\n"


def generated() -> dict[Path, str]:
    """Every generated file and its text."""
    every = commands()
    made = {HERE / f"man/man1/{page.name}.1": command_page(page, every) for page in every}
    made |= {HERE / f"man/man5/{name}.5": format_page(name) for name in _FORMAT_PAGES}
    made |= {HERE / "completions" / name: completion.SCRIPTS[shell] for name, shell in _SCRIPTS.items()}
    return made


def _synopsis(page: Page) -> str:
    pieces = page.command.collect_usage_pieces(page.context)
    return " ".join([roff.bold(" ".join(page.words)), *(f"\\fI{roff.plain(piece)}\\fR" for piece in pieces)])


def _description(page: Page) -> str:
    return re.sub(r"^\s*\b", "", page.command.help or "", flags=re.MULTILINE).replace("\b", "")


def _commands(page: Page) -> Iterator[str]:
    if isinstance(page.command, LazyGroup):
        for name, summary, _ in page.command.summaries(page.context):
            yield from roff.tagged(f"{roff.bold(f'{page.name}-{name}')}(1)", summary)


def _options(page: Page) -> Iterator[str]:
    for parameter in page.command.get_params(page.context):
        record = parameter.get_help_record(page.context)
        if record is not None:
            names, words = record
            yield from roff.tagged(roff.bold(names), words)


def _statuses() -> Iterator[str]:
    classes = errors.YolopError.__subclasses__()
    documented = {one.exit_status: f"({one.code}) {one.__doc__}" for one in classes}
    for status, words in sorted((_STATUSES | documented).items()):
        yield from roff.tagged(roff.bold(str(status)), words)


def _environment(page: Page, every: list[Page]) -> Iterator[str]:
    below = [one for one in every if one.words[: len(page.words)] == page.words]
    known = {parameter.name for one in below for parameter in one.command.params}
    for parameter, variables in _ENVIRONMENT.items():
        if not parameter or parameter in known:
            for variable, words in variables.items():
                yield from roff.tagged(roff.bold(variable), words)


def _files(page: Page) -> Iterator[str]:
    noun = page.words[1] if len(page.words) > 1 else ""
    alone = noun in ("schema", "demo", "completion")
    for name, words in ({} if alone else _SESSION_FILES | _FILES.get(noun, {})).items():
        yield from roff.tagged(f"\\fI{roff.plain(name)}\\fR", words)
    if alone:
        for name, words in _FILES[noun].items():
            yield from roff.tagged(f"\\fI{roff.plain(name)}\\fR", words)


def _examples(page: Page) -> tuple[str, ...]:
    assert isinstance(page.command, Command | LazyGroup)
    if not page.command.examples:
        raise ValueError(f"{page.name} has no example")
    return page.command.examples


def _see_also(page: Page, every: list[Page]) -> Iterator[str]:
    for one in every:
        is_above = page.words[: len(one.words)] == one.words
        is_beside = len(page.words) > 2 and one.words[:-1] == page.words[:-1]
        if one.name != page.name and (is_above or is_beside):
            yield f"{roff.bold(one.name)}(1)"
    for name in _FORMAT_PAGES:
        yield f"{roff.bold(name)}(5)"


def main() -> int:
    """Write what is stale, or with ``--check`` only name it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when something is stale")
    check = parser.parse_args().check
    made = generated()
    found = {path for directory in GENERATED for path in (HERE / directory).glob("*")}
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    extra = sorted(found - made.keys())
    for path in [*stale, *extra]:
        print(f"{'stale' if check else 'written' if path in made else 'removed'}: {path.relative_to(HERE)}")
        if check:
            continue
        if path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path])
        else:
            path.unlink()
    return 1 if check and (stale or extra) else 0


if __name__ == "__main__":
    sys.exit(main())
