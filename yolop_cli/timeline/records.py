"""The five records of a timeline, read as strictly as the agent reads them and written as it writes them.

Field names are those of the format page. ``parse`` accepts what the agent accepts, in both spellings of
the types; ``to_line`` makes the bytes of one record in the spelling asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from yolop_cli.ground import strict_json
from yolop_cli.ground.strict_json import JsonObject, NotJsonError
from yolop_cli.timeline.fields import Fields, fault

Dialect = Literal["underscore", "dotted"]

TYPES = ("initialized", "checkpoint_created", "turn_completed", "head_moved", "redo_cleared")
DOTTED = {
    "checkpoint.created": "checkpoint_created",
    "turn.completed": "turn_completed",
    "head.moved": "head_moved",
    "redo.cleared": "redo_cleared",
}
# The fields of each type that the agent's reader knows; any other it passes over.
LISTED = {
    "initialized": ("type", "baseline_end", "created_at"),
    "checkpoint_created": (
        "type",
        "id",
        "parent",
        "prompt",
        "event_start",
        "snapshot",
        "snapshot_error",
        "created_at",
    ),
    "turn_completed": ("type", "checkpoint_id", "event_end", "success", "completed_at"),
    "head_moved": ("type", "from", "to", "redo_head", "redo_snapshot", "moved_at"),
    "redo_cleared": ("type", "cleared_at"),
}
SNAPSHOT_FIELDS = ("tree", "reference", "capture", "restored")
# Fields of ours that the agent passes over.
_OURS = {"checkpoint_created": ("file_snapshot",), "head_moved": ("redo_file_snapshot",)}
_FIELDS = {kind: frozenset((*fields, *_OURS.get(kind, ()))) for kind, fields in LISTED.items()}
_SNAPSHOT_FIELDS = frozenset(SNAPSHOT_FIELDS)
_TO_DOTTED = {underscore: dotted for dotted, underscore in DOTTED.items()}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A git tree; ``capture`` is ``"raw"`` when it holds the bytes exactly as they were on disk.

    In a ``redo_snapshot``, ``restored`` is the tree that the restore put in the place of this one.
    """

    tree: str
    reference: str | None = None
    capture: str | None = None
    restored: str | None = None


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """A snapshot in a content-addressed store: its id, its workspace, the root it was taken of."""

    id: str
    workspace_id: str
    root: str


Files = Snapshot | FileSnapshot


@dataclass(frozen=True, slots=True)
class Initialized:
    """The conversation up to ``baseline_end`` belongs to every branch."""

    baseline_end: int
    created_at: str


@dataclass(frozen=True, slots=True)
class CheckpointCreated:
    """A turn is about to begin."""

    id: str
    parent: str | None
    prompt: str
    event_start: int
    snapshot: Snapshot | None
    snapshot_error: str | None
    created_at: str
    file_snapshot: FileSnapshot | None = None

    @property
    def files(self) -> Files | None:
        """The snapshot of the files, in git or in a store."""
        return self.snapshot if self.snapshot is not None else self.file_snapshot


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """A turn ended; the head is its checkpoint now."""

    checkpoint_id: str
    event_end: int
    success: bool
    completed_at: str


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """A rewind, an undo or a redo took effect. ``from_head`` and ``to`` are ``from`` and ``to`` on disk."""

    from_head: str | None
    to: str | None
    redo_head: str | None
    redo_snapshot: Snapshot | None
    moved_at: str
    redo_file_snapshot: FileSnapshot | None = None


@dataclass(frozen=True, slots=True)
class RedoCleared:
    """There is nothing to redo any more."""

    cleared_at: str


_NAMES: dict[type[Any], str] = {
    Initialized: "initialized",
    CheckpointCreated: "checkpoint_created",
    TurnCompleted: "turn_completed",
    HeadMoved: "head_moved",
    RedoCleared: "redo_cleared",
}
Record = Initialized | CheckpointCreated | TurnCompleted | HeadMoved | RedoCleared


