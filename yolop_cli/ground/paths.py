"""Paths are bytes: how they become text in JSON and on the command line, and how they come back."""

from __future__ import annotations

import base64
import os
import shlex
from pathlib import Path
from typing import Any

BLOCKED_DIRECTORIES = (
    ".git",
    "node_modules",
    "target",
    "dist",
    "build",
    ".next",
    ".venv",
    "venv",
    ".tox",
    ".gradle",
)
_BLOCKED = frozenset(name.encode() for name in BLOCKED_DIRECTORIES)


def to_json(path: bytes | Path) -> str | dict[str, str]:
    """A path as JSON: a string, or ``{"bytes": base64}`` when it is not UTF-8."""
    raw = path if isinstance(path, bytes) else os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode("ascii")}


def show(path: bytes | str | Path) -> str:
    """A path for a message: as text, bytes that are not UTF-8 as ``\\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def for_shell(path: bytes | str | Path) -> str:
    """A path as a word to paste into a shell; what cannot be printed is written as ``$'\\ooo'``."""
    raw = os.fsencode(path)
    shown = show(raw)
    if shown.encode() == raw and shown.isprintable():
        return shlex.quote(shown)
    plain = set(range(0x20, 0x7F)) - set(b"\\'")
    return "$'" + "".join(chr(byte) if byte in plain else f"\\{byte:03o}" for byte in raw) + "'"


def from_json(value: Any) -> bytes | None:
    """The bytes of a path written by ``to_json``, or None when the value is not one."""
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and isinstance(value.get("bytes"), str):
        try:
            return base64.b64decode(value["bytes"], validate=True)
        except ValueError:
            return None
    return None


def local(text: str) -> Path:
    """A path read from JSON as this process must spell it, whatever its locale."""
    return Path(os.fsdecode(text.encode("utf-8")))


def resolved(path: Path) -> Path:
    """The path with every symbolic link followed; parts that do not exist are kept as they are."""
    return Path(os.path.realpath(path))


def is_below(path: Path, root: Path) -> bool:
    """Whether a path is the root or lies below it. Both must be resolved already."""
    return path == root or root in path.parents


def ancestors(path: bytes) -> list[bytes]:
    """The directories above a relative path, the outermost first: ``a/b/c`` gives ``a`` and ``a/b``."""
    parts = path.split(b"/")
    return [b"/".join(parts[:end]) for end in range(1, len(parts))]


def is_blocked(path: bytes) -> bool:
    """Whether a relative file path lies below a directory that no snapshot ever holds."""
    return not _BLOCKED.isdisjoint(path.split(b"/")[:-1])


def is_safe(path: bytes) -> bool:
    """Whether a path from a tree stays below the root: no empty, ``.``, ``..`` or ``.git`` component."""
    parts = path.split(b"/")
    return (
        all(part not in (b"", b".", b"..") and part.lower() != b".git" for part in parts)
        and b"\0" not in path
    )
