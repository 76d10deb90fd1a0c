"""Snapshots made by the agent hold what ``git add`` stores: the repository's conversions are on.

Such a tree is first translated to the raw tree that checking it out would give; from there on there is one
way to compare, restore and verify. A file whose present bytes would be stored as the very blob of the
snapshot counts as unchanged. External filters are programs that the repository names, so they run only
where the caller says so (apply, never preview); without them their paths stay untranslated.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files
from yolop_cli.ground.git import Git, Where, discovered, join
from yolop_cli.trees import tree as trees
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.tree import Entry, TreeChange


@dataclass(frozen=True)
class Translated:
    """A raw tree, and the paths in it that still have to go through an external filter."""

    tree: str
    unfiltered: tuple[bytes, ...]


def translate(git: Git, private: PrivateGit, tree: str, present: str, *, run_filters: bool) -> Translated:
    """The raw tree for a tree made by the agent, compared with the raw tree of the present files.

    The new objects are handed to the repository. Raises ``GitError`` or ``StorageError``.
    """
    changes = trees.differences(git, private.reading, present, tree)
    candidates = [change for change in changes if _is_file(change.new)]
    if not candidates:
        return Translated(tree, ())
    private.begin()
    try:
        translation = _Translation(git, private, tree, run_filters)
        result = translation.translate(candidates)
        private.hand_over()
        return result
    except OSError as error:
        raise files.failed("translate a snapshot in", private.work, error) from None
    finally:
        private.sweep()


def _is_file(entry: Entry | None) -> bool:
    return entry is not None and entry.mode not in (trees.LINK, trees.SUBMODULE)


class _Translation:
    """One translation, in the private git directory's ``work/``."""

    def __init__(self, git: Git, private: PrivateGit, tree: str, run_filters: bool):
        self.git = git
        self.private = private
        self.tree = tree
        self.run_filters = run_filters
        self.scratch = private.work / "files"
        self.scratch.mkdir(mode=files.PRIVATE_DIRECTORY)
        self.drivers = self._filter_drivers()

    def translate(self, candidates: Sequence[TreeChange]) -> Translated:
        filtered = self._through_filters([change.path for change in candidates])
        unfiltered = () if self.run_filters else tuple(sorted(filtered))
        wanted = [change for change in candidates if change.path not in unfiltered]
        raw = self._checked_out(wanted)
        same = self._stored_alike(wanted) if not _rules_change(candidates) else set()
        keeps_mode = self._setting("core.fileMode") == b"false"
        replaced: list[Entry] = []
        for change in wanted:
            new, old = change.new, change.old
            assert new is not None
            oid = old.oid if old is not None and change.path in same else raw.get(change.path, new.oid)
            usable = old is not None and keeps_mode and old.mode != trees.LINK
            replaced.append(Entry(old.mode if usable and old is not None else new.mode, oid, change.path))
        where = self.private.where(os.devnull, self.private.work / "raw-index")
        return Translated(trees.write_tree(self.git, where, self.tree, replaced), unfiltered)

    def _converting(self, work_tree: Path, index: str, *, filters: bool) -> Where:
        """Git with the repository's conversions on, external filters only if asked."""
        checkout = self.private.checkout
        variables = {
            "GIT_DIR": str(checkout.git_dir),
            "GIT_WORK_TREE": str(work_tree),
            "GIT_INDEX_FILE": str(self.private.work / index),
            "GIT_OBJECT_DIRECTORY": str(self.private.work / "objects"),
        }
        off = (
            []
            if filters
            else [
                (f"filter.{name}.{key}", value)
                for name in self.drivers
                for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
            ]
        )
        return Where(work_tree, variables, (("core.safecrlf", "false"), *off), users_config=True)

    def _filter_drivers(self) -> list[str]:
        where = discovered(self.private.checkout.root)
        asked = self.git.run(where, "config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
        names = [os.fsdecode(record).split(".", 1)[1].rsplit(".", 1)[0] for record in asked.records()]
        return sorted(set(names))

    def _setting(self, name: str) -> bytes:
        asked = self.git.run(
            discovered(self.private.checkout.root), "config", "-z", "--type=bool", "--get", name, ok=(0, 1)
        )
        return asked.out.rstrip(b"\0")

    def _through_filters(self, candidates: Sequence[bytes]) -> set[bytes]:
        """The paths whose ``filter`` attribute, by the snapshot's own rules, names a configured driver."""
        if not self.drivers:
            return set()
        where = self._converting(self.scratch, "agent-index", filters=False)
        self.git.run(where, "read-tree", self.tree)
        asked = self.git.run(
            where, "check-attr", "-z", "--cached", "--stdin", "filter", stdin=join(candidates)
        )
        parts = asked.records()
        drivers = {os.fsencode(name) for name in self.drivers}
        rows = zip(parts[::3], parts[2::3], strict=True)
        return {path for path, value in rows if value in drivers}

    def _checked_out(self, wanted: Sequence[TreeChange]) -> dict[bytes, str]:
        """What git writes for each path on checking it out: the object of those bytes."""
        where = self._converting(self.scratch, "agent-index", filters=self.run_filters)
        self.git.run(where, "read-tree", self.tree)
        listed = join([change.path for change in wanted])
        self.git.run(where, "checkout-index", "-f", "-z", "--stdin", stdin=listed)
        return self._objects_of(self.scratch, wanted)

    def _objects_of(self, directory: Path, wanted: Sequence[TreeChange]) -> dict[bytes, str]:
        raw = self.private.where(os.devnull, self.private.work / "scratch-index")
        where = Where(directory, {**raw.variables, "GIT_WORK_TREE": str(directory)}, raw.config)
        listed = join([change.path for change in wanted])
        self.git.run(where, "update-index", "-z", "--add", "--remove", "--stdin", stdin=listed)
        return _staged(self.git.run(where, "ls-files", "-z", "-s").records())

    def _stored_alike(self, wanted: Sequence[TreeChange]) -> set[bytes]:
        """The paths whose present bytes git would store as the very blob that the snapshot holds."""
        present = [change for change in wanted if _is_file(change.old)]
        if not present:
            return set()
        where = self._converting(self.private.checkout.root, "clean-index", filters=self.run_filters)
        listed = join([change.path for change in present])
        self.git.run(where, "update-index", "-z", "--add", "--remove", "--stdin", stdin=listed)
        stored = _staged(self.git.run(where, "ls-files", "-z", "-s").records())
        return {
            change.path
            for change in present
            if change.new is not None and stored.get(change.path) == change.new.oid
        }


def _rules_change(candidates: Sequence[TreeChange]) -> bool:
    return any(change.path.rpartition(b"/")[2] == b".gitattributes" for change in candidates)


def _staged(rows: Sequence[bytes]) -> dict[bytes, str]:
    parsed = (row.partition(b"\t") for row in rows)
    return {path: description.split(b" ")[1].decode("ascii") for description, _, path in parsed}
