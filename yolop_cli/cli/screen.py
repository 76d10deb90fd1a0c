"""Where results go: one JSON document, or text that is coloured on a terminal and plain when piped."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from yolop_cli.cli import text
from yolop_cli.ground import paths
from yolop_cli.ground.errors import YolopError

COLORS = ("auto", "always", "never")
# What is piped is folded here whatever the terminal, so that it stays the same.
PLAIN_WIDTH = 80


@dataclass(frozen=True)
class Screen:
    """How this command speaks: as JSON or text, in colour or not."""

    as_json: bool
    color: bool
    terminal: bool

    @classmethod
    def of(cls, as_json: bool, color: str, environ: Mapping[str, str]) -> Screen:
        """The screen for the options and streams of this process."""
        terminal = sys.stdout.isatty()
        wanted = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        return cls(as_json, color == "always" or (color == "auto" and wanted), terminal)

    def result(self, value: Any, render: Callable[[], None]) -> None:
        """The outcome of a command: ``value`` as the one JSON document, or ``render`` for people."""
        if self.as_json:
            write_json(value)
        else:
            render()

    def line(self, words: str = "", **style: Any) -> None:
        """A line of text on standard output, styled on a terminal."""
        write(self.styled(words, **style) + "\n")

    def styled(self, words: str, **style: Any) -> str:
        """The words with a style, or as they are without colour."""
        return click.style(words, **style) if self.color and style else words

    def table(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        flexible: str | None = None,
        optional: Sequence[str] = (),
        empty: str | None = None,
    ) -> None:
        """Rows as a table on a terminal (``tables.draw``), and as tab-separated lines when piped.

        ``empty`` is the remark in place of no rows.
        """
        if not rows and empty is not None:
            self.note(empty)
        elif not self.terminal:
            for row in rows:
                write("\t".join(row) + "\n")
        else:
            from yolop_cli.cli import tables

            tables.draw(headings, rows, color=self.color, flexible=flexible, optional=optional)

    def folded(self, words: str, indent: int, **style: Any) -> None:
        """A line that is folded at words, what follows indented."""
        for each in self._lines(words, indent):
            self.line(each, **style)

    def record(self, words: str, indent: int, **style: Any) -> None:
        """One fact a line where a script reads it; folded on a terminal."""
        if self.terminal:
            self.folded(words, indent, **style)
        else:
            self.line(words, **style)

    def command(self, label: str, words: str) -> None:
        """A command to be typed, folded as a shell takes it on a terminal that is too narrow for it."""
        if text.columns(f"{label} {words}") <= self.width:
            self.line(f"{label} {words}")
            return
        self.line(label)
        for each in self._lines(f"  {words}", 6, " \\") if self.terminal else [f"  {words}"]:
            self.line(each)

    def field(self, name: str, shown: str, label: int) -> None:
        """A named value, its name ``label`` columns wide; below its name where it is too long a word."""
        title = self.styled(f"{name:<{label}}", bold=True)
        if " " not in shown and label + 1 + text.columns(shown) > self.width:
            self.line(self.styled(name, bold=True))
            self.line(f"  {shown}")
        else:
            self.folded(f"{title} {shown}", label + 1)

    @property
    def width(self) -> int:
        """How many columns a line may take."""
        return _width() if self.terminal else PLAIN_WIDTH

    def _lines(self, words: str, indent: int, end: str = "") -> list[str]:
        return text.fold(words, self.width, indent, end)

    def content(self, data: bytes, *, styled: bool = False) -> None:
        """Content from a session: byte for byte when piped, its control characters escaped on a terminal.

        ``styled`` says that git put colours in.
        """
        if self.terminal:
            write(text.printable(data.decode("utf-8", "surrogateescape"), styled=styled))
        else:
            write_bytes(data)

    def note(self, words: str) -> None:
        """A remark for people, on standard error so that standard output stays the result."""
        write_error(_folded_error(words))

    def remark(self, words: str) -> None:
        """As ``note``, where a JSON document says it by itself."""
        if not self.as_json:
            self.note(words)

    def warn(self, words: str) -> None:
        """Something to know that is no failure, on standard error; a JSON document says it by itself."""
        if not self.as_json:
            write_error(_folded_error(f"warning: {text.clean(words)}"))

    @contextmanager
    def counter(self, words: str) -> Iterator[Callable[[str], None] | None]:
        """A spinner with a count on standard error, for work of unknown length; None when not a terminal."""
        if not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console

        with Console(stderr=True, no_color=not self.color).status(words) as status:
            yield lambda count: status.update(f"{words}: {count}")

    @contextmanager
    def progress(self, words: str, total: int) -> Iterator[Callable[[], None]]:
        """A bar on standard error while long work runs, when that is a terminal; gives the step to call."""
        if not sys.stderr.isatty() or total < 2:
            yield lambda: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True, no_color=not self.color), transient=True) as bar:
            task = bar.add_task(words, total=total)
            yield lambda: bar.advance(task)


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def write(words: str) -> None:
    """Text on standard output, in any locale."""
    _write(sys.stdout, words)


def write_error(words: str) -> None:
    """Text on standard error, in any locale, after what was printed before it.

    Where it cannot be written, the exit status has to do.
    """
    try:
        sys.stdout.flush()
    except OSError:
        pass  # said, with its own status, where the output ends
    try:
        _write(sys.stderr, words)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def write_bytes(data: bytes) -> None:
    """Bytes on standard output, exactly as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def write_json(value: Any) -> None:
    """One JSON document and a line feed on standard output, as UTF-8 in any locale."""
    write_bytes(
        json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False).encode("utf-8", "replace") + b"\n"
    )


def report(error: YolopError, *, as_json: bool) -> None:
    """A failure on standard error: ``error:`` and ``hint:`` lines, or one JSON document."""
    if as_json:
        document = {
            "error": {
                "code": error.code,
                "message": error.message,
                "hint": error.hint,
                "details": error.details,
            }
        }
        write_error(json.dumps(document, ensure_ascii=True) + "\n")
        return
    write_error(_folded_error(f"error: {text.clean(error.message)}"))
    for path in error.details.get("paths", [])[:20]:
        raw = paths.from_json(path)
        write_error(f"  {text.path(raw) if raw is not None else path}\n")
    if error.hint:
        write_error(_folded_error(f"hint: {text.clean(error.hint)}"))


def _folded_error(words: str) -> str:
    """A message, folded on a terminal; on one line where it goes to a file, so that it can be found."""
    lines = text.fold(words, _width(), 2) if sys.stderr.isatty() else [words]
    return "".join(f"{line}\n" for line in lines)


def _write(stream: Any, words: str) -> None:
    try:
        stream.write(words)
    except UnicodeEncodeError:
        stream.write(words.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
