"""Rewind, undo and redo through the command line: three turns and back, the modes, and every bad input."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support import program, reader, trees
from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import OTHER_SID, Sandbox


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, list[str], Path]:
    """Three turns, made once, and a copy to start each test from in the same place."""
    box = Sandbox(tmp_path_factory.mktemp("three") / "box")
    box.ready()
    names = [
        box.turn("first", [("a.txt", "two\n"), ("new1", "1\n")]),
        box.turn("second", [("a.txt", "three\n"), ("new1", "1b\n")]),
        box.turn("third", [("a.txt", "four\n"), ("new3", "3\n")]),
    ]
    copy = box.root.with_name("copy")
    shutil.copytree(box.root, copy, symlinks=True)
    return box, names, copy


@pytest.fixture
def three(template: tuple[Sandbox, list[str], Path]) -> tuple[Sandbox, list[str]]:
    """Three turns that each changed the files. Gives the sandbox and the checkpoints' ids."""
    box, names, copy = template
    shutil.rmtree(box.root)
    shutil.copytree(copy, box.root, symlinks=True)
    box.agent.sequence = 9
    return box, list(names)


# -- modes: two axes


def test_rewind_of_both_moves_both(three: tuple[Sandbox, list[str]]) -> None:
    box, (first, second, third) = three
    plan = box.plan(second, None)
    assert plan["mode"] == "both"
    assert plan["kind"] == "rewind"
    assert plan["checkpoint_id"] == second
    assert plan["prompt"] == "second"
    assert plan["session_id"] == box.sid
    assert plan["exact"] is True
    assert plan["conversation"]["from"] == third
    assert plan["conversation"]["to"] == first
    assert plan["conversation"]["cut"] in ([second, third], [third, second])
    assert plan["conversation"]["cut_events"] == 6
    assert program.changes(plan) == {b"a.txt": "modified", b"new1": "modified", b"new3": "deleted"}
    assert plan["workspace"]["counts"] == {"added": 0, "modified": 2, "deleted": 1}
    assert plan["recovery"]["tree"] == plan["workspace"]["current_tree"]
    assert box.refs()[plan["recovery"]["reference"]] == plan["recovery"]["tree"]
    done = box.apply(plan["token"]).json
    assert done["kind"] == "rewind"
    assert done["mode"] == "both"
    assert done["head"] == {"from": third, "to": first}
    assert done["prompt"] == "second"
    assert done["workspace"]["tree"] == plan["workspace"]["target_tree"]
    assert {program.path_bytes(path) for path in done["workspace"]["restored"]} == {b"a.txt", b"new1"}
    assert {program.path_bytes(path) for path in done["workspace"]["deleted"]} == {b"new3"}
    assert (box.read("a.txt"), box.read("new1")) == (b"two\n", b"1\n")
    moved = box.records()[-1]
    assert moved["type"] == "head_moved"
    assert (moved["from"], moved["to"], moved["redo_head"]) == (third, first, third)
    assert moved["redo_snapshot"]["tree"] == plan["recovery"]["tree"]
    assert moved["redo_snapshot"]["reference"] == plan["recovery"]["reference"]
    assert not (box.session / "restore.json").exists()
    assert [item["id"] for item in box.checkpoints()] == [first]


def test_rewind_of_the_conversation_leaves_the_files(three: tuple[Sandbox, list[str]]) -> None:
    box, (first, second, third) = three
    before, stamps = box.state(), trees.stamps(box.worktree)
    plan = box.plan(second, "conversation")
    assert plan["workspace"] is None
    done = box.apply(plan["token"]).json
    assert done["head"] == {"from": third, "to": first}
    assert done["workspace"] is None
    assert done["prompt"] == "second"
    assert (box.state(), trees.stamps(box.worktree)) == (before, stamps)
    assert box.folded().active_path == [first]
    box.redo()
    assert box.folded().active_path == [first, second, third]
    assert box.state() == before


def test_rewind_of_the_workspace_leaves_the_conversation(three: tuple[Sandbox, list[str]]) -> None:
    box, (_first, second, third) = three
    before = box.state()
    plan = box.plan(second, "workspace")
    assert plan["conversation"] is None
    done = box.apply(plan["token"]).json
    assert done["head"] == {"from": third, "to": third}
    assert box.read("a.txt") == b"two\n"
    assert box.folded().head == third
    assert "answer to third" in reader.active_texts(box.session)
    box.redo()
    assert box.state() == before
    assert box.folded().head == third


