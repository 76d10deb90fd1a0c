"""The documents: what they show came out of the program, and what they name is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, ROOT
from tests.support.sandbox import SID, Sandbox
from tests.support.tools import need

DOCS = sorted((ROOT / "docs").glob("*.md"))
SHOWN = [ROOT / "README.md", *DOCS, ROOT / "docs/terminal.svg"]
PAGES = [*DOCS, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]


def docs_tool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "tools/docs.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.name)
def test_what_a_page_shows_is_what_comes_out(page: Path) -> None:
    if "jq " in page.read_text():
        need("jq")
    ran = docs_tool("--check", page)
    assert ran.returncode == 0, f"run `python tools/docs.py`:\n{ran.stdout}{ran.stderr}"


def test_made_up_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Look:\n\n```console\n$ yolop-cli --version\nyolop-cli 9\n```\n")
    assert docs_tool("--check", page).returncode == 1
    assert docs_tool(page).returncode == 0
    assert docs_tool("--check", page).returncode == 0
    assert "yolop-cli 9" not in page.read_text()


def test_every_command_line_of_the_documents_is_one_that_is_run() -> None:
    """Code in docs/ is run (console), shown from a file that is run (examples), or no command line.

    Each recipe has a test of its own, in tests/test_recipes.py.
    """
    for page in DOCS:
        other = ("console", "python", "mermaid", *(["sh"] if page.name == "recipes.md" else []))
        for kind in re.findall(r"^```(\S.*)$", page.read_text(), flags=re.MULTILINE):
            assert kind in other or re.fullmatch(r"(sh|yaml) examples/\S+", kind), (page, kind)


def test_a_command_with_a_stand_in_that_was_not_shown_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ yolop-cli rewind apply 5f0c1d2e3a4b0001\n```\n")
    ran = docs_tool("--check", page)
    assert ran.returncode == 1 and "nothing that was shown" in ran.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), (page, target)
    index = (ROOT / "README.md").read_text()
    for page in DOCS:
        assert f"](docs/{page.name})" in index, f"the README does not lead to {page.name}"


def test_each_guarantee_names_tests_that_are_there() -> None:
    named = re.findall(
        r"`(tests/[\w/]+\.py)(?:::[A-Z]\w+)?::(\w+)`", (ROOT / "docs/guarantees.md").read_text()
    )
    assert len(named) > 20
    for file, function in named:
        tree = ast.parse((ROOT / file).read_text())
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, (
            f"{file} has no {function}"
        )


def test_the_workflow_s_step_annotates_a_damaged_session(box: Sandbox) -> None:
    text = (ROOT / "docs/examples/validate-sessions.yml").read_text()
    (command,) = re.findall(r"^ +run: (yolop-cli .*)$", text, flags=re.MULTILINE)
    (directory,) = re.findall(r"^ +YOLOP_SESSIONS_DIR: (\S+)$", text, flags=re.MULTILINE)
    box.make_timeline(2)
    box.data.rename(box.root / "data-of-repository")
    checkout = box.root / "data-of-repository"
    assert (checkout / directory).is_dir()
    env = box.environment(
        {"YOLOP_SESSIONS_DIR": directory, "PATH": f"{Path(PROGRAM).parent}:{box.env['PATH']}"}
    )

    def step() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", command], cwd=checkout, env=env, capture_output=True, text=True, check=False
        )

    sound = step()
    assert sound.returncode == 0, sound.stdout + sound.stderr
    journal = checkout / directory / SID / "timeline.jsonl"
    journal.write_bytes(b"{}\n" + journal.read_bytes())
    damaged = step()
    assert damaged.returncode == 1
    assert f"::error file={directory}/{SID}/timeline.jsonl,line=1," in damaged.stdout
