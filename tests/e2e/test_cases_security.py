"""What let strangers in with other tools: each reported case, and others of its kind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import holders, program, trees
from tests.support.agent import TIME
from tests.support.sandbox import OTHER_SID, SID, Sandbox, checkpoint_record

# -- 51: ids never become a path or a ref before they are checked

LINKED = "session_00000000000070008000000000000009"


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """A session, and a victim's files outside the sessions directory that a link leads to."""
    box = Sandbox(tmp_path_factory.mktemp("besieged"))
    box.ready()
    box.cap()
    box.write("timeline.jsonl", "v\n", at=box.root / "victim")
    (box.sessions / LINKED).symlink_to(box.root / "victim")
    return box


BAD_SESSIONS = {
    "parent": "../../victim",
    "absolute": "{root}/victim",
    "dot": ".",
    "dots": "..",
    "empty": "",
    "through the session": "{sid}/../{sid}x",
    "line feed": "{sid}\n",
    "upper case": "SESSION_00000000000070008000000000000001",
    "link": LINKED,
    "path of the link": "{sessions}/" + LINKED,
    "not hex": "session_0000000000007000800000000000000g",
    "star": "*",
    "locks": ".locks",
    "encoded": "..%2f..%2fvictim",
    "colon": "session_:",
}


@pytest.mark.parametrize("name", BAD_SESSIONS)
def test_case_51_session_ids(besieged: Sandbox, name: str) -> None:
    box = besieged
    given = BAD_SESSIONS[name].format(root=box.root, sid=box.sid, sessions=box.sessions)
    before = (trees.state(box.root / "victim"), trees.state(box.data), box.refs())
    create = ("checkpoint", "create", "--prompt", "x", "--json", f"--session={given}")
    box.cli(*create, code=(2, 3, 4, 7), session=False)
    assert (trees.state(box.root / "victim"), trees.state(box.data), box.refs()) == before


def test_case_51_session_from_the_environment_is_checked_too(besieged: Sandbox) -> None:
    before = trees.state(besieged.root / "victim")
    for given in ("../../victim", LINKED, "-h"):
        besieged.cli(
            "checkpoint", "create", "--prompt", "x", "--json",
            code=(2, 3, 4, 7), session=False, env={"YOLOP_SESSION": given},
        )  # fmt: skip
    besieged.cli("session", "list", "--json", session=False)
    assert trees.state(besieged.root / "victim") == before


BAD_CHECKPOINTS = (
    "../x",
    "cp_1_1/../../heads/main",
    "cp_1_1.lock",
    "-d",
    "a..b",
    "x^{}",
    "HEAD",
    "refs/heads/main",
    "cp_1_1\n",
    "",
    "cp_99_99",
    "recovery_0_x",
)


@pytest.mark.parametrize("given", BAD_CHECKPOINTS)
def test_case_51_checkpoint_ids(besieged: Sandbox, given: str) -> None:
    box = besieged
    before = (box.state(), box.refs(), box.timeline.read_bytes())
    box.cli("rewind", "preview", "--mode", "workspace", "--json", "-s", box.sid, "--", given, code=(2, 3, 4))
    assert (box.state(), box.refs(), box.timeline.read_bytes()) == before


def test_case_51_commit_id_is_not_a_checkpoint(besieged: Sandbox) -> None:
    commit = besieged.git("rev-parse", "HEAD").decode().strip()
    for command in (
        ("rewind", "preview", commit),
        ("checkpoint", "show", commit),
        ("checkpoint", "diff", commit),
    ):
        besieged.cli(*command, "--json", code=(3, 4))


FORGED = {
    "another ref": "refs/heads/main",
    "another session": f"refs/yolop/checkpoints/{OTHER_SID}/cp_1_1",
    "climbing": f"refs/yolop/checkpoints/{SID}/../../../heads/main",
    "longer id": f"refs/yolop/checkpoints/{SID}0/cp_1_1",
    "HEAD": "HEAD",
    "option": "--all",
}