@pytest.mark.parametrize(
    "alias,mode", [("chat", "conversation"), ("files", "workspace"), ("code", "workspace"), ("all", "both")]
)
def test_mode_aliases(three: tuple[Sandbox, list[str]], alias: str, mode: str) -> None:
    box, names = three
    assert box.plan(names[1], alias)["mode"] == mode


def test_rewind_to_any_of_three_turns_and_redo(three: tuple[Sandbox, list[str]]) -> None:
    box, names = three
    now = box.state()
    expected = [b"one\n", b"two\n", b"three\n"]
    for name, content in zip(names, expected, strict=True):
        box.back(name, "both")
        assert box.read("a.txt") == content
        assert box.folded().active_path == names[: names.index(name)]
        box.redo()
        assert box.state() == now
        assert box.folded().active_path == names
    assert len(reader.events(box.agent.log)) == 9


def test_rewind_to_an_event_number(three: tuple[Sandbox, list[str]]) -> None:
    box, (_first, second, _third) = three
    plan = box.cli("rewind", "preview", "--to-event", "5", "--json").json
    assert plan["checkpoint_id"] == second
    box.cli("rewind", "preview", "--to-event", "99", "--json", code=(3, 4))
    box.cli("rewind", "preview", "--to-event", "x", "--json", code=2)


# -- undo and redo


def test_undo_step_by_step_and_redo_once(three: tuple[Sandbox, list[str]]) -> None:
    box, (first, second, third) = three
    assert box.undo()["head"] == {"from": third, "to": second}
    assert box.read("a.txt") == b"three\n"
    assert box.undo()["head"] == {"from": second, "to": first}
    assert box.read("a.txt") == b"two\n"
    assert box.redo()["head"] == {"from": first, "to": second}
    assert box.read("a.txt") == b"three\n"
    box.cli("redo", "--yes", "--json", code=4)
    assert box.read("a.txt") == b"three\n"


def test_nothing_to_undo_and_nothing_to_redo(ready: Sandbox) -> None:
    ready.cli("undo", "--json", code=4)
    ready.cli("undo", "--yes", "--json", code=4)
    ready.cli("redo", "--json", code=4)
    ready.cap()
    ready.undo()
    ready.cli("undo", "--json", code=4)


def test_new_turn_clears_redo_and_keeps_the_branch(three: tuple[Sandbox, list[str]]) -> None:
    box, (first, second, third) = three
    box.back(second, "both")
    recovery = box.records()[-1]["redo_snapshot"]["reference"]
    assert recovery in box.refs()
    fourth = box.turn("another way", [("a.txt", "other\n")])
    assert recovery not in box.refs()
    assert [record["type"] for record in box.records()][-3:] == [
        "redo_cleared", "checkpoint_created", "turn_completed"
    ]  # fmt: skip
    box.cli("redo", "--yes", "--json", code=4)
    assert box.folded().active_path == [first, fourth]
    everything = box.checkpoints("--all-branches")
    assert {item["id"]: item["active"] for item in everything} == {
        first: True, second: False, third: False, fourth: True
    }  # fmt: skip
    assert set(box.refs()) == {
        f"refs/yolop/checkpoints/{box.sid}/{name}" for name in (first, second, third, fourth)
    }
    box.cli("rewind", "preview", third, "--json", code=4)  # not on the active branch


def test_redo_uses_up_its_refs(three: tuple[Sandbox, list[str]]) -> None:
    box, names = three
    before = box.refs()
    box.back(names[0], "both")
    box.redo()
    assert box.refs() == before
    assert box.folded().redo is None


def test_redo_takes_edits_made_after_the_rewind_into_its_own_preview(
    three: tuple[Sandbox, list[str]],
) -> None:
    box, names = three
    box.back(names[1], "both")
    box.write("mine", "typed after the rewind\n")
    plan = box.cli("redo", "--json").json
    assert plan["kind"] == "redo"
    assert program.changes(plan)[b"mine"] == "deleted"
    assert box.refs()[plan["recovery"]["reference"]]
    held = box.git("cat-file", "-p", f"{plan['recovery']['tree']}:mine", at=box.repo)
    assert held == b"typed after the rewind\n"


