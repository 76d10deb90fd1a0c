"""Restoring a snapshot: a plan, a safety snapshot of what it will change, and then exactly that plan.

While files are changed ``restoring.json`` names both snapshots, so that a restore that was cut off is seen
by the next command, which can put the safety snapshot back.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from yolop_cli.ground import clock, strict_json
from yolop_cli.ground.errors import BusyError, StaleError, StorageError, YolopError, os_reason
from yolop_cli.store import disk, last_state, locks, manifest, place, stage, way_back
from yolop_cli.store.excludes import matcher
from yolop_cli.store.layout import Store, command
from yolop_cli.store.listing import entry_at
from yolop_cli.store.manifest import SAFETY, Label, Manifest
from yolop_cli.store.packs import Packs
from yolop_cli.store.settings import Settings
from yolop_cli.store.snapshot_capture import Capture, capturing, commit
from yolop_cli.store.snapshot_plan import RestorePlan, compare
from yolop_cli.store.walk import Progress, Scan, Scope, walk

RESTORING = b"restoring.json"


@dataclass(frozen=True)
class Prepared:
    """A plan, and the safety snapshot that undoes it (None when there is nothing to change)."""

    plan: RestorePlan
    safety: Manifest | None


@dataclass(frozen=True)
class Interrupted:
    """A restore that changes files now or was cut off while it did."""

    snapshot_id: str
    safety_snapshot_id: str
    began_at: str


def plan_restore(
    store: Store, target: Manifest, settings: Settings | None = None, progress: Progress | None = None
) -> RestorePlan:
    """What restoring ``target`` would do now. Writes nothing but a marker while it looks.

    Raises exactly what the restore would: ``DeniedError`` for a change that could not be undone,
    ``StorageError`` when a content is missing or damaged, ``BusyError`` while another restore changes the
    files.
    """
    with disk.reporting("plan the restore"), locks.working(store, "plan"), locks.reading_files(store):
        with Packs(store) as packs:
            scan = walk(store, scope_of(target, packs), last_state.load(store), progress=progress)
            plan = _compare(store, scan, target, packs, settings)
            stage.check(packs, plan)
            return plan


def prepare(
    store: Store,
    target: Manifest,
    settings: Settings | None = None,
    label: Label | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """The plan, with the safety snapshot taken; no file is changed yet. Raises as ``plan_restore``.

    It is taken also when there is nothing to change: ``carry_out`` compares the files with it.
    """
    with disk.reporting("prepare the restore"), locks.working(store, "prepare") as marker:
        with locks.reading_files(store), Packs(store) as packs:
            with capturing(store, packs, scope_of(target, packs), marker, progress) as capture:
                plan = _compare(store, capture.scan, target, packs, settings)
                stage.check(packs, plan)
                way_back.keep(store, packs, capture.scan, plan, capture.writer)
                return Prepared(plan, _commit_safety(store, capture, plan, label))


def carry_out(
    store: Store,
    target: Manifest,
    safety: Manifest,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> RestorePlan:
    """Restore ``target`` after ``prepare``, which took ``safety``; the plan that was carried out.

    Raises ``StaleError`` when any file is no longer as the safety snapshot has it, and as ``restore``.
    """
    with disk.reporting("restore"), locks.working(store, "restore"), locks.changing_files(store):
        with Packs(store) as packs:
            scan = walk(store, scope_of(target, packs), last_state.load(store), progress=progress)
            if scan.tree != safety.tree:
                raise StaleError("the files changed since the preview", hint="make a new preview")
            with _ready(store, packs, scan, target, settings) as (plan, ready):
                if way_back.lost(packs, scan, plan) != way_back.NOTHING:
                    raise StaleError(
                        f"the store has lost a part of {safety.id} since the preview",
                        hint="make a new preview; see `yolop-cli snapshot verify`",
                    )
                _change_files(store, plan, safety, ready)
                _finish(store, plan)
                return plan


def restore(
    store: Store,
    target: Manifest,
    settings: Settings | None = None,
    label: Label | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Take the root to what ``target`` holds: plan, safety snapshot and restore in one.

    Raises ``DeniedError``, ``BusyError``, ``StaleError`` or ``StorageError`` before anything changes. When it
    fails later the files are put back and ``StorageError`` says so; when even that fails it names the safety
    snapshot.
    """
    with disk.reporting("restore"), locks.working(store, "restore") as marker, locks.changing_files(store):
        with (
            Packs(store) as packs,
            capturing(store, packs, scope_of(target, packs), marker, progress) as capture,
        ):
            with _ready(store, packs, capture.scan, target, settings) as (plan, ready):
                if not plan.changes:
                    _clear_if_undone(store, target)
                    return Prepared(plan, None)
                way_back.keep(store, packs, capture.scan, plan, capture.writer)
                safety = _commit_safety(store, capture, plan, label)
                try:
                    _change_files(store, plan, safety, ready)
                except BaseException:
                    if interrupted(store) is None:  # the files are those it holds
                        manifest.delete(store, (safety.id,))
                    raise
                _finish(store, plan)
                return Prepared(plan, safety)


