"""What the checks of event logs and of model-context replacements found, shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation
from yolop_cli.cli.findings import headline
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline import compaction
from yolop_cli.timeline.checking import log_check
from yolop_cli.timeline.findings import Finding, to_json


def validate_events(invocation: Invocation, chosen: Sequence[SessionDirectory], *, strict: bool) -> int:
    """Check the logs and show what was found; 1 when it counts."""
    reports = []
    with invocation.screen.progress("checking", len(chosen)) as step:
        for session in chosen:
            reports.append(log_check.check_log(session))
            step()
    ok = not any(one.findings if strict else one.errors for one in reports)
    value = {
        "sessions": [
            {
                "id": one.id,
                "path": paths.to_json(one.path),
                "events": one.events,
                "last_sequence": one.last_sequence,
                "findings": [to_json(finding) for finding in one.findings],
                "more": one.more,
            }
            for one in reports
        ],
        "ok": ok,
    }

    def render() -> None:
        shown = invocation.shown_ids([one.id for one in reports])
        for one in reports:
            last = "" if one.last_sequence is None else f", last sequence {one.last_sequence}"
            _show(invocation.screen, f"{shown[one.id]} {text.count(one.events, 'event')}{last}", one.findings)
            if one.more:
                invocation.screen.line(f"  and {one.more:,} more findings")

    invocation.screen.result(value, render)
    return 0 if ok else 1


def validate_compaction(invocation: Invocation, chosen: Sequence[SessionDirectory], *, strict: bool) -> int:
    """Check the replacements and show what was found; 1 when it counts."""
    reports = [compaction.check_session(one) for one in chosen]
    ok = not any(one.findings if strict else one.errors for one in reports)
    value: dict[str, Any] = {
        "sessions": [
            {
                "id": one.id,
                "path": paths.to_json(one.path),
                "records": one.records,
                "findings": [to_json(finding) for finding in one.findings],
            }
            for one in reports
        ],
        "ok": ok,
    }

    def render() -> None:
        shown = invocation.shown_ids([one.id for one in reports])
        for one in reports:
            _show(invocation.screen, f"{shown[one.id]} {text.count(one.records, 'record')}", one.findings)

    invocation.screen.result(value, render)
    return 0 if ok else 1


def _show(screen: Screen, heading: str, findings: Sequence[Finding]) -> None:
    screen.line(heading if findings else f"{heading}, no problems")
    told: set[str] = set()
    for finding in findings:
        screen.folded(f"  {headline(screen, finding)}", 6)
        advice = finding.advice
        if advice is not None and advice not in told:
            told.add(advice)
            screen.folded(f"      fix: {text.clean(advice)}", 11)
