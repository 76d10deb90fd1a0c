"""``timeline repair``: the three strategies, each a function from bytes and evidence to a plan. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

from yolop_cli.ground import ids, journal
from yolop_cli.ground.errors import RefusedError
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.fold import TimelineState, fold
from yolop_cli.timeline.mending import rebuild
from yolop_cli.timeline.mending.correct import correct
from yolop_cli.timeline.mending.order import put_in_order
from yolop_cli.timeline.mending.repair_plan import NO_HEAD, Chunk, Plan, Step, Strategy
from yolop_cli.timeline.mending.salvage import Salvaged, salvage
from yolop_cli.timeline.mending.settle import settle
from yolop_cli.timeline.records import HeadMoved, RedoCleared, to_line, type_name

_ROUNDS = 6


def plan(
    source: bytes | None, strategy: Strategy, evidence: Evidence, now: str, *, head: str | None = None
) -> Plan:
    """How a timeline would be repaired.

    ``source`` is the file's content (None when there is none), ``head`` the head to end with (``"none"`` for
    before the first turn). Raises ``RefusedError`` for a head that no checkpoint has. A plan whose
    ``heads`` are not empty must not be carried out before one of them is chosen.
    """
    chosen = _to_the_end(_once(source, strategy, evidence, now), evidence, now)
    if strategy != "rebuild":
        chosen = replace(chosen, rebuildable=rebuild.missing(chosen.after, chosen.chunks, evidence))
    return chosen if head is None else _to_the_end(_with_head(chosen, head, now), evidence, now)


def _to_the_end(chosen: Plan, evidence: Evidence, now: str) -> Plan:
    """The plan with what it calls for itself: a record made anew may need another to be corrected."""
    for _ in range(_ROUNDS if chosen.changes else 0):
        further = _once(chosen.content, chosen.strategy, evidence, now)
        if not further.changes:
            break
        chosen = _followed_by(chosen, further)
    return chosen


def _once(source: bytes | None, strategy: Strategy, evidence: Evidence, now: str) -> Plan:
    lines = list(journal.lines(io.BytesIO(source or b"")))
    counting = [line for line in lines if not journal.is_blank(line.data)]
    before = timeline_file.of_lines(counting).state
    if strategy == "truncate":
        cut = _truncated(source or b"", lines)
        _without_dead_redo(cut, evidence, now)
        return _plan(source, strategy, cut, before)
    salvaged = salvage(lines)
    correct(salvaged, evidence)
    moved = put_in_order(salvaged)
    at_end = False
    if strategy == "rebuild":
        traced = rebuild.with_traces(salvaged.items, evidence, now)
        salvaged.items, salvaged.steps = traced.items, [*salvaged.steps, *traced.steps]
        at_end = traced.at_end
    settled = settle(salvaged.items, evidence, now, counting[-1].number if counting else None)
    after = settled.folding.state
    possible = settled.heads
    if at_end and not possible:
        possible = _everywhere(after) if _has_lost_moves(settled.chunks, evidence) else _leaves(after)
    if moved and not possible and before.head != after.head and before.head in after.nodes:
        possible = (after.head, before.head)
    salvaged.items, salvaged.steps = list(settled.chunks), [*salvaged.steps, *settled.steps]
    salvaged.rejected.extend(settled.rejected)
    _without_dead_redo(salvaged, evidence, now)
    return _plan(source, strategy, salvaged, before, possible)


def _without_dead_redo(salvaged: Salvaged, evidence: Evidence, now: str) -> None:
    """Clear a redo whose files are gone."""
    records = (item.record for item in salvaged.items if isinstance(item, Chunk) and item.record is not None)
    if evidence.lacks_redo(fold(records)):
        cleared = RedoCleared(now)
        salvaged.items.append(Chunk(to_line(cleared) + b"\n", cleared))
        message = "redo is used up or void: the ref of the files that it would bring back is gone"
        salvaged.steps.append(Step("insert", message, record_type=type_name(cleared)))


def _plan(
    source: bytes | None,
    strategy: Strategy,
    salvaged: Salvaged,
    before: TimelineState,
    heads: tuple[str | None, ...] = (),
) -> Plan:
    chunks = tuple(item for item in salvaged.items if isinstance(item, Chunk))
    steps = sorted(salvaged.steps, key=lambda step: (step.line is None, step.line or 0))
    after = fold(chunk.record for chunk in chunks if chunk.record is not None)
    return Plan(strategy, source, chunks, tuple(steps), tuple(salvaged.rejected), before, after, heads)


def _followed_by(first: Plan, second: Plan) -> Plan:
    """Two rounds as one plan. Lines of the second are told by where the first had them from."""

    def origin(line: int | None) -> int | None:
        return first.chunks[line - 1].line if line is not None and line <= len(first.chunks) else None

    steps = (replace(step, line=origin(step.line), offset=None) for step in second.steps)
    return replace(
        second,
        source=first.source,
        chunks=tuple(replace(chunk, line=origin(chunk.line)) for chunk in second.chunks),
        steps=(*first.steps, *steps),
        rejected=(*first.rejected, *second.rejected),
        before=first.before,
        heads=first.heads or second.heads,
    )


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


def _everywhere(state: TimelineState) -> tuple[str | None, ...]:
    """Every checkpoint, the head first and the newest next, and before the first turn."""
    return tuple(dict.fromkeys([state.head, *reversed(list(state.nodes)), None]))


def _has_lost_moves(chunks: Sequence[Chunk], evidence: Evidence) -> bool:
    """Whether there is a snapshot from before a restore that no record names: then the head was moved."""
    records = [chunk.record for chunk in chunks if isinstance(chunk.record, HeadMoved)]
    named = {record.redo_snapshot.reference for record in records if record.redo_snapshot is not None}
    return any(
        ids.is_recovery_name(name) and ids.reference(evidence.session_id, name) not in named
        for name in evidence.references
    )


def _with_head(chosen: Plan, head: str, now: str) -> Plan:
    target = None if head == NO_HEAD else head
    if target is not None and target not in chosen.after.nodes:
        raise RefusedError(
            f"no checkpoint {head!r} among those that the repair keeps",
            hint="choose one of the heads that `yolop-cli timeline repair` lists",
            details={"heads": [name or NO_HEAD for name in chosen.after.nodes]},
        )
    if target == chosen.after.head:
        return replace(chosen, heads=())
    record = HeadMoved(chosen.after.head, target, chosen.after.head, None, now)
    chunks = (*chosen.chunks, Chunk(to_line(record) + b"\n", record))
    step = Step(
        "head", f"the head is {target or 'before the first turn'}, as asked", record_type=type_name(record)
    )
    after = fold(chunk.record for chunk in chunks if chunk.record is not None)
    return replace(chosen, chunks=chunks, steps=(*chosen.steps, step), after=after, heads=())
