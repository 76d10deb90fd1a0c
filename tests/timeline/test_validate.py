"""Passes 1 and 2: every kind of damage has its name, its place and its count; nothing sound is accused."""

from __future__ import annotations

import io
import json
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.timeline.journals import DAMAGE, data, healthy
from yolop_cli.ground import journal
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.checking.damage import Block, Readable, scan
from yolop_cli.timeline.checking.validate import check_bytes, check_session
from yolop_cli.timeline.findings import RULES, Finding, Report, passed, to_json
from yolop_cli.timeline.records import is_readable

LINES = healthy(12)
SID = "session_00000000000070008000000000000001"


def lines_of(content: bytes) -> list[journal.Line]:
    return [line for line in journal.lines(io.BytesIO(content)) if not journal.is_blank(line.data)]


def test_a_sound_timeline_has_no_findings() -> None:
    checked = check_bytes(data(LINES))
    assert (checked.status, checked.records, checked.findings) == ("ok", len(LINES), ())
    assert check_bytes(b"").status == "ok"
    assert check_bytes(b"\n \t\r\f\n").findings == ()


@pytest.mark.parametrize("kind", DAMAGE)
def test_each_kind_of_damage_has_its_name(kind: str) -> None:
    damage, code, status, lost = DAMAGE[kind]
    content = damage(LINES)
    checked = check_bytes(content)
    assert code in {finding.code for finding in checked.findings}
    assert checked.status == status
    assert checked.records == len(LINES) + lost
    for finding in checked.findings:
        assert finding.line is not None and finding.offset is not None
        # The line number is that of the offset: an editor and a hex viewer show the same place.
        assert content.count(b"\n", 0, finding.offset) + 1 == finding.line
        assert finding.fix


def test_every_code_of_the_byte_and_schema_passes_can_be_met() -> None:
    met = {finding.code for damage, *_ in DAMAGE.values() for finding in check_bytes(damage(LINES)).findings}
    met |= {finding.code for finding in check_bytes(data([LINES[0][:-1] + b',"x":1}'])).findings}
    damaged = LINES[1].replace(b'"parent"', b'"qarent"').replace(b"null", b'"cp_0_0"', 1)
    met |= {finding.code for finding in check_bytes(data([LINES[0], damaged])).findings}
    first = list(RULES)[: list(RULES).index("dotted-type") + 1]
    assert met == set(first) - {"unreadable-file"}


def test_case_32_a_nul_block_is_named_with_its_line_and_what_follows() -> None:
    lines = data(healthy(4)).split(b"\n")
    lines.insert(5, b"\0" * 412)
    lines[7] = b"\0" * 64 + lines[7]
    checked = check_bytes(b"\n".join(lines) + b"\0" * 1728)
    assert [(finding.code, finding.line) for finding in checked.findings] == [
        ("nul-bytes", 6),
        ("nul-bytes", 8),
        ("nul-bytes", 11),
    ]
    assert "412 NUL bytes; 4 intact records after this point" in checked.findings[0].message
    assert checked.status == "corrupt" and checked.records == 9


def test_case_33_braces_in_strings_do_not_mislead_the_splitter() -> None:
    lines = healthy(4)
    lines[2] = lines[2][:60] + lines[2]
    lines[4:6] = [lines[4] + lines[5]]
    lines[5] = lines[5][:-1] + lines[6]
    del lines[6]
    lines[3] = lines[3].replace(b"do ", b'p1 }{ \\"type\\":\\"x\\"} ')
    checked = check_bytes(data(lines))
    assert [(finding.code, finding.line) for finding in checked.findings] == [
        ("glued-record", 3),
        ("several-records", 5),
        ("glued-record", 6),
    ]
    assert checked.records == 8
    assert "brace" in str(checked.findings[2].fix)


def test_case_35_line_separators_inside_strings_are_harmless() -> None:
    odd = "a\u2028b\u2029c\x85d"
    record = json.loads(LINES[1]) | {"prompt": odd + "\f\x1c"}
    raw = json.dumps(record, ensure_ascii=False).encode()
    content = data([LINES[0], raw, *LINES[2:]]) + b"  \t\r\n"
    assert check_bytes(content).findings == ()
    assert check_bytes(data([LINES[0], "\u2028".encode(), *LINES[1:]])).status == "corrupt"


