"""A quick look at whether an event has its form: no stricter and no laxer than ``schemas/event``.

A million events are looked at in the time that the schema takes for ten thousand; the schema is asked only
about those that fail here, for the words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from yolop_cli.timeline.fields import is_timestamp

_EVENT_ID = re.compile(r"event_[0-9a-f]{32}\Z")


def is_event_id(value: object) -> bool:
    """``event_`` and 32 lowercase hex digits."""
    return isinstance(value, str) and _EVENT_ID.match(value) is not None


def has_form(value: dict[str, Any], kind: str) -> bool:
    """Whether an event of this type is as the schema states; its sequence and session aside."""
    if not is_event_id(value.get("id")) or "session_id" not in value:
        return False
    if not (isinstance(value.get("ts"), str) and is_timestamp(value["ts"])):
        return False
    if not isinstance(value.get("context"), dict) or not _optional(value, "metadata", dict):
        return False
    data = value.get("data")
    looks = _DATA.get(kind)
    return isinstance(data, dict) and (looks is None or looks(data))


def _optional(value: dict[str, Any], key: str, kind: type) -> bool:
    """Whether a field that may be null or missing is of a kind where it is there."""
    return value.get(key) is None or isinstance(value[key], kind)


def _is_content(content: object) -> bool:
    return isinstance(content, list) and all(_is_part(part) for part in content)


def _is_part(part: object) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return False
    return part["type"] != "text" or isinstance(part.get("text"), str)


def _input(data: dict[str, Any]) -> bool:
    message = data.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return False
    identity = message.get("id", "message_")
    return (
        isinstance(identity, str) and identity.startswith("message_") and _is_content(message.get("content"))
    )


def _output(data: dict[str, Any]) -> bool:
    message = data.get("message")
    if not isinstance(message, dict) or message.get("role") not in ("agent", "assistant"):
        return False
    return (
        isinstance(message.get("id", ""), str)
        and _is_content(message.get("content"))
        and _optional(data, "usage", dict)
    )


def _tool(data: dict[str, Any]) -> bool:
    result = data.get("result")
    return (
        isinstance(data.get("tool_call_id"), str)
        and isinstance(data.get("tool_name"), str)
        and isinstance(data.get("success"), bool)
        and _optional(data, "status", str)
        and (result is None or _is_content(result))
    )


def _reason(data: dict[str, Any]) -> bool:
    count = data.get("tool_call_count", 0)
    return (
        isinstance(data.get("success"), bool)
        and _optional(data, "text_preview", str)
        and isinstance(data.get("has_tool_calls", False), bool)
        and type(count) is int
        and count >= 0
    )


def _title(data: dict[str, Any]) -> bool:
    return "title" in data and _optional(data, "title", str) and _optional(data, "previous_title", str)


_DATA: dict[str, Callable[[dict[str, Any]], bool]] = {
    "input.message": _input,
    "output.message.completed": _output,
    "tool.completed": _tool,
    "reason.completed": _reason,
    "session.title.updated": _title,
}
