"""Which files of a snapshot a user means by the paths they give."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from yolop_cli.ground import paths
from yolop_cli.ground.errors import DeniedError, NotFoundError
from yolop_cli.trees.tree import Entry

_HINT = "paths are those below the directory that the snapshot is of"


def relative(text: str, root: Callable[[], Path]) -> bytes:
    """A path given by the user as a snapshot spells it: below the root, no dot components; empty is the root.

    The root is asked for only when the path begins with a slash. Raises ``DeniedError`` for a path that
    leads out of it.
    """
    raw = os.fsencode(text)
    if raw.startswith(b"/"):
        above = os.fsencode(root())
        if raw != above and not raw.startswith(above + b"/"):
            raise _outside(text)
        raw = raw[len(above) + 1 :]
    path = os.path.normpath(raw)
    if path == b".." or path.startswith(b"../"):
        raise _outside(text)
    return b"" if path == b"." else path


def select(held: Sequence[Entry], wanted: Sequence[bytes], holder: str) -> list[Entry]:
    """The entries at and below the paths wanted, or all of them when none is; ``holder`` is what has them.

    Raises ``NotFoundError`` for a path that is not held.
    """
    if not wanted or b"" in wanted:
        return list(held)
    chosen: dict[bytes, Entry] = {}
    for path in wanted:
        found = [entry for entry in held if entry.path == path or entry.path.startswith(path + b"/")]
        if not found:
            raise NotFoundError(f"{holder} holds no {paths.show(path)}", hint=_HINT)
        chosen.update((entry.path, entry) for entry in found)
    return sorted(chosen.values(), key=lambda entry: entry.path)


def _outside(text: str) -> DeniedError:
    return DeniedError(f"{text} does not lie below the root", hint=_HINT)
