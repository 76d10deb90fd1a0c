"""A tiny agent: appends events to a session's log the way the real one does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

TIME = "2026-01-01T00:00:00Z"


class Agent:
    """Writes the events of one session; sequences grow across all branches."""

    def __init__(self, session: Path) -> None:
        self.session = session
        self.sequence = 0

    @property
    def log(self) -> Path:
        """The event log."""
        return self.session / "events.jsonl"

    def ask(self, text: str) -> int:
        """The user's message."""
        return self._message("input.message", "user", text)

    def answer(self, text: str) -> int:
        """The model's message."""
        return self._message("output.message.completed", "agent", text)

    def tool(self, text: str) -> int:
        """A tool's result."""
        data = {"tool_call_id": f"call_{self.sequence}", "tool_name": "bash", "success": True, "status": "ok"}
        return self.append(
            "tool.completed", {**data, "result": [{"type": "text", "text": text}], "error": None}
        )

    def append(self, kind: str, data: dict[str, Any]) -> int:
        """Any event. Gives its sequence."""
        self.sequence += 1
        event = {
            "id": f"event_{self.sequence:032x}",
            "type": kind,
            "ts": TIME,
            "session_id": self.session.name,
            "context": {},
            "data": data,
            "sequence": self.sequence,
        }
        self._write(json.dumps(event).encode() + b"\n")
        return self.sequence

    def _message(self, kind: str, role: str, text: str) -> int:
        content = [{"type": "text", "text": text}]
        return self.append(
            kind, {"message": {"id": f"message_{self.sequence}", "role": role, "content": content}}
        )

    def _write(self, line: bytes) -> None:
        fd = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
