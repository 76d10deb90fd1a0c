"""Which other processes are at work in a directory: the reason to say BUSY, or to keep a worktree.

A process counts when its working directory or a file it has open lies in the directory. Processes of
other users cannot be looked into; they are passed over (behaviour page, "Apply" and "worktree prune").
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from yolop_cli import paths


@dataclass(frozen=True)
class Writer:
    """A process that may write below a directory: why it counts, and the path that says so."""

    pid: int
    name: str
    why: str
    path: Path


def family() -> frozenset[int]:
    """This process and its ancestors: the caller's own shell and what it was started from."""
    import psutil

    own = psutil.Process()
    try:
        ancestors = [process.pid for process in own.parents()]
    except psutil.Error:
        ancestors = []
    return frozenset((own.pid, os.getppid(), *ancestors))


def writers(root: Path, *, aside: Collection[int] | None = None) -> tuple[Writer, ...]:
    """The processes at work below ``root``, each named once, by pid.

    ``aside`` are the processes that do not count; without it, this one and its ancestors.
    """
    return writers_below([root], aside=aside).get(root, ())


def writers_below(
    roots: Iterable[Path], *, aside: Collection[int] | None = None
) -> dict[Path, tuple[Writer, ...]]:
    """What ``writers`` answers for many directories, in one look at the processes; only those in use."""
    real = {root: paths.resolved(root) for root in roots}
    wanted = frozenset(real.values())
    found: dict[Path, dict[int, Writer]] = {}
    for writer in _uses(family() if aside is None else aside):
        for directory in wanted.intersection((writer.path, *writer.path.parents)):
            found.setdefault(directory, {}).setdefault(writer.pid, writer)
    return {
        root: tuple(found[directory][pid] for pid in sorted(found[directory]))
        for root, directory in real.items()
        if directory in found
    }


def _uses(aside: Collection[int]) -> Iterator[Writer]:
    import psutil

    for process in psutil.process_iter():
        if process.pid in aside:
            continue
        try:
            name = process.name()
            yield Writer(process.pid, name, "working directory", Path(process.cwd()))
        except (psutil.Error, OSError):
            continue
        try:
            opened = process.open_files()
        except (psutil.Error, OSError):
            continue
        for file in opened:
            yield Writer(process.pid, name, "open file", Path(file.path))
