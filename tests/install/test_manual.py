"""The manual pages: as the commands are, complete, and drawn by man without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import ROOT
from tests.support.tools import need

PAGES = sorted((ROOT / "man").glob("man?/*"))
SECTIONS = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES",
            "SEE ALSO")  # fmt: skip


def pages_tool(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the generator of a tree."""
    command = [sys.executable, str(root / "tools/pages.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def drawn(page: Path) -> subprocess.CompletedProcess[str]:
    """A page as man draws it at 80 columns, and its warnings."""
    need("man", "man-db")
    # Whatever man is: without these it asks the environment for a pager, a width and a language.
    environment = {"PATH": os.environ["PATH"], "MANWIDTH": "80", "LC_ALL": "C", "MANPAGER": "cat"}
    return subprocess.run(
        ["man", "--warnings", "-E", "ascii", "-l", str(page)],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def test_no_generated_file_is_stale() -> None:
    ran = pages_tool(ROOT, "--check")
    assert ran.returncode == 0, f"run `python tools/pages.py`:\n{ran.stdout}{ran.stderr}"


def test_the_check_notices_a_changed_a_missing_and_an_extra_page(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("tools", "man", "docs", "completions", "yolop_cli"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    changed, missing = tree / "man/man1/yolop-cli-undo.1", tree / "man/man5/yolop-session.5"
    changed.write_text(changed.read_text() + ".\n")
    missing.unlink()
    extra = tree / "man/man1/yolop-cli-old.1"
    extra.write_text("")
    ran = pages_tool(tree, "--check")
    assert ran.returncode == 1
    assert sorted(line.rpartition("/")[2] for line in ran.stdout.split("\n") if line) == sorted(
        path.name for path in (changed, missing, extra)
    )
    assert extra.exists() and not missing.exists(), "--check writes nothing"
    assert pages_tool(tree).returncode == 0
    assert pages_tool(tree, "--check").returncode == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_man_draws_it_without_a_warning(page: Path) -> None:
    ran = drawn(page)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not [line for line in ran.stdout.split("\n") if len(line) > 80 and "yolop-cli " not in line]
    headings = re.findall(r"^[A-Z][A-Z ]+$", ran.stdout, flags=re.MULTILINE)
    if page.parent.name == "man1":
        assert [name for name in headings if name != "COMMANDS"] == list(SECTIONS)


def test_a_warning_is_noticed(tmp_path: Path) -> None:
    """The test above can fail: man does say what is wrong with a page."""
    page = tmp_path / "wrong.1"
    page.write_text('.TH WRONG 1 "" "x" "y"\n.SH NAME\nwrong \\- is \\[nosuchglyph] wrong\n.nosuchrequest\n')
    assert drawn(page).stderr


def test_every_page_named_in_another_is_there() -> None:
    there = {page.name for page in PAGES}
    for page in PAGES:
        named = re.findall(r"\\fB([a-z\\-]+)\\fR\((\d)\)", page.read_text())
        assert named
        assert {f"{name}.{number}".replace("\\", "") for name, number in named} <= there, page
