"""Is every snapshot whole? Looks, says what is wrong and how to mend it, and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from yolop_cli.ground.errors import StorageError
from yolop_cli.store import disk, locks
from yolop_cli.store.identity import CONFIG, command, is_kept
from yolop_cli.store.last_state import STATE
from yolop_cli.store.layout import MANIFESTS, PACKS, TMP, Store
from yolop_cli.store.manifest import Manifest, cure_of, is_deletable, load_all, path_of
from yolop_cli.store.packs import Packs, names
from yolop_cli.store.reach import Reach
from yolop_cli.store.snapshot_restore import RESTORING, interrupted

ERROR, WARNING = "error", "warning"


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
    # What is in the place of the lock keeps collections out too: there is nothing to keep out.
    unlockable = any(path == locks.GC_PATH for path, _ in locks.foreign(store))
    with (
        disk.reporting("verify the store"),
        nullcontext() if unlockable else locks.working(store, "verify"),
        Packs(store) as packs,
    ):
        damage = assess(store, packs, quick=quick, progress=progress)
        findings = (*_of_damage(store, damage), *_of_store(store))
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


def _of_damage(store: Store, damage: Damage) -> Iterator[Finding]:
    fix = _fix(store, "repair", "--apply")
    for snapshot_id, why in sorted(damage.unreadable.items()):
        path, deletable = os.fsencode(path_of(snapshot_id)), is_deletable(store, snapshot_id)
        delete = _fix(store, "delete", snapshot_id) if deletable else None
        words = why if deletable else f"{why}; {cure_of(store, snapshot_id)}"
        yield Finding("manifest-damaged", ERROR, words, path=path, snapshots=(snapshot_id,), fix=delete)
    for pack, why in sorted(damage.packs.items()):
        if disk.foreign(pack, store.packs) is None:
            yield Finding("pack-damaged", ERROR, why, object=pack.decode(), fix=fix)
    for digest, why in sorted(damage.objects.items()):
        spoiled, at = affected(damage, digest)
        kind = "tree" if digest in damage.reach.broken else "blob"
        code = f"{kind}-damaged" if digest in damage.damaged else f"{kind}-missing"
        yield Finding(code, ERROR, why, digest, at, spoiled, fix)


def _fix(store: Store, verb: str, *words: str) -> str:
    return command(store.root, verb, *words).removeprefix("yolop-cli ")


def by_hand(store: Store, damage: Damage) -> Iterator[str]:
    """What no repair mends, with what to do about it: damaged manifests, and what does not belong here."""
    for snapshot_id, why in sorted(damage.unreadable.items()):
        cure = cure_of(store, snapshot_id)
        if is_deletable(store, snapshot_id):
            cure = f"`{command(store.root, 'delete', snapshot_id)}` removes it"
        yield f"{why}; {cure}"
    for _, words in foreign(store):
        yield words


def foreign(store: Store) -> Iterator[tuple[bytes, str]]:
    """Whatever is no file where the store keeps one, but for manifests: its path in the store, and words."""
    found = list(locks.foreign(store))
    places = [(b"", store.base, name) for name in (RESTORING, STATE)]
    places += [(b"packs/", store.packs, name) for name in names(store)]
    for prefix, at, name in places:
        kind = disk.foreign(name, at)
        if kind is not None:
            found.append((prefix + name, kind))
    for path, kind in found:
        yield path, f"{path.decode()} is {kind} and not a file of the store: move it away"


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
            f"the restore of {record.snapshot_id} was interrupted: some files are restored, others are not",
            snapshots=(record.safety_snapshot_id,),
            fix=_fix(store, "restore", record.safety_snapshot_id),
        )
    for path, mode in open_to_others(store):
        message = f"{path.decode(errors='replace')} has mode {mode:04o}: others may read or write it"
        yield Finding("mode", WARNING, message, path=path, fix=_fix(store, "repair", "--apply"))
    for path, words in foreign(store):
        yield Finding("foreign", ERROR, words, path=path)
    if not is_kept(store.base):
        message = "config.json is gone; its workspace id is known from the manifests"
        fix = _fix(store, "repair", "--apply")
        yield Finding("config-missing", WARNING, message, path=CONFIG, fix=fix)


def open_to_others(store: Store) -> Iterator[tuple[bytes, int]]:
    """The files and directories of the store that are not the owner's alone, with their modes."""
    parts = [(b"", store.base)]
    parts += [(name, store.parts[name]) for name in (MANIFESTS, PACKS, TMP) if name in store.parts]
    for prefix, fd in parts:
        for name in (b".", *map(os.fsencode, os.listdir(fd))):
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if status.st_mode & 0o077 and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                yield os.path.normpath(os.path.join(prefix, name)), stat.S_IMODE(status.st_mode)
