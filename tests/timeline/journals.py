"""Timelines for tests: sound ones of any length, and every kind of damage done to them."""

from __future__ import annotations

import json
from collections.abc import Callable

TIME = "2026-01-01T00:%02d:%02dZ"


def stamp(number: int) -> str:
    return TIME % (number // 60 % 60, number % 60)


def healthy(turns: int, *, snapshots: bool = True) -> list[bytes]:
    """A conversation of turns, with a rewind every seventh and a redo every twenty-first."""
    records: list[dict[str, object]] = [{"type": "initialized", "baseline_end": 0, "created_at": stamp(0)}]
    head: str | None = None
    parents: dict[str, str | None] = {}
    redo = False
    for number in range(turns):
        start = number * 10 + 1
        checkpoint = f"cp_{start}_{number + 1}"
        if redo:
            records.append({"type": "redo_cleared", "cleared_at": stamp(number)})
            redo = False
        records.append(
            {
                "type": "checkpoint_created",
                "id": checkpoint,
                "parent": head,
                "prompt": f'do "this" {number} }}{{ {{"type":"redo_cleared"}} ä',
                "event_start": start,
                "snapshot": {"tree": f"{number:040x}", "reference": None}
                if number % 2 and snapshots
                else None,
                "snapshot_error": None,
                "created_at": stamp(number),
            }
        )
        parents[checkpoint] = head
        records.append(
            {
                "type": "turn_completed",
                "checkpoint_id": checkpoint,
                "event_end": start + 9,
                "success": number % 5 != 4,
                "completed_at": stamp(number),
            }
        )
        head = checkpoint
        if number % 7 == 6:
            records.append(moved(head, parents[checkpoint], head, number))
            head, redo = parents[checkpoint], True
        if number % 21 == 20:
            records.append(moved(head, checkpoint, head, number))
            records.append({"type": "redo_cleared", "cleared_at": stamp(number)})
            head, redo = checkpoint, False
    return [json.dumps(record, ensure_ascii=False).encode() for record in records]


def moved(source: str | None, target: str | None, redo: str | None, number: int) -> dict[str, object]:
    return {
        "type": "head_moved",
        "from": source,
        "to": target,
        "redo_head": redo,
        "redo_snapshot": None,
        "moved_at": stamp(number),
    }


def data(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _at(index: int, change: Callable[[bytes], bytes]) -> Callable[[list[bytes]], bytes]:
    def damage(lines: list[bytes]) -> bytes:
        return data([*lines[:index], change(lines[index]), *lines[index + 1 :]])

    return damage


def _pretty(line: bytes) -> bytes:
    return json.dumps(json.loads(line), indent=2, ensure_ascii=False).encode()


# Line 3 of a healthy timeline (index 2) is a turn_completed, line 4 (index 3) a checkpoint_created.
# Kind: (how it is done, the code that names it, the status, how many records are still whole).
DAMAGE: dict[str, tuple[Callable[[list[bytes]], bytes], str, str, int]] = {
    "half a record at the end": (lambda lines: data(lines)[:-30], "half-record", "tail", -1),
    "half a record before the end": (_at(2, lambda line: line[:50]), "half-record", "corrupt", -1),
    "half a record at the end with a line feed": (
        lambda lines: data(lines)[:-30] + b"\n",
        "half-record",
        "tail",
        -1,
    ),
    "half a record, then the next glued to it, at the tail": (
        lambda lines: data([*lines[:-2], lines[-2][:70] + lines[-1]]),
        "glued-record",
        "tail",
        -1,
    ),
    "half a record, then the next glued to it": (
        lambda lines: data([*lines[:2], lines[2][:50] + lines[3], *lines[4:]]),
        "glued-record",
        "corrupt",
        -1,
    ),
    "half a record, then the same one whole": (
        _at(2, lambda line: line[:60] + line),
        "glued-record",
        "corrupt",
        0,
    ),
    "a record without its brace, then the next": (
        lambda lines: data([*lines[:2], lines[2][:-1] + lines[3], *lines[4:]]),
        "glued-record",
        "corrupt",
        -1,
    ),
    "half a record cut behind a colon, then the next": (
        lambda lines: data([*lines[:3], lines[3][: lines[3].index(b'"prompt":') + 9] + lines[4], *lines[5:]]),
        "glued-record",
        "corrupt",
        -1,
    ),
    "two records on one line": (
        lambda lines: data([*lines[:2], lines[2] + lines[3], *lines[4:]]),
        "several-records",
        "corrupt",
        0,
    ),
    "three records on one line with blanks": (
        lambda lines: data([*lines[:2], b" \t".join(lines[2:5]), *lines[5:]]),
        "several-records",
        "corrupt",
        0,
    ),
    "one record over several lines": (_at(3, _pretty), "split-record", "corrupt", 0),
    "one record over several CRLF lines": (
        _at(3, lambda line: _pretty(line).replace(b"\n", b"\r\n")),
        "split-record",
        "corrupt",
        0,
    ),
    "a line feed inside a string": (
        _at(3, lambda line: line.replace(b"do ", b"d\no ")),
        "split-record",
        "corrupt",
        0,
    ),
    "NUL block between records": (_at(2, lambda line: b"\0" * 412 + b"\n" + line), "nul-bytes", "corrupt", 0),
    "NUL block before a record": (_at(2, lambda line: b"\0" * 64 + line), "nul-bytes", "corrupt", 0),
    "NUL block after a record": (_at(2, lambda line: line + b"\0" * 64), "nul-bytes", "corrupt", 0),
    "NUL block inside a record": (
        _at(3, lambda line: line[:40] + b"\0" * 64 + line[40:]),
        "nul-bytes",
        "corrupt",
        -1,
    ),
    "NUL tail": (lambda lines: data(lines) + b"\0" * 1728, "nul-bytes", "tail", 0),
    "byte-order mark": (lambda lines: b"\xef\xbb\xbf" + data(lines), "byte-order-mark", "corrupt", 0),
    "byte-order mark in the middle": (
        _at(4, lambda line: b"\xef\xbb\xbf" + line),
        "byte-order-mark",
        "corrupt",
        0,
    ),
    "CRLF": (lambda lines: b"".join(line + b"\r\n" for line in lines), "crlf", "ok", 0),
    "no final newline": (lambda lines: data(lines)[:-1], "no-final-newline", "ok", 0),
    "invalid UTF-8 in a string": (
        _at(3, lambda line: line.replace(b"this", b"th\xffs")),
        "invalid-utf8",
        "corrupt",
        -1,
    ),
    "invalid UTF-8 in the structure": (
        _at(3, lambda line: b"{\xc3" + line[2:]),
        "invalid-utf8",
        "corrupt",
        -1,
    ),
    "lone surrogate": (
        _at(3, lambda line: line.replace(b"this", b"\\ud800")),
        "lone-surrogate",
        "corrupt",
        -1,
    ),
    "repeated key": (
        _at(2, lambda line: line.replace(b'"event_end": 10', b'"event_end": 10, "event_end": 10')),
        "repeated-key",
        "corrupt",
        -1,
    ),
    "NaN": (_at(2, lambda line: line.replace(b": 10,", b": NaN,")), "not-a-number", "corrupt", -1),
    "a number beyond a double": (
        _at(2, lambda line: line.replace(b": 10,", b': 10, "x": 1e999,')),
        "number-range",
        "corrupt",
        -1,
    ),
    "an integer beyond 32 bits": (
        _at(2, lambda line: line.replace(b": 10,", b": 2147483648,")),
        "bad-integer",
        "corrupt",
        -1,
    ),
    "a fraction": (_at(2, lambda line: line.replace(b": 10,", b": 10.0,")), "bad-integer", "corrupt", -1),
    "minus zero": (_at(0, lambda line: line.replace(b": 0,", b": -0,")), "bad-integer", "corrupt", -1),
    "too deep": (
        _at(2, lambda line: line[:-1] + b', "x": ' + b"[" * 127 + b"]" * 127 + b"}"),
        "too-deep",
        "corrupt",
        -1,
    ),
    "a raw tab in a string": (
        _at(3, lambda line: line.replace(b"do ", b"do\t")),
        "not-json",
        "corrupt",
        -1,
    ),
    "trailing comma": (_at(2, lambda line: line[:-1] + b",}"), "not-json", "corrupt", -1),
    "a line of another program": (
        _at(2, lambda line: b"Segmentation fault (core dumped)\n" + line),
        "foreign-text",
        "corrupt",
        0,
    ),
    "another program's text after a record": (
        _at(2, lambda line: line + b" Killed"),
        "trailing-garbage",
        "corrupt",
        0,
    ),
    "another program's text before a record": (
        _at(2, lambda line: b"warning: " + line),
        "foreign-text",
        "corrupt",
        0,
    ),
    "another program's JSON": (
        _at(2, lambda line: b'{"level": "info", "msg": "hello"}\n' + line),
        "not-a-record",
        "corrupt",
        0,
    ),
    "JSON that is no object": (_at(2, lambda line: b"[1, 2]\n" + line), "not-a-record", "corrupt", 0),
    "two writers": (
        lambda lines: data([*lines[:2], lines[2][:50] + lines[3], lines[2][50:], *lines[4:]]),
        "interleaved-record",
        "corrupt",
        0,
    ),
    "two writers in turn": (
        lambda lines: data(
            [*lines[:2], lines[2][:54] + lines[3][:48] + lines[2][54:] + lines[3][48:], *lines[4:]]
        ),
        "interleaved-record",
        "corrupt",
        0,
    ),
    "another program's line inside a record": (
        _at(2, lambda line: line[:54] + b"warning: something\n" + line[54:]),
        "interleaved-record",
        "corrupt",
        0,
    ),
    "another program's lines inside a string": (
        _at(3, lambda line: line.replace(b"do ", b'do\n{"level":"warn"}\nnot "here"\n ')),
        "interleaved-record",
        "corrupt",
        0,
    ),
    "another program's words inside a record": (
        _at(2, lambda line: line[:54] + b"Killed by signal 9." + line[54:]),
        "interleaved-record",
        "corrupt",
        0,
    ),
    "foreign blanks": (_at(2, lambda line: b"\xc2\xa0\n" + line), "foreign-blank", "corrupt", 0),
    "vertical tab": (_at(2, lambda line: b"\x0b\n" + line), "foreign-blank", "corrupt", 0),
    "unknown type": (
        _at(2, lambda line: line.replace(b"turn_completed", b"turn_imagined")),
        "unknown-type",
        "corrupt",
        -1,
    ),
    "missing field": (
        _at(2, lambda line: line.replace(b'"event_end": 10, ', b"")),
        "missing-field",
        "corrupt",
        -1,
    ),
    "wrong type": (
        _at(2, lambda line: line.replace(b'"success": true', b'"success": "yes"')),
        "wrong-type",
        "corrupt",
        -1,
    ),
    "time without a zone": (
        _at(2, lambda line: line.replace(b'Z"}', b'"}')),
        "bad-timestamp",
        "corrupt",
        -1,
    ),
    "dotted spelling": (
        _at(2, lambda line: line.replace(b"turn_completed", b"turn.completed")),
        "dotted-type",
        "ok",
        0,
    ),
}
