"""What a session keeps in the stores of directories, and what of it goes when the session goes.

A snapshot is the session's when it was taken for it, or for one it was forked from and its own records name
it. Those a user made are nobody's. One that another session names stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from yolop_cli import store as snapshots
from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError, YolopError, os_reason
from yolop_cli.session import lineage, restore_file, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.restore_file import Stored
from yolop_cli.store import Interrupted, Manifest, Store
from yolop_cli.timeline import file as timeline_file
from yolop_cli.timeline.records import CheckpointCreated, FileSnapshot, HeadMoved


@dataclass(frozen=True)
class Share:
    """A session's snapshots in the store of one directory: the ids that nobody else needs, and those that
    stay, each with the reason."""

    root: Path
    own: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]


def shares(session: SessionDirectory) -> tuple[Share, ...]:
    """What a session keeps in each store that it works in or names; stores with nothing of it left out.

    Changes nothing. Raises ``StorageError`` when the other sessions cannot be looked at.
    """
    named = _named(session)
    root = workspace.read_or_empty(session.workspace).active_root
    if root is not None and root.is_absolute():
        named.setdefault(paths.resolved(root), set())
    every = set[str]().union(*named.values())  # one that was copied is named as of where it was taken
    found = [_share(session, root, here, every) for root, here in sorted(named.items())]
    return tuple(one for one in found if one.own or one.kept)


@dataclass(frozen=True)
class Upkeep:
    """What is amiss with a session's snapshots in the store of its directory.

    ``unneeded`` are those that no record and no other session names, each with whether another snapshot keeps
    the same files; ``leftovers`` are files of killed commands; ``interrupted`` is a restore that was cut off.
    """

    root: Path
    unneeded: tuple[tuple[str, bool], ...]
    leftovers: int
    interrupted: Interrupted | None


def upkeep(session: SessionDirectory) -> Upkeep | None:
    """What is amiss in the store of the directory a session works in; None without one.

    Changes nothing. Raises ``YolopError`` or ``OSError`` when it cannot be looked at.
    """
    root = workspace.read_or_empty(session.workspace).active_root
    if root is None or not root.is_absolute() or not snapshots.has_store(root):
        return None
    with snapshots.opened(root) as store:
        manifests, _ = snapshots.load_all(store)
        mine = {one.id for one in manifests if _is_of(one, session.id, (), set())}
        record = snapshots.interrupted(store)
        wanted = set(_needed(record)) | lineage.mentioned(session, mine)
        wanted |= lineage.named_by_others(session, mine - wanted).keys()
        kept = {one.tree for one in manifests if one.id in wanted or one.id not in mine}
        unneeded = tuple(
            (one.id, one.tree in kept) for one in manifests if one.id in mine and one.id not in wanted
        )
        restoring = snapshots.is_restoring(store)
        return Upkeep(store.root, unneeded, snapshots.leftovers(store), None if restoring else record)


def tidy(root: Path) -> None:
    """Remove what killed commands left in the store of a directory. Raises ``StorageError``."""
    with snapshots.opened(root) as store:
        snapshots.collect(store, snapshots.load_settings(store.root).grace)


def give_up(root: Path, own: tuple[str, ...]) -> None:
    """Delete snapshots that nobody else needs, then collect what only they used.

    Raises ``BusyError``, ``DeniedError``, ``StorageError``; what is left then is deleted when this is done
    again, and contents that nothing reaches go with any later collection.
    """
    if not own:
        return
    with snapshots.opened(root) as store:
        present = tuple(each for each in own if snapshots.exists(store, each))
        if present:
            snapshots.delete(store, present, snapshots.load_settings(store.root).grace)


def _named(session: SessionDirectory) -> dict[Path, set[str]]:
    """The snapshots that a session's records and its waiting restore name, by directory."""
    found: dict[Path, set[str]] = {}
    for root, name in _references(session):
        place = paths.local(root)
        if place.is_absolute() and "\0" not in root:
            found.setdefault(paths.resolved(place), set()).add(name)
    return found


def _references(session: SessionDirectory) -> Iterator[tuple[str, str]]:
    with suppress(StorageError):  # a session that cannot be read is deleted all the same
        for entry in timeline_file.load(session).entries:
            match entry.record:
                case CheckpointCreated(file_snapshot=FileSnapshot() as one):
                    yield one.root, one.id
                case HeadMoved(redo_file_snapshot=FileSnapshot() as one):
                    yield one.root, one.id
    with suppress(StorageError):
        waiting = restore_file.read(session)
        for each in (waiting.target, waiting.recovery) if waiting is not None else ():
            if isinstance(each, Stored):
                yield each.root, each.id


def _share(session: SessionDirectory, root: Path, here: set[str], named: set[str]) -> Share:
    try:
        if snapshots.has_store(root):
            with snapshots.opened(root) as store:
                return _in_store(session, store, named)
        why = None if os.path.lexists(root) else f"{paths.show(root)} is not here"
    except OSError as error:
        why = f"cannot look into {paths.show(root)}: {os_reason(error)}"
    except YolopError as error:
        why = error.message
    return Share(root, (), tuple((name, why) for name in sorted(here) if why is not None))


def _in_store(session: SessionDirectory, store: Store, named: set[str]) -> Share:
    manifests, unreadable = snapshots.load_all(store)
    before = lineage.ancestors(session)
    mine = {one.id: one for one in manifests if _is_of(one, session.id, before, named)}
    others = lineage.named_by_others(session, mine)
    needed = _needed(snapshots.interrupted(store))
    kept = {name: why for name, why in unreadable.items() if name in named}
    for name, one in mine.items():
        maker = one.label.session_id
        if name in needed:
            kept[name] = "needed to undo the restore that was interrupted"
        elif name in others:
            kept[name] = f"{others[name]} refers to it"
        elif maker != session.id and os.path.lexists(session.path.with_name(str(maker))):
            kept[name] = f"it was taken for {maker}"
    return Share(store.root, tuple(sorted(mine.keys() - kept.keys())), tuple(sorted(kept.items())))


def _needed(record: Interrupted | None) -> tuple[str, ...]:
    return () if record is None else (record.snapshot_id, record.safety_snapshot_id)


def _is_of(one: Manifest, session_id: str, before: tuple[str, ...], named: set[str]) -> bool:
    if one.label.session_id == session_id:
        return one.origin is None  # a copy of it was made by a user
    return one.id in named and one.label.session_id in before
