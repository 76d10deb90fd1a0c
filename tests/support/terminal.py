"""A program in a pseudo-terminal: keys in, what it shows out."""

from __future__ import annotations

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import termios
import time
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.support import inprocess
from tests.support.program import PROGRAM
from yolop_cli.__main__ import main

ESCAPE = re.compile(r"\x1b(?:\[[0-9;?<>=]*[a-zA-Z]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-B]|[=>78])")


class Terminal:
    """A child whose terminal is ours, 80 columns wide unless told otherwise; ended when it is left.

    The program itself runs in a fork of the test's process; shells and whatever else they start are real.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, *, columns: int = 80, rows: int = 200
    ) -> None:
        self.pid, self.fd = os.forkpty()
        if self.pid == 0:  # the child: nothing but the program may run from here on
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                if command[0] == PROGRAM and inprocess.suits(env):
                    inprocess.become(main, command[1:], env, cwd, (0, 1, 2))
                os.chdir(cwd)
                os.execvpe(command[0], list(command), dict(env))
            finally:
                os._exit(127)
        self.raw = ""
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    @property
    def text(self) -> str:
        """What was shown since the last ``forget``, without escape codes."""
        return ESCAPE.sub("", self.raw).replace("\r", "")

    def send(self, keys: str) -> None:
        """Type something."""
        os.write(self.fd, keys.encode())

    def forget(self) -> None:
        """Leave out what was shown until now."""
        self.raw = ""

    def wait_for(self, words: str, seconds: float = 60) -> None:
        """Read until the words were shown. Raises ``AssertionError`` when they are not."""
        end = time.monotonic() + seconds
        while words not in self.text:
            if not self._read(end):
                raise AssertionError(f"{words!r} was not shown, but:\n{self.text}\n{self.raw!r}")

    def read_all(self, seconds: float = 60) -> str:
        """Read until the program ends."""
        end = time.monotonic() + seconds
        while self._read(end):
            pass
        return self.text

    def _read(self, end: float) -> bool:
        ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # how Linux says that the other side is closed
            return False
        self.raw += self.decode(data)
        return bool(data)


def width(line: str) -> int:
    """How many columns a line without escape codes takes."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in line
    )
