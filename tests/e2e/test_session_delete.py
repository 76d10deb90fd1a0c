"""session delete: a preview and a token; the session's own things and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import holders, trees
from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import SID, Sandbox
from tests.support.worktrees import Field


def delete(box: Sandbox, *arguments: str, code: int = 0, **options: Any) -> Any:
    ran = box.cli("session", "delete", *arguments, "--json", code=code, **options)
    return ran.json if code == 0 else ran.error


@pytest.fixture
def used(ready: Sandbox) -> Sandbox:
    """A session with two turns, changed files in its worktree, and a neighbour's ref."""
    ready.turn("one", [("a.txt", "two\n")])
    ready.turn("two", [("b.txt", "b\n")])
    ready.git("update-ref", f"refs/yolop/checkpoints/{SID}0/cp_1_1", "HEAD^{tree}", at=ready.repo)
    ready.git(
        "update-ref", f"refs/yolop/checkpoints/{'session_' + 'f' * 32}/cp_1_1", "HEAD^{tree}", at=ready.repo
    )
    return ready


def mine(box: Sandbox) -> list[str]:
    return [name for name in box.refs() if name.startswith(f"refs/yolop/checkpoints/{SID}/")]


def test_preview_changes_nothing_and_token_does_what_it_showed(used: Sandbox) -> None:
    before = (trees.state(used.data), used.refs(), used.state())
    preview = delete(used)
    assert (trees.state(used.data), used.refs(), used.state()) == before
    assert preview["deleted"] is False
    assert preview["path"] == str(used.session)
    assert preview["worktree"] == str(used.worktree)
    assert sorted(one["name"] for one in preview["refs"]) == sorted(mine(used)) != []
    assert {one["repo"] for one in preview["refs"]} == {str(used.repo)}
    assert preview["files"] == sum(entry.kind != "directory" for entry in trees.state(used.session).values())
    others = {name: oid for name, oid in used.refs().items() if name not in mine(used)}

    done = delete(used, "--token", preview["token"])
    assert done == {**preview, "deleted": True, "token": None}
    assert not used.session.exists()
    assert used.refs() == others
    assert used.state() == before[2]
    assert not (used.sessions / ".locks" / SID).exists()
    used.git("fsck", at=used.repo)
    delete(used, code=3)


def test_yes_does_it_in_one_go(used: Sandbox) -> None:
    assert delete(used, "--yes")["deleted"] is True
    assert not used.session.exists() and mine(used) == []


def test_text_says_what_to_do_next(used: Sandbox) -> None:
    ran = used.cli("session", "delete")
    token = delete(used)["token"]
    assert f"session delete -s {SID} --token {token}" in ran.text
    assert f"left alone: the worktree {used.worktree}" in ran.text


def test_prune_then_takes_the_worktree(used: Sandbox) -> None:
    used.git("checkout", "-q", "--", ".")
    used.git("clean", "-fdq")
    delete(used, "--yes")
    report = used.cli("worktree", "prune", "--yes", "--json", session=False, watch=False).json
    assert [one["path"] for one in report["removed"]] == [str(used.worktree)]


@pytest.mark.parametrize("change", ["event", "ref", "file"])
def test_stale_token(used: Sandbox, change: str) -> None:
    token = delete(used)["token"]
    if change == "event":
        used.agent.ask("more")
    elif change == "ref":
        used.git("update-ref", f"refs/yolop/checkpoints/{SID}/cp_9_9", "HEAD^{tree}", at=used.repo)
    else:
        used.private(used.session / "note", "x")
    before = (trees.state(used.session), used.refs())
    assert delete(used, "--token", token, code=8)["code"] == "STALE"
    assert (trees.state(used.session), used.refs()) == before


@pytest.mark.parametrize("token", ["", "x", "0" * 32, "../x", "--yes"])
def test_forged_token(used: Sandbox, token: str) -> None:
    before = (trees.state(used.session), used.refs())
    delete(used, f"--token={token}", code=4)
    assert (trees.state(used.session), used.refs()) == before


def test_token_of_another_session(used: Sandbox) -> None:
    token = delete(used)["token"]
    other = used.sessions / ("session_" + "e" * 32)
    shutil.copytree(used.session, other)
    used.cli("session", "delete", "--token", token, "--json", "-s", other.name, code=4)
    assert other.is_dir() and used.session.is_dir()


