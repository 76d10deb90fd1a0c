"""The guard of conftest.py: a test that could touch the user's own home must fail."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import guard
from tests.support.sandbox import HOMES, OutsideTheSandboxError, Sandbox


def test_home_of_a_test_leads_nowhere(behind_the_wall: Path) -> None:
    assert Path.home().is_relative_to(behind_the_wall)
    assert Path(os.environ["YOLOP_DATA_DIR"]).is_relative_to(behind_the_wall)
    with pytest.raises(OSError):
        (Path.home() / ".yolop").mkdir(parents=True)


def test_plain_git_in_a_test_cannot_write_the_users_configuration() -> None:
    tried = subprocess.run(["git", "config", "--global", "user.name", "x"], capture_output=True, check=False)
    assert tried.returncode != 0
    assert subprocess.run(["git", "--version"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", HOMES)
def test_sandbox_refuses_a_home_of_another(box: Sandbox, name: str) -> None:
    for foreign in (str(guard.real_home()), "/", str(box.root / "home" / ".." / ".." / "..")):
        with pytest.raises(OutsideTheSandboxError):
            box.cli("session", "list", session=False, env={name: foreign})


def test_sandbox_refuses_to_run_without_a_home(box: Sandbox) -> None:
    with pytest.raises(OutsideTheSandboxError):
        box.cli("session", "list", session=False, env={"HOME": None})


def test_guard_sees_a_touched_home(tmp_path: Path) -> None:
    for place in guard.places(tmp_path):
        before = guard.watched(tmp_path)
        guard.compare(before, guard.watched(tmp_path))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir(exist_ok=True)
        os.utime(place, (1, 1))
        with pytest.raises(guard.RealHomeTouchedError):
            guard.compare(before, guard.watched(tmp_path))


def test_guard_is_in_force_without_being_asked_for(request: pytest.FixtureRequest) -> None:
    assert "no_real_home" in request.fixturenames
