"""Taking back a restore that was cut off, path by path, for a caller that knows what it had planned."""

from __future__ import annotations

import stat
from collections.abc import Collection, Mapping
from dataclasses import replace

from yolop_cli.ground.paths import ancestors
from yolop_cli.store import disk, last_state, locks, place, stage
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import DIRECTORY, Entry, entry_at
from yolop_cli.store.manifest import Manifest
from yolop_cli.store.packs import Packs
from yolop_cli.store.snapshot_plan import MODE, Change, Kept, RestorePlan, compare
from yolop_cli.store.snapshot_restore import RESTORING, scope_of
from yolop_cli.store.walk import walk

_HALF = "some files are put back; run the command again to continue"
CHANGED_SINCE = "changed since the restore was interrupted"


def take_back(store: Store, target: Manifest, safety: Manifest, planned: Collection[bytes]) -> RestorePlan:
    """Give each planned path of an unfinished restore to ``target`` what ``safety`` has there.

    A path that somebody changed since, so that it is neither gone nor what ``target`` has, is left alone and
    named in ``kept``, and so is what lies around it. The plan that was carried out. Raises ``DeniedError``,
    ``BusyError``, ``StorageError``; the files are then put back as far as they are.
    """
    with disk.reporting("take the restore back", _HALF), locks.working(store, "restore"):
        with locks.changing_files(store), Packs(store) as packs:
            scan = walk(store, scope_of(safety, packs), last_state.load(store))
            whole = compare(store, scan, safety, packs.listing)
            wanted = {
                change.path: entry_at(packs.listing, target.tree, change.path) for change in whole.changes
            }
            plan = _of_paths(whole, wanted, frozenset(planned))
            with stage.staged(store, packs, plan) as ready:
                place.carry_out(store, plan, ready)
            disk.remove_quietly(RESTORING, store.base)
            disk.sync(store.base)
            return plan


def _of_paths(
    plan: RestorePlan, wanted: Mapping[bytes, Entry | None], planned: frozenset[bytes]
) -> RestorePlan:
    """The part of a plan that undoes the restore and touches nothing that somebody else made."""
    around = {above for path in planned for above in ancestors(path)}
    left = {
        change.path
        for change in plan.changes
        if not (
            _is_ours(change, wanted[change.path])
            if change.path in planned
            else change.path in around and _was_opened(change)
        )
    }
    holding = {above for path in left for above in ancestors(path)}
    chosen = []
    for change in plan.changes:
        stays_directory = change.after is not None and change.after.type == DIRECTORY
        if change.path in left:
            continue
        if (change.path in holding and not stays_directory) or not left.isdisjoint(ancestors(change.path)):
            left.add(change.path)
        else:
            chosen.append(change)
    kept = tuple(Kept(path, CHANGED_SINCE) for path in sorted(left & planned))
    return replace(plan, changes=tuple(chosen), kept=kept)


def _is_ours(change: Change, wanted: Entry | None) -> bool:
    """Whether what is there now is what the restore put there, or nothing at all."""
    now = change.before
    if now is None:
        return True
    if wanted is None or now.type != wanted.type:
        return False
    # The mode of a directory is set last, so one that the restore made may have another.
    return now.type == DIRECTORY or now[:5] == wanted[:5]


def _was_opened(change: Change) -> bool:
    """Whether a directory is only writable because the restore had made it so."""
    before, after = change.before, change.after
    return (
        change.change == MODE
        and before is not None
        and after is not None
        and before.type == DIRECTORY
        and before.mode == after.mode | stat.S_IRWXU
    )
