"""The schemas of the session's files beside the timeline: what they take, and where they refuse."""

from __future__ import annotations

from typing import Any

import pytest

from yolop_cli.ground import schemas

NOW = "2026-11-30T12:00:00Z"
SESSION = "session_" + "0" * 32
TREE = "a" * 40
REMOVED = object()


def event(kind: str = "input.message", **changes: Any) -> dict[str, Any]:
    data: dict[str, dict[str, Any]] = {
        "input.message": {"message": {"id": "message_1", "role": "user", "content": [_text("hi")]}},
        "output.message.completed": {
            "message": {"role": "assistant", "content": [_text("x"), {"type": "tool_call", "id": "c"}]},
            "usage": {},
        },
        "tool.completed": {
            "tool_call_id": "c",
            "tool_name": "sh",
            "success": True,
            "status": "ok",
            "result": [_text("x")],
            "error": None,
        },
        "reason.completed": {
            "success": False,
            "text_preview": None,
            "has_tool_calls": True,
            "tool_call_count": 2,
            "error": "x",
        },
        "session.title.updated": {"previous_title": None, "title": "t"},
    }
    sound = {
        "id": "event_" + "0" * 32,
        "type": kind,
        "ts": NOW,
        "session_id": SESSION,
        "context": {},
        "data": data.get(kind, {}),
        "sequence": 1,
    }
    return {key: value for key, value in {**sound, **changes}.items() if value is not REMOVED}


def _text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def _message(role: str, *content: dict[str, str]) -> dict[str, Any]:
    return {"message": {"role": role, "content": list(content)}}


def compaction(kind: str = "checkpoint", **changes: Any) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "checkpoint": {"id": "c", "format_version": 1, "payload": {"secret": 1}},
        "proactive_attempt": {
            "estimated_input_tokens": 10,
            "input_message_count": 2,
            "source_fingerprint": [0] * 31 + [255],
        },
    }
    common = {"session_id": SESSION, "source_sequence": 7, "provider_type": "p", "model": "m"}
    return {"record_type": kind, "record": {**common, **own[kind], **changes}}


def workspace(**changes: Any) -> dict[str, Any]:
    sound = {
        "active_root": "/w",
        "repo_root": "/r",
        "canonical_repo_root": "/r",
        "project_id": "p",
        "title": "t",
        "summary": None,
        "created_at": NOW,
        "updated_at": NOW,
        "session_kind": "interactive",
        "parent_session_id": None,
        "worktree": {"path": "/w", "branch": "b", "base_ref": "main", "slug": "s"},
    }
    return {key: value for key, value in {**sound, **changes}.items() if value is not REMOVED}


def restore(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "token": "abc",
        "kind": "rewind",
        "phase": "prepared",
        "checkpoint_id": "cp_1_1",
        "mode": "both",
        "exact": True,
        "prompt": "x",
        "created_at": NOW,
        "head": {"from": "cp_1_1", "to": None},
        "pending": None,
        "last_sequence": 4,
        "cut": ["cp_1_1"],
        "cut_events": 4,
        "git_head": None,
        "target": {"tree": TREE, "capture": "raw", "raw_tree": TREE},
        "recovery": {"tree": TREE, "reference": "refs/yolop/checkpoints/x/y"},
        "changes": [{"path": {"bytes": "/w=="}, "change": "deleted"}, {"path": "a", "change": "type"}],
        "plan_digest": None,
        "stage": None,
        **changes,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("event", event()),
        ("event", event("output.message.completed")),
        ("event", event("tool.completed")),
        ("event", event("reason.completed")),
        ("event", event("session.title.updated")),
        ("event", event("reason.item", data={"opaque": 1})),
        ("event", event("a.type.of.later")),
        ("event", event(sequence=REMOVED)),
        ("event", event(metadata={"a": 1}, tags=["x"])),
        ("compaction-record", compaction()),
        ("compaction-record", compaction("proactive_attempt")),
        ("workspace", workspace()),
        ("workspace", {"active_root": "/w"}),
        ("workspace", {"workspace_root": "/w", "title": None, "later": 1}),
        ("restore", restore()),
        ("restore", restore(target=None, recovery=None, prompt=None, later=[1])),
    ],
)
def test_a_sound_value_is_valid(name: str, value: dict[str, Any]) -> None:
    assert schemas.errors(name, value) == []