def test_case_51_reference_inside_a_record(ready: Sandbox) -> None:
    """A forged reference is neither restored from nor ever deleted."""
    ready.write("evil", "e\n")
    ready.cap()
    tree = ready.git("rev-parse", "HEAD^{tree}").decode().strip()
    ready.git("update-ref", f"refs/yolop/checkpoints/{OTHER_SID}/cp_1_1", tree, at=ready.repo)
    before, refs = ready.state(), ready.refs()
    heads = ready.git("for-each-ref", "refs/heads", at=ready.repo)
    for number, reference in enumerate(FORGED.values()):
        name = f"cp_5_{number + 2}"
        snapshot = {"tree": tree, "reference": reference}
        moved = {"type": "head_moved", "from": None, "to": name, "redo_head": None, "redo_snapshot": snapshot}
        append(ready, checkpoint_record(name, None, "x", 5, snapshot), {**moved, "moved_at": TIME})
        ready.cli("rewind", "preview", name, "--mode", "workspace", "--json", code=(3, 4, 7, 9))
        ready.cli("redo", "--yes", "--json", code=(3, 4, 7, 9))
    assert ready.state() == before
    ready.cap()  # begins a turn: clears the redo, and must not delete what the record names
    assert refs.items() <= ready.refs().items()
    assert ready.git("for-each-ref", "refs/heads", at=ready.repo) == heads


def append(box: Sandbox, *records: dict[str, Any]) -> None:
    """Append records to the timeline as the agent would."""
    with box.timeline.open("ab") as file:
        for record in records:
            file.write(json.dumps(record).encode() + b"\n")


def test_case_51_tree_inside_a_record(ready: Sandbox) -> None:
    ready.cap()
    named = {
        "commit": ready.git("rev-parse", "HEAD").decode().strip(),
        "blob": ready.git("rev-parse", "HEAD:a.txt").decode().strip(),
        "missing": "1" * 40,
        "garbage": "HEAD^{tree}",
        "option": "--help",
    }
    before = ready.state()
    for number, tree in enumerate(named.values()):
        ready.agent_checkpoint(f"cp_5_{number + 2}", tree)
        preview = ("rewind", "preview", f"cp_5_{number + 2}", "--mode", "workspace", "--json")
        ready.cli(*preview, code=(3, 4, 7, 9))
    ready.cli("checkpoint", "list", "--json")
    assert ready.state() == before


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", "."])
def test_case_51_tree_with_a_path_that_leaves_the_root(ready: Sandbox, name: str) -> None:
    """A tree made by hand can hold any name; none may be written outside the root or into a git directory."""
    blob = ready.git("hash-object", "-w", "--stdin", stdin=b"evil\n", at=ready.repo).decode().strip()
    inner = f"100644 blob {blob}\tevil\0".encode()
    subtree = ready.git("mktree", "-z", stdin=inner, at=ready.repo).decode().strip()
    raw = b"40000 " + name.encode() + b"\0" + bytes.fromhex(subtree)
    tree = ready.git("hash-object", "--literally", "-w", "-t", "tree", "--stdin", stdin=raw, at=ready.repo)
    hash_ = tree.decode().strip()
    ready.git("update-ref", f"refs/yolop/checkpoints/{ready.sid}/cp_1_1", hash_, at=ready.repo)
    ready.agent_checkpoint("cp_1_1", hash_)
    before = (ready.state(), trees.state(ready.tmp / "yolop"), sorted(os.listdir(ready.worktree.parent)))
    pointer = ready.read(".git")
    ran = ready.cli("rewind", "preview", "cp_1_1", "--mode", "workspace", "--json", code=(0, 4, 7, 9))
    if ran.code == 0:
        ready.apply(ran.json["token"], code=(4, 7, 9))
    assert (
        ready.state(),
        trees.state(ready.tmp / "yolop"),
        sorted(os.listdir(ready.worktree.parent)),
    ) == before
    assert ready.read(".git") == pointer


