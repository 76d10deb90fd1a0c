"""Runs of the program, and what they said: in this process (inprocess.py) or in one of its own."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support import inprocess, moments, outputs, unprivileged

PROGRAM = str(Path(sysconfig.get_path("scripts")) / "yolop-cli")
MOMENTS = (sys.executable, "-m", "tests.support.moments")
ROOT = Path(__file__).resolve().parents[2]
UNPRIVILEGED = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)
# What runs in a fork of this process: the same as behind the prefix, without an interpreter to be started.
_FORKED = {MOMENTS: moments.main, UNPRIVILEGED: unprivileged.main}
CODES = {
    2: "USAGE",
    3: "NOT_FOUND",
    4: "VALIDATION_ERROR",
    5: "CORRUPT",
    6: "BUSY",
    7: "DENIED",
    8: "STALE",
    9: "IO",
}


@dataclass(frozen=True)
class Ran:
    """One finished run."""

    command: tuple[str | bytes, ...]
    arguments: tuple[str | bytes, ...]
    code: int
    out: bytes
    err: bytes

    @cached_property
    def json(self) -> Any:
        """Standard output, which must be exactly one JSON document."""
        return json.loads(self.out)

    @cached_property
    def error(self) -> dict[str, Any]:
        """The error object on standard error of a run with ``--json``."""
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found

    @property
    def text(self) -> str:
        """Standard output as text."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def said(self) -> str:
        """Both streams as text: for messages whose stream does not matter."""
        return (self.out + b"\n" + self.err).decode("utf-8", "surrogateescape")

    def dump(self) -> str:
        """Everything about the run."""
        words = " ".join(os.fsdecode(part) for part in self.command)
        return f"$ {words}\nexit {self.code}\n--- stdout\n{_shown(self.out)}\n--- stderr\n{_shown(self.err)}"


def _shown(data: bytes) -> str:
    return data[:8000].decode("utf-8", "backslashreplace")


def start(
    arguments: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: Path,
    prefix: Sequence[str] = (),
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start the program in a process group of its own and do not wait for it."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    command = (
        [*prefix, *arguments] if prefix and prefix[0] == sys.executable else [*prefix, PROGRAM, *arguments]
    )
    return subprocess.Popen(command, env=dict(env), cwd=cwd, start_new_session=True, **pipes)


def run(
    arguments: Sequence[str | bytes],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None = None,
    prefix: Sequence[str] = (),
    timeout: float = 90,
    process: bool = False,
) -> Ran:
    """Run the program to its end. Standard input is empty unless it is given.

    It runs in this process, and in one of its own with ``process``, behind a ``prefix``, in a thread, and
    where the environment concerns the interpreter. The prefixes ``MOMENTS`` and ``UNPRIVILEGED`` take a fork.
    """
    own = prefix and prefix[0] == sys.executable
    command = (*prefix, *arguments) if own else (*prefix, PROGRAM, *arguments)
    here = not process and inprocess.suits(env) and threading.current_thread() is threading.main_thread()
    if here and not prefix:
        said = inprocess.run(arguments, env, cwd, stdin, timeout)
    elif here and tuple(prefix) in _FORKED:
        said = inprocess.forked(_FORKED[tuple(prefix)], arguments, env, cwd, stdin, timeout)
    else:
        said = _process(command, env, cwd, stdin, timeout)
    return Ran(command, tuple(arguments), *said)


def _process(
    command: Sequence[str | bytes], env: Mapping[str, str], cwd: Path, stdin: bytes | None, timeout: float
) -> tuple[int, bytes, bytes]:
    given: Any = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    ran = subprocess.run(
        command, env=dict(env), cwd=cwd, capture_output=True, timeout=timeout, check=False, **given
    )
    return ran.returncode, ran.stdout, ran.stderr


def check(ran: Ran, expected: int | Sequence[int]) -> None:
    """What holds for every run: exit code, no traceback, no escape codes, one JSON document or one error."""
    allowed = (expected,) if isinstance(expected, int) else tuple(expected)
    assert ran.code in allowed, f"expected exit {allowed}\n{ran.dump()}"
    assert b"Traceback (most recent call last)" not in ran.out + ran.err, ran.dump()
    assert b"\x1b" not in ran.out + ran.err, f"escape codes without a terminal\n{ran.dump()}"
    if ran.code not in CODES:
        if "--json" in ran.command:
            wrong = outputs.faults(outputs.schema_name(ran.arguments), ran.json)
            assert not wrong, f"{wrong}\n{ran.dump()}"
        return
    if "--json" in ran.command:
        assert ran.out == b"", f"an error leaves standard output empty\n{ran.dump()}"
        assert not outputs.faults("error", json.loads(ran.err)), ran.dump()
        assert ran.error["code"] == CODES[ran.code], ran.dump()
        assert ran.error["message"], ran.dump()
    else:
        lines = ran.err.decode("utf-8", "backslashreplace").strip().split("\n")
        assert sum(line.startswith("error: ") for line in lines) == 1, f"one error line\n{ran.dump()}"


def path_bytes(value: str | dict[str, str]) -> bytes:
    """A path in a JSON report: a string, or base64 when it is not UTF-8."""
    return value.encode() if isinstance(value, str) else base64.b64decode(value["bytes"], validate=True)


def changes(preview: Mapping[str, Any]) -> dict[bytes, str]:
    """The paths a preview would change, and how."""
    listed = [(path_bytes(item["path"]), item["change"]) for item in preview["workspace"]["changes"]]
    found = dict(listed)
    assert len(found) == len(listed), f"a path is listed twice: {listed}"
    assert set(found.values()) <= {"added", "modified", "deleted", "type", "mode"}, found
    return found


def kept(report: Mapping[str, Any]) -> dict[bytes, str]:
    """The paths that a preview or a result leaves alone, and why."""
    return {path_bytes(item["path"]): item["why"] for item in report["workspace"]["kept"]}
