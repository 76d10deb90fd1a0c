"""The README: its two commands work, and its table names every command there is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.e2e.test_outputs_match_schemas import live_commands
from tests.support.program import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
INSTALL, DEVELOP = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist"
)


def commands() -> list[str]:
    """Every command of the program that does something."""
    return [" ".join(words) for words in live_commands()]


def test_table_has_a_row_for_every_command_and_no_other() -> None:
    table = README.partition("<!-- commands -->")[2].partition("<!-- end -->")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|\n]+) \|$", table, re.MULTILINE)
    assert [name for name, _ in rows] == commands()
    assert all(summary.strip() for _, summary in rows)


def test_comparison_has_a_cell_for_each_tool_in_each_row() -> None:
    table = README.partition("\n## How it compares\n")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in table.split("\n") if line.startswith("|")]
    assert [cell.strip() for cell in rows[0]] == [
        "", "yolop-cli", "git reflog", "jj", "Claude Code `/rewind`", "restic"
    ]  # fmt: skip
    assert {len(row) for row in rows} == {6}
    assert all(cell.strip() for row in rows[1:] for cell in row)


def test_picture_is_there_and_asks_nobody_else() -> None:
    (name,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    tree = ElementTree.parse(ROOT / name)
    assert tree.getroot().tag == "{http://www.w3.org/2000/svg}svg"
    tags = {each.tag.partition("}")[2] for each in tree.iter()}
    assert tags == {"svg", "title", "rect", "circle", "g", "text"}
    shown = [each.text or "" for each in tree.iter() if each.tag.endswith("text")]
    assert "yolop-cli undo" in shown and "Apply? [y/N]: y" in shown


def test_the_two_commands_name_what_is_there() -> None:
    """Cheap, so that it runs always; the next test runs both."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install, develop = (command.split(" && ") for command in (INSTALL.strip(), DEVELOP.strip()))
    assert install[0] == develop[0] == "python3 -m venv .venv"
    assert install[1:] == [".venv/bin/pip install -q .", ".venv/bin/yolop-cli demo"]
    assert develop[1:] == [".venv/bin/pip install -q -e '.[dev]'", ".venv/bin/python -m pytest"]
    assert "yolop-cli" in project["scripts"] and "dev" in project["optional-dependencies"]
    assert "demo" in commands()
    assert project["requires-python"] == ">=3.11"


@pytest.mark.exhaustive
def test_the_two_commands_work_in_a_fresh_copy(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: os.environ[name] for name in os.environ if name == "PATH" or name.startswith("PIP_")}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home), "LC_ALL": "C.UTF-8"}
    for command, words in (
        (INSTALL, "Try the other commands"),
        (f"{DEVELOP.strip()} --collect-only", "test"),
    ):
        copy = tmp_path / f"copy-{len(command)}"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=NOT_COPIED)
        ran = subprocess.run(
            ["bash", "-c", command], cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        assert words in ran.stdout
