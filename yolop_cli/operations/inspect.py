"""Look at the snapshots of a session without changing anything: views, trees, differences, content.

No lock is taken and nothing is written into the session or the repository, so that looking works while the
agent runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from yolop_cli.ground import ids
from yolop_cli.ground.errors import DeniedError, NotFoundError, RefusedError, StorageError, YolopError
from yolop_cli.ground.git import Git, Where
from yolop_cli.homes.ownership import owned_checkout
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline.file import Timeline
from yolop_cli.timeline.records import CheckpointCreated, FileSnapshot, Snapshot
from yolop_cli.timeline.view import CheckpointView, WorkspaceView, recorded, view
from yolop_cli.trees import private_refs, selection, tree
from yolop_cli.trees.checkout import Checkout
from yolop_cli.trees.extract import Source
from yolop_cli.trees.tree import Entry

if TYPE_CHECKING:
    from yolop_cli.homes.stored_files import StoredFiles

SNAPSHOT_GONE = "its snapshot was deleted"


@dataclass(frozen=True)
class Inspection:
    """A session being looked at. Git is asked only when a snapshot matters."""

    git: Git
    session: SessionDirectory
    timeline: Timeline

    @cached_property
    def checkout(self) -> Checkout:
        """The worktree the session owns. Raises ``DeniedError``, ``StorageError``."""
        return owned_checkout(self.git, self.session)

    @cached_property
    def references(self) -> dict[str, str]:
        """The session's refs: full name to object id."""
        return private_refs.of_session(self.git, self.checkout, self.session.id)

    @property
    def where(self) -> Where:
        """The repository, for reading."""
        return self.checkout.real

    def views(self, *, all_branches: bool) -> list[CheckpointView]:
        """The checkpoints, newest first: of the active branch, or all of them."""
        state = self.timeline.state
        chosen = list(state.nodes) if all_branches else [one for one in state.nodes if one in state.live]
        return [view(state, one, self.workspace_of) for one in reversed(chosen)]

    def view(self, checkpoint_id: str) -> CheckpointView:
        """One checkpoint. Raises ``NotFoundError``."""
        self.checkpoint(checkpoint_id)
        return view(self.timeline.state, checkpoint_id, self.workspace_of)

    def checkpoint(self, checkpoint_id: str) -> CheckpointCreated:
        """The record of a checkpoint. Raises ``NotFoundError``."""
        node = self.timeline.state.nodes.get(checkpoint_id)
        if node is None:
            raise NotFoundError(
                f"no checkpoint {checkpoint_id!r} in {self.session.id}",
                hint="see `yolop-cli checkpoint list --all-branches`",
            )
        return node.checkpoint

    def workspace_of(self, checkpoint: CheckpointCreated) -> WorkspaceView:
        """What a checkpoint holds of the files, and whether it is still there."""
        said = recorded(checkpoint)
        if checkpoint.files is None:
            return said
        if isinstance(checkpoint.files, FileSnapshot):
            from yolop_cli.homes import session_store

            reason = session_store.why_not(self.session, checkpoint)
        else:
            reason = self._why_not(checkpoint.files)
        return said if reason is None else replace(said, available=False, reason=reason)

    def tree_of(self, checkpoint_id: str) -> tuple[CheckpointCreated, Snapshot]:
        """A checkpoint and its snapshot, which is the session's own and there. Raises ``DeniedError``."""
        checkpoint = self.checkpoint(checkpoint_id)
        snapshot = checkpoint.snapshot
        reason = recorded(checkpoint).reason if snapshot is None else self._why_not(snapshot)
        if snapshot is None or reason is not None:
            raise DeniedError(f"{checkpoint_id} holds no files: {reason}")
        if not ids.is_object_id(snapshot.tree):
            raise RefusedError(f"the snapshot names no tree: {snapshot.tree!r}")
        kind = self.git.run(self.where, "cat-file", "-t", snapshot.tree, ok=(0, 128))
        if kind.status != 0 or kind.line() != "tree":
            raise StorageError(
                f"the tree {snapshot.tree} of {checkpoint_id} is not in the repository",
                hint="see `yolop-cli checkpoint verify`",
            )
        return checkpoint, snapshot

    def entries(self, checkpoint_id: str, wanted: list[bytes]) -> list[Entry]:
        """The files and links of a snapshot: all, or those at and below the paths wanted.

        Raises ``NotFoundError`` for a path that the snapshot does not hold.
        """
        return selection.select(self._held(checkpoint_id), wanted, checkpoint_id)

    def _held(self, checkpoint_id: str) -> list[Entry]:
        stored = self.stored(checkpoint_id)
        if stored is not None:
            return stored.entries()
        _, snapshot = self.tree_of(checkpoint_id)
        found = tree.entries(self.git, self.where, snapshot.tree)
        return [entry for entry in found if entry.mode != tree.SUBMODULE]

    def source(self, checkpoint_id: str) -> Source:
        """What streams the content of a checkpoint's entries. Raises ``StorageError`` when it is called."""
        stored = self.stored(checkpoint_id)
        if stored is not None:
            return stored.with_content
        return lambda wanted, use: tree.with_content(self.git, self.where, wanted, use)

    def stored(self, checkpoint_id: str) -> StoredFiles | None:
        """The files of a checkpoint that is kept in a store, else None. Raises ``NotFoundError``."""
        checkpoint = self.checkpoint(checkpoint_id)
        if not isinstance(checkpoint.files, FileSnapshot):
            return None
        from yolop_cli.homes.stored_files import StoredFiles

        return StoredFiles(self.session, checkpoint)

    @property
    def root(self) -> Path:
        """The directory whose files the session's checkpoints hold. Raises ``DeniedError``."""
        try:
            return self.checkout.root
        except DeniedError:
            from yolop_cli.homes import session_store

            return session_store.root_of(self.session)

    def relative(self, text: str) -> bytes:
        """A path given by the user as the snapshot spells it: below the root, no dot components."""
        return selection.relative(text, lambda: self.root)

    def _why_not(self, snapshot: Snapshot) -> str | None:
        """Why a recorded snapshot cannot be used, or None when it can."""
        if snapshot.reference is None:
            return None
        if ids.reference_name(self.session.id, snapshot.reference) is None:
            return "its ref is not one of this session"
        try:
            found = self.references.get(snapshot.reference)
        except YolopError as error:
            return error.message
        if found is None:
            return SNAPSHOT_GONE
        return None if found == snapshot.tree else "its ref holds another tree than the one recorded"
