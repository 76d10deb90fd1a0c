"""Snapshots in the store of the directory that a session works in, when it owns no worktree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from yolop_cli import store as snapshots
from yolop_cli.ground.errors import DeniedError, RefusedError, StaleError, YolopError
from yolop_cli.ground.processes import Writer, writers
from yolop_cli.homes import session_store
from yolop_cli.homes.held import Held, drop
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.homes.protocol import AGAIN, FilesPlan, Ready
from yolop_cli.session import overlap
from yolop_cli.session.restore_file import Planned, Stored, WaitingRestore
from yolop_cli.store import Label, Manifest, Store
from yolop_cli.timeline.fold import Redo
from yolop_cli.timeline.records import Files, FileSnapshot
from yolop_cli.trees.tree_plan import Kept
from yolop_cli.trees.tree_restore import Restored


@dataclass(frozen=True)
class StoreHome:
    """``Home`` of a session that owns no worktree."""

    one: Held

    @property
    def root(self) -> Path:
        """See ``Home``."""
        return session_store.root_of(self.one.session)

    def holds(self, files: Files) -> bool:
        """See ``Home``. A snapshot that cannot be believed counts as there, so that it is refused by name."""
        assert isinstance(files, FileSnapshot)
        with session_store.opened(self.one.session) as store:
            return not snapshots.is_snapshot_id(files.id) or snapshots.exists(store, files.id)

    def prepare(self, waiting: WaitingRestore, files: Files) -> tuple[WaitingRestore, FilesPlan]:
        """See ``Home``."""
        assert isinstance(files, FileSnapshot)
        with session_store.opened(self.one.session) as store:
            root = session_store.recordable(store.root)
            target = self._believed(store, waiting, files)
            label = Label(f"before a {waiting.kind}", self.one.session.id, waiting.checkpoint_id)
            prepared = snapshots.prepare(store, target, snapshots.load_settings(store.root), label)
            plan, safety = prepared.plan, prepared.safety
            assert safety is not None
            prepared_restore = replace(
                waiting,
                target=Stored(files.id, files.workspace_id, files.root, plan.target_tree),
                recovery=Stored(safety.id, store.workspace_id, root, plan.current_tree),
                changes=tuple(Planned(change.path, change.change) for change in plan.changes),
            )
            return prepared_restore, FilesPlan(plan.current_tree, plan.target_tree, _kept(plan.kept))

    def at_work(self) -> tuple[Writer, ...]:
        """See ``Home``. Two sessions overlap when the root of one holds that of the other."""
        one = self.one
        overlap.refuse_at_work(self.root, one.session.path.parent, but=one.session)
        return writers(self.root)

    def ready(self, waiting: WaitingRestore) -> Ready:
        """See ``Home``."""
        with session_store.opened(self.one.session) as store:
            target, safety = self._both(store, waiting)
            plan = snapshots.plan_restore(store, target, snapshots.load_settings(store.root))
            if (plan.current_tree, plan.target_tree) != (safety.tree, _stored(waiting.target).tree):
                raise StaleError("the files changed since the preview", hint=AGAIN)
        marked = replace(waiting, phase="applying")
        return Ready(marked, _kept(plan.kept), lambda: self._carry_out(waiting))

    def take_back(self, waiting: WaitingRestore) -> tuple[Restored, tuple[Kept, ...]]:
        """See ``Home``."""
        planned = {change.path for change in waiting.changes}
        with session_store.opened(self.one.session) as store:
            plan = snapshots.take_back(store, *self._both(store, waiting), planned)
        return Restored(plan.restored, plan.deleted), _kept(plan.kept)

    def as_redo(self, waiting: WaitingRestore) -> Files:
        """See ``Home``."""
        return _recorded(_stored(waiting.recovery))

    def used_up(self, waiting: WaitingRestore, redone: Redo | None) -> Stored | None:
        """See ``Home``. What the redo replaced stays only while nothing else has exactly those files."""
        drop(self.one, redone.file_snapshot if redone is not None else None)
        recovery = _stored(waiting.recovery)
        try:
            with session_store.opened(self.one.session) as store:
                others = [one for one in snapshots.load_all(store)[0] if one.id != recovery.id]
        except YolopError:
            return recovery  # the restore has taken effect; a snapshot too many is no failure
        if any(one.tree == recovery.tree and one.label.session_id == self.one.session.id for one in others):
            drop(self.one, recovery)
            return None
        return recovery

    def _carry_out(self, waiting: WaitingRestore) -> Restored:
        with session_store.opened(self.one.session) as store:
            target, safety = self._both(store, waiting)
            plan = snapshots.carry_out(store, target, safety, snapshots.load_settings(store.root))
        return Restored(plan.restored, plan.deleted)

    def _both(self, store: Store, waiting: WaitingRestore) -> tuple[Manifest, Manifest]:
        """The snapshots a prepared restore leads to and from."""
        recovery = _recorded(_stored(waiting.recovery))
        if not snapshots.exists(store, recovery.id):
            raise StaleError(f"the recovery snapshot is gone: {recovery.id}", hint=AGAIN)
        target = self._believed(store, waiting, _recorded(_stored(waiting.target)))
        return target, session_store.of_restore(store, self.one.session, recovery)

    def _believed(self, store: Store, waiting: WaitingRestore, files: FileSnapshot) -> Manifest:
        """The snapshot to go to, checked against what this session can have recorded."""
        one = self.one
        try:
            owned_checkout(one.git, one.session)
        except DeniedError:
            pass
        else:
            raise RefusedError("the session owns a worktree, so its files are not kept in a store")
        if waiting.kind == "redo":
            return session_store.of_restore(store, one.session, files)
        assert waiting.checkpoint_id is not None
        return session_store.of_checkpoint(store, one.session, waiting.checkpoint_id, files)


def _stored(files: object) -> Stored:
    assert isinstance(files, Stored)
    return files


def _recorded(stored: Stored) -> FileSnapshot:
    return FileSnapshot(stored.id, stored.workspace_id, stored.root)


def _kept(kept: tuple[snapshots.Kept, ...]) -> tuple[Kept, ...]:
    return tuple(Kept(one.path, one.why) for one in kept)