NO_TEXT = _message("user", {"type": "text"})
SHORT = {"source_fingerprint": [0] * 31}
NO_BYTE = {"source_fingerprint": [0] * 31 + [256]}


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("event", event(id="event_1"), "$.id"),
        ("event", event(id="event_" + "0" * 32 + "\n"), "$.id"),
        ("event", event(session_id=SESSION + "\n"), "$.session_id"),
        ("event", event(ts="2026-11-30T12:00:00"), "$.ts"),
        ("event", event(sequence=1.0), "$.sequence"),
        ("event", event(sequence=2**31), "$.sequence"),
        ("event", event(data=REMOVED), "$"),
        ("event", event(data={}), "$.data"),
        ("event", event(data=_message("agent")), "$.data.message.role"),
        ("event", event(data=NO_TEXT), "$.data.message.content[0]"),
        ("event", event("output.message.completed", data=_message("user")), "$.data.message.role"),
        ("event", event("tool.completed", data={"tool_call_id": "c", "tool_name": "s"}), "$.data"),
        ("event", event("reason.completed", data={"success": 1}), "$.data.success"),
        ("event", event("session.title.updated", data={"title": 1}), "$.data.title"),
        ("compaction-record", {"record_type": "x", "record": {}}, "$.record_type"),
        ("compaction-record", compaction(source_sequence="7"), "$.record.source_sequence"),
        ("compaction-record", compaction("proactive_attempt", **SHORT), "$.record.source_fingerprint"),
        ("compaction-record", compaction("proactive_attempt", **NO_BYTE), "$.record.source_fingerprint[31]"),
        ("workspace", workspace(active_root=REMOVED), "$"),
        ("workspace", workspace(active_root=None), "$.active_root"),
        ("workspace", workspace(session_kind="other"), "$.session_kind"),
        ("workspace", workspace(worktree={"branch": "b"}), "$.worktree"),
        ("workspace", workspace(created_at="yesterday"), "$.created_at"),
        ("restore", restore(version=2), "$.version"),
        ("restore", restore(token=""), "$.token"),
        ("restore", restore(kind="undo"), "$.kind"),
        ("restore", restore(phase="done"), "$.phase"),
        ("restore", restore(mode="all"), "$.mode"),
        ("restore", restore(head={"from": None}), "$.head"),
        ("restore", restore(last_sequence=2**31), "$.last_sequence"),
        ("restore", restore(cut_events=-1), "$.cut_events"),
        ("restore", restore(target={"tree": TREE, "capture": None}), "$.target"),
        ("restore", restore(changes=[{"path": 1, "change": "added"}]), "$.changes[0].path"),
        ("restore", restore(changes=[{"path": "a", "change": "renamed"}]), "$.changes[0].change"),
    ],
)
def test_a_damaged_value_is_refused_at_the_right_place(name: str, value: Any, path: str) -> None:
    assert [where for where, _ in schemas.errors(name, value)] == [path]


@pytest.mark.parametrize("key", sorted(restore()))
def test_restore_must_have_every_key(key: str) -> None:
    value = restore()
    del value[key]
    assert schemas.errors("restore", value) == [("$", f"the field {key!r} is missing")]


def test_a_private_payload_is_never_quoted() -> None:
    for name, value in (
        ("compaction-record", compaction(payload="hunter2", model=["hunter2"])),
        ("event", event(data=_message("hunter2", {"type": "text", "txt": "hunter2"}))),
        ("restore", restore(prompt=["hunter2"], mode="hunter2")),
    ):
        found = schemas.errors(name, value)
        assert found
        assert "hunter2" not in repr(found)
