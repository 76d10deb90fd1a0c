"""The acceptance criteria of the product document, each as a test named after it.

What "sends the model" means here is the active events: by the tests' own fold, and by what the program shows.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

from tests.support import holders, program, reader, trees
from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import OTHER_SID, Sandbox


def three_turns(box: Sandbox) -> list[str]:
    """Three turns, each with a message, a tool result and an answer."""
    return [
        box.turn("one", [("a.txt", "after one\n")]),
        box.turn("two", [("a.txt", "after two\n"), ("b.txt", "two\n")]),
        box.turn("three", [("a.txt", "after three\n")]),
    ]


def test_after_three_turns_rewinding_to_turn_one_sends_nothing_of_turns_two_and_three(ready: Sandbox) -> None:
    ready.agent.ask("hello")
    ready.agent.answer("hi")
    ready.agent.sequence += 5  # sequences that were never written to disk
    names = three_turns(ready)
    ready.agent.append("reason.item", {"opaque": "thought of three"})
    ready.back(names[1], "both")  # the state before turn two: turn one is the last that remains
    sent = reader.active_texts(ready.session)
    assert sent == ["hello", "hi", "one", "tool of one", "answer to one"]
    assert ready.cli("timeline", "show", "--json").json["active_path"] == [names[0]]
    assert [item["id"] for item in ready.checkpoints()] == [names[0]]
    ready.back(names[0], "both")
    assert reader.active_texts(ready.session) == ["hello", "hi"]
    assert ready.cli("timeline", "show", "--json").json["active_path"] == []
    ready.turn("another one")
    assert reader.active_texts(ready.session) == ["hello", "hi", "another one", "tool of another one",
                                                  "answer to another one"]  # fmt: skip


def test_resume_after_process_restart_materializes_the_same_active_branch(ready: Sandbox) -> None:
    names = three_turns(ready)
    ready.back(names[1], "both")
    fourth = ready.turn("four")
    shown = [ready.cli("timeline", "show", "--json").json for _ in range(2)]
    assert shown[0] == shown[1]
    assert shown[0]["active_path"] == [names[0], fourth] == ready.folded().active_path
    assert (
        shown[0]["head"]
        == fourth
        == ready.cli("session", "list", "--json", session=False).json["sessions"][0]["head"]
    )
    copied = ready.root / "elsewhere"
    shutil.copytree(ready.sessions, copied)
    again = ready.cli("timeline", "show", "--json", "--sessions-dir", copied).json
    assert again["active_path"] == shown[0]["active_path"]


def test_combined_rewind_restores_files_exactly(ready: Sandbox) -> None:
    """Creations, deletions, renames, binary content, links and modes, also when a shell command made them."""
    ready.write("renamed", "r\n")
    ready.write("deleted", "d\n")
    ready.write("binary", bytes(range(256)))
    ready.write("untracked/u", "u\n")
    ready.write("run", "#!/bin/sh\n", mode=0o755)
    (ready.worktree / "link").symlink_to("a.txt")
    ready.git("add", "renamed", "deleted", "binary", "run", "link")
    ready.git("commit", "-qm", "files")
    before = ready.state()
    name = ready.create("shell")["id"]
    ready.agent.ask("shell")
    shell = "mv renamed new-name; rm deleted; printf x >binary; mkdir made; echo m >made/m"
    shell += "; chmod -x run; ln -sfn run link"
    assert os.system(f"cd '{ready.worktree}' && {shell}") == 0
    shutil.rmtree(ready.worktree / "untracked")
    ready.complete()
    after = ready.state()
    ready.back(name, "both")
    assert ready.state() == before
    ready.redo()
    assert ready.state() == after


def test_restore_never_changes_head_branch_refs_commits_or_the_users_real_index(ready: Sandbox) -> None:
    ready.git("tag", "v1", at=ready.repo)
    ready.write("staged", "s\n")
    ready.git("add", "staged")
    ready.write("stashed", "x\n")
    ready.git("stash", "push", "-q", "-u", "--", "stashed")
    names = three_turns(ready)
    ready.git("commit", "-qam", "after the turns")
    before, objects = ready.gitstates(["--yes"]), ready.git("rev-list", "--all", "--reflog", at=ready.repo)
    for name in names[::-1]:
        ready.back(name, "both")
        ready.redo()
        ready.back(name, "workspace")
    assert ready.gitstates(["--yes"]) == before
    assert set(objects.split()) <= set(ready.git("rev-list", "--all", "--reflog", at=ready.repo).split())


@pytest.mark.parametrize("mode", ["both", "conversation", "workspace"])
def test_a_recovery_checkpoint_makes_every_successful_restore_redoable(ready: Sandbox, mode: str) -> None:
    names = three_turns(ready)
    ready.write("dirty", "never checkpointed\n")
    before, sent, head = ready.state(), reader.active_texts(ready.session), ready.folded().head
    done = ready.back(names[0], mode)
    if mode != "conversation":
        assert done["recovery"]["reference"] in ready.refs()
        assert "dirty" not in os.listdir(ready.worktree)
    ready.redo()
    assert (ready.state(), reader.active_texts(ready.session), ready.folded().head) == (before, sent, head)


def test_workspace_restore_is_unavailable_outside_the_session_owned_worktree(box: Sandbox) -> None:
    box.make_repo()
    box.make_session(owned=False, root=box.repo)  # worktrees off: the user's own checkout
    name = box.create()["id"]
    box.complete()
    box.write("a.txt", "two\n", at=box.repo)
    listed = box.checkpoints()[0]["workspace"]
    assert (listed["available"], listed["kind"]) == (False, None)
    assert listed["reason"]
    assert "conversation" in box.cli("checkpoint", "list").text
    for mode in ("workspace", "both"):
        assert box.cli("rewind", "preview", name, "--mode", mode, "--json", code=7).error["message"]
    assert box.plan(name, None)["mode"] == "conversation"
    assert (box.repo / "a.txt").read_text() == "two\n"
    assert box.refs() == {}


def test_workspace_restore_is_unavailable_when_the_worktree_claimed_is_the_main_checkout(
    box: Sandbox,
) -> None:
    box.ready()
    name = box.cap()
    file = box.session / "workspace.json"
    value = json.loads(file.read_bytes())
    value["worktree"]["path"] = value["active_root"] = str(box.repo)
    box.private(file, json.dumps(value))
    before = trees.state(box.repo)
    box.cli("rewind", "preview", name, "--mode", "workspace", "--json", code=7)
    assert not box.create()["workspace"]["available"]
    assert trees.state(box.repo) == before


def test_active_writers_block_restore(ready: Sandbox) -> None:
    names = three_turns(ready)
    token = ready.plan(names[0], "both")["token"]
    before = ready.state()
    with holders.flock(ready.sessions / ".locks" / ready.sid):
        ready.apply(token, code=6)
    with holders.flock(ready.agent.log):
        ready.apply(token, code=6)
    with holders.standing_in(ready.worktree):
        ready.apply(token, code=6)
    with holders.having_open(ready.worktree / "a.txt"):
        ready.apply(token, code=6)
    assert ready.state() == before
    ready.apply(token)


def test_a_failed_capture_or_preview_causes_no_mutation(ready: Sandbox) -> None:
    names = three_turns(ready)
    ready.write("locked", "x\n", mode=0)
    before, timeline, refs = ready.state().keys(), ready.timeline.read_bytes(), ready.refs()
    ready.cli("rewind", "preview", names[0], "--json", code=(7, 9), prefix=UNPRIVILEGED)
    assert (ready.state().keys(), ready.timeline.read_bytes(), ready.refs()) == (before, timeline, refs)
    assert not (ready.session / "restore.json").exists()


def test_abandoned_branches_remain_durable_but_absent_from_model_context(ready: Sandbox) -> None:
    names = three_turns(ready)
    log = ready.agent.log.read_bytes()
    ready.back(names[1], "both")
    fourth = ready.turn("four", [("c.txt", "four\n")])
    assert ready.agent.log.read_bytes().startswith(log)
    everything = {item["id"]: item for item in ready.checkpoints("--all-branches")}
    assert list(everything) == [fourth, *names[::-1]]  # newest first
    assert [everything[name]["active"] for name in (*names, fourth)] == [True, False, False, True]
    for name in names:
        assert everything[name]["workspace"]["available"]
    assert ready.cli("checkpoint", "cat", names[2], "a.txt").out == b"after two\n"
    sent = reader.active_texts(ready.session)
    assert "two" not in sent and "three" not in sent and "four" in sent
    ready.git("gc", "-q", "--prune=now", at=ready.repo)
    ready.cli("checkpoint", "verify", *names)


def test_session_and_worktree_pruning_remove_checkpoint_refs_without_touching_user_refs(
    ready: Sandbox,
) -> None:
    if not ready.supports("worktree", "prune"):
        pytest.skip("this program has no worktree prune")
    ready.cap()
    ready.git("tag", "v1", at=ready.repo)
    tree = ready.git("rev-parse", "HEAD^{tree}").decode().strip()
    ready.git("update-ref", f"refs/yolop/checkpoints/{OTHER_SID}/cp_1_1", tree, at=ready.repo)
    mine = ready.sid
    ready.sid = OTHER_SID
    ready.make_timeline(1)
    ready.sid = mine
    users = ready.git("for-each-ref", "refs/heads", "refs/tags", at=ready.repo)
    shutil.rmtree(ready.session)
    report = ready.cli("worktree", "prune", "--dry-run", "--json", session=False).json
    assert report["dry_run"] is True
    assert ready.worktree.exists() and len(ready.refs()) == 2
    ready.cli("worktree", "prune", "--yes", "--json", session=False, watch=False)
    assert not ready.worktree.exists()
    assert not [ref for ref in ready.refs() if mine in ref]
    assert ready.git("for-each-ref", "refs/heads", "refs/tags", at=ready.repo) == users


def test_preview_and_token_are_mandatory_even_for_a_restore_that_changes_nothing(ready: Sandbox) -> None:
    name = ready.cap()
    plan = ready.plan(name)
    assert program.changes(plan) == {}
    assert plan["token"]
    assert not any(record["type"] == "head_moved" for record in ready.records())
    ready.apply(plan["token"])
    assert ready.records()[-1]["type"] == "head_moved"