def interrupted(store: Store) -> Interrupted | None:
    """The restore that was cut off (or is going on, while the workspace lock is held), or None."""
    data = None if disk.foreign(RESTORING, store.base) else disk.read_file(RESTORING, store.base)
    if data is None:
        return None
    try:
        value = strict_json.loads(data)
        return Interrupted(value["snapshot_id"], value["safety_snapshot_id"], value["began_at"])
    except (ValueError, KeyError, TypeError):
        return None


def refuse_busy(store: Store, busy: tuple[str, ...], *, force: bool) -> None:
    """Raise ``BusyError`` when processes work in the root, unless forced."""
    if busy and not force:
        raise BusyError(
            f"{len(busy)} process(es) work in {store.root}: {', '.join(busy[:3])}",
            hint="stop them, or check with --dry-run and use --force",
            details={"processes": list(busy)},
        )


def scope_of(target: Manifest, packs: Packs) -> Scope:
    """How to walk for a restore of ``target``: by its own rules, and taking in whatever it holds."""
    leave = {item.path: item.reason for item in target.skipped}
    listing = functools.lru_cache(maxsize=64)(packs.listing)
    return Scope(target.rules, leave, cover=lambda path: entry_at(listing, target.tree, path) is not None)


def _compare(
    store: Store, scan: Scan, target: Manifest, packs: Packs, settings: Settings | None
) -> RestorePlan:
    here = settings.rules.exclude if settings is not None else ()
    return compare(store, scan, target, packs.listing, matcher(here))


@contextmanager
def _ready(
    store: Store, packs: Packs, scan: Scan, target: Manifest, settings: Settings | None
) -> Iterator[tuple[RestorePlan, dict[bytes, bytes]]]:
    """The plan from what a walk saw to ``target``, with every content it needs staged."""
    plan = _compare(store, scan, target, packs, settings)
    with stage.staged(store, packs, plan) as ready:
        yield plan, ready


def _commit_safety(store: Store, capture: Capture, plan: RestorePlan, label: Label | None) -> Manifest:
    rules = capture.scan.rules
    scan = replace(capture.scan, rules=replace(rules, max_file_bytes=max(rules.max_file_bytes, plan.largest)))
    text = label or Label(text=f"before restoring {plan.snapshot_id}")
    return commit(store, replace(capture, scan=scan), text, SAFETY)


def _change_files(store: Store, plan: RestorePlan, safety: Manifest, ready: dict[bytes, bytes]) -> None:
    """Carry out the plan, or put everything back. While it does, ``restoring.json`` says so.

    Raises ``StaleError`` when a path moved, ``StorageError`` when something fails.
    """
    place.check_still(store, plan)
    before = interrupted(store)
    undo = safety.id
    if before is not None and manifest.exists(store, before.safety_snapshot_id):
        undo = (
            before.safety_snapshot_id
        )  # some files are restored, others are not already: that one has them whole
    try:
        _note(store, Interrupted(plan.snapshot_id, undo, clock.now()))
        place.carry_out(store, plan, ready)
    except BaseException as error:
        _put_back(store, safety, error, before)
        raise


def _put_back(store: Store, safety: Manifest, cause: BaseException, before: Interrupted | None) -> None:
    """Undo a restore that failed half-way. Raises in words of its own unless the cause has them."""
    why = _words(cause)
    try:
        with Packs(store) as packs:
            scan = walk(store, scope_of(safety, packs), last_state.load(store))
            plan = compare(store, scan, safety, packs.listing)
            with stage.staged(store, packs, plan) as ready:
                place.carry_out(store, plan, ready)
        if before is None:
            _clear(store)
        else:
            _note(store, before)
    except (OSError, YolopError) as error:
        left = "some files are restored, others are not"
        raise StorageError(
            f"the restore failed ({why}) and could not be undone ({_words(error)}): {left}",
            hint=f"put them back with `{command(store.root, 'restore', safety.id)}`",
            details={"safety_snapshot_id": safety.id, "state": left},
        ) from cause
    if isinstance(cause, Exception) and not isinstance(cause, StaleError):
        left = "the files are as they were before"
        hint = "fix what stopped it, then restore again"
        raise StorageError(
            f"the restore failed ({why}); {left}", hint=hint, details={"state": left}
        ) from cause


def _words(error: BaseException) -> str:
    return disk.reason(error) if isinstance(error, OSError) else str(error) or type(error).__name__


def _finish(store: Store, plan: RestorePlan) -> None:
    """The files are restored: say no longer that they are being changed."""
    try:
        _clear(store)
    except OSError as error:
        left = "the files are restored"
        raise StorageError(
            f"{left}, but {RESTORING.decode()} could not be removed: {os_reason(error)}",
            hint=f"remove it, or repeat `{command(store.root, 'restore', plan.snapshot_id)}`",
            details={"state": left},
        ) from error


def _note(store: Store, record: Interrupted) -> None:
    disk.replace_file(RESTORING, store.base, strict_json.dumps(asdict(record)) + b"\n", store.tmp)


def _clear(store: Store) -> None:
    try:
        disk.unlink(RESTORING, store.base)
        disk.sync(store.base)
    except FileNotFoundError:
        pass


def _clear_if_undone(store: Store, target: Manifest) -> None:
    """An interrupted restore is over when the files are those of its safety snapshot or of its target."""
    record = interrupted(store)
    if record is not None and target.id in (record.safety_snapshot_id, record.snapshot_id):
        _clear(store)
