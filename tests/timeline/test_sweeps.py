"""The sweeps: a sound timeline of 300 records, damaged at every place in every way, checked and repaired.

Sampled by default; whole with ``-m exhaustive``, in parts that ``-n 2 --dist load`` spreads. In each case the
check does not fail and does not call damage sound; the repair ends in a timeline without an error, keeps
every record that was whole, and has nothing to do the second time. Where the head cannot be known it says so
and does what ``--head`` says.
"""

from __future__ import annotations

import functools
import io
import json
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pytest

from tests.support import reader
from tests.timeline.journals import data, healthy
from yolop_cli.ground import journal
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline import records
from yolop_cli.timeline.checking import damage, semantic
from yolop_cli.timeline.checking.validate import Checked, check_bytes
from yolop_cli.timeline.evidence import Evidence
from yolop_cli.timeline.mending import correct, salvage, strategies
from yolop_cli.timeline.mending.repair_plan import Plan

T = TypeVar("T")

SID = "session_00000000000070008000000000000001"
NOW = "2026-02-02T00:00:00Z"
LINES = [
    json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")).encode() for line in healthy(140)
]
LINES = LINES[:300]
MASKS = (0xFF, 0x01, 0x04, 0x20, 0x10)
SOUND = data(LINES)
EVIDENCE = Evidence(session_id=SID)
STARTS = [sum(len(line) + 1 for line in LINES[:index]) for index in range(len(LINES) + 1)]
SAMPLE = 80
PARTS = 16
BLOCKS = {
    b"\0": "NUL",
    b"\0" * 97: "97 NULs",
    b"\0" * 4096: "4096 NULs",
    b"\n": "line feed",
    b"\r\n": "CRLF",
}

remembered = functools.lru_cache(maxsize=256)


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Remember what pure functions gave for the same bytes.

    Every case has 299 lines of the others in it, and neighbouring places end in the same repaired file.
    """
    parse = functools.lru_cache(maxsize=4096)(records.parse)
    once = strategies._once
    for_bytes = remembered(lambda source, strategy: once(source, strategy, EVIDENCE, NOW))
    with pytest.MonkeyPatch.context() as patch:
        for module in (damage, timeline_file, salvage, correct, records):
            patch.setattr(module, "parse", parse)
        patch.setattr(strategies, "_once", lambda source, strategy, *_: for_bytes(source, strategy))
        yield
    for function in (check, said, refold):
        function.cache_clear()


@remembered
def check(content: bytes) -> Checked:
    return check_bytes(content)


@remembered
def said(content: bytes) -> dict[str, list[str]]:
    """Everything that validate would say, of all passes that need no disk."""
    lines = [line for line in journal.lines(io.BytesIO(content)) if not journal.is_blank(line.data)]
    entries = timeline_file.of_lines(lines).entries
    by_severity: dict[str, list[str]] = {"error": [], "warning": []}
    for one in [*check(content).findings, *semantic.check_records(SID, entries)]:
        by_severity[one.severity].append(f"{one.code} {one.line} {one.message}")
    return by_severity


@functools.lru_cache(maxsize=4096)
def loaded(line: bytes) -> dict[str, object]:
    value: dict[str, object] = json.loads(line)
    return value


@remembered
def refold(content: bytes) -> reader.Folded:
    """The agent's reading, by another reader."""
    return reader.fold([loaded(line) for line in content.split(b"\n") if line.strip()])


def plan_of(content: bytes, head: str | None = None) -> Plan:
    return strategies.plan(content, "salvage", EVIDENCE, NOW, head=head)


def mended(content: bytes, whole: list[bytes]) -> Plan:
    """Repair, and see that everything the module says of a repair is true."""
    plan = plan_of(content)
    if plan.heads:
        assert len(plan.heads) > 1
        for head in plan.heads[:3]:
            chosen = plan_of(content, head or "none")
            assert chosen.after.head == head
        plan = chosen
    result = plan.content
    assert said(result)["error"] == []
    assert not plan_of(result).changes, [step.message for step in plan_of(result).steps]
    kept = iter(result.split(b"\n"))
    missing = [line for line in whole if line not in kept]
    assert missing == []
    # The agent's reading of the new file is the state that was promised.
    folded = refold(result)
    assert (folded.head, folded.pending, folded.baseline_end) == (
        plan.after.head,
        plan.after.pending,
        plan.after.baseline_end,
    )
    assert folded.active_path == list(plan.after.active_path)
    assert plan.changes or result == content
    return plan


