"""After a restore: capture again and compare, and the way back when it did not go through."""

from __future__ import annotations

import os
from collections.abc import Collection

from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git
from yolop_cli.trees import tree, tree_restore
from yolop_cli.trees.capture import capture
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.tree_plan import Kept, RestorePlan
from yolop_cli.trees.tree_restore import Restored
from yolop_cli.trees.worktree_files import Disk

CHANGED_SINCE = "changed since the restore was interrupted"
_SHOWN = 5


def verify(git: Git, private: PrivateGit, plan: RestorePlan) -> None:
    """Check that the worktree is what the plan promised. Raises ``StorageError`` with the paths that differ.

    What the snapshot did not hold may lie there for two reasons only: the plan kept it, or it was ignored
    before and the restored rules no longer ignore it.
    """
    written = {change.path for change, _ in plan.writes}
    after = capture(git, private, written)
    found = tree.differences(git, private.reading, plan.target, after.tree)
    hidden = {change.path for change in found if change.change == "deleted"}
    if hidden:
        # Held by the snapshot, ignored by today's rules: not captured unless asked for by name.
        after = capture(git, private, written | hidden)
        found = tree.differences(git, private.reading, plan.target, after.tree)
    kept = {one.path for one in plan.kept}
    found = [change for change in found if change.path not in kept]
    wrong = [change.path for change in found if change.change != "added"]
    extra = [change.path for change in found if change.change == "added"]
    wrong += _not_explained(git, private, plan, extra)
    if wrong:
        shown = ", ".join(paths.show(path) for path in wrong[:_SHOWN])
        raise StorageError(
            f"the files are not those of the snapshot after the restore: {shown}",
            details={"paths": [paths.to_json(path) for path in wrong]},
        )


def _not_explained(git: Git, private: PrivateGit, plan: RestorePlan, extra: Collection[bytes]) -> list[bytes]:
    """Of the paths beyond the snapshot, those that were neither ignored nor hidden before."""
    if not extra:
        return []
    before = {entry.path for entry in tree.entries(git, private.reading, plan.current)}
    new = [path for path in extra if path not in before]
    ignored = tree.ignored_by_tree(git, private, plan.excludes, plan.current, new)
    return [path for path in extra if path not in ignored]


def put_back(
    git: Git, private: PrivateGit, planned: Collection[bytes], goal: str, target: str, stage: str
) -> tuple[Restored, tuple[Kept, ...]]:
    """Undo a restore that did not finish: each planned path that holds the target's version gets the old one.

    ``goal`` is the recovery tree, ``target`` the raw tree that was being restored. A path that someone
    changed since is left alone and named. Raises ``StorageError`` when the files could not be put back.
    """
    try:
        tree_restore.sweep(private.checkout.root, stage)
    except OSError as error:
        raise StorageError(f"cannot remove {stage}: {error.strerror}") from None
    disk = Disk(os.fsencode(private.checkout.root))
    expected = {path: disk.look(path) for path in planned}
    there = {path for path in planned if disk.look(path).kind in ("file", "link")}
    now = capture(git, private, there)
    to_goal = tree.differences(git, private.reading, now.tree, goal)
    back = [change for change in to_goal if change.path in planned]
    foreign = {change.path for change in tree.differences(git, private.reading, now.tree, target)}
    changes = tuple(change for change in back if change.path not in foreign)
    kept = tuple(Kept(change.path, CHANGED_SINCE) for change in back if change.path in foreign)
    plan = RestorePlan(now.tree, goal, changes, kept, frozenset(there), now.excludes)
    done = tree_restore.carry_out(git, private, plan, expected, stage)
    _remove_emptied(private, planned)
    _verify_back(git, private, plan)
    return done, kept


def _remove_emptied(private: PrivateGit, planned: Collection[bytes]) -> None:
    """Remove the directories that the restore had made for a file it did not come to write."""
    disk = Disk(os.fsencode(private.checkout.root))
    above = {directory for path in planned for directory in paths.ancestors(path)}
    for directory in sorted(above, key=lambda path: path.count(b"/"), reverse=True):
        if disk.is_directory(directory):
            try:
                os.rmdir(disk.full(directory))
            except OSError:
                continue  # it holds something


def _verify_back(git: Git, private: PrivateGit, plan: RestorePlan) -> None:
    paths_back = {change.path for change in plan.changes}
    disk = Disk(os.fsencode(private.checkout.root))
    there = {path for path in paths_back | plan.forced if disk.look(path).kind in ("file", "link")}
    after = capture(git, private, there)
    left = tree.differences(git, private.reading, after.tree, plan.target)
    wrong = [change.path for change in left if change.path in paths_back]
    if wrong:
        raise StorageError(
            "the files could not be put back as they were",
            details={"paths": [paths.to_json(path) for path in wrong]},
        )