@dataclass(frozen=True, slots=True)
class Parsed:
    """A readable line: its record, and the spelling its type shows (None when it shows neither).

    ``unlisted`` are the fields that the format page does not have; the agent ignores them. One inside a
    snapshot is given as ``snapshot.NAME``. Where there are any, ``present`` are the names of all fields.
    """

    record: Record
    dialect: Dialect | None
    unlisted: tuple[str, ...] = ()
    present: frozenset[str] = frozenset()


def parse(data: bytes) -> Parsed:
    """The record on one line. Raises ``NotJsonError`` with a fault when the agent could not read it."""
    value = strict_json.loads(data)
    if not isinstance(value, JsonObject):
        raise fault("schema", "not an object")
    kind = Fields(value, ("type",)).string("type")
    name = DOTTED.get(kind, kind)
    read = _READERS.get(name)
    if read is None:
        raise fault("type", f"unknown type {kind!r}")
    # "initialized" is spelled alike in both dialects, so it says nothing about the file's.
    dialect: Dialect | None = "dotted" if kind in DOTTED else None if kind == "initialized" else "underscore"
    record = read(value)
    unlisted = _unlisted(value, name)
    return Parsed(record, dialect, unlisted, frozenset(_names(value)) if unlisted else frozenset())


def _unlisted(value: JsonObject, name: str) -> tuple[str, ...]:
    found = () if value.keys() <= _FIELDS[name] else tuple(sorted(value.keys() - _FIELDS[name]))
    for key in ("snapshot", "redo_snapshot"):
        inner = value.get(key)
        if isinstance(inner, JsonObject) and not inner.keys() <= _SNAPSHOT_FIELDS:
            found += tuple(f"{key}.{name}" for name in sorted(inner.keys() - _SNAPSHOT_FIELDS))
    return found


def _names(value: JsonObject) -> Iterator[str]:
    for key, each in value.items():
        yield key
        if isinstance(each, JsonObject):
            yield from (f"{key}.{name}" for name in each)


def is_readable(data: bytes) -> bool:
    """Whether the agent could read this line."""
    try:
        parse(data)
    except NotJsonError:
        return False
    return True


def type_name(record: Record) -> str:
    """The type of a record, in the spelling that the agent reads."""
    return _NAMES[type(record)]


def to_json(record: Record, dialect: Dialect = "underscore") -> dict[str, Any]:
    """The record as a JSON object, keys in the order of the format page."""
    kind, fields = _WRITERS[type(record)](record)
    return {"type": _TO_DOTTED.get(kind, kind) if dialect == "dotted" else kind, **fields}


def to_line(record: Record, dialect: Dialect = "underscore") -> bytes:
    """The bytes of one line, without its line feed."""
    return strict_json.dumps(to_json(record, dialect))


def snapshot_json(snapshot: Snapshot | None) -> dict[str, Any] | None:
    """A snapshot as it stands inside a record."""
    if snapshot is None:
        return None
    value: dict[str, Any] = {"tree": snapshot.tree, "reference": snapshot.reference}
    if snapshot.capture is not None:
        value["capture"] = snapshot.capture
    if snapshot.restored is not None:
        value["restored"] = snapshot.restored
    return value


def file_snapshot_json(snapshot: FileSnapshot | None) -> dict[str, Any] | None:
    """A snapshot in a store as it stands inside a record."""
    if snapshot is None:
        return None
    return {"id": snapshot.id, "workspace_id": snapshot.workspace_id, "root": snapshot.root}


def _initialized(value: JsonObject) -> Record:
    fields = Fields(value, LISTED["initialized"])
    return Initialized(fields.int32("baseline_end"), fields.timestamp("created_at"))


