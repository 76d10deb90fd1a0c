"""What the snapshot commands share: the group, the directory they work on, their options."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, group
from yolop_cli.cli.screen import Screen
from yolop_cli.cli.snapshots import document
from yolop_cli.ground.errors import NotFoundError, RefusedError, UsageError
from yolop_cli.operations import snapshot as snapshots
from yolop_cli.operations.snapshot import Store
from yolop_cli.session import workspace
from yolop_cli.session.directory import open_directory

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


@group(
    "snapshot",
    "Snapshot and restore any directory.",
    examples=["yolop-cli snapshot create", "yolop-cli snapshot restore latest --dry-run"],
)
def snapshot() -> None:
    """Snapshot and restore any directory. Its snapshots are kept in its .cogitator/checkpoints.

    The directory is --root, else the session's active root, else the current directory. ID is a snapshot's
    id, a unique beginning of one, or "latest".
    """


root_option = click.option(
    "--root",
    "root",
    metavar="DIR",
    shell_complete=candidates.directories,
    help="Use this directory. [default: the session's active root, else the current directory]",
)
keep_last_option = click.option(
    "--keep-last", type=click.IntRange(min=0), metavar="N", help="Keep at most the newest N."
)


class DurationType(click.ParamType):  # type: ignore[type-arg]
    """A duration: 90s, 15m, 2h, 14d, 3w."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return value if isinstance(value, float) else snapshots.seconds(str(value))


class SizeType(click.ParamType):  # type: ignore[type-arg]
    """A size in bytes, or with K, M, G or T."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        words = str(value).strip().lower().removesuffix("ib").removesuffix("b")
        digits = words.rstrip("kmgt")
        unit = words[len(digits) :]
        if not digits.isascii() or not digits.isdigit() or unit not in _UNITS or len(digits) > 15:
            raise UsageError(f"{value!r} is not a size", hint="write it like 1000000, 10M or 5G")
        return int(digits) * _UNITS[unit]


keep_within_option = click.option(
    "--keep-within",
    type=DurationType(),
    metavar="TIME",
    help="Keep only those from this time on (2h, 14d, 3w).",
)
grace_option = click.option(
    "--grace",
    type=DurationType(),
    metavar="TIME",
    help="Keep unused contents for this long. [default: 1h, or the directory's setting]",
)


def root_of(invocation: Invocation, given: str | None) -> Path:
    """The directory a command works on. Raises ``NotFoundError`` when a named session has none."""
    if given is not None:
        return invocation.places.here / given
    try:
        session = invocation.session()
    except NotFoundError:
        if invocation.named is not None or invocation.places.environ.get("YOLOP_SESSION"):
            raise
        return invocation.places.here
    except RefusedError as error:  # several sessions: which one does not matter when they share the root
        root = _shared_root(invocation, error)
        if root is None:
            raise
        return root
    root = workspace.read_or_empty(session.workspace).active_root
    if root is None:
        raise NotFoundError(f"{session.id} has no active root", hint="give the directory with --root")
    return root


def _shared_root(invocation: Invocation, error: RefusedError) -> Path | None:
    found = {
        workspace.read_or_empty(open_directory(invocation.places.sessions / name).workspace).active_root
        for name in error.details.get("sessions", ())
    }
    return found.pop() if len(found) == 1 else None


@contextmanager
def store_of(invocation: Invocation, given: str | None) -> Iterator[Store]:
    """The store of the directory a command works on; says so when a restore in it was cut off."""
    with snapshots.opened(root_of(invocation, given)) as store:
        say_interrupted(invocation.screen, store)
        yield store


def warn_if_interrupted(screen: Screen, root: Path) -> None:
    """Say that a restore in a directory was cut off, if one was; the directory need not have a store."""
    if snapshots.has_store(root):
        with snapshots.opened(root) as store:
            say_interrupted(screen, store)


def say_interrupted(screen: Screen, store: Store) -> None:
    """Warn of a restore that was cut off while it changed files; with --json ``list`` and ``verify`` tell."""
    record = snapshots.interrupted(store)
    if record is not None and not screen.as_json and not snapshots.is_restoring(store):
        back = snapshots.command(store.root, "restore", record.safety_snapshot_id)
        on = snapshots.command(store.root, "restore", record.snapshot_id)
        screen.warn(
            f"the restore of {record.snapshot_id} was interrupted: some files are restored, others are as "
            f"before. `{back}` puts them back, `{on}` finishes it"
        )


@contextmanager
def counting(screen: Screen, words: str) -> Iterator[Callable[[int, int], None] | None]:
    """Files and bytes counted on standard error while long work runs, when that is a terminal."""
    with screen.counter(words) as show:
        if show is None:
            yield None
            return
        counter = show
        yield lambda files, size: counter(f"{text.count(files, 'file')}, {document.size(size)}")


@contextmanager
def counted(screen: Screen, words: str) -> Iterator[Callable[[int, int], None] | None]:
    """How many of how many are done, on standard error while long work runs, when that is a terminal."""
    with screen.counter(words) as show:
        if show is None:
            yield None
            return
        counter = show
        yield lambda done, total: counter(f"{done} of {total}")
