"""Worktrees below the storage roots, with and without sessions, and what must hold around a prune."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import outputs, program
from tests.support.program import Ran
from tests.support.sandbox import Sandbox

PRIVATE = "refs/yolop/checkpoints"


def session_id(number: int) -> str:
    """The id of a made-up session."""
    return f"session_{number:032x}"


class Field:
    """A sandbox with several repositories and worktrees."""

    def __init__(self, box: Sandbox) -> None:
        self.box = box
        self.repos: list[Path] = []

    @property
    def storage(self) -> Path:
        """The first storage root."""
        return self.box.tmp / "yolop" / "worktrees"

    @property
    def other_storage(self) -> Path:
        """The second storage root."""
        return self.box.home / ".yolop" / "worktrees"

    def repo(self, name: str = "repo", *options: str) -> Path:
        """A repository with one commit."""
        self.box.repo = self.box.root / name
        made = self.box.make_repo(*options)
        self.repos.append(made)
        return made

    def worktree(
        self,
        number: int,
        *,
        repo: Path | None = None,
        storage: Path | None = None,
        folder: str = "0a1b2c",
        refs: int = 1,
        name: str | None = None,
    ) -> Path:
        """A linked worktree on a branch of its own that no session names, and private refs of its session."""
        repo = repo or self.repos[0]
        path = (storage or self.storage) / folder / (name or session_id(number))
        path.parent.mkdir(parents=True, exist_ok=True)
        self.box.git("worktree", "add", "-q", "-b", f"work{number}", str(path), at=repo)
        for index in range(refs):
            self.ref(number, f"cp_{index + 1}_{index + 1}", repo=repo)
        return path

    def ref(self, number: int, name: str = "cp_1_1", *, repo: Path | None = None) -> str:
        """A private ref of a session."""
        ref = f"{PRIVATE}/{session_id(number)}/{name}"
        self.box.git("update-ref", ref, "HEAD^{tree}", at=repo or self.repos[0])
        return ref

    def session(self, number: int, path: Path | None, *, repo: Path | None = None, **metadata: Any) -> Path:
        """A saved session that names a worktree."""
        directory = self.box.sessions / session_id(number)
        directory.mkdir(mode=0o700)
        root = repo or self.repos[0]
        value: dict[str, Any] = {"active_root": str(path or root), "repo_root": str(root)}
        if path is not None:
            value["worktree"] = {"path": str(path), "branch": f"work{number}"}
        self.box.private(directory / "workspace.json", json.dumps({**value, **metadata}))
        return directory

    def refs(self, repo: Path | None = None) -> dict[str, str]:
        """Every ref of a repository."""
        out = self.box.git("for-each-ref", "--format=%(refname) %(objectname)", at=repo or self.repos[0])
        return dict(line.split(" ") for line in out.decode().split("\n") if line)

    def private_refs(self, repo: Path | None = None) -> list[str]:
        """The private refs of a repository."""
        return sorted(name for name in self.refs(repo) if name.startswith(f"{PRIVATE}/"))

    def registered(self, repo: Path | None = None) -> list[str]:
        """The linked worktrees that a repository knows, gone ones too."""
        out = self.box.git("worktree", "list", "--porcelain", "-z", at=repo or self.repos[0])
        rows = [row for row in out.split(b"\0") if row.startswith(b"worktree ")]
        return [os.fsdecode(row.removeprefix(b"worktree ")) for row in rows[1:]]

    def run(
        self,
        *arguments: str,
        code: int = 0,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        prefix: Sequence[str] = (),
        stdin: bytes | None = None,
        process: bool = False,
    ) -> Ran:
        """The program, its exit code and, with ``--json``, its document against the schema."""
        ran = program.run(
            arguments,
            env=self.box.environment(env),
            cwd=cwd or self.box.root,
            prefix=prefix,
            stdin=stdin,
            timeout=300,
            process=process,
        )
        assert ran.code == code, ran.dump()
        assert b"Traceback" not in ran.err, ran.dump()
        if "--json" in arguments and ran.out:
            assert not outputs.faults(outputs.schema_name(arguments), ran.json), ran.dump()
        if code == 9:  # the document is on standard output all the same, and the error on standard error
            assert ran.out, ran.dump()
            assert ran.error["code"] == "IO", ran.dump()
        return ran

    def dry(self, *arguments: str, code: int = 0, **options: Any) -> dict[str, Any]:
        """What a prune would do; nothing changes by asking."""
        before = self.snapshot()
        report = dict(
            self.run("worktree", "prune", "--dry-run", "--json", *arguments, code=code, **options).json
        )
        assert self.snapshot() == before
        assert report["dry_run"] is True
        return report

    def prune(self, *arguments: str, code: int = 0, **options: Any) -> dict[str, Any]:
        """A dry run and then the real run, which must say the same; all must be sound after it."""
        expected = self.dry(*arguments, code=code, **options)
        others = [self._others(repo) for repo in self.repos]
        report = dict(self.run("worktree", "prune", "--yes", "--json", *arguments, code=code, **options).json)
        assert {**report, "dry_run": True} == expected
        for repo, before in zip(self.repos, others, strict=True):
            assert self._others(repo) == before, "a ref outside the private ones changed"
            self.box.git("fsck", "--strict", at=repo)
        for removal in report["removed"]:
            path = program.path_bytes(removal["path"])
            assert not os.path.lexists(path)
            assert all(os.fsdecode(path) not in self.registered(repo) for repo in self.repos)
        return report

    def snapshot(self) -> object:
        """What a dry run must leave alone: refs, registrations, names below our roots."""
        roots = (self.storage, self.other_storage, self.box.data)
        names = [str(path) for root in roots for path in sorted(root.rglob("*"))]
        return names, [(self.refs(repo), self.registered(repo)) for repo in self.repos if repo.is_dir()]

    def _others(self, repo: Path) -> dict[str, str]:
        return {name: oid for name, oid in self.refs(repo).items() if not name.startswith(f"{PRIVATE}/")}


def removed(report: Mapping[str, Any]) -> list[str]:
    """The paths that went."""
    return [os.fsdecode(program.path_bytes(one["path"])) for one in report["removed"]]


def kept(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """The paths that stay, and the codes of the reasons."""
    return {os.fsdecode(program.path_bytes(one["path"])): one["codes"] for one in report["kept"]}


def why(report: Mapping[str, Any], path: Path) -> str:
    """The words of the reasons for one path."""
    return next(one["why"] for one in report["kept"] if one["path"] == str(path))
