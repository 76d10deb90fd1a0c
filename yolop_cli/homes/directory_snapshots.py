"""Snapshots of a plain directory as a user means them: its settings, who works in it, and its retention.

The store itself knows nothing of processes and applies no settings; here both meet it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from yolop_cli import store as snapshots
from yolop_cli.ground import ids
from yolop_cli.ground import processes as writers
from yolop_cli.ground.errors import BusyError, YolopError
from yolop_cli.ground.processes import Writer
from yolop_cli.session import overlap, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.find import sessions_in
from yolop_cli.session.restore_file import Stored
from yolop_cli.store import Label, Manifest, Pruned, RestorePlan, Retention, Rules, Settings, Store, excludes
from yolop_cli.store.walk import Progress
from yolop_cli.timeline import file as timeline_file


@dataclass(frozen=True)
class Wishes:
    """What one command asks for beyond the settings of the directory; None leaves it to them."""

    exclude: tuple[str, ...] = ()
    max_file_bytes: int | None = None
    refuse_hard_links: bool = False
    keep_last: int | None = None
    keep_within: float | None = None


@dataclass(frozen=True)
class Taken:
    """A snapshot, and the retention that followed it (None when nothing went)."""

    snapshot: Manifest
    pruned: Pruned | None


@dataclass(frozen=True)
class Restored:
    """A restore, or the plan of one; ``writers`` worked in the directory, and were passed over if it ran."""

    plan: RestorePlan
    dry_run: bool
    writers: tuple[Writer, ...]
    safety: Manifest | None = None
    pruned: Pruned | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a restore is refused, unless forced, for the processes at work."""
        return bool(self.writers)


def take(
    root: Path,
    label: Label | None = None,
    wishes: Wishes | None = None,
    progress: Progress | None = None,
    sessions: Path | None = None,
) -> Taken:
    """Take a snapshot of a directory; its store is made when there is none. Raises as ``store.create``.

    The retention that follows spares what the sessions in the directory ``sessions`` still need. Raises
    ``DeniedError`` for a directory that holds sessions.
    """
    _refuse_home(root, sessions)
    wanted = wishes or Wishes()
    excludes.check(wanted.exclude)
    with snapshots.opened(root, create=True) as store:
        settings = snapshots.load_settings(store.root)
        made = snapshots.create(store, label=label, rules=_rules(settings, wanted), progress=progress)
        limits = Retention(
            settings.retention.keep_last if wanted.keep_last is None else wanted.keep_last,
            settings.retention.keep_within if wanted.keep_within is None else wanted.keep_within,
        )
        protect = (made.id, *(() if limits == Retention() else needed(store, sessions)))
        pruned = snapshots.prune_after(store, limits, protect=protect, grace=settings.grace)
        return Taken(made, pruned)


def needed(store: Store, sessions: Path | None) -> frozenset[str]:
    """The snapshots that a redo or a waiting restore of some session still needs.

    Only sessions that have snapshots here are looked at. One whose files cannot be read keeps all of its own.
    """
    if sessions is None:
        return frozenset()
    labelled: dict[str, set[str]] = {}
    manifests, _ = snapshots.load_all(store)
    for one in manifests:
        if one.label.session_id is not None and ids.is_session_id(one.label.session_id):
            labelled.setdefault(one.label.session_id, set()).add(one.id)
    found: set[str] = set()
    for session_id, own in labelled.items():
        found |= _needed_by(SessionDirectory(sessions / session_id), own)
    return frozenset(one.id for one in manifests if one.id in found)


def _needed_by(session: SessionDirectory, own: set[str]) -> set[str]:
    try:
        timeline, waiting = timeline_file.load(session), restore_file.read(session)
    except YolopError:
        return own
    if timeline.health == "corrupt":
        return own
    redo = timeline.state.redo
    used = {redo.file_snapshot.id} if redo is not None and redo.file_snapshot is not None else set()
    if waiting is not None:
        used |= {each.id for each in (waiting.target, waiting.recovery) if isinstance(each, Stored)}
    return used


def restore(
    root: Path,
    snapshot: str,
    *,
    dry_run: bool = False,
    force: bool = False,
    label: Label | None = None,
    progress: Progress | None = None,
    sessions: Path | None = None,
) -> Restored:
    """Take a directory to what a snapshot holds, after a safety snapshot of what that changes.

    A process that works in the directory refuses it with ``BusyError``; with ``force`` the restore goes on
    once a dry run has shown that it can be made, but never past a session at work there. Raises as
    ``store.restore``, and ``DeniedError`` for a directory that holds sessions.
    """
    _refuse_home(root, sessions)
    with snapshots.opened(root) as store:
        settings = snapshots.load_settings(store.root)
        target = snapshots.find(store, snapshot)
        at_work = writers.writers(store.root)
        if dry_run:
            return Restored(snapshots.plan_restore(store, target, settings, progress), True, at_work)
        if sessions is not None:
            overlap.refuse_at_work(store.root, sessions)
        if at_work and not force:
            raise busy(store.root, at_work)
        if at_work:
            snapshots.plan_restore(store, target, settings, progress)
        done = snapshots.restore(store, target, settings, label, progress)
        pruned = _after(store, settings, target, done.safety, sessions)
        return Restored(done.plan, False, at_work, done.safety, pruned)


def _refuse_home(root: Path, sessions: Path | None) -> None:
    if sessions is not None and any(sessions_in(sessions)):
        overlap.refuse_home(root, sessions, hint="choose a directory beside the sessions")


def busy(root: Path, at_work: tuple[Writer, ...]) -> BusyError:
    """The refusal while processes work in a directory."""
    first = at_work[0]
    more = f" and {len(at_work) - 1} more" if len(at_work) > 1 else ""
    return BusyError(
        f"{first.name} (process {first.pid}){more} works in {root}",
        hint="stop it, or check with --dry-run and use --force",
        details={"writers": [writer.to_json() for writer in at_work]},
    )


def _rules(settings: Settings, wishes: Wishes) -> Rules:
    rules = settings.rules
    exclude = tuple(dict.fromkeys((*rules.exclude, *wishes.exclude)))
    limit = rules.max_file_bytes if wishes.max_file_bytes is None else wishes.max_file_bytes
    return replace(
        rules,
        exclude=exclude,
        max_file_bytes=limit,
        refuse_hard_links=rules.refuse_hard_links or wishes.refuse_hard_links,
    )


def _after(
    store: Store, settings: Settings, target: Manifest, safety: Manifest | None, sessions: Path | None
) -> Pruned | None:
    if safety is None or settings.retention == Retention():
        return None
    protect = (target.id, safety.id, *needed(store, sessions))
    return snapshots.prune_after(store, settings.retention, protect=protect, grace=settings.grace)
