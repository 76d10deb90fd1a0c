"""A repair plan, shown so that someone who has never seen the format can judge it; and what was done."""

from __future__ import annotations

import os
import shlex
from itertools import groupby
from typing import Any

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation
from yolop_cli.cli.findings import report_json, show_report
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.operations import repair
from yolop_cli.operations.check import check_session
from yolop_cli.operations.repair import Repaired
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.places import Places
from yolop_cli.timeline.findings import Report
from yolop_cli.timeline.fold import TimelineState
from yolop_cli.timeline.mending.repair_plan import NO_HEAD, STRATEGIES, Plan, Step, step_json

_VERBS = {
    "split": "split off",
    "join": "join",
    "trim": "trim",
    "translate": "translate",
    "close": "complete",
    "correct": "correct",
    "order": "move up",
    "aside": "set aside",
    "insert": "rewrite",
    "head": "move the head",
}
_ALIKE_SHOWN = 3


def run(invocation: Invocation, strategy: str, head: str | None, *, apply: bool) -> int:
    """Plan, show, and with ``apply`` carry out; 1 while there is something to do, or is still wrong."""
    session = invocation.session()
    chosen = next(one for one in STRATEGIES if one == strategy)
    plan = repair.plan(invocation.git, session, chosen, head)
    again = _again(invocation)
    name = invocation.shown_ids([session.id])[session.id]
    if not apply and (plan.changes or plan.heads):
        invocation.screen.result(_json(session, plan), lambda: _show(invocation.screen, name, plan, again))
        return 1
    done = repair.carry_out(session, plan) if apply else Repaired(plan, False, None, 0)
    report = check_session(invocation.git, session)
    invocation.screen.result(
        _json(session, plan, done, report),
        lambda: _show_done(invocation.screen, name, done, report, again),
    )
    return 1 if report.errors else 0


def _json(
    session: SessionDirectory, plan: Plan, done: Repaired | None = None, report: Report | None = None
) -> dict[str, Any]:
    return {
        "session_id": session.id,
        "strategy": plan.strategy,
        "applied": done is not None and done.changed,
        "changes": plan.changes,
        "records": plan.records,
        "steps": [step_json(step) for step in plan.steps],
        "before": _state_json(plan.before),
        "after": _state_json(plan.after),
        "heads": [name or NO_HEAD for name in plan.heads],
        "rebuildable": plan.rebuildable,
        "set_aside": {"pieces": len(plan.rejected), "bytes": sum(map(len, plan.rejected))},
        "backup": None if done is None or done.backup is None else paths.to_json(done.backup),
        "rejected": paths.to_json(session.rejected) if plan.rejected else None,
        "validation": None if report is None else report_json(report),
    }


def _state_json(state: TimelineState) -> dict[str, Any]:
    return {
        "baseline_end": state.baseline_end,
        "head": state.head,
        "pending": state.pending,
        "redo": None if state.redo is None else state.redo.head,
        "active_path": list(state.active_path),
        "checkpoints": len(state.nodes),
    }


def _show(screen: Screen, name: str, plan: Plan, again: str) -> None:
    screen.folded(f"Plan to repair timeline.jsonl of {name} ({plan.strategy}):", 2, bold=True)
    _show_steps(screen, plan)
    screen.line()
    _show_states(screen, plan)
    screen.line()
    if plan.heads:
        _show_heads(screen, plan, again)
        return
    _show_rebuildable(screen, plan, again)
    screen.folded("Nothing is discarded: the current file is kept as timeline.jsonl.bak-TIME, and", 0)
    screen.folded("what is set aside goes to timeline.rejected.jsonl.", 0)
    screen.command("To apply it:", f"yolop-cli timeline repair{again}{_strategy(plan)} --apply")


