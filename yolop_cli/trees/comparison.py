"""Two trees compared, as lists, numbers and patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from yolop_cli.ground.git import Git, Where
from yolop_cli.trees.tree import TreeChange

_PLAIN = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv")


@dataclass(frozen=True)
class Comparison:
    """Two trees and what leads from one to the other.

    ``in_git`` gives a place where git can read both, and their names there; asked only for numbers and
    patches, since for the trees of a store it must be made first.
    """

    old: str
    new: str
    changes: list[TreeChange]
    git: Git
    in_git: Callable[[], tuple[Where, str, str]]

    def numbers(self) -> dict[bytes, tuple[int | None, int | None]]:
        """Lines added and removed for each path; None for binary content."""
        where, old, new = self.in_git()
        out = self.git.run(where, "diff-tree", *_PLAIN, "--numstat", "-z", old, new)
        rows = (record.split(b"\t", 2) for record in out.records())
        return {path: (_number(added), _number(removed)) for added, removed, path in rows}

    def patch(self, *, color: bool) -> bytes:
        """The difference as a patch, as git words it."""
        where, old, new = self.in_git()
        colored = "--color=always" if color else "--color=never"
        return self.git.run(
            where, "diff-tree", *_PLAIN, "-p", "--full-index", "--binary", colored, old, new
        ).out


def _number(text: bytes) -> int | None:
    return None if text == b"-" else int(text)
