"""Files against schemas: lines and offsets are right, and what a schema cannot see is said too."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from yolop_cli.ground.errors import NotFoundError
from yolop_cli.session.conformance import Conformance, Finding, check, is_of_lines, schema_of

CLEARED = b'{"type":"redo_cleared","cleared_at":"2026-11-30T12:00:00Z"}'


def lines(data: bytes, schema: str = "timeline-record") -> Conformance:
    return check(io.BytesIO(data), schema, of_lines=True)


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("timeline.jsonl", "timeline-record"),
        ("timeline.jsonl.bak-20261130T120000Z", "timeline-record"),
        ("events.jsonl", "event"),
        ("session_" + "0" * 32 + ".jsonl", "event"),
        ("compaction-checkpoints.jsonl", "compaction-record"),
        ("workspace.json", "workspace"),
        ("restore.json", "restore"),
        ("timeline.rejected.jsonl", None),
        ("timeline.jsonl\n", None),
        ("other.json", None),
        ("-", None),
    ],
)
def test_the_name_of_a_file_says_its_schema(name: str, schema: str | None) -> None:
    assert schema_of(name) == schema


def test_lines_are_those_of_the_format_page() -> None:
    text = json.dumps({"type": "redo_cleared", "cleared_at": "x\u2028\x85\x0b"}, ensure_ascii=False).encode()
    found = lines(CLEARED + b"\r\n \t\f\r\n" + text + b"\n" + CLEARED)
    assert found.documents == 3
    assert [(finding.line, finding.path) for finding in found.findings] == [(3, "$.cleared_at")]


def test_a_finding_names_line_and_byte() -> None:
    found = lines(CLEARED + b'\n{"type":"\xff"}\n[]\n')
    start = len(CLEARED) + 1
    assert [(finding.line, finding.offset) for finding in found.findings] == [(2, start + 9), (3, start + 13)]


@pytest.mark.parametrize("damage", [b"\0" * 40, b"\xef\xbb\xbf" + CLEARED, CLEARED * 2, CLEARED[:-1], b"NaN"])
def test_a_line_that_is_no_document_is_a_finding(damage: bytes) -> None:
    found = lines(CLEARED + b"\n" + damage + b"\n" + CLEARED + b"\n")
    assert found.documents == 3
    assert [finding.line for finding in found.findings] == [2]


def test_a_repeated_key_is_found_where_it_is() -> None:
    data = b'{"active_root":"/w","worktree":{"path":"/w","path":"/x"},"odd key":[{"a":1,"a":1}]}'
    found = check(io.BytesIO(data), "workspace", of_lines=False)
    assert {(finding.path, finding.message) for finding in found.findings} == {
        ("$.worktree", "the key 'path' is there more than once"),
        ("$['odd key'][0]", "the key 'a' is there more than once"),
    }


def test_one_document_may_span_lines_and_has_no_line_number() -> None:
    good: dict[str, Any] = {"active_root": "/w"}
    assert check(io.BytesIO(json.dumps(good, indent=1).encode()), "workspace", of_lines=False).findings == ()
    found = check(io.BytesIO(b"\n"), "workspace", of_lines=False)
    assert [type(finding) for finding in found.findings] == [Finding]
    assert found.findings[0].line is None


def test_an_unknown_schema_is_refused_even_for_an_empty_file() -> None:
    with pytest.raises(NotFoundError):
        check(io.BytesIO(b""), "nope", of_lines=True)


def test_a_file_is_of_lines_by_its_schema_or_its_name() -> None:
    assert is_of_lines("-", "event")
    assert is_of_lines("x.jsonl", "output/checkpoint-list")
    assert not is_of_lines("x.json", "output/checkpoint-list")
