"""Prune worktrees: the plan, and carrying out exactly that plan.

Each repository is asked again before its worktrees go, and each worktree is looked at again right before
it goes; what changed since the plan stays. Private refs go first, then the worktree through git, then the
directories above it that are empty now. Branches stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from yolop_cli.ground import paths
from yolop_cli.ground.errors import NotFoundError, StorageError, YolopError
from yolop_cli.ground.git import Git, Where
from yolop_cli.session import lock, ref_repositories
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.places import Places
from yolop_cli.worktrees import contents, links, references, repository
from yolop_cli.worktrees import survey as looking
from yolop_cli.worktrees.prune_plan import (
    Detachment,
    Facts,
    Kept,
    PrunePlan,
    Reason,
    Removal,
    decide,
    prune_plan,
)
from yolop_cli.worktrees.storage import Trouble
from yolop_cli.worktrees.survey import Known, Progress, Survey, Surveyor, silent


@dataclass(frozen=True)
class Report:
    """What a prune removed and detached, what it kept, what failed; of a dry run, what it would."""

    dry_run: bool
    removed: tuple[Removal, ...]
    refs: tuple[str, ...]
    kept: tuple[Kept, ...]
    errors: tuple[Trouble, ...]


def everything(
    git: Git, places: Places, *, named: Iterable[Path] = (), progress: Progress = silent
) -> Survey:
    """All there is to know of every worktree, also of those that stay in any case. Changes nothing.

    Raises as ``plan``.
    """
    surveyor = Surveyor.of(git, places)
    return looking.survey(surveyor, named=_named(places, named), everywhere=True, progress=progress)


def plan(
    git: Git, places: Places, *, named: Iterable[Path] = (), force: bool = False, progress: Progress = silent
) -> PrunePlan:
    """What a prune would do now. Changes nothing.

    ``named`` are directories whose repositories are looked at besides the current one and those that a
    session or a worktree names. Raises ``NotFoundError`` when one is in no repository or when there is no
    sessions directory, ``StorageError`` when the sessions cannot be listed.
    """
    surveyor = Surveyor.of(git, places)
    seen = looking.survey(surveyor, named=_named(places, named), progress=progress)
    private = any(repo.private for repo in seen.repositories)
    if (seen.facts or private) and not places.sessions.is_dir():
        raise NotFoundError(
            f"there is no sessions directory at {paths.show(places.sessions)}",
            hint="it shows what is in use; name it with --sessions-dir or $YOLOP_DATA_DIR",
        )
    owners = {session for repo in seen.repositories for session in repo.private}
    owners |= {one.session_id for one in seen.facts if one.session_id is not None}
    return prune_plan(
        seen.facts,
        seen.repositories,
        living=frozenset(session for session in owners if _lives(surveyor, session)),
        kept=seen.vanished,
        troubles=seen.troubles,
        unclaimed=seen.unclaimed,
        force=force,
    )


def expected(plan: PrunePlan) -> Report:
    """The report of a dry run: what carrying out the plan gives when nothing changes meanwhile."""
    refs = [name for removal in plan.removals for name in removal.refs]
    refs += [name for detachment in plan.detachments for name in detachment.refs]
    return Report(True, plan.removals, tuple(sorted(refs)), plan.kept, plan.troubles)


def carry_out(git: Git, places: Places, plan: PrunePlan, *, progress: Progress = silent) -> Report:
    """Do what the plan says, and nothing else; one failure stops nothing but its own worktree."""
    run = _Run(git, places, plan.force, [], [], list(plan.kept), list(plan.troubles))
    with progress("removing worktrees", len(plan.removals)) as step:
        for common, removals in groupby(plan.removals, key=lambda removal: removal.common):
            run.prune(common, list(removals), step)
    for detachment in plan.detachments:
        run.detach(detachment)
    for sessions in references.session_directories(places):
        for common in plan.idle:
            ref_repositories.forget(sessions, common)
    return Report(
        False,
        tuple(run.removed),
        tuple(sorted(run.refs)),
        tuple(sorted(run.kept, key=lambda kept: kept.path)),
        tuple(sorted(run.errors, key=lambda trouble: trouble.path)),
    )


@dataclass
class _Run:
    """One prune under way, and what came of it so far."""

    git: Git
    places: Places
    force: bool
    removed: list[Removal]
    refs: list[str]
    kept: list[Kept]
    errors: list[Trouble]

    def prune(self, common: Path, removals: list[Removal], step: Callable[[], None]) -> None:
        """Remove the planned worktrees of one repository, which is asked again first."""
        try:
            surveyor = Surveyor.of(self.git, self.places)
            known = looking.know(surveyor, common)
        except YolopError as error:
            self.errors += [Trouble(removal.facts.path, error.message) for removal in removals]
            return
        planned = looking.with_only_here(surveyor, [removal.facts for removal in removals], {common: known})
        for removal, facts in zip(removals, planned, strict=True):
            self._one(surveyor, known, removal, facts)
            step()

    def detach(self, detachment: Detachment) -> None:
        """Delete the refs of sessions that are gone, those that came back meanwhile excepted."""
        common = detachment.common
        try:
            surveyor = Surveyor.of(self.git, self.places)
            repo = repository.look(self.git, common)
            lost = {session for session in repo.private if not _lives(surveyor, session)}
            refs = {name: oid for name, oid in detachment.refs.items() if repository.owner(name) in lost}
            repository.delete_refs(self.git, repo, refs)
        except YolopError as error:
            self.errors.append(Trouble(common, f"refs of sessions that are gone stay: {error.message}"))
            return
        self.refs += refs
        if len(refs) < len(detachment.refs):
            self._keep(common, "a session whose refs were to be deleted exists now")

    def _one(self, surveyor: Surveyor, known: Known, removal: Removal, facts: Facts) -> None:
        now = looking.again(surveyor, facts, known)
        decision, reasons = decide(now, force=self.force)
        if decision != "remove":
            self._keep(facts.path, "; ".join(reason.words for reason in reasons))
        elif (now.head, now.branch, now.saved) != (facts.head, facts.branch, facts.saved):
            self._keep(facts.path, "its HEAD or its session is another one")
        elif removal.refs and known.repo.private.get(facts.session_id or "") != removal.refs:
            self._keep(facts.path, "its private refs are others")
        else:
            try:
                with _holding(surveyor, now) as descriptors:
                    self._remove(self.git.keeping(descriptors), surveyor, known, removal, now)
            except YolopError as error:
                self._keep(facts.path, error.message)

    def _remove(self, git: Git, surveyor: Surveyor, known: Known, removal: Removal, now: Facts) -> None:
        """Refs, then the worktree; refs whose worktree did not go are put back."""
        path = now.path
        if removal.refs and now.session_id is not None and _lives(surveyor, now.session_id):
            self._keep(path, "its session exists now")
            return
        try:
            where = _place(git, known, now)
            repository.delete_refs(git, known.repo, removal.refs)
        except YolopError as error:
            self._fail(path, f"its private refs could not be detached, so it stays: {error.message}")
            return
        try:
            repository.remove_worktree(git, where, now.registered or path, force=_asks_force(now))
            if os.path.lexists(path):
                raise StorageError("git removed it, but something is still there")
        except YolopError as error:
            self._fail(
                path,
                f"it could not be removed completely: {error.message}{self._put_back(git, known, removal)}",
            )
            return
        self.removed.append(removal)
        self.refs += removal.refs
        _remove_empty_parents(self.places, path)

    def _put_back(self, git: Git, known: Known, removal: Removal) -> str:
        if not removal.refs:
            return ""
        try:
            repository.restore_refs(git, known.repo, removal.refs)
        except YolopError as error:
            self.refs += removal.refs
            return f" (and its private refs are gone: {error.message})"
        return " (its private refs are in place)"

    def _keep(self, path: Path, words: str) -> None:
        self.kept.append(Kept(path, (Reason("changed", f"it changed since it was examined: {words}"),)))

    def _fail(self, path: Path, words: str) -> None:
        self.errors.append(Trouble(path, words))


def _named(places: Places, directories: Iterable[Path]) -> list[Path]:
    named = [places.here / directory for directory in directories]
    for directory in named:
        if links.enclosing(directory) is None:
            raise NotFoundError(f"no repository holds {paths.show(directory)}")
    return named


def _lives(surveyor: Surveyor, session_id: str) -> bool:
    return surveyor.references.is_saved(session_id) or surveyor.references.is_running(session_id)


@contextmanager
def _holding(surveyor: Surveyor, facts: Facts) -> Iterator[tuple[int, ...]]:
    """Hold the locks of the saved session that a worktree is named after, if there is one.

    Raises ``BusyError`` when another process has them.
    """
    with ExitStack() as stack:
        descriptors: tuple[int, ...] = ()
        for directory in surveyor.references.directories:
            session = SessionDirectory(directory / (facts.session_id or ""))
            if facts.session_id is not None and session.path.is_dir():
                descriptors += stack.enter_context(lock.held(session))
        yield descriptors


def _place(git: Git, known: Known, now: Facts) -> Where:
    """Where git removes a worktree: its own check for changes must see what ours saw, and start as little."""
    if now.missing:
        return known.repo.where
    link = links.read_link(now.path)
    inside = contents.place(git, now.path, link, known.settings, varied=known.varied)
    return replace(inside, directory=known.repo.common, variables=known.repo.where.variables)


def _asks_force(now: Facts) -> bool:
    """Whether git refuses to remove a worktree that we decided to remove. Else its own check stands."""
    held = now.contents
    return held is not None and (held.gitlinks or now.submodules or not held.is_clean)


def _remove_empty_parents(places: Places, path: Path) -> None:
    """Remove the directories above a removed worktree that are ours and empty now."""
    root = path.parent.parent
    named = [one for one in places.worktree_roots if paths.resolved(one) == root]
    for directory in (path.parent, *(above for one in named for above in (one, one.parent))):
        try:
            os.rmdir(directory)
        except OSError:  # not empty, a link, or not ours to remove: it stays
            continue
