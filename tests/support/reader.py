"""A second reader of the session files, written from the format alone and sharing no code with the program.

It is small and believes what it reads: damaged files are the business of other tests.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def records(timeline: Path) -> list[dict[str, Any]]:
    """The records of a sound timeline."""
    if not timeline.exists():
        return []
    data = timeline.read_bytes()
    assert data == b"" or data.endswith(b"\n"), f"no line feed at the end: {data[-80:]!r}"
    return [json.loads(line) for line in data.split(b"\n") if line.strip()]


def events(log: Path) -> list[dict[str, Any]]:
    """The events of a sound log."""
    return records(log)


@dataclass
class Folded:
    """What the records add up to."""

    baseline_end: int | None = None
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    head: str | None = None
    pending: str | None = None
    redo: tuple[str | None, dict[str, Any] | None] | None = None

    @property
    def active_path(self) -> list[str]:
        """From the head by parents, oldest first."""
        path: list[str] = []
        at = self.head
        while at is not None and at in self.nodes and at not in path:
            path.append(at)
            at = self.nodes[at]["parent"]
        return path[::-1]

    def is_active(self, sequence: int | None) -> bool:
        """Whether an event of this sequence belongs to the conversation."""
        if (
            sequence is None
            or not self.nodes
            or (self.baseline_end is not None and sequence <= self.baseline_end)
        ):
            return True
        live = [*self.active_path, *([self.pending] if self.pending is not None else [])]
        return any(
            self.nodes[name]["event_start"] <= sequence <= self.ends.get(name, sequence) for name in live
        )


def fold(found: list[dict[str, Any]]) -> Folded:
    """The state after the records, in their order; both spellings of the types."""
    state = Folded()
    for record in found:
        kind = record["type"].replace(".", "_")
        if kind == "initialized":
            state.baseline_end = record["baseline_end"]
        elif kind == "checkpoint_created":
            state.nodes[record["id"]] = record
            state.ends.pop(record["id"], None)
            state.pending = record["id"]
        elif kind == "turn_completed":
            name = record["checkpoint_id"]
            if name in state.nodes:
                state.ends[name] = record["event_end"]
                state.head = name
            if state.pending == name:
                state.pending = None
        elif kind == "head_moved":
            state.head = record["to"]
            state.redo = (record["redo_head"], record["redo_snapshot"])
        elif kind == "redo_cleared":
            state.redo = None
        else:
            raise AssertionError(f"unknown record: {record}")
    return state


def active_texts(session: Path) -> list[str]:
    """The texts of everything a model would be sent after a resume: messages and tool results."""
    state = fold(records(session / "timeline.jsonl"))
    found: list[str] = []
    for event in events(session / "events.jsonl"):
        if state.is_active(event.get("sequence")):
            data = event["data"]
            parts = data["message"]["content"] if "message" in data else data.get("result", [])
            found.extend(part["text"] for part in parts if part.get("type") == "text")
    return found
