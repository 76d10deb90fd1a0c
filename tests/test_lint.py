"""The doors that the lint rules keep shut: who may start programs, who may know Click; and that they fire."""

from __future__ import annotations

import ast
import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import ROOT

PACKAGE = ROOT / "yolop_cli"
# What only some modules may import. The lint rules let a module off all of them or none.
HOMES = {
    "sh": ["ground/git.py"],
    "subprocess": [],
    "pty": [],
    "multiprocessing": [],
    "click": ["cli/"],
    "rich": ["cli/"],
    "rich_click": ["cli/"],
}


@functools.cache
def imports(module: Path) -> set[str]:
    """The top-level names that a module imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").split(".")[0])
    return found


@pytest.mark.parametrize("name", HOMES)
def test_module_is_imported_in_its_home_only(name: str) -> None:
    users = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if name in imports(path)]
    strangers = [user for user in users if not any(user.startswith(home) for home in HOMES[name])]
    assert strangers == []
    assert bool(users) == bool(HOMES[name])


def ruff(where: str, source: str) -> str:
    """What ruff says of a source, as if it stood in a file of the package."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--output-format",
        "concise",
        "--select",
        "TID251,T20",
    ]
    ran = subprocess.run(
        [*command, "--stdin-filename", where, "-"],
        input=source,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import subprocess\n", "Only ground/git.py starts programs"),
        ("from subprocess import run\n", "Only ground/git.py starts programs"),
        ("import sh\n", "ask a function of ground/git.py"),
        ("import os\nos.system('true')\n", "Only ground/git.py starts programs"),
        ("import os\nos.getcwd()\n", "take a path as an argument"),
        ("from pathlib import Path\nPath.cwd()\n", "take a path as an argument"),
        ("import click\n", "let the command render it"),
        ("from rich.table import Table\n", "let the command render it"),
        ("import rich_click\n", "let the command render it"),
        ("print('x')\n", "`print` found"),
    ],
)
def test_lint_rules_fire_below_the_command_line_and_say_what_to_do(source: str, words: str) -> None:
    assert words in ruff("yolop_cli/operations/new.py", source)


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="ruff is not installed")
def test_lint_rules_let_the_homes_be() -> None:
    assert "TID251" not in ruff("yolop_cli/ground/git.py", "import sh\n\nsh.git\n")
    assert "TID251" not in ruff("yolop_cli/cli/new.py", "import click\n\nclick.echo\n")
    assert "T201" in ruff("yolop_cli/cli/new.py", "print('x')\n")
