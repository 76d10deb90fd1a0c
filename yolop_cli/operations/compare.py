"""Compare snapshots with each other or with the files as they are now, kept in git or in a store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yolop_cli.ground.errors import RefusedError
from yolop_cli.homes import stored_files
from yolop_cli.homes.stored_files import comparison as snapshots
from yolop_cli.operations.inspect import Inspection
from yolop_cli.trees import tree
from yolop_cli.trees.capture import capture
from yolop_cli.trees.comparison import Comparison
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.tree import TreeChange

__all__ = ["Comparison", "TreeChange", "checkpoints", "snapshots"]


@contextmanager
def checkpoints(inspection: Inspection, checkpoint_id: str, other: str | None) -> Iterator[Comparison]:
    """A checkpoint compared with another one, or with the files as they are now (captured aside)."""
    one, two = inspection.stored(checkpoint_id), inspection.stored(other) if other is not None else None
    if one is not None and (two is not None or other is None):
        with stored_files.compared(inspection.git, one, two) as comparison:
            yield comparison
        return
    if one is not None or two is not None:
        raise RefusedError(f"{checkpoint_id} and {other} are kept in different places: git and a store")
    _, snapshot = inspection.tree_of(checkpoint_id)
    git, where = inspection.git, inspection.where
    if other is not None:
        _, second = inspection.tree_of(other)
        changes = tree.differences(git, where, snapshot.tree, second.tree)
        ends = (where, snapshot.tree, second.tree)
        yield Comparison(snapshot.tree, second.tree, changes, git, lambda: ends)
        return
    with tempfile.TemporaryDirectory(prefix="yolop-") as directory:
        aside = PrivateGit(
            Path(directory) / inspection.session.id / "capture.git", inspection.checkout, aside=True
        )
        aside.borrow(inspection.session.capture)
        now = capture(git, aside).tree
        changes = tree.differences(git, aside.reading, snapshot.tree, now)
        places = (aside.reading, snapshot.tree, now)
        yield Comparison(snapshot.tree, now, changes, git, lambda: places)
