"""The schemas agree with themselves, with the reader of records, and with the format page."""

from __future__ import annotations

import json
import re
from calendar import isleap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from yolop_cli.ground import schemas, strict_json
from yolop_cli.ground.errors import NotFoundError
from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.timeline import fields, records

NOW = "2026-11-30T12:00:00.123456789Z"
SESSION = "session_" + "0" * 32
TREE = "a" * 40

# ---------------------------------------------------------------- the schemas themselves


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_is_valid_and_says_what_it_is(name: str) -> None:
    schema = schemas.load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:yolop-cli:schema:{name}"
    assert schema["title"] and schema["description"]


@pytest.mark.parametrize("name", schemas.names())
def test_a_schema_refers_only_to_itself_and_uses_every_definition(name: str) -> None:
    schema = schemas.load(name)
    wanted = {node["$ref"] for node in _objects(schema) if "$ref" in node}
    assert wanted == {f"#/$defs/{key}" for key in schema.get("$defs", {})}


def test_a_definition_of_one_name_is_the_same_in_every_output() -> None:
    seen: dict[str, tuple[str, Any]] = {}
    for name in schemas.names():
        if not name.startswith("output/"):
            continue
        for key, definition in schemas.load(name).get("$defs", {}).items():
            first, same = seen.setdefault(key, (name, definition))
            assert definition == same, f"{key} differs between {first} and {name}"
    assert "checkpoint" in seen and "path" in seen


@pytest.mark.parametrize("name", [name for name in schemas.names() if name.startswith("output/")])
def test_an_output_requires_every_key_and_allows_no_other(name: str) -> None:
    if name == "output/schema-show":  # a schema is an open document
        return
    for node in _objects(schemas.load(name)):
        if "properties" in node:
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])


@pytest.mark.parametrize("name", schemas.names())
def test_no_pattern_takes_a_trailing_newline(name: str) -> None:
    for node in _objects(schemas.load(name)):
        pattern = node.get("pattern")
        if isinstance(pattern, str) and pattern != "^message_":
            assert pattern.endswith("$(?!\\n)"), pattern
            assert "\\d" not in pattern, "a class that holds the digits of every script"