def test_undo_print_prompt_gives_the_prompt_alone(three: tuple[Sandbox, list[str]]) -> None:
    box, _names = three
    box.turn("line one\nline two \u00e9", [])
    out = box.cli("undo", "--yes", "--print-prompt").out
    assert out.decode().rstrip("\n") == "line one\nline two \u00e9"


def test_undo_of_a_turn_that_never_ended(ready: Sandbox) -> None:
    first = ready.turn("first", [("a.txt", "two\n")])
    second = ready.create("second")["id"]
    ready.agent.ask("second")
    ready.write("a.txt", "three\n")
    done = ready.undo()
    assert done["head"]["to"] == first
    assert done["prompt"] == "second"
    assert ready.read("a.txt") == b"two\n"
    state = ready.folded()
    assert (state.head, state.pending) == (first, None)
    assert "second" not in reader.active_texts(ready.session)
    ready.redo()
    assert ready.read("a.txt") == b"three\n"
    assert ready.folded().head == second


# -- status and cancel


def test_status_and_cancel(three: tuple[Sandbox, list[str]]) -> None:
    box, names = three
    refs, before, timeline = box.refs(), box.state(), box.timeline.read_bytes()
    plan = box.plan(names[1], "both")
    assert set(box.refs()) - set(refs) == {plan["recovery"]["reference"]}
    status = box.cli("rewind", "status", "--json").json
    assert names[1] in json.dumps(status)
    box.cli("rewind", "cancel", "--json")
    assert box.refs() == refs
    assert not (box.session / "restore.json").exists()
    assert (box.state(), box.timeline.read_bytes()) == (before, timeline)
    box.apply(plan["token"], code=(3, 4))
    box.cli("rewind", "cancel", "--json", code=(0, 3, 4))


def test_a_second_preview_replaces_the_first(three: tuple[Sandbox, list[str]]) -> None:
    box, names = three
    refs = box.refs()
    box.plan(names[0], "both")
    box.plan(names[1], "both")
    assert len(set(box.refs()) - set(refs)) == 1


def test_preview_changes_nothing_else(three: tuple[Sandbox, list[str]]) -> None:
    box, names = three
    before, stamps, timeline = box.state(), trees.stamps(box.worktree), box.timeline.read_bytes()
    log = box.agent.log.read_bytes()
    box.plan(names[0], "both")
    assert (box.state(), trees.stamps(box.worktree)) == (before, stamps)
    assert (box.timeline.read_bytes(), box.agent.log.read_bytes()) == (timeline, log)


def test_new_turn_drops_the_waiting_restore(three: tuple[Sandbox, list[str]]) -> None:
    box, names = three
    plan = box.plan(names[1], "both")
    box.cap()
    assert plan["recovery"]["reference"] not in box.refs()
    assert not (box.session / "restore.json").exists()
    box.apply(plan["token"], code=(3, 4, 8))


# -- turns


def test_checkpoint_create_and_complete(ready: Sandbox) -> None:
    ready.agent.ask("before the first checkpoint")
    made = ready.create("do it")
    assert made["id"] == "cp_2_1"
    assert made["parent"] is None
    assert made["event_start"] == 2
    assert made["event_end"] is None
    assert made["status"] == "pending"
    assert made["active"] is True
    assert made["workspace"]["kind"] == "git"
    assert made["workspace"]["tree"] == ready.refs()[made["workspace"]["reference"]]
    first, record = ready.records()
    assert (first["type"], first["baseline_end"]) == ("initialized", 1)
    assert record["snapshot"]["capture"] == "raw"
    ready.agent.answer("done")
    ready.complete()
    last = ready.records()[-1]
    assert (last["type"], last["checkpoint_id"], last["event_end"], last["success"]) == (
        "turn_completed", "cp_2_1", 2, True
    )  # fmt: skip
    assert ready.checkpoints()[0]["status"] == "completed"
    second = ready.create("again")
    assert (second["id"], second["parent"]) == ("cp_3_2", "cp_2_1")
    ready.complete("--failed")
    assert ready.checkpoints()[0]["status"] == "failed"


