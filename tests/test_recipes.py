"""The recipes of docs/recipes.md are run as written, each on a fresh copy of a demo session."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import program, reader, trees
from tests.support.sandbox import OTHER_SID, Sandbox

RECIPES = (program.ROOT / "docs/recipes.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^### ([^\n]+)\n|^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> dict[str, str]:
    """Each shell block, named after its heading and its place below that."""
    found: dict[str, str] = {}
    heading, number = "", 0
    for match in BLOCK.finditer(RECIPES):
        if match[1]:
            heading, number = match[1], 0
        else:
            number += 1
            found[f"{heading} {number}"] = match[2]
    return found


BLOCKS = blocks()


@dataclass(frozen=True)
class Demo:
    """A demo session and a directory to run recipes in."""

    box: Sandbox
    session: Path
    worktree: Path
    here: Path
    environment: dict[str, str]

    def run(self, script: str, status: int = 0) -> str:
        """Run a script as a reader who pastes it does; gives what it printed."""
        ran = subprocess.run(
            ["bash", "-e", "-u", "-o", "pipefail"],
            input=script.encode(),
            env=self.environment,
            cwd=self.here,
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == status, f"{script}\n{ran.stdout.decode()}\n{ran.stderr.decode()}"
        assert b"Traceback" not in ran.stderr
        return ran.stdout.decode()

    def json(self, *arguments: str) -> Any:
        """What a command prints with ``--json``."""
        ran = program.run([*arguments, "--json"], env=self.environment, cwd=self.here)
        program.check(ran, 0)
        return ran.json

    @property
    def head(self) -> str | None:
        """The head by the tests' own reader."""
        return reader.fold(reader.records(self.session / "timeline.jsonl")).head

    def files(self) -> dict[bytes, trees.Entry]:
        """The worktree as it is."""
        return trees.state(self.worktree)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sandbox, dict[str, Any]]:
    """A sandbox with a demo in it, and what ``demo`` said."""
    box = Sandbox(tmp_path_factory.mktemp("recipes"))
    made = box.cli("demo", box.root / "demo", "--json", session=False, watch=False).json
    shutil.copytree(box.root / "demo", box.root / "untouched", symlinks=True)
    return box, made


@pytest.fixture
def demo(played: tuple[Sandbox, dict[str, Any]]) -> Demo:
    box, made = played
    root, here, stubs = box.root / "demo", box.root / "here", box.root / "stubs"
    for directory in (root, here, stubs, box.tmp / "yolop"):
        shutil.rmtree(directory, ignore_errors=True)
    shutil.copytree(box.root / "untouched", root, symlinks=True)
    here.mkdir()
    stubs.mkdir()
    make = stubs / "make"
    make.write_text(
        '#!/bin/sh\n: > "$0.ran"\necho half >> "$WORKTREE/shopping.txt"; rm "$WORKTREE/hello.sh"; exit 2\n'
    )
    make.chmod(0o755)
    path = f"{stubs}:{Path(program.PROGRAM).parent}:{box.env['PATH']}"
    extra = {"YOLOP_SESSION": made["session"], "YOLOP_DATA_DIR": str(root / "data"), "PATH": path}
    worktree = Path(made["worktree"])
    environment = box.environment({**extra, "WORKTREE": str(worktree)})
    return Demo(box, Path(made["session"]), worktree, here, environment)


def test_every_block_has_a_test() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    assert BLOCKS
    for name in BLOCKS:
        assert f'BLOCKS["{name}"]' in tested, f"no test runs the block {name!r}"
    assert RECIPES.count("```sh") == len(BLOCKS)


def test_looking_shows_the_session_its_checkpoints_and_what_changed(demo: Demo) -> None:
    before, timeline = demo.files(), (demo.session / "timeline.jsonl").read_bytes()
    shown = demo.run(BLOCKS["Look 1"])
    assert f"{demo.session.name}\tok\t" in shown
    assert "cp_1_1" in shown and "cp_5_3" in shown
    assert "shopping.txt" in shown and "diff --git" in shown
    assert (demo.files(), (demo.session / "timeline.jsonl").read_bytes()) == (before, timeline)


