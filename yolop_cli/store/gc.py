"""Mark and sweep: everything a manifest reaches is kept, everything else goes once it is older than the
grace.

A pack that holds both is written anew without what goes, so that a deleted content is really gone. Nothing
is swept while another process works in the store (see locks.py), nor while a manifest cannot be read at
all, since nobody knows what that one reaches.
"""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass, replace

from yolop_cli.store import disk, locks
from yolop_cli.store.layout import TMP, Store
from yolop_cli.store.manifest import load_all
from yolop_cli.store.packs import DamagedError, Location, Packs, PackWriter, names, table
from yolop_cli.store.reach import Reach
from yolop_cli.store.settings import GRACE

_LEFT = "every snapshot is intact; the next collection removes what is left"
_TEMPORARY = re.compile(rb"tmp-[0-9a-f]{16}\Z")


@dataclass(frozen=True)
class PackPlan:
    """A pack in which something is no longer used, and what of it stays."""

    name: bytes
    modified_ns: int
    keep: dict[str, Location]
    drop: dict[str, Location]


@dataclass(frozen=True)
class GcPlan:
    """What a collection would do. ``deferred`` says why it does nothing: who works, what is unreadable."""

    deferred: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    packs: tuple[PackPlan, ...] = ()
    leftovers: tuple[bytes, ...] = ()
    kept: int = 0
    waiting: int = 0

    @property
    def deleted(self) -> int:
        """How many objects go."""
        return sum(len(pack.drop) for pack in self.packs)

    @property
    def freed_bytes(self) -> int:
        """How many bytes they take now."""
        return sum(location.stored for pack in self.packs for location in pack.drop.values())


def collect(store: Store, grace: float = GRACE, *, dry_run: bool = False) -> GcPlan:
    """Remove what no snapshot uses; the plan that was carried out, or only made with ``dry_run``.

    Raises ``StorageError`` when the system fails; what was not removed then is removed by the next
    collection.
    """
    with disk.reporting("collect what no snapshot uses", _LEFT), locks.collecting(store) as alive:
        if alive is None:
            return GcPlan(deferred=("another collection",))
        if alive:
            return GcPlan(deferred=alive)
        with Packs(store) as packs:
            plan = _plan(store, packs, grace)
            if not dry_run and not plan.deferred:
                _sweep(store, packs, plan)
            return plan


def _plan(store: Store, packs: Packs, grace: float) -> GcPlan:
    manifests, unreadable = load_all(store)
    reach = Reach(packs)
    for manifest in manifests:
        reach.add(manifest.tree)
    plan = GcPlan(unreadable=(*sorted(unreadable), *reach.unreadable(manifests)), kept=len(reach.objects))
    if unreadable:
        why = "its manifest cannot be read, so what it uses is not known"
        return replace(plan, deferred=tuple(f"{name}: {why}" for name in sorted(unreadable)))
    pack_plans, waiting = _pack_plans(store, reach.objects, time.time_ns() - int(grace * 1e9))
    return replace(plan, packs=pack_plans, waiting=waiting, leftovers=tuple(_leftovers(store)))


def _pack_plans(store: Store, live: set[str], before_ns: int) -> tuple[tuple[PackPlan, ...], int]:
    """What is to go from each pack, and how much is still too young to go.

    An object that lies in two packs stays in one of them.
    """
    tables: list[tuple[int, bytes, dict[str, Location]]] = []
    for name in names(store):
        try:
            status = os.stat(name, dir_fd=store.packs, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                tables.append((status.st_mtime_ns, name, table(store, name)))
        except (DamagedError, FileNotFoundError):  # left for verify and repair to speak of
            continue
    plans, claimed, waiting = [], set[str](), 0
    for modified, name, objects in sorted(tables, reverse=True):
        keep = {digest: at for digest, at in objects.items() if digest in live and digest not in claimed}
        drop = {digest: at for digest, at in objects.items() if digest not in keep}
        claimed.update(keep)
        if modified >= before_ns:
            waiting += len(drop)
            claimed.update(digest for digest in objects if digest in live)
        elif drop or not objects:
            plans.append(PackPlan(name, modified, keep, drop))
    return tuple(plans), waiting


def leftovers(store: Store) -> int:
    """How many files that nobody is writing any more a killed command left behind. Changes nothing."""
    return 0 if locks.somebody_works(store) else len(_leftovers(store))


def _leftovers(store: Store) -> list[bytes]:
    return sorted(raw for raw in map(os.fsencode, store.names(TMP)) if _TEMPORARY.match(raw))


def _sweep(store: Store, packs: Packs, plan: GcPlan) -> None:
    """New packs are durable before the old ones go.

    A new pack can have the name of one that is to go: a collection that was cut off has written it before.
    """
    for name in plan.leftovers:
        disk.remove_quietly(name, store.tmp)
    written: set[bytes] = set()
    for pack in plan.packs:
        if pack.keep:
            written.update(rewrite(store, packs, pack.keep, pack.modified_ns))
    for pack in plan.packs:
        if pack.name not in written:
            disk.unlink(pack.name, store.packs)
    if plan.packs:
        disk.sync(store.packs)


def rewrite(store: Store, packs: Packs, keep: dict[str, Location], modified_ns: int) -> list[bytes]:
    """Write some objects of a pack into new ones of the same age; their names."""
    with PackWriter(store, _Nothing(store)) as writer:
        for digest, location in keep.items():
            writer.add_stored(digest, packs.stored_bytes(location), location.size, location.codec)
        writer.finish()
        for name in writer.finished:
            fd = disk.open_file(name, store.packs)
            try:
                disk.set_time(fd, modified_ns)
            finally:
                os.close(fd)
        return writer.finished


class _Nothing(Packs):
    """A store in which nothing is known, so that everything is written."""

    def has(self, digest: str, size: int) -> bool:
        return False
