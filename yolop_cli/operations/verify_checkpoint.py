"""``checkpoint verify``: whether the ref, the tree and every blob of a checkpoint are there and sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from yolop_cli.ground.errors import YolopError
from yolop_cli.operations.inspect import Inspection
from yolop_cli.timeline.view import WorkspaceView
from yolop_cli.trees.check_tree import Problem, check_tree

Status = Literal["ok", "damaged", "none"]


@dataclass(frozen=True)
class Verdict:
    """What was found of one checkpoint: ``none`` when it has no snapshot; ``blobs`` were read."""

    id: str
    status: Status
    blobs: int
    problems: tuple[Problem, ...]


def verify(inspection: Inspection, checkpoint_id: str) -> Verdict:
    """Check the snapshot of a checkpoint, kept in git or in a store. Raises ``NotFoundError``."""
    snapshot, stored = inspection.checkpoint(checkpoint_id).snapshot, inspection.stored(checkpoint_id)
    view = inspection.view(checkpoint_id).workspace
    if stored is not None:
        blobs, found = stored.check() if view.available else (0, [_unavailable("snapshot-missing", view)])
        return _verdict(checkpoint_id, blobs, found)
    if snapshot is None:
        return Verdict(checkpoint_id, "none", 0, ())
    problems = [] if view.available else [_unavailable("ref-missing", view)]
    try:
        checkout = inspection.checkout
        blobs, found = check_tree(inspection.git, inspection.where, snapshot.tree, checkout.object_format)
    except YolopError as error:
        blobs, found = 0, [Problem("repository", error.message)]
    return _verdict(checkpoint_id, blobs, [*problems, *found])


def _unavailable(code: str, view: WorkspaceView) -> Problem:
    return Problem(code, view.reason or "")


def _verdict(checkpoint_id: str, blobs: int, problems: list[Problem]) -> Verdict:
    return Verdict(checkpoint_id, "damaged" if problems else "ok", blobs, tuple(problems))
