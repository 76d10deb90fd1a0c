"""What a directory wants of its snapshots, in ``<root>/.cogitator/checkpoints.toml``; every key may be
missing.

files = true                # checkpoints of sessions here take snapshots without being asked
exclude = ["*.log"]         # left out of every snapshot, on top of what is always left out
max-file-bytes = 10485760   # larger files are skipped
refuse-hard-links = false   # skip files with more than one name
keep-last = 200             # after each snapshot, keep at most so many
keep-within = "14d"         # ... and none older
grace = "1h"                # how long what no snapshot uses is kept
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from yolop_cli.ground.errors import UsageError
from yolop_cli.ground.files import read_bytes
from yolop_cli.store.excludes import check
from yolop_cli.store.manifest import Rules

_DURATION = re.compile(r"(\d{1,9})\s*(s|m|h|d|w|)\Z")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
GRACE = 3600.0


@dataclass(frozen=True)
class Retention:
    """Which snapshots are kept: at most ``keep_last``, and none older than ``keep_within`` seconds."""

    keep_last: int | None = None
    keep_within: float | None = None


@dataclass(frozen=True)
class Settings:
    """The settings of one directory."""

    files: bool = False
    rules: Rules = field(default_factory=Rules)
    retention: Retention = field(default_factory=Retention)
    grace: float = GRACE


def seconds(text: str) -> float:
    """A duration as ``90``, ``90s``, ``15m``, ``2h``, ``14d`` or ``3w``. Raises ``UsageError``."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a duration", hint="write it like 90s, 15m, 2h, 14d or 3w")
    return float(int(match.group(1)) * _SECONDS[match.group(2)])


def load(root: Path) -> Settings:
    """The settings of a directory, or the defaults. Raises ``UsageError`` when the file makes no sense."""
    path = root / ".cogitator" / "checkpoints.toml"
    data = read_bytes(path)
    if data is None:
        return Settings()
    try:
        return _settings(tomllib.loads(data.decode()))
    except RecursionError:
        raise UsageError(
            f"{path} cannot be used: it is nested too deeply", details={"path": str(path)}
        ) from None
    except (ValueError, TypeError, UsageError) as error:
        raise UsageError(f"{path} cannot be used: {error}", details={"path": str(path)}) from None


def _settings(values: dict[str, Any]) -> Settings:
    unknown = values.keys() - {
        "files",
        "exclude",
        "max-file-bytes",
        "refuse-hard-links",
        "keep-last",
        "keep-within",
        "grace",
    }
    if unknown:
        raise ValueError(f"unknown key {min(unknown)!r}")
    exclude = values.get("exclude", [])
    if not (isinstance(exclude, list) and all(isinstance(pattern, str) for pattern in exclude)):
        raise ValueError("exclude must be a list of strings")
    check(exclude)
    rules = Rules(
        tuple(exclude),
        _count(values, "max-file-bytes") or Rules().max_file_bytes,
        _flag(values, "refuse-hard-links"),
    )
    keep_within = _duration(values, "keep-within")
    retention = Retention(_count(values, "keep-last"), keep_within)
    grace = _duration(values, "grace")
    return Settings(_flag(values, "files"), rules, retention, GRACE if grace is None else grace)


def _flag(values: dict[str, Any], key: str) -> bool:
    value = values.get(key, False)
    if not isinstance(value, bool):
        raise TypeError(f"{key} must be true or false")
    return value


def _count(values: dict[str, Any], key: str) -> int | None:
    value = values.get(key)
    if value is not None and (type(value) is not int or value < 1):
        raise ValueError(f"{key} must be a number of at least 1")
    return value


def _duration(values: dict[str, Any], key: str) -> float | None:
    value = values.get(key)
    return None if value is None else seconds(str(value))
