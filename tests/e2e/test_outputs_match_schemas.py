"""Every command's ``--json`` has the form that its schema states, on a real session and real git.

Each test names the commands it runs, and fails if it did not run them. The commands are read from the live
command table: a new one that no test here names, or a schema that no command prints, fails the last test of
this module.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec

import click
import pytest

from tests.support import holders
from tests.support.program import Ran
from tests.support.sandbox import Sandbox
from yolop_cli.cli.main import root
from yolop_cli.ground import schemas

Words = tuple[str, ...]
# Commands that print another's document: undo and redo are previews, with --yes results.
PRINTS: dict[Words, tuple[str, ...]] = {
    ("undo",): ("rewind-preview", "rewind-apply"),
    ("redo",): ("rewind-preview", "rewind-apply"),
}
NOT_UTF8 = b'caf\xe9\n"x".txt'


def live_commands(group: click.Group = root, path: Words = ()) -> Iterator[Words]:
    """Every command that does something, as the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from live_commands(command, (*path, name))
        else:
            yield (*path, name)


def outputs_of(path: Words) -> tuple[str, ...]:
    """The names of the schemas of what a command prints."""
    return tuple(f"output/{name}" for name in PRINTS.get(path, ("-".join(path),)))


NAMED: set[Words] = set()
P = ParamSpec("P")


