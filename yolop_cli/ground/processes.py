"""Which other processes are at work in a directory: the reason to say BUSY, or to keep a worktree.

A process counts when its working directory or a file it has open lies in the directory. Processes of
other users cannot be looked into; they are passed over (behaviour page, "Apply" and "worktree prune").
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import paths


@dataclass(frozen=True)
class Writer:
    """A process that may write below a directory: why it counts, and the path that says so."""

    pid: int
    name: str
    why: str
    path: Path

    def to_json(self) -> dict[str, object]:
        """The process as JSON."""
        return {"pid": self.pid, "name": self.name, "why": self.why, "path": paths.to_json(self.path)}


def family() -> frozenset[int]:
    """This process, its ancestors (the caller's own shell) and the other ends of its pipeline."""
    import psutil

    own = psutil.Process()
    try:
        ancestors = [process.pid for process in own.parents()]
    except psutil.Error:
        ancestors = []
    return frozenset((own.pid, os.getppid(), *ancestors, *_pipeline()))


def own_output() -> frozenset[tuple[int, int]]:
    """The files that this process's output and errors go to, as (device, inode)."""
    found = set()
    for descriptor in (1, 2):
        try:
            info = os.fstat(descriptor)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            found.add((info.st_dev, info.st_ino))
    return frozenset(found)


def _pipeline() -> set[int]:
    """The processes that read what this one prints, directly or through another, or feed it its input."""
    try:
        streams = {int(name): _streams(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    except OSError:
        return set()
    own = streams.get(os.getpid(), ("", "", ""))
    found = {pid for pid, (_, out, _) in streams.items() if out and out == own[0]}
    outputs = {each for each in own[1:] if each}
    while outputs:
        readers = {pid for pid, (given, _, _) in streams.items() if given in outputs} - found
        found |= readers
        outputs = {each for pid in readers for each in streams[pid][1:] if each}
    return found


def _streams(pid: int) -> tuple[str, str, str]:
    """The pipes at a process's standard input, output and error; empty where there is none."""
    first, second, third = (_pipe(f"/proc/{pid}/fd/{number}") for number in range(3))
    return first, second, third


def _pipe(path: str) -> str:
    try:
        target = os.readlink(path)
    except OSError:
        return ""
    return target if target.startswith("pipe:") else ""


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
