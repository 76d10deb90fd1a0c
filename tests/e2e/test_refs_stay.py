"""No command deletes a private ref that it was not asked for, whatever names it."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.support.sandbox import SID, Sandbox

PREFIX = f"refs/yolop/checkpoints/{SID}"


def test_a_new_turn_takes_no_ref_of_a_turn_that_the_journal_lost(ready: Sandbox) -> None:
    """As when the session was put back from an older copy: the ref is all that is left of that turn."""
    ready.cap("first")
    older = ready.timeline.read_bytes()
    ready.write("a.txt", "only here\n")
    lost = ready.cap("second")
    before = ready.refs()
    ready.private(ready.timeline, older)
    ready.write("a.txt", "since\n")
    new = ready.cap("third")
    assert new != lost
    refs = ready.refs()
    assert {name: refs.get(name) for name in before} == before
    assert refs.keys() - before.keys() == {f"{PREFIX}/{new}"}
    ready.write("a.txt", "x\n")
    ready.back(new)
    assert ready.read("a.txt") == b"since\n"
    found = ready.cli("timeline", "validate", "--json", code=(0, 1)).json["sessions"][0]["findings"]
    assert {one["code"] for one in found} == {"ref-without-record"}


@pytest.mark.parametrize(
    ("named", "command"),
    [
        ("checkpoint", "cancel"),
        ("checkpoint", "create"),
        ("checkpoint", "preview"),
        ("checkpoint", "doctor"),
        ("no record", "cancel"),
        ("no record", "doctor"),
        ("redo", "cancel"),
        ("redo", "doctor"),
    ],
)
def test_a_restore_that_waits_takes_no_ref_but_its_own(ready: Sandbox, named: str, command: str) -> None:
    """restore.json is older than the journal beside it, or forged."""
    first = ready.cap("first")
    ready.write("a.txt", "two\n")
    if named == "redo":
        ready.back(first)
        (ref,) = (name for name in ready.refs() if "recovery" in name)
    elif named == "checkpoint":
        ref = f"{PREFIX}/{first}"
    else:
        ref = f"{PREFIX}/cp_77_7"
        ready.git("update-ref", ref, "HEAD^{tree}")
    ready.write("a.txt", "three\n")
    before = ready.refs()
    ready.plan(first)
    waiting = json.loads((ready.session / "restore.json").read_bytes())
    ready.git("update-ref", "-d", waiting["recovery"]["reference"])
    waiting["recovery"]["reference"] = ref
    ready.private(ready.session / "restore.json", json.dumps(waiting))
    match command:
        case "cancel":
            ready.cli("rewind", "cancel")
        case "create":
            ready.cap("next")
        case "preview":
            ready.plan(first)
        case _:
            ready.agent.answer("more")
            ready.cli("doctor", SID, "--fix", session=False, code=(0, 1))
    refs = ready.refs()
    assert {name: refs.get(name) for name in before} == before


@pytest.mark.parametrize("command", ["cancel", "create", "doctor"])
def test_without_the_worktree_no_recovery_ref_goes(ready: Sandbox, command: str) -> None:
    first = ready.cap()
    ready.write("a.txt", "two\n")
    ready.plan(first)
    before = ready.refs()
    shutil.rmtree(ready.worktree)
    match command:
        case "cancel":
            ready.cli("rewind", "cancel", watch=False)
        case "create":
            ready.cli("checkpoint", "create", "--prompt", "next", watch=False)
        case _:
            ready.agent.answer("more")
            ready.cli("doctor", SID, "--fix", session=False, watch=False, code=(0, 1, 9))
    ready.git("worktree", "prune", at=ready.repo)
    out = ready.git("for-each-ref", "--format=%(refname)", PREFIX, at=ready.repo).decode()
    assert set(out.split()) == {name for name in before if name.startswith(PREFIX)}


def test_deleting_a_snapshot_never_reaches_through_a_symbolic_ref(ready: Sandbox) -> None:
    name = ready.cap()
    tip = ready.git("rev-parse", "refs/heads/main", at=ready.repo)
    ready.git("symbolic-ref", f"{PREFIX}/{name}", "refs/heads/main", at=ready.repo)
    ready.cli("checkpoint", "delete", name, watch=False)
    assert ready.git("rev-parse", "refs/heads/main", at=ready.repo) == tip