def test_the_schema_words_name_the_field_and_never_the_value() -> None:
    content = data([LINES[0], LINES[1].replace(b'"event_start": 1,', b'"event_start": "secret",')])
    (finding,) = check_bytes(content).findings
    assert finding.code == "bad-integer" and "event_start" in finding.message
    assert "secret" not in finding.message


@given(st.binary(max_size=400))
def test_any_bytes_at_all_are_accounted_for(content: bytes) -> None:
    account(content)


@given(st.randoms(use_true_random=False))
def test_shredded_timelines_are_accounted_for(rng: random.Random) -> None:
    content = bytearray(data(LINES[:7]))
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(content))
        match rng.randrange(4):
            case 0:
                del content[at : at + rng.randint(1, 200)]
            case 1:
                content[at:at] = rng.choice(
                    [b"\0\0\0", b"\n", b"\xef\xbb\xbf", b"{", b'"', b"}\n{", b"\r\n", b"\xff"]
                )
            case 2:
                content[at] ^= 1 << rng.randrange(8)
            case _:
                end = min(len(content), at + 300)
                content[at:at] = content[at:end]
    account(bytes(content))


def account(content: bytes) -> None:
    """Every byte is in exactly one readable line or piece, or is white space; all readers agree."""
    lines = lines_of(content)
    owned: list[tuple[int, int]] = []
    for item in scan(lines):
        if isinstance(item, Readable):
            owned.append((item.line.offset, item.line.offset + len(item.line.data)))
            continue
        assert isinstance(item, Block)
        for piece in item.pieces:
            assert piece.data == b"".join(content[start:end] for start, end in piece.spans)
            assert (piece.kind == "record") == (piece.parsed is not None)
            owned.extend(piece.spans)
    position = 0
    for start, end in sorted(owned):
        assert start >= position
        assert not content[position:start].strip(journal.BLANK + b"\n")
        position = end
    assert not content[position:].strip(journal.BLANK + b"\n")
    checked = check_bytes(content)
    assert checked.status == timeline_file.of_lines(lines).health
    assert (checked.status == "ok") == all(is_readable(line.data) for line in lines)
    assert checked.status == "ok" or any(finding.severity == "error" for finding in checked.findings)


def test_a_binary_file_does_not_give_thousands_of_findings() -> None:
    checked = check_bytes(data(LINES).decode().encode("utf-16"))
    assert 0 < len(checked.findings) < 4 * len(LINES)


def test_reading_changes_nothing_and_takes_no_lock(tmp_path: Path) -> None:
    session = SessionDirectory(tmp_path / SID)
    session.path.mkdir()
    session.timeline.write_bytes(data(LINES)[:-30])
    before = {entry.name: entry.stat() for entry in os.scandir(session.path)}
    report = check_session(session)
    assert (report.status, report.records) == ("tail", len(LINES) - 1)
    after = {entry.name: entry.stat() for entry in os.scandir(session.path)}
    assert {name: entry.st_mtime_ns for name, entry in before.items()} == {
        name: entry.st_mtime_ns for name, entry in after.items()
    }
    assert not (tmp_path / ".locks").exists()


def test_a_missing_file_is_sound_and_a_pipe_is_a_finding(tmp_path: Path) -> None:
    session = SessionDirectory(tmp_path / SID)
    session.path.mkdir()
    assert check_session(session) == Report(SID, os.fsencode(session.timeline), "ok", 0)
    os.mkfifo(session.timeline)
    report = check_session(session)
    assert [finding.code for finding in report.findings] == ["unreadable-file"]


def test_passed_counts_warnings_only_when_strict() -> None:
    warned = Report(SID, b"x", "ok", 1, (Finding("crlf", "words", 1, 0),))
    failed = Report(SID, b"x", "corrupt", 1, (Finding("nul-bytes", "words", 1, 0),))
    assert passed([warned]) and not passed([warned], strict=True) and not passed([warned, failed])
    assert to_json(warned.findings[0]) == {
        "code": "crlf",
        "severity": "warning",
        "line": 1,
        "offset": 0,
        "record_type": None,
        "message": "words",
        "fix": None,
    }


def test_the_table_explains_every_code_in_one_line() -> None:
    for code, rule in RULES.items():
        assert code == code.lower() and "\n" not in rule.explanation and len(rule.explanation) < 110
