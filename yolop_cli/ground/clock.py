"""The present moment, as the agent writes it."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """RFC 3339 in UTC with microseconds: ``2026-11-30T12:00:00.123456Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds() -> float:
    """Seconds since 1970."""
    return datetime.now(UTC).timestamp()


def stamp() -> str:
    """The moment as a part of a file name: ``20261130T120000Z``."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
