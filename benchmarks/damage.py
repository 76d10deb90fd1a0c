"""What checking costs: a timeline of 100,000 records, and an event log of one gigabyte.

    python benchmarks/damage.py [DIRECTORY]

Prints seconds, microseconds a record, and the most memory the installed program held. The yardstick of the
first is reading the same lines with ``json.loads``; that of the second is ``cat``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECORDS = 100_000
LOG_BYTES = 1 << 30
SID = "session_00000000000070008000000000000001"
TIME = "2026-01-01T00:00:00.123456Z"


def make_timeline(path: Path) -> None:
    parent = None
    with path.open("wb") as file:
        file.write(line(type="initialized", baseline_end=0, created_at=TIME))
        for number in range((RECORDS - 1) // 2):
            start = number * 10 + 1
            name = f"cp_{start}_{number + 1}"
            file.write(
                line(
                    type="checkpoint_created",
                    id=name,
                    parent=parent,
                    prompt="change the thing that is wrong " * 8,
                    event_start=start,
                    snapshot=None,
                    snapshot_error="the session owns no worktree",
                    created_at=TIME,
                )
            )
            file.write(
                line(
                    type="turn_completed",
                    checkpoint_id=name,
                    event_end=start + 9,
                    success=True,
                    completed_at=TIME,
                )
            )
            parent = name
    path.chmod(0o600)


def make_log(path: Path) -> None:
    text = "x" * 2000
    with path.open("wb") as file:
        number = written = 0
        while written < LOG_BYTES:
            number += 1
            result = [{"type": "text", "text": text if number % 1000 else text * 4000}]
            data = {"tool_call_id": "c", "tool_name": "sh", "success": True, "result": result}
            written += file.write(
                line(
                    id=f"event_{number:032x}",
                    type="tool.completed",
                    ts=TIME,
                    session_id=SID,
                    context={},
                    data=data,
                    sequence=number,
                )
            )
    path.chmod(0o600)


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def measured(*words: str) -> tuple[float, int]:
    """Seconds and the most resident kilobytes of a command."""
    before = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{words} failed")
    return time.perf_counter() - before, usage.ru_maxrss


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("directory", nargs="?", help="where to work (default: a temporary directory)")
    with tempfile.TemporaryDirectory(dir=arguments.parse_args().directory) as directory:
        session = Path(directory) / "sessions" / SID
        session.mkdir(mode=0o700, parents=True)
        make_timeline(session / "timeline.jsonl")
        floor, _ = measured(sys.executable, "-c", READ, str(session / "timeline.jsonl"))
        passes, memory = measured(sys.executable, "-c", TWO_PASSES, str(session))
        report("timeline, passes 1 and 2", passes, memory, floor, RECORDS)
        whole, memory = measured("yolop-cli", "timeline", "validate", str(session))
        report("timeline validate, all three", whole, memory, floor, RECORDS)
        make_log(session / "events.jsonl")
        floor, _ = measured("cat", str(session / "events.jsonl"))
        whole, memory = measured("yolop-cli", "event", "validate", str(session))
        report("event validate, 1 GB", whole, memory, floor, 0)


READ = "import json, sys\nfor line in open(sys.argv[1], 'rb'): json.loads(line)"
TWO_PASSES = (
    "import sys\nfrom pathlib import Path\n"
    "from yolop_cli.session.directory import SessionDirectory\n"
    "from yolop_cli.timeline.checking.validate import check_session\n"
    "report = check_session(SessionDirectory(Path(sys.argv[1])))\n"
    "sys.exit(report.status != 'ok')"
)


def report(what: str, seconds: float, kilobytes: int, floor: float, records: int) -> None:
    each = f", {seconds / records * 1e6:.1f} us a record" if records else ""
    print(
        f"{what:32} {seconds:6.2f} s{each}, {kilobytes / 1024:.0f} MB, {seconds / floor:.1f} times the floor"
    )


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