# -- 53: nothing that the repository names is run


PROGRAMS = (
    *("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv"),
    *("diff.x.command", "diff.external", "core.pager", "pager.diff", "core.sshCommand", "gpg.program"),
    *("core.alternateRefsCommand", "core.editor", "merge.x.driver", "credential.helper", "core.askPass"),
    *("uploadpack.packObjectsHook", "sequence.editor", "interactive.diffFilter"),
)
HOOKS = (
    *("post-index-change", "reference-transaction", "post-checkout", "pre-commit", "post-commit"),
    *("fsmonitor-watchman", "pre-auto-gc", "post-rewrite", "post-merge", "applypatch-msg"),
)


def booby_trap(box: Sandbox, at: str, *, reject: bool = False) -> Path:
    """Programs in every setting that can name one, and hooks; gives the file they would write to."""
    marker = box.root / "marker"
    command = f"sh -c 'echo ran >>{marker}; cat'"
    for key in PROGRAMS:
        box.git("config", key, command, at=box.repo)
    box.git("config", "filter.x.required", "true", at=box.repo)
    hooks = box.repo / ".git/hooks" if at == "hooks" else box.root / "elsewhere"
    if at != "hooks":
        box.git("config", "core.hooksPath", str(hooks), at=box.repo)
    for name in HOOKS:
        box.write(name, f'#!/bin/sh\necho {name} >>"{marker}"\nexit {int(reject)}\n', at=hooks, mode=0o755)
    return marker


@pytest.mark.parametrize("at", ["hooks", "hooksPath"])
def test_case_53_no_program_of_the_repository_runs(ready: Sandbox, at: str) -> None:
    ready.write(".gitattributes", "* filter=x diff=x merge=x\n")
    ready.write("node_modules/m", "m\n")
    marker = booby_trap(ready, at, reject=True)
    marker.unlink(missing_ok=True)
    ready.write("a.txt", "two\n")
    cp = ready.cap(watch=False)  # our own git status would run the traps
    ready.checkpoints(watch=False)
    ready.write("a.txt", "three\n")
    quiet = {"watch": False}
    for command in (
        ("checkpoint", "show", cp),
        ("checkpoint", "diff", cp),
        ("checkpoint", "diff", cp, "--patch"),
        ("checkpoint", "diff", cp, "--stat"),
        ("checkpoint", "verify", cp),
        ("rewind", "status"),
    ):
        ready.cli(*command, "--json", code=(0, 1), **quiet)
    assert ready.cli("checkpoint", "cat", cp, "a.txt", **quiet).out == b"two\n"
    ready.cli("checkpoint", "extract", cp, str(ready.root / "out"), **quiet)
    assert (ready.root / "out/a.txt").read_text() == "two\n"
    ready.back(cp, **quiet)
    assert ready.read("a.txt") == b"two\n"
    ready.cli("redo", "--yes", "--json", **quiet)
    assert ready.read("a.txt") == b"three\n"
    ready.cli("undo", "--yes", "--json", **quiet)
    ready.cli("session", "list", session=False, **quiet)
    ready.cli("session", "show", **quiet)
    assert not marker.exists(), marker.read_text()


def test_case_53_attributes_and_configuration_of_the_worktree_itself(ready: Sandbox) -> None:
    """The same traps where a stranger could put them: worktree configuration, attributes, an include."""
    marker = ready.root / "marker"
    command = f"sh -c 'echo ran >>{marker}; cat'"
    ready.git("config", "extensions.worktreeConfig", "true", at=ready.repo)
    ready.git("config", "--worktree", "core.fsmonitor", command)
    ready.write(
        "evil.cfg", f'[filter "y"]\n\tclean = {command}\n\tsmudge = {command}\n\trequired\n', at=ready.root
    )
    ready.git("config", "include.path", str(ready.root / "evil.cfg"), at=ready.repo)
    (ready.repo / ".git/info").mkdir(exist_ok=True)
    (ready.repo / ".git/info/attributes").write_text("* filter=y\n")
    marker.unlink(missing_ok=True)
    cp = ready.cap(watch=False)
    ready.write("a.txt", "two\n")
    ready.back(cp, watch=False)
    assert ready.read("a.txt") == b"one\n"
    assert not marker.exists()


