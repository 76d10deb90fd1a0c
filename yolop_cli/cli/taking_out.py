"""Print one file of a snapshot, or write its files below a directory: for checkpoints and for snapshots."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from yolop_cli.cli import text
from yolop_cli.cli.screen import Screen, write, write_bytes
from yolop_cli.ground import paths
from yolop_cli.operations.take_out import Content, Entry, Source, extract


def print_file(
    screen: Screen, of: Mapping[str, str], found: Sequence[Entry], path: bytes, source: Source
) -> None:
    """One file byte for byte, of a link its target; ``found`` is what lies at and below its path.

    On a terminal control characters are shown as escapes. A JSON document begins with the ids in ``of``.
    """
    chosen = [entry for entry in found if entry.path == path]
    if not chosen:
        raise click.UsageError(f"{paths.show(path)} is a directory; `extract` takes it out")
    if screen.as_json:
        _show_json(screen, of, chosen[0], source)
        return

    def copy(_: Entry, content: Content) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        for chunk in content.chunks():
            if screen.terminal:
                write(text.printable(decode(chunk)))
            else:
                write_bytes(chunk)

    source(chosen, copy)


def write_files(
    screen: Screen, of: Mapping[str, str], found: Sequence[Entry], target: Path, source: Source
) -> None:
    """Write files below a directory, over nothing that is there, and say how many."""
    written = extract(found, source, target)
    value = {
        **of,
        "destination": paths.to_json(target),
        "files": [paths.to_json(path) for path in written],
    }
    screen.result(
        value, lambda: screen.record(f"{text.count(len(written), 'file')} in {text.path(target)}", 2)
    )


def _show_json(screen: Screen, of: Mapping[str, str], entry: Entry, source: Source) -> None:
    held: list[bytes] = []
    source([entry], lambda _, content: held.append(content.read()))
    value = {
        **of,
        "path": paths.to_json(entry.path),
        "mode": entry.mode,
        "size": len(held[0]),
        # As for a path: text, or its bytes in base64 when it is not UTF-8.
        "content": paths.to_json(held[0]),
    }
    screen.result(value, lambda: None)
