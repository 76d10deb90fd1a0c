"""doctor, event and compaction: what they find, what they cure, what they leave alone."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.support import holders, program
from tests.support.sandbox import OTHER_SID, Sandbox


def session_of(box: Sandbox, *arguments: str, code: int | tuple[int, ...] = 0) -> dict[str, Any]:
    ran = box.cli("doctor", *arguments, "--json", code=code, watch=False)
    return dict(ran.json["sessions"][0])


def codes(report: dict[str, Any]) -> set[str]:
    return {one["code"] for one in report["findings"]}


class TestDoctor:
    def test_it_cures_what_needs_no_decision(self, ready: Sandbox) -> None:
        ready.cap()
        prefix = f"refs/yolop/checkpoints/{ready.sid}"
        ready.git("update-ref", f"{prefix}/recovery_90_9", "HEAD^{tree}")
        os.chmod(ready.timeline, 0o644)
        ready.timeline.write_bytes(ready.timeline.read_bytes()[:-1])
        leftovers = [
            ready.private(ready.session / ".timeline.jsonl.0123456789ab.tmp", b"half"),
            ready.private(ready.session / "capture.git" / "index.lock", b""),
        ]
        (ready.session / "capture.git" / "work").mkdir(mode=0o700)
        stage = ready.worktree / (".yolop-restore-" + "0" * 16)
        stage.mkdir()
        (stage / "0").write_bytes(b"staged")
        report = session_of(ready, code=1)
        assert {"loose-mode", "no-final-newline", "leftover", "recovery-without-record"} <= codes(report)
        assert {one["kind"] for one in report["fixable"]} == {"mode", "line-feed", "leftover", "ref"}
        assert stage.exists() and leftovers[0].exists()
        report = session_of(ready, "--fix")
        assert report["findings"] == [] and report["fixable"] == [] and report["failed"] == []
        (dropped,) = (one for one in report["fixed"] if one["kind"] == "ref")
        assert dropped["what"].endswith(ready.git("rev-parse", "HEAD^{tree}").decode().strip())
        assert not stage.exists() and not any(path.exists() for path in leftovers)
        assert not (ready.session / "capture.git" / "work").exists()
        assert stat.S_IMODE(ready.timeline.stat().st_mode) == 0o600
        assert ready.timeline.read_bytes().endswith(b"}\n")
        assert set(ready.refs()) == {f"{prefix}/cp_1_1"}
        assert session_of(ready, "--fix")["fixed"] == []

    def test_a_restore_that_can_no_longer_apply_is_dropped_with_its_ref(self, ready: Sandbox) -> None:
        first = ready.cap()
        ready.write("a.txt", "two\n")
        ready.plan(first)
        assert codes(session_of(ready)) == set()
        ready.agent.answer("more")
        report = session_of(ready, code=1)
        assert codes(report) == {"stale-restore"}
        session_of(ready, "--fix")
        assert not (ready.session / "restore.json").exists()
        assert not [name for name in ready.refs() if "recovery" in name]

    def test_what_a_link_leads_to_keeps_its_mode(self, ready: Sandbox) -> None:
        ready.cap()
        outside = ready.root / "log"
        outside.write_bytes(b"")
        outside.chmod(0o644)
        (ready.session / "events.jsonl").unlink(missing_ok=True)
        (ready.session / "events.jsonl").symlink_to(outside)
        ready.cli("doctor", ready.sid, "--fix", session=False, watch=False, code=(0, 1))
        assert outside.stat().st_mode & 0o777 == 0o644

    @pytest.mark.parametrize("name", ["timeline.jsonl", "events.jsonl", "compaction-checkpoints.jsonl"])
    def test_a_link_that_leads_nowhere_is_no_empty_file(self, ready: Sandbox, name: str) -> None:
        ready.cap()
        (ready.session / name).unlink(missing_ok=True)
        (ready.session / name).symlink_to(ready.root / "not mounted")
        found = session_of(ready, "--fix", code=1)["findings"]
        told = [one for one in found if "dangling" in one["message"]]
        assert {one["code"] for one in told} == {"unreadable-file"}
        assert len(told) == 1 and "bring back" in told[0]["fix"]
        if not name.startswith("compaction"):
            report = ready.cli("timeline", "validate", "--json", code=1, watch=False).json
            assert "unreadable-file" in codes(report["sessions"][0])
        assert (ready.session / name).is_symlink()

    def test_a_loose_mode_is_told_with_the_name_of_its_file(self, ready: Sandbox) -> None:
        ready.cap()
        paths = [ready.session, ready.sessions / ".locks" / ready.sid, ready.session / "capture.git"]
        for path in paths:
            path.chmod(0o755)
        told = [one["message"] for one in session_of(ready, code=1)["findings"]]
        assert sorted(told) == [
            f".locks/{ready.sid} has mode 0755, not 0600",
            "capture.git has mode 0755, not 0700",
            f"{ready.sid} has mode 0755, not 0700",
        ]

    @pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"version": 1}', b'{"version": 9}'])
    def test_a_restore_that_cannot_be_read_is_one_finding_with_a_way_out(
        self, ready: Sandbox, content: bytes
    ) -> None:
        first = ready.cap()
        ready.write("a.txt", "two\n")
        ready.plan(first)
        refs = ready.refs()
        ready.private(ready.session / "restore.json", content)
        (found,) = (
            one for one in session_of(ready, "--fix", code=1)["findings"] if one["code"] == "bad-file"
        )
        assert found["message"].startswith("restore.json: ") and "rewind cancel" in found["fix"]
        ready.cli("rewind", "cancel")
        assert "bad-file" not in codes(session_of(ready, code=(0, 1))) and ready.refs() == refs
        (aside,) = ready.session.glob("restore.json.unreadable-*")
        assert aside.read_bytes() == content

    def test_a_ref_that_alone_holds_its_files_stays(self, ready: Sandbox) -> None:
        """A journal that was cut between two lines looks whole: the refs are all that tells of the rest."""
        first = ready.cap("first")
        ready.write("a.txt", "only here\n")
        second = ready.cap("second")
        lines = ready.timeline.read_bytes().splitlines(keepends=True)
        before = ready.refs()
        ready.private(ready.timeline, b"".join(lines[:3]))
        ready.cli("doctor", ready.sid, "--fix", session=False, code=(0, 1))
        assert ready.refs() == before
        assert first in str(before) and second in str(before)

    def test_the_ref_of_a_turn_stays_though_another_holds_the_same_files(self, ready: Sandbox) -> None:
        """A turn after an undo begins with the files that the undone one began with."""
        ready.cap("first")
        whole = ready.timeline.read_bytes()
        second = ready.cap("second")
        before = ready.refs()
        assert len(before) == 2 and len(set(before.values())) == 1
        ready.private(ready.timeline, whole)
        report = session_of(ready, "--fix", code=(0, 1))
        assert "ref-without-record" in codes(report) and report["fixed"] == []
        assert ready.refs() == before
        ready.cli("timeline", "repair", "--strategy", "rebuild", "--apply")
        assert ready.checkpoint(second)["workspace"]["tree"] in before.values()

    def test_refs_stay_while_they_may_be_all_that_is_left(self, ready: Sandbox) -> None:
        ready.cap()
        ready.cap()
        before = ready.refs()
        whole = ready.timeline.read_bytes()
        ready.timeline.unlink()
        session_of(ready, "--fix", code=(0, 1))
        assert ready.refs() == before
        ready.private(ready.timeline, whole[:200] + b"\0" + whole[200:])
        session_of(ready, "--fix", code=1)
        assert ready.refs() == before
        # All turns are gone from the journal: that is still an error, though every line can be read.
        ready.cli("timeline", "repair", "--strategy", "truncate", "--apply", code=1)
        session_of(ready, "--fix", code=1)
        assert ready.refs() == before, "the records set aside still name them"

    def test_damage_is_named_and_left_to_repair(self, box: Sandbox) -> None:
        box.make_timeline(3)
        content = box.timeline.read_bytes().replace(b"cp_11_2", b"\0\0\0\0\0\0\0", 1)
        box.timeline.write_bytes(content)
        report = session_of(box, "--fix", code=1)
        assert "nul-bytes" in codes(report) and report["fixed"] == []
        assert box.timeline.read_bytes() == content

    def test_a_busy_session_is_looked_at_and_not_touched(self, box: Sandbox) -> None:
        box.make_timeline(1)
        box.private(box.session / ".timeline.jsonl.0123456789ab.tmp", b"being written")
        locks = box.sessions / ".locks"
        locks.mkdir(mode=0o700)
        with holders.flock(box.private(locks / box.sid, b"")):
            report = session_of(box)
            assert report["busy"] and report["findings"] == []
            refused = session_of(box, "--fix", code=1)
            assert refused["refused"] and refused["fixed"] == []
        assert (box.session / ".timeline.jsonl.0123456789ab.tmp").exists()

    def test_an_interrupted_restore_is_named_with_both_ways_on(self, ready: Sandbox) -> None:
        first = ready.cap()
        ready.write("a.txt", "two\n")
        ready.plan(first)
        waiting = json.loads((ready.session / "restore.json").read_bytes())
        ready.private(ready.session / "restore.json", json.dumps(waiting | {"phase": "applying"}))
        report = session_of(ready, "--fix", code=1)
        found = next(one for one in report["findings"] if one["code"] == "interrupted-restore")
        assert "rewind cancel" in found["fix"] and waiting["token"] in found["fix"]
        assert (ready.session / "restore.json").exists()

    def test_all_sessions_at_once(self, box: Sandbox) -> None:
        box.make_timeline(1)
        other = box.sessions / OTHER_SID
        other.mkdir(mode=0o700)
        box.private(other / "timeline.jsonl", b"garbage\n")
        ran = box.cli("doctor", "--all", "--json", code=1, session=False, watch=False).json
        assert [one["id"] for one in ran["sessions"]] == [box.sid, OTHER_SID]
        assert [bool(one["findings"]) for one in ran["sessions"]] == [False, True]
        assert "problems found" in box.cli("doctor", "--all", code=1, session=False, watch=False).text


ALL = [
    ("doctor", "--all"),
    ("timeline", "validate", "--all"),
    ("event", "validate", "--all"),
    ("compaction", "validate", "--all"),
]


class TestNoSessionHidesAnother:
    def two(self, box: Sandbox) -> Path:
        box.make_timeline(1)
        other = box.sessions / OTHER_SID
        other.mkdir(mode=0o700)
        box.private(other / "timeline.jsonl", box.timeline.read_bytes())
        return other

    def codes_of(self, box: Sandbox, *command: str, code: int | tuple[int, ...] = 1) -> list[set[str]]:
        ran = box.cli(
            *command, "--json", code=code, session=False, watch=False, prefix=program.UNPRIVILEGED
        ).json
        assert [one["id"] for one in ran["sessions"]] == [box.sid, OTHER_SID]
        return [codes(one) for one in ran["sessions"]]

    @pytest.mark.parametrize("command", ALL, ids=" ".join)
    def test_an_event_log_that_is_none(self, box: Sandbox, command: tuple[str, ...]) -> None:
        os.mkfifo(self.two(box) / "events.jsonl")
        sound, other = self.codes_of(box, *command)
        assert sound == set() and "unreadable-file" in other

    @pytest.mark.parametrize("command", ALL[:2], ids=" ".join)
    @pytest.mark.parametrize("key", ["repo_root", "path"])
    def test_a_path_that_is_too_long(self, ready: Sandbox, command: tuple[str, ...], key: str) -> None:
        self.two(ready)
        metadata = json.loads((ready.session / "workspace.json").read_bytes())
        (metadata if key == "repo_root" else metadata["worktree"])[key] = "/a" * 3000
        ready.private(ready.session / "workspace.json", json.dumps(metadata))
        first, other = self.codes_of(ready, *command, code=(0, 1))
        assert first & {"snapshots-unreachable", "unreachable-worktree"} and other == set()
        ready.cli("timeline", "repair", watch=False)
        ready.cli("doctor", "--all", "--fix", code=(0, 1), session=False, watch=False)

    @pytest.mark.parametrize("command", ALL, ids=" ".join)
    def test_a_directory_that_cannot_be_entered(self, box: Sandbox, command: tuple[str, ...]) -> None:
        other = self.two(box)
        box.private(other / "events.jsonl", b"")
        other.chmod(0)
        sound, shut = self.codes_of(box, *command)
        assert sound == set() and "unreadable-file" in shut
        if command[0] == "doctor":
            assert "loose-mode" in shut
            assert self.codes_of(box, *command, "--fix", code=0) == [set(), set()]
            assert stat.S_IMODE(other.stat().st_mode) == 0o700


class TestEvents:
    def log(self, box: Sandbox) -> Path:
        box.make_timeline(1)
        for number in range(4):
            box.agent.ask(f"m{number}")
        return box.agent.log

    def report(self, box: Sandbox, code: int) -> dict[str, Any]:
        return dict(box.cli("event", "validate", "--json", code=code).json["sessions"][0])

    def test_a_sound_log(self, box: Sandbox) -> None:
        self.log(box)
        report = self.report(box, 0)
        assert (report["events"], report["last_sequence"], report["findings"]) == (4, 4, [])

    def test_every_fault_has_its_name_and_line(self, box: Sandbox) -> None:
        log = self.log(box)
        lines = log.read_bytes().split(b"\n")[:-1]
        lines[1] = b"\0" * 30
        lines[2] = lines[2].replace(b'"id": "event_', b'"id": "evnt_')
        lines.append(lines[0])
        lines.append(lines[3].replace(b'"sequence": 4', b'"sequence": null'))
        lines.append(lines[3].replace(box.sid.encode(), OTHER_SID.encode()))
        log.write_bytes(b"\n".join(lines) + b"\n" + lines[3][:40])
        report = self.report(box, 1)
        assert [(one["code"], one["line"]) for one in report["findings"]] == [
            ("event-malformed", 2),
            ("event-form", 3),
            ("event-order", 5),
            ("foreign-events", 7),
            ("event-torn", 8),
            ("event-unnumbered", 6),
        ]
        assert "30 NUL bytes" in report["findings"][0]["message"]

    def test_memory_does_not_grow_with_the_findings(self, box: Sandbox) -> None:
        box.make_timeline(1)
        box.private(box.agent.log, b"x\n" * 5000)
        report = self.report(box, 1)
        assert len(report["findings"]) == 1000 and report["more"] == 4000

    def test_list_by_branch_type_and_checkpoint(self, box: Sandbox) -> None:
        self.log(box)
        names = [f"cp_{start}_{number}" for number, start in ((1, 1), (2, 3))]
        lines: list[dict[str, Any]] = [
            {"type": "initialized", "baseline_end": 0, "created_at": "2026-01-01T00:00:00Z"}
        ]
        for name, start in zip(names, (1, 3), strict=True):
            lines.append(
                {
                    "type": "checkpoint_created",
                    "id": name,
                    "parent": None,
                    "prompt": "",
                    "event_start": start,
                    "created_at": "2026-01-01T00:00:00Z",
                }
            )
            done = {"type": "turn_completed", "checkpoint_id": name, "event_end": start + 1}
            lines.append({**done, "success": True, "completed_at": "2026-01-01T00:00:00Z"})
        box.private(box.timeline, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

        def sequences(*arguments: str) -> list[int]:
            return [one["sequence"] for one in box.cli("event", "list", "--json", *arguments).json["events"]]

        assert sequences() == [3, 4]
        assert sequences("--all") == [1, 2, 3, 4]
        assert sequences("--checkpoint", "cp_1_1") == [1, 2]
        assert sequences("--all", "--type", "tool.completed") == []
        box.cli("event", "list", "--checkpoint", "cp_9_9", code=3)
        assert box.cli("event", "list", "--all", "--jsonl").out == box.agent.log.read_bytes()


class TestCompaction:
    def records(self, box: Sandbox, *found: tuple[str, int, str]) -> None:
        box.make_timeline(3)
        lines = [
            {
                "record_type": "checkpoint",
                "record": {
                    "id": name,
                    "session_id": session,
                    "source_sequence": sequence,
                    "provider_type": "p",
                    "model": "m",
                    "format_version": 1,
                    "payload": {"secret": "never shown"},
                },
            }
            for name, sequence, session in found
        ]
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        box.private(box.session / "compaction-checkpoints.jsonl", content)

    def test_the_highest_that_is_active_is_in_force(self, box: Sandbox) -> None:
        self.records(box, ("a", 5, box.sid), ("b", 15, box.sid), ("c", 25, box.sid), ("d", 28, OTHER_SID))
        token = box.cli("undo", "--mode", "conversation", "--json").json["token"]
        box.cli("rewind", "apply", token)
        ran = box.cli("compaction", "list", "--json")
        listed = {one["id"]: one for one in ran.json["replacements"]}
        assert [name for name, one in listed.items() if one["in_force"]] == ["b"]
        assert "up to event 15" in listed["a"]["reason"]
        assert "abandoned" in listed["c"]["reason"] and "another session" in listed["d"]["reason"]
        assert b"secret" not in ran.out + box.cli("compaction", "list").out
        report = box.cli("compaction", "validate", "--json").json["sessions"][0]
        assert [one["code"] for one in report["findings"]] == ["compaction-foreign"]

    def test_what_is_malformed_is_named_without_its_payload(self, box: Sandbox) -> None:
        self.records(box, ("a", 5, box.sid))
        path = box.session / "compaction-checkpoints.jsonl"
        content = path.read_bytes()
        path.write_bytes(content.replace(b'"model": "m"', b'"model": 7') + content[:50] + b"\n" + content)
        ran = box.cli("compaction", "validate", "--json", code=1)
        report = ran.json["sessions"][0]
        assert [(one["code"], one["line"]) for one in report["findings"]] == [
            ("compaction-malformed", 1),
            ("compaction-malformed", 2),
        ]
        assert report["records"] == 1 and b"never shown" not in ran.out
