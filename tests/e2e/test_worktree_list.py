"""worktree list: everything below both roots, truthfully, whatever else is there."""

from __future__ import annotations

import os
import shutil
from typing import Any

from tests.support import holders, program
from tests.support.sandbox import Sandbox
from tests.support.worktrees import Field, session_id


def listed(field: Field, **options: Any) -> dict[str, dict[str, Any]]:
    """The entries by path."""
    before = field.snapshot()
    report = field.run("worktree", "list", "--json", **options).json
    assert field.snapshot() == before
    return {os.fsdecode(program.path_bytes(one["path"])): one for one in report["worktrees"]}


def test_every_column(box: Sandbox) -> None:
    field = Field(box)
    repo = field.repo()
    mine, orphan = field.worktree(1, refs=2), field.worktree(2, storage=field.other_storage)
    field.session(1, mine)
    (mine / "draft").write_text("12345")
    box.git("worktree", "lock", "--reason", "why\nnot", str(orphan), at=repo)
    gone = field.worktree(3)
    shutil.rmtree(gone)
    plain = field.storage / "0a1b2c" / "plain"
    plain.mkdir()
    with holders.standing_in(mine) as pid:
        found = listed(field)
    assert list(found) == sorted([str(mine), str(orphan), str(gone), str(plain)])
    head = box.git("rev-parse", "HEAD", at=repo).decode().strip()

    one = found[str(mine)]
    assert one["session_id"] == session_id(1)
    assert (one["repo"], one["branch"], one["head"]) == (str(repo), "work1", head)
    assert (one["state"], one["referenced_by"]) == ("referenced", [session_id(1)])
    assert (one["dirty"], one["locked"], one["missing"]) == (True, False, False)
    assert one["refs"] == [f"refs/yolop/checkpoints/{session_id(1)}/cp_{n}_{n}" for n in (1, 2)]
    assert one["size"] == 4 + 5 + (mine / ".git").stat().st_size
    assert [reason["code"] for reason in one["kept"]] == ["referenced", "in-use", "changes"]
    assert f"pid {pid}" in one["in_use"][0]

    one = found[str(orphan)]
    assert (one["state"], one["dirty"], one["locked"], one["lock_reason"]) == (
        "orphan",
        False,
        True,
        "why\nnot",
    )
    one = found[str(gone)]
    assert (one["missing"], one["dirty"], one["size"], one["branch"]) == (True, None, None, "work3")
    assert one["kept"] == []
    one = found[str(plain)]
    assert (one["session_id"], one["repo"], one["branch"], one["dirty"]) == (None, None, None, None)


def test_text_is_plain_when_piped(box: Sandbox) -> None:
    field = Field(box)
    field.repo()
    path = field.worktree(1, name="es\x1b[31mc")
    (path / "draft").write_text("x")
    ran = field.run("worktree", "list")
    assert ran.text.split("\t")[:4] == [str(path).replace("\x1b", "\\e"), "orphan", "work1", "dirty"]
    assert b"\x1b" not in ran.out and ran.err == b""


def test_no_roots_no_sessions(box: Sandbox) -> None:
    field = Field(box)
    shutil.rmtree(box.sessions)
    assert listed(field) == {}
    assert field.run("worktree", "list").out == b""


def test_detached_and_unborn(box: Sandbox) -> None:
    field = Field(box)
    repo = field.repo()
    detached = field.worktree(1)
    box.git("checkout", "-q", "--detach", at=detached)
    unborn = field.worktree(2)
    box.git("switch", "-q", "--orphan", "fresh", at=unborn)
    found = listed(field)
    assert (found[str(detached)]["branch"], found[str(detached)]["dirty"]) == (None, False)
    assert (found[str(unborn)]["branch"], found[str(unborn)]["head"]) == ("fresh", None)
    assert found[str(detached)]["repo"] == str(repo)


def test_storage_roots_that_are_the_same_directory(box: Sandbox) -> None:
    field = Field(box)
    field.repo()
    path = field.worktree(1)
    field.other_storage.parent.mkdir()
    field.other_storage.symlink_to(field.storage)
    assert list(listed(field)) == [str(path)]
    field.prune()
    assert field.other_storage.is_symlink()
