"""Mending a store from the files that are still on disk, and from nothing else.

A content or listing that a snapshot needs and the store lost is found again by its hash among the present
files. Damaged packs are set aside in ``damaged/``, never deleted, and what is whole in them is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from yolop_cli.errors import BusyError
from yolop_cli.snapshots.store import disk, locks
from yolop_cli.snapshots.store.contents import ContentReader
from yolop_cli.snapshots.store.gc import rewrite
from yolop_cli.snapshots.store.layout import Store
from yolop_cli.snapshots.store.manifest import Rules
from yolop_cli.snapshots.store.packs import Packs, PackWriter
from yolop_cli.snapshots.store.scan import Scan, Scope, walk
from yolop_cli.snapshots.store.state import NOTHING
from yolop_cli.snapshots.store.trees import encode
from yolop_cli.snapshots.store.verify import Damage, affected, assess, open_to_others

ASIDE = b"damaged"


@dataclass(frozen=True)
class Lost:
    """An object some snapshots need: where they have it, and the present path it can be taken from."""

    object: str
    path: bytes | None
    snapshots: tuple[str, ...]
    source: bytes | None


@dataclass(frozen=True)
class RepairPlan:
    """What can be mended and what cannot. ``aside`` are the packs to be set aside."""

    lost: tuple[Lost, ...]
    aside: tuple[bytes, ...]
    modes: tuple[bytes, ...]
    unreadable: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        return bool(self.aside or self.modes or any(item.source is not None for item in self.lost))

    @property
    def unrepaired(self) -> tuple[Lost, ...]:
        """What no present file can bring back."""
        return tuple(item for item in self.lost if item.source is None)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The snapshots that stay incomplete after the repair."""
        return tuple(sorted({name for item in self.unrepaired for name in item.snapshots}))


def repair(store: Store, *, apply: bool = False) -> RepairPlan:
    """The plan, carried out with ``apply``. Running it again then finds nothing more to do.

    Raises ``BusyError`` while another process works in the store, ``StorageError`` when the system fails.
    """
    with disk.reporting("repair the store"), locks.collecting(store) as alive:
        if alive is None or alive:
            raise BusyError(
                f"another process works in the store of {store.root}",
                hint="wait for it to end, then try again",
            )
        with Packs(store) as packs:
            damage = assess(store, packs)
            sources = _sources(store, damage)
            plan = _plan(store, packs, damage, sources)
            if apply and plan.is_needed:
                _carry_out(store, packs, damage, plan, sources)
            return plan


@dataclass(frozen=True)
class _Sources:
    """Where lost objects were found: the paths of files, and the bytes of listings with their directory."""

    files: dict[str, bytes]
    listings: dict[str, tuple[bytes, bytes]]

    def path(self, digest: str) -> bytes | None:
        if digest in self.files:
            return self.files[digest]
        return self.listings[digest][0] or b"." if digest in self.listings else None


def _sources(store: Store, damage: Damage) -> _Sources:
    wanted, found = set(damage.objects), _Sources({}, {})
    for rules in _rules_of_affected(damage):
        if not wanted - found.files.keys() - found.listings.keys():
            break
        scan = walk(store, Scope(rules), NOTHING)
        for digest, path in _files(scan):
            if digest in wanted:
                found.files.setdefault(digest, path)
        for at in scan.directories:
            if at.tree in wanted:
                found.listings.setdefault(at.tree, (at.path, encode(at.listing())))
    return found


def _rules_of_affected(damage: Damage) -> list[Rules]:
    if not damage.objects:
        return []
    above = damage.reach.bad(damage.objects)
    return list(dict.fromkeys(manifest.rules for manifest in damage.manifests if manifest.tree in above))


def _files(scan: Scan) -> Iterator[tuple[str, bytes]]:
    return ((row[5], at.child(name)) for at in scan.directories for name, row in at.files.items())


def _plan(store: Store, packs: Packs, damage: Damage, sources: _Sources) -> RepairPlan:
    lost = []
    for digest in sorted(damage.objects):
        snapshots, path = affected(damage, digest)
        lost.append(Lost(digest, path, snapshots, sources.path(digest)))
    aside = {*damage.packs, *(packs.objects[digest].pack for digest in damage.damaged)}
    return RepairPlan(
        tuple(lost),
        tuple(sorted(aside)),
        tuple(path for path, _ in open_to_others(store)),
        tuple(sorted(damage.unreadable)),
    )


def _carry_out(store: Store, packs: Packs, damage: Damage, plan: RepairPlan, sources: _Sources) -> None:
    """What is whole and what was found is durable before a damaged pack is moved aside."""
    for name in plan.aside:
        keep = {
            digest: at
            for digest, at in packs.objects.items()
            if at.pack == name and digest not in damage.damaged
        }
        if keep:
            rewrite(store, packs, keep, os.stat(name, dir_fd=store.packs).st_mtime_ns)
    with PackWriter(store, _Without(store, packs, damage)) as writer:
        reader = ContentReader(writer)
        for path in sources.files.values():
            parent, _, name = path.rpartition(b"/")
            with disk.directory(parent, store.root_fd) as at:
                reader.read(name, at, None)
        for digest, (_, data) in sources.listings.items():
            writer.add(digest, data)
        writer.finish()
    _set_aside(store, plan.aside)
    for path in plan.modes:
        parent, _, name = path.rpartition(b"/")
        with disk.directory(parent, store.base) as at:
            fd = os.open(name or b".", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
            try:
                disk.set_mode(fd, 0o700 if stat.S_ISDIR(os.fstat(fd).st_mode) else 0o600)
            finally:
                os.close(fd)


class _Without(Packs):
    """The objects of a store but for those that are damaged or missing."""

    def __init__(self, store: Store, packs: Packs, damage: Damage):
        super().__init__(store)
        self._packs, self._lost = packs, damage.objects.keys()

    def has(self, digest: str, size: int) -> bool:
        return digest not in self._lost and self._packs.has(digest, size)


def _set_aside(store: Store, packs: tuple[bytes, ...]) -> None:
    if not packs:
        return
    try:
        disk.make_directory(ASIDE, store.base)
    except FileExistsError:
        pass
    fd = disk.open_directory(ASIDE, store.base)
    try:
        for name in packs:
            disk.rename(name, store.packs, name, fd)
        disk.sync(fd)
        disk.sync(store.packs)
    finally:
        os.close(fd)
