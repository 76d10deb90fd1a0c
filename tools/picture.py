"""A terminal as an SVG: commands run on a pseudo-terminal, and what they showed, in its colours.

``tools/docs.py`` makes ``docs/terminal.svg`` with it. The picture needs no font, script or
style from elsewhere.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

COLUMNS, ROWS = 80, 60
TYPED = "\x1b[1;34m$\x1b[0m "
_WIDE, _HIGH, _MARGIN, _BAR = 8.4, 18, 16, 30
_BACK, _FRONT = "#1e1e2e", "#d6d9e6"
_COLOURS = {
    30: "#6c7086", 31: "#f38ba8", 32: "#a6e3a1", 33: "#f9e2af", 34: "#89b4fa", 35: "#cba6f7", 36: "#94e2d5",
    37: "#ffffff", 90: "#7f849c",
}  # fmt: skip
_CODE = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]")


def shown(command: str, answer: str, environment: Mapping[str, str], cwd: Path) -> str:
    """What a command line shows on a terminal of 80 columns, with its colours.

    ``answer`` is typed when the command stops at a question; a terminal echoes it.
    """
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-c", command],
        stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environment), cwd=cwd, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    output = b""
    while data := _read(ours):
        output += data
        if answer and output.endswith(b": "):
            os.write(ours, f"{answer}\n".encode())
            answer = ""
    os.close(ours)
    process.wait()
    return _OTHER.sub("", output.decode().replace("\r", ""))


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""


def transcript(steps: Sequence[tuple[str, str]], run: Callable[[str, str], str]) -> list[str]:
    """The lines of a terminal in which each command was typed, with a blank line between two."""
    lines: list[str] = []
    for command, answer in steps:
        lines += [*([""] if lines else []), TYPED + command, *run(command, answer).rstrip("\n").split("\n")]
    return lines


def drawn(lines: Sequence[str], title: str) -> str:
    """The lines as an SVG. Raises ``ValueError`` for a line that does not fit the terminal."""
    for line in lines:
        if len(_CODE.sub("", line)) > COLUMNS:
            raise ValueError(f"wider than {COLUMNS} columns: {line!r}")
    wide, high = round(COLUMNS * _WIDE + 2 * _MARGIN), _BAR + len(lines) * _HIGH + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"'
            f' width="{wide}" height="{high}" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{wide}" height="{high}" rx="8" fill="{_BACK}"/>',
            *(
                f'<circle cx="{_MARGIN + 4 + 18 * place}" cy="{_BAR // 2}" r="5" fill="{colour}"/>'
                for place, colour in enumerate((_COLOURS[31], _COLOURS[33], _COLOURS[32]))
            ),
            f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace"'
            f' font-size="14" fill="{_FRONT}">',
            *(part for row, line in enumerate(lines) for part in _row(row, line)),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _row(row: int, line: str) -> Iterator[str]:
    """One text for each run of a style: its place and width are fixed, whatever the font."""
    y = _BAR + row * _HIGH + 13
    for column, text, style in _runs(line):
        for word in re.finditer(r"\S+(?: \S+)*", text):
            x = _MARGIN + (column + word.start()) * _WIDE
            length = len(word.group()) * _WIDE
            yield (
                f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs"{style}>'
                f"{escape(word.group(), quote=False)}</text>"
            )


def _runs(line: str) -> Iterator[tuple[int, str, str]]:
    """The runs of a line: the column where it begins, its characters, and the attributes for its style."""
    column, colour, bold = 0, None, False
    pieces = _CODE.split(line)
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            weight = ' font-weight="bold"' if bold else ""
            yield column, piece, (f' fill="{_COLOURS[colour]}"' if colour else "") + weight
            column += len(piece)
            continue
        for code in (int(each or 0) for each in piece.split(";")):
            if code == 0:
                colour, bold = None, False
            elif code in (1, 22):
                bold = code == 1
            elif code in _COLOURS or code == 39:
                colour = code if code in _COLOURS else None
