"""Starts git as sh does, but without a fork of the whole test process, which is large and slow to fork.

It is the same git with the same arguments, environment and descriptors; only ``vfork`` is used where
sh forks. What cannot be started this way is left to sh, so that its errors are those that a user sees.
Runs in a process of their own, and in a fork of this one, start git through sh itself.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sh

_UNDERSTOOD = frozenset(
    {"_encoding", "_in", "_out", "_err", "_cwd", "_env"}
    | {"_tty_out", "_return_cmd", "_bg", "_bg_exc", "_pass_fds"}
)
_through_sh = sh.Command.__call__


class Started:
    """A process, with what the program asks of one that sh started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.kill = process.kill

    def wait(self) -> None:
        """Wait for its end."""
        self._process.wait()

    @property
    def exit_code(self) -> int:
        """Its status, negative for a signal."""
        return int(self._process.returncode)


def _call(command: Any, *arguments: str, **options: Any) -> Any:
    if not options.keys() <= _UNDERSTOOD:
        return _through_sh(command, *arguments, **options)
    try:
        process = subprocess.Popen(
            [command._path, *(word.encode(options["_encoding"]) for word in arguments)],
            stdin=options["_in"],
            stdout=options["_out"],
            stderr=options["_err"],
            cwd=options["_cwd"],
            env=options["_env"],
            # sh closes what is not named; exec closes what is not inheritable, named or not.
            pass_fds=[number for number in options["_pass_fds"] if os.get_inheritable(number)],
        )
    except OSError:
        return _through_sh(command, *arguments, **options)
    return Started(process)


@contextmanager
def light() -> Iterator[None]:
    """As long as this is open, what is started through sh starts light."""
    before = sh.Command.__call__
    sh.Command.__call__ = _call
    try:
        yield
    finally:
        sh.Command.__call__ = before


@contextmanager
def through_sh() -> Iterator[None]:
    """As long as this is open, sh does it, as for a user."""
    before = sh.Command.__call__
    sh.Command.__call__ = _through_sh
    try:
        yield
    finally:
        sh.Command.__call__ = before
