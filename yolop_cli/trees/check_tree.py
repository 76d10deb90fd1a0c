"""Check a snapshot: its ref, its tree, and every blob against its name."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git, GitError, Where
from yolop_cli.trees import tree as trees
from yolop_cli.trees.tree import Content, Entry


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a snapshot."""

    code: str
    message: str
    object: str | None = None
    path: bytes | None = None


def check_tree(git: Git, where: Where, tree: str, object_format: str) -> tuple[int, list[Problem]]:
    """How many files and links a tree holds, and what is wrong with it or them.

    Every blob is read and hashed, so that bytes that rotted are found and not only objects that are gone.
    """
    kind = git.run(where, "cat-file", "-t", tree, ok=(0, 128))
    if kind.status != 0 or kind.line() != "tree":
        return 0, [Problem("tree-missing", f"the tree {tree} is not in the repository", tree)]
    try:
        held = [entry for entry in trees.entries(git, where, tree) if entry.mode != trees.SUBMODULE]
    except GitError as error:
        return 0, [Problem("tree-damaged", f"a tree below {tree} cannot be read: {error.message}", tree)]
    missing = _missing(git, where, held)
    problems = [
        Problem("blob-missing", f"the content of {paths.show(entry.path)} is gone", entry.oid, entry.path)
        for entry in held
        if entry.oid in missing
    ]
    whole = [entry for entry in held if entry.oid not in missing]
    return len(held), problems + _damaged(git, where, whole, object_format)


def _missing(git: Git, where: Where, held: list[Entry]) -> set[str]:
    asked = "".join(f"{oid}\n" for oid in sorted({entry.oid for entry in held})).encode("ascii")
    out = git.run(
        where, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked, ok=(0, 128)
    ).out
    rows = [row.split(b" ") for row in out.split(b"\n") if row]
    present = {row[0].decode("ascii") for row in rows if len(row) == 2 and row[1] == b"blob"}
    return {entry.oid for entry in held} - present


def _damaged(git: Git, where: Where, held: list[Entry], object_format: str) -> list[Problem]:
    """Entries whose bytes are not what their name says. A blob that stops git is found one by one."""
    problems: list[Problem] = []
    pending = held
    while pending:
        seen: set[str] = set()

        def compare(entry: Entry, content: Content, seen: set[str] = seen) -> None:
            digest = hashlib.new(object_format, f"blob {content.size}\0".encode())
            for chunk in content.chunks():
                digest.update(chunk)
            seen.add(entry.oid)
            if digest.hexdigest() != entry.oid:
                problems.append(_problem(entry))

        unique = list({entry.oid: entry for entry in pending}.values())
        try:
            trees.with_content(git, where, unique, compare)
            return problems
        except (StorageError, ValueError):
            left = [entry for entry in unique if entry.oid not in seen]
            if not left:
                return problems
            problems.append(_problem(left[0]))
            pending = left[1:]
    return problems


def _problem(entry: Entry) -> Problem:
    return Problem(
        "blob-damaged", f"the content of {paths.show(entry.path)} is damaged", entry.oid, entry.path
    )
