"""The installation checked: git, the data root, completions, manual pages, versions. Changes nothing."""

from __future__ import annotations

import os
import platform
import re
import stat
import sysconfig
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from yolop_cli import __version__
from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git
from yolop_cli.session.places import Places

Level = Literal["ok", "warning", "error"]
OLDEST_GIT = (2, 34)
_PRIVATE = 0o700
_COMPLETIONS = {
    "bash": "bash-completion/completions/yolop-cli",
    "zsh": "zsh/site-functions/_yolop-cli",
    "fish": "fish/vendor_completions.d/yolop-cli.fish",
}
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Part:
    """One part of the installation: a stable name, how it stands, what was found, and what helps."""

    name: str
    status: Level
    found: str
    path: Path | None = None
    fix: str | None = None


def examine(git: Git, places: Places) -> tuple[Part, ...]:
    """Every part, the program first. Raises nothing: what cannot be looked at is an error of its part."""
    share = Path(sysconfig.get_path("data")) / "share"
    return (
        Part("yolop-cli", "ok", __version__),
        Part("python", "ok", platform.python_version()),
        _git(git),
        _data_root(places.sessions.parent),
        _completions(share),
        _manual(share / "man"),
        *_dependencies(),
    )


def _git(git: Git) -> Part:
    try:
        version = git.version()
    except StorageError as error:
        return Part("git", "error", error.message, fix=error.hint)
    shown = ".".join(map(str, version))
    if version < OLDEST_GIT:
        return Part("git", "error", shown, fix="install git 2.34 or newer")
    return Part("git", "ok", shown)


def _data_root(root: Path) -> Part:
    try:
        mode = stat.S_IMODE(root.stat().st_mode)
    except FileNotFoundError:
        return _absent(root)
    except OSError as error:
        words = error.strerror or "cannot be read"
        return Part("data root", "error", words, root, "check the permissions of the directories above it")
    if not root.is_dir():
        return Part("data root", "error", "not a directory", root, "move it away")
    found = f"mode {mode:04o}"
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return Part("data root", "error", f"{found}, not writable", root, "check its owner and mode")
    if mode & ~_PRIVATE:
        fix = f"chmod 700 {paths.show(root)}"
        return Part("data root", "warning", f"{found}, open to others", root, fix)
    return Part("data root", "ok", f"{found}, writable", root)


def _absent(root: Path) -> Part:
    above = next(each for each in root.parents if os.path.lexists(each))
    if os.access(above, os.W_OK | os.X_OK):
        return Part("data root", "ok", "does not exist yet", root)
    fix = f"make {paths.show(above)} writable"
    return Part("data root", "error", "does not exist and cannot be created", root, fix)


def _completions(share: Path) -> Part:
    missing = [shell for shell, name in _COMPLETIONS.items() if not (share / name).is_file()]
    if missing:
        fix = f'eval "$(yolop-cli completion {missing[0]})"'
        return Part("completions", "warning", f"not installed: {', '.join(missing)}", share, fix)
    return Part("completions", "ok", ", ".join(_COMPLETIONS), share)


def _manual(manual: Path) -> Part:
    pages = len([*manual.glob("man1/yolop-cli*.1"), *manual.glob("man5/yolop-*.5")])
    if pages:
        return Part("man pages", "ok", f"{pages} pages", manual)
    return Part("man pages", "warning", "not installed", manual, "install yolop-cli from its wheel")


def _dependencies() -> list[Part]:
    """The packages that the program needs to run, with their versions."""
    try:
        wanted = metadata.requires("yolop-cli") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for requirement in wanted:
        match = _NAME.match(requirement)
        if match is None or "extra ==" in requirement:
            continue
        try:
            found.append(Part(match.group(), "ok", metadata.version(match.group())))
        except metadata.PackageNotFoundError:
            fix = f"pip install '{requirement}'"
            found.append(Part(match.group(), "error", "not installed", fix=fix))
    return found
