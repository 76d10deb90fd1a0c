"""restore.json: the restore that waits for its token, or one that was interrupted.

Written whole and durably by a preview; marked ``applying`` before the first file changes; removed when the
restore is done, put back or cancelled. The agent ignores it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from yolop_cli.ground import clock, files, paths, strict_json
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.strict_json import NotJsonError
from yolop_cli.session.directory import SessionDirectory

Kind = Literal["rewind", "redo"]
Mode = Literal["conversation", "workspace", "both"]
Phase = Literal["prepared", "applying"]
VERSION = 1


@dataclass(frozen=True)
class Target:
    """The snapshot to go to: its tree as recorded, how it was captured, and the tree of its raw bytes."""

    tree: str
    capture: str | None
    raw_tree: str


@dataclass(frozen=True)
class Recovery:
    """The snapshot of the files as they were at the preview: its tree and the ref that keeps it."""

    tree: str
    reference: str


@dataclass(frozen=True)
class Stored:
    """A snapshot in the store of a directory, as the target or as the recovery of a restore."""

    id: str
    workspace_id: str
    root: str
    tree: str


@dataclass(frozen=True)
class Planned:
    """One path that would change, and how."""

    path: bytes
    change: str


@dataclass(frozen=True)
class WaitingRestore:
    """A prepared restore: all that apply compares with the present before it does anything."""

    token: str
    kind: Kind
    mode: Mode
    checkpoint_id: str | None
    exact: bool
    prompt: str | None
    created_at: str
    head_from: str | None
    head_to: str | None
    pending: str | None
    last_sequence: int
    cut: tuple[str, ...]
    cut_events: int
    git_head: str | None = None
    target: Target | Stored | None = None
    recovery: Recovery | Stored | None = None
    changes: tuple[Planned, ...] = ()
    plan_digest: str | None = None
    stage: str | None = None
    phase: Phase = "prepared"

    @property
    def moves_conversation(self) -> bool:
        """Whether the conversation changes."""
        return self.mode != "workspace"

    @property
    def moves_files(self) -> bool:
        """Whether the files change."""
        return self.mode != "conversation"


class UnreadableRestoreError(StorageError):
    """restore.json is there and makes no sense."""


def read(session: SessionDirectory) -> WaitingRestore | None:
    """The restore that waits, or None. Raises ``UnreadableRestoreError`` when it makes no sense."""
    data = files.read_bytes(session.restore)
    if data is None:
        return None
    try:
        return _from_json(strict_json.loads(data))
    except (NotJsonError, KeyError, TypeError, ValueError):
        raise UnreadableRestoreError(
            f"cannot read {session.restore}",
            hint="`yolop-cli rewind cancel` sets it aside; the refs recovery_* of the session stay",
            details={"path": str(session.restore)},
        ) from None


def write(session: SessionDirectory, restore: WaitingRestore) -> None:
    """Replace the file durably. Raises ``StorageError``."""
    files.write_atomic(session.restore, strict_json.dumps(_to_json(restore)) + b"\n")


def set_aside(session: SessionDirectory) -> Path:
    """Move a file that makes no sense out of the way; where it is then. Raises ``StorageError``."""
    kept = session.restore.with_name(f"restore.json.unreadable-{clock.stamp()}")
    try:
        session.restore.rename(kept)
        files.sync_directory(session.path)
    except OSError as error:
        raise files.failed("set aside", session.restore, error) from None
    return kept


def remove(session: SessionDirectory) -> None:
    """Remove the file durably. Raises ``StorageError``."""
    if files.remove_file(session.restore):
        try:
            files.sync_directory(session.path)
        except OSError as error:
            raise files.failed("remove", session.restore, error) from None


def _to_json(restore: WaitingRestore) -> dict[str, Any]:
    return {
        "version": VERSION,
        "token": restore.token,
        "kind": restore.kind,
        "phase": restore.phase,
        "checkpoint_id": restore.checkpoint_id,
        "mode": restore.mode,
        "exact": restore.exact,
        "prompt": restore.prompt,
        "created_at": restore.created_at,
        "head": {"from": restore.head_from, "to": restore.head_to},
        "pending": restore.pending,
        "last_sequence": restore.last_sequence,
        "cut": list(restore.cut),
        "cut_events": restore.cut_events,
        "git_head": restore.git_head,
        "target": _files_json(restore.target),
        "recovery": _files_json(restore.recovery),
        "changes": [{"path": paths.to_json(one.path), "change": one.change} for one in restore.changes],
        "plan_digest": restore.plan_digest,
        "stage": restore.stage,
    }


def _files_json(files: Target | Recovery | Stored | None) -> dict[str, Any] | None:
    match files:
        case None:
            return None
        case Target():
            return {"tree": files.tree, "capture": files.capture, "raw_tree": files.raw_tree}
        case Recovery():
            return {"tree": files.tree, "reference": files.reference}
        case Stored():
            return {
                "snapshot_id": files.id,
                "workspace_id": files.workspace_id,
                "root": files.root,
                "tree": files.tree,
            }


def _from_json(value: Any) -> WaitingRestore:
    if not isinstance(value, dict) or value["version"] != VERSION:
        raise ValueError
    target, recovery = value["target"], value["recovery"]
    if value["kind"] not in ("rewind", "redo") or value["phase"] not in ("prepared", "applying"):
        raise ValueError
    if value["mode"] not in ("conversation", "workspace", "both"):
        raise ValueError
    return WaitingRestore(
        token=str(value["token"]),
        kind=cast(Kind, value["kind"]),
        mode=cast(Mode, value["mode"]),
        checkpoint_id=value["checkpoint_id"],
        exact=bool(value["exact"]),
        prompt=value["prompt"],
        created_at=str(value["created_at"]),
        head_from=value["head"]["from"],
        head_to=value["head"]["to"],
        pending=value["pending"],
        last_sequence=int(value["last_sequence"]),
        cut=tuple(str(one) for one in value["cut"]),
        cut_events=int(value["cut_events"]),
        git_head=value["git_head"],
        target=None if target is None else _target(target),
        recovery=None if recovery is None else _recovery(recovery),
        changes=tuple(_planned(one) for one in value.get("changes", ())),
        plan_digest=value["plan_digest"],
        stage=value["stage"],
        phase=cast(Phase, value["phase"]),
    )


def _target(value: Any) -> Target | Stored:
    if "snapshot_id" in value:
        return _stored(value)
    return Target(str(value["tree"]), value["capture"], str(value["raw_tree"]))


def _recovery(value: Any) -> Recovery | Stored:
    return _stored(value) if "snapshot_id" in value else Recovery(str(value["tree"]), str(value["reference"]))


def _stored(value: Any) -> Stored:
    return Stored(*(str(value[key]) for key in ("snapshot_id", "workspace_id", "root", "tree")))


def _planned(value: Any) -> Planned:
    path = paths.from_json(value["path"])
    if path is None:
        raise ValueError
    return Planned(path, str(value["change"]))
