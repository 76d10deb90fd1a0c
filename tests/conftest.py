"""Fixtures for all tests, and the guard that keeps every one of them away from the user's own files."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import guard, launching
from tests.support.sandbox import Sandbox

# A test run that was started in the background ignores Ctrl-C, and would hand that on to what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """How many workers ``-n auto`` starts: one more than there are processors.

    A test waits for the disk a good part of its time, since what the program writes it also syncs.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) + 1
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def behind_the_wall(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the homes that lead nowhere are."""
    return tmp_path_factory.mktemp("guard")


@pytest.fixture(autouse=True)
def no_real_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, behind_the_wall: Path) -> Iterator[None]:
    """Home and data directories lead nowhere inside the test process; the real ones are watched."""
    before = guard.watched()
    for name, value in guard.trap(behind_the_wall, tmp_path).items():
        monkeypatch.setenv(name, value)
    for name in [
        name for name in os.environ if name.startswith(("GIT_", "YOLOP_")) and name not in guard.KEPT
    ]:
        monkeypatch.delenv(name)
    yield
    guard.compare(before, guard.watched())


@pytest.fixture(scope="session", autouse=True)
def light_git() -> Iterator[None]:
    """Git starts without a fork of the test process."""
    with launching.light():
        yield


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    """An empty sandbox: temporary homes, no repository and no session yet."""
    root = tmp_path / "box"
    root.mkdir()
    return Sandbox(root)


@pytest.fixture
def ready(box: Sandbox) -> Sandbox:
    """A sandbox with a repository and a session that owns a linked worktree of it."""
    box.ready()
    return box
