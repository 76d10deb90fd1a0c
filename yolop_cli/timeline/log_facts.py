"""What the event log says that a timeline can be held against: prompts, answers, the last sequence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from yolop_cli.session import events


@dataclass(frozen=True)
class LogFacts:
    """The log in short. ``prompts`` are those of ``input.message`` with their sequences, in order.

    ``foreign`` counts the events that name another session, ``first_foreign`` is the line of the first.
    """

    events: int = 0
    last_sequence: int | None = None
    prompts: tuple[tuple[int, str], ...] = ()
    answers: tuple[int, ...] = ()
    foreign: int = 0
    first_foreign: int | None = None


def facts(path: Path, session_id: str) -> LogFacts:
    """Read the log once, one line in memory at a time. Raises ``StorageError``."""
    count, last = 0, None
    foreign, first_foreign = 0, None
    prompts: list[tuple[int, str]] = []
    answers: list[int] = []
    for line, value in events.values(path):
        event = events.event_of(line, value, session_id)
        if event is None:
            if value is not None and value.get("session_id", session_id) != session_id:
                foreign, first_foreign = foreign + 1, first_foreign or line.number
            continue
        count += 1
        if event.sequence is None:
            continue
        last = event.sequence if last is None else max(last, event.sequence)
        if event.type == "output.message.completed":
            answers.append(event.sequence)
        prompt = event.prompt
        if prompt is not None:
            prompts.append((event.sequence, prompt))
    return LogFacts(count, last, tuple(sorted(prompts)), tuple(sorted(answers)), foreign, first_foreign)
