"""Trees: what they hold, how two of them differ, what their own ignore rules say, blobs as streams."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from yolop_cli.ground import files
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git, Where, join
from yolop_cli.trees.capture import ignored_by
from yolop_cli.trees.private_git import PrivateGit

Change = Literal["added", "modified", "deleted", "type", "mode"]
LINK = "120000"
EXECUTABLE = "100755"
SUBMODULE = "160000"
_IGNORE_FILE = re.compile(rb"(?:.*/)?\.gitignore\Z", re.DOTALL)
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Entry:
    """One path of a tree: its mode as git writes it (``100644``) and its object."""

    mode: str
    oid: str
    path: bytes


@dataclass(frozen=True)
class TreeChange:
    """How one path differs; ``old`` or ``new`` is None where a side lacks it."""

    path: bytes
    change: Change
    old: Entry | None
    new: Entry | None


def entries(git: Git, where: Where, tree: str) -> list[Entry]:
    """Every file, link and submodule of a tree, in git's order. Raises ``GitError``."""
    rows = git.run(where, "ls-tree", "-r", "-z", "--full-tree", tree).records()
    return [_entry(row) for row in rows]


def differences(git: Git, where: Where, old: str, new: str) -> list[TreeChange]:
    """What leads from one tree to another, without looking for renames. Raises ``GitError``."""
    if old == new:
        return []
    parts = git.run(
        where, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", old, new
    ).records()
    return [_change(header, path) for header, path in zip(parts[::2], parts[1::2], strict=True)]


def ignored_by_tree(
    git: Git, private: PrivateGit, excludes: str, tree: str, candidates: Sequence[bytes]
) -> set[bytes]:
    """Those of the paths that the ``.gitignore`` files held by a tree ignore (with today's other rules)."""
    if not candidates:
        return set()
    rules = [
        entry
        for entry in entries(git, private.reading, tree)
        if entry.mode not in (LINK, SUBMODULE) and _IGNORE_FILE.match(entry.path)
    ]
    scratch = private.path / "rules"
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        scratch.mkdir(mode=files.PRIVATE_DIRECTORY)
        with_content(git, private.reading, rules, lambda entry, content: _put(scratch, entry.path, content))
        variables = {"GIT_WORK_TREE": str(scratch), "GIT_INDEX_FILE": str(private.path / "rules.none")}
        where = Where(scratch, {**private.reading.variables, **variables}, (("core.excludesFile", excludes),))
        return ignored_by(git, where, list(candidates))
    except OSError as error:
        raise files.failed("write", scratch, error) from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def with_content(
    git: Git, where: Where, wanted: Iterable[Entry], use: Callable[[Entry, Content], None]
) -> None:
    """Call ``use`` with each entry's content, streamed from one git process, in the order given.

    Raises ``StorageError`` that names the object when one is not here.
    """
    ordered = list(wanted)
    if not ordered:
        return
    asked = "".join(f"{entry.oid}\n" for entry in ordered).encode("ascii")
    with git.streaming(where, "cat-file", "--batch", stdin=asked) as stream:
        for entry in ordered:
            header = stream.readline().split()
            if len(header) != 3 or header[1] != b"blob":
                raise missing_object(entry)
            content = Content(stream, int(header[2]))
            use(entry, content)
            content.skip()
            stream.read(1)


class Readable(Protocol):
    """Something to read bytes from."""

    def read(self, size: int, /) -> bytes:
        """So many bytes, or fewer; none at the end."""


class Content:
    """The bytes of one blob on a stream, to be read once."""

    def __init__(self, stream: Readable, size: int):
        self.size = size
        self._stream = stream
        self._left = size

    def chunks(self) -> Iterable[bytes]:
        """What is left, in pieces. Raises ``StorageError`` when git stops early."""
        while self._left:
            piece = self._stream.read(min(_CHUNK, self._left))
            if not piece:
                raise StorageError("the content ended in the middle of an object")
            self._left -= len(piece)
            yield piece

    def read(self) -> bytes:
        """All of it: for content known to be small."""
        return b"".join(self.chunks())

    def skip(self) -> None:
        """Pass over what was not read."""
        for _ in self.chunks():
            pass


def missing_object(entry: Entry) -> StorageError:
    """The failure for an object that a snapshot names and the repository lacks."""
    shown = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
    return StorageError(
        f"the object {entry.oid} of {shown} is not in the repository",
        hint="see `yolop-cli checkpoint verify`",
        details={"object": entry.oid, "paths": [shown]},
    )


def write_tree(git: Git, where: Where, base: str, replaced: Sequence[Entry]) -> str:
    """The tree ``base`` with some entries replaced, written through the index that ``where`` names."""
    git.run(where, "read-tree", base)
    lines = [f"{entry.mode} {entry.oid}\t".encode("ascii") + entry.path for entry in replaced]
    if lines:
        git.run(where, "update-index", "-z", "--index-info", stdin=join(lines))
    return git.run(where, "write-tree").line()


def _put(scratch: Path, path: bytes, content: Content) -> None:
    target = scratch / os.fsdecode(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.read())


def _entry(row: bytes) -> Entry:
    description, _, path = row.partition(b"\t")
    mode, _, oid = description.split(b" ")
    return Entry(mode.decode("ascii"), oid.decode("ascii"), path)


def _change(header: bytes, path: bytes) -> TreeChange:
    old_mode, new_mode, old_oid, new_oid, status = header[1:].decode("ascii").split(" ")
    old, new = Entry(old_mode, old_oid, path), Entry(new_mode, new_oid, path)
    if status[0] == "A":
        return TreeChange(path, "added", None, new)
    if status[0] == "D":
        return TreeChange(path, "deleted", old, None)
    if status[0] == "T":
        return TreeChange(path, "type", old, new)
    return TreeChange(path, "mode" if old_oid == new_oid else "modified", old, new)