def _again(invocation: Invocation) -> str:
    """The options that lead to the same session when the command is typed again."""
    given = ""
    places = invocation.places
    if places.sessions != Places.of(places.environ, places.here).sessions:
        given += f" --sessions-dir {shlex.quote(os.fspath(places.sessions))}"
    if invocation.named is not None:
        given += f" -s {shlex.quote(invocation.named)}"
    return text.clean(given)


def _strategy(plan: Plan) -> str:
    return "" if plan.strategy == "salvage" else f" --strategy {plan.strategy}"


def _show_rebuildable(screen: Screen, plan: Plan, again: str) -> None:
    if plan.rebuildable:
        turns = text.count(plan.rebuildable, "turn")
        screen.folded(f"Refs and the event log show {turns} that the file has no record of.", 2, fg="yellow")
        screen.command("To restore them:", f"yolop-cli timeline repair{again} --strategy rebuild")
        screen.line()


def _show_steps(screen: Screen, plan: Plan) -> None:
    kept = plan.records - sum(step.action in ("insert", "head") for step in plan.steps)
    screen.line(f"  {'keep':<14}{text.count(max(kept, 0), 'record')}")
    for (action, message), group in groupby(plan.steps, lambda step: (step.action, step.message)):
        alike = list(group)
        for step in alike[:_ALIKE_SHOWN]:
            screen.folded(f"  {_VERBS[action]:<14}{_where(step)}{text.clean(message)}", 16)
        if len(alike) > _ALIKE_SHOWN:
            screen.line(f"  {'':<14}and {len(alike) - _ALIKE_SHOWN:,} more lines like this")


def _where(step: Step) -> str:
    kind = text.clean(step.record_type) if step.record_type else ""
    line = f"line {step.line}" if step.line is not None else ""
    place = f"{line} ({kind})" if line and kind else line or kind
    return f"{place}: " if place else ""


def _show_states(screen: Screen, plan: Plan) -> None:
    rows = [
        ("head", plan.before.head or "-", plan.after.head or "-"),
        ("pending turn", plan.before.pending or "-", plan.after.pending or "-"),
        ("turns in the conversation", str(len(plan.before.active_path)), str(len(plan.after.active_path))),
        ("checkpoints", str(len(plan.before.nodes)), str(len(plan.after.nodes))),
        ("redo", _redo(plan.before), _redo(plan.after)),
    ]
    screen.line(f"  {'':<28}{'now':<24}after the repair")
    for name, before, after in rows:
        screen.line(f"  {name:<28}{text.clean(before):<24}{text.clean(after)}")


def _redo(state: TimelineState) -> str:
    return "-" if state.redo is None else state.redo.head or "the start"


def _show_heads(screen: Screen, plan: Plan, again: str) -> None:
    screen.line("The damage hides which checkpoint was the head. It may be:", fg="yellow")
    for name in plan.heads:
        if name is None:
            screen.line(f"  {NO_HEAD:<16}before the first turn")
            continue
        prompt = text.clip(plan.after.nodes[name].checkpoint.prompt, 60) if name in plan.after.nodes else ""
        screen.folded(f"  {text.clean(name):<16}{prompt}", 18)
    screen.command("Choose one:", f"yolop-cli timeline repair{again}{_strategy(plan)} --head ID --apply")


def _show_done(screen: Screen, name: str, done: Repaired, report: Report, again: str) -> None:
    if not done.changed:
        screen.line(f"{name}: nothing to repair, {text.count(done.plan.records, 'record')}")
    else:
        screen.folded(f"repaired timeline.jsonl of {name}: {text.count(done.plan.records, 'record')}", 2)
        if done.backup is not None:
            screen.folded(f"previous file: {text.clean(done.backup.name)}", 2)
        if done.rejected:
            pieces = text.count(done.rejected, "piece")
            screen.folded(f"set aside: {pieces} in timeline.rejected.jsonl", 2)
        screen.line(f"head {done.plan.after.head or '-'}")
    _show_rebuildable(screen, done.plan, again)
    show_report(screen, report, name)