def test_undo_prints_a_token_and_changes_nothing(demo: Demo) -> None:
    before, timeline = demo.files(), (demo.session / "timeline.jsonl").read_bytes()
    token = re.search(r"^token (\S+)$", demo.run(BLOCKS["Undo the last turn 1"]), re.MULTILINE)
    assert token is not None
    assert (demo.files(), (demo.session / "timeline.jsonl").read_bytes()) == (before, timeline)
    assert demo.json("rewind", "status")["restore"]["token"] == token[1]
    # "It holds for one preview": the next one has another.
    again = demo.run(BLOCKS["Undo the last turn 1"])
    assert token[1] not in again
    demo.run(f"yolop-cli rewind apply {token[1]}", status=4)


def test_token_of_a_preview_applies_it_and_redo_takes_it_back(demo: Demo) -> None:
    before, head = demo.files(), demo.head
    preview, apply, redo = BLOCKS["Undo the last turn 2"].strip().split("\n")
    assert (preview.split("=")[0], redo) == ("token", "yolop-cli redo --yes")
    demo.run(f"{preview}\n{apply}\n")
    assert demo.head is None
    assert sorted(path for path in demo.files() if path != b".git") == [b"hello.sh", b"notes.txt"]
    assert (demo.worktree / "notes.txt").read_bytes() == b"Buy milk.\n"
    demo.run(redo)
    assert (demo.files(), demo.head) == (before, head)


def test_the_three_lines_in_one_go_end_where_they_began(demo: Demo) -> None:
    before, head = demo.files(), demo.head
    demo.run(BLOCKS["Undo the last turn 2"])
    assert (demo.files(), demo.head) == (before, head)


def test_token_holds_only_while_files_head_and_events_are_as_they_were(demo: Demo) -> None:
    preview, apply, _ = BLOCKS["Undo the last turn 2"].strip().split("\n")
    demo.run(f'{preview}\necho more >> "$WORKTREE/hello.sh"\n{apply}', status=8)
    assert demo.head == "cp_5_3"


@pytest.mark.parametrize("mode", ["conversation", "workspace"])
def test_mode_moves_one_of_the_two_only(demo: Demo, mode: str) -> None:
    before, head = demo.files(), demo.head
    demo.run(f"yolop-cli undo --yes --mode {mode}")
    assert (demo.head == head) == (mode == "workspace")
    assert (demo.files() == before) == (mode == "conversation")


def test_cat_and_extract_take_one_file_out_of_a_checkpoint(demo: Demo) -> None:
    before = demo.files()
    demo.run(BLOCKS["Take one file out of a checkpoint 1"])
    assert (demo.here / "notes.txt.before").read_bytes() == b"Buy milk.\n"
    taken = demo.here / "taken-out"
    assert [path.name for path in taken.rglob("*")] == ["notes.txt"]
    assert (taken / "notes.txt").read_bytes() == b"Buy milk.\n"
    assert demo.files() == before


def test_pruning_is_only_looked_at_and_names_what_no_session_needs(demo: Demo) -> None:
    orphan = demo.box.tmp / "yolop" / "worktrees" / "0a1b2c" / OTHER_SID
    repository = demo.worktree.with_name("repository")
    demo.box.git("worktree", "add", "-q", "-b", "gone", str(orphan), at=repository)
    before, kept = trees.state(orphan), demo.files()
    shown = demo.run(BLOCKS["Clear away what no session needs 1"])
    assert shown.count(str(orphan)) >= 2
    assert (trees.state(orphan), demo.files()) == (before, kept)


def test_undo_in_a_script_gives_the_prompt_back(demo: Demo) -> None:
    before = demo.files()
    assert demo.run(BLOCKS["Use it from a script 1"]) == ""
    assert (demo.here / "prompt.txt").read_text() == "Make a shortcut to it\n"
    assert (demo.head, demo.files()) == ("cp_3_2", before)
    assert demo.json("schema", "list")["schemas"]


