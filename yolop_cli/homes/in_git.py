"""Snapshots in the repository of the worktree that a session owns."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from yolop_cli.ground import ids
from yolop_cli.ground.errors import DeniedError, RefusedError, StaleError, StorageError
from yolop_cli.ground.processes import Writer, writers
from yolop_cli.homes.held import Held, drop
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.homes.protocol import AGAIN, FilesPlan, Ready
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Kind, Planned, Recovery, Target, WaitingRestore
from yolop_cli.timeline.fold import Redo
from yolop_cli.timeline.records import Files, Snapshot
from yolop_cli.trees import private_refs
from yolop_cli.trees import tree_restore as restoring
from yolop_cli.trees.agent_trees import translate
from yolop_cli.trees.capture import capture
from yolop_cli.trees.checkout import Checkout, head_commit
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.tree_plan import Kept, RestorePlan, plan_restore
from yolop_cli.trees.tree_restore import Restored, stage_name
from yolop_cli.trees.verify_restore import put_back, verify
from yolop_cli.trees.worktree_files import Seen


@dataclass(frozen=True)
class GitHome:
    """``Home`` of a session that owns its worktree."""

    one: Held

    @cached_property
    def checkout(self) -> Checkout:
        """The worktree. Raises ``DeniedError`` when the session owns none."""
        return owned_checkout(self.one.git, self.one.session)

    @property
    def root(self) -> Path:
        """See ``Home``."""
        return self.checkout.root

    @cached_property
    def private(self) -> PrivateGit:
        """The session's own git directory."""
        return PrivateGit(self.one.session.capture, self.checkout)

    def holds(self, files: Files) -> bool:
        """See ``Home``."""
        assert isinstance(files, Snapshot)
        present = private_refs.of_session(self.one.git, self.checkout, self.one.session.id)
        return files.reference is None or files.reference in present

    def prepare(self, waiting: WaitingRestore, files: Files) -> tuple[WaitingRestore, FilesPlan]:
        """See ``Home``."""
        assert isinstance(files, Snapshot)
        one, checkout = self.one, self.checkout
        self._check(files)
        raw, through_filters = self._raw_target(files, run_filters=False)
        plan = plan_restore(one.git, self.private, raw, self._undone(waiting.kind))
        reference = one.session.reference(f"recovery_{one.last_sequence}_{secrets.token_hex(4)}")
        git_head = head_commit(one.git, checkout)
        private_refs.create(one.git, checkout, reference, plan.current)
        prepared = replace(
            waiting,
            git_head=git_head,
            target=Target(files.tree, files.capture, raw),
            recovery=Recovery(plan.current, reference),
            changes=tuple(Planned(change.path, change.change) for change in plan.changes),
            plan_digest=plan.digest,
        )
        return prepared, FilesPlan(plan.current, plan.target, plan.kept, through_filters)

    def at_work(self) -> tuple[Writer, ...]:
        """See ``Home``."""
        return writers(self.checkout.root)

    def ready(self, waiting: WaitingRestore) -> Ready:
        """See ``Home``."""
        assert isinstance(waiting.target, Target)
        if head_commit(self.one.git, self.checkout) != waiting.git_head:
            raise StaleError("a commit or checkout happened since the preview", hint=AGAIN)
        snapshot = Snapshot(waiting.target.tree, None, waiting.target.capture)
        self._check(snapshot)
        self._check_recovery(waiting)
        plan, expected = self._same_plan(waiting, snapshot)
        stage = stage_name(waiting.token)
        target = replace(waiting.target, raw_tree=plan.target)
        marked = replace(waiting, phase="applying", stage=stage, target=target)

        def carry_out() -> Restored:
            done = restoring.carry_out(self.one.git, self.private, plan, expected, stage)
            verify(self.one.git, self.private, plan)
            return done

        return Ready(marked, plan.kept, carry_out)

    def take_back(self, waiting: WaitingRestore) -> tuple[Restored, tuple[Kept, ...]]:
        """See ``Home``."""
        assert isinstance(waiting.recovery, Recovery) and isinstance(waiting.target, Target)
        planned = {change.path for change in waiting.changes}
        stage = waiting.stage or stage_name(waiting.token)
        return put_back(
            self.one.git, self.private, planned, waiting.recovery.tree, waiting.target.raw_tree, stage
        )

    def as_redo(self, waiting: WaitingRestore) -> Files:
        """See ``Home``."""
        assert isinstance(waiting.recovery, Recovery) and isinstance(waiting.target, Target)
        return Snapshot(waiting.recovery.tree, waiting.recovery.reference, "raw", waiting.target.raw_tree)

    def used_up(self, waiting: WaitingRestore, redone: Redo | None) -> Recovery | None:
        """See ``Home``.

        The recovery ref of a redo goes only if another ref of the session holds the same tree: else it is
        all that keeps what the redo replaced.
        """
        recovery = waiting.recovery
        assert isinstance(recovery, Recovery)
        drop(self.one, redone.snapshot if redone is not None else None)
        try:
            present = private_refs.of_session(self.one.git, self.checkout, self.one.session.id)
        except StorageError:
            return recovery  # the restore has taken effect; a ref too many is no failure
        if any(tree == recovery.tree and ref != recovery.reference for ref, tree in present.items()):
            drop(self.one, recovery)
            return None
        return recovery

    def _same_plan(
        self, waiting: WaitingRestore, snapshot: Snapshot
    ) -> tuple[RestorePlan, dict[bytes, Seen]]:
        """The plan made again from the files as they are now, which must be the one that was shown.

        What lies at each path is noted before the files are compared, so that a change in between is seen
        when the path is about to be replaced.
        """
        git, undone = self.one.git, self._undone(waiting.kind)
        expected = restoring.look_at(self.private, [change.path for change in waiting.changes])
        raw, unfiltered = self._raw_target(snapshot, run_filters=False)
        plan = plan_restore(git, self.private, raw, undone)
        if plan.digest != waiting.plan_digest:
            raise StaleError("the files changed since the preview", hint=AGAIN)
        if unfiltered:
            raw, _ = self._raw_target(snapshot, run_filters=True)
            plan = plan_restore(git, self.private, raw, undone)
        return plan, expected

    def _check(self, snapshot: Snapshot) -> None:
        """Whether a recorded snapshot is the session's own and still there.

        Raises ``RefusedError`` for a forged one, ``DeniedError`` for one that was deleted, ``StorageError``
        when its tree is gone.
        """
        one = self.one
        check_reference(one.session, snapshot)
        if snapshot.reference is not None:
            present = private_refs.of_session(one.git, self.checkout, one.session.id).get(snapshot.reference)
            if present is None:
                raise DeniedError(
                    f"the snapshot is gone: there is no ref {snapshot.reference}",
                    hint="rewind the conversation only (--mode conversation)",
                )
            if present != snapshot.tree:
                raise RefusedError(
                    "the snapshot's ref does not hold the tree that was recorded",
                    details={"recorded": snapshot.tree, "found": present},
                )
        kind = one.git.run(self.checkout.real, "cat-file", "-t", snapshot.tree, ok=(0, 128))
        if kind.status != 0:
            raise StorageError(
                f"the tree {snapshot.tree} of the snapshot is not in the repository; nothing was changed",
                hint="see `yolop-cli checkpoint verify`",
            )
        if kind.line() != "tree":
            raise RefusedError(f"the snapshot names a {kind.line()}, not a tree")

    def _check_recovery(self, waiting: WaitingRestore) -> None:
        """Whether the way back is still kept: without it nothing may change. Raises ``StaleError``."""
        assert isinstance(waiting.recovery, Recovery)
        present = private_refs.of_session(self.one.git, self.checkout, self.one.session.id)
        if present.get(waiting.recovery.reference) != waiting.recovery.tree:
            raise StaleError(f"the recovery snapshot is gone: {waiting.recovery.reference}", hint=AGAIN)

    def _undone(self, kind: Kind) -> str | None:
        """For a redo the tree that the restore it takes back had put in place, where the record says it."""
        redo = self.one.state.redo
        taken_back = redo.snapshot if kind == "redo" and redo is not None else None
        return taken_back.restored if taken_back is not None else None

    def _raw_target(self, snapshot: Snapshot, *, run_filters: bool) -> tuple[str, tuple[bytes, ...]]:
        """The tree of exact bytes for a snapshot, and the paths that filters still have to convert."""
        if snapshot.capture == "raw":
            return snapshot.tree, ()
        present = capture(self.one.git, self.private).tree
        translated = translate(self.one.git, self.private, snapshot.tree, present, run_filters=run_filters)
        return translated.tree, translated.unfiltered


def check_reference(session: SessionDirectory, snapshot: Snapshot) -> None:
    """Refuse a snapshot whose ref or tree is not what this session could have recorded."""
    reference = snapshot.reference
    if reference is not None and ids.reference_name(session.id, reference) is None:
        raise RefusedError(f"the snapshot's ref is not one of this session: {reference!r}")
    if not ids.is_object_id(snapshot.tree):
        raise RefusedError(f"the snapshot names no tree: {snapshot.tree!r}")