def _checkpoint_created(value: JsonObject) -> Record:
    fields = Fields(value, LISTED["checkpoint_created"])
    return CheckpointCreated(
        fields.string("id"),
        fields.string_or_null("parent"),
        fields.string("prompt"),
        fields.int32("event_start"),
        _snapshot(value.get("snapshot"), "snapshot"),
        fields.string_or_null("snapshot_error"),
        fields.timestamp("created_at"),
        _file_snapshot(value.get("file_snapshot")),
    )


def _snapshot(value: Any, key: str) -> Snapshot | None:
    if value is None:
        return None
    if not isinstance(value, JsonObject):
        raise fault("schema", f"{key!r} is not an object")
    inner = Fields(value, ("tree", "reference"))
    # Fields of ours that the agent ignores: malformed ones never make the line unreadable.
    ours = [value.get(each) for each in ("capture", "restored")]
    capture, restored = (each if isinstance(each, str) else None for each in ours)
    return Snapshot(inner.string("tree"), inner.string_or_null("reference"), capture, restored)


def _file_snapshot(value: Any) -> FileSnapshot | None:
    # A field of ours that the agent ignores: a malformed one never makes the line unreadable.
    if not isinstance(value, dict):
        return None
    parts = [value.get(key) for key in ("id", "workspace_id", "root")]
    if not all(isinstance(part, str) for part in parts):
        return None
    return FileSnapshot(*(str(part) for part in parts))


def _turn_completed(value: JsonObject) -> Record:
    fields = Fields(value, LISTED["turn_completed"])
    return TurnCompleted(
        fields.string("checkpoint_id"),
        fields.int32("event_end"),
        fields.boolean("success"),
        fields.timestamp("completed_at"),
    )


def _head_moved(value: JsonObject) -> Record:
    fields = Fields(value, LISTED["head_moved"])
    return HeadMoved(
        fields.string_or_null("from"),
        fields.string_or_null("to"),
        fields.string_or_null("redo_head"),
        _snapshot(value.get("redo_snapshot"), "redo_snapshot"),
        fields.timestamp("moved_at"),
        _file_snapshot(value.get("redo_file_snapshot")),
    )


def _redo_cleared(value: JsonObject) -> Record:
    return RedoCleared(Fields(value, LISTED["redo_cleared"]).timestamp("cleared_at"))


_READERS: dict[str, Callable[[JsonObject], Record]] = {
    "initialized": _initialized,
    "checkpoint_created": _checkpoint_created,
    "turn_completed": _turn_completed,
    "head_moved": _head_moved,
    "redo_cleared": _redo_cleared,
}


def _write_checkpoint(record: CheckpointCreated) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = {
        "id": record.id,
        "parent": record.parent,
        "prompt": record.prompt,
        "event_start": record.event_start,
        "snapshot": snapshot_json(record.snapshot),
        "snapshot_error": record.snapshot_error,
        "created_at": record.created_at,
    }
    if record.file_snapshot is not None:
        fields["file_snapshot"] = file_snapshot_json(record.file_snapshot)
    return "checkpoint_created", fields


def _write_moved(record: HeadMoved) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = {
        "from": record.from_head,
        "to": record.to,
        "redo_head": record.redo_head,
        "redo_snapshot": snapshot_json(record.redo_snapshot),
        "moved_at": record.moved_at,
    }
    if record.redo_file_snapshot is not None:
        fields["redo_file_snapshot"] = file_snapshot_json(record.redo_file_snapshot)
    return "head_moved", fields


_WRITERS: dict[type[Any], Callable[[Any], tuple[str, dict[str, Any]]]] = {
    Initialized: lambda record: (
        "initialized",
        {"baseline_end": record.baseline_end, "created_at": record.created_at},
    ),
    CheckpointCreated: _write_checkpoint,
    TurnCompleted: lambda record: (
        "turn_completed",
        {
            "checkpoint_id": record.checkpoint_id,
            "event_end": record.event_end,
            "success": record.success,
            "completed_at": record.completed_at,
        },
    ),
    HeadMoved: _write_moved,
    RedoCleared: lambda record: ("redo_cleared", {"cleared_at": record.cleared_at}),
}
