"""One session directory: its id and the paths of its files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files, ids, paths
from yolop_cli.ground.errors import DeniedError, NotFoundError


@dataclass(frozen=True)
class SessionDirectory:
    """A directory whose name is a session id; the files below it may or may not be there."""

    path: Path

    @property
    def id(self) -> str:
        """The session id, which is the directory's name."""
        return self.path.name

    @property
    def events(self) -> Path:
        """The event log; in an old layout it stands beside the directory."""
        inside = self.path / "events.jsonl"
        beside = self.path.parent / f"{self.id}.jsonl"
        return beside if not os.path.exists(inside) and os.path.exists(beside) else inside

    @property
    def timeline(self) -> Path:
        """The journal of checkpoints."""
        return self.path / "timeline.jsonl"

    @property
    def rejected(self) -> Path:
        """Bytes that a repair or an append set aside."""
        return self.path / "timeline.rejected.jsonl"

    @property
    def compaction(self) -> Path:
        """The model-context replacements."""
        return self.path / "compaction-checkpoints.jsonl"

    @property
    def workspace(self) -> Path:
        """The session's metadata."""
        return self.path / "workspace.json"

    @property
    def restore(self) -> Path:
        """The restore that waits for confirmation, or one that was interrupted."""
        return self.path / "restore.json"

    @property
    def capture(self) -> Path:
        """The private git directory for captures."""
        return self.path / "capture.git"

    @property
    def lock(self) -> Path:
        """The file that the agent holds a lock on while it runs."""
        return self.path.parent / ".locks" / self.id

    def reference(self, name: str) -> str:
        """The private ref of a checkpoint or recovery snapshot of this session."""
        return ids.reference(self.id, name)


def open_directory(path: Path) -> SessionDirectory:
    """The session at a path. Raises ``NotFoundError`` when it is not one, ``DeniedError`` for a link.

    A link is refused because it could lead every later write out of the sessions directory.
    """
    if not ids.is_session_id(path.name):
        raise NotFoundError(
            f"not a session directory: {path}",
            hint="a session directory is named session_ and 32 hex digits; see `yolop-cli session list`",
        )
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        raise NotFoundError(f"no such session: {path}", hint="see `yolop-cli session list`") from None
    except OSError as error:
        raise files.failed("read", path, error) from None
    if stat.S_ISLNK(mode):
        raise DeniedError(
            f"the session directory is a symbolic link: {path}", hint="name the directory itself"
        )
    if not stat.S_ISDIR(mode):
        raise NotFoundError(f"not a directory: {path}", hint="see `yolop-cli session list`")
    return SessionDirectory(paths.resolved(path.parent) / path.name)
