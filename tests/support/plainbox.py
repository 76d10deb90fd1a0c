"""A session that works in a directory it does not own, so that its files are kept in a store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import trees
from tests.support.sandbox import Sandbox

State = dict[bytes, trees.Entry]


class PlainBox(Sandbox):
    """A sandbox whose session works in a directory that it does not own."""

    plain: Path | None = None

    @property
    def worktree(self) -> Path:
        """The directory the session works in."""
        return self.plain or self.root / "plain"

    def here(self) -> Path:
        """Make the directory and the session."""
        self.worktree.mkdir(exist_ok=True)
        self.make_session(owned=False, root=self.worktree)
        return self.worktree

    def create(self, prompt: str = "x", *words: str, **options: Any) -> dict[str, Any]:
        """Begin a turn with a snapshot of the files."""
        words = words or ("--files",)
        ran = self.cli("checkpoint", "create", "--prompt", prompt, *words, "--json", **options)
        return dict(ran.json["checkpoint"])

    def snapshots(self) -> list[str]:
        """The ids of every snapshot in the directory's store."""
        names = os.listdir(self.worktree / ".cogitator" / "checkpoints" / "manifests")
        return sorted(name.removesuffix(".json") for name in names)

    def rewrite(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Forge the timeline: every record is given to ``change``."""
        records = self.records()
        for record in records:
            change(record)
        self.private(self.timeline, b"".join(json.dumps(each).encode() + b"\n" for each in records))


def three_turns(box: PlainBox) -> tuple[list[str], list[State]]:
    """Three turns that change files, modes, links, directories. Gives the ids and the states before each."""
    box.here()
    box.write("a.txt", "one\n")
    box.write("run", "#!/bin/sh\n", mode=0o750)
    (box.worktree / "empty").mkdir(mode=0o700)
    states, names = [], []
    for prompt, changes in (
        ("first", [("a.txt", "two\n"), (b"n\xff", "odd\n"), ("d/e/f", "deep\n")]),
        ("second", [("a.txt", "three\n"), ("secret", "s\n")]),
        ("third", [("a.txt", "four\n"), ("last", "l\n")]),
    ):
        states.append(box.state())
        names.append(box.turn(prompt, changes))  # type: ignore[arg-type]
        if prompt == "first":
            (box.worktree / "empty").rmdir()
            (box.worktree / "run").chmod(0o600)
        if prompt == "second":
            (box.worktree / "secret").chmod(0o400)
            (box.worktree / "link").symlink_to("nowhere")
            (box.worktree / "bare").mkdir(mode=0o711)
    states.append(box.state())
    return names, states
