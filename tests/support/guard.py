"""Keeps tests away from the user's own home: a trap in the environment, and a watch on the real places."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

# What the trap itself sets, and so what is not taken away again.
KEPT = frozenset({"YOLOP_DATA_DIR", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL"})


class RealHomeTouchedError(AssertionError):
    """A test changed something in the user's own home."""


def trap(directory: Path, temporary: Path) -> dict[str, str]:
    """An environment in which a forgotten setting fails at its first write instead of reaching the user."""
    homes = ("HOME", "YOLOP_DATA_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
    wall = directory / "no-home-in-tests"
    wall.write_text("A file where a directory would have to be: nothing can be made below it.\n")
    nowhere = str(wall / "home")
    return {
        **dict.fromkeys(homes, nowhere),
        "TMPDIR": str(temporary),
        "GIT_CONFIG_NOSYSTEM": "1",
        # Not the null device: git replaces the file that this names when it writes a setting.
        "GIT_CONFIG_GLOBAL": f"{nowhere}/gitconfig",
    }


def real_home() -> Path:
    """The user's home by the system's own account, whatever the environment says."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir)


def places(home: Path) -> tuple[Path, ...]:
    """What the program, or git run by it, could write in a home."""
    return (
        home / ".local/share/yolop",
        home / ".local/share/yolop/sessions",
        home / ".local/share/yolop/sessions/.locks",
        home / "Library/Application Support/yolop",
        home / ".yolop",
        home / ".yolop/worktrees",
        home / ".gitconfig",
        home / ".config/git",
        home / ".config/git/config",
    )


def watched(home: Path | None = None) -> dict[Path, tuple[int, int] | None]:
    """The state of those places now."""
    return {path: _stamp(path) for path in places(home or real_home())}


def compare(before: dict[Path, tuple[int, int] | None], after: dict[Path, tuple[int, int] | None]) -> None:
    """Raises ``RealHomeTouchedError`` when one of the places changed."""
    changed = [str(path) for path in before if before[path] != after.get(path)]
    if changed:
        raise RealHomeTouchedError(f"the test touched {', '.join(changed)}")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
