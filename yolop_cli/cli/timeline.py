"""``yolop-cli timeline``: the journal as records and as the state they fold to."""

from __future__ import annotations

from typing import Any

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, command, group, sessions_argument
from yolop_cli.operations.inspect import Inspection
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.file import Entry
from yolop_cli.timeline.records import file_snapshot_json, snapshot_json, to_json


@group(
    "timeline",
    "Show, check and repair the journal.",
    examples=["yolop-cli timeline show", "yolop-cli timeline validate"],
)
def timeline() -> None:
    """Show, check and repair the journal: the append-only record of checkpoints, heads and redo targets."""


@command(
    timeline,
    "show",
    session=True,
    examples=["yolop-cli timeline show", "yolop-cli timeline show --json | jq -r .head"],
)
def show(invocation: Invocation) -> None:
    """Show the records of the journal, and at the end the resulting state."""
    session = invocation.session()
    loaded = timeline_file.load(session)
    inspection = Inspection(invocation.git, session, loaded)
    state, damage = loaded.state, loaded.damage
    screen = invocation.screen

    def render() -> None:
        screen.table(
            ("LINE", "TYPE", "WHAT"),
            [(str(one.line.number), str(_json(one)["type"]), _what(one)) for one in loaded.entries],
            flexible="WHAT",
            empty="no records",
        )
        screen.line()
        screen.line(f"head {state.head or '-'}")
        screen.line(f"pending {state.pending or '-'}")
        screen.line(f"redo {'-' if state.redo is None else state.redo.head or 'the start'}")
        screen.folded(f"active {' '.join(text.clean(one) for one in state.active_path) or '-'}", 7)
        if damage is not None:
            kind = "corrupt tail, ignored" if loaded.health == "tail" else "corrupt: read-only until repaired"
            screen.warn(f"line {damage.line.number}: {damage.fault.message} ({kind})")

    redo = state.redo
    value = {
        "session_id": session.id,
        "baseline_end": state.baseline_end,
        "head": state.head,
        "pending": state.pending,
        "redo": None
        if redo is None
        else {
            "head": redo.head,
            "snapshot": _snapshot(redo.snapshot),
            "file_snapshot": file_snapshot_json(redo.file_snapshot),
        },
        "active_path": list(state.active_path),
        "checkpoints": [one.to_json() for one in inspection.views(all_branches=True)],
        "records": [
            {
                "line": one.line.number,
                "offset": one.line.offset,
                "type": _json(one)["type"],
                "record": _json(one),
            }
            for one in loaded.entries
        ],
        "damage": None
        if damage is None
        else {"line": damage.line.number, "offset": damage.line.offset, "message": damage.fault.message},
    }
    screen.result(value, render)


@command(
    timeline,
    "validate",
    session=True,
    examples=["yolop-cli timeline validate", "yolop-cli timeline validate --all --format github"],
)
@sessions_argument
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json", "sarif", "github")),
    help="Print text, JSON, SARIF 2.1.0 for code scanning, or annotations of a GitHub workflow.",
)
def validate(
    invocation: Invocation, sessions: tuple[str, ...], every: bool, strict: bool, form: str | None
) -> int:
    """Check timelines: the bytes, the form of each record, and whether the records agree.

    The third pass also checks the event log, the private refs and their objects, and file modes. Nothing is
    changed and no lock is taken. Exit 1 if there are errors.
    """
    from yolop_cli.cli import findings
    from yolop_cli.operations.check import check_session

    chosen = invocation.chosen(sessions, every=every)
    reports = []
    with invocation.screen.progress("checking", len(chosen)) as step:
        for session in chosen:
            reports.append(check_session(invocation.git, session))
            step()
    return findings.show(invocation, reports, strict=strict, form=form)


@command(
    timeline,
    "repair",
    session=True,
    examples=[
        "yolop-cli timeline repair",
        "yolop-cli timeline repair --apply",
        "yolop-cli timeline repair --head cp_3_2 --apply",
    ],
)
@click.option(
    "--strategy",
    type=click.Choice(("salvage", "truncate", "rebuild")),
    default="salvage",
    show_default=True,
    help="Choose what to keep: salvage keeps every readable record, truncate those before the first damage; "
    "rebuild also adds the turns that only refs and the event log still show.",
)
@click.option(
    "--head",
    metavar="ID",
    shell_complete=candidates.heads,
    help="Make this checkpoint the head; none is before the first turn.",
)
@click.option("--apply", is_flag=True, help="Carry out the plan instead of only showing it.")
def repair(invocation: Invocation, strategy: str, head: str | None, apply: bool) -> int:
    """Show how a damaged timeline would be repaired, or repair it with --apply.

    Nothing is discarded: --apply keeps the original as timeline.jsonl.bak-TIME and moves what it cannot use
    to timeline.rejected.jsonl. Exit 1 while there is something to do.
    """
    from yolop_cli.cli import timeline_repair

    return timeline_repair.run(invocation, strategy, head, apply=apply)


def _json(entry: Entry) -> dict[str, Any]:
    return to_json(entry.record, entry.parsed.dialect or "underscore")


def _snapshot(snapshot: Any) -> dict[str, Any] | None:
    value = snapshot_json(snapshot)
    return None if value is None else {"capture": None, "restored": None, **value}


def _what(entry: Entry) -> str:
    value = _json(entry)
    skipped = ("type", "snapshot", "redo_snapshot", "created_at", "moved_at", "cleared_at", "completed_at")
    shown = [
        f"{key}={'-' if each is None else each}"
        for key, each in value.items()
        if key not in skipped and (each is not None or key in ("from", "to"))
    ]
    return text.clip(" ".join(shown), 160)