# -- 55: only what is proven to be the session's own is touched


def forge(box: Sandbox, path: str) -> None:
    """Another path in workspace.json as the worktree of the session."""
    file = box.session / "workspace.json"
    value = json.loads(file.read_bytes())
    value["worktree"].update(path=path, branch="keepme")
    value["active_root"] = path
    box.private(file, json.dumps(value))


FORGED_WORKTREES = {
    "plain directory": "{root}/dir",
    "main checkout": "{repo}",
    "above": "{root}",
    "climbing": "{worktree}/../../../../../dir",
    "home": "{home}",
    "relative": "dir",
    "below the worktree": "{worktree}/sub",
    "missing": "{root}/missing",
    "git directory": "{repo}/.git",
    "link to the main checkout": "{root}/link",
}


def test_case_55_forged_worktree_gets_neither_snapshot_nor_restore(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("f", "d\n", at=ready.root / "dir")
    ready.write("sub/x", "x\n")
    (ready.root / "link").symlink_to(ready.repo)
    places = {"root": ready.root, "repo": ready.repo, "worktree": ready.worktree, "home": ready.home}
    ready.write("a.txt", "mine\n", at=ready.repo)
    ready.write("a.txt", "two\n")
    victims = (
        trees.state(ready.root / "dir"),
        trees.state(ready.repo),
        ready.state(),
        trees.state(ready.home),
    )
    for kind, path in FORGED_WORKTREES.items():
        forge(ready, path.format(**places))
        ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=(4, 7, 9))
        made = ready.create()
        assert made["workspace"]["available"] is False, kind
        assert made["workspace"]["reason"], kind
    after = (trees.state(ready.root / "dir"), trees.state(ready.repo), ready.state(), trees.state(ready.home))
    assert after == victims


def test_case_55_worktree_of_another_repository_or_session(ready: Sandbox) -> None:
    cp = ready.cap()
    other = ready.root / "other"
    ready.git("init", "-q", "-b", "main", str(other), at=ready.root)
    ready.git("commit", "-q", "--allow-empty", "-m", "i", at=other)
    ready.git("worktree", "add", "-q", "-b", "w", str(ready.root / "foreign"), at=other)
    ready.write("f", "theirs\n", at=ready.root / "foreign")
    forge(ready, str(ready.root / "foreign"))
    ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=(4, 7, 9))
    assert not ready.create()["workspace"]["available"]
    assert (ready.root / "foreign/f").read_text() == "theirs\n"
    assert ready.git("for-each-ref", "refs/yolop", at=other) == b""


def test_case_55_worktree_replaced_by_a_link(ready: Sandbox) -> None:
    cp = ready.cap()
    ready.write("f", "d\n", at=ready.root / "dir")
    ready.worktree.rename(ready.root / "moved")
    ready.worktree.symlink_to(ready.root / "dir")
    ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=(4, 7, 9), watch=False)
    assert not ready.create(watch=False)["workspace"]["available"]
    assert trees.state(ready.root / "dir").keys() == {b"f"}


def test_case_55_links_inside_the_worktree_are_never_followed(ready: Sandbox) -> None:
    """Between preview and apply a directory becomes a link that leads out: nothing is written there."""
    ready.write("d/f", "1\n")
    cp = ready.cap()
    ready.write("d/f", "2\n")
    token = ready.plan(cp)["token"]
    outside = ready.write("f", "2\n", at=ready.root / "outside").parent
    shutil.rmtree(ready.worktree / "d")
    (ready.worktree / "d").symlink_to(outside)
    ready.apply(token, code=(7, 8))
    assert trees.state(outside) == {b"f": trees.Entry.of(os.fsencode(outside / "f"))}
    assert (outside / "f").read_text() == "2\n"


