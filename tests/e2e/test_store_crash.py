"""Rewinds and checkpoints through the store, killed or out of space at any moment.

The files are then the old ones, the new ones, or a mixture that the next command gets back to the byte, and
nothing that was kept is lost.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.test_crash import at_moment, spread
from tests.e2e.test_store_rewind import _scene
from tests.support.plainbox import PlainBox, State
from tests.support.program import Ran

COUNTS = {"kill": "count", "fail": "count", "full": "writes"}
VERBS = ("apply", "undo", "redo", "create")
CHUNKS = 4


class Sweep:
    """One command, from the same files and the same session each time."""

    def __init__(self, tmp_path: Path, verb: str) -> None:
        self.box, self.verb, self.copy = PlainBox(tmp_path / "box"), verb, tmp_path / "copy"
        self.name, old, new = _scene(self.box)
        if verb == "redo":
            self.box.undo()
            old, new = new, old
        self.before: State = new
        self.after: State = old if verb != "create" else new
        self.box.cli("snapshot", "gc", "--root", self.box.worktree, "--grace", "0", "--json")
        shutil.copytree(self.box.root, self.copy, symlinks=True)
        self.kept = set(self.box.snapshots())
        self.moves = self._moves()
        self.token = ""

    @property
    def store(self) -> Path:
        return self.box.worktree / ".cogitator/checkpoints"

    def _moves(self) -> int:
        return sum(record["type"] == "head_moved" for record in self.box.records())

    def run(self, action: str, number: int) -> tuple[Ran, list[str]]:
        """From the beginning: the command, with something happening at a moment."""
        shutil.rmtree(self.box.root)
        shutil.copytree(self.copy, self.box.root, symlinks=True)
        if self.verb == "apply":
            self.token = str(self.box.plan(self.name, None)["token"])
        words = {
            "apply": ("rewind", "apply", self.token),
            "create": ("checkpoint", "create", "--prompt", "x", "--files", "--json"),
        }.get(self.verb, (self.verb, "--yes"))
        ran = at_moment(self.box, action, number, *words)
        self.box.settle()
        return ran

    def moments(self, action: str) -> int:
        ran, moments = self.run(COUNTS[action], 0)
        assert ran.code == 0, ran.dump()
        assert self.box.state() == self.after
        return len(moments)

    def at(self, action: str, number: int) -> None:
        """Let it happen, then find everything as promised."""
        ran, _ = self.run(action, number)
        allowed = (0, -signal.SIGKILL) if action == "kill" else (0, 9)
        assert ran.code in allowed, ran.dump()
        if self.verb == "create":
            self.check_created(ran)
        else:
            self.check_moved(ran, action, number)
        assert self.kept - set(self.box.snapshots()) <= self.used_up(), "a snapshot is lost"
        found = self.box.cli("checkpoint", "verify", "--json").json
        assert {row["status"] for row in found["checkpoints"]} <= {"ok", "none"}, found
        self.box.cli("doctor", "--fix", "--json", code=(0, 1))
        assert not os.listdir(self.store / "tmp")
        assert self.box.cli("snapshot", "verify", "--root", self.box.worktree, "--json").json["ok"]

    def used_up(self) -> set[str]:
        """What may be gone: the safety snapshot of a redo that was made."""
        redone = [each.get("redo_file_snapshot") for each in self.box.records()]
        return {each["id"] for each in redone if each} if self.verb == "redo" else set()

    def check_created(self, ran: Ran) -> None:
        assert self.box.state() == self.before
        if ran.code == 0:
            made = ran.json["checkpoint"]["workspace"]
            assert made["available"] or "no space" in made["reason"].lower(), made
        again = self.box.create()
        assert again["workspace"]["available"] is True

    def check_moved(self, ran: Ran, action: str, number: int) -> None:
        box, moved = self.box, self._moves() > self.moves
        half = (box.session / "restore.json").exists() and not moved
        phase = json.loads((box.session / "restore.json").read_bytes())["phase"] if half else None
        if action != "kill":
            assert moved or box.state() == self.before or phase == "applying", ran.dump()
        if phase == "applying":
            refused = box.cli("checkpoint", "create", "--prompt", "x", "--json", code=4)
            assert "rewind cancel" in refused.error["hint"]
            if number % 2:
                token = json.loads((box.session / "restore.json").read_bytes())["token"]
                box.apply(token)
                moved = True
            else:
                box.cli("rewind", "cancel", "--json")
        assert box.state() == (self.after if moved else self.before), (number, ran.dump())
        assert not (self.store / "restoring.json").exists()
        if moved:
            box.cli("undo" if self.verb == "redo" else "redo", "--yes", "--json")
            assert box.state() == self.before
        else:
            box.cli("redo" if self.verb == "redo" else "undo", "--yes", "--json")
            assert box.state() == self.after


def sweep(tmp_path: Path, verb: str, action: str, chosen: slice | int) -> None:
    one = Sweep(tmp_path, verb)
    count = one.moments(action)
    numbers = range(1, count + 1)[chosen] if isinstance(chosen, slice) else spread(count, chosen)
    for number in numbers:
        one.at(action, number)


@pytest.mark.parametrize("verb", VERBS)
def test_killed(tmp_path: Path, verb: str) -> None:
    sweep(tmp_path, verb, "kill", 3)


@pytest.mark.parametrize("verb", VERBS)
def test_out_of_space(tmp_path: Path, verb: str) -> None:
    sweep(tmp_path, verb, "full", 2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("action", COUNTS)
@pytest.mark.parametrize("verb", VERBS)
def test_anywhere(tmp_path: Path, verb: str, action: str, chunk: int) -> None:
    sweep(tmp_path, verb, action, slice(chunk, None, CHUNKS))
