"""The root command, and the one place where an exception becomes an exit status."""

from __future__ import annotations

import os
import sys

import click

from yolop_cli import __version__
from yolop_cli.cli import screen
from yolop_cli.cli.command import CONTEXT, LazyGroup
from yolop_cli.ground.errors import StorageError, UsageError, YolopError, os_reason

_LOOK, _BACK, _CARE, _REST = "Look", "Checkpoint and go back", "Check and repair", "More"
COMMANDS = {
    "session": ("yolop_cli.cli.session", "session", "List, show and delete sessions.", _LOOK),
    "timeline": ("yolop_cli.cli.timeline", "timeline", "Show, check and repair the journal.", _LOOK),
    "event": ("yolop_cli.cli.event", "event", "List and check the event log.", _LOOK),
    "compaction": ("yolop_cli.cli.compaction", "compaction", "Show which compaction is active.", _LOOK),
    "checkpoint": ("yolop_cli.cli.checkpoint", "checkpoint", "Create, compare and read checkpoints.", _BACK),
    "rewind": ("yolop_cli.cli.rewind", "rewind", "Preview a restore, then apply it.", _BACK),
    "undo": ("yolop_cli.cli.rewind", "undo", "Undo the last turn.", _BACK),
    "redo": ("yolop_cli.cli.rewind", "redo", "Take back the last restore.", _BACK),
    "snapshot": ("yolop_cli.cli.snapshots", "snapshot", "Snapshot and restore any directory.", _BACK),
    "doctor": ("yolop_cli.cli.doctor", "doctor", "Check everything, fix what is safe.", _CARE),
    "worktree": ("yolop_cli.cli.worktree", "worktree", "List and prune the agent's worktrees.", _CARE),
    "schema": ("yolop_cli.cli.schema", "schema", "Show JSON Schemas, check files against them.", _REST),
    "completion": ("yolop_cli.cli.completion", "completion", "Print a shell completion script.", _REST),
    "demo": ("yolop_cli.cli.demo", "demo", "Create a throw-away session and rewind it.", _REST),
}
# Set by the completion scripts; the name is the one that Click looks for.
COMPLETION_VARIABLE = "_YOLOP_CLI_COMPLETE"
BUG_STATUS = 70
PIPE_STATUS = 141


@click.group(
    "yolop-cli",
    cls=LazyGroup,
    table=COMMANDS,
    examples=["yolop-cli demo", "yolop-cli session list", "yolop-cli undo"],
    context_settings=CONTEXT,
)
@click.version_option(__version__, "--version", prog_name="yolop-cli", message="%(prog)s %(version)s")
def root() -> None:
    """Look at, checkpoint, rewind and repair Yolop sessions from a shell.

    Each command reads the session directory, does one thing, and leaves the directory valid. A session is
    named with -s, or found from the current directory.
    """


def run(arguments: list[str]) -> int:
    """Run one command; the exit status of CLI.md's table."""
    as_json, output = "--json" in arguments, sys.stdout
    _prepare_completion()
    try:
        status = root.main(arguments, prog_name="yolop-cli", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except YolopError as error:
        return _refused(error, arguments, as_json)
    except click.exceptions.NoArgsIsHelpError as error:
        screen.write_error(error.format_message() + "\n")
        return UsageError.exit_status
    except click.UsageError as error:
        hint = f"see `{error.ctx.command_path} --help`" if error.ctx else None
        return _refused(UsageError(error.format_message(), hint=hint), arguments, as_json)
    except click.ClickException as error:
        return _refused(UsageError(error.format_message()), arguments, as_json)
    except (KeyboardInterrupt, click.Abort) as error:
        return _interrupted(error, arguments, as_json)
    except BrokenPipeError:
        _settle_output()
        return PIPE_STATUS
    except SystemExit:
        # Click ends the program itself, with 1, and wraps the output, where a reader went away.
        if sys.stdout is output:
            raise
        return PIPE_STATUS
    except OSError as error:
        if not _settle_output():
            words = f"the output could not be written: {os_reason(error)}; changes made before that remain"
            return _refused(StorageError(words), arguments, as_json)
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return _refused(StorageError(f"{where}{os_reason(error)}"), arguments, as_json)
    except Exception as error:
        return _bug(error, arguments, as_json)


def _interrupted(error: BaseException, arguments: list[str], as_json: bool) -> int:
    if isinstance(error.__cause__, EOFError):  # click takes any of these for a question left unanswered
        return _bug(error.__cause__, arguments, as_json)
    screen.write_error("\ninterrupted\n")
    return 130


def _prepare_completion() -> None:
    if COMPLETION_VARIABLE in os.environ:
        from yolop_cli.cli import completion  # noqa: F401 - what answers the scripts


def _settle_output() -> bool:
    """Whether standard output takes what is left; else that is dropped, so that no later flush fails too."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _refused(error: YolopError, arguments: list[str], as_json: bool) -> int:
    _debug(arguments)
    screen.report(error, as_json=as_json)
    return error.exit_status


def _bug(error: Exception, arguments: list[str], as_json: bool) -> int:
    _debug(arguments)
    from yolop_cli.cli.bug import BugError

    screen.report(BugError.of(error), as_json=as_json)
    return BUG_STATUS


def _debug(arguments: list[str]) -> None:
    if "--debug" in arguments:
        import traceback

        traceback.print_exc()