def test_case_55_pruning_keeps_victims_and_foreign_refs(ready: Sandbox) -> None:
    if not ready.supports("worktree", "prune"):
        pytest.skip("this program has no worktree prune")
    ready.cap()
    ready.write("f", "d\n", at=ready.root / "dir")
    ready.git("branch", "keepme", at=ready.repo)
    for kind in ("plain directory", "main checkout", "above", "climbing", "home"):
        places = {"root": ready.root, "repo": ready.repo, "worktree": ready.worktree, "home": ready.home}
        forge(ready, FORGED_WORKTREES[kind].format(**places))
        ready.cli("worktree", "prune", "--yes", "--json", code=(0, 1), session=False, watch=False)
    assert (ready.root / "dir/f").read_text() == "d\n"
    assert (ready.repo / "a.txt").read_text() == "one\n"
    assert b"keepme" in ready.git("branch", "--list", "keepme", at=ready.repo)
    tree = ready.git("rev-parse", "HEAD^{tree}", at=ready.repo).decode().strip()
    foreign = (f"refs/yolop/checkpoints/{SID}0/cp_1_1", "refs/yolop/checkpoints-other/x")
    for ref in foreign:
        ready.git("update-ref", ref, tree, at=ready.repo)
    shutil.rmtree(ready.session)
    ready.cli("worktree", "prune", "--yes", "--json", code=(0, 1), session=False, watch=False)
    assert set(foreign) <= set(ready.refs())


def test_case_55_worktree_in_use_is_not_pruned(ready: Sandbox) -> None:
    if not ready.supports("worktree", "prune"):
        pytest.skip("this program has no worktree prune")
    shutil.rmtree(ready.session)
    with holders.flock(ready.sessions / ".locks" / ready.sid):
        ready.cli("worktree", "prune", "--yes", "--json", code=(0, 1), session=False)
    assert (ready.worktree / "a.txt").exists()


def test_case_49_pruning_without_a_terminal_is_not_confirmed_by_text(ready: Sandbox) -> None:
    if not ready.supports("worktree", "prune"):
        pytest.skip("this program has no worktree prune")
    ready.write("draft", "draft\n")
    ready.cli("worktree", "prune", stdin=b"y\n" * 100, code=(0, 1, 2), session=False, timeout=20)
    assert ready.read("draft") == b"draft\n"


# -- output: nothing private where it does not belong


def test_case_51_private_payloads_are_never_printed(ready: Sandbox) -> None:
    secret = "opaque-provider-payload"
    record = {
        "record_type": "checkpoint",
        "record": {
            "id": "c1", "session_id": ready.sid, "source_sequence": 1, "provider_type": "p",
            "model": "m", "format_version": 1, "payload": {"x": secret},
        },
    }  # fmt: skip
    ready.private(ready.session / "compaction-checkpoints.jsonl", json.dumps(record) + "\n")
    cp = ready.turn("first", [("a.txt", "two\n")])
    for command in (("session", "show"), ("timeline", "show"), ("checkpoint", "show", cp), ("undo",)):
        for form in ((), ("--json",)):
            assert secret not in ready.cli(*command, *form).said


def test_case_53_changes_of_a_hostile_preview_are_data(ready: Sandbox) -> None:
    """Names that look like markup reach the screen as they are, without meaning anything there."""
    cp = ready.cap("[bold]prompt[/bold] {x} %s")
    ready.write("[red]x[/red]", "x\n")
    shown = ready.cli("rewind", "preview", cp, "--mode", "workspace").text
    assert "[red]x[/red]" in shown
    assert "[bold]prompt[/bold] {x} %s" in ready.cli("checkpoint", "list").text
    assert program.changes(ready.plan(cp)) == {b"[red]x[/red]": "deleted"}