def _objects(value: Any) -> list[dict[str, Any]]:
    found, stack = [], [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            found.append(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return found


# ---------------------------------------------------------------- finding them


def test_names_put_files_first() -> None:
    names = list(schemas.names())
    assert names.index("workspace") < names.index("output/checkpoint-list")
    assert {"timeline-record", "event", "compaction-record", "workspace", "restore"} <= set(names)


@pytest.mark.parametrize("name", ["", "nope", "../pyproject", "/etc/passwd", "output", "output/../restore"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(NotFoundError):
        schemas.text(name)


def test_a_validator_is_built_once() -> None:
    assert schemas.validator("restore") is schemas.validator("restore")
    assert schemas.record_validator("head_moved") is schemas.record_validator("head_moved")


def test_every_type_in_both_spellings_has_a_form_of_its_own() -> None:
    for kind in (*records.TYPES, *records.DOTTED):
        assert schemas.record_validator(kind) is not None, kind
    assert schemas.record_validator("nope") is None


# ---------------------------------------------------------------- records

names_ = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
int32 = st.integers(-(2**31), 2**31 - 1)
times = st.builds(
    lambda moment, nanos, zone: moment.strftime("%Y-%m-%dT%H:%M:%S").zfill(19) + nanos + zone,
    st.datetimes(),
    st.one_of(st.just(""), st.from_regex(r"\.[0-9]{1,9}\Z", fullmatch=True)),
    st.sampled_from(["Z", "z", "+00:00", "-23:59", "+05:30"]),
)
snapshots = st.none() | st.builds(
    records.Snapshot, names_, st.none() | names_, st.sampled_from([None, "raw"])
)
file_snapshots = st.none() | st.builds(records.FileSnapshot, names_, names_, names_)
any_record = st.one_of(
    st.builds(records.Initialized, int32, times),
    st.builds(
        records.CheckpointCreated,
        *(names_, st.none() | names_, names_, int32, snapshots, st.none() | names_, times, file_snapshots),
    ),
    st.builds(records.TurnCompleted, names_, int32, st.booleans(), times),
    st.builds(
        records.HeadMoved, *(st.none() | names_, st.none() | names_, st.none() | names_, snapshots, times)
    ),
    st.builds(records.RedoCleared, times),
)


@given(any_record, st.sampled_from(["underscore", "dotted"]))
def test_what_we_write_is_valid(record: records.Record, dialect: records.Dialect) -> None:
    value = strict_json.loads(records.to_line(record, dialect))
    assert schemas.errors("timeline-record", value) == []
    assert schemas.validator("timeline-record").is_valid(value)


CREATED = {
    "type": "checkpoint_created",
    "id": "cp_1_1",
    "parent": None,
    "prompt": "x",
    "event_start": 1,
    "snapshot": {"tree": TREE, "reference": f"refs/yolop/checkpoints/{SESSION}/cp_1_1"},
    "snapshot_error": None,
    "created_at": NOW,
}
COMPLETED = {
    "type": "turn_completed",
    "checkpoint_id": "cp_1_1",
    "event_end": 4,
    "success": True,
    "completed_at": NOW,
}
MOVED = {
    "type": "head.moved",
    "from": "cp_1_1",
    "to": None,
    "redo_head": "cp_1_1",
    "redo_snapshot": {"tree": TREE, "reference": None},
    "moved_at": NOW,
}
STARTED = {"type": "initialized", "baseline_end": 0, "created_at": NOW}
CLEARED = {"type": "redo.cleared", "cleared_at": NOW}
SOUND = (STARTED, CREATED, COMPLETED, MOVED, CLEARED)
REMOVED = object()
ODD_VALUES: tuple[Any, ...] = (
    *(REMOVED, None, True, "", "x", 0, 1, 1.0, 0.5, [], {}, {"tree": "x"}, {"tree": 1}, {"reference": "x"}),
    *(
        2**31 - 1,
        2**31,
        -(2**31),
        -(2**31) - 1,
        2**63,
        2**64,
        "initialized",
        "redo_cleared",
        "turn.completed",
    ),
    *(NOW, NOW + "\n", NOW[:-1], "2026-02-29T00:00:00Z", "2024-02-29T00:00:00Z", "2026-11-31T00:00:00Z"),
    *("2026-11-30 12:00:00+00:00", "2026-11-30T24:00:00Z", "2026-11-30T12:00:60Z", "2026-11-30T12:00:61Z"),
    *(
        "2026-11-30T12:00:00.Z",
        "2026-11-30T12:00:00.1234567890Z",
        "2026-11-30T12:00:00+24:00",
        "٢٠٢٦-11-30T12:00:00Z",
    ),
)


def _readable(line: bytes) -> bool:
    try:
        records.parse(line)
    except NotJsonError:
        return False
    return True


def _valid(line: bytes) -> bool:
    return schemas.errors("timeline-record", strict_json.loads(line)) == []


@pytest.mark.parametrize("record", SOUND, ids=lambda record: str(record["type"]))
def test_the_schema_and_the_reader_agree_on_every_field_and_odd_value(record: dict[str, Any]) -> None:
    sound, refused = 0, 0
    for key in record:
        for value in ODD_VALUES:
            changed = {**record, key: value}
            if value is REMOVED:
                del changed[key]
            line = json.dumps(changed).encode()
            assert _valid(line) == _readable(line), line
            sound, refused = sound + _readable(line), refused + (not _readable(line))
    assert sound and refused, "a table that always says the same shows nothing"


@pytest.mark.parametrize(
    "line", [b"[]", b"1", b"null", b'"initialized"', b"{}", b'{"type":null}', b'{"type":[]}']
)
def test_the_schema_and_the_reader_agree_on_what_is_no_record(line: bytes) -> None:
    assert not _readable(line)
    assert not _valid(line)


def test_fields_that_are_not_listed_are_ignored_by_both() -> None:
    line = json.dumps({**COMPLETED, "baseline_end": "x", "later": {"a": [1.5]}}).encode()
    assert _readable(line) and _valid(line)


@pytest.mark.parametrize("number", [b"-0", b"1e3", b"1.0", b"0.0", b"99999999999999999999999"])
def test_an_integer_is_written_as_one(number: bytes) -> None:
    line = b'{"type":"initialized","created_at":"%s","baseline_end":%s}' % (NOW.encode(), number)
    assert not _readable(line) and not _valid(line)


def test_where_a_schema_cannot_agree_a_repeated_key() -> None:
    # By the time a schema sees the value, one of the two is gone.
    line = b'{"type":"redo_cleared","cleared_at":"%s","cleared_at":"%s"}' % (NOW.encode(), NOW.encode())
    assert not _readable(line) and _valid(line)


@pytest.mark.parametrize(
    "extension",
    [
        {"snapshot": {"tree": TREE, "reference": None, "capture": "cooked"}},
        {"file_snapshot": {"id": "x"}},
        {"file_snapshot": "x"},
    ],
)
def test_where_the_schema_asks_more_fields_that_the_agent_ignores(extension: dict[str, Any]) -> None:
    # They are ours to write, so a malformed one is worth a finding; the agent can read the line.
    line = json.dumps({**CREATED, **extension}).encode()
    assert _readable(line) and not _valid(line)


def test_the_calendar_of_the_schema_is_that_of_the_reader() -> None:
    pattern = re.compile(schemas.load("timeline-record")["$defs"]["timestamp"]["pattern"])
    for year in range(10000):
        date = f"{year:04}-02-29T00:00:00Z"
        leap = isleap(year)
        assert (pattern.search(date) is not None) == fields.is_timestamp(date) == leap, date
    for month in range(14):
        for day in range(33):
            date = f"2026-{month:02}-{day:02}T23:59:59Z"
            assert (pattern.search(date) is not None) == fields.is_timestamp(date), date


clocks = r"[0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,10})?"
almost_times = r"[0-9]{4}-[01][0-9]-[0-3][0-9][Tt ]" + clocks + r"([Zz]|[+-][0-2][0-9]:[0-6][0-9])?\n?"


@given(st.from_regex(almost_times, fullmatch=True))
def test_a_time_is_valid_where_the_reader_takes_it(time: str) -> None:
    pattern = schemas.load("timeline-record")["$defs"]["timestamp"]["pattern"]
    assert (re.search(pattern, time) is not None) == fields.is_timestamp(time)


# ---------------------------------------------------------------- what is said


def test_a_fault_is_told_in_words_and_once() -> None:
    assert schemas.errors("timeline-record", {"type": "nope"})[0][0] == "$.type"
    assert schemas.errors("timeline-record", {}) == [("$", "the field 'type' is missing")]
    assert schemas.errors("timeline-record", []) == [("$", "is a list, not an object")]
    assert schemas.errors("timeline-record", {**STARTED, "baseline_end": 2**31}) == [
        ("$.baseline_end", "is above the most allowed, 2147483647")
    ]
    assert schemas.errors("timeline-record", {**COMPLETED, "success": "x", "event_end": 1.5}) == [
        ("$.event_end", "is a number with a fraction or an exponent, not an integer"),
        ("$.success", "is a string, not true or false"),
    ]


def test_a_bad_path_is_told_beside_other_faults() -> None:
    value = {"session_id": 1, "checkpoint_id": "x", "destination": 3, "files": [{"bytes": "?"}], "more": 1}
    assert dict(schemas.errors("output/checkpoint-extract", value)) == {
        "$": "has unknown fields: 'more'",
        "$.destination": "fits none of the allowed forms",
        "$.files[0].bytes": "does not have the form: The bytes in base64",
        "$.session_id": "is an integer, not a string",
    }


def test_no_message_quotes_a_value() -> None:
    secret = "hunter2"
    told = 0
    for kind, sound in ((record["type"], record) for record in SOUND):
        for key in sound:
            for odd in (secret, [secret], {secret: secret}, {"tree": [secret]}):
                for path, message in schemas.errors("timeline-record", {**sound, key: odd}):
                    told += 1
                    assert secret not in path + message, (kind, key, odd)
    assert told > 50
