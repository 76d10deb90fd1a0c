"""The event log: lines of any length in bounded memory, and the last sequence from the end of the file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import program
from tests.support.sandbox import OTHER_SID, SID
from yolop_cli.ground.errors import StorageError
from yolop_cli.session import events, longline
from yolop_cli.session.longline import Long, Whole

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(max_size=12) | st.sampled_from(
    ['"', "\\", '\\"', '{"a":1}', "[],:", "é\u2028🙂", "\n\t", "x" * 50]
)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS | st.sampled_from(["type", "session_id", "sequence"]), VALUES, max_size=6)
SPACE = st.text(alphabet=" \t\r", max_size=3)


@st.composite
def layouts(draw: st.DrawFn, values: st.SearchStrategy[Any] = OBJECTS) -> bytes:
    """A JSON document on one line, in some layout: escapes, white space, order of repeated keys."""
    value, escape = draw(values), draw(st.booleans())

    def spell(item: Any) -> str:
        before, after = draw(SPACE), draw(SPACE)
        if isinstance(item, dict):
            members = [(key, spell(each)) for key, each in item.items()]
            if members and draw(st.booleans()):  # a repeated key: the last one counts
                members.insert(
                    draw(st.integers(0, len(members))), (members[-1][0], spell(draw(SCALARS | TEXTS)))
                )
                members.append(members.pop())
            inside = ",".join(f"{draw(SPACE)}{spell(key)}:{each}" for key, each in members) + draw(SPACE)
            return f"{before}{{{inside}}}{after}"
        if isinstance(item, list):
            return f"{before}[{','.join(map(spell, item))}{draw(SPACE)}]{after}"
        return f"{before}{json.dumps(item, ensure_ascii=escape)}{after}"

    return spell(value).encode()


def scalars(line: bytes) -> dict[str, Any]:
    """The members that are neither containers nor null, as the standard reader sees them."""
    value = json.loads(line)
    return {
        key: each for key, each in value.items() if each is not None and not isinstance(each, dict | list)
    }


def read(data: bytes, limit: int, chunk: int = 1 << 18) -> list[Whole | Long]:
    before, longline._CHUNK = longline._CHUNK, chunk
    try:
        return list(longline.lines(io.BytesIO(data), limit))
    finally:
        longline._CHUNK = before


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(layouts(), max_size=3), st.integers(0, 40), st.sampled_from([1, 2, 7, 64]), st.booleans())
def test_members_of_long_lines_are_those_of_the_standard_reader(
    documents: list[bytes], limit: int, chunk: int, ended: bool
) -> None:
    data = b"\n".join(documents) + (b"\n" if ended and documents else b"")
    found = read(data, limit, chunk)
    assert len(found) == len(documents)
    offset = 0
    for line, document in zip(found, documents, strict=True):
        assert line.offset == offset
        offset += len(document) + 1
        if len(document) <= limit:
            assert line == Whole(line.number, line.offset, document)
        else:
            assert isinstance(line, Long)
            assert line.members == scalars(document)
            assert data[line.offset : line.offset + line.length].rstrip(b"\n") == document


@given(layouts(VALUES.filter(lambda value: not isinstance(value, dict))), st.sampled_from([1, 7, 64]))
def test_long_lines_that_are_no_objects_have_no_members(document: bytes, chunk: int) -> None:
    (line,) = read(document, 0, chunk)
    assert isinstance(line, Long)
    assert line.members is None


BULK = b'"' + b"x" * 10_000 + b'"'


@pytest.mark.parametrize(
    "spoiled",
    [
        b'{"a":' + BULK,
        b'{"a":"' + b"x" * 10_000,
        b'{"a":' + BULK + b"]",
        b'{"a":[' + BULK + b"}",
        b'{"a":' + BULK + b"}}",
        b'{"a":' + BULK + b"}{}",
        b'{"type":"a"}' + BULK,
        b'{"type":"a"} ' + b"x" * 10_000,
        b'{"type":"a"}' + b"," * 10_000,
        b"\x00" * 10_000 + b'{"type":"a"}',
        b"x" * 10_000 + b'{"type":"a"}',
        BULK + b'{"type":"a"}',
        b":," * 5_000 + b'{"type":"a"}',
        b"\x00" * 10_000,
    ],
    ids=lambda spoiled: f"{spoiled[:8]!r}...{spoiled[-8:]!r}",
)
@pytest.mark.parametrize("chunk", [1, 100, 1 << 18])
def test_long_line_that_does_not_close_has_no_members(spoiled: bytes, chunk: int) -> None:
    (line,) = read(spoiled, 10, chunk)
    assert isinstance(line, Long)
    assert line.members is None


def test_members_too_long_to_keep_are_left_out() -> None:
    (line,) = read(b'{"a":1,"b":' + BULK + b"," + BULK + b':2,"a":3,"c":4}', 10)
    assert isinstance(line, Long)
    assert line.members == {"a": 3, "c": 4}


def test_later_member_of_the_name_replaces_an_earlier_one_also_when_it_is_not_kept() -> None:
    for later in (b"null", b"[1]", b"{}", BULK):
        (line,) = read(b'{"a":1,"a":' + later + b',"b":2}', 3)
        assert isinstance(line, Long)
        assert line.members == {"b": 2}


def test_span_ends_the_reading_at_a_line() -> None:
    file = io.BytesIO(b"1\n22\n333\n4444\n")
    file.seek(2)
    assert list(longline.lines(file, 2, 7)) == [Whole(1, 2, b"22"), Long(2, 5, 4, None)]


# -- events


def event(sequence: int | None, kind: str = "tool.completed", session: str = SID, **more: Any) -> bytes:
    numbered = {} if sequence is None else {"sequence": sequence}
    return json.dumps(
        {"id": "event_" + "0" * 32, "type": kind, "session_id": session, **more, **numbered}
    ).encode()


NOISE = st.sampled_from(
    [
        b"",
        b"not json",
        b"\x00\x00",
        b"[99]",
        b'{"sequence":99}',
        b'{"type":7,"sequence":99}',
        event(99, session=OTHER_SID),
        event(99)[:-1],
        event(None),
        event(1)[:-2] + b"99.0}",
        event(1)[:-2] + b'"99"}',
        event(1)[:-2] + b"4294967296}",
    ]
)


@given(
    st.lists(st.tuples(st.lists(NOISE, max_size=3), st.integers(1, 3), st.integers(0, 200)), max_size=8),
    st.lists(NOISE, max_size=4),
    st.sampled_from([1, 16, 100, 1 << 20]),
    st.sampled_from([0, 60, 1 << 20]),
    st.booleans(),
)
def test_last_sequence_from_the_end_is_the_highest_of_the_whole_log(
    steps: list[tuple[list[bytes], int, int]], after: list[bytes], block: int, whole: int, ended: bool
) -> None:
    lines, sequence = [], 0
    for noise, step, bulk in steps:
        sequence += step
        lines += [*noise, event(sequence, data="x" * bulk)]
    log = b"\n".join([*lines, *after]) + (b"\n" if ended else b"")
    old, events._BLOCK, old_whole, events.WHOLE_LINE = events._BLOCK, block, events.WHOLE_LINE, whole
    try:
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "events.jsonl"
            path.write_bytes(log)
            found = [each.sequence or 0 for each in events.stream(path, SID)]
            assert events.last_sequence(path, SID) == max(found, default=0) == sequence
    finally:
        events._BLOCK, events.WHOLE_LINE = old, old_whole


def test_no_log_has_no_events(tmp_path: Path) -> None:
    assert list(events.stream(tmp_path / "none", SID)) == []
    assert events.last_sequence(tmp_path / "none", SID) == 0


def test_lines_are_cut_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    content = [
        {"type": "text", "text": "a\u2028b\u0085c"},
        {"type": "image"},
        {"type": "text", "text": "d"},
        7,
    ]
    message = {"message": {"role": "user", "content": content}}
    line = json.dumps(
        {"type": "input.message", "session_id": SID, "data": message, "sequence": 1}, ensure_ascii=False
    )
    path.write_bytes(line.encode() + b"\r\n" + event(2))
    first, second = events.stream(path, SID)
    assert (first.prompt, first.sequence) == ("a\u2028b\u0085c\nd", 1)
    assert (second.prompt, second.sequence) == (None, 2)


@pytest.mark.parametrize(
    "data", [None, [], {"message": None}, {"message": {"content": "x"}}, {"message": {}}]
)
def test_message_without_text_has_none(tmp_path: Path, data: Any) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(event(1, "input.message", data=data))
    (found,) = events.stream(path, SID)
    assert found.prompt is None


@pytest.mark.parametrize("read_it", [events.last_sequence, lambda path, sid: list(events.stream(path, sid))])
def test_pipe_in_place_of_the_log_is_refused_at_once(tmp_path: Path, read_it: Any) -> None:
    os.mkfifo(tmp_path / "events.jsonl")
    with pytest.raises(StorageError):
        read_it(tmp_path / "events.jsonl", SID)


MEASURE = """
import resource, sys
from pathlib import Path
from yolop_cli.session import events
path, sid = Path(sys.argv[1]), sys.argv[2]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = [(event.type, event.sequence, event.body is None) for event in events.stream(path, sid)]
last = events.last_sequence(path, sid)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(repr((found, last, grown // (1 if sys.platform == "linux" else 1024))))
"""


@pytest.mark.parametrize("mebibytes", [48, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_memory_stays_flat_on_a_line_of_many_megabytes(tmp_path: Path, mebibytes: int) -> None:
    path = tmp_path / "events.jsonl"
    with path.open("wb") as file:
        file.write(event(1) + b"\n" + event(None, "image")[:-1] + b', "data": "')
        file.seek(mebibytes << 20, os.SEEK_CUR)
        file.write(b'", "sequence": 2}\n')
        file.seek(20 << 20, os.SEEK_CUR)  # a hole that a crash left: a line of NUL bytes
        file.write(b"\n")
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), SID],
        cwd=program.ROOT,
        capture_output=True,
        timeout=120,
        check=True,
        text=True,
    )
    found, last, grown = eval(ran.stdout)
    assert found == [("tool.completed", 1, False), ("image", 2, True)]
    assert last == 2
    assert grown < 16 * 1024, f"{grown} KiB more for a line of {mebibytes} MiB"
