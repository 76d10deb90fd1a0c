"""``yolop-cli compaction``: the replacements of the model's context. A payload is never printed."""

from __future__ import annotations

import click

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation, command, group, sessions_argument
from yolop_cli.timeline import compaction as replacements
from yolop_cli.timeline import file as timeline_file


@group(
    "compaction",
    "Show which compaction is active.",
    examples=["yolop-cli compaction list", "yolop-cli compaction validate"],
)
def compaction() -> None:
    """Show which compaction is active, and check compactions.

    A compaction is what the model was given instead of older events. Its payload is private and never
    shown.
    """


@command(compaction, "list", session=True, examples=["yolop-cli compaction list --json"])
def list_(invocation: Invocation) -> None:
    """List the compactions: which is active for each provider and model, and why the others are not."""
    session = invocation.session()
    judged = replacements.judge(session, timeline_file.load(session).state.activity())

    def render() -> None:
        rows = [
            (
                "active" if one.in_force else "-",
                text.clip(one.replacement.provider_type, 30),
                text.clip(one.replacement.model, 40),
                str(one.replacement.source_sequence),
                text.clip(one.replacement.id, 50),
                text.clean(one.reason or ""),
            )
            for one in judged
        ]
        invocation.screen.table(
            ("", "PROVIDER", "MODEL", "UP TO EVENT", "ID", "REASON"),
            rows,
            flexible="REASON",
            optional=("ID",),
            empty="no compactions",
        )

    value = {
        "session_id": session.id,
        "replacements": [
            {
                "id": one.replacement.id,
                "line": one.replacement.line,
                "provider_type": one.replacement.provider_type,
                "model": one.replacement.model,
                "source_sequence": one.replacement.source_sequence,
                "format_version": one.replacement.format_version,
                "line_bytes": one.replacement.line_bytes,
                "in_force": one.in_force,
                "reason": one.reason,
            }
            for one in judged
        ],
    }
    invocation.screen.result(value, render)


@command(compaction, "validate", session=True, examples=["yolop-cli compaction validate --all"])
@sessions_argument
@click.option("--strict", is_flag=True, help="Exit 1 for warnings too.")
def validate(invocation: Invocation, sessions: tuple[str, ...], every: bool, strict: bool) -> int:
    """Check compaction-checkpoints.jsonl, changing nothing. Exit 1 if there are errors."""
    from yolop_cli.cli import logs

    return logs.validate_compaction(invocation, invocation.chosen(sessions, every=every), strict=strict)
