"""What ``checkpoint verify`` finds, shown."""

from __future__ import annotations

from typing import Any

from yolop_cli import paths
from yolop_cli.cli import text
from yolop_cli.cli.screen import Screen
from yolop_cli.errors import YolopError
from yolop_cli.inspecting import Inspection
from yolop_cli.snapshots.check import Problem, check_tree
from yolop_cli.timeline.view import WorkspaceView


def report(screen: Screen, inspection: Inspection, wanted: list[str]) -> int:
    """Check and show; 1 when something is wrong."""
    chosen = wanted or list(inspection.timeline.state.nodes)
    for each in chosen:
        inspection.checkpoint(each)
    rows = []
    with screen.progress("checking", len(chosen)) as step:
        for each in chosen:
            rows.append(_check(inspection, each))
            step()
    ok = all(row["status"] != "damaged" for row in rows)

    def render() -> None:
        if not rows:
            screen.note("no checkpoints")
        for row in rows:
            screen.line(f"{row['status']}\t{row['id']}\t{text.count(row['blobs'], 'file')}")
            for problem in row["problems"]:
                screen.folded(f"    {problem['code']}: {text.clean(problem['message'])}", 6)

    screen.result({"session_id": inspection.session.id, "checkpoints": rows, "ok": ok}, render)
    return 0 if ok else 1


def _check(inspection: Inspection, checkpoint_id: str) -> dict[str, Any]:
    snapshot, stored = inspection.checkpoint(checkpoint_id).snapshot, inspection.stored(checkpoint_id)
    view = inspection.view(checkpoint_id).workspace
    if stored is not None:
        blobs, found = stored.check() if view.available else (0, [_unavailable("snapshot-missing", view)])
        return _row(checkpoint_id, "damaged" if found else "ok", blobs, found)
    if snapshot is None:
        return _row(checkpoint_id, "none", 0, [])
    problems = [] if view.available else [_unavailable("ref-missing", view)]
    try:
        checkout = inspection.checkout
        blobs, found = check_tree(inspection.git, inspection.where, snapshot.tree, checkout.object_format)
    except YolopError as error:
        blobs, found = 0, [Problem("repository", error.message)]
    problems += found
    return _row(checkpoint_id, "damaged" if problems else "ok", blobs, problems)


def _unavailable(code: str, view: WorkspaceView) -> Problem:
    return Problem(code, view.reason or "")


def _row(checkpoint_id: str, status: str, blobs: int, problems: list[Problem]) -> dict[str, Any]:
    return {
        "id": checkpoint_id,
        "status": status,
        "blobs": blobs,
        "problems": [
            {
                "code": problem.code,
                "object": problem.object,
                "path": None if problem.path is None else paths.to_json(problem.path),
                "message": problem.message,
            }
            for problem in problems
        ],
    }
