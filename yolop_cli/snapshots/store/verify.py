"""Is every snapshot whole? Looks, says what is wrong and how to mend it, and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from yolop_cli.errors import StorageError
from yolop_cli.snapshots.store import disk, locks
from yolop_cli.snapshots.store.layout import Store
from yolop_cli.snapshots.store.manifest import Manifest, load_all
from yolop_cli.snapshots.store.packs import Packs
from yolop_cli.snapshots.store.reach import Reach
from yolop_cli.snapshots.store.restore import interrupted

ERROR, WARNING = "error", "warning"
REPAIR = "snapshot repair --apply"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: a stable code, what it is about, the snapshots it spoils, and the cure."""

    code: str
    severity: str
    message: str
    object: str | None = None
    path: bytes | None = None
    snapshots: tuple[str, ...] = ()
    fix: str | None = None


@dataclass(frozen=True)
class Verified:
    """What was looked at and what was found. ``ok`` when no finding is an error."""

    snapshots: int
    objects: int
    bytes_read: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(finding.severity != ERROR for finding in self.findings)


@dataclass(frozen=True)
class Damage:
    """The objects that snapshots need and that are missing or damaged, with what is wrong with each."""

    manifests: tuple[Manifest, ...]
    unreadable: dict[str, str]
    packs: dict[bytes, str]
    objects: dict[str, str]
    damaged: frozenset[str]
    reach: Reach
    bytes_read: int


def verify(
    store: Store, *, quick: bool = False, progress: Callable[[int, int], None] | None = None
) -> Verified:
    """Check every manifest against its trees and every object against its hash.

    ``quick`` reads the listings but not the contents: it sees what is missing, not what rotted. Raises
    ``BusyError`` when a collection does not end in time.
    """
    with disk.reporting("verify the store"), locks.working(store, "verify"), Packs(store) as packs:
        damage = assess(store, packs, quick=quick, progress=progress)
        findings = (*_of_damage(damage), *_of_store(store))
        return Verified(len(damage.manifests), len(damage.reach.objects), damage.bytes_read, findings)


def assess(
    store: Store,
    packs: Packs,
    *,
    quick: bool = False,
    instead: Mapping[str, bytes] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Damage:
    """Everything that is wrong with the objects of the store; ``instead`` as for ``Reach``."""
    manifests, unreadable = load_all(store)
    reach = Reach(packs, instead or {})
    for manifest in manifests:
        reach.add(manifest.tree)
    objects = dict(reach.broken)
    damaged = {digest for digest in reach.broken if digest in packs.objects}
    read = 0
    for done, (digest, size) in enumerate(sorted(reach.blobs.items()), 1):
        if not packs.has(digest, size):
            objects[digest] = f"the store lacks the object {digest}"
        elif not quick:
            try:
                read += sum(len(chunk) for chunk in packs.stream(digest))
            except StorageError as error:
                objects[digest] = error.message
                damaged.add(digest)
        if progress is not None:
            progress(done, len(reach.blobs))
    return Damage(tuple(manifests), unreadable, dict(packs.damaged), objects, frozenset(damaged), reach, read)


def _of_damage(damage: Damage) -> Iterator[Finding]:
    for snapshot_id, why in sorted(damage.unreadable.items()):
        fix = f"snapshot delete {snapshot_id}"
        yield Finding("manifest-damaged", ERROR, why, snapshots=(snapshot_id,), fix=fix)
    for pack, why in sorted(damage.packs.items()):
        yield Finding("pack-damaged", ERROR, why, object=pack.decode(), fix=REPAIR)
    for digest, why in sorted(damage.objects.items()):
        spoiled, path = affected(damage, digest)
        kind = "tree" if digest in damage.reach.broken else "blob"
        code = f"{kind}-damaged" if digest in damage.damaged else f"{kind}-missing"
        yield Finding(code, ERROR, why, digest, path, spoiled, REPAIR)


def affected(damage: Damage, digest: str) -> tuple[tuple[str, ...], bytes | None]:
    """The snapshots that need an object, and a path at which one of them has it."""
    above = damage.reach.bad((digest,))
    spoiled = [manifest for manifest in damage.manifests if manifest.tree in above]
    path = above[spoiled[0].tree][0] if spoiled else None
    return tuple(manifest.id for manifest in spoiled), path


def _of_store(store: Store) -> Iterator[Finding]:
    record = interrupted(store)
    if record is not None:
        yield Finding(
            "restore-interrupted",
            WARNING,
            f"restoring {record.snapshot_id} was cut off: some files are its, some are as they were before",
            snapshots=(record.safety_snapshot_id,),
            fix=f"snapshot restore {record.safety_snapshot_id}",
        )
    for path, mode in open_to_others(store):
        message = f"{path.decode(errors='replace')} has mode {mode:04o}: others may read or write it"
        yield Finding("mode", WARNING, message, path=path, fix=REPAIR)


def open_to_others(store: Store) -> Iterator[tuple[bytes, int]]:
    """The files and directories of the store that are not the owner's alone, with their modes."""
    parts = (
        (b"", store.base),
        (b"manifests", store.manifests),
        (b"packs", store.packs),
        (b"tmp", store.tmp),
    )
    for prefix, fd in parts:
        for name in (b".", *map(os.fsencode, os.listdir(fd))):
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if status.st_mode & 0o077 and not stat.S_ISLNK(status.st_mode):
                yield os.path.normpath(os.path.join(prefix, name)), stat.S_IMODE(status.st_mode)
