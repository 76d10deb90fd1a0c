"""Whether the JSON in a file has the form that a schema states: one document, or one a line.

Lines are read as the format page says ("Reading"): split at line feed only, blank ones do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from yolop_cli.ground import journal, schemas, strict_json
from yolop_cli.ground.strict_json import JsonObject, NotJsonError

_OF_LINES = {
    "timeline-record": re.compile(r"timeline\.jsonl(\.bak-.*)?\Z", re.DOTALL),
    "event": re.compile(r"(events|session_[0-9a-f]{32})\.jsonl\Z"),
    "compaction-record": re.compile(r"compaction-checkpoints\.jsonl\Z"),
}
_OF_DOCUMENTS = {"workspace.json": "workspace", "restore.json": "restore"}
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Finding:
    """One broken rule: the line (None in a file of one document), a byte offset, a JSON path, words.

    The words never quote a value, which may be private.
    """

    line: int | None
    offset: int
    path: str
    message: str


@dataclass(frozen=True)
class Conformance:
    """How many documents were checked, and every rule that one of them breaks."""

    documents: int
    findings: tuple[Finding, ...]


def schema_of(name: str) -> str | None:
    """The schema of a session's file by the file's name, or None for a file that is none of them."""
    by_line = (schema for schema, pattern in _OF_LINES.items() if pattern.match(name))
    return _OF_DOCUMENTS.get(name) or next(by_line, None)


def is_of_lines(name: str, schema: str) -> bool:
    """Whether a file holds one document a line: the schema is that of a line, or the name says so."""
    return schema in _OF_LINES or name.endswith(".jsonl")


def check(file: BinaryIO, schema: str, *, of_lines: bool) -> Conformance:
    """Check an open file, one line in memory at a time. Raises ``NotFoundError`` for an unknown schema."""
    schemas.validator(schema)
    if not of_lines:
        return Conformance(1, tuple(_findings(file.read(), schema, None, 0)))
    documents = 0
    findings: list[Finding] = []
    for line in journal.lines(file):
        if not journal.is_blank(line.data):
            documents += 1
            findings += _findings(line.data, schema, line.number, line.offset)
    return Conformance(documents, tuple(findings))


def _findings(data: bytes, schema: str, line: int | None, offset: int) -> Iterator[Finding]:
    try:
        value = strict_json.loads(data)
    except NotJsonError as error:
        yield Finding(line, offset + error.fault.offset, "$", error.fault.message)
        return
    for path, key in _repeated(value):
        yield Finding(line, offset, path, f"the key {key!r} is there more than once")
    for path, message in schemas.errors(schema, value):
        yield Finding(line, offset, path, message)


def _repeated(value: Any) -> Iterator[tuple[str, str]]:
    """The keys written more than once, anywhere: readers differ in which of the values they take."""
    stack = [("$", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, JsonObject):
            yield from ((path, key) for key in sorted(item.repeated))
            stack.extend((_below(path, key), child) for key, child in item.items())
        elif isinstance(item, list):
            stack.extend((f"{path}[{index}]", child) for index, child in enumerate(item))


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if _PLAIN_KEY.match(key) else f"{path}[{key!r}]"
