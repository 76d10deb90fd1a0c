"""Listings: what a directory held, as one object of canonical JSON, named by its SHA-256.

    {"entries": [{"name", "type": "file", "mode", "size", "blob"},
                 {"name", "type": "directory", "mode", "tree"},
                 {"name", "type": "symlink", "target"}]}

sorted by the bytes of the name, without white space. A name or target that is not UTF-8 is ``{"bytes":
base64}``. Times are not part of a listing, so that touching a file makes no new one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import orjson

from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.paths import from_json, to_json

FILE, DIRECTORY, SYMLINK = "file", "directory", "symlink"
_HASH = re.compile(r"[0-9a-f]{64}\Z")


class Entry(NamedTuple):
    """One entry: ``hash`` names a file's blob or a directory's tree; ``target`` is the text of a link."""

    type: str
    mode: int = 0
    size: int = 0
    hash: str = ""
    target: bytes = b""
    owner: tuple[int, int] | None = None


Listing = Mapping[bytes, Entry]


def is_hash(text: object) -> bool:
    """A SHA-256 in lowercase hex."""
    return isinstance(text, str) and _HASH.match(text) is not None


def digest_of(data: bytes) -> str:
    """The name of an object."""
    return hashlib.sha256(data).hexdigest()


def encode(listing: Listing) -> bytes:
    """The bytes of a listing; equal listings give equal bytes."""
    return orjson.dumps({"entries": [_to_json(name, listing[name]) for name in sorted(listing)]})


def decode(data: bytes) -> dict[bytes, Entry]:
    """The listing in the bytes of a tree. Raises ``StorageError`` on anything ``encode`` does not write.

    So a forged tree cannot hold a name that leads out of its directory.
    """
    try:
        entries = orjson.loads(data)["entries"]
        listing = dict(_from_json(entry) for entry in entries)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StorageError("a tree of the store is not a listing") from None
    if len(listing) != len(entries):
        raise StorageError("a tree of the store names an entry twice")
    return listing


def entry_at(listing: Callable[[str], Listing], root: str, path: bytes) -> Entry | None:
    """The entry at a relative path below the tree ``root``, or None. ``listing`` gives a tree by its hash."""
    parts = path.split(b"/")
    for part in parts[:-1]:
        below = listing(root).get(part)
        if below is None or below.type != DIRECTORY:
            return None
        root = below.hash
    return listing(root).get(parts[-1])


def _to_json(name: bytes, entry: Entry) -> dict[str, Any]:
    shown = to_json(name)
    if entry.type == FILE:
        value: dict[str, Any] = {
            "name": shown,
            "type": FILE,
            "mode": entry.mode,
            "size": entry.size,
            "blob": entry.hash,
        }
        if entry.owner is not None:
            value["owner"] = list(entry.owner)
        return value
    if entry.type == DIRECTORY:
        return {"name": shown, "type": DIRECTORY, "mode": entry.mode, "tree": entry.hash}
    return {"name": shown, "type": SYMLINK, "target": to_json(entry.target)}


def _from_json(value: dict[str, Any]) -> tuple[bytes, Entry]:
    name, kind = from_json(value["name"]), value["type"]
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name:
        raise ValueError
    if kind == SYMLINK:
        target = from_json(value["target"])
        if not target or b"\0" in target:
            raise ValueError
        return name, Entry(SYMLINK, target=target)
    mode = value["mode"]
    if type(mode) is not int or not 0 <= mode <= 0o7777:
        raise ValueError
    if kind == DIRECTORY and is_hash(value["tree"]):
        return name, Entry(DIRECTORY, mode, hash=value["tree"])
    size = value["size"]
    if kind != FILE or type(size) is not int or size < 0 or not is_hash(value["blob"]):
        raise ValueError
    return name, Entry(FILE, mode, size, value["blob"], owner=_owner(value.get("owner")))


def _owner(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    user, group = value
    if type(user) is not int or type(group) is not int:
        raise ValueError
    return user, group
