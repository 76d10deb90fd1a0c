"""How things look on a terminal of 80 columns and 16 colours: nothing too wide, nothing raw."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.program import PROGRAM
from tests.support.sandbox import OTHER_SID, SID, Sandbox
from tests.support.terminal import Terminal, width
from yolop_cli import ids
from yolop_cli.cli import text
from yolop_cli.cli.tables import shown_columns

STYLE = re.compile(r"\x1b\[([0-9;]*)m")
# Attributes, and the eight colours in two brightnesses; 38 and 48 begin any other colour.
SIXTEEN = {0, 1, 2, 3, 4, 7, 9, 22, 23, 24, 27, 29, 39, 49, *range(30, 38), *range(40, 48),
           *range(90, 98), *range(100, 108)}  # fmt: skip
PROMPTS = (
    "Tidy up the shed and sort everything in it by size, colour and age, and do not forget the drawers",
    "片付けてください、そして大きさと色と年齢で並べ替えて、引き出しも忘れないでください、お願いします",
    "Red \x1b[31malert\x07 \u202egnp.exe",
)


@pytest.fixture
def shed(ready: Sandbox) -> Sandbox:
    """A session with long and hostile prompts, a rewound branch, kept files, and a second session."""
    ready.make_session(owned=True, title="A rather long title that says what the session is about, at length")
    for number, prompt in enumerate(PROMPTS):
        ready.turn(prompt, [(f"file{number}.txt", f"{number}\n"), ("a.txt", f"{number}\x1b]0;title\x07\n")])
    ready.write(".gitignore", "*.log\n")
    ready.write("build.log", "x")
    ready.sid = OTHER_SID
    ready.make_session(owned=False, title="Another")
    ready.sid = SID
    return ready


def shown(box: Sandbox, *arguments: str, columns: int = 80, **env: str) -> str:
    """What a command shows on a terminal, with its escape codes."""
    environment = box.environment({"TERM": "xterm-16color", **env})
    with Terminal([PROGRAM, *arguments], environment, box.worktree, columns=columns) as terminal:
        terminal.read_all()
        return terminal.raw.replace("\r\n", "\n")


def lines(raw: str) -> list[str]:
    return STYLE.sub("", raw).split("\n")


READ_WELL = [
    ("session", "list"),
    ("checkpoint", "list", "--all-branches"),
    ("timeline", "show"),
    ("event", "list"),
    ("worktree", "list"),
    ("rewind", "preview", "cp_1_1"),
    ("undo", "--mode", "files"),
    ("compaction", "list"),
    ("schema", "list"),
    ("checkpoint", "diff", "cp_1_1"),
    ("--help",),
    ("checkpoint", "--help"),
    ("rewind", "preview", "--help"),
    ("timeline", "repair", "--help"),
    ("worktree", "prune", "--help"),
    ("snapshot", "create", "--help"),
]


@pytest.mark.parametrize("arguments", READ_WELL, ids=" ".join)
def test_nothing_is_wider_than_80_columns_and_colours_are_of_the_16(
    shed: Sandbox, arguments: tuple[str, ...]
) -> None:
    raw = shown(shed, *arguments)
    assert raw.strip()
    for line in lines(raw):
        assert width(line) <= 80, raw
    codes = {int(code or 0) for group in STYLE.findall(raw) for code in group.split(";")}
    assert codes <= SIXTEEN, codes
    assert not [
        each for each in "".join(lines(raw)) if (each < " " and each != "\t") or each in "\x7f\u202e"
    ], repr(raw)
    if arguments[0] == "undo":
        shed.cli("rewind", "cancel")


def test_no_color_and_dumb_terminals_get_none(shed: Sandbox) -> None:
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        for arguments in (
            ("checkpoint", "diff", "cp_1_1", "--patch"),
            ("session", "show"),
            ("undo", "--help"),
        ):
            raw = shown(shed, *arguments, **env)
            codes = {code for group in STYLE.findall(raw) for code in group.split(";")}
            assert not [code for code in codes if code and int(code) >= 30], (env, arguments)


def test_a_list_of_sessions_shows_ids_that_can_be_typed(shed: Sandbox) -> None:
    table = lines(shown(shed, "session", "list"))
    assert table[0].split() == ["ID", "STATE", "UPDATED", "TURNS", "TITLE"]
    named = {line.split()[0] for line in table[1:] if line.strip() and not line.startswith(" ")}
    for name in named:
        assert shed.cli("session", "show", "-s", name, "--json", session=False).json["id"] in (SID, OTHER_SID)
    assert len(named) == 2
    wide = shown(shed, "session", "list", columns=250)
    assert str(shed.worktree) in wide and "WORKTREE" in wide


def test_whole_prompts_and_paths_can_be_read(shed: Sandbox) -> None:
    raw = shown(shed, "checkpoint", "list")
    words = " ".join("".join(lines(raw)).split())
    assert "Tidy up the shed" in words and "…" in words
    table = lines(shown(shed, "worktree", "list"))
    place = table[0].index("WORKTREE")
    assert "".join(line[place:].strip() for line in table[1:]) == str(shed.worktree)


def test_content_on_a_terminal_is_escaped_and_in_a_pipe_as_it_is(shed: Sandbox) -> None:
    newest = str(shed.checkpoints()[0]["id"])
    raw = shown(shed, "checkpoint", "cat", newest, "a.txt")
    assert raw == "1\\e]0;title\\x07\n"
    patch = shown(shed, "checkpoint", "diff", newest, "--patch")
    assert "\\e]0;title\\x07" in patch and "\x1b]" not in patch and "\x07" not in patch
    assert "\x1b[32m+" in patch, "colours stay"
    ran = subprocess.run(
        [PROGRAM, "checkpoint", "cat", newest, "a.txt"], env=shed.environment(), cwd=shed.worktree,
        capture_output=True, check=True,
    )  # fmt: skip
    assert ran.stdout == b"1\x1b]0;title\x07\n"


def test_what_optional_columns_do() -> None:
    natural = {"ID": 12, "WHEN": 16, "WHAT": 60, "N": 2}
    assert shown_columns(natural, 200, "WHAT", ("WHEN",)) == ["ID", "WHEN", "N", "WHAT"]
    assert shown_columns(natural, 60, "WHAT", ("WHEN",)) == ["ID", "WHEN", "N", "WHAT"]
    assert shown_columns(natural, 59, "WHAT", ("WHEN",)) == ["ID", "N", "WHAT"]
    assert shown_columns(natural, 10, None, ("WHEN", "N")) == ["ID", "WHAT"]


def test_shortened_ids_name_one_session_each() -> None:
    alike = [f"session_01a22e42cc01{tail:020x}" for tail in (1, 2, 0x20000000000000000000 - 1)]
    short = ids.shortened([*alike, f"session_{9:032x}"])
    assert len(set(short.values())) == 4
    assert all(one.removeprefix("session_").startswith(short[one]) for one in short)
    assert ids.shortened([SID]) == {SID: SID[8:20]}
    assert ids.shortened([]) == {}


def test_printable_keeps_lines_and_only_git_s_colours() -> None:
    assert text.printable("a\tb\nc\rd\x1b[31me") == "a\tb\nc\\rd\\e[31me"
    assert text.printable("\x1b[31ma\x1b[2Jb\x1b[m", styled=True) == "\x1b[31ma\\e[2Jb\x1b[m"
