"""Faults at the calls through which the store changes the disk: counted, killed at, or made to fail."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from yolop_cli.store import disk

CALLS = (
    "create", "write", "truncate", "sync", "sync_all", "rename", "link", "unlink", "make_directory",
    "remove_directory", "make_link", "set_mode", "set_owner", "set_time",
)  # fmt: skip
KILLED = 9


class Faults:
    """Wraps the calls; ``at`` is the number of the call at which ``fault`` happens instead of it."""

    def __init__(self, at: int = 0, fault: Callable[[str, tuple[Any, ...]], None] | None = None):
        self.at, self.fault, self.count = at, fault, 0
        self.real = {name: getattr(disk, name) for name in CALLS}

    def __enter__(self) -> Faults:
        for name in CALLS:
            setattr(disk, name, self._wrapped(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, function in self.real.items():
            setattr(disk, name, function)

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **rest: Any) -> Any:
            self.count += 1
            if self.count == self.at and self.fault is not None:
                self.fault(name, arguments)
            return self.real[name](*arguments, **rest)

        return call


def count(step: Callable[[], object]) -> int:
    """How many calls a step makes. The step is really taken."""
    with Faults() as faults:
        step()
    return faults.count


def killed_at(number: int, step: Callable[[], object]) -> None:
    """Take a step in a child that dies, as by SIGKILL, in front of its call of that number.

    A write that it dies at has written the first half.
    """
    child = os.fork()
    if child == 0:
        try:
            with Faults(number, _die):
                step()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, KILLED), f"the step failed by itself: {status}"
    sys.stdout.flush()


def _die(name: str, arguments: tuple[Any, ...]) -> None:
    if name == "write":
        fd, data = arguments
        os.write(fd, data[: len(data) // 2])
    os._exit(KILLED)


def spread(total: int, samples: int) -> list[int]:
    """Some of the numbers 1..total, evenly, the first and last few among them."""
    if total <= samples:
        return list(range(1, total + 1))
    step = (total - 1) / (samples - 1)
    return sorted({1 + round(step * index) for index in range(samples)} | {2, total - 1, total})
