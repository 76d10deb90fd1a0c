"""``schema``: the JSON Schemas, and any file against them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, command, group
from yolop_cli.cli.screen import write
from yolop_cli.ground import files, paths, schemas
from yolop_cli.ground.errors import UsageError
from yolop_cli.session import conformance


@group(
    "schema",
    "Show JSON Schemas, check files against them.",
    examples=["yolop-cli schema list", "yolop-cli schema show timeline-record"],
)
def schema() -> None:
    """Show the JSON Schemas of session files and of --json output, and check files against them."""


@command(schema, "list", examples=["yolop-cli schema list"])
def list_(invocation: Invocation) -> None:
    """List the schemas: those of files first, then those of outputs."""
    rows = [(name, schemas.load(name)) for name in schemas.names()]

    def render() -> None:
        invocation.screen.table(
            ("Name", "What"), [(name, value["title"]) for name, value in rows], flexible="What"
        )

    listed = [
        {"name": name, "id": value["$id"], "title": value["title"], "description": value["description"]}
        for name, value in rows
    ]
    invocation.screen.result({"schemas": listed}, render)


@command(schema, "show", examples=["yolop-cli schema show timeline-record"])
@click.argument("name", shell_complete=candidates.schemas)
def show(invocation: Invocation, name: str) -> None:
    """Print the schema NAME."""
    found = schemas.text(name)
    invocation.screen.result(schemas.load(name), lambda: write(found))


@command(
    schema,
    "validate",
    examples=[
        'yolop-cli schema validate "$YOLOP_SESSION/timeline.jsonl"',
        "yolop-cli doctor --json | yolop-cli schema validate --schema output/doctor -",
    ],
)
@click.option(
    "--schema",
    "name",
    metavar="NAME",
    shell_complete=candidates.schemas,
    help="Use this schema. [default: the one for the file's name]",
)
@click.argument("file", type=click.Path(path_type=Path))
def validate(invocation: Invocation, name: str | None, file: Path) -> int:
    """Check FILE (- for standard input) against a schema.

    JSON Lines are checked line by line. Exit 1 if there are findings.
    """
    chosen = name or conformance.schema_of(file.name)
    if chosen is None:
        raise UsageError(
            f"cannot tell from the name of {os.fspath(file)!r} which schema applies",
            hint="choose one with --schema; see `yolop-cli schema list`",
        )
    with _opened(file) as opened:
        report = conformance.check(opened, chosen, of_lines=conformance.is_of_lines(file.name, chosen))

    def render() -> None:
        for finding in report.findings:
            where = text.path(file) if finding.line is None else f"{text.path(file)}:{finding.line}"
            invocation.screen.record(text.clean(f"{where}: {finding.path}: {finding.message}"), 2)
        if not report.findings:
            invocation.screen.line(f"{text.count(report.documents, 'document')}, valid: {chosen}")

    findings = [
        {"line": found.line, "offset": found.offset, "path": found.path, "message": found.message}
        for found in report.findings
    ]
    value = {
        "file": paths.to_json(file),
        "schema": chosen,
        "documents": report.documents,
        "findings": findings,
        "ok": not findings,
    }
    invocation.screen.result(value, render)
    return 1 if findings else 0


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    if file != Path("-"):
        with files.reading(file) as opened:
            yield opened
    elif sys.stdin is None:
        raise UsageError("standard input is closed")
    else:
        yield sys.stdin.buffer
