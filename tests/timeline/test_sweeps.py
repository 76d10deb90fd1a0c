"""The sweeps: a sound timeline of 300 records, damaged at every place in every way, checked and repaired.

Sampled by default; whole with ``-m exhaustive``. In each case the check does not fail and does not call
damage sound; the repair ends in a timeline without an error, keeps every record that was whole, and has
nothing to do the second time. Where the head cannot be known it says so and does what ``--head`` says.
"""

from __future__ import annotations

import functools
import io
import json
import random
from collections.abc import Iterator

import pytest

from tests.support import reader
from tests.timeline.journals import data, healthy
from yolop_cli import journal
from yolop_cli.timeline import correct, records, repair, salvage, scan, semantic
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.plans import Evidence, Plan
from yolop_cli.timeline.validate import check_bytes

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
SAMPLE = 300


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Remember what each line parses to: every case has 299 lines of the others in it."""
    parse = functools.lru_cache(maxsize=4096)(records.parse)
    with pytest.MonkeyPatch.context() as patch:
        for module in (scan, timeline_file, salvage, correct):
            patch.setattr(module, "parse", parse)
        yield


def entries(content: bytes) -> timeline_file.Timeline:
    lines = journal.lines(io.BytesIO(content))
    return timeline_file.of_lines([line for line in lines if not journal.is_blank(line.data)])


def errors(content: bytes) -> list[str]:
    """Everything that validate would call an error, of all passes that need no disk."""
    found = list(check_bytes(content).findings) + semantic.check_records(SID, entries(content).entries)
    return [f"{one.code} {one.line} {one.message}" for one in found if one.severity == "error"]


def warnings(content: bytes) -> list[str]:
    found = list(check_bytes(content).findings) + semantic.check_records(SID, entries(content).entries)
    return [f"{one.code} {one.line} {one.message}" for one in found if one.severity == "warning"]


def plan_of(content: bytes, head: str | None = None) -> Plan:
    return repair.plan(content, "salvage", EVIDENCE, NOW, head=head)


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
    assert errors(result) == []
    assert not plan_of(result).changes, [step.message for step in plan_of(result).steps]
    kept = iter(result.split(b"\n"))
    missing = [line for line in whole if line not in kept]
    assert missing == []
    # The agent's reading of the new file, by another reader, is the state that was promised.
    folded = reader.fold([json.loads(line) for line in result.split(b"\n") if line.strip()])
    assert (folded.head, folded.pending, folded.baseline_end) == (
        plan.after.head,
        plan.after.pending,
        plan.after.baseline_end,
    )
    assert folded.active_path == list(plan.after.active_path)
    # What left the file is in what is set aside: no byte of the damage is lost.
    assert plan.changes or result == content
    return plan


def sampled(total: int, whole: bool) -> list[int]:
    if whole:
        return list(range(total))
    rng = random.Random(7)
    return sorted(rng.sample(range(total), min(SAMPLE, total)))


def scope(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        name,
        [pytest.param(False, id="sampled"), pytest.param(True, id="whole", marks=pytest.mark.exhaustive)],
    )


def test_the_timeline_is_sound() -> None:
    assert errors(SOUND) == warnings(SOUND) == []
    assert not plan_of(SOUND).changes and len(LINES) == 300


@scope("whole")
def test_truncated_after_every_byte(whole: bool) -> None:
    for cut in sampled(len(SOUND), whole):
        content = SOUND[:cut]
        complete = [line for line, end in zip(LINES, STARTS[1:], strict=True) if end - 1 <= cut]
        found = check_bytes(content)
        at_a_boundary = cut in STARTS or cut + 1 in STARTS
        assert (found.status == "ok") == at_a_boundary, cut
        assert found.status in ("ok", "tail")
        plan = mended(content, complete)
        assert not plan.heads


@scope("whole")
def test_each_byte_flipped(whole: bool) -> None:
    """All its bits, or one of them: the latter leaves many a record readable and wrong."""
    for place in sampled(len(SOUND), whole):
        mask = MASKS[place % len(MASKS)]
        content = bytearray(SOUND)
        content[place] ^= mask
        damaged = bytes(content)
        line = next(index for index, end in enumerate(STARTS[1:]) if place < end)
        others = LINES[:line] + LINES[line + (2 if place + 1 == STARTS[line + 1] else 1) :]
        found = check_bytes(damaged)
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


@scope("whole")
@pytest.mark.parametrize("block", [b"\0", b"\0" * 97, b"\0" * 4096, b"\n", b"\r\n"], ids=repr)
def test_a_block_inserted_at_boundaries_and_at_500_places(whole: bool, block: bytes) -> None:
    rng = random.Random(11)
    places = sorted({*STARTS, *(rng.randrange(len(SOUND)) for _ in range(500))})
    if not whole:
        places = places[:: max(1, len(places) // 150)]
    for place in places:
        content = SOUND[:place] + block + SOUND[place:]
        found = check_bytes(content)
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


@scope("whole")
@pytest.mark.parametrize("how", ["joined", "half and next", "all but the brace and next", "half and itself"])
def test_the_next_record_glued_on_at_every_record(whole: bool, how: str) -> None:
    rng = random.Random(13)
    for index in range(0, len(LINES) - 1, 1 if whole else 7):
        line = LINES[index]
        cut = rng.randrange(1, len(line) - 1)
        first = {
            "joined": line,
            "half and next": line[:cut],
            "all but the brace and next": line[:-1],
            "half and itself": line[:cut] + line,
        }[how]
        content = data([*LINES[:index], first + LINES[index + 1], *LINES[index + 2 :]])
        found = check_bytes(content)
        assert found.status == ("tail" if index == len(LINES) - 2 else "corrupt"), index
        others = LINES if how in ("joined", "half and itself") else LINES[:index] + LINES[index + 1 :]
        plan = mended(content, others)
        if how != "half and next":
            assert plan.content == SOUND


@scope("whole")
def test_several_kinds_of_damage_at_once(whole: bool) -> None:
    for seed in range(2000 if whole else 60):
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
        assert check_bytes(plan.content).status == "ok", seed
        assert not plan_of(plan.content).changes, seed
        whole_lines = [line for line in content.split(b"\n") if records.is_readable(line)]
        kept = iter(plan.content.split(b"\n"))
        assert [line for line in whole_lines if line not in kept] == [], seed
