"""Runs the program and ends it, or makes one system call fail, at an exact moment.

The interpreter announces each change it makes to the file system, and each fork, as an audit event; counting
those gives every moment a number. ``run`` starts the program with such a counter:

- ``count``: let it run and write how many moments there were;
- ``kill N``: SIGKILL just before moment N, as a power cut or the kernel's killer would;
- ``interrupt N``: SIGINT just before moment N, as Ctrl-C does;
- ``stop N``: SIGSTOP just before moment N, so that a test can change something and let it go on;
- ``fail N``: moment N raises "no space left on device" (a fork: "resource temporarily unavailable");
- ``writes``: as ``count``, but what is counted are the calls of write and fsync;
- ``full N``: the Nth of these writes half of it and raises "no space left on device".

Instead of a number, the moment may be a regular expression: the first one it is found in. Numbers can differ
a little from run to run on a busy machine.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys

CHANGES = frozenset(
    {
        "os.rename",
        "os.remove",
        "os.mkdir",
        "os.rmdir",
        "os.symlink",
        "os.link",
        "os.chmod",
        "os.truncate",
        "os.utime",
        "os.fork",
        "os.posix_spawn",
        "_posixsubprocess.fork_exec",
    }
)
SIGNALS = {"kill": signal.SIGKILL, "interrupt": signal.SIGINT, "stop": signal.SIGSTOP}
_WRITING = os.O_WRONLY | os.O_RDWR
_NAMELESS = getattr(os, "O_TMPFILE", -1)


def arm(action: str, moment: str, report: str) -> None:
    """Count moments from now on and act at one of them; ``report`` is a file for the count."""
    owner = os.getpid()
    log = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    seen, found = 0, False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen, found
        if not (event in CHANGES or (event == "open" and _writes(arguments))) or os.getpid() != owner:
            return
        seen += 1
        text = f"{event} {arguments[:2]!r}"
        os.write(log, f"{seen} {text}\n".encode("utf-8", "backslashreplace"))
        if found or not (seen == int(moment) if moment.isdigit() else re.search(moment, text)):
            return
        found = True
        if action in SIGNALS:
            os.kill(owner, SIGNALS[action])
        if action == "fail":
            number_of = errno.EAGAIN if "fork" in event or "spawn" in event else errno.ENOSPC
            raise OSError(number_of, os.strerror(number_of))

    sys.addaudithook(hook)


def fill(action: str, number: int, report: str) -> None:
    """Count the calls of write and fsync, and let the disk be full at one of them."""
    log = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write, sync = os.write, os.fsync
    seen = 0

    def step(name: str) -> bool:
        nonlocal seen
        seen += 1
        write(log, f"{seen} {name}\n".encode())
        return action == "full" and seen == number

    def written(fd: int, data: bytes) -> int:
        if fd <= 2 or not step("write"):
            return write(fd, data)
        write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def synced(fd: int) -> None:
        if step("fsync"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(fd)

    os.write, os.fsync = written, synced


def _writes(arguments: tuple[object, ...]) -> bool:
    path, flags = arguments[0], arguments[2]
    if not isinstance(flags, int) or not flags & _WRITING or isinstance(path, int):
        return False
    if flags & _NAMELESS == _NAMELESS:
        return False
    return not os.fsdecode(path).startswith(("/dev/", "/proc/")) and "__pycache__" not in os.fsdecode(path)  # type: ignore[arg-type]


def main() -> None:
    """``moments ACTION MOMENT REPORT ARGUMENT...``: the program with a counter on it."""
    action, moment, report, *arguments = sys.argv[1:]
    sys.argv[1:] = arguments
    from yolop_cli.__main__ import main as program

    if action in ("writes", "full"):
        fill(action, int(moment), report)
    else:
        arm(action, moment, report)
    program()


if __name__ == "__main__":
    main()
