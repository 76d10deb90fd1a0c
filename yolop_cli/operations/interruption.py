"""Whether a restore of a session was cut off, and how far it had come. Reads only; no lock is taken."""

from __future__ import annotations

from dataclasses import dataclass

from yolop_cli.ground.errors import YolopError
from yolop_cli.homes.held import is_finished
from yolop_cli.session import lock, restore_file
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline import file as timeline_file


@dataclass(frozen=True)
class Interruption:
    """A restore that was cut off: the token that finishes it, and whether it had taken effect already."""

    token: str
    finished: bool


def interruption(session: SessionDirectory) -> Interruption | None:
    """The restore of a session that was cut off while it changed files; None too while one is running.

    A restore.json that cannot be read is left to the commands that need it. Raises as ``timeline.file.load``.
    """
    try:
        waiting = restore_file.read(session)
    except YolopError:
        return None
    if waiting is None or waiting.phase != "applying" or lock.is_held(session):
        return None
    return Interruption(waiting.token, is_finished(timeline_file.load(session), waiting))


def is_half_done(session: SessionDirectory) -> bool:
    """Whether files may still be half restored. What is damaged counts as no, so that it can be deleted."""
    try:
        found = interruption(session)
    except YolopError:
        return False
    return found is not None and not found.finished
