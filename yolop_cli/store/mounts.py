"""Where something is mounted: nothing there can be removed or replaced, only what lies below it."""

from __future__ import annotations

import os
import re
from pathlib import Path

_ESCAPED = re.compile(rb"\\([0-7]{3})")
_TABLE = "/proc/self/mountinfo"


def below(root: Path) -> frozenset[bytes]:
    """The mount points below a directory, relative to it; none where the system does not tell."""
    try:
        with open(_TABLE, "rb") as file:
            table = file.read()
    except OSError:
        return frozenset()
    start = os.path.join(os.fsencode(root), b"")
    return frozenset(at.removeprefix(start) for at in points(table) if at.startswith(start) and at != start)


def points(table: bytes) -> list[bytes]:
    """The mount points of a table as in proc(5): the fifth field, blanks and the like in octal."""
    fields = (line.split(b" ") for line in table.split(b"\n"))
    return [_ESCAPED.sub(lambda found: bytes((int(found[1], 8),)), row[4]) for row in fields if len(row) > 4]
