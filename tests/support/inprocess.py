"""The program inside the test's own process: the same ``main()``, without an interpreter to be started first.

A run gets what a process would get (arguments, environment, directory, the three streams as descriptors) and
afterwards everything is as it was: nothing that one run leaves in memory can help or hinder the next. What is
put back or emptied is listed in ``_isolated``; a descriptor that a run leaves open fails the test.

``forked`` does the same in a child of this process: for runs that are killed, or hooked into for good.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tests.support import launching
from yolop_cli.__main__ import main

# The encoding and the error handlers that Python gives the three streams in the locale of the tests.
LOCALE, ENCODING, HANDLERS = "C.UTF-8", "utf-8", ("surrogateescape", "surrogateescape", "backslashreplace")
_ROOMY = 60_000  # what a pipe takes at once
_PUT_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class TookTooLongError(BaseException):
    """A run did not end in time."""


class LeftOpenError(AssertionError):
    """A run did not close what it opened: in a process of its own nobody would notice."""


def suits(env: Mapping[str, str]) -> bool:
    """Whether a run can do without a process: nothing in its environment concerns the interpreter."""
    return env.get("LC_ALL") == LOCALE and not any(
        name.startswith(("PYTHON", "LD_PRELOAD", "_YOLOP_CLI")) for name in env
    )


def run(
    arguments: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None,
    timeout: float,
) -> tuple[int, bytes, bytes]:
    """Exit status, standard output and standard error of a run in this process."""
    before = _descriptors()
    with _files(stdin) as (given, out, err):
        with _isolated(env, cwd), _streams(given, out, err), _limit(timeout):
            sys.argv = ["yolop-cli", *(os.fsdecode(word) for word in arguments)]
            status = _status(main)
        said = status, _content(out), _content(err)
    left = _names(_descriptors() - before)
    if left:
        raise LeftOpenError(f"{[os.fsdecode(word) for word in arguments]} left open: {left}")
    return said


def forked(
    entry: Callable[[], None],
    arguments: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: Path,
    stdin: bytes | None,
    timeout: float,
) -> tuple[int, bytes, bytes]:
    """The same for ``entry`` in a forked child, whose status is negative for a signal."""
    with _files(stdin) as (given, out, err):
        child = os.fork()
        if child == 0:
            become(entry, arguments, env, cwd, (given, out, err))
        try:
            with _limit(timeout):
                _, status = os.waitpid(child, 0)
        except TookTooLongError:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        return os.waitstatus_to_exitcode(status), _content(out), _content(err)


def become(
    entry: Callable[[], None],
    arguments: Sequence[str | bytes],
    env: Mapping[str, str],
    cwd: Path,
    streams: tuple[int, int, int],
) -> NoReturn:
    """In a forked child: run on these descriptors, and end without a word of the test run's own."""
    status = 1
    try:
        with _isolated(env, cwd), _streams(*streams), launching.through_sh():
            sys.argv = ["yolop-cli", *(os.fsdecode(word) for word in arguments)]
            status = _status(entry)
    finally:
        os._exit(status)


def _status(entry: Callable[[], None]) -> int:
    """The interpreter's status: ``sys.exit``'s argument, 1 for an exception, 120 for a lost flush."""
    status = 0
    try:
        entry()
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            sys.stderr.write(f"{ended.code}\n")
        status = 0 if ended.code is None else ended.code & 0xFF if isinstance(ended.code, int) else 1
    except TookTooLongError:
        raise
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        sys.stdout.flush()
    except OSError:
        traceback.print_exc()
        return 120
    sys.stderr.flush()
    return status


@contextmanager
def _isolated(env: Mapping[str, str], cwd: Path) -> Iterator[None]:
    """A process's own state, given for the time of a run: put back, or emptied as at a start."""
    with ExitStack() as stack:
        back = stack.callback
        environment, here = dict(os.environ), os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        back(os.close, here)
        back(os.fchdir, here)
        back(time.tzset)
        back(_set_environment, environment)
        back(setattr, sys, "argv", sys.argv)
        back(setattr, tempfile, "tempdir", tempfile.tempdir)
        back(sys.setrecursionlimit, sys.getrecursionlimit())
        mask = os.umask(0)
        os.umask(mask)
        back(os.umask, mask)
        for number in _PUT_BACK:
            if (handler := signal.getsignal(number)) is not None:
                back(signal.signal, number, handler)
        stack.enter_context(warnings.catch_warnings())
        back(_forget, _containers())
        _set_environment(env)
        time.tzset()
        os.chdir(cwd)
        tempfile.tempdir = None
        yield


