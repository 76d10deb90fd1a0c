"""Manifests: one JSON file a snapshot, written last, so that everything it names is there and durable."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from yolop_cli.ground import strict_json
from yolop_cli.ground.errors import NotFoundError, RefusedError, StorageError, os_reason
from yolop_cli.ground.paths import for_shell, from_json, to_json
from yolop_cli.store import disk
from yolop_cli.store.identity import (
    FORMAT,
    MANIFEST,
    checksum,
    command,
    is_snapshot_id,
    is_workspace_id,
    manifest_ids,
)
from yolop_cli.store.layout import MANIFESTS, Store, keep_identity, no_snapshots
from yolop_cli.store.listing import is_hash

SNAPSHOT, SAFETY = "snapshot", "safety"
HOME = ".cogitator/checkpoints"
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # this process is at fault, not the file


@dataclass(frozen=True)
class Skipped:
    """A path a snapshot left out although no rule excludes it, and why.

    Reasons: ``too-large``, ``changing``, ``unreadable``, ``hard-link``.
    """

    path: bytes
    reason: str


@dataclass(frozen=True)
class Stats:
    """What taking a snapshot cost. ``hashed`` files were read, ``reused`` ones were not."""

    files: int = 0
    bytes: int = 0
    hashed: int = 0
    reused: int = 0
    stored_bytes: int = 0
    duration_ms: int = 0


@dataclass(frozen=True)
class Origin:
    """Where a copied snapshot was taken."""

    workspace_id: str
    root: bytes


@dataclass(frozen=True)
class Label:
    """What a snapshot was taken for: a text, or the checkpoint of a session."""

    text: str | None = None
    session_id: str | None = None
    checkpoint_id: str | None = None


@dataclass(frozen=True)
class Rules:
    """What a snapshot left out, and so what its restore leaves alone."""

    exclude: tuple[str, ...] = ()
    max_file_bytes: int = 10 << 20
    refuse_hard_links: bool = False


@dataclass(frozen=True)
class Manifest:
    """One snapshot. ``kind`` is ``safety`` for the one a restore takes of the files it is about to change."""

    id: str
    created_at: str
    workspace_id: str
    root: bytes
    tree: str
    kind: str = SNAPSHOT
    label: Label = field(default_factory=Label)
    rules: Rules = field(default_factory=Rules)
    skipped: tuple[Skipped, ...] = ()
    stats: Stats = field(default_factory=Stats)
    origin: Origin | None = None

    def age_seconds(self, now: datetime | None = None) -> float:
        """How long ago the snapshot was taken."""
        taken = datetime.fromisoformat(self.created_at)
        return ((now or datetime.now(UTC)) - taken).total_seconds()


def to_document(manifest: Manifest) -> dict[str, Any]:
    """The manifest as its JSON document."""
    rules, stats, label = manifest.rules, manifest.stats, manifest.label
    document: dict[str, Any] = {
        "format": FORMAT,
        "id": manifest.id,
        "kind": manifest.kind,
        "created_at": manifest.created_at,
        "workspace_id": manifest.workspace_id,
        "root": to_json(manifest.root),
        "tree": manifest.tree,
        "label": label.text,
        "session_id": label.session_id,
        "checkpoint_id": label.checkpoint_id,
        "exclude": list(rules.exclude),
        "max_file_bytes": rules.max_file_bytes,
        "refuse_hard_links": rules.refuse_hard_links,
        "skipped": [{"path": to_json(item.path), "reason": item.reason} for item in manifest.skipped],
        "stats": {
            "files": stats.files,
            "bytes": stats.bytes,
            "hashed": stats.hashed,
            "reused": stats.reused,
            "stored_bytes": stats.stored_bytes,
            "duration_ms": stats.duration_ms,
        },
        "origin": None,
    }
    if manifest.origin is not None:
        document["origin"] = {
            "workspace_id": manifest.origin.workspace_id,
            "root": to_json(manifest.origin.root),
        }
    return document


def from_document(document: Any) -> Manifest:
    """The manifest of a JSON document. Raises ``ValueError`` on anything that is not one."""
    try:
        origin = document["origin"]
        manifest = Manifest(
            id=_text(document["id"]),
            created_at=_moment(document["created_at"]),
            workspace_id=_text(document["workspace_id"]),
            root=_path(document["root"]),
            tree=_text(document["tree"]),
            kind=_text(document["kind"]),
            label=Label(
                _optional(document["label"]),
                _optional(document["session_id"]),
                _optional(document["checkpoint_id"]),
            ),
            rules=Rules(
                tuple(_text(pattern) for pattern in document["exclude"]),
                _count(document["max_file_bytes"]),
                document["refuse_hard_links"] is True,
            ),
            skipped=tuple(
                Skipped(_path(item["path"]), _text(item["reason"])) for item in document["skipped"]
            ),
            stats=Stats(**{name: _count(document["stats"][name]) for name in Stats.__dataclass_fields__}),
            origin=None if origin is None else Origin(_text(origin["workspace_id"]), _path(origin["root"])),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a manifest: {error}") from None
    if document["format"] != FORMAT:
        raise ValueError(f"format {document['format']!r} is not known")
    if not (
        is_snapshot_id(manifest.id)
        and is_workspace_id(manifest.workspace_id)
        and is_hash(manifest.tree)
        and manifest.kind in (SNAPSHOT, SAFETY)
    ):
        raise ValueError("not a manifest: an id or a hash is malformed")
    return manifest


def snapshot_ids(store: Store) -> list[str]:
    """The ids of all manifests, oldest first."""
    return manifest_ids(store.names(MANIFESTS))


def exists(store: Store, snapshot_id: str) -> bool:
    """Whether there is a manifest of that id, without reading it."""
    if MANIFESTS not in store.parts:
        return False
    try:
        os.stat(_file(snapshot_id), dir_fd=store.manifests, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def load(store: Store, snapshot_id: str) -> Manifest:
    """One snapshot by its full id. Raises ``NotFoundError``, or ``StorageError`` when it is damaged."""
    data = _read(store, snapshot_id) if is_snapshot_id(snapshot_id) else None
    if data is None:
        raise NotFoundError(
            f"there is no snapshot {snapshot_id}",
            hint=f"see `{command(store.root, 'list')}`",
            details={"snapshot_id": snapshot_id, "root": str(store.root)},
        )
    try:
        document = strict_json.loads(data)
        said = document.pop("checksum", None) if isinstance(document, dict) else None
        if said != checksum(document):
            raise ValueError("it does not match its checksum")
        manifest = from_document(document)
        if manifest.id != snapshot_id:
            raise ValueError("it is the manifest of another snapshot")
    except ValueError as error:
        raise StorageError(
            f"the manifest of {snapshot_id} is damaged: {error}",
            hint=f"it cannot be restored; `{command(store.root, 'delete', snapshot_id)}` removes it",
            details={"snapshot_id": snapshot_id, "path": path_of(snapshot_id)},
        ) from None
    return manifest


def _read(store: Store, snapshot_id: str) -> bytes | None:
    """The bytes of a manifest. What is in its place must not keep the other snapshots from going on."""
    if MANIFESTS not in store.parts:
        return None
    try:
        return disk.read_file(_file(snapshot_id), store.manifests)
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise
        kind, path = disk.foreign(_file(snapshot_id), store.manifests), path_of(snapshot_id)
        why = f"it is {kind}" if kind is not None else os_reason(error)
        raise StorageError(
            f"the manifest of {snapshot_id} cannot be read: {why}: {path}",
            hint=cure_of(store, snapshot_id),
            details={"snapshot_id": snapshot_id, "path": path},
        ) from None


def path_of(snapshot_id: str) -> str:
    """Where its manifest is, below the store."""
    return f"manifests/{snapshot_id}{MANIFEST}"


def is_deletable(store: Store, snapshot_id: str) -> bool:
    """Whether a manifest that cannot be read is best deleted: it is a file or a link, and it is damaged."""
    try:
        _read(store, snapshot_id)
        return True
    except StorageError:
        return disk.foreign(_file(snapshot_id), store.manifests) == "a symbolic link"


def cure_of(store: Store, snapshot_id: str) -> str:
    """What to do about a manifest that cannot be read, in words."""
    at = for_shell(store.root / HOME / path_of(snapshot_id))
    kind = disk.foreign(_file(snapshot_id), store.manifests)
    return (
        f"check the permissions of {at}" if kind is None else f"move {at} away: it is {kind}, not a manifest"
    )


def load_all(store: Store) -> tuple[list[Manifest], dict[str, str]]:
    """Every snapshot, newest first, and the ids of the manifests that cannot be read with the reason."""
    manifests: list[Manifest] = []
    unreadable: dict[str, str] = {}
    for snapshot_id in snapshot_ids(store):
        try:
            manifests.append(load(store, snapshot_id))
        except NotFoundError:  # deleted meanwhile
            pass
        except StorageError as error:
            unreadable[snapshot_id] = error.message
    manifests.sort(key=lambda manifest: (manifest.created_at, manifest.id), reverse=True)
    return manifests, unreadable


def find(store: Store, text: str) -> Manifest:
    """The snapshot of a full id, a unique beginning of one (with or without ``snap_``), or ``latest``.

    ``latest`` is the newest that is not a safety snapshot. Raises ``NotFoundError``, or ``RefusedError``
    when several begin so.
    """
    if text == "latest":
        manifests, unreadable = load_all(store)
        for manifest in manifests:
            if manifest.kind == SNAPSHOT:
                return manifest
        if unreadable:
            raise StorageError(f"{store.root} has no snapshot whose manifest can be read")
        raise no_snapshots(store.root)
    return load(store, find_id(store, text))


def find_id(store: Store, text: str) -> str:
    """The full id for a beginning of one; the manifest is not read. Raises as ``find``."""
    wanted = text if text.startswith("snap_") else f"snap_{text}"
    matches = [name for name in snapshot_ids(store) if name.startswith(wanted)] if text else []
    if len(matches) > 1 and wanted not in matches:
        raise RefusedError(
            f"{text} is the beginning of {len(matches)} snapshots",
            hint="give more of the id",
            details={"matches": matches[:20]},
        )
    return wanted if wanted in matches or not matches else matches[0]


def save(store: Store, manifest: Manifest) -> None:
    """Write a manifest durably. Everything it names must be durable already."""
    document = to_document(manifest)
    document["checksum"] = checksum(document)
    keep_identity(store)
    disk.replace_file(_file(manifest.id), store.manifests, strict_json.dumps(document) + b"\n", store.tmp)


def delete(store: Store, snapshot_ids: Iterator[str] | tuple[str, ...]) -> list[str]:
    """Remove manifests durably; the ids that were there."""
    removed = []
    keep_identity(store)
    for snapshot_id in snapshot_ids:
        try:
            disk.unlink(_file(snapshot_id), store.manifests)
            removed.append(snapshot_id)
        except FileNotFoundError:
            pass
    if removed:
        disk.sync(store.manifests)
    return removed


def moved(manifest: Manifest, store: Store) -> Manifest:
    """The same snapshot as it is kept by another store, with where it came from."""
    origin = manifest.origin or Origin(manifest.workspace_id, manifest.root)
    return replace(manifest, workspace_id=store.workspace_id, root=os.fsencode(store.root), origin=origin)


def _file(snapshot_id: str) -> bytes:
    return f"{snapshot_id}{MANIFEST}".encode()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a count")
    return value


def _path(value: Any) -> bytes:
    path = from_json(value)
    if path is None:
        raise TypeError(f"{value!r} is not a path")
    return path


def _moment(value: Any) -> str:
    if datetime.fromisoformat(_text(value)).tzinfo is None:
        raise TypeError(f"{value!r} has no time zone")
    return str(value)
