"""Records: written and read back they are the same, and what the agent's reader refuses is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.timelines import DIALECTS, RECORDS, TREES
from yolop_cli.ground import strict_json
from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.timeline.fields import is_timestamp
from yolop_cli.timeline.records import (
    CheckpointCreated,
    Dialect,
    HeadMoved,
    Record,
    Snapshot,
    is_readable,
    parse,
    to_json,
    to_line,
)

TIME = "2026-11-30T12:00:00.123456789Z"
SNAPSHOT = {"tree": TREES[0], "reference": "refs/yolop/checkpoints/x/cp_1_1"}
WHOLE: dict[str, dict[str, Any]] = {
    "initialized": {"type": "initialized", "baseline_end": 0, "created_at": TIME},
    "checkpoint_created": {
        "type": "checkpoint_created",
        "id": "cp_1_1",
        "parent": "cp_0_0",
        "prompt": "do it",
        "event_start": 1,
        "snapshot": SNAPSHOT,
        "snapshot_error": "none",
        "created_at": TIME,
    },
    "turn_completed": {
        "type": "turn_completed",
        "checkpoint_id": "cp_1_1",
        "event_end": 2,
        "success": True,
        "completed_at": TIME,
    },
    "head_moved": {
        "type": "head_moved",
        "from": "cp_1_1",
        "to": "cp_0_0",
        "redo_head": "cp_1_1",
        "redo_snapshot": SNAPSHOT,
        "moved_at": TIME,
    },
    "redo_cleared": {"type": "redo_cleared", "cleared_at": TIME},
}
NULLABLE = {
    "checkpoint_created": ("parent", "snapshot", "snapshot_error"),
    "head_moved": ("from", "to", "redo_head", "redo_snapshot"),
}
FIELDS = [(kind, field) for kind, record in WHOLE.items() for field in record]
REQUIRED = [(kind, field) for kind, field in FIELDS if field not in NULLABLE.get(kind, ())]
OPTIONAL = [(kind, field) for kind, fields in NULLABLE.items() for field in fields]
INTEGERS = [
    ("initialized", "baseline_end"),
    ("checkpoint_created", "event_start"),
    ("turn_completed", "event_end"),
]


def line(kind: str, **changes: Any) -> bytes:
    return json.dumps({**WHOLE[kind], **changes}).encode()


def with_raw(kind: str, field: str, raw: str) -> bytes:
    """The record with a field spelled by hand."""
    return line(kind, **{field: "@@"}).replace(b'"@@"', raw.encode())


def fault(data: bytes) -> str:
    """The code of the fault that makes a line unreadable."""
    with pytest.raises(NotJsonError) as caught:
        parse(data)
    assert not is_readable(data)
    assert 0 <= caught.value.fault.offset <= len(data)
    assert caught.value.fault.message
    return caught.value.fault.code


# -- round trips


@given(RECORDS, DIALECTS)
def test_what_is_written_is_read_back(record: Record, dialect: Dialect) -> None:
    written = to_line(record, dialect)
    assert b"\n" not in written
    parsed = parse(written)
    assert parsed.record == record
    assert to_line(parsed.record, dialect) == written
    assert parsed.dialect in (None, dialect)
    assert (parsed.dialect is None) == (to_json(record)["type"] == "initialized")


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("dialect", ["underscore", "dotted"])
def test_record_of_the_agent_keeps_every_field_and_their_order(kind: str, dialect: Dialect) -> None:
    written = to_line(parse(line(kind)).record, dialect)
    spelled = kind if dialect == "underscore" or kind == "initialized" else kind.replace("_", ".")
    assert list(json.loads(written).items()) == list({**WHOLE[kind], "type": spelled}.items())


@pytest.mark.parametrize(
    "kind", ["initialised", "Initialized", "checkpoint.Created", "turn-completed", "", " initialized"]
)
def test_unknown_type_is_refused(kind: str) -> None:
    for whole in WHOLE.values():
        assert fault(json.dumps({**whole, "type": kind}).encode()) == "type"


# -- keys


@pytest.mark.parametrize(("kind", "field"), REQUIRED)
def test_missing_required_field_is_refused(kind: str, field: str) -> None:
    assert (
        fault(json.dumps({key: value for key, value in WHOLE[kind].items() if key != field}).encode())
        == "missing"
    )
    assert fault(line(kind, **{field: None})) in ("schema", "integer")


@pytest.mark.parametrize(("kind", "field"), OPTIONAL)
def test_nullable_field_may_be_null_or_missing(kind: str, field: str) -> None:
    without = {key: value for key, value in WHOLE[kind].items() if key != field}
    assert parse(json.dumps(without).encode()).record == parse(line(kind, **{field: None})).record


@pytest.mark.parametrize(("kind", "field"), FIELDS)
def test_repeated_listed_key_is_refused_even_with_the_same_value(kind: str, field: str) -> None:
    again = json.dumps({field: WHOLE[kind][field]}).encode()
    assert fault(again[:-1] + b"," + line(kind)[1:]) == "repeated"
    escaped = "".join(f"\\u{ord(character):04x}" for character in field).encode()
    assert fault(line(kind)[:-1] + b',"' + escaped + b'":0}') == "repeated"


@pytest.mark.parametrize("kind", WHOLE)
def test_unlisted_keys_are_ignored_whatever_they_hold_and_however_often(kind: str) -> None:
    expected = parse(line(kind)).record
    extra = b',"later":1.5e300,"later":[{"type":1,"type":2}],"":null,"from ":-0}'
    assert parse(line(kind)[:-1] + extra).record == expected


@pytest.mark.parametrize(
    ("kind", "field"), [("checkpoint_created", "snapshot"), ("head_moved", "redo_snapshot")]
)
@pytest.mark.parametrize(
    ("snapshot", "code"),
    [
        ('{"tree":"a","tree":"a"}', "repeated"),
        ('{"tree":"a","reference":null,"reference":"b"}', "repeated"),
        ('{"reference":"b"}', "missing"),
        ('{"tree":null}', "schema"),
        ('{"tree":1}', "schema"),
        ('{"tree":"a","reference":false}', "schema"),
        ('"a"', "schema"),
        ("[]", "schema"),
        ("false", "schema"),
        ("0", "schema"),
        ('""', "schema"),
        ('{"tree":"a"}', None),
        ('{"tree":"a","reference":null,"other":0,"other":1}', None),
    ],
)
def test_snapshot_is_read_as_strictly(kind: str, field: str, snapshot: str, code: str | None) -> None:
    data = with_raw(kind, field, snapshot)
    if code is not None:
        assert fault(data) == code
        return
    record = parse(data).record
    assert isinstance(record, CheckpointCreated | HeadMoved)
    found = record.snapshot if isinstance(record, CheckpointCreated) else record.redo_snapshot
    assert found == Snapshot("a")


# -- values


@pytest.mark.parametrize(("kind", "field"), INTEGERS)
@pytest.mark.parametrize(
    "raw",
    [
        "1.0",
        "1e0",
        "-0",
        "-0.0",
        "0.5",
        "2147483648",
        "-2147483649",
        "1" + "0" * 25,
        '"1"',
        "true",
        "null",
        "[1]",
    ],
)
def test_no_integer_of_32_bits(kind: str, field: str, raw: str) -> None:
    assert fault(with_raw(kind, field, raw)) == "integer"


@pytest.mark.parametrize(("kind", "field"), INTEGERS)
@pytest.mark.parametrize("raw", ["01", "+1", "0x1", "1_000", ".5", "1.", "٣"])
def test_no_number_at_all(kind: str, field: str, raw: str) -> None:
    assert fault(with_raw(kind, field, raw)) == "syntax"


@pytest.mark.parametrize(("kind", "field"), INTEGERS)
@pytest.mark.parametrize("raw", ["2147483647", "-2147483648", "0", " 1 ", "\t1\r"])
def test_integers_of_32_bits_and_json_white_space(kind: str, field: str, raw: str) -> None:
    assert json.loads(to_line(parse(with_raw(kind, field, raw)).record))[field] == int(raw)


@pytest.mark.parametrize("raw", ["0", "1", '"true"', "null", "[]"])
def test_success_is_true_or_false(raw: str) -> None:
    assert fault(with_raw("turn_completed", "success", raw)) == "schema"


@pytest.mark.parametrize(
    ("kind", "field"), [(kind, field) for kind, field in FIELDS if isinstance(WHOLE[kind][field], str)]
)
@pytest.mark.parametrize("raw", ["0", "false", '["a"]', '{"a":1}'])
def test_string_is_a_string(kind: str, field: str, raw: str) -> None:
    assert fault(with_raw(kind, field, raw)) == "schema"


ANYWHERE = [pytest.param(where, id=where) for where in ("listed", "unlisted", "overwritten", "nested")]


def put(where: str, value: str) -> bytes:
    """A value in a listed field, in an unlisted one, in one that a later key replaces, or deep inside."""
    if where == "listed":
        return with_raw("checkpoint_created", "prompt", value)
    return with_raw(
        "checkpoint_created",
        "later",
        {"unlisted": value, "overwritten": f'{value},"later":1', "nested": f'[{{"a":{value},"a":0}}]'}[where],
    )


@pytest.mark.parametrize("where", ANYWHERE)
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("NaN", "nan"),
        ("Infinity", "nan"),
        ("-Infinity", "nan"),
        ("1e400", "number"),
        ("-1" + "0" * 5000, "number"),
        (r'"\ud800"', "surrogate"),
        (r'"\uDFFF"', "surrogate"),
        (r'"\udc00\ud800"', "surrogate"),
        (r'"\\\ud83d"', "surrogate"),
        (r'{"\ud800":1}', "surrogate"),
        ('"\t"', "syntax"),
        ('"\x00"', "syntax"),
        (r'"\x41"', "syntax"),
        (r'"\u12"', "syntax"),
        ("'a'", "syntax"),
        ("True", "syntax"),
        ("[1,]", "syntax"),
        ("{1:2}", "syntax"),
        ("/**/1", "syntax"),
        ("", "syntax"),
        ("\x0c1", "syntax"),
        ("\u00a01", "syntax"),
    ],
)
def test_value_that_no_json_reader_takes_is_refused_anywhere(where: str, value: str, code: str) -> None:
    assert fault(put(where, value)) == code


@pytest.mark.parametrize("where", ANYWHERE)
@pytest.mark.parametrize(
    "value", [r'"\ud83d\ude00"', r'"\\ud800"', '"\x7f\u2028\U0010ffff"', r'"\u0000"', '""']
)
def test_odd_but_sound_text_is_read(where: str, value: str) -> None:
    record = parse(put(where, value)).record
    assert isinstance(record, CheckpointCreated)
    assert record.prompt == (json.loads(value) if where == "listed" else "do it")


@pytest.mark.parametrize("where", ["unlisted", "overwritten"])
@pytest.mark.parametrize(("left", "right"), ["[]", ('{"a":', "}")])
def test_containers_nest_127_deep_and_no_deeper(where: str, left: str, right: str) -> None:
    def deep(levels: int) -> bytes:
        return put(where, left * (levels - 1) + "0" + right * (levels - 1))

    assert is_readable(deep(127))
    assert fault(deep(128)) == "depth"
    assert fault(deep(100_000)) == "depth"


def test_brackets_beside_each_other_or_in_text_do_not_nest() -> None:
    assert is_readable(put("unlisted", "[" + "[]," * 300 + "[]]"))
    assert is_readable(put("listed", '"' + "[{" * 300 + r"\"[[" + '"'))


# -- the line


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda data: b"\xef\xbb\xbf" + data, "bom"),
        (lambda data: data + b"{}", "trailing"),
        (lambda data: data + data, "trailing"),
        (lambda data: data + b"\x00", "trailing"),
        (lambda data: data + b"\x0c", "trailing"),
        (lambda data: data + b",", "trailing"),
        (lambda data: b"\x00" + data, "syntax"),
        (lambda data: b"\x0b" + data, "syntax"),
        (lambda data: b"\xc2\xa0" + data, "syntax"),
        (lambda data: data[:-1], "syntax"),
        (lambda data: data[: len(data) // 2], "syntax"),
        (lambda data: data[1:], "trailing"),
        (lambda data: b"[" + data + b"]", "schema"),
        (lambda data: json.dumps(data.decode()).encode(), "schema"),
        (lambda data: data[:-1] + b',"x":"\xff"}', "utf8"),
        (lambda data: data[:-1] + b',"x":"\xed\xa0\x80"}', "utf8"),
        (lambda data: data[:-1] + b',"x":"\xc0\x80"}', "utf8"),
        (lambda data: data.decode().encode("utf-16"), "utf8"),
        (lambda data: b"", "syntax"),
        (lambda data: b"null", "schema"),
        (lambda data: b"{}", "missing"),
    ],
)
def test_line_that_is_not_one_object(kind: str, spoil: Any, code: str) -> None:
    assert fault(spoil(line(kind))) == code


def test_json_white_space_around_a_record_is_nothing() -> None:
    assert parse(b" \t\r" + line("redo_cleared") + b"\r\t ").record == parse(line("redo_cleared")).record


def test_fault_points_at_the_byte() -> None:
    data = '{"prompt":"ä€🙂", oops}'.encode()
    with pytest.raises(NotJsonError) as caught:
        strict_json.loads(data)
    assert data[caught.value.fault.offset :] == b"oops}"
    with pytest.raises(NotJsonError) as caught:
        strict_json.loads(b'{"a":"\xff"}')
    assert caught.value.fault.offset == 6


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-30T12:00:00",
        "2026-11-30",
        "2026-11-30T12:00Z",
        "2026-11-30T12:00:00+0100",
        "2026-11-30T12:00:00+01",
        "2026-11-30T12:00:00.Z",
        "2026-11-30T12:00:00.1234567890Z",
        "2026-02-29T12:00:00Z",
        "2100-02-29T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-13-01T12:00:00Z",
        "2026-00-01T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T12:60:00Z",
        "2026-11-30T12:00:61Z",
        "2026-11-30T12:00:00+24:00",
        "2026-11-30T12:00:00+01:60",
        "2026-11-30T12:00:00Z\n",
        " 2026-11-30T12:00:00Z",
        "٢٠٢٦-11-30T12:00:00Z",
        "26-11-30T12:00:00Z",
        "now",
        "",
    ],
)
def test_no_time_with_a_zone(time: str) -> None:
    assert not is_timestamp(time)
    for kind, field in (
        ("redo_cleared", "cleared_at"),
        ("head_moved", "moved_at"),
        ("initialized", "created_at"),
    ):
        assert fault(line(kind, **{field: time})) == "timestamp"


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-30T12:00:00Z",
        "2024-02-29T00:00:00z",
        "2000-02-29t23:59:60.1+23:59",
        "2026-12-31T00:00:00.123456789-00:00",
    ],
)
def test_times_with_a_zone(time: str) -> None:
    assert is_timestamp(time)
    assert is_readable(line("redo_cleared", cleared_at=time))


# -- fields that only this program writes

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.just("id"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JUNK, JUNK, JUNK)
def test_malformed_field_of_ours_never_makes_a_line_unreadable(
    capture: Any, restored: Any, store: Any
) -> None:
    snapshot = {**SNAPSHOT, "capture": capture, "restored": restored}
    created = parse(line("checkpoint_created", snapshot=snapshot, file_snapshot=store)).record
    assert isinstance(created, CheckpointCreated)
    found = created.snapshot
    assert found is not None
    assert found.capture == (capture if isinstance(capture, str) else None)
    assert found.restored == (restored if isinstance(restored, str) else None)
    assert created.file_snapshot is None
    moved = parse(line("head_moved", redo_snapshot=snapshot)).record
    assert isinstance(moved, HeadMoved)
    assert moved.redo_snapshot == found


@pytest.mark.parametrize(
    "raw",
    [
        '{"id":"a","workspace_id":"b"}',
        '{"id":"a","workspace_id":"b","root":null}',
        '{"id":1,"workspace_id":"b","root":"/"}',
        '{"id":"a","id":"b"},"file_snapshot":3',
        '"a"',
    ],
)
def test_half_a_file_snapshot_is_none(raw: str) -> None:
    record = parse(with_raw("checkpoint_created", "file_snapshot", raw)).record
    assert isinstance(record, CheckpointCreated)
    assert record.file_snapshot is None


def test_fields_of_ours_are_written_only_when_they_say_something() -> None:
    written = json.loads(to_line(parse(line("checkpoint_created")).record))
    assert written == WHOLE["checkpoint_created"]
