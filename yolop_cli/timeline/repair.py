"""``timeline repair``: the three strategies, each a function from bytes and evidence to a plan. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence

from yolop_cli import journal
from yolop_cli.errors import RefusedError
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline import rebuild
from yolop_cli.timeline.correct import correct
from yolop_cli.timeline.fold import TimelineState, fold
from yolop_cli.timeline.plans import NO_HEAD, Chunk, Evidence, Plan, Step, Strategy
from yolop_cli.timeline.records import HeadMoved, to_line, type_name
from yolop_cli.timeline.salvage import Salvaged, salvage
from yolop_cli.timeline.settle import settle


def plan(
    source: bytes | None, strategy: Strategy, evidence: Evidence, now: str, *, head: str | None = None
) -> Plan:
    """How a timeline would be repaired.

    ``source`` is the file's content (None when there is none), ``head`` the head to end with (``"none"`` for
    before the first turn). Raises ``RefusedError`` for a head that no checkpoint has. A plan whose
    ``heads`` are not empty must not be carried out before one of them is chosen.
    """
    lines = list(journal.lines(io.BytesIO(source or b"")))
    counting = [line for line in lines if not journal.is_blank(line.data)]
    before = timeline_file.of_lines(counting).state
    salvaged = _truncated(source or b"", lines) if strategy == "truncate" else salvage(lines)
    last_line = counting[-1].number if counting else None
    possible: tuple[str | None, ...] = ()
    if strategy != "truncate":
        correct(salvaged, evidence)
    if strategy == "rebuild":
        traced = rebuild.with_traces(salvaged.items, evidence, now)
        salvaged.items, salvaged.steps = traced.items, [*salvaged.steps, *traced.steps]
    if strategy == "truncate":
        chunks = tuple(item for item in salvaged.items if isinstance(item, Chunk))
        steps: list[Step] = []
        after = fold(chunk.record for chunk in chunks if chunk.record is not None)
    else:
        settled = settle(salvaged.items, evidence, now, last_line)
        chunks, steps, after = settled.chunks, list(settled.steps), settled.folding.state
        possible = settled.heads
        if strategy == "rebuild" and traced.at_end and not possible:
            possible = _leaves(after)
    steps = sorted(salvaged.steps, key=lambda step: (step.line is None, step.line or 0)) + steps
    chosen = Plan(strategy, source, chunks, tuple(steps), tuple(salvaged.rejected), before, after, possible)
    return chosen if head is None else _with_head(chosen, head, now)


def _truncated(source: bytes, lines: Sequence[journal.Line]) -> Salvaged:
    """The lines up to the first damage; all that follows is set aside as it is."""
    kept: list[journal.Line] = []
    for line in lines:
        if timeline_file.of_lines([] if journal.is_blank(line.data) else [line]).damage is not None:
            break
        kept.append(line)
    salvaged = salvage(kept)
    rest = source[kept[-1].end if kept else 0 :]
    if rest:
        salvaged.rejected.append(rest)
        first = lines[len(kept)]
        message = f"everything from here on, {len(rest):,} bytes"
        salvaged.steps.append(Step("aside", message, first.number, first.offset))
    return salvaged


def _leaves(state: TimelineState) -> tuple[str | None, ...]:
    """The ends of all branches, the head first; empty when there is only one."""
    parents = {node.checkpoint.parent for node in state.nodes.values()}
    leaves = [name for name in reversed(list(state.nodes)) if name not in parents]
    ordered = tuple(dict.fromkeys([state.head, *leaves]))
    return ordered if len(ordered) > 1 else ()


def _with_head(chosen: Plan, head: str, now: str) -> Plan:
    target = None if head == NO_HEAD else head
    if target is not None and target not in chosen.after.nodes:
        raise RefusedError(
            f"no checkpoint {head!r} among those that the repair keeps",
            hint="choose one of the heads that `yolop-cli timeline repair` lists",
            details={"heads": [name or NO_HEAD for name in chosen.after.nodes]},
        )
    if target == chosen.after.head:
        return _replaced(chosen, chosen.chunks, chosen.steps, chosen.after)
    record = HeadMoved(chosen.after.head, target, chosen.after.head, None, now)
    chunks = (*chosen.chunks, Chunk(to_line(record) + b"\n", record))
    step = Step(
        "head", f"the head is {target or 'before the first turn'}, as asked", record_type=type_name(record)
    )
    after = fold(chunk.record for chunk in chunks if chunk.record is not None)
    return _replaced(chosen, chunks, (*chosen.steps, step), after)


def _replaced(chosen: Plan, chunks: tuple[Chunk, ...], steps: tuple[Step, ...], after: TimelineState) -> Plan:
    return Plan(chosen.strategy, chosen.source, chunks, steps, chosen.rejected, chosen.before, after)
