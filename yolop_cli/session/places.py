"""Where sessions and their worktrees live on this machine (format page, "Where sessions live")."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SESSIONS_DIR_VARIABLE = "YOLOP_SESSIONS_DIR"
DATA_DIR_VARIABLE = "YOLOP_DATA_DIR"
SESSION_VARIABLE = "YOLOP_SESSION"


@dataclass(frozen=True)
class Places:
    """The sessions directory, the two roots that hold worktrees, and the directory asked from."""

    sessions: Path
    worktree_roots: tuple[Path, ...]
    here: Path
    environ: Mapping[str, str]

    @classmethod
    def of(cls, environ: Mapping[str, str], here: Path, sessions_dir: Path | None = None) -> Places:
        """The places that an environment names; ``sessions_dir`` outranks it."""
        chosen = sessions_dir or _path(environ, SESSIONS_DIR_VARIABLE) or _data_root(environ) / "sessions"
        temporary = _path(environ, "TMPDIR") or Path("/tmp")
        home = _path(environ, "HOME") or Path.home()
        roots = (temporary / "yolop" / "worktrees", home / ".yolop" / "worktrees")
        return cls(here / chosen, tuple(here / root for root in roots), here, environ)


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name)
    return Path(value) if value else None


def _data_root(environ: Mapping[str, str]) -> Path:
    root = _path(environ, DATA_DIR_VARIABLE)
    if root is not None:
        return root
    if os.name == "posix" and os.uname().sysname == "Linux":
        # What platformdirs answers on Linux, without the time it takes to load.
        base = _path(environ, "XDG_DATA_HOME")
        if base is not None and base.is_absolute():
            return base / "yolop"
        return (_path(environ, "HOME") or Path.home()) / ".local" / "share" / "yolop"
    import platformdirs

    return Path(platformdirs.user_data_dir("yolop", appauthor=False))