def share(places: Sequence[T], part: int | None, sample: int) -> Sequence[T]:
    """One part of all places, or a sample of them all."""
    if part is not None:
        return places[len(places) * part // PARTS : len(places) * (part + 1) // PARTS]
    return places[:: max(1, len(places) // sample)]


def at_random(part: int | None) -> Sequence[int]:
    """Places in the timeline: one part of them all, or a sample that hits every kind of byte."""
    if part is not None:
        return share(range(len(SOUND)), part, SAMPLE)
    return sorted(random.Random(7).sample(range(len(SOUND)), SAMPLE))


in_parts = pytest.mark.parametrize(
    "part",
    [
        pytest.param(None, id="sampled"),
        *(pytest.param(part, id=f"part {part}", marks=pytest.mark.exhaustive) for part in range(PARTS)),
    ],
)


def test_the_timeline_is_sound() -> None:
    assert said(SOUND) == {"error": [], "warning": []}
    assert not plan_of(SOUND).changes and len(LINES) == 300


def test_the_parts_are_the_whole() -> None:
    assert [place for part in range(PARTS) for place in at_random(part)] == list(range(len(SOUND)))


@in_parts
def test_truncated_after_every_byte(part: int | None) -> None:
    for cut in at_random(part):
        content = SOUND[:cut]
        complete = [line for line, end in zip(LINES, STARTS[1:], strict=True) if end - 1 <= cut]
        found = check(content)
        at_a_boundary = cut in STARTS or cut + 1 in STARTS
        assert (found.status == "ok") == at_a_boundary, cut
        assert found.status in ("ok", "tail")
        plan = mended(content, complete)
        assert not plan.heads


@in_parts
def test_each_byte_flipped(part: int | None) -> None:
    """All its bits, or one of them: the latter leaves many a record readable and wrong."""
    for place in at_random(part):
        mask = MASKS[place % len(MASKS)]
        content = bytearray(SOUND)
        content[place] ^= mask
        damaged = bytes(content)
        line = next(index for index, end in enumerate(STARTS[1:]) if place < end)
        others = LINES[:line] + LINES[line + (2 if place + 1 == STARTS[line + 1] else 1) :]
        found = check(damaged)
        readable = all(records.is_readable(one) for one in damaged.split(b"\n") if one.strip(b" \t\r\f"))
        assert (found.status == "ok") == readable, place
        if mask == 0xFF:
            assert found.status != "ok", place
        try:
            mended(damaged, others)
        except AssertionError as error:
            raise AssertionError(
                f"byte {place} of line {line + 1}: {damaged.split(chr(10).encode())[line]!r}"
            ) from error


@in_parts
@pytest.mark.parametrize("block", BLOCKS, ids=BLOCKS.values())
def test_a_block_inserted_at_boundaries_and_at_500_places(part: int | None, block: bytes) -> None:
    rng = random.Random(11)
    places = sorted({*STARTS, *(rng.randrange(len(SOUND)) for _ in range(500))})
    for place in share(places, part, 30):
        content = SOUND[:place] + block + SOUND[place:]
        found = check(content)
        line = next((index for index, end in enumerate(STARTS[1:]) if place < end), len(LINES))
        inside = place not in STARTS and place + 1 not in STARTS
        others = [one for index, one in enumerate(LINES) if not (inside and index == line)]
        if b"\0" in block or inside:
            # White space between two tokens is no damage unless it breaks the line.
            assert found.status != "ok", place
        else:
            assert found.status == "ok", place
        plan = mended(content, others)
        if block == b"\n" and inside:
            assert plan.content.replace(b"\n", b"") == SOUND.replace(b"\n", b"")


@in_parts
@pytest.mark.parametrize("how", ["joined", "half and next", "all but the brace and next", "half and itself"])
def test_the_next_record_glued_on_at_every_record(part: int | None, how: str) -> None:
    for index in share(range(len(LINES) - 1), part, 24):
        line = LINES[index]
        cut = random.Random(index).randrange(1, len(line) - 1)
        first = {
            "joined": line,
            "half and next": line[:cut],
            "all but the brace and next": line[:-1],
            "half and itself": line[:cut] + line,
        }[how]
        content = data([*LINES[:index], first + LINES[index + 1], *LINES[index + 2 :]])
        found = check(content)
        assert found.status == ("tail" if index == len(LINES) - 2 else "corrupt"), index
        others = LINES if how in ("joined", "half and itself") else LINES[:index] + LINES[index + 1 :]
        plan = mended(content, others)
        if how != "half and next":
            assert plan.content == SOUND


@in_parts
def test_several_kinds_of_damage_at_once(part: int | None) -> None:
    for seed in share(range(2000), part, 40):
        rng = random.Random(seed)
        lines = list(LINES[: rng.randint(3, 60)])
        for _ in range(rng.randint(1, 5)):
            index = rng.randrange(len(lines))
            line = lines[index]
            at = rng.randrange(len(line) + 1)
            lines[index] = rng.choice(
                [line[:at], line[at:], line[:at] + b"\0" * 50 + line[at:], line[:at] + b"\n" + line[at:], b""]
            )
        content = data(lines)
        plan = plan_of(content)
        if plan.heads:
            plan = plan_of(content, plan.heads[0] or "none")
        assert check(plan.content).status == "ok", seed
        assert not plan_of(plan.content).changes, seed
        whole_lines = [line for line in content.split(b"\n") if records.is_readable(line)]
        kept = iter(plan.content.split(b"\n"))
        assert [line for line in whole_lines if line not in kept] == [], seed
