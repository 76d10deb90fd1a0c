"""What many tests begin with, made once a worker by git and copied from memory for each test.

The bytes are those that git wrote, at the place it was asked to write them. Files that name that place
(listed in ``_POINTERS``) name the copy's instead.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_POINTERS = (".git", "gitdir", "workspace.json")


@dataclass(frozen=True)
class Template:
    """Everything below a directory: its path, and each entry's path, kind, permission bits and content."""

    origin: bytes
    entries: tuple[tuple[str, str, int, bytes], ...]

    @classmethod
    def of(cls, root: Path) -> Template:
        """What lies below a directory."""
        found: list[tuple[str, str, int, bytes]] = []
        for parent, directories, files in os.walk(root):
            for name in sorted([*directories, *files]):
                path = Path(parent, name)
                mode = path.lstat().st_mode & 0o7777
                where = str(path.relative_to(root))
                if path.is_symlink():
                    found.append((where, "link", mode, os.fsencode(os.readlink(path))))
                elif path.is_dir():
                    found.append((where, "directory", mode, b""))
                else:
                    found.append((where, "file", mode, path.read_bytes()))
        return cls(os.fsencode(root), tuple(found))

    def copy(self, root: Path) -> None:
        """Write it below another directory, which may hold other things already."""
        base, here = str(root), os.fsencode(root)
        for where, kind, mode, content in self.entries:
            path = f"{base}/{where}"
            if kind == "directory":
                if not os.path.isdir(path):
                    os.mkdir(path, mode)
            elif kind == "link":
                os.symlink(os.fsdecode(content), path)
            elif not os.path.lexists(path):  # the settings of the homes are there already, and the same
                if where.rpartition("/")[2] in _POINTERS:
                    content = content.replace(self.origin, here)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                os.write(descriptor, content)
                os.close(descriptor)


_made: dict[str, Template] = {}


def copied(name: str, build: Callable[[Path], None], root: Path) -> None:
    """Put below ``root`` what ``build`` makes in a directory of its own; it is called once a worker."""
    if name not in _made:
        place = Path(os.path.realpath(tempfile.mkdtemp(prefix="template-", dir=root.parent)))
        try:
            build(place)
            _made[name] = Template.of(place)
        finally:
            shutil.rmtree(place)
    _made[name].copy(root)