def test_ci_recipe_puts_the_files_back_when_the_step_fails(demo: Demo) -> None:
    (demo.worktree / "shopping.txt").write_bytes(b"Buy milk.\n")
    before, turns = demo.files(), len(demo.json("checkpoint", "list")["checkpoints"])
    demo.run(BLOCKS["Use it in CI 1"])
    assert (demo.box.root / "stubs" / "make.ran").exists()
    assert demo.files() == before
    newest = demo.json("checkpoint", "list")["checkpoints"][0]
    assert (newest["prompt"], newest["status"]) == ("before the migration", "failed")
    assert len(demo.json("checkpoint", "list")["checkpoints"]) == turns + 1


def test_ci_recipe_leaves_the_files_of_a_step_that_succeeds(demo: Demo) -> None:
    (demo.box.root / "stubs" / "make").write_text('#!/bin/sh\necho done > "$WORKTREE/migrated"\n')
    demo.run(BLOCKS["Use it in CI 1"])
    assert (demo.worktree / "migrated").read_bytes() == b"done\n"


def test_ci_recipe_stops_where_nothing_can_be_captured(demo: Demo) -> None:
    metadata = json.loads((demo.session / "workspace.json").read_bytes())
    (demo.session / "workspace.json").write_text(json.dumps({**metadata, "worktree": None}))
    timeline = (demo.session / "timeline.jsonl").read_bytes()
    assert demo.run(BLOCKS["Use it in CI 1"], status=7) == ""
    assert (demo.session / "timeline.jsonl").read_bytes() == timeline


def test_ci_recipe_that_checks_finds_nothing_in_the_demo(demo: Demo) -> None:
    sessions = {"YOLOP_SESSIONS_DIR": str(demo.session.parent)}
    checked = replace(demo, environment={**demo.environment, **sessions})
    said = checked.run(BLOCKS["Use it in CI 2"])
    assert "::error" not in said
    (run,) = json.loads((demo.here / "findings.sarif").read_bytes())["runs"]
    assert run["results"] == []


def test_files_of_a_session_without_a_worktree_are_kept_in_the_store(demo: Demo) -> None:
    metadata = json.loads((demo.session / "workspace.json").read_bytes())
    (demo.session / "workspace.json").write_text(json.dumps({**metadata, "worktree": None}))
    before, head = demo.files(), demo.head
    demo.run(BLOCKS["Keep the files of a plain directory 1"])
    assert (demo.files(), demo.head) == (before, head)
    newest = demo.json("checkpoint", "list", "--all-branches")["checkpoints"][0]
    assert (newest["prompt"], newest["workspace"]["kind"]) == ("tidy the notes", "store")


def test_a_directory_is_kept_looked_at_and_taken_back_without_a_session(demo: Demo) -> None:
    here = demo.box.root / "directory"
    here.mkdir()
    (here / "list").write_text("bread\n")
    (here / "x.log").write_text("log\n")
    nobody = {key: value for key, value in demo.environment.items() if key != "YOLOP_SESSION"}
    without = replace(demo, here=here, environment=nobody)
    first, *rest = BLOCKS["Snapshots of any directory 1"].strip().split("\n")
    (here / "x.log").write_text("more\n")
    without.run(first)
    (here / "list").write_text("salt\n")
    (here / "new").write_text("new\n")
    said = without.run("\n".join(rest))
    assert "before the import" in said and "bread\n" in said
    assert {path.name for path in here.iterdir()} == {"list", "x.log", ".cogitator"}
    assert (here / "list").read_text() == "bread\n" and (here / "x.log").read_text() == "more\n"
    assert "safety" in without.run("yolop-cli snapshot list")


def test_table_of_statuses_is_the_programs_own() -> None:
    from yolop_cli.cli import main
    from yolop_cli.cli.bug import BugError
    from yolop_cli.ground.errors import YolopError

    rows = dict(re.findall(r"^\| (\d+) \| ([A-Z_]*) ?\|", RECIPES, re.MULTILINE))
    codes = {str(each.exit_status): each.code for each in [*YolopError.__subclasses__(), BugError]}
    others = {"0": "", "1": "", "130": "", str(main.PIPE_STATUS): ""}
    assert rows == {**codes, **others}
