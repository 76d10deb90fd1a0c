"""workspace.json: what the agent noted of a session. Read only; the agent rewrites the file whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yolop_cli.ground import files, paths, strict_json
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.strict_json import NotJsonError


@dataclass(frozen=True)
class Worktree:
    """The worktree that a session says is its own."""

    path: Path
    branch: str | None
    base_ref: str | None
    slug: str | None


@dataclass(frozen=True)
class Workspace:
    """The metadata of a session; every field may be missing in an old or damaged file.

    ``worktree_unreadable``: the file says something of a worktree, but not which.
    """

    active_root: Path | None = None
    repo_root: Path | None = None
    canonical_repo_root: Path | None = None
    title: str | None = None
    summary: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    session_kind: str | None = None
    parent_session_id: str | None = None
    worktree: Worktree | None = None
    worktree_unreadable: bool = False


def read(path: Path) -> Workspace | None:
    """The metadata, or None when there is no file. Raises ``StorageError`` when it cannot be read."""
    data = files.read_bytes(path)
    if data is None:
        return None
    try:
        value = strict_json.loads(data)
    except NotJsonError as error:
        raise StorageError(f"cannot read {path}: {error}", details={"path": str(path)}) from None
    if not isinstance(value, dict):
        raise StorageError(f"cannot read {path}: not an object", details={"path": str(path)})
    return _workspace(value)


def read_or_empty(path: Path) -> Workspace:
    """The metadata as far as it can be read: for lists, where one bad file must not hide the others."""
    try:
        return read(path) or Workspace()
    except StorageError:
        return Workspace()


def _workspace(value: dict[str, Any]) -> Workspace:
    worktree = _worktree(value.get("worktree"))
    return Workspace(
        active_root=_path(value.get("active_root", value.get("workspace_root"))),
        repo_root=_path(value.get("repo_root")),
        canonical_repo_root=_path(value.get("canonical_repo_root")),
        title=_text(value.get("title")),
        summary=_text(value.get("summary")),
        created_at=_text(value.get("created_at")),
        updated_at=_text(value.get("updated_at")),
        session_kind=_text(value.get("session_kind")),
        parent_session_id=_text(value.get("parent_session_id")),
        worktree=worktree,
        worktree_unreadable=worktree is None and value.get("worktree") is not None,
    )


def _worktree(value: Any) -> Worktree | None:
    if not isinstance(value, dict):
        return None
    path = _path(value.get("path"))
    if path is None:
        return None
    return Worktree(path, _text(value.get("branch")), _text(value.get("base_ref")), _text(value.get("slug")))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _path(value: Any) -> Path | None:
    return paths.local(value) if isinstance(value, str) and value and "\0" not in value else None