def test_pending_turn_is_closed_as_interrupted_by_the_next(ready: Sandbox) -> None:
    first = ready.create("one")["id"]
    ready.agent.ask("one")
    second = ready.create("two")["id"]
    closed = ready.records()[2]
    assert (closed["type"], closed["checkpoint_id"]) == ("turn_completed", first)
    assert (closed["success"], closed["event_end"]) == (False, 1)
    assert ready.checkpoint(second)["parent"] == first
    assert ready.checkpoint(first)["status"] == "failed"


def test_prompt_from_a_file_and_from_standard_input(ready: Sandbox) -> None:
    text = 'line one\nline two \u00e9\u2028 "q" \\ \t end'
    file = ready.write("prompt.txt", text, at=ready.root)
    ready.cli("checkpoint", "create", "--prompt-file", file, "--json")
    ready.cli("checkpoint", "create", "--prompt-file", "-", "--json", stdin=text.encode())
    prompts = [record["prompt"] for record in ready.records() if record["type"] == "checkpoint_created"]
    assert prompts == [text, text]
    ready.cli("checkpoint", "create", "--prompt-file", ready.root / "missing", "--json", code=(2, 3, 9))
    ready.cli("checkpoint", "create", "--json", code=2)
    bad = ready.write("bad.txt", b"\xff\xfe", at=ready.root)
    ready.cli("checkpoint", "create", "--prompt-file", bad, "--json", code=(2, 4, 9))
    assert len(ready.records()) == 4


def test_complete_without_a_pending_turn(ready: Sandbox) -> None:
    ready.cli("checkpoint", "complete", "--json", code=(3, 4))
    name = ready.cap()
    before = ready.timeline.read_bytes()
    ready.cli("checkpoint", "complete", "--json", code=(3, 4))
    ready.cli("checkpoint", "complete", "cp_9_9", "--json", code=(3, 4))
    assert ready.timeline.read_bytes() == before
    assert ready.folded().head == name


# -- looking at a checkpoint


