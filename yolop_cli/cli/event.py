"""``yolop-cli event``: the event log, listed and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, command, group, sessions_argument
from yolop_cli.cli.screen import write_bytes
from yolop_cli.ground import files
from yolop_cli.ground.errors import NotFoundError, UsageError
from yolop_cli.session import events
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.events import Event
from yolop_cli.session.longline import Long, Whole
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.fold import TimelineState

_CHUNK = 1 << 18


@group(
    "event",
    "List and check the event log.",
    examples=["yolop-cli event list", "yolop-cli event validate"],
)
def event() -> None:
    """List and check the event log: what was said and done in a session.

    The log is streamed, so its size does not matter.
    """


@command(
    event,
    "list",
    session=True,
    examples=[
        "yolop-cli event list --type input.message",
        "yolop-cli event list --all --jsonl | jq -r .type",
    ],
)
@click.option(
    "--active", "scope", flag_value="active", default=True, help="List events of the active branch (default)."
)
@click.option("--all", "scope", flag_value="all", help="List events of all branches.")
@click.option(
    "--type",
    "kind",
    metavar="TYPE",
    shell_complete=candidates.event_types,
    help="List only events of this type.",
)
@click.option(
    "--checkpoint",
    metavar="ID",
    shell_complete=candidates.checkpoints,
    help="List only the events of this checkpoint's turn.",
)
@click.option("--jsonl", is_flag=True, help="Print the events as they are in the log, one per line.")
def list_(invocation: Invocation, scope: str, kind: str | None, checkpoint: str | None, jsonl: bool) -> None:
    """List events in the order of the log."""
    if jsonl and invocation.screen.as_json:
        raise UsageError("--json and --jsonl cannot be used together")
    session = invocation.session()
    state = timeline_file.load(session).state
    found = _selected(session, state, scope, kind, checkpoint)
    if jsonl:
        for line, _, _ in found:
            _copy(session, line)
            write_bytes(b"\n")
    elif invocation.screen.as_json:
        _document(session, found)
    else:
        rows = (_row(value, one) for _, value, one in found)
        if invocation.screen.terminal:
            invocation.screen.table(
                ("SEQUENCE", "TIME", "TYPE", "WHAT"),
                list(rows),
                flexible="WHAT",
                optional=("TIME",),
                empty=_NONE,
            )
            return
        some = False
        for row in rows:
            some = True
            invocation.screen.line("\t".join(row))
        if not some:
            invocation.screen.note(_NONE)


_NONE = "no such events"
Found = tuple[Whole | Long, dict[str, Any], Event]


def _selected(
    session: SessionDirectory, state: TimelineState, scope: str, kind: str | None, checkpoint: str | None
) -> Iterator[Found]:
    node = state.nodes.get(checkpoint) if checkpoint is not None else None
    if checkpoint is not None and node is None:
        raise NotFoundError(
            f"no checkpoint {checkpoint!r} in {session.id}",
            hint="see `yolop-cli checkpoint list --all-branches`",
        )
    activity = state.activity()

    def wanted(one: Event) -> bool:
        if kind is not None and one.type != kind:
            return False
        if node is not None:
            return one.sequence is not None and node.holds(one.sequence)
        return scope == "all" or activity.holds(one.sequence)

    for line, value in events.values(session.events):
        one = events.event_of(line, value, session.id)
        if one is not None and value is not None and wanted(one):
            yield line, value, one


def _document(session: SessionDirectory, found: Iterator[Found]) -> None:
    """One JSON document written as it is read: each event stands in it as it stands in the log."""
    write_bytes(b'{"session_id": ' + json.dumps(session.id).encode() + b', "events": [')
    for number, (line, _, _) in enumerate(found):
        write_bytes(b",\n" if number else b"\n")
        _copy(session, line)
    write_bytes(b"\n]}\n")


def _copy(session: SessionDirectory, line: Whole | Long) -> None:
    if isinstance(line, Whole):
        write_bytes(line.data.strip(b" \t\r\f"))
        return
    with files.reading(session.events) as file:
        file.seek(line.offset)
        left = line.length
        while left > 0:
            data = file.read(min(_CHUNK, left))
            if not data:
                return
            left -= len(data)
            write_bytes(data.rstrip(b"\r\n") if left <= 0 else data)


def _row(value: dict[str, Any], one: Event) -> tuple[str, str, str, str]:
    sequence = "-" if one.sequence is None else str(one.sequence)
    return sequence, text.clip(str(value.get("ts", "-")), 40), text.clip(one.type, 40), _what(one)


def _what(one: Event) -> str:
    if one.body is None:
        return "(too large to show)"
    data = one.body.get("data")
    data = data if isinstance(data, dict) else {}
    said = events.message_text(one.body)
    shown = [said] if said is not None else [data.get(key) for key in ("tool_name", "title", "text_preview")]
    words = " ".join(part for part in shown if isinstance(part, str))
    return text.clip(words[:400], 80)


@command(
    event,
    "validate",
    session=True,
    examples=["yolop-cli event validate", "yolop-cli event validate --all --json"],
)
@sessions_argument
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
def validate(invocation: Invocation, sessions: tuple[str, ...], every: bool, strict: bool) -> int:
    """Check event logs: the form of each line, the order of the sequences, and whose events they are.

    Memory use does not grow with the log. Nothing is changed. Exit 1 if there are errors.
    """
    from yolop_cli.cli import logs

    return logs.validate_events(invocation, invocation.chosen(sessions, every=every), strict=strict)
