"""What ``checkpoint verify`` finds, shown."""

from __future__ import annotations

from typing import Any

from yolop_cli.cli import text
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.operations.inspect import Inspection
from yolop_cli.operations.verify_checkpoint import Verdict, verify


def report(screen: Screen, inspection: Inspection, wanted: list[str]) -> int:
    """Check and show; 1 when something is wrong."""
    chosen = wanted or list(inspection.timeline.state.nodes)
    for each in chosen:
        inspection.checkpoint(each)
    rows = []
    with screen.progress("checking", len(chosen)) as step:
        for each in chosen:
            rows.append(_row(verify(inspection, each)))
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


def _row(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.id,
        "status": verdict.status,
        "blobs": verdict.blobs,
        "problems": [
            {
                "code": problem.code,
                "object": problem.object,
                "path": None if problem.path is None else paths.to_json(problem.path),
                "message": problem.message,
            }
            for problem in verdict.problems
        ],
    }