def test_show_diff_cat_extract_verify_delete(three: tuple[Sandbox, list[str]]) -> None:
    box, (first, second, third) = three
    assert box.cli("checkpoint", "show", second, "--json").json
    patch = box.cli("checkpoint", "diff", second, "--patch").text
    assert "-two" in patch and "+four" in patch
    names = box.cli("checkpoint", "diff", first, second, "--name-status").text
    assert "a.txt" in names and "new1" in names and "new3" not in names
    assert "a.txt" in box.cli("checkpoint", "diff", second, "--stat").text
    box.cli("checkpoint", "diff", second, "--json")
    assert box.cli("checkpoint", "cat", second, "a.txt").out == b"two\n"
    box.cli("checkpoint", "cat", second, "missing", code=3)
    target = box.root / "out"
    box.cli("checkpoint", "extract", third, target)
    assert {name: (target / name).read_bytes() for name in ("a.txt", "new1")} == {
        "a.txt": b"three\n", "new1": b"1b\n"
    }  # fmt: skip
    box.cli("checkpoint", "verify")
    tree = box.refs()[f"refs/yolop/checkpoints/{box.sid}/{second}"]
    blob = box.git("rev-parse", f"{tree}:a.txt", at=box.repo).decode().strip()
    (box.repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    damaged = box.cli("checkpoint", "verify", code=1)
    assert blob in damaged.said or "a.txt" in damaged.said
    box.cli("checkpoint", "verify", third)
    before = box.state()
    box.cli("checkpoint", "delete", first, "--json", code=(0, 2, 4))
    assert box.state() == before


def test_extract_takes_one_file_and_overwrites_nothing(three: tuple[Sandbox, list[str]]) -> None:
    box, (_first, second, _third) = three
    target = box.root / "out"
    box.cli("checkpoint", "extract", second, target, "a.txt")
    assert [path.name for path in target.iterdir()] == ["a.txt"]
    (target / "a.txt").write_text("mine\n")
    box.cli("checkpoint", "extract", second, target, "a.txt", code=(4, 7, 9))
    assert (target / "a.txt").read_text() == "mine\n"


# -- which session


def test_session_by_path_id_prefix_environment_and_directory(ready: Sandbox) -> None:
    ready.cap()
    ways: list[tuple[list[str], dict[str, object]]] = [
        (["-s", str(ready.session)], {}),
        (["-s", ready.sid], {}),
        (["-s", ready.sid.removeprefix("session_")], {}),
        (["-s", ready.sid[:30]], {}),
        (["--session", ready.sid[:30]], {}),
        ([], {"env": {"YOLOP_SESSION": ready.sid}}),
        ([], {"cwd": ready.worktree}),
    ]
    for words, options in ways:
        shown = ready.cli("checkpoint", "list", *words, "--json", session=False, **options)  # type: ignore[arg-type]
        assert shown.json["session_id"] == ready.sid
    ready.cli("checkpoint", "list", "--json", session=False, code=3)
    ready.cli("checkpoint", "list", "-s", OTHER_SID, "--json", code=3)
    moved = ready.root / "elsewhere"
    shutil.copytree(ready.sessions, moved)
    for options in ({"env": {"YOLOP_SESSIONS_DIR": str(moved), "YOLOP_DATA_DIR": str(ready.root / "no")}},):
        assert ready.cli("checkpoint", "list", "--json", **options).json["session_id"] == ready.sid  # type: ignore[arg-type]


def test_ambiguous_prefix_and_tie_name_the_candidates(ready: Sandbox) -> None:
    shutil.copytree(ready.session, ready.sessions / OTHER_SID)
    assert OTHER_SID in ready.cli("checkpoint", "list", "-s", ready.sid[:30], "--json", code=(2, 4)).said
    tie = ready.cli("checkpoint", "list", "--json", session=False, cwd=ready.worktree, code=(2, 3, 4))
    assert OTHER_SID in tie.said and ready.sid in tie.said


# -- bad input: the exit code of the table, one line, and nothing changed


BAD_INPUT: dict[str, tuple[tuple[str, ...], int | tuple[int, ...]]] = {
    "unknown session": (("rewind", "status", "-s", OTHER_SID), 3),
    "unknown checkpoint": (("rewind", "preview", "cp_99_9"), 3),
    "unknown checkpoint of show": (("checkpoint", "show", "cp_99_9"), 3),
    "unknown checkpoint of diff": (("checkpoint", "diff", "cp_99_9"), 3),
    "unknown checkpoint of cat": (("checkpoint", "cat", "cp_99_9", "a.txt"), 3),
    "unknown checkpoint of verify": (("checkpoint", "verify", "cp_99_9"), 3),
    "unknown checkpoint of delete": (("checkpoint", "delete", "cp_99_9"), 3),
    "unknown path": (("checkpoint", "cat", "{cp}", "nothing"), 3),
    "wrong token": (("rewind", "apply", "wrong"), 4),
    "unknown mode": (("rewind", "preview", "{cp}", "--mode", "sideways"), 2),
    "no checkpoint": (("rewind", "preview"), 2),
    "no token": (("rewind", "apply"), 2),
    "no prompt": (("checkpoint", "create"), 2),
    "unknown option": (("checkpoint", "list", "--nonsense"), 2),
    "unknown command": (("nonsense",), 2),
    "unknown verb": (("checkpoint", "nonsense"), 2),
    "nothing to redo": (("redo",), 4),
    "path outside the root": (("checkpoint", "cat", "{cp}", "../../etc/passwd"), (2, 3, 7)),
    "absolute path": (("checkpoint", "cat", "{cp}", "/etc/passwd"), (2, 3, 7)),
    "prompt twice": (("checkpoint", "create", "--prompt", "x", "--prompt-file", "-"), 2),
}


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, str]:
    """One session that bad input is thrown at; nothing may ever change in it."""
    box = Sandbox(tmp_path_factory.mktemp("standing"))
    box.ready()
    name = box.turn("first", [("a.txt", "two\n")])
    return box, name


@pytest.mark.parametrize("kind", BAD_INPUT)
def test_bad_input(standing: tuple[Sandbox, str], kind: str) -> None:
    box, name = standing
    words, code = BAD_INPUT[kind]
    arguments = [word.format(cp=name) for word in words]
    named = "unknown" not in kind or kind.startswith(("unknown checkpoint", "unknown mode", "unknown path"))
    before = (trees.state(box.data), box.state(), box.refs())
    for form in ((), ("--json",)):
        ran = box.cli(*arguments, *form, code=code, session=named)
        if form:
            assert set(ran.error) == {"code", "message", "hint", "details"}
            assert "\n" not in ran.error["message"]
            assert ran.error["hint"], f"a hint says what to do\n{ran.dump()}"
    assert (trees.state(box.data), box.state(), box.refs()) == before


