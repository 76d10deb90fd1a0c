"""Mending a store from the files that are still on disk, and from nothing else.

A content or listing that a snapshot needs and the store lost is found again by its hash among the present
files. Damaged packs are set aside in ``damaged/``, never deleted, and what is whole in them is kept.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from yolop_cli.ground.errors import BusyError
from yolop_cli.store import disk, locks
from yolop_cli.store.file_reader import ContentReader
from yolop_cli.store.gc import rewrite
from yolop_cli.store.identity import is_kept
from yolop_cli.store.last_state import NOTHING
from yolop_cli.store.layout import Store, keep_identity
from yolop_cli.store.listing import encode
from yolop_cli.store.manifest import Manifest
from yolop_cli.store.packs import Packs, PackWriter
from yolop_cli.store.verify import Damage, affected, assess, by_hand, open_to_others
from yolop_cli.store.walk import Scope, walk

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
    """What can be mended and what cannot.

    ``aside`` are the packs to be set aside, ``config`` says that ``config.json`` is gone and is written
    again, ``by_hand`` says what else is wrong and what to do about it.
    """

    lost: tuple[Lost, ...]
    aside: tuple[bytes, ...]
    modes: tuple[bytes, ...]
    unreadable: tuple[str, ...]
    config: bool = False
    by_hand: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        found = any(item.source is not None for item in self.lost)
        return bool(self.aside or self.modes or self.config or found)

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
    with (
        disk.reporting("repair the store", "run the command again to continue"),
        locks.collecting(store) as alive,
    ):
        if alive is None or alive:
            raise BusyError(
                f"another process works in the store of {store.root}",
                hint="wait for it to end, then try again",
            )
        with Packs(store) as packs:
            damage, present = assess(store, packs), _Present({}, {})
            if damage.objects:
                present = _look(store, damage.manifests)
                damage = assess(store, packs, instead=present.listings)
            plan = _plan(store, packs, damage, present)
            if apply and plan.is_needed:
                _carry_out(store, packs, damage, plan, present)
            return plan


@dataclass(frozen=True)
class _Present:
    """What the present files could give back: a path for each content, the bytes of each listing."""

    files: dict[str, bytes]
    listings: dict[str, bytes]

    def source(self, digest: str, wanted_at: bytes | None) -> bytes | None:
        if digest in self.listings:
            return wanted_at or b"."
        return self.files.get(digest)


def _look(store: Store, manifests: Iterable[Manifest]) -> _Present:
    """Read every file, once for each set of rules that snapshots were taken by: listings depend on them."""
    present = _Present({}, {})
    for rules in dict.fromkeys(manifest.rules for manifest in manifests):
        for at in walk(store, Scope(rules), NOTHING).directories:
            present.listings.setdefault(at.tree, encode(at.listing()))
            for name, row in at.files.items():
                present.files.setdefault(row[5], at.child(name))
    return present


def _plan(store: Store, packs: Packs, damage: Damage, present: _Present) -> RepairPlan:
    lost = []
    for digest in sorted(damage.objects):
        snapshots, path = affected(damage, digest)
        lost.append(Lost(digest, path, snapshots, present.source(digest, path)))
    files = (name for name in damage.packs if disk.foreign(name, store.packs) is None)
    aside = {*files, *(packs.objects[digest].pack for digest in damage.damaged)}
    return RepairPlan(
        tuple(lost),
        tuple(sorted(aside)),
        tuple(path for path, _ in open_to_others(store)),
        tuple(sorted(damage.unreadable)),
        not is_kept(store.base),
        tuple(by_hand(store, damage)),
    )


def _carry_out(store: Store, packs: Packs, damage: Damage, plan: RepairPlan, present: _Present) -> None:
    """What is whole and what was found is durable before a damaged pack goes; it stays in ``damaged/``.

    A new pack can have the name of the one it replaces.
    """
    keep_identity(store)
    _link_aside(store, plan.aside)
    written: set[bytes] = set()
    for name in plan.aside:
        whole = {
            digest: at
            for digest, at in packs.objects.items()
            if at.pack == name and digest not in damage.damaged
        }
        if whole:
            written.update(rewrite(store, packs, whole, os.stat(name, dir_fd=store.packs).st_mtime_ns))
    written.update(_store_found(store, packs, damage, plan, present))
    for name in plan.aside:
        if name not in written:
            disk.unlink(name, store.packs)
    disk.sync(store.packs)
    for path in plan.modes:
        _close_to_others(store, path)


def _store_found(
    store: Store, packs: Packs, damage: Damage, plan: RepairPlan, present: _Present
) -> list[bytes]:
    with PackWriter(store, _Without(store, packs, damage)) as writer:
        reader = ContentReader(writer)
        for item in plan.lost:
            if item.object in present.listings:
                writer.add(item.object, present.listings[item.object])
            elif item.source is not None:
                parent, _, name = item.source.rpartition(b"/")
                with disk.directory(parent, store.root_fd) as at:
                    reader.read(name, at, None)
        writer.finish()
        return writer.finished


def _close_to_others(store: Store, path: bytes) -> None:
    parent, _, name = path.rpartition(b"/")
    with disk.directory(parent, store.base) as at:
        fd = disk.open_file(name, at)
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


def _link_aside(store: Store, packs: tuple[bytes, ...]) -> None:
    if not packs:
        return
    try:
        disk.make_directory(ASIDE, store.base)
    except FileExistsError:
        pass
    fd = disk.open_directory(ASIDE, store.base)
    try:
        for name in packs:
            try:
                disk.link(name, store.packs, name, fd)
            except FileExistsError:  # set aside by a repair that was cut off
                pass
        disk.sync(fd)
    finally:
        os.close(fd)
