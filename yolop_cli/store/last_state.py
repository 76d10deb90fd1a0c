"""What the last snapshot saw of every file, so that the next one need not read those that did not change.

The file ``state`` names the snapshot it belongs to and counts only while that snapshot's manifest is there:
then everything it names is in the store. It can be lost at any time; the next snapshot then reads every
file once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from yolop_cli.store import disk, manifest
from yolop_cli.store.layout import Store

STATE = b"state"
_VERSION = 1
SETTLED = 2_000_000_000  # nanoseconds: what changed later than this before a snapshot is read again

# A file as it was seen: st_mode, size, mtime and ctime in nanoseconds, inode, hash, the owner if it counts.
Row = list[Any]


@dataclass(frozen=True, slots=True)
class KnownDirectory:
    """A directory as the last snapshot recorded it. ``recorded`` is its form in the file."""

    mode: int
    tree: str
    files: dict[bytes, Row]
    links: dict[bytes, bytes]
    directories: frozenset[bytes]
    recorded: list[Any]


@dataclass(frozen=True)
class LastState:
    """The recorded directories by path, and the excludes they were recorded under."""

    exclude: tuple[str, ...]
    directories: dict[str, list[Any]]

    def directory(self, path: bytes) -> KnownDirectory | None:
        """What is known of a directory, or None."""
        recorded = self.directories.get(_key(path))
        if recorded is None:
            return None
        mode, tree, files, links, below = recorded
        return KnownDirectory(
            mode,
            tree,
            {_name(key): row for key, row in files.items()},
            {_name(key): _name(target) for key, target in links.items()},
            frozenset(map(_name, below)),
            recorded,
        )


NOTHING = LastState((), {})


def load(store: Store) -> LastState:
    """The last state, or an empty one when there is none that can be trusted."""
    try:
        data = disk.read_file(STATE, store.base)
        if data is None or hashlib.sha256(memoryview(data)[65:]).hexdigest().encode() != data[:64]:
            return NOTHING
        document = orjson.loads(memoryview(data)[65:])
        if document["version"] != _VERSION or not _still_holds(store, document):
            return NOTHING
        return LastState(tuple(document["exclude"]), document["directories"])
    except (OSError, ValueError, KeyError, TypeError):
        return NOTHING


def _still_holds(store: Store, document: dict[str, Any]) -> bool:
    snapshot_id = document["snapshot_id"]
    return document["workspace_id"] == store.workspace_id and manifest.exists(store, snapshot_id)


def save(
    store: Store, snapshot_id: str, exclude: tuple[str, ...], directories: Iterable[tuple[bytes, list[Any]]]
) -> None:
    """Keep what a snapshot saw: the recorded form of each directory, by path."""
    document = {
        "version": _VERSION,
        "snapshot_id": snapshot_id,
        "workspace_id": store.workspace_id,
        "exclude": list(exclude),
        "directories": {_key(path): recorded for path, recorded in directories},
    }
    body = orjson.dumps(document)
    data = hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    disk.replace_file(STATE, store.base, data, store.tmp, durable=False)


def record(
    mode: int,
    tree: str,
    files: dict[bytes, Row],
    links: dict[bytes, bytes],
    directories: Iterable[bytes],
    limit_ns: int,
) -> list[Any]:
    """The recorded form of a directory.

    A file whose times are not before ``limit_ns`` (two seconds before the snapshot began, by the file
    system's clock) is recorded so that it never matches: its times may not move with its next change.
    """
    return [
        mode,
        tree,
        {
            _key(name): row if row[2] < limit_ns and row[3] < limit_ns else [*row[:3], 0, *row[4:]]
            for name, row in files.items()
        },
        {_key(name): _key(target) for name, target in links.items()},
        [_key(name) for name in directories],
    ]


def _key(name: bytes) -> str:
    """A name as a JSON string; one that is not UTF-8 begins with NUL, which no name can hold."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return "\0" + base64.b64encode(name).decode()


def _name(key: str) -> bytes:
    return base64.b64decode(key[1:]) if key[:1] == "\0" else key.encode()
