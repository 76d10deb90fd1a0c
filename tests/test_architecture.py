"""The layout: the floors of the page are the linter's, every room says what it is for, one name a thing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter

import pytest

from tests.support.program import ROOT

PACKAGE = ROOT / "yolop_cli"
PAGE = ROOT / "docs" / "architecture.md"
ROOMS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE)
# A face is named like the command it shows, which may be the operation's verb too.
FACES = ("cli/",)


def floors_of_the_linter() -> list[list[str]]:
    """The rooms a floor, top down, as import-linter holds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [contract] = [
        one
        for one in settings["tool"]["importlinter"]["contracts"]
        if "containers" not in one and "layers" in one
    ]
    floors = [re.findall(r"yolop_cli\.(\w+)", floor) for floor in contract["layers"]]
    return [sorted(floor) for floor in floors if floor != ["__main__"]]


def test_the_page_has_the_floors_that_the_linter_holds() -> None:
    rows = re.findall(r"^\| (\d) \| (.+?) \|", PAGE.read_text(), flags=re.M)
    shown = [sorted(re.findall(r"`(\w+)/`", rooms)) for _, rooms in rows]
    assert shown == floors_of_the_linter()
    assert [int(number) for number, _ in rows] == list(range(len(rows), 0, -1))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.relative_to(PACKAGE).as_posix())
def test_a_room_says_what_lives_there(room: object) -> None:
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text()))  # type: ignore[operator]
    assert said and said.endswith((".", "`"))


def test_no_two_files_have_the_same_name() -> None:
    names = [path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")]
    below = [name for name in names if not name.startswith(FACES) and not name.endswith("__init__.py")]
    for group in (below, [name for name in names if name.startswith(FACES) and "__init__" not in name]):
        counted = Counter(name.rpartition("/")[2] for name in group)
        assert [name for name, times in counted.items() if times > 1] == []


def test_nothing_lies_loose_in_the_package() -> None:
    loose = {path.name for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py"}
