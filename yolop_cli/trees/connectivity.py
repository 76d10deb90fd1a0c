"""Whether every object below some trees is in the repository: presence only, in a few git processes.

``checkpoint verify`` reads and hashes every blob; this only asks whether it is there, for many trees at
once and each shared subtree a single time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from yolop_cli.ground.git import Git, Where

_DIRECTORY = b"40000"
_SUBMODULE = b"160000"
_RAW_LENGTH = {40: 20, 64: 32}


@dataclass
class Gaps:
    """Objects that are not there, each with one of the trees asked about that needs it."""

    trees: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)


def gaps(git: Git, where: Where, roots: Iterable[str]) -> Gaps:
    """What is missing below the trees. Raises ``GitError`` when git itself fails."""
    found = Gaps()
    blobs: dict[str, str] = {}
    seen: set[str] = set()
    level = {root: root for root in roots}
    while level:
        seen.update(level)
        below: dict[str, str] = {}
        for oid, content in _trees(git, where, level, found).items():
            _read(content, len(oid), level[oid], below, blobs)
        level = {oid: root for oid, root in below.items() if oid not in seen}
    there = present(git, where, blobs, "blob")
    found.blobs = {oid: root for oid, root in blobs.items() if oid not in there}
    return found


def _trees(git: Git, where: Where, level: Mapping[str, str], found: Gaps) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    with git.streaming(where, "cat-file", "--batch", stdin=_asked(level)) as stream:
        for oid in level:
            header = stream.readline().split()
            size = int(header[2]) if len(header) == 3 else 0
            content = stream.read(size + 1)[:-1] if len(header) == 3 else b""
            if len(header) == 3 and header[1] == b"tree":
                contents[oid] = content
            else:
                found.trees[oid] = level[oid]
    return contents


def _read(content: bytes, length: int, root: str, below: dict[str, str], blobs: dict[str, str]) -> None:
    """Sort the entries of one tree into subtrees and blobs; submodules are not ours to look into."""
    position, raw = 0, _RAW_LENGTH[length]
    while position < len(content):
        end = content.index(b"\0", position)
        mode = content[position : content.index(b" ", position)]
        oid = content[end + 1 : end + 1 + raw].hex()
        position = end + 1 + raw
        if mode == _DIRECTORY:
            below.setdefault(oid, root)
        elif mode != _SUBMODULE:
            blobs.setdefault(oid, root)


def present(git: Git, where: Where, oids: Collection[str], kind: str) -> set[str]:
    """Which of the objects are there and of this kind. Raises ``GitError`` when git itself fails."""
    if not oids:
        return set()
    out = git.run(where, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=_asked(oids)).out
    rows = (row.split(b" ") for row in out.split(b"\n") if row)
    return {row[0].decode("ascii") for row in rows if len(row) == 2 and row[1] == kind.encode()}


def _asked(oids: Iterable[str]) -> bytes:
    return "".join(f"{oid}\n" for oid in oids).encode("ascii")
