"""What a shell offers for a value: sessions with titles, checkpoints with prompts, tokens, paths.

Each function has the form of Click's ``shell_complete``. None fails and none says anything: where a session
cannot be read there is nothing to offer. All but ``held_paths`` read files alone and start no program.
What reads them is imported when it is needed: every command names these functions, few are ever asked.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from yolop_cli.cli import text
from yolop_cli.ground.errors import YolopError
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.places import Places

if TYPE_CHECKING:
    from yolop_cli.timeline.file import Timeline

Candidates = list[CompletionItem[str]]
Completer = Callable[[click.Context, click.Parameter, str], Candidates]

_TITLES_READ = 100
# What a shell can take without quoting; a journal may hold ids made to do harm.
_HARMLESS = re.compile(r"[A-Za-z0-9_.+-]+\Z")
_PREFIX = "session_"


def _quiet(function: Completer) -> Completer:
    @functools.wraps(function)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
        try:
            return function(ctx, param, incomplete)
        except (YolopError, OSError):
            return []

    return complete


@_quiet
def sessions(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Session ids, the newest first, with titles; directories once a path is begun."""
    from yolop_cli.session.find import sessions as all_sessions

    if os.sep in incomplete or incomplete.startswith((".", "~")):
        return [CompletionItem(incomplete, type="dir")]
    # An id may be given without its prefix, and what is offered has to begin as the word does.
    dropped = len(_PREFIX) if incomplete and not _begins(_PREFIX, incomplete) else 0
    found = [one for one in all_sessions(_places(ctx)) if one.id[dropped:].startswith(incomplete)]
    found.sort(key=lambda one: one.id, reverse=True)
    return [
        CompletionItem(one.id[dropped:], help=_title(one) if number < _TITLES_READ else None)
        for number, one in enumerate(found)
    ]


@_quiet
def checkpoints(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """The session's checkpoint ids, the newest first, with prompts."""
    nodes = _timeline(_session(ctx)).state.nodes
    prompts = {name: nodes[name].checkpoint.prompt for name in reversed(list(nodes))}
    return _items(prompts.items(), incomplete)


@_quiet
def heads(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """What a repair can end at: a checkpoint, or nothing."""
    from yolop_cli.timeline.mending.repair_plan import NO_HEAD

    none = _items([(NO_HEAD, "before the first turn")], incomplete)
    return [*checkpoints(ctx, param, incomplete), *none]


@_quiet
def tokens(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """The token of the restore that waits."""
    from yolop_cli.session import restore_file

    waiting = restore_file.read(_session(ctx))
    if waiting is None:
        return []
    return _items([(waiting.token, f"{waiting.kind} to {waiting.checkpoint_id or 'the start'}")], incomplete)


@_quiet
def snapshots(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """``latest`` and the snapshot ids of the directory, the newest first, with labels."""
    from yolop_cli.operations import snapshot

    with snapshot.opened(_root(ctx)) as store:
        manifests = snapshot.load_all(store)[0]
    labels = [(one.id, one.label.text or one.created_at[:19]) for one in manifests]
    return _items([("latest", "the newest"), *labels] if labels else [], incomplete)


@_quiet
def schemas(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """The names of the schemas."""
    from yolop_cli.ground.schemas import names

    return [CompletionItem(name) for name in names() if name.startswith(incomplete)]


def event_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """The types of events that are written to the log."""
    from yolop_cli.session import events

    return [CompletionItem(name) for name in events.TYPES if name.startswith(incomplete)]


def directories(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Directories, by the shell itself."""
    return [CompletionItem(incomplete, type="dir")]


def paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Files and directories, by the shell itself."""
    return [CompletionItem(incomplete, type="file")]


@_quiet
def held_paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """What the checkpoint named before holds, one directory deep; this asks git."""
    from yolop_cli.ground.git import Git
    from yolop_cli.operations.inspect import Inspection

    session = _session(ctx)
    inspection = Inspection(Git(os.environ), session, _timeline(session))
    parent = incomplete.rpartition("/")[0]
    wanted = [os.fsencode(parent)] if parent else []
    entries = inspection.entries(str(ctx.params.get("checkpoint_id")), wanted)
    return _one_deep((entry.path for entry in entries), incomplete)


@_quiet
def snapshot_paths(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """What the snapshot named before holds, one directory deep."""
    from yolop_cli.operations import snapshot, take_out

    with snapshot.opened(_root(ctx)) as store:
        manifest = snapshot.find(store, str(ctx.params.get("snapshot_id")))
        held, _ = take_out.of_snapshot(store, manifest, ())
    return _one_deep((entry.path for entry in held), incomplete)


def _one_deep(found: Iterable[bytes], incomplete: str) -> Candidates:
    offered: dict[str, None] = {}
    for name in map(os.fsdecode, found):
        if name.startswith(incomplete) and name == text.clean(name):
            rest = name[len(incomplete) :]
            offered[name if "/" not in rest else incomplete + rest[: rest.index("/") + 1]] = None
    return [CompletionItem(name, type="part" if name.endswith("/") else "plain") for name in offered]


def _items(offered: Iterable[tuple[str, str]], incomplete: str) -> Candidates:
    return [
        CompletionItem(value, help=words.strip())
        for value, words in offered
        if value.startswith(incomplete) and _HARMLESS.match(value)
    ]


def _begins(whole: str, part: str) -> bool:
    return whole.startswith(part) or part.startswith(whole)


def _title(session: SessionDirectory) -> str | None:
    from yolop_cli.session import workspace

    title = workspace.read_or_empty(session.workspace).title
    return title or None


def _places(ctx: click.Context) -> Places:
    named = ctx.params.get("sessions_dir")
    return Places.of(os.environ, Path.cwd(), Path(named) if named else None)


def _session(ctx: click.Context) -> SessionDirectory:
    from yolop_cli.session.find import find

    return find(_places(ctx), ctx.params.get("session"))


def _timeline(session: SessionDirectory) -> Timeline:
    from yolop_cli.timeline import file

    return file.load(session)


def _root(ctx: click.Context) -> Path:
    from yolop_cli.session import workspace

    named = ctx.params.get("root")
    if named is not None:
        return Path(named)
    try:
        return workspace.read_or_empty(_session(ctx).workspace).active_root or Path.cwd()
    except YolopError:
        return Path.cwd()