def _set_environment(env: Mapping[str, str]) -> None:
    for name in os.environ.keys() - env.keys():
        del os.environ[name]
    for name, value in env.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _memory() -> tuple[list[Any], list[Any]]:
    """What the program's modules can remember something in: lists, sets, dictionaries; cached functions."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("yolop_cli")]
    if len(modules) != _known[0]:
        values = {
            id(value): value
            for module in modules
            for key, value in vars(module).items()
            if key not in ("__builtins__", "__path__", "__all__")
        }.values()
        _known[:] = (
            len(modules),
            [value for value in values if type(value) in (dict, list, set)],
            [value for value in values if hasattr(value, "cache_clear")],
        )
    return _known[1], _known[2]


_known: list[Any] = [0, [], []]


def _containers() -> list[tuple[Any, Any]]:
    """Every container with its content now."""
    return [(value, value.copy()) for value in _memory()[0]]


def _forget(containers: list[tuple[Any, Any]]) -> None:
    """What a run remembered in memory: a new process would not know it."""
    for value, saved in containers:
        if value != saved:
            value.clear()
            value.extend(saved) if isinstance(value, list) else value.update(saved)
    for function in _memory()[1]:
        function.cache_clear()
    psutil = sys.modules.get("psutil")
    if psutil is not None and hasattr(psutil.process_iter, "cache_clear"):
        psutil.process_iter.cache_clear()


@contextmanager
def _streams(given: int, out: int, err: int) -> Iterator[None]:
    """Descriptors 0, 1 and 2, and Python's streams on them as the interpreter makes them."""
    streams, saved = (sys.stdin, sys.stdout, sys.stderr), [os.dup(number) for number in range(3)]
    for stream in streams[1:]:
        stream.flush()
    try:
        for number, descriptor in enumerate((given, out, err)):
            os.dup2(descriptor, number)
        sys.stdin = _text(0, "r", HANDLERS[0])
        sys.stdout = _text(1, "w", HANDLERS[1])
        sys.stderr = _text(2, "w", HANDLERS[2], line_buffering=True)
        yield
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(saved):
            os.dup2(descriptor, number, inheritable=True)
            os.close(descriptor)


def _text(descriptor: int, mode: str, errors: str, line_buffering: bool = False) -> Any:
    stream = open(descriptor, mode, encoding=ENCODING, errors=errors, newline="\n", closefd=False)  # noqa: SIM115
    if line_buffering:
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return stream


@contextmanager
def _files(stdin: bytes | None) -> Iterator[tuple[int, int, int]]:
    """What the three streams are: the null device or a pipe to read from, and two files to write to."""
    with ExitStack() as stack:
        files = []
        for make in (lambda: _given(stdin), _file, _file):
            files.append(make())
            stack.callback(os.close, files[-1])
        yield files[0], files[1], files[2]


def _file() -> int:
    """A file without a name, in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stream")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _given(stdin: bytes | None) -> int:
    if stdin is None:
        return os.open(os.devnull, os.O_RDONLY)
    if len(stdin) <= _ROOMY:
        reader, writer = os.pipe()
        os.write(writer, stdin)
        os.close(writer)
        return reader
    descriptor = _file()
    os.pwrite(descriptor, stdin, 0)
    return descriptor


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """An end to a run that hangs. Raises ``TookTooLongError``."""

    def expired(_number: int, _frame: object) -> NoReturn:
        raise TookTooLongError(f"the program did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _descriptors() -> set[int]:
    try:
        return {int(name) for name in os.listdir("/proc/self/fd")}
    except OSError:
        return set()


def _names(descriptors: set[int]) -> list[str]:
    found = []
    for number in sorted(descriptors):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the one that listed them
            pass
    return found
