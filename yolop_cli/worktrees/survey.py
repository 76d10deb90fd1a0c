"""The looking: facts about every worktree below the storage roots and every repository behind one.

Git runs a fixed number of times for a repository. Inside a worktree it runs only where the decision needs
it: twice for a worktree that nothing else keeps, since no git command looks at many worktrees at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from yolop_cli.ground import paths
from yolop_cli.ground.errors import YolopError, os_reason
from yolop_cli.ground.git import Git
from yolop_cli.ground.processes import writers_below
from yolop_cli.session.places import Places
from yolop_cli.session.ref_repositories import remembered
from yolop_cli.worktrees import contents, links, references, repository, storage
from yolop_cli.worktrees.contents import Settings
from yolop_cli.worktrees.links import Link, NotLinkedError
from yolop_cli.worktrees.prune_plan import Facts, Kept, Reason, barriers
from yolop_cli.worktrees.references import References
from yolop_cli.worktrees.repository import Registered, Repository
from yolop_cli.worktrees.storage import Entry, Trouble

Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
Users = Mapping[Path, tuple[str, ...]]


@contextmanager
def silent(words: str, total: int) -> Iterator[Callable[[], None]]:
    """No progress shown."""
    yield lambda: None


@dataclass(frozen=True)
class Surveyor:
    """Who looks: git, the places, and what the sessions say."""

    git: Git
    places: Places
    references: References

    @classmethod
    def of(cls, git: Git, places: Places) -> Surveyor:
        """Raises ``StorageError`` when the sessions cannot be listed."""
        return cls(git, places, references.load(places))


@dataclass(frozen=True)
class Known:
    """A repository that git answered for, and the settings under which its worktrees are looked into.

    ``worktrees`` are its linked worktrees by resolved path; ``below`` maps a directory to something of the
    repository that lies in it: a worktree, or the repository itself.
    """

    repo: Repository
    settings: Settings
    varied: bool
    worktrees: Mapping[Path, Registered]
    below: Mapping[Path, Path]


@dataclass(frozen=True)
class Survey:
    """Everything found: facts by path, repositories, what could not be read, what is only reported.

    ``unclaimed`` are repositories that were looked at only because the command was called inside them: no
    session, worktree or note of ours leads there, so whose refs they hold is not known.
    """

    facts: tuple[Facts, ...]
    known: Mapping[Path, Known]
    troubles: tuple[Trouble, ...]
    vanished: tuple[Kept, ...]
    unclaimed: frozenset[Path]

    @property
    def repositories(self) -> list[Repository]:
        """The repositories that git answered for."""
        return [known.repo for known in self.known.values()]


def survey(
    surveyor: Surveyor,
    *,
    named: Iterable[Path] = (),
    everywhere: bool = False,
    progress: Progress = silent,
) -> Survey:
    """Look at every worktree, and at the repositories of ``named`` directories and of the present one too.

    ``everywhere`` looks also into worktrees that stay in any case.
    """
    entries, troubles = storage.entries(surveyor.places.worktree_roots)
    joined = [(entry, read_link(entry)) for entry in entries]
    commons, vanished = _commons(surveyor, joined, named)
    here = links.enclosing(surveyor.places.here)
    unclaimed = frozenset() if here is None or here in commons else frozenset({here})
    commons = sorted({*commons, *unclaimed})
    known, silent_ones = _ask(surveyor, commons, progress)
    troubles += [Trouble(common, message) for common, message in silent_ones.items()]
    facts = [outside(surveyor, entry, link, known, silent_ones) for entry, link in joined]
    facts += _gone(surveyor, known, joined)
    facts = _with_users(facts, in_use(facts))
    facts = _look_inside(surveyor, facts, known, dict(joined), everywhere, progress)
    facts = with_only_here(surveyor, facts, known)
    found = tuple(sorted(facts, key=lambda one: one.path))
    return Survey(found, known, tuple(troubles), tuple(vanished), unclaimed)


def _ask(
    surveyor: Surveyor, commons: list[Path], progress: Progress
) -> tuple[dict[Path, Known], dict[Path, str]]:
    """What the repositories answered, and why some did not."""
    known: dict[Path, Known] = {}
    silent_ones: dict[Path, str] = {}
    with progress("asking repositories", len(commons)) as step:
        for common in commons:
            try:
                known[common] = know(surveyor, common)
            except YolopError as error:
                silent_ones[common] = error.message
            step()
    return known, silent_ones


def know(surveyor: Surveyor, common: Path) -> Known:
    """Ask one repository. Raises ``GitError``."""
    settings, varied = contents.driver_settings(surveyor.git, common, common)
    repo = repository.look(surveyor.git, common)
    worktrees = {paths.resolved(one.path): one for one in repo.worktrees}
    below = {above: path for path in (common, *worktrees) for above in path.parents}
    return Known(repo, settings, varied, worktrees, below)


def read_link(entry: Entry) -> Link | YolopError | None:
    """Where an entry's ``.git`` file leads, or why it leads nowhere; None for what nobody should open."""
    if entry.kind != "directory" or entry.owners != {os.geteuid()}:
        return None
    try:
        return links.read_link(entry.path)
    except YolopError as error:
        return error