# -- damage


def damage(box: Sandbox, kind: str) -> None:
    """Damage to the timeline's committed prefix."""
    lines = box.timeline.read_bytes().rstrip(b"\n").split(b"\n")
    lines[2] = {
        "half a record": lines[2][: len(lines[2]) // 2],
        "NUL block": b"\0" * 412,
        "unknown type": lines[2].replace(b"turn_completed", b"turn_finished"),
        "repeated key": lines[2].replace(b'"success"', b'"success": false, "success"'),
        "two records on one line": lines[2] + lines[2],
        "lone surrogate": lines[2].replace(b'"type"', b'"x": "\\ud800", "type"'),
        "float for an integer": lines[2].replace(b'"event_end":', b'"event_end": 1.0, "y":'),
        "byte-order mark": b"\xef\xbb\xbf" + lines[2],
        "not UTF-8": lines[2].replace(b'"type"', b'"x": "\xff", "type"'),
    }[kind]
    box.private(box.timeline, b"\n".join(lines) + b"\n")


DAMAGE = (
    *("half a record", "NUL block", "unknown type", "repeated key", "two records on one line"),
    *("lone surrogate", "float for an integer", "byte-order mark", "not UTF-8"),
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, bytes]:
    """A session with three turns and its sound timeline."""
    box = Sandbox(tmp_path_factory.mktemp("finished"))
    box.ready()
    for number in range(3):
        box.turn(f"turn {number}", [("a.txt", f"{number}\n")])
    return box, box.timeline.read_bytes()


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_prefix_stops_writers_and_readers_go_on(finished: tuple[Sandbox, bytes], kind: str) -> None:
    box, sound = finished
    box.private(box.timeline, sound)
    damage(box, kind)
    before = (trees.state(box.data), box.state(), box.refs())
    # One command of each kind; every writer is tried with one damage.
    writers = [("undo", "--yes")]
    if kind == "half a record":
        writers += [
            ("checkpoint", "create", "--prompt", "x"), ("checkpoint", "complete"), ("redo", "--yes"),
            ("rewind", "preview", "cp_1_1"),
            ("rewind", "apply", "x"), ("checkpoint", "delete", "cp_1_1"),
        ]  # fmt: skip
    for words in writers:
        refused = box.cli(*words, "--json", code=5)
        assert refused.error["hint"]
        assert "line 3" in refused.said
    assert (trees.state(box.data), box.state(), box.refs()) == before
    listed = box.checkpoints("--all-branches")
    assert [item["id"] for item in listed] == ["cp_1_1"]
    states = box.cli("session", "list", "--json", session=False).json["sessions"]
    assert [item["state"] for item in states] == ["corrupt"]
    if kind == "half a record":
        box.cli("session", "show", "--json")
        box.cli("timeline", "show", "--json")
    report = box.cli("timeline", "validate", box.sid, "--json", session=False, code=1).json
    assert report["ok"] is False
    assert report["sessions"][0]["status"] == "corrupt"
    assert any(finding["line"] == 3 for finding in report["sessions"][0]["findings"])
    assert (trees.state(box.data), box.state(), box.refs()) == before


@pytest.mark.parametrize(
    "tail", [b'{"type": "turn_comp', b"\0" * 100, b'{"type": "turn_completed"}\n', b"\xff\n"]
)
def test_damaged_tail_is_ignored_and_set_aside_by_the_next_writer(
    finished: tuple[Sandbox, bytes], tail: bytes
) -> None:
    box, sound = finished
    box.private(box.timeline, sound + tail)
    rejected = box.session / "timeline.rejected.jsonl"
    rejected.unlink(missing_ok=True)
    assert len(box.checkpoints()) == 3
    assert box.timeline.read_bytes() == sound + tail
    name = box.cap("after the crash")
    assert box.folded().head == name
    assert box.timeline.read_bytes().startswith(sound)
    assert tail.rstrip(b"\n") in rejected.read_bytes()


def test_last_record_that_lacks_its_newline_is_kept(finished: tuple[Sandbox, bytes]) -> None:
    box, sound = finished
    box.private(box.timeline, sound.rstrip(b"\n"))
    box.cap("after the crash")
    assert box.timeline.read_bytes().startswith(sound)


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_undo_after_a_torn_tail_stays_undone(ready: Sandbox, cut: int) -> None:
    """A marker that lands on a torn line is lost with it, and the undone turn comes back to life."""
    for number in range(3):
        ready.turn(f"turn {number}", [("a.txt", f"{number}\n")])
    data = ready.timeline.read_bytes()
    ready.private(ready.timeline, data[:-cut])
    ran = ready.cli("undo", "--mode", "conversation", "--yes", "--json", code=(0, 4))
    if ran.code == 0:
        assert ready.folded().head == ran.json["head"]["to"]
        ready.cli("timeline", "validate", ready.sid, session=False, code=(0, 1))
        assert ready.checkpoints()[0]["id"] == ran.json["head"]["to"]
    else:
        assert ready.timeline.read_bytes() == data[:-cut]


def test_dotted_dialect_is_read_and_kept(ready: Sandbox) -> None:
    for number in range(2):
        ready.turn(f"turn {number}", [("a.txt", f"{number}\n")])
    data = ready.timeline.read_bytes()
    for kind in ("checkpoint", "turn", "head", "redo"):
        data = data.replace(f'"{kind}_'.encode(), f'"{kind}.'.encode())
    data = data.replace(b'"checkpoint.id"', b'"checkpoint_id"').replace(b'"redo.', b'"redo_')
    ready.private(ready.timeline, data)
    ready.undo()
    assert b'"head.moved"' in ready.timeline.read_bytes().split(b"\n")[-2]
    ready.redo()
    assert b'"redo.cleared"' in ready.timeline.read_bytes()
    assert len(ready.checkpoints()) == 2


# -- missing and unreadable things


def test_missing_files_are_normal(ready: Sandbox) -> None:
    for command in (("checkpoint", "list"), ("session", "show"), ("timeline", "show"), ("rewind", "status")):
        ready.cli(*command, "--json")  # no events, no timeline yet
    (ready.session / "workspace.json").unlink()
    made = ready.create()
    assert not made["workspace"]["available"]
    assert made["workspace"]["reason"]
    assert ready.cli("session", "list", "--json", session=False).json["sessions"][0]["id"] == ready.sid


def test_old_layout_keeps_the_log_beside_the_directory(ready: Sandbox) -> None:
    ready.agent.ask("one")
    ready.agent.answer("two")
    ready.agent.log.rename(ready.sessions / f"{ready.sid}.jsonl")
    assert ready.create()["event_start"] == 3


@pytest.mark.parametrize("name", ["timeline.jsonl", "workspace.json", "events.jsonl"])
def test_unreadable_session_file(ready: Sandbox, name: str) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    path = ready.session / name
    path.chmod(0)
    try:
        before = ready.state()
        ready.cli("undo", "--yes", "--json", code=(3, 4, 7, 9), prefix=UNPRIVILEGED)
        ready.cli("session", "list", "--json", session=False, prefix=UNPRIVILEGED)
        assert ready.state() == before
    finally:
        path.chmod(0o600)
    ready.undo()
    assert ready.read("a.txt") == b"one\n"


def without_git(box: Sandbox) -> dict[str, str | None]:
    """A PATH that has the interpreter but no git."""
    directory = box.root / "bin"
    directory.mkdir()
    return {"PATH": str(directory)}


def test_no_git_on_path(ready: Sandbox) -> None:
    ready.turn("first", [("a.txt", "two\n")])
    env = without_git(ready)
    before = ready.state()
    for command in (("checkpoint", "list"), ("session", "show"), ("timeline", "show")):
        ready.cli(*command, "--json", env=env)
    ready.cli("session", "list", "--json", session=False, env=env)
    refused = ready.cli("undo", "--yes", "--json", env=env, code=(7, 9))
    assert "git" in refused.error["message"] or "git" in refused.error["hint"]
    made = ready.create(env=env)
    assert not made["workspace"]["available"]
    assert "git" in made["workspace"]["reason"]
    ready.cli("checkpoint", "create", "--prompt", "x", "--require-workspace", "--json", env=env, code=(7, 9))
    assert ready.state() == before


def test_not_a_repository(box: Sandbox) -> None:
    plain = box.write("f", "f\n", at=box.root / "plain").parent
    box.make_session(owned=False, root=plain)
    made = box.create()
    assert not made["workspace"]["available"]
    assert made["workspace"]["reason"]
    box.complete()
    box.cli("rewind", "preview", made["id"], "--mode", "workspace", "--json", code=7)
    plan = box.plan(made["id"], None)
    assert plan["mode"] == "conversation"
    box.apply(plan["token"])
    box.cli("checkpoint", "create", "--prompt", "x", "--require-workspace", "--json", code=(7, 9))


def test_environment_of_a_git_hook(ready: Sandbox) -> None:
    other = ready.root / "other"
    ready.git("init", "-q", "-b", "main", str(other), at=ready.root)
    ready.write("theirs", "t\n", at=other)
    ready.git("add", "-A", at=other)
    ready.git("commit", "-qm", "theirs", at=other)
    before = trees.state(other), trees.gitstate(other, ready.env)
    env = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(other / ".git/objects"),
        "GIT_COMMON_DIR": str(other / ".git"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_PREFIX": "sub/",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_CONFIG_PARAMETERS": "'core.bare'='true'",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.worktree",
        "GIT_CONFIG_VALUE_0": str(other),
        "GIT_LITERAL_PATHSPECS": "0",
        "GIT_TRACE": str(ready.root / "trace"),
        "GIT_ATTR_SOURCE": "HEAD",
        "GIT_QUARANTINE_PATH": str(other),
    }
    cp = ready.cap(env=env, cwd=other)
    ready.write("a.txt", "two\n")
    ready.back(cp, env=env, cwd=other)
    assert ready.read("a.txt") == b"one\n"
    ready.cli("redo", "--yes", "--json", env=env, cwd=other)
    assert ready.read("a.txt") == b"two\n"
    assert (trees.state(other), trees.gitstate(other, ready.env)) == before
    assert not (ready.root / "trace").exists()


def test_worktree_that_is_gone(ready: Sandbox) -> None:
    cp = ready.cap()
    shutil.rmtree(ready.worktree)
    ready.cli("rewind", "preview", cp, "--mode", "workspace", "--json", code=(3, 7, 9), watch=False)
    assert not ready.create(watch=False)["workspace"]["available"]
    assert ready.plan(cp, "conversation", watch=False)["mode"] == "conversation"


def test_snapshot_whose_ref_is_gone(three: tuple[Sandbox, list[str]]) -> None:
    box, (_first, second, _third) = three
    box.git("update-ref", "-d", f"refs/yolop/checkpoints/{box.sid}/{second}", at=box.repo)
    before = box.state()
    ran = box.cli("rewind", "preview", second, "--mode", "workspace", "--json", code=(0, 3, 4, 7, 9))
    if ran.code == 0:  # the tree is still there: then it must be exact
        box.apply(ran.json["token"])
        assert box.read("a.txt") == b"two\n"
    else:
        assert box.state() == before


# -- every command leaves the user's repository alone (every run compares; this names the commands)


def test_no_command_touches_the_users_repository(three: tuple[Sandbox, list[str]]) -> None:
    box, (first, second, _third) = three
    box.git("stash", "list")
    box.write("staged", "s\n")
    box.git("add", "staged")
    box.write("staged", "s and more\n")
    reflog = box.repo / ".git/logs/HEAD"
    assert reflog.exists()
    for words in (
        ("checkpoint", "create", "--prompt", "x"),
        ("checkpoint", "complete"),
        ("checkpoint", "list"),
        ("checkpoint", "show", second),
        ("checkpoint", "diff", second),
        ("checkpoint", "verify"),
        ("rewind", "preview", second),
        ("rewind", "status"),
        ("rewind", "cancel"),
        ("undo",),
        ("rewind", "cancel"),
        ("timeline", "show"),
        ("session", "show"),
        ("undo", "--yes"),
        ("redo", "--yes"),
    ):
        box.cli(*words, "--json")
    box.cli("checkpoint", "extract", first, box.root / "out", "--json")
    box.cli("session", "list", "--json", session=False)
    box.cli("timeline", "validate", box.sid, "--json", session=False, code=(0, 1))
    assert Path(box.worktree / "staged").read_text() == "s and more\n"


def test_demo_makes_and_keeps_to_its_own_place(box: Sandbox) -> None:
    before = trees.state(box.data)
    ran = box.cli("demo", session=False, watch=False)
    assert ran.out
    assert trees.state(box.data) == before or str(box.data) in ran.text
    assert os.listdir(box.home) == [".gitconfig"]
