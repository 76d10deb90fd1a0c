"""Other processes that are in the way: they hold a lock, stand in a directory, or have a file open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FLOCK = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(fd, fcntl.LOCK_EX)
"""
_STAND = "import os, sys; os.chdir(sys.argv[1])"
_OPEN = "import sys; file = open(sys.argv[1], 'ab')"
_READY = "\nprint('ready', flush=True)\nsys.stdin.read()\n"


@contextmanager
def _child(script: str, path: Path) -> Iterator[int]:
    child = subprocess.Popen(
        [sys.executable, "-c", script + _READY, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        assert child.stdout.readline() == b"ready\n"
        yield child.pid
    finally:
        child.stdin.close()
        child.wait(10)
        child.stdout.close()


def flock(path: Path):  # type: ignore[no-untyped-def]
    """Another process that holds an exclusive flock on a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _child(_FLOCK, path)


def standing_in(directory: Path):  # type: ignore[no-untyped-def]
    """Another process whose working directory is this one."""
    return _child(_STAND, directory)


def having_open(file: Path):  # type: ignore[no-untyped-def]
    """Another process that has a file open for writing."""
    return _child(_OPEN, file)
