"""The quick look at events against the schema it stands for, and objects found in damaged bytes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yolop_cli.ground import schemas
from yolop_cli.timeline.checking import objects
from yolop_cli.timeline.checking.event_form import has_form

SID = "session_00000000000070008000000000000001"


def event(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "event_" + "a" * 32,
        "type": kind,
        "ts": "2026-01-01T00:00:00Z",
        "session_id": SID,
        "context": {},
        "data": data,
        "sequence": 1,
        "metadata": {"a": 1},
        "tags": ["x"],
    }


TEXT = [{"type": "text", "text": "hello"}, {"type": "image", "data": "…"}]
EVENTS = [
    event("input.message", {"message": {"id": "message_1", "role": "user", "content": TEXT}}),
    event(
        "output.message.completed", {"message": {"id": "m", "role": "agent", "content": TEXT}, "usage": {}}
    ),
    event(
        "tool.completed",
        {
            "tool_call_id": "c",
            "tool_name": "sh",
            "success": True,
            "status": "ok",
            "result": TEXT,
            "error": None,
        },
    ),
    event(
        "reason.completed",
        {"success": True, "text_preview": "x", "has_tool_calls": True, "tool_call_count": 2, "error": None},
    ),
    event("session.title.updated", {"previous_title": None, "title": "x"}),
    event("reason.item", {"opaque": [1]}),
]
VALUES = [None, 0, -1, 1.5, "", "x", True, [], {}, [1], {"type": "text"}, [{"type": "text"}], [{"type": 1}]]


def paths_of(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, child in items for path in ((*above, key), *paths_of(child, (*above, key)))]


@pytest.mark.parametrize("index", range(len(EVENTS)), ids=lambda index: str(EVENTS[index]["type"]))
def test_the_quick_look_agrees_with_the_schema_on_every_single_change(index: int) -> None:
    sound = EVENTS[index]
    assert has_form(sound, sound["type"]) and not schemas.errors("event", sound)
    for path in paths_of(sound):
        for value in [*VALUES, ...]:
            changed = copy.deepcopy(sound)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            if value is ...:
                del holder[path[-1]]
            else:
                holder[path[-1]] = value
            # The type, the session and the sequence are looked at by the walk itself.
            if path[0] in ("type", "session_id", "sequence"):
                continue
            valid = not schemas.errors("event", changed)
            assert has_form(changed, changed["type"]) == valid, (path, value)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=12,
    )
)
def test_a_whole_object_is_found_whole(value: Any) -> None:
    data = json.dumps({"k": value}).encode()
    assert list(objects.find(data)) == [(0, len(data))]
    assert list(objects.find(b"garbage " + data + b"\0" + data)) == [
        (8, 8 + len(data)),
        (9 + len(data), 9 + 2 * len(data)),
    ]


def test_an_object_behind_half_of_another_is_found() -> None:
    record = b'{"type":"x","a":{"b":1}}'
    half = b'{"type":"y","prompt":"it\'s \\"quoted\\" {'
    for cut in range(1, len(half)):
        found = list(objects.find(half[:cut] + record))
        assert (cut, cut + len(record)) in found, half[:cut]


@pytest.mark.parametrize(
    "data",
    [b'{"' * 200_000, b'{"a":' * 100_000, b'{"a":[{"b":1},' * 50_000, b'{"a":"' + b'x{\\"' * 200_000],
    ids=["braces", "nested", "lists", "strings"],
)
def test_hostile_bytes_take_no_more_than_one_pass(data: bytes) -> None:
    steps = 0
    original = objects._Run._step

    def counted(self: Any, given: bytes, position: int) -> int | None:
        nonlocal steps
        steps += 1
        return original(self, given, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects._Run, "_step", counted)
        list(objects.find(data))
    assert steps < 4 * len(data)


def test_members_and_replacing_one_value() -> None:
    data = b'{"a": 1, "s": {"t": "x\\"", "u": {"v": null}}, "l": [{"a": 9}], "a2" :true}'
    assert objects.replaced(data, ("s", "t"), "y") == data.replace(b'"x\\""', b'"y"')
    assert objects.replaced(data, ("a",), 2) == data.replace(b'"a": 1', b'"a": 2')
    assert objects.replaced(data, ("nothing",), 2) == data
    assert [one.path for one in objects.members(data)] == [
        ("a",),
        ("s",),
        ("s", "t"),
        ("s", "u"),
        ("s", "u", "v"),
        ("l",),
        ("a2",),
    ]


def test_damage_sorted_by_chance_never_hides_a_record() -> None:
    record = b'{"type":"redo_cleared","cleared_at":"2026-01-01T00:00:00Z"}'
    rng = random.Random(5)
    for _ in range(300):
        noise = bytes(rng.choice(b'{}[]":,\\ \0abc\xff1') for _ in range(rng.randint(0, 40)))
        found = list(objects.find(noise + b"\0" + record))
        assert found[-1:] == [(len(noise) + 1, len(noise) + 1 + len(record))], noise
