"""How things look on a terminal of 80 columns and 16 colours: nothing too wide, nothing raw."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.support.program import PROGRAM
from tests.support.sandbox import OTHER_SID, SID, Sandbox
from tests.support.terminal import Terminal, width
from yolop_cli.cli import text
from yolop_cli.cli.tables import shown_columns
from yolop_cli.ground import ids

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
    ("timeline", "validate"),
    ("timeline", "repair"),
    ("timeline", "repair", "--strategy", "truncate"),
    ("doctor",),
    ("event", "list"),
    ("worktree", "list"),
    ("rewind", "preview", "cp_1_1"),
    ("rewind", "preview", "cp_1_1", "--mode", "files"),
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


DAMAGE_COMMANDS = [
    ("timeline", "validate"),
    ("timeline", "repair"),
    ("timeline", "repair", "--strategy", "rebuild"),
    ("timeline", "repair", "--sessions-dir", "{sessions}"),
    ("timeline", "repair", "-s", "{session}", "--apply"),
    ("doctor",),
    ("doctor", "--fix"),
    ("session", "show"),
]


@pytest.mark.parametrize("columns", [80, 72])
def test_damage_is_told_within_the_width_of_the_terminal(shed: Sandbox, columns: int) -> None:
    """Only a path or an id that is longer than a line is wider, and it stands alone."""
    lines_of = shed.timeline.read_bytes().splitlines(keepends=True)
    noise = b"\0" * 700 + b"\nwarning: something went wrong\n"
    torn = lines_of[1][:90] + noise + b"".join(lines_of[2:]) + b'{"ty'
    shed.private(shed.timeline, torn)
    shed.private(shed.session / "restore.json", b"{")
    shed.private(shed.session / ".workspace.json.0123456789ab.tmp", b"")
    shed.make_session(owned=True, title=PROMPTS[1] * 2)
    for name in ("events.jsonl", "timeline.jsonl"):
        (shed.session / name).chmod(0o644)
    for words in DAMAGE_COMMANDS:
        arguments = [word.format(sessions=shed.sessions, session=SID) for word in words]
        raw = shown(shed, *arguments, columns=columns)
        assert "validate" in words or "error" in raw or "set aside" in raw or "title" in raw, raw
        told = [line for line in lines(raw) if not line.startswith("warning: ")]
        for line in told:
            label = line.strip().removeprefix("fix: ").split()
            assert width(line) <= columns or len(label) == 1 or len(" ".join(label[:-1])) < 30, raw
    again = shown(shed, "timeline", "repair", "--head", "none", columns=columns)
    told = again[again.index("To apply it:") :].split("\n")
    typed = told[0].removeprefix("To apply it:").strip() or " ".join(told[1:])
    assert " ".join(typed.replace("\\", "").split()).endswith("yolop-cli timeline repair --apply"), again


def test_a_bar_is_shown_over_many_sessions_and_only_on_a_terminal(shed: Sandbox) -> None:
    for command, words in (("doctor", "examining"), ("timeline validate", "checking")):
        assert words in shown(shed, *command.split(), "--all")
        assert words not in shown(shed, *command.split())
        piped = shed.cli(*command.split(), "--all", session=False, watch=False, code=(0, 1))
        assert words.encode() not in piped.out + piped.err


def test_folding_keeps_every_word_and_quoted_paths_whole() -> None:
    words = "  set aside     line 4 (head_moved): the end of it is at '/a b/c d' and nothing is lost"
    folded = text.fold(words, 40, 16)
    assert all(len(line) <= 40 for line in folded) and len(folded) > 2
    assert " ".join(" ".join(folded).split()) == " ".join(words.split())
    assert any("'/a b/c d'" in line for line in folded)
    assert text.fold("a" * 60 + " b", 40, 2) == ["a" * 60, "  b"]
    assert text.fold("\x1b[31mab\x1b[0m cd ef", 5, 0) == ["\x1b[31mab\x1b[0m cd", "ef"]
    assert text.fold("x --one --two", 9, 2, " \\") == ["x --one \\", "  --two"]
    assert all(width(line) <= 40 for line in text.fold(PROMPTS[1], 40, 4))
    assert text.fold("", 40, 2) == [""]


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
