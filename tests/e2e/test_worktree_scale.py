"""Many worktrees over many repositories: git runs for the repositories, not for the worktrees."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.program import PROGRAM
from tests.support.sandbox import Sandbox
from tests.support.worktrees import Field, removed, session_id

# What the looking costs: settings, worktrees, refs, and one walk over commits.
FOR_A_REPOSITORY = 4
# What no git command does for many worktrees at once: status, and the index.
FOR_A_CANDIDATE = 2


def crowd(box: Sandbox, repositories: int, worktrees: int, orphans: int) -> Field:
    """Repositories with worktrees dealt out to them; the first few have no session."""
    field = Field(box)
    for number in range(repositories):
        field.repo(f"repo{number}")
    for number in range(worktrees):
        repo = field.repos[number % repositories]
        path = field.worktree(number, repo=repo, folder=f"{number % repositories:04x}")
        if number >= orphans:
            field.session(number, path, repo=repo)
    return field


def counted(field: Field, *arguments: str) -> tuple[Counter[str], dict[str, object]]:
    """Run the program with a git on PATH that counts itself, by its first word."""
    log, directory = field.box.root / "log", field.box.root / "bin"
    directory.mkdir(exist_ok=True)
    (directory / "git").write_text(f'#!/bin/sh\necho "$1 $2" >>{log}\nexec {shutil.which("git")} "$@"\n')
    (directory / "git").chmod(0o755)
    log.write_text("")
    path = f"{directory}:{field.box.env['PATH']}"
    report = field.run("worktree", *arguments, "--json", env={"PATH": path}).json
    return Counter(log.read_text().split("\n")[:-1]), report


def test_looking_at_worktrees_in_use_costs_git_nothing(box: Sandbox) -> None:
    few = crowd(box, repositories=3, worktrees=3, orphans=0)
    counts, _ = counted(few, "prune", "--dry-run")
    for number in range(3, 15):
        repo = few.repos[number % 3]
        few.session(number, few.worktree(number, repo=repo), repo=repo)
    more, report = counted(few, "prune", "--dry-run")
    assert len(report["kept"]) == 15  # type: ignore[arg-type]
    assert more == counts
    assert counts.total() <= FOR_A_REPOSITORY * 3


@pytest.mark.parametrize(
    ("repositories", "worktrees", "orphans"),
    [(4, 24, 12), pytest.param(20, 500, 450, marks=pytest.mark.exhaustive)],
)
def test_many_worktrees(box: Sandbox, repositories: int, worktrees: int, orphans: int) -> None:
    field = crowd(box, repositories, worktrees, orphans)
    (field.storage / "0000" / session_id(0) / "draft").write_text("x")
    candidates, going = orphans, orphans - 1

    counts, expected = counted(field, "prune", "--dry-run")
    assert len(removed(expected)) == going
    assert counts.total() <= FOR_A_REPOSITORY * repositories + FOR_A_CANDIDATE * candidates

    counts, report = counted(field, "prune", "--yes")
    assert {**report, "dry_run": True} == expected
    # Looked at twice, and for each that goes: its refs, and its removal.
    assert counts["worktree remove"] == going
    assert counts.total() <= 2 * (FOR_A_REPOSITORY * repositories + FOR_A_CANDIDATE * candidates) + 2 * going

    for repo in field.repos:
        field.box.git("fsck", "--strict", at=repo)
    left = [path for repo in field.repos for path in field.registered(repo)]
    assert len(left) == worktrees - going
    assert all(Path(path).is_dir() for path in left)
    assert len([ref for repo in field.repos for ref in field.private_refs(repo)]) == worktrees - going
    branches = [ref for repo in field.repos for ref in field.refs(repo) if ref.startswith("refs/heads/work")]
    assert len(branches) == worktrees


def test_progress_is_shown_on_a_terminal_and_never_elsewhere(box: Sandbox) -> None:
    import pty

    field = crowd(box, repositories=1, worktrees=4, orphans=4)
    assert field.run("worktree", "prune", "--dry-run").err == b""
    master, slave = pty.openpty()
    ran = subprocess.run(
        [PROGRAM, "worktree", "prune", "--yes", "--json"],
        env={**field.box.environment(), "TERM": "xterm"},
        cwd=field.box.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=slave,
        check=True,
    )
    os.close(slave)
    said = b""
    try:
        while data := os.read(master, 65536):
            said += data
    except OSError:
        pass
    os.close(master)
    assert b"removing worktrees" in said
    assert ran.stdout.startswith(b"{")