def runs(*commands: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Name the commands whose documents a test checks; the test fails if it did not run one of them."""
    paths = {tuple(command.split()) for command in commands}
    NAMED.update(paths)

    def decorate(test: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(test)
        def checked(*args: P.args, **kwargs: P.kwargs) -> None:
            Story.ran = frozenset()
            test(*args, **kwargs)
            assert paths - Story.ran == set(), "commands that this test names and has not run"

        return checked

    return decorate


class Story:
    """Runs of the program whose every document is checked; remembers which commands were run."""

    ran: frozenset[Words] = frozenset()

    def __init__(self, box: Sandbox) -> None:
        self.box = box

    def run(self, *words: str | bytes | Path, code: int | Sequence[int] = 0, **options: Any) -> Any:
        """Run a command with --json. Gives the document it printed, which is valid."""
        ran = self.box.cli(*words, "--json", code=code, **options)
        path = _called(words)
        Story.ran |= {path}
        return self._check(ran, ran.out, outputs_of(path))

    def refuse(self, *words: str | Path, code: int, **options: Any) -> Any:
        """Run a command that must fail. Gives the error document on standard error, which is valid."""
        ran = self.box.cli(*words, "--json", code=code, **options)
        if not outputs_of(_called(words)):
            Story.ran |= {_called(words)}
        assert ran.out == b"", ran.dump()
        return self._check(ran, ran.err, ("output/error",))

    @staticmethod
    def _check(ran: Ran, data: bytes, names: tuple[str, ...]) -> Any:
        value = json.loads(data)
        wrong = {name: schemas.errors(name, value) for name in names}
        fitting = [name for name, errors in wrong.items() if not errors]
        assert len(fitting) == 1, f"{wrong}\n{ran.dump()}"
        return value


def _called(words: Sequence[str | bytes | Path]) -> Words:
    named = tuple(word for word in words[:2] if isinstance(word, str))
    return next(path for path in LIVE if path == named[: len(path)])


LIVE = frozenset(live_commands())


@pytest.fixture
def story(ready: Sandbox) -> Story:
    """A session of three turns that touch files of every kind, names that are not UTF-8 among them."""
    ready.turn("the first", [("a.txt", "two\n"), ("new.txt", "n\n")])
    ready.write(NOT_UTF8, b"\0\xff")
    ready.turn("the second", [("dir/b.txt", "b\n")])
    ready.write(NOT_UTF8, b"\0\xfe")
    (ready.worktree / "new.txt").unlink()
    ready.turn("the third", [("a.txt", "three\n")])
    return Story(ready)


def _ids(story: Story) -> list[str]:
    return [item["id"] for item in story.run("checkpoint", "list")["checkpoints"]]


@runs("session list", "session show")
def test_sessions(story: Story) -> None:
    listed = story.run("session", "list", session=False)["sessions"]
    assert [one["id"] for one in listed] == [story.box.sid]
    shown = story.run("session", "show")
    assert shown["counts"]["checkpoints"] == 3 and shown["worktree"]["owned"]
    with holders.flock(story.box.sessions / ".locks" / story.box.sid):
        assert story.run("session", "show")["state"] == "busy"
        assert story.run("session", "list", session=False)["sessions"][0]["state"] == "busy"
        story.refuse("checkpoint", "create", "--prompt", "x", code=6)


def test_sessions_without_metadata_or_with_damage(box: Sandbox) -> None:
    story = Story(box)
    assert story.run("session", "list", session=False) == {"sessions": []}
    box.session.mkdir(mode=0o700)
    story.run("session", "show")
    story.run("checkpoint", "list")
    story.run("timeline", "show")
    box.make_timeline(2)
    box.private(box.timeline, box.timeline.read_bytes() + b'{"type":"redo_cl')
    assert story.run("session", "show")["state"] == "tail"
    assert story.run("timeline", "show")["damage"]["line"] == 6
    box.private(box.timeline, b"nonsense\n" + box.timeline.read_bytes())
    assert story.run("session", "show")["state"] == "corrupt"
    assert story.run("session", "list", session=False)["sessions"][0]["state"] == "corrupt"
    assert story.run("timeline", "show")["damage"]["line"] == 1
    story.refuse("checkpoint", "create", "--prompt", "x", code=5)


@runs("doctor", "timeline repair", "timeline validate")
def test_validation_and_repair(story: Story) -> None:
    assert story.run("timeline", "validate")["sessions"][0]["status"] == "ok"
    sound = story.box.timeline.read_bytes()
    assert story.run("timeline", "repair")["changes"] is False
    for damaged, status in ((sound + b'{"type":"redo_cl', "tail"), (b"nonsense\n" + sound, "corrupt")):
        story.box.private(story.box.timeline, damaged)
        assert story.run("timeline", "validate", code=1)["sessions"][0]["status"] == status
        assert story.run("doctor", code=1)["sessions"][0]["findings"]
        assert story.run("timeline", "repair", code=1)["steps"]
        assert story.run("timeline", "repair", "--apply")["validation"]["findings"] == []
    story.box.private(story.box.timeline, sound[:-1])
    assert story.run("doctor", "--fix")["sessions"][0]["fixed"]


@runs("compaction list", "compaction validate", "event list", "event validate")
def test_logs(story: Story) -> None:
    assert story.run("event", "list")["events"] and story.run("event", "validate")["ok"]
    story.box.private(story.box.agent.log, story.box.agent.log.read_bytes() + b"x\n")
    assert story.run("event", "validate", code=1)["sessions"][0]["findings"]
    record = {
        "id": "c",
        "session_id": story.box.sid,
        "source_sequence": 1,
        "provider_type": "p",
        "model": "m",
        "format_version": 1,
        "payload": None,
    }
    line = json.dumps({"record_type": "checkpoint", "record": record}).encode() + b"\n"
    story.box.private(story.box.session / "compaction-checkpoints.jsonl", line * 2 + b"{}\n")
    listed = story.run("compaction", "list")["replacements"]
    assert [one["in_force"] for one in listed] == [False, True]
    assert story.run("compaction", "validate", code=1)["sessions"][0]["findings"]


@runs(
    "checkpoint cat",
    "checkpoint complete",
    "checkpoint create",
    "checkpoint delete",
    "checkpoint diff",
    "checkpoint extract",
    "checkpoint list",
    "checkpoint show",
    "checkpoint verify",
    "timeline show",
)
def test_checkpoints(story: Story) -> None:
    third, second, first = _ids(story)
    for name in (first, third):
        story.run("checkpoint", "show", name)
    assert story.run("checkpoint", "diff", first)["changes"]
    for option in ("--stat", "--name-status", "--patch"):
        story.run("checkpoint", "diff", first, second, option)
    assert story.run("checkpoint", "verify")["ok"]
    extracted = story.run("checkpoint", "extract", third, story.box.root / "out")
    assert any(isinstance(path, dict) for path in extracted["files"]), "a name that is not UTF-8"
    assert story.run("checkpoint", "cat", second, "a.txt")["content"]
    story.refuse("checkpoint", "cat", second, "nothing-here", code=3)
    story.run("checkpoint", "delete", second)
    assert not story.run("checkpoint", "show", second)["checkpoint"]["workspace"]["available"]
    story.run("checkpoint", "verify", code=(0, 1))
    story.run("checkpoint", "list", "--all-branches")
    story.run("timeline", "show")
    pending = story.run("checkpoint", "create", "--prompt", "go on")["checkpoint"]["id"]
    story.run("checkpoint", "complete", pending, "--failed")
    story.run("session", "show")


def test_a_damaged_snapshot(story: Story) -> None:
    third, *_ = _ids(story)
    tree = story.run("checkpoint", "show", third)["checkpoint"]["workspace"]["tree"]
    blob = story.box.git("rev-parse", f"{tree}:dir/b.txt").decode().strip()
    (story.box.repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    report = story.run("checkpoint", "verify", code=1)
    assert not report["ok"]
    assert [one["status"] for one in report["checkpoints"] if one["id"] == third] == ["damaged"]


def test_checkpoints_of_the_conversation_only(box: Sandbox) -> None:
    box.make_session(owned=False, root=box.root)
    box.make_timeline(2)
    story = Story(box)
    *_, first = _ids(story)
    story.run("checkpoint", "show", first)
    story.run("checkpoint", "verify", code=(0, 1))
    story.run("checkpoint", "create", "--prompt", "x")
    story.run("checkpoint", "complete")
    story.refuse("rewind", "preview", first, "--mode", "workspace", code=7)
    preview = story.run("rewind", "preview", first)
    assert preview["mode"] == "conversation" and preview["workspace"] is None and preview["recovery"] is None
    story.run("rewind", "apply", preview["token"])
    story.run("session", "show")


@pytest.mark.parametrize("mode", ["conversation", "workspace", "both"])
@runs("redo", "rewind apply", "rewind cancel", "rewind preview", "rewind status", "undo")
def test_rewinding(story: Story, mode: str) -> None:
    *_, second, first = _ids(story)
    assert story.run("rewind", "status")["restore"] is None
    assert not story.run("rewind", "cancel")["cancelled"]
    preview = story.run("rewind", "preview", second, "--mode", mode)
    assert (preview["workspace"] is None) == (mode == "conversation")
    assert (preview["conversation"] is None) == (mode == "workspace")
    assert story.run("rewind", "status")["restore"]["token"] == preview["token"]
    assert story.run("session", "show")["restore"]["token"] == preview["token"]
    assert story.run("rewind", "cancel")["cancelled"]
    token = story.run("rewind", "preview", first, "--mode", mode)["token"]
    written = json.loads((story.box.session / "restore.json").read_bytes())
    assert schemas.errors("restore", written) == []
    applied = story.run("rewind", "apply", token)
    assert (applied["workspace"] is None) == (mode == "conversation")
    story.run("timeline", "show")
    story.run("session", "show")
    story.run("redo")
    story.run("redo", "--yes")
    story.run("undo")
    story.run("undo", "--yes")


def test_the_files_of_the_session(story: Story) -> None:
    *_, first = _ids(story)
    story.run("undo", "--yes")
    story.run("rewind", "preview", first)
    for name in ("timeline.jsonl", "events.jsonl", "workspace.json", "restore.json"):
        assert story.run("schema", "validate", story.box.session / name, session=False)["ok"]
    report = story.run(
        "schema",
        "validate",
        "--schema",
        "restore",
        story.box.session / "workspace.json",
        session=False,
        code=1,
    )
    assert report["findings"]


def test_refusals(story: Story) -> None:
    *_, first = _ids(story)
    story.refuse("rewind", "preview", code=2)
    story.refuse("checkpoint", "show", "cp_99_9", code=3)
    story.refuse("session", "show", "-s", "session_" + "f" * 32, code=3)
    story.refuse("rewind", "apply", "forged", code=4)
    token = story.run("rewind", "preview", first)["token"]
    story.box.write("a.txt", "moved\n")
    story.refuse("rewind", "apply", token, code=8)


@runs(
    "schema validate",
    "snapshot cat",
    "snapshot copy",
    "snapshot create",
    "snapshot delete",
    "snapshot diff",
    "snapshot extract",
    "snapshot gc",
    "snapshot list",
    "snapshot prune",
    "snapshot repair",
    "snapshot restore",
    "snapshot show",
    "snapshot verify",
)
def test_snapshots_of_a_plain_directory(box: Sandbox) -> None:
    story = Story(box)
    root, fork = box.root / "plain", box.root / "fork"
    fork.mkdir()
    box.write("a.txt", "one\n", at=root)
    box.write("log/x.log", "log\n", at=root)
    box.write("large", b"x" * 2000, at=root)
    (root / "link").symlink_to("a.txt")
    box.write(NOT_UTF8, b"\0\xff", at=root)

    def run(verb: str, *words: str | Path, code: int = 0) -> Any:
        return story.run("snapshot", verb, *words, "--root", root, code=code, session=False)

    assert run("list")["snapshots"] == []
    first = run("create", "--exclude", "*.log", "--max-file-bytes", "1000", "--label", "first")
    assert first["skipped"] == [{"path": "large", "reason": "too-large"}]
    run("show", first["id"], "--files")
    box.write("a.txt", "two\n", at=root)
    box.write("new", "n\n", at=root)
    (root / "link").unlink()
    second = run("create", "--keep-last", "5")
    assert run("create", "--keep-last", "2")["pruned"]["deleted"] == [first["id"]]
    run("diff", second["id"], "latest")
    assert run("cat", second["id"], os.fsdecode(NOT_UTF8))["content"]["bytes"]
    assert run("extract", second["id"], box.root / "taken")["files"]
    box.write("a.txt", "three\n", at=root)
    assert run("diff", second["id"], "--exit-code", code=1)["counts"]["modified"] == 1
    assert run("restore", second["id"], "--dry-run")["safety_snapshot_id"] is None
    done = run("restore", second["id"])
    assert done["restored"] == ["a.txt"] and done["safety_snapshot_id"]
    run("copy", second["id"], "--to", fork, "--dry-run")
    run("copy", second["id"], "--to", fork)
    run("list")
    run("prune", "--keep-last", "2", "--dry-run")
    run("prune", "--keep-last", "2", "--grace", "0")
    run("gc", "--dry-run")
    assert run("verify", "--quick")["ok"]
    (root / "a.txt").write_text("lost\n")
    kept = run("create")
    for pack in (root / ".cogitator" / "checkpoints" / "packs").iterdir():
        pack.unlink()
    assert not run("verify", code=1)["ok"]
    assert run("repair", code=1)["needed"]
    run("repair", "--apply", code=1)
    manifest = root / ".cogitator" / "checkpoints" / "manifests" / f"{kept['id']}.json"
    assert story.run("schema", "validate", "--schema", "snapshot-manifest", manifest, session=False)["ok"]
    run("delete", kept["id"])
    story.refuse("snapshot", "show", "snap_ffff", "--root", root, code=3, session=False)


@runs("session delete", "worktree list", "worktree prune")
def test_worktrees_and_the_end_of_a_session(ready: Sandbox) -> None:
    story = Story(ready)
    ready.cap()
    (listed,) = story.run("worktree", "list", session=False)["worktrees"]
    assert listed["session_id"] == ready.sid
    assert not story.run("worktree", "prune", "--yes", session=False)["removed"]
    token = story.run("session", "delete")["token"]
    assert story.run("session", "delete", "--token", token)["deleted"]
    assert story.run("worktree", "prune", "--dry-run", session=False)["removed"]


@runs("completion", "demo", "schema list", "schema show")
def test_schemas_and_demo(box: Sandbox) -> None:
    story = Story(box)
    for item in story.run("schema", "list", session=False)["schemas"]:
        story.run("schema", "show", item["name"], session=False)
    assert story.run("completion", "bash", session=False)["shell"] == "bash"
    made = story.run("demo", session=False)
    assert made["steps"]
    assert Path(os.fsdecode(made["session"])).name == made["session_id"]


def test_every_command_has_a_schema_and_a_step_here() -> None:
    unknown = {path for path in LIVE for name in outputs_of(path) if name not in schemas.names()}
    assert not unknown, "commands without a schema under schemas/output"
    printed = {name for path in LIVE for name in outputs_of(path)}
    outputs = {name for name in schemas.names() if name.startswith("output/")}
    assert outputs - printed == {"output/error"}, "schemas that no command prints"
    assert set() == LIVE - NAMED, "commands that no test here has run"
    assert set() == NAMED - LIVE, "commands that are no longer there"