@pytest.mark.parametrize("which", ["copy", "original"])
def test_what_a_copy_in_another_sessions_directory_needs_stays(used: Sandbox, which: str) -> None:
    """A backup of the sessions, deleted as one: the session itself needs the refs."""
    backup = used.home / ".local/share/yolop/sessions" / SID
    shutil.copytree(used.session, backup, symlinks=True)
    doomed, other = (backup, used.session) if which == "copy" else (used.session, backup)
    before = used.refs()
    named = ("-s", str(doomed))
    ran = used.cli("session", "delete", *named, session=False)
    assert f"left alone: its refs and snapshots, since {SID} is also in {other.parent}" in ran.text
    done = delete(used, "--yes", *named, session=False)
    assert (done["refs"], done["snapshots"], done["also_in"]) == ([], [], [str(other.parent)])
    assert used.refs() == before and not doomed.exists() and other.is_dir()
    done = delete(used, "--yes", "-s", str(other), session=False)
    assert mine(used) == [] and done["also_in"] == []


def test_token_and_yes_together(used: Sandbox) -> None:
    delete(used, "--yes", "--token", "x", code=2)
    assert used.session.is_dir()


@pytest.mark.parametrize("which", ["lock", "events"])
def test_busy(used: Sandbox, which: str) -> None:
    path = used.sessions / ".locks" / SID if which == "lock" else used.session / "events.jsonl"
    before = (trees.state(used.session), used.refs())
    with holders.flock(path):
        delete(used, "--yes", code=6)
        delete(used)  # looking is free
    assert (trees.state(used.session), used.refs()) == before


def test_repository_that_is_gone(used: Sandbox) -> None:
    used.repo.rename(used.root / "moved")
    preview = delete(used, watch=False)
    assert preview["refs"] == []
    assert preview["missing"] == [str(used.repo)]
    delete(used, "--token", preview["token"], watch=False)
    assert not used.session.exists()


def test_metadata_that_cannot_be_read(used: Sandbox) -> None:
    """Nothing names the repository then, but the directory one stands in does."""
    used.private(used.session / "workspace.json", "{")
    assert delete(used)["refs"] == []
    assert len(delete(used, cwd=used.repo)["refs"]) == len(mine(used))
    delete(used, "--yes", cwd=used.repo)
    assert mine(used) == []


def test_refs_that_cannot_be_deleted_keep_the_session(used: Sandbox) -> None:
    (used.repo / ".git" / "packed-refs.lock").touch()
    before = (trees.state(used.session), used.refs())
    delete(used, "--yes", code=9)
    assert (trees.state(used.session), used.refs()) == before


def test_directory_that_cannot_be_emptied_keeps_the_refs(used: Sandbox) -> None:
    used.session.chmod(0o500)
    before = used.refs()
    delete(used, "--yes", code=9, prefix=UNPRIVILEGED)
    used.session.chmod(0o700)
    assert used.refs() == before
    assert (used.session / "timeline.jsonl").exists()


def test_links_in_the_session_are_removed_and_not_followed(used: Sandbox) -> None:
    victim = used.root / "victim"
    victim.mkdir()
    (victim / "f").write_text("f")
    os.symlink(victim, used.session / "link")
    os.symlink(victim / "f", used.session / "file")
    delete(used, "--yes")
    assert (victim / "f").read_text() == "f"
    assert not used.session.exists()


def test_log_of_the_old_layout_goes_too(used: Sandbox) -> None:
    log: Path = used.sessions / f"{SID}.jsonl"
    used.private(log, "x\n")
    delete(used, "--yes")
    assert not log.exists()


def test_symbolic_private_ref_does_not_take_a_branch_with_it(used: Sandbox) -> None:
    field = Field(used)
    field.repos.append(used.repo)
    used.git("symbolic-ref", f"refs/yolop/checkpoints/{SID}/cp_9_9", "refs/heads/main", at=used.repo)
    delete(used, "--yes")
    assert "refs/heads/main" in field.refs()


def test_what_puts_half_restored_files_back_is_not_deleted_without_a_word(used: Sandbox) -> None:
    used.plan(used.checkpoints()[0]["id"], "workspace")
    waiting = json.loads((used.session / "restore.json").read_bytes())
    used.private(used.session / "restore.json", json.dumps({**waiting, "phase": "applying"}))
    refs = used.refs()
    error = delete(used, "--yes", code=4)
    assert f"rewind cancel -s {SID}" in error["hint"]
    assert used.session.exists() and used.refs() == refs
    delete(used, "--token", delete(used)["token"])
    assert not used.session.exists()


def test_after_a_cancel_nothing_is_in_the_way(used: Sandbox) -> None:
    used.plan(used.checkpoints()[0]["id"], "workspace")
    waiting = json.loads((used.session / "restore.json").read_bytes())
    used.private(used.session / "restore.json", json.dumps({**waiting, "phase": "applying"}))
    used.cli("rewind", "cancel")
    delete(used, "--yes")
