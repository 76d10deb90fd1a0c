"""The store that keeps a session's files when it owns no worktree: the one of its active root.

A journal is only believed as far as the store agrees: a recorded snapshot counts when its manifest is there
and was made for this session, this checkpoint and this directory.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from yolop_cli import store as snapshots
from yolop_cli.ground import paths
from yolop_cli.ground.errors import DeniedError, NotFoundError, RefusedError, StorageError, YolopError
from yolop_cli.homes import directory_snapshots
from yolop_cli.session import lineage, overlap, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.store import Label, Manifest, Reference, Store
from yolop_cli.timeline.records import CheckpointCreated, FileSnapshot

_HINT = "rewind the conversation only (--mode conversation)"


def root_of(session: SessionDirectory) -> Path:
    """The directory that the session works in, links followed.

    Raises ``DeniedError`` when it names none, or one that holds the sessions or lies among them: going back
    in time would then take the journals along.
    """
    metadata = workspace.read(session.workspace)
    if metadata is None or metadata.active_root is None or not metadata.active_root.is_absolute():
        raise DeniedError("the session has no active root", hint=_HINT)
    root = paths.resolved(metadata.active_root)
    overlap.refuse_home(root, session.path.parent, hint=_HINT)
    return root


def wants_files(session: SessionDirectory) -> bool:
    """Whether the settings of the session's root ask for snapshots. Raises ``UsageError`` for bad ones."""
    try:
        root = root_of(session)
    except (DeniedError, StorageError):
        return False
    return snapshots.load_settings(root).files


@contextmanager
def opened(session: SessionDirectory) -> Iterator[Store]:
    """The store of the session's root. Raises ``RefusedError`` when there is none, ``DeniedError``."""
    try:
        with snapshots.opened(root_of(session)) as store:
            yield store
    except NotFoundError as error:
        raise RefusedError(f"the file snapshot is refused: {error.message}", hint=_HINT) from None


def take(session: SessionDirectory, checkpoint_id: str) -> FileSnapshot:
    """Take a snapshot of the session's root for a checkpoint; it is durable then.

    Raises ``DeniedError``, ``NotFoundError``, ``StorageError``, ``BusyError``, ``UsageError``.
    """
    root = root_of(session)
    recordable(root)
    label = Label(session_id=session.id, checkpoint_id=checkpoint_id)
    made = directory_snapshots.take(root, label, sessions=session.path.parent).snapshot
    return FileSnapshot(made.id, made.workspace_id, recordable(root))


def recordable(root: Path) -> str:
    """A directory as a journal names it. Raises ``DeniedError`` when its name is not UTF-8."""
    try:
        return os.fsencode(root).decode("utf-8")
    except UnicodeDecodeError:
        raise DeniedError("the name of the directory is not UTF-8, so a journal cannot hold it") from None


def of_checkpoint(
    store: Store, session: SessionDirectory, checkpoint_id: str, recorded: FileSnapshot
) -> Manifest:
    """The snapshot that a checkpoint names, taken for it in this session or in one that it was forked from.

    Raises ``RefusedError`` when it is not.
    """
    sessions = {session.id, *lineage.ancestors(session)}
    return _referred(store, recorded, sessions, {checkpoint_id}, snapshots.SNAPSHOT)


def of_restore(store: Store, session: SessionDirectory, recorded: FileSnapshot) -> Manifest:
    """The safety snapshot that a restore of this session took. Raises ``RefusedError`` as above."""
    return _referred(store, recorded, {session.id}, None, snapshots.SAFETY)


def why_not(session: SessionDirectory, checkpoint: CheckpointCreated) -> str | None:
    """Why the snapshot in the store that a checkpoint names cannot be used, or None when it can."""
    assert checkpoint.file_snapshot is not None
    try:
        with opened(session) as store:
            of_checkpoint(store, session, checkpoint.id, checkpoint.file_snapshot)
    except YolopError as error:
        return error.message
    return None


def delete(session: SessionDirectory, checkpoint_id: str, recorded: FileSnapshot) -> str | None:
    """Delete a checkpoint's own snapshot: its id, or None when it is gone already.

    Raises ``RefusedError`` when it is not the checkpoint's own, is needed to undo a restore, or is shared
    with a session that was forked from this one or that this one was forked from.
    """
    with opened(session) as store:
        if snapshots.is_snapshot_id(recorded.id) and not snapshots.exists(store, recorded.id):
            return None
        found = of_checkpoint(store, session, checkpoint_id, recorded)
        sharing = lineage.named_by_others(session, (found.id,)).get(found.id)
        if sharing is not None:
            raise RefusedError(
                f"{sharing} refers to the same snapshot", hint=f"see: session show -s {sharing}"
            )
        snapshots.delete(store, (found.id,), snapshots.load_settings(store.root).grace)
        return found.id


def why_no_redo(session: SessionDirectory, recorded: FileSnapshot) -> str | None:
    """Why the snapshot that a redo would bring back cannot be used, or None when it can."""
    try:
        with opened(session) as store:
            of_restore(store, session, recorded)
    except YolopError as error:
        return error.message
    return None


def drop(session: SessionDirectory, snapshot_ids: Collection[str]) -> None:
    """Delete safety snapshots of this session that nothing needs any more.

    What cannot be deleted now, or is somebody else's, stays: the retention of the directory takes it later.
    """
    if not snapshot_ids:
        return
    try:
        with opened(session) as store:
            settings = snapshots.load_settings(store.root)
            own = tuple(each for each in snapshot_ids if _is_own_safety(store, session, each))
            if own:
                snapshots.delete(store, own, settings.grace)
    except YolopError:
        pass


def _is_own_safety(store: Store, session: SessionDirectory, snapshot_id: str) -> bool:
    try:
        found = snapshots.load(store, snapshot_id)
    except YolopError:
        return False
    return found.kind == snapshots.SAFETY and found.label.session_id == session.id


def _referred(
    store: Store,
    recorded: FileSnapshot,
    sessions: Collection[str],
    checkpoints: Collection[str] | None,
    kind: str,
) -> Manifest:
    reference = Reference(recorded.id, recorded.workspace_id, paths.local(recorded.root))
    found = snapshots.referred(store, reference, sessions, checkpoints)
    if found.kind != kind:
        raise RefusedError(f"the file snapshot is refused: {found.id} is a {found.kind} snapshot", hint=_HINT)
    return found