def outside(
    surveyor: Surveyor,
    entry: Entry,
    link: Link | YolopError | None,
    known: Mapping[Path, Known],
    silent_ones: Mapping[Path, str],
) -> Facts:
    """The facts about a directory that need no look inside it."""
    named_by = surveyor.references.of(entry.path, entry.device, entry.inode)
    facts = Facts(
        entry.path,
        entry.session_id,
        is_link=entry.kind == "link",
        foreign=entry.kind == "directory" and entry.owners != {os.geteuid()},
        trouble=f"it cannot be read: {entry.message}" if entry.kind == "unreadable" else None,
        named_by=tuple(sorted(named_by)),
    )
    facts = _of_session(surveyor, facts)
    if isinstance(link, NotLinkedError):
        return replace(facts, unlinked=link.message)
    if isinstance(link, YolopError):
        return replace(facts, trouble=link.message)
    if link is None:
        return facts
    facts = replace(facts, common=link.common, submodules=link.has_submodules())
    if link.common in silent_ones:
        return replace(facts, trouble=f"its repository cannot be queried: {silent_ones[link.common]}")
    return _registered(facts, link, known[link.common])


def in_use(facts: Iterable[Facts]) -> Users:
    """The processes at work in each worktree, in words."""
    roots = [one.path for one in facts if not (one.missing or one.is_link)]
    found = writers_below(roots, aside=()) if roots else {}
    return {
        root: tuple(f"{writer.name} (pid {writer.pid}, {writer.why})" for writer in writers)
        for root, writers in found.items()
    }


def inside(surveyor: Surveyor, facts: Facts, link: Link, known: Known) -> Facts:
    """The facts that need a look inside a worktree of ours. What git refuses becomes ``trouble``."""
    try:
        where = contents.place(surveyor.git, facts.path, link, known.settings, varied=known.varied)
        held = contents.look(surveyor.git, where)
        tree = contents.walk(facts.path)
    except OSError as error:
        return replace(facts, trouble=f"it cannot be read: {os_reason(error)}")
    except YolopError as error:
        return replace(facts, trouble=f"it cannot be examined: {error.message}")
    branch = (held.branch or "").removeprefix("refs/heads/")
    return replace(
        facts,
        head=held.head,
        branch=held.branch,
        contents=held,
        tree=tree,
        under_way=link.under_way(),
        stashed=branch in known.repo.stashed,
    )


def again(surveyor: Surveyor, facts: Facts, known: Known) -> Facts:
    """The facts about one worktree as they are at this moment.

    Whether its commits are on another ref is taken over, which holds while HEAD is where it was.
    """
    common = known.repo.common
    if facts.missing:
        one = known.worktrees.get(facts.path)
        now = None if one is None else _registration(surveyor, facts.path, common, one)
        if now is None:
            return replace(facts, trouble="it is not as it was")
        return replace(now, only_here=facts.only_here)
    entry = storage.look(facts.path.parent.parent, facts.path)
    link = read_link(entry)
    if isinstance(link, Link) and link.common != common:
        return replace(facts, trouble="it belongs to another repository now")
    now = outside(surveyor, entry, link, {common: known}, {})
    now = replace(now, in_use=in_use([now]).get(now.path, ()))
    if isinstance(link, Link) and link.is_locked and now.locked is None:
        now = replace(now, locked="")
    if isinstance(link, Link) and now.is_ours_to_look_into and not barriers(now):
        now = inside(surveyor, now, link, known)
    return replace(now, only_here=facts.only_here)


def with_only_here(surveyor: Surveyor, facts: Collection[Facts], known: Mapping[Path, Known]) -> list[Facts]:
    """The facts with the answer whether a commit is on no other ref, for those that were looked into."""
    by_repository: dict[Path, dict[Path, tuple[str, str | None]]] = {}
    for one in facts:
        if (
            one.common is not None
            and one.common in known
            and one.head is not None
            and (one.missing or one.contents is not None)
        ):
            by_repository.setdefault(one.common, {})[one.path] = (one.head, one.branch)
    answers: dict[Path, bool] = {}
    failures: dict[Path, str] = {}
    for common, heads in by_repository.items():
        try:
            alone = repository.only_here(surveyor.git, known[common].repo, heads)
            answers.update({path: path in alone for path in heads})
        except YolopError as error:
            failures.update(dict.fromkeys(heads, f"its commits cannot be followed: {error.message}"))
    return [
        replace(one, only_here=answers.get(one.path), trouble=one.trouble or failures.get(one.path))
        for one in facts
    ]


