"""Copying a snapshot with everything it reaches into the store of another directory."""

from __future__ import annotations

from dataclasses import dataclass

from yolop_cli.ground.errors import RefusedError, UsageError
from yolop_cli.store import disk, locks, manifest
from yolop_cli.store.layout import Store, advise
from yolop_cli.store.manifest import Manifest
from yolop_cli.store.packs import DamagedError, Packs, PackWriter
from yolop_cli.store.reach import Reach


@dataclass(frozen=True)
class Copied:
    """The snapshot as the other store has it, and what had to be written there."""

    manifest: Manifest
    objects: int
    stored_bytes: int
    already_there: bool


def copy(source: Store, snapshot: Manifest, target: Store, *, dry_run: bool = False) -> Copied:
    """Give ``target`` a snapshot of ``source`` under the same id, with where it came from as its ``origin``.

    Every object is checked against its hash on the way. Raises ``StorageError`` when one is missing or
    damaged, ``RefusedError`` when the target has another snapshot of that id; then nothing was copied.
    """
    if source.root == target.root:
        raise UsageError("a snapshot cannot be copied into the store it is in")
    try:
        return _copied(source, snapshot, target, dry_run=dry_run)
    except DamagedError as error:
        advise(error, source.root)
        raise


def plan_copy(source: Store, snapshot: Manifest) -> Copied:
    """What copying into a directory without a store would write. Raises as ``copy``."""
    with disk.reporting("plan the copy"), locks.working(source, "copy"), Packs(source) as have:
        reach = _reach(snapshot, have)
        for digest in reach.objects:
            _check(have, digest)
        stored = sum(have.objects[digest].stored for digest in reach.objects)
        return Copied(snapshot, len(reach.objects), stored, already_there=False)


def _copied(source: Store, snapshot: Manifest, target: Store, *, dry_run: bool) -> Copied:
    with disk.reporting("copy the snapshot", "it was not copied"):
        with locks.working(source, "copy"), locks.working(target, "copy"):
            with Packs(source) as have, Packs(target) as there:
                return _copy(snapshot, target, have, there, dry_run=dry_run)


def _copy(snapshot: Manifest, target: Store, have: Packs, there: Packs, *, dry_run: bool) -> Copied:
    made = manifest.moved(snapshot, target)
    if manifest.exists(target, snapshot.id):
        present = manifest.load(target, snapshot.id)
        if present.tree != snapshot.tree:
            raise RefusedError(f"{target.root} has another snapshot {snapshot.id}")
        return Copied(present, 0, 0, already_there=True)
    reach = _reach(snapshot, have)
    missing = [digest for digest in sorted(reach.objects) if not _has(have, there, digest)]
    with PackWriter(target, there) as writer:
        for digest in missing:
            _check(have, digest)
            location = have.objects[digest]
            if not dry_run:
                writer.add_stored(digest, have.stored_bytes(location), location.size, location.codec)
        if not dry_run:
            writer.finish()
            manifest.save(target, made)
        stored = sum(have.objects[digest].stored for digest in missing)
        return Copied(made, len(missing), stored, already_there=False)


def _reach(snapshot: Manifest, have: Packs) -> Reach:
    reach = Reach(have)
    reach.add(snapshot.tree)
    for digest, why in reach.broken.items():
        raise DamagedError(why, details={"object": digest})
    return reach


def _check(have: Packs, digest: str) -> None:
    for _ in have.stream(digest):  # the hash is compared after the last chunk
        pass


def _has(have: Packs, there: Packs, digest: str) -> bool:
    location = have.objects.get(digest)
    return location is not None and there.has(digest, location.size)
