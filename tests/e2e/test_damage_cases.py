"""The cases tagged journal: what went wrong in other tools, and what is right here."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sandbox import Sandbox


def damage(box: Sandbox, turns: int) -> list[bytes]:
    box.make_timeline(turns)
    return box.timeline.read_bytes().split(b"\n")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_case_32_nul_blocks_are_named_and_taken_out(box: Sandbox) -> None:
    lines = damage(box, 4)
    lines.insert(5, b"\0" * 412)
    lines[7] = b"\0" * 64 + lines[7]
    box.timeline.write_bytes(b"\n".join(lines) + b"\0" * 1728)
    report = box.cli("timeline", "validate", "--json", code=1).json["sessions"][0]
    assert report["status"] == "corrupt" and report["records"] == 9
    assert [(one["code"], one["line"]) for one in report["findings"]] == [
        ("nul-bytes", 6),
        ("nul-bytes", 8),
        ("nul-bytes", 11),
    ]
    assert "412 NUL bytes; 4 intact records after this point" in report["findings"][0]["message"]
    assert box.cli("session", "list", session=False).text.count(box.sid) == 1
    box.cli("checkpoint", "list")
    before = digest(box.timeline)
    assert "timeline validate" in box.cli("checkpoint", "create", "--prompt", "x", code=5).said
    box.cli("timeline", "repair", code=1)
    assert digest(box.timeline) == before
    box.cli("timeline", "repair", "--apply")
    box.cli("timeline", "validate", "--strict")
    assert box.timeline.read_bytes().count(b"checkpoint_created") == 4
    assert b"\0" not in box.timeline.read_bytes()


def test_case_33_half_records_and_several_on_a_line(box: Sandbox) -> None:
    lines = damage(box, 4)[:-1]
    sound = list(lines)
    lines[2] = lines[2][:60] + lines[2]
    lines[4:6] = [lines[4] + lines[5]]
    lines[5] = lines[5][:-1] + lines[6]
    del lines[6]
    lines[3] = sound[3] = lines[3].replace(b'"p1"', b'"p1 }{ \\"type\\":\\"x\\"}"')
    box.timeline.write_bytes(b"\n".join(lines) + b"\n")
    box.cli("timeline", "validate", code=1)
    plan = box.cli("timeline", "repair", "--json", code=1).json
    assert [step["line"] for step in plan["steps"] if step["action"] == "close"] == [6]
    box.cli("timeline", "repair", "--apply")
    box.cli("timeline", "validate", "--strict")
    assert box.timeline.read_bytes() == b"\n".join(sound) + b"\n"
    before = sorted(os.listdir(box.session))
    assert box.cli("timeline", "repair", "--apply", "--json").json["applied"] is False
    assert sorted(os.listdir(box.session)) == before


def test_case_35_only_line_feed_ends_a_line(box: Sandbox) -> None:
    box.make_timeline(2)
    odd = "a\u2028b\u2029c\x85d\fe\x1cf"
    lines = box.timeline.read_bytes().split(b"\n")
    lines[1] = json.dumps(json.loads(lines[1]) | {"prompt": odd}, ensure_ascii=False).encode()
    box.timeline.write_bytes(b"\n".join(lines))
    said = "x\u2028y\u0085z"
    message = {"id": "message_1", "role": "user", "content": [{"type": "text", "text": said}]}
    event = {
        "id": "event_" + "0" * 32,
        "type": "input.message",
        "ts": "2026-01-01T00:00:00Z",
        "session_id": box.sid,
        "context": {},
        "data": {"message": message},
        "sequence": 1,
    }
    box.private(box.session / "events.jsonl", json.dumps(event, ensure_ascii=False).encode() + b"\r\n  \t\n")
    report = box.cli("timeline", "validate", "--json").json["sessions"][0]
    assert report["status"] == "ok" and all(one["severity"] == "warning" for one in report["findings"])
    box.cli("event", "validate", "--strict")
    assert [one["prompt"] for one in box.checkpoints()][-1] == odd
    events = box.cli("event", "list", "--all", "--json").json["events"]
    assert [one["data"]["message"]["content"][0]["text"] for one in events] == [said]
    raw = box.cli("event", "list", "--all", "--jsonl").out
    assert json.loads(raw)["data"]["message"]["content"][0]["text"] == said


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_case_37_a_torn_end_never_runs_into_the_next_record(box: Sandbox, cut: int) -> None:
    path = box.make_timeline(3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    token = box.cli("undo", "--mode", "conversation", "--json").json["token"]
    box.cli("rewind", "apply", token)
    report = box.cli("timeline", "validate", "--json").json["sessions"][0]
    assert report["status"] == "ok" and not [one for one in report["findings"] if one["severity"] == "error"]
    assert box.folded().head == "cp_11_2"
    if cut > 1:
        torn = whole[whole.rstrip(b"\n").rfind(b"\n") + 1 : -cut]
        assert torn in (box.session / "timeline.rejected.jsonl").read_bytes()


def test_case_37_a_full_disk_leaves_the_file_as_it_was(box: Sandbox) -> None:
    path = box.make_timeline(3)
    before = path.read_bytes()
    limit = str(len(before) + 50)
    ran = box.cli(
        "checkpoint", "create", "--prompt", "x" * 4000, code=9, prefix=("prlimit", f"--fsize={limit}")
    )
    assert "as it was" in ran.said
    assert path.read_bytes() == before
    box.cli("timeline", "validate")


@pytest.mark.parametrize("events", [6_000, pytest.param(60_000, marks=pytest.mark.exhaustive)])
def test_case_39_a_log_of_any_size_is_checked_in_little_memory(box: Sandbox, events: int) -> None:
    box.make_timeline(3)
    with (box.session / "events.jsonl").open("wb") as file:
        for number in range(1, events + 1):
            file.write(big_event(box.sid, number, "x" * 2000))
        file.write(big_event(box.sid, events + 1, "A" * (64 << 20)))
    os.chmod(box.session / "events.jsonl", 0o600)
    prefix = ("prlimit", f"--as={400_000 << 10}")
    report = box.cli("event", "validate", "--json", prefix=prefix).json["sessions"][0]
    assert (report["events"], report["last_sequence"], report["findings"]) == (events + 1, events + 1, [])
    box.cli("timeline", "validate", prefix=prefix)
    shown = box.cli("event", "list", "--all", "--type", "tool.completed", prefix=prefix)
    assert b"A" * 1000 not in shown.out and shown.text.count("\n") == events + 1
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 400_000


@pytest.mark.parametrize("turns", [10_000, pytest.param(50_000, marks=pytest.mark.exhaustive)])
def test_a_timeline_of_a_hundred_thousand_records_is_checked_in_seconds(box: Sandbox, turns: int) -> None:
    box.make_timeline(1)
    first, begun, ended = (json.loads(line) for line in box.timeline.read_bytes().split(b"\n")[:3])
    parent = None
    with box.timeline.open("wb") as file:
        file.write(json.dumps(first).encode() + b"\n")
        for number in range(turns):
            name, start = f"cp_{number * 10 + 1}_{number + 1}", number * 10 + 1
            turn = [
                {**begun, "id": name, "parent": parent, "event_start": start, "prompt": "change it " * 20},
                {**ended, "checkpoint_id": name, "event_end": start + 9},
            ]
            file.writelines(json.dumps(record).encode() + b"\n" for record in turn)
            parent = name
    ran = subprocess.run(
        [sys.executable, "-c", MEASURED, "timeline", "validate", "-s", box.sid],
        env=box.environment(),
        cwd=box.root,
        capture_output=True,
        timeout=120,
        check=True,
    )
    kilobytes, seconds = ran.stderr.split()[-2:]
    assert int(kilobytes) < (50 << 10) + 2 * turns * 1.05
    assert float(seconds) < 2 + turns / 2_500, "a few seconds, on a slow machine"


# The program's own high-water mark: that of getrusage counts what the test process held when it forked.
MEASURED = """
import re, resource, sys
from yolop_cli.cli.main import run
assert run(sys.argv[1:]) in (0, 1)
used = resource.getrusage(resource.RUSAGE_SELF)
status = open("/proc/self/status").read()
print(re.search(r"VmHWM:\\s+(\\d+)", status)[1], used.ru_utime + used.ru_stime, file=sys.stderr)
"""


def big_event(session_id: str, number: int, text: str) -> bytes:
    event = {
        "id": f"event_{number:032x}",
        "type": "tool.completed",
        "ts": "2026-01-01T00:00:00Z",
        "session_id": session_id,
        "context": {},
        "data": {
            "tool_call_id": "c",
            "tool_name": "sh",
            "success": True,
            "status": "ok",
            "result": [{"type": "text", "text": text}],
            "error": None,
        },
        "sequence": number,
    }
    return json.dumps(event).encode() + b"\n"


def test_case_40_a_repair_touches_only_damaged_bytes(box: Sandbox) -> None:
    lines = damage(box, 3)[:-1]
    extra = b'"extra": {"n": 1e2, "big": 12345678901234567890, "u": "\\u00e9\\/"} ,  "prompt"'
    lines[1] = lines[1].replace(b'"prompt"', extra)
    sound = b"\n".join(lines) + b"\n"
    lines.insert(4, b'{"type": ')
    real = box.session / "timeline.jsonl.real"
    real.write_bytes(b"\n".join(lines) + b"\n")
    box.timeline.unlink()
    box.timeline.symlink_to(real.name)
    os.chmod(real, 0o640)
    os.utime(real, (1, 1))
    before = digest(real)
    box.cli("checkpoint", "list", watch=False)
    box.cli("timeline", "validate", code=1, watch=False)
    box.cli("timeline", "repair", code=1, watch=False)
    assert digest(real) == before and real.stat().st_mtime == 1
    box.cli("timeline", "repair", "--apply", watch=False)
    assert real.read_bytes() == sound
    assert box.timeline.is_symlink() and os.readlink(box.timeline) == real.name
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    backup = next(box.session.glob("timeline.jsonl.bak-*"))
    assert digest(backup) == before and stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert (box.session / "timeline.rejected.jsonl").read_bytes() == b'{"type": \n'
    names = sorted(os.listdir(box.session))
    box.cli("timeline", "repair", "--apply", watch=False)
    assert sorted(os.listdir(box.session)) == names and real.read_bytes() == sound