def _of_session(surveyor: Surveyor, facts: Facts) -> Facts:
    if facts.session_id is None:
        return facts
    return replace(
        facts,
        saved=surveyor.references.is_saved(facts.session_id),
        owner_unreadable=facts.session_id in surveyor.references.unreadable,
        running=surveyor.references.is_running(facts.session_id),
    )


def _registered(facts: Facts, link: Link, known: Known) -> Facts:
    if link.fault:
        return replace(facts, unlinked=link.fault)
    path = paths.resolved(link.registered)
    entry = known.worktrees.get(path)
    if entry is None or path == paths.resolved(known.repo.main):
        return replace(facts, unlinked=f"{paths.show(known.repo.common)} has no such worktree")
    return replace(
        facts,
        registered=entry.path,
        head=entry.head,
        branch=entry.branch,
        locked=entry.locked,
        inside=known.below.get(facts.path),
    )


def _gone(
    surveyor: Surveyor, known: Mapping[Path, Known], joined: Iterable[tuple[Entry, Link | YolopError | None]]
) -> list[Facts]:
    """What repositories have registered below the storage roots where nothing is any more."""
    roots = frozenset(storage.real_roots(surveyor.places.worktree_roots))
    moved = {paths.resolved(link.registered) for _, link in joined if isinstance(link, Link)}
    found = []
    for common, one in [(key, one) for key, value in known.items() for one in value.repo.worktrees]:
        path = paths.resolved(one.path.parent) / one.path.name
        if path.parent.parent in roots and path not in moved:
            found.append(_registration(surveyor, path, common, one))
    return [facts for facts in found if facts is not None]


def _registration(surveyor: Surveyor, path: Path, common: Path, one: Registered) -> Facts | None:
    """The facts about a registered path where nothing is; None when something is there."""
    facts = Facts(
        path, storage.session_named(path), common, one.path, one.head, one.branch, locked=one.locked
    )
    facts = replace(_of_session(surveyor, facts), named_by=tuple(sorted(surveyor.references.of(path))))
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return replace(facts, missing=True, uprooted=not os.path.isdir(path.parent))
    except OSError as error:
        return replace(facts, trouble=f"it cannot be read: {os_reason(error)}")
    return None


def _with_users(facts: list[Facts], users: Users) -> list[Facts]:
    return [replace(one, in_use=users.get(one.path, ())) for one in facts]


def _look_inside(
    surveyor: Surveyor,
    facts: list[Facts],
    known: Mapping[Path, Known],
    joined: Mapping[Entry, Link | YolopError | None],
    everywhere: bool,
    progress: Progress,
) -> list[Facts]:
    by_path = {entry.path: link for entry, link in joined.items()}
    wanted = [one for one in facts if one.is_ours_to_look_into and (everywhere or not barriers(one))]
    looked: dict[Path, Facts] = {}
    with progress("looking into worktrees", len(wanted)) as step:
        for one in wanted:
            link = by_path.get(one.path)
            if isinstance(link, Link):
                looked[one.path] = inside(surveyor, one, link, known[link.common])
            step()
    return [looked.get(one.path, one) for one in facts]


def _commons(
    surveyor: Surveyor, joined: Iterable[tuple[Entry, Link | YolopError | None]], named: Iterable[Path]
) -> tuple[list[Path], list[Kept]]:
    """The repositories that a worktree, session, note or caller names; those of sessions that are gone."""
    found = {link.common for _, link in joined if isinstance(link, Link)}
    for path in surveyor.references.worktrees:
        try:
            found.add(links.read_link(path).common)
        except YolopError:
            pass  # not there, or no worktree: the session's repository is looked at by its own name
    vanished = []
    for path, sessions in surveyor.references.repositories.items():
        common = links.common_directory(path)
        if common is not None:
            found.add(common)
        else:
            words = (
                f"the repository of {', '.join(sorted(sessions))} is missing: moved, deleted, or not mounted"
            )
            vanished.append(Kept(path, (Reason("repository-gone", words),)))
    noted = (path for sessions in surveyor.references.directories for path in remembered(sessions))
    found.update(common for path in noted if (common := links.common_directory(path)) is not None)
    found.update(common for path in named if (common := links.enclosing(path)) is not None)
    return sorted(found), vanished
