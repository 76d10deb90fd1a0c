"""Words of the journal with one damaged letter: names of fields, ids of checkpoints.

A flipped bit inside a word leaves a line that can be read and says something else. Where the right word is
known from elsewhere, a word of the same length that differs in a single letter is that word.
"""

from __future__ import annotations

from collections.abc import Iterable

from yolop_cli.ground import strict_json
from yolop_cli.ground.strict_json import JsonObject, NotJsonError
from yolop_cli.timeline.checking import objects
from yolop_cli.timeline.records import (
    DOTTED,
    LISTED,
    SNAPSHOT_FIELDS,
    Parsed,
    is_readable,
    to_json,
    type_name,
)


def one_letter_apart(first: str, second: str) -> bool:
    """Whether two words of one length differ in exactly one letter."""
    if len(first) != len(second) or first == second:
        return False
    return sum(a != b for a, b in zip(first, second, strict=True)) == 1


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The only known word that is one letter apart, or None."""
    near = [each for each in known if one_letter_apart(word, each)]
    return near[0] if len(near) == 1 else None


def damaged_keys(parsed: Parsed) -> list[tuple[str, str]]:
    """Unknown fields that are a missing one with a damaged letter, each with the right name.

    A field inside a snapshot is spelled ``snapshot.NAME``. The right name must not be there already, so that
    nothing is said twice.
    """
    if not parsed.unlisted:
        return []
    listed = dict.fromkeys(LISTED[type_name(parsed.record)])
    value = to_json(parsed.record)
    for key in ("snapshot", "redo_snapshot"):
        if isinstance(value.get(key), dict):
            listed.update(dict.fromkeys(f"{key}.{name}" for name in SNAPSHOT_FIELDS))
    found: list[tuple[str, str]] = []
    for unknown in parsed.unlisted:
        right = nearest(unknown, listed)
        if right is not None and right not in parsed.present:
            found.append((unknown, right))
    return found


def mended(data: bytes) -> tuple[bytes, str] | None:
    """A record that lacks a field because a letter of its name was damaged, with the name put right.

    Gives the bytes and the name; None when that is not what is wrong.
    """
    try:
        value = strict_json.loads(data)
    except NotJsonError:
        return None
    kind = value.get("type") if isinstance(value, JsonObject) else None
    listed = LISTED.get(DOTTED.get(kind, kind), ()) if isinstance(kind, str) else ()
    missing = [name for name in listed if name not in value]
    for unknown in value if missing else ():
        right = nearest(unknown, missing)
        if right is not None:
            whole = with_key(data, unknown, right)
            return (whole, right) if is_readable(whole) else None
    return None


def with_key(data: bytes, wrong: str, right: str) -> bytes:
    """The record with a field renamed; all other bytes stay."""
    path = tuple(wrong.split(".", 1))
    for member in objects.members(data):
        if member.path == path:
            start, end = member.key
            return data[:start] + f'"{right.split(".")[-1]}"'.encode() + data[end:]
    return data
