"""Text from a session made safe to show: no control character ever reaches a terminal raw."""

from __future__ import annotations

import os
import re
from pathlib import Path

# C0 and C1 controls, DEL, and the characters that reorder or hide the text around them.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_UNSAFE_IN_LINES = re.compile(f"(?![\n\t]){_UNSAFE.pattern}")
_STYLE = re.compile("(\x1b\\[[0-9;]*m)")
# Scripts written without spaces may be folded anywhere.
_WIDE = "\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\U0001f300-\U0001faff"
_WORD = re.compile(f" *(?:'[^' ]+ [^']*'[^ ]*|`[^`]*`[^ ]*|[^ {_WIDE}]+|[{_WIDE}])| +\\Z")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e"}


def clean(text: str) -> str:
    """The text with control characters, direction marks and undecodable bytes as visible escapes."""
    return _UNSAFE.sub(lambda match: _escape(match.group()), text)


def printable(text: str, *, styled: bool = False) -> str:
    """Several lines as a terminal may get them: line feeds and tabs stay, and with ``styled`` colours do."""
    parts = _STYLE.split(text) if styled else [text]
    return "".join(
        part if number % 2 else _UNSAFE_IN_LINES.sub(lambda match: _escape(match.group()), part)
        for number, part in enumerate(parts)
    )


def day(timestamp: str) -> str:
    """A timestamp in short: its day and minute."""
    return clean(timestamp[:16].replace("T", " "))


def _escape(character: str) -> str:
    number = ord(character)
    if 0xDC80 <= number <= 0xDCFF:  # a byte that is not UTF-8, as the file system decodes it
        return f"\\x{number - 0xDC00:02x}"
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")


def path(value: bytes | Path) -> str:
    """A path to show."""
    raw = value if isinstance(value, bytes) else os.fsencode(value)
    return clean(raw.decode("utf-8", "surrogateescape"))


def shortened(shown: str, width: int) -> str:
    """A path on at most ``width`` columns, its middle left out where it is longer."""
    tail = shown
    while columns(shown) > width and columns(tail) > max(width - width // 3 - 1, 1):
        tail = tail[1:]
    return shown if columns(shown) <= width else f"{shown[: width // 3]}…{tail}"


def clip(text: str, width: int) -> str:
    """The text cleaned, on one line of at most ``width`` characters."""
    shown = clean(text)
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def columns(text: str) -> int:
    """How many columns of a terminal the text takes, its colours aside."""
    shown = _STYLE.sub("", text)
    if shown.isascii():
        return len(shown)
    import unicodedata

    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in shown
    )


def fold(text: str, width: int, indent: int, end: str = "") -> list[str]:
    """The text on lines of at most ``width`` columns, folded at spaces outside of quotes and commands.

    What follows the first line is indented; every line but the last has ``end`` behind it. A word that is
    longer than a line, like a path or a command in backticks, stays whole.
    """
    lines: list[str] = []
    line, at = "", 0
    for word in _WORD.findall(text):
        size = columns(word)
        if line.strip() and at > indent and at + size + len(end) > width:
            lines.append(line + end)
            word = " " * indent + word.lstrip(" ")
            line, at = "", 0
            size = columns(word)
        line, at = line + word, at + size
    return [*lines, line]


def count(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number: int) -> str:
    """A number of bytes for people: ``812 B``, ``3.4 MB``."""
    if number < 1000:
        return f"{number} B"
    scaled, units = float(number), iter("kMGT")
    while scaled >= 1000:
        scaled, unit = scaled / 1000, next(units)
    return f"{scaled:.1f} {unit}B"


def line_counts(added: int | None, removed: int | None, shown_path: str) -> str:
    """One path of a ``--stat``: lines added and removed, a dash for each where the content is binary."""
    plus = "-" if added is None else f"+{added}"
    minus = "-" if removed is None else f"-{removed}"
    return f"{plus}\t{minus}\t{shown_path}"
