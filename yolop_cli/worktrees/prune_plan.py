"""The decision, and nothing but the decision: from facts about worktrees to what a prune removes and keeps.

No function here looks at anything, so a dry run and a real run cannot decide differently, and every rule
can be tested without a disk (behaviour page, "worktree prune").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from yolop_cli.ground import paths
from yolop_cli.worktrees.contents import Contents, Tree
from yolop_cli.worktrees.repository import Repository
from yolop_cli.worktrees.storage import Trouble


@dataclass(frozen=True)
class Facts:
    """All that is known of one worktree, or of the place where one is registered.

    ``common`` is its repository; ``registered`` its path as git spells it. ``unlinked`` says why it is no
    linked worktree of that repository, ``trouble`` why it could not be read. ``named_by`` are the
    sessions that name its path. ``missing`` means that nothing is there; ``uprooted`` that the directory
    above is gone too. ``contents``, ``tree`` and ``only_here`` (its commits are on no other ref) stay None
    until somebody looked inside.
    """

    path: Path
    session_id: str | None = None
    common: Path | None = None
    registered: Path | None = None
    head: str | None = None
    branch: str | None = None
    missing: bool = False
    uprooted: bool = False
    is_link: bool = False
    foreign: bool = False
    unlinked: str | None = None
    trouble: str | None = None
    named_by: tuple[str, ...] = ()
    saved: bool = False
    owner_unreadable: bool = False
    running: bool = False
    locked: str | None = None
    in_use: tuple[str, ...] = ()
    inside: Path | None = None
    under_way: tuple[str, ...] = ()
    submodules: bool = False
    stashed: bool = False
    contents: Contents | None = None
    tree: Tree | None = None
    only_here: bool | None = None

    @property
    def is_ours_to_look_into(self) -> bool:
        """Whether git may be run in it: a linked worktree, present, of this user."""
        return self.registered is not None and not (
            self.missing or self.foreign or self.is_link or self.unlinked or self.trouble
        )


@dataclass(frozen=True)
class Reason:
    """Why a worktree stays: a stable code, words, and whether force overrides it."""

    code: str
    words: str
    overridable: bool = False


@dataclass(frozen=True)
class Kept:
    """Something that stays, and why."""

    path: Path
    reasons: tuple[Reason, ...]

    @property
    def why(self) -> str:
        """All reasons in words."""
        return "; ".join(reason.words for reason in self.reasons)


@dataclass(frozen=True)
class Removal:
    """A worktree to remove, or a registration whose worktree is gone, with the private refs that go first.

    ``common`` is its repository, ``main`` that one's main checkout. ``staying`` are the private refs of its
    session that stay, since the session exists: they are what brings the files back.
    """

    facts: Facts
    common: Path
    main: Path
    refs: Mapping[str, str]
    staying: tuple[str, ...] = ()


@dataclass(frozen=True)
class Detachment:
    """Private refs, in a repository, of sessions that no longer exist."""

    common: Path
    refs: Mapping[str, str]


@dataclass(frozen=True)
class PrunePlan:
    """What a prune does, in order, and what it leaves. ``idle`` are repositories without private refs."""

    force: bool
    removals: tuple[Removal, ...]
    detachments: tuple[Detachment, ...]
    kept: tuple[Kept, ...]
    troubles: tuple[Trouble, ...]
    idle: tuple[Path, ...]


Decision = Literal["remove", "keep", "stuck"]
_UNCLAIMED = Reason(
    "unclaimed",
    "its checkpoint refs may be those of sessions in another data directory; to prune it anyway, use --repo",
)


def barriers(facts: Facts) -> tuple[Reason, ...]:
    """The reasons to keep a worktree that nothing overrides and that need no look inside it."""
    return (*_identity(facts), *_liveness(facts), *_surroundings(facts))


def unsaved(facts: Facts) -> tuple[Reason, ...]:
    """The reasons to keep a worktree that force overrides: work that would be lost with it."""
    found: list[Reason] = []
    if facts.contents is not None and not facts.contents.is_clean:
        found.append(Reason("changes", _changes(facts.contents), overridable=True))
    if (facts.tree is not None and facts.tree.nested is not None) or facts.submodules:
        where = (
            facts.tree.nested if facts.tree is not None and facts.tree.nested is not None else "a submodule"
        )
        found.append(Reason("nested", f"it contains a repository: {where}", overridable=True))
    if facts.stashed:
        found.append(Reason("stash", "changes made on its branch are stashed", overridable=True))
    if facts.only_here:
        found.append(
            Reason("commits", "it has commits that are on no other branch, tag or remote", overridable=True)
        )
    if facts.under_way:
        found.append(Reason("under-way", f"{' and '.join(facts.under_way)} is under way", overridable=True))
    return tuple(found)


def decide(facts: Facts, *, force: bool) -> tuple[Decision, tuple[Reason, ...]]:
    """What becomes of a worktree, and why if it stays. Force overrides unsaved work and nothing else."""
    reasons = barriers(facts) + (() if force else unsaved(facts))
    if reasons:
        return "keep", reasons
    if facts.tree is not None and facts.tree.stuck is not None:
        return "stuck", (
            Reason("stuck", f"it cannot be removed completely: {facts.tree.stuck} cannot be emptied"),
        )
    if not facts.missing and (facts.contents is None or facts.tree is None):
        return "keep", (Reason("unreadable", "it could not be examined"),)
    return "remove", ()


def prune_plan(
    facts: Iterable[Facts],
    repositories: Iterable[Repository],
    *,
    living: frozenset[str],
    kept: Iterable[Kept] = (),
    troubles: Iterable[Trouble] = (),
    unclaimed: frozenset[Path] = frozenset(),
    force: bool = False,
) -> PrunePlan:
    """The whole plan.

    In a repository that is ``unclaimed`` refs stay: sessions of another data directory may need them.

    ``living`` are the sessions that exist or run: their refs stay, also when the worktree is gone. Refs of
    all others go, except where a worktree that stays bears the session's name: what is in it may need them.
    """
    going: list[Facts] = []
    staying = list(kept)
    failing = list(troubles)
    for one in facts:
        decision, reasons = decide(one, force=force)
        if decision == "remove":
            going.append(one)
        elif decision == "keep":
            staying.append(Kept(one.path, reasons))
        else:
            failing += [Trouble(one.path, reason.words) for reason in reasons]
    repositories = list(repositories)
    bound = _names_that_stay(repositories, staying, failing, going)
    removals, loose = _share_out(going, repositories, living, bound)
    staying += [Kept(one.common, (_UNCLAIMED,)) for one in loose if one.common in unclaimed]
    loose = tuple(one for one in loose if one.common not in unclaimed)
    return PrunePlan(
        force,
        removals,
        loose,
        tuple(sorted(staying, key=lambda one: one.path)),
        tuple(sorted(failing, key=lambda one: one.path)),
        tuple(repo.common for repo in repositories if not repo.private),
    )


def _share_out(
    going: list[Facts], repositories: list[Repository], living: frozenset[str], bound: frozenset[str]
) -> tuple[tuple[Removal, ...], tuple[Detachment, ...]]:
    """Which refs go with which worktree, and which go alone."""
    removals: list[Removal] = []
    loose: list[Detachment] = []
    for repo in sorted(repositories, key=lambda repo: repo.common):
        left = dict(repo.private)
        for one in sorted(going, key=lambda one: one.path):
            if one.common != repo.common:
                continue
            session = one.session_id or ""
            # A session that exists keeps its refs, above all when its worktree is gone: they hold its files.
            refs = {} if session in living | bound else left.pop(session, {})
            staying = tuple(sorted(left.get(session, {}))) if session in living else ()
            removals.append(Removal(one, repo.common, repo.main, refs, staying))
        dead = (refs for session, refs in sorted(left.items()) if session not in living | bound)
        refs = {name: oid for refs in dead for name, oid in refs.items()}
        if refs:
            loose.append(Detachment(repo.common, refs))
    return tuple(removals), tuple(loose)


def _names_that_stay(
    repositories: list[Repository], kept: list[Kept], failing: list[Trouble], going: list[Facts]
) -> frozenset[str]:
    """The last components of every worktree that stays, also of one that only git knows."""
    registered = {worktree.path for repo in repositories for worktree in repo.worktrees}
    registered -= {one.registered for one in going if one.registered is not None}
    staying = [*(one.path for one in kept), *(one.path for one in failing), *registered]
    return frozenset(path.name for path in staying)


def _identity(facts: Facts) -> Iterator[Reason]:
    """It may not be a worktree of ours at all."""
    if facts.trouble:
        yield Reason("unreadable", facts.trouble)
    if facts.is_link:
        yield Reason("symlink", "it is reached through a symbolic link")
    if facts.foreign:
        yield Reason("owner", "it belongs to another user")
    if facts.unlinked:
        yield Reason("not-linked", facts.unlinked)
    if facts.session_id is None:
        yield Reason("not-ours", "it is not named after a session")


def _liveness(facts: Facts) -> Iterator[Reason]:
    """Somebody may still need it."""
    if facts.owner_unreadable:
        words = f"the metadata of {facts.session_id} cannot be read, so the session may need it"
        yield Reason("referenced", words)
    if facts.named_by and (not facts.missing or facts.uprooted):
        yield Reason("referenced", f"used by {', '.join(facts.named_by)}")
    if facts.named_by and facts.uprooted:
        yield Reason("missing", "the directory that held it is gone too; it may be on a disk not mounted")
    if facts.running:
        yield Reason("running", f"a process holds the lock of {facts.session_id}")
    if facts.locked is not None:
        yield _locked(facts)
    if facts.in_use:
        yield Reason("in-use", f"in use by {', '.join(facts.in_use)}")


def _surroundings(facts: Facts) -> Iterator[Reason]:
    """More would go than the worktree."""
    if facts.inside is not None:
        words = f"it contains another worktree, or its own repository: {paths.show(facts.inside)}"
        yield Reason("inside", words)
    if facts.tree is not None and facts.tree.mounted is not None:
        yield Reason("mounted", f"another file system is mounted in it: {paths.show(facts.tree.mounted)}")


def _locked(facts: Facts) -> Reason:
    reason = f" ({facts.locked})" if facts.locked else ""
    if not facts.missing:
        return Reason("locked", f"it is locked{reason}")
    unlock = f"git -C {_shown(facts.common)} worktree unlock {_shown(facts.registered)}"
    return Reason(
        "locked",
        f"it is locked{reason} and nothing is there; it may be on a disk not mounted;"
        f" if it is gone for good: {unlock}",
    )


def _shown(path: Path | None) -> str:
    return "" if path is None else paths.show(path)


def _changes(contents: Contents) -> str:
    parts = []
    if contents.changed:
        parts.append(f"{contents.changed} uncommitted")
    if contents.untracked:
        parts.append(f"{contents.untracked} untracked")
    if contents.hidden:
        parts.append(f"{contents.hidden} changed unseen by git")
    return f"it has changes that are in no commit: {', '.join(parts)}"
