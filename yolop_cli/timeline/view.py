"""A checkpoint as people and scripts see it: the record, how its turn ended, what it holds of the files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from yolop_cli.timeline.fold import Status, TimelineState
from yolop_cli.timeline.records import CheckpointCreated

NOT_CAPTURED = "the files were not captured"


@dataclass(frozen=True)
class WorkspaceView:
    """What a checkpoint holds of the files; ``reason`` says why nothing can be restored from it."""

    available: bool
    kind: Literal["git", "store"] | None = None
    tree: str | None = None
    reference: str | None = None
    snapshot_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class CheckpointView:
    """One checkpoint of a folded timeline."""

    id: str
    parent: str | None
    prompt: str
    event_start: int
    event_end: int | None
    status: Status
    created_at: str
    active: bool
    workspace: WorkspaceView

    def to_json(self) -> dict[str, Any]:
        """The object that CLI.md calls CHECKPOINT."""
        workspace = self.workspace
        return {
            "id": self.id,
            "parent": self.parent,
            "prompt": self.prompt,
            "event_start": self.event_start,
            "event_end": self.event_end,
            "status": self.status,
            "created_at": self.created_at,
            "active": self.active,
            "workspace": {
                "available": workspace.available,
                "kind": workspace.kind,
                "tree": workspace.tree,
                "reference": workspace.reference,
                "snapshot_id": workspace.snapshot_id,
                "reason": workspace.reason,
            },
        }


def view(
    state: TimelineState, checkpoint_id: str, workspace_of: Callable[[CheckpointCreated], WorkspaceView]
) -> CheckpointView:
    """The view of one checkpoint; ``workspace_of`` knows what is still there of its snapshot."""
    node = state.nodes[checkpoint_id]
    checkpoint = node.checkpoint
    return CheckpointView(
        checkpoint.id,
        checkpoint.parent,
        checkpoint.prompt,
        checkpoint.event_start,
        node.event_end,
        state.status(checkpoint_id),
        checkpoint.created_at,
        checkpoint_id in state.live,
        workspace_of(checkpoint),
    )


def recorded(checkpoint: CheckpointCreated) -> WorkspaceView:
    """What the record alone says, without looking whether the snapshot is still there."""
    if checkpoint.snapshot is not None:
        snapshot = checkpoint.snapshot
        return WorkspaceView(True, "git", snapshot.tree, snapshot.reference)
    if checkpoint.file_snapshot is not None:
        return WorkspaceView(True, "store", snapshot_id=checkpoint.file_snapshot.id)
    return WorkspaceView(False, reason=checkpoint.snapshot_error or NOT_CAPTURED)
