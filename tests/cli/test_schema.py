"""``schema list``, ``show`` and ``validate`` in this process: what they print and how they exit."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from yolop_cli.cli.main import run
from yolop_cli.ground import schemas

CLEARED = b'{"type":"redo_cleared","cleared_at":"2026-11-30T12:00:00Z"}\n'


@pytest.fixture
def timeline(tmp_path: Path) -> Path:
    path = tmp_path / "timeline.jsonl"
    path.write_bytes(CLEARED * 2)
    return path


def test_list_names_every_schema(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "list", "--json"]) == 0
    value = json.loads(capfd.readouterr().out)
    assert [item["name"] for item in value["schemas"]] == list(schemas.names())
    assert schemas.errors("output/schema-list", value) == []
    assert run(["schema", "list"]) == 0
    assert "restore\trestore.json\n" in capfd.readouterr().out


@pytest.mark.parametrize("options", [[], ["--json"]])
@pytest.mark.parametrize("name", schemas.names())
def test_show_prints_the_schema(name: str, options: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "show", name, *options]) == 0
    value = json.loads(capfd.readouterr().out)
    assert value == schemas.load(name)
    assert schemas.errors("output/schema-show", value) == []


def test_show_of_an_unknown_name_is_not_found(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "show", "../pyproject"]) == 3
    assert capfd.readouterr().err == (
        "error: no such schema: ../pyproject\nhint: see `yolop-cli schema list`\n"
    )


def test_a_sound_file_is_said_to_be_sound(timeline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "validate", str(timeline)]) == 0
    assert capfd.readouterr() == ("2 documents, valid: timeline-record\n", "")


def test_findings_name_file_line_and_rule(timeline: Path, capfd: pytest.CaptureFixture[str]) -> None:
    timeline.write_bytes(CLEARED + b'{"type":"initialized","baseline_end":1.0,"created_at":"\\u001b[2Jx"}\n')
    assert run(["schema", "validate", str(timeline)]) == 1
    out = capfd.readouterr().out
    assert f"{timeline}:2: $.baseline_end: is a number with a fraction" in out
    assert f"{timeline}:2: $.created_at: does not have the form: RFC 3339" in out
    assert len(out.splitlines()) == 2
    assert run(["schema", "validate", str(timeline), "--json"]) == 1
    value = json.loads(capfd.readouterr().out)
    assert schemas.errors("output/schema-validate", value) == []
    assert (value["ok"], value["documents"], value["schema"]) == (False, 2, "timeline-record")
    assert [finding["line"] for finding in value["findings"]] == [2, 2]


def test_control_characters_of_the_file_never_reach_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / os.fsdecode(b"restore.json")
    path.write_text('{"\\u001b[2J": {"a": 1, "a": 2}}')
    assert run(["schema", "validate", str(path)]) == 1
    assert "\x1b" not in capfd.readouterr().out


def test_a_name_that_is_not_utf_8_is_bytes_in_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_text('{"active_root": "/w"}')
    assert run(["schema", "validate", "--schema", "workspace", str(path), "--json"]) == 0
    value: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert set(value["file"]) == {"bytes"}
    assert schemas.errors("output/schema-validate", value) == []


def test_standard_input_is_a_file_too(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CLEARED)))
    assert run(["schema", "validate", "--schema", "timeline-record", "-"]) == 0
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["schema", "validate", "--schema", "timeline-record", "-"]) == 2
    assert "error: standard input is closed\n" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["other.json"], 2),
        (["-"], 2),
        (["--schema", "nope", "other.json"], 3),
        (["missing/timeline.jsonl"], 3),
        (["."], 2),
        (["--schema", "restore", "."], 9),
        (["--schema", "restore", "fifo"], 9),
    ],
)
def test_what_cannot_be_checked_is_refused(
    words: list[str],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("{}")
    os.mkfifo(tmp_path / "fifo")
    assert run(["schema", "validate", *words, "--json"]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert schemas.errors("output/error", json.loads(captured.err)) == []
