"""What the store costs beside restic and borg, on one directory of 100,000 files, in one run.

    python benchmarks/store.py [DIRECTORY] [--files 100000] [--rounds 3]

In each round each tool gets a new repository and does the same steps. Every step is given in walks: how
often a bare ``scandir`` and ``stat`` of every file, measured just before and after it, fits into its time.
A bar that is missed is marked, and the exit status is 1. Needs ``restic`` and ``borg``; without one of them
that column and the bars that rest on it are left out, which is said.

A restore here finds out by itself which files differ. The other two are told the 100 names, or write all.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CHANGED = 100
FIRST, UNCHANGED, FEW, NAMED, ALL = "first", "unchanged", "100 changed", "restore 100 named", "restore all"
SETTLING = 2.5  # seconds after which no tool has to doubt the times of what it has read


@dataclass
class Tool:
    """A tool under test: how it makes its repository, snapshots, and restores what it has."""

    name: str
    repository: Path
    init: list[str]
    snapshot: Callable[[int], list[str]]
    restore: Callable[[list[str]], list[str]]
    takes_names: bool = True
    environment: dict[str, str] = field(default_factory=dict)
    walks: dict[str, list[float]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    touched: list[int] = field(default_factory=list)


def make_tree(root: Path, count: int) -> None:
    """Text files of 4 KB in the mean, lines of invented words, in directories up to six deep."""
    rng = random.Random(1)
    words = ["".join(rng.choices("etaoinshrdlucmfwyp", k=rng.randint(2, 11))) for _ in range(4000)]
    lines = [" ".join(rng.choices(words, k=rng.randint(3, 12))) + "\n" for _ in range(60_000)]
    pool = "".join(lines).encode()
    directories = [root / "src"]
    while len(directories) < max(1, count // 200):
        parent = rng.choice(directories)
        if len(parent.relative_to(root).parts) < 6:
            directories.append(parent / f"part{len(directories)}")
    for directory in directories:
        directory.mkdir(parents=True)
    for number in range(count):
        size = min(65_536, max(64, int(rng.lognormvariate(7.82, 1.0))))
        start = rng.randrange(len(pool) - 65_536)
        content = b"# file %d %016x\n" % (number, rng.getrandbits(64)) + pool[start : start + size]
        (directories[number % len(directories)] / f"f{number:06d}.txt").write_bytes(content)


def walk(root: Path) -> dict[str, tuple[int, int]]:
    """Every file with its inode and change time: the yardstick, and how touched files are found."""
    found, waiting = {}, [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != ".cogitator":
                        waiting.append(entry.path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    found[entry.path] = (status.st_ino, status.st_ctime_ns)
    return found


def walk_seconds(root: Path) -> float:
    started = time.perf_counter()
    walk(root)
    return time.perf_counter() - started


def run(tool: Tool, words: list[str], root: Path) -> None:
    done = subprocess.run(words, cwd=root, env={**os.environ, **tool.environment}, capture_output=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])}: {done.returncode}\n{done.stderr[-500:].decode()}")


def step(tool: Tool, what: str, words: list[str], root: Path) -> None:
    """Run a step and note how many walks it took. It does not pay for what was written before it."""
    os.sync()
    before = walk_seconds(root)
    started = time.perf_counter()
    run(tool, words, root)
    taken = time.perf_counter() - started
    tool.walks.setdefault(what, []).append(2 * taken / (before + walk_seconds(root)))


def change(paths: list[Path], mark: str) -> dict[Path, bytes]:
    for path in paths:
        with path.open("r+b") as file:
            file.write(f"# changed {mark} ".encode())
    return {path: path.read_bytes() for path in paths}


def measure(tool: Tool, root: Path, paths: list[Path]) -> None:
    names = [str(path.relative_to(root)) for path in paths]
    if tool.init:
        run(tool, tool.init, root)
    step(tool, FIRST, tool.snapshot(1), root)
    time.sleep(SETTLING)
    run(tool, tool.snapshot(2), root)  # what was too young to be trusted is read once more, by all three
    step(tool, UNCHANGED, tool.snapshot(3), root)
    wanted = change(paths, "once")
    step(tool, FEW, tool.snapshot(4), root)
    tool.sizes.append(size_of(tool.repository))
    for what, chosen in [(NAMED, names)] * tool.takes_names + [(ALL, [])]:
        change(paths, "again")
        before = walk(root)
        step(tool, what, tool.restore(chosen), root)
        after = walk(root)
        for path, content in wanted.items():
            if path.read_bytes() != content:
                raise SystemExit(f"{tool.name}: {what} did not bring back {path}")
        if what == ALL:
            changed = {str(path) for path in paths}
            tool.touched.append(
                sum(before[path] != after.get(path) for path in before if path not in changed)
            )


def size_of(directory: Path) -> int:
    """Bytes on disk."""
    return sum(path.lstat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())


def tools(root: Path, here: Path) -> list[Tool]:
    """The three tools, each with a new repository below ``here``. Ours keeps its own in the directory."""
    ours = shutil.which("yolop-cli", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    found = [
        Tool(
            "yolop-cli",
            root / ".cogitator",
            [],
            lambda number: [str(ours), "snapshot", "create", "--root", str(root), "--json"],
            lambda names: [str(ours), "snapshot", "restore", "latest", "--root", str(root), "--json"],
            takes_names=False,
        )
    ]
    if shutil.which("restic"):
        restic = ["restic", "-q", "-r", str(here / "restic")]
        found.append(
            Tool(
                "restic",
                here / "restic",
                [*restic, "init", "--repository-version", "2"],
                lambda number: [*restic, "backup", "src"],
                lambda names: [
                    *restic,
                    *("restore", "latest", "--target", str(root)),
                    *(word for name in names for word in ("--include", f"/{name}")),
                ],
                environment={"RESTIC_PASSWORD": "x", "RESTIC_CACHE_DIR": str(here / "cache")},
            )
        )
    if shutil.which("borg"):
        borg = str(here / "borg")
        found.append(
            Tool(
                "borg",
                here / "borg",
                ["borg", "init", "--encryption=none", borg],
                lambda number: ["borg", "create", f"{borg}::{number}", "src"],
                lambda names: ["borg", "extract", f"{borg}::4", *names],
                environment={
                    "BORG_BASE_DIR": str(here / "base"),
                    "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
                },
            )
        )
    return found


def report(results: dict[str, Tool]) -> bool:
    """Print the table and the bars; whether every bar that could be measured is met."""
    middle = {
        name: {what: statistics.median(walks) for what, walks in tool.walks.items()}
        for name, tool in results.items()
    }
    print(f"{'walks (median)':20}" + "".join(f"{name:>12}" for name in results))
    for what in (FIRST, UNCHANGED, FEW, NAMED, ALL):
        print(f"{what:20}" + "".join(f"{middle[name].get(what, float('nan')):12.1f}" for name in results))
    size = {name: statistics.median(tool.sizes) for name, tool in results.items()}
    print(f"{'size (MB)':20}" + "".join(f"{size[name] / 1e6:12.0f}" for name in results))
    print(f"{'others touched':20}" + "".join(f"{max(results[name].touched):12}" for name in results))
    ours = middle["yolop-cli"]
    bars = [
        ("an unchanged snapshot in at most 2.5 walks", ours[UNCHANGED], 2.5),
        ("restoring 100 changed files in at most 4 walks", ours[ALL], 4.0),
        ("nothing else touched", float(max(results["yolop-cli"].touched)), 0.0),
    ]
    if "restic" in results:
        bars.append(("the first within 1.5 times restic", ours[FIRST], 1.5 * middle["restic"][FIRST]))
    else:
        print("restic is not installed: the bar of the first snapshot is not measured")
    if len(results) > 1:
        smaller = min(each for name, each in size.items() if name != "yolop-cli")
        bars.append(("size within 1.3 times the smaller", size["yolop-cli"] / smaller, 1.3))
    for what, value, bar in bars:
        print(f"{'met   ' if value <= bar else 'MISSED'} {what}: {value:.2f}, bar {bar:.2f}")
    return all(value <= bar for _, value, bar in bars)


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("directory", nargs="?", help="where to work (default: a temporary directory)")
    arguments.add_argument("--files", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    results: dict[str, Tool] = {}
    with tempfile.TemporaryDirectory(dir=given.directory) as scratch:
        root = Path(scratch) / "plain"
        make_tree(root, given.files)
        paths = random.Random(9).sample(
            [Path(path) for path in sorted(walk(root))], min(CHANGED, given.files)
        )
        for number in range(given.rounds):
            for tool in tools(root, Path(scratch) / f"round{number}"):
                tool.repository.parent.mkdir(exist_ok=True)
                if number:
                    earlier = results[tool.name]
                    tool.walks, tool.sizes, tool.touched = earlier.walks, earlier.sizes, earlier.touched
                results[tool.name] = tool
                measure(tool, root, paths)
                # Not deleted: for minutes after many files went, ext4 makes new ones several times slower.
                tool.repository.rename(Path(scratch) / f"done-{number}-{tool.name}")
        return 0 if report(results) else 1


if __name__ == "__main__":
    sys.exit(main())
