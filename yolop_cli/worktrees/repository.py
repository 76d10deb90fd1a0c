"""One repository behind worktrees: what it has registered, its refs, and which commits are on no other ref.

Asked of git in a few processes a repository, however many worktrees it has. Refs are read and written only
through git, so packed refs and every ref format will do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import ids
from yolop_cli.ground.git import Git, GitError, Where, repository

# A ref that another process holds for a moment is worth a short wait.
_LOCK_WAIT = (("core.filesRefLockTimeout", "2000"), ("core.packedRefsTimeout", "2000"))
_BRANCHES = "refs/heads/"
_SHARED = (_BRANCHES, "refs/tags/", "refs/remotes/")
_STASH = "refs/stash"


@dataclass(frozen=True)
class Registered:
    """A worktree that the repository knows: its path as git has it, HEAD, full branch name, lock reason."""

    path: Path
    head: str | None = None
    branch: str | None = None
    locked: str | None = None


@dataclass(frozen=True)
class Repository:
    """What a repository says of its worktrees and refs; ``common`` is its resolved git directory.

    ``private`` maps a session id to its private refs and their objects; ``tips`` the branches, tags and
    remote-tracking refs to theirs; ``stashed`` are the short names of branches a stash was made on.
    """

    common: Path
    main: Path
    worktrees: tuple[Registered, ...]
    private: Mapping[str, Mapping[str, str]]
    tips: Mapping[str, str]
    stashed: frozenset[str]

    @property
    def where(self) -> Where:
        """Where git runs for it: by its git directory, with no configuration of the user."""
        return _where(self.common)


def _where(common: Path) -> Where:
    return repository(common).with_config(*_LOCK_WAIT)


def look(git: Git, common: Path) -> Repository:
    """Ask a repository for its worktrees and refs. Raises ``GitError``."""
    where = _where(common)
    registered = _registered(git, where)
    private: dict[str, dict[str, str]] = {}
    tips: dict[str, str] = {}
    stashed: frozenset[str] = frozenset()
    for oid, name, target in _refs(git, where):
        session_id = owner(name)
        if session_id is not None and not target:
            private.setdefault(session_id, {})[name] = oid
        elif name.startswith(_SHARED):
            tips[name] = oid
        elif name == _STASH:
            stashed = _stashed_on(git, where)
    main = registered[0].path if registered else common
    return Repository(common, main, tuple(registered[1:]), private, tips, stashed)


def only_here(git: Git, repo: Repository, heads: Mapping[Path, tuple[str, str | None]]) -> frozenset[Path]:
    """Those worktrees whose HEAD is on no branch other than their own, no tag and no remote-tracking ref.

    ``heads`` maps a worktree to its commit and its own branch. One process for all of them: commits that
    none of the other refs reaches are fetched as a graph, in which the own branches are followed.
    Raises ``GitError``.
    """
    own = {branch for _, branch in heads.values() if branch is not None}
    others = sorted({oid for name, oid in repo.tips.items() if name not in own})
    asked = sorted(
        {head for head, _ in heads.values()} | {repo.tips[name] for name in own if name in repo.tips}
    )
    if not asked:
        return frozenset()
    lines = [*asked, *(f"^{oid}" for oid in others)]
    out = git.run(
        repo.where, "rev-list", "--parents", "--ignore-missing", "--stdin", stdin=_lines(lines)
    ).line()
    graph = {row.split(" ")[0]: row.split(" ")[1:] for row in out.split("\n") if row}
    return frozenset(
        path
        for path, (head, branch) in heads.items()
        if head in graph
        and not _reaches(
            graph, (repo.tips[name] for name in own if name != branch and name in repo.tips), head
        )
    )


def owner(ref: str) -> str | None:
    """The session whose own private ref this is, compared by whole components."""
    parts = ref.split("/")
    session_id = parts[3] if len(parts) == 5 else ""
    if not ids.is_session_id(session_id) or ids.reference_name(session_id, ref) is None:
        return None
    return session_id


def delete_refs(git: Git, repo: Repository, refs: Mapping[str, str]) -> None:
    """Delete refs, all or none, each only while it has the value given. Raises ``GitError``."""
    _update(git, repo, "".join(f"delete {name}\0{oid}\0" for name, oid in refs.items()))


def restore_refs(git: Git, repo: Repository, refs: Mapping[str, str]) -> None:
    """Make refs that were deleted a moment ago again, all or none. Raises ``GitError``."""
    _update(git, repo, "".join(f"create {name}\0{oid}\0" for name, oid in refs.items()))


def remove_worktree(git: Git, where: Where, path: Path, *, force: bool) -> None:
    """Let git remove a worktree and what it knows of it; the branch stays. Raises ``GitError``."""
    git.run(where, "worktree", "remove", *(["--force"] if force else []), "--", os.fspath(path))


def _update(git: Git, repo: Repository, commands: str) -> None:
    if commands:
        # Never through a symbolic ref to what it stands for.
        git.run(repo.where, "update-ref", "--no-deref", "--stdin", "-z", stdin=commands.encode("ascii"))


def _registered(git: Git, where: Where) -> list[Registered]:
    asked = git.run(where, "worktree", "list", "--porcelain", "-z", ok=(0, 129))
    if asked.status == 0:
        blocks = [block.split(b"\0") for block in asked.out.split(b"\0\0") if block]
    else:
        # Git before 2.36 has no -z here. A path with a line feed is then cut short, matches nothing, stays.
        listed = git.run(where, "worktree", "list", "--porcelain").out
        blocks = [block.split(b"\n") for block in listed.split(b"\n\n") if block]
    return [_of_block(block) for block in blocks]


def _of_block(block: list[bytes]) -> Registered:
    fields = {key: value for key, _, value in (row.partition(b" ") for row in block)}
    head = fields.get(b"HEAD", b"").decode("ascii", "replace")
    locked = fields.get(b"locked")
    return Registered(
        Path(os.fsdecode(fields.get(b"worktree", b""))),
        head if head.strip("0") else None,
        os.fsdecode(fields[b"branch"]) if b"branch" in fields else None,
        None if locked is None else locked.decode("utf-8", "backslashreplace"),
    )


def _refs(git: Git, where: Where) -> Iterable[tuple[str, str, str]]:
    out = git.run(
        where,
        "for-each-ref",
        "--format=%(objectname)%00%(refname)%00%(symref)",
        *_SHARED,
        _STASH,
        f"{ids.REF_ROOT}/",
    ).out
    for row in out.split(b"\n"):
        if row:
            oid, name, target = row.split(b"\0")
            yield oid.decode("ascii"), os.fsdecode(name), os.fsdecode(target)


def _stashed_on(git: Git, where: Where) -> frozenset[str]:
    try:
        rows = git.run(
            where, "log", "-g", "-z", "--no-show-signature", "--format=%gs", _STASH, "--"
        ).records()
    except GitError:  # without a reflog nothing says where a stash was made; it stays in any case
        return frozenset()
    found = (
        row.decode("utf-8", "surrogateescape").removeprefix("WIP on ").removeprefix("On ") for row in rows
    )
    return frozenset(text.partition(":")[0] for text in found)


def _reaches(graph: Mapping[str, list[str]], tips: Iterable[str], wanted: str) -> bool:
    seen: set[str] = set()
    waiting = list(tips)
    while waiting:
        commit = waiting.pop()
        if commit == wanted:
            return True
        if commit in graph and commit not in seen:
            seen.add(commit)
            waiting += graph[commit]
    return False


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii")
