from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.store.support import Place, Settle
from yolop_cli.store import last_state


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "plain")


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Settle:
    """Let the time pass after which a file's times are trusted: a twentieth of a second instead of two."""
    monkeypatch.setattr(last_state, "SETTLED", 50_000_000)
    return lambda: time.sleep(0.1)
