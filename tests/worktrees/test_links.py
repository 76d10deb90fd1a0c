"""The files by which worktrees and repositories name each other, on real repositories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.sandbox import Sandbox
from yolop_cli.ground.errors import StorageError
from yolop_cli.worktrees import links
from yolop_cli.worktrees.links import NotLinkedError


def test_link_of_a_worktree(ready: Sandbox) -> None:
    link = links.read_link(ready.worktree)
    assert link.common == ready.repo / ".git"
    assert link.admin.parent == link.common / "worktrees"
    assert link.registered == ready.worktree
    assert link.fault is None
    assert not link.is_locked and link.under_way() == () and not link.has_submodules()
    ready.git("worktree", "lock", str(ready.worktree))
    assert link.is_locked


def test_relative_pointers(ready: Sandbox) -> None:
    """As git writes them with worktree.useRelativePaths."""
    admin = links.read_link(ready.worktree).admin
    (ready.worktree / ".git").write_text(f"gitdir: {os.path.relpath(admin, ready.worktree)}\n")
    (admin / "gitdir").write_text(os.path.relpath(ready.worktree / ".git", admin) + "\n")
    link = links.read_link(ready.worktree)
    assert (link.admin, link.registered, link.fault) == (admin, ready.worktree, None)


@pytest.mark.parametrize(
    "text", ["", "gitdir:", "gitdir: ", "gitdir: \0", "x", "gitdir: /", "gitdir: .", "\xff"]
)
def test_pointer_that_is_none(ready: Sandbox, text: str) -> None:
    (ready.worktree / ".git").write_bytes(text.encode("latin-1"))
    with pytest.raises(NotLinkedError):
        links.read_link(ready.worktree)


def test_pointer_that_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    with pytest.raises(StorageError):
        links.read_link(tmp_path)


def test_repository_of_a_checkout(ready: Sandbox) -> None:
    common = ready.repo / ".git"
    bare = ready.root / "bare"
    ready.git("clone", "-q", "--bare", str(ready.repo), str(bare))
    assert links.common_directory(ready.repo) == common
    assert links.common_directory(ready.worktree) == common
    assert links.common_directory(common) == common
    assert links.common_directory(bare) == bare
    assert links.common_directory(ready.root) is None
    assert links.common_directory(ready.root / "nowhere") is None
    (ready.worktree / "deep").mkdir()
    assert links.enclosing(ready.worktree / "deep" / "er") == common
    assert links.enclosing(bare) == links.enclosing(bare / "refs") == bare
    assert links.enclosing(ready.root) is None
