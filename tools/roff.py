"""Text as roff for man(7): words, code, examples, and the part of Markdown that the format page uses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

_INLINE = re.compile(r"`([^`]+)`|\*([^*]+)\*")


def plain(words: str) -> str:
    """Words that roff shows as they are. Raises ``ValueError`` for what an ASCII terminal cannot show."""
    if not words.isascii():
        raise ValueError(f"a manual page is ASCII: {words!r}")
    shown = words.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return shown.replace("~", "\\(ti").replace("^", "\\(ha").replace('"', "\\(dq")


def guarded(line: str) -> str:
    """A line that roff does not take for a request."""
    return f"\\&{line}" if line.startswith((".", "\\(aq")) else line


def bold(words: str) -> str:
    """Words in bold."""
    return f"\\fB{plain(words)}\\fR"


def prose(words: str) -> str:
    """A paragraph in which `code` is bold and *stressed* words are italic."""
    text, parts, position = " ".join(words.split()), [], 0
    for match in _INLINE.finditer(text):
        parts.append(plain(text[position : match.start()]))
        code, stressed = match.groups()
        parts.append(bold(code) if code else f"\\fI{plain(stressed)}\\fR")
        position = match.end()
    return guarded("".join([*parts, plain(text[position:])]))


def header(name: str, section: int, source: str, manual: str) -> list[str]:
    """The title of a page. It has no date, so that a page changes only with what it says."""
    return [
        '.\\" Made by tools/pages.py; do not edit.',
        f'.TH {plain(name.upper())} {section} "" "{plain(source)}" "{manual}"',
        ".nh",
        ".ad l",
    ]


def section(title: str, lines: Iterable[str]) -> list[str]:
    """A section, or nothing when it would be empty."""
    body = list(lines)
    return [f".SH {title.upper()}", *body] if body else []


def paragraphs(text: str) -> list[str]:
    """Paragraphs with an empty line between them in the source."""
    found = [part for part in text.strip().split("\n\n") if part.strip()]
    return [line for part in found for line in (".PP", prose(part))]


def tagged(tag: str, words: str) -> list[str]:
    """A term (already roff) and what it means."""
    return [".TP", tag, prose(words)]


def verbatim(lines: Iterable[str]) -> list[str]:
    """Command lines, as they are."""
    return [".PP", ".nf", ".RS 4", *(guarded(plain(line)) for line in lines), ".RE", ".fi"]


def markdown(text: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of a Markdown page: each heading of the second level, and its body as roff."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading, [line for block in body.strip().split("\n\n") for line in _block(block)]


def _block(block: str) -> list[str]:
    if block.startswith("| "):
        rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in block.split("\n")]
        return [line for row in rows[2:] for line in _row(row)]
    if block.startswith("- "):
        items = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
        return [line for item in items for line in (".IP \\(bu 2", prose(item))]
    return [".PP", prose(block)]


def _row(row: Sequence[str]) -> list[str]:
    tag, *rest = row
    return tagged(prose(tag), " ".join(rest))
