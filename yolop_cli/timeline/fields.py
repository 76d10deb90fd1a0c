"""The fields of one object, read as strictly as the agent reads them."""

from __future__ import annotations

import re
from typing import Any

from yolop_cli.ground import strict_json
from yolop_cli.ground.strict_json import JsonFault, JsonObject, NotJsonError

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|[+-](\d\d):(\d\d))\Z", re.ASCII
)


class Fields:
    """The listed fields of one object; a repeated one is refused, an unlisted one ignored."""

    def __init__(self, value: JsonObject, listed: tuple[str, ...]):
        for key in listed:
            if key in value.repeated:
                raise fault("repeated", f"the key {key!r} is there more than once")
        self.value = value

    def _required(self, key: str) -> Any:
        if key not in self.value:
            raise fault("missing", f"the field {key!r} is missing")
        return self.value[key]

    def string(self, key: str) -> str:
        """A required string."""
        value = self._required(key)
        if not isinstance(value, str):
            raise fault("schema", f"{key!r} is not a string")
        return value

    def string_or_null(self, key: str) -> str | None:
        """A string; None when it is null or missing."""
        return None if self.value.get(key) is None else self.string(key)

    def int32(self, key: str) -> int:
        """A required integer of 32 bits."""
        value = self._required(key)
        if not strict_json.is_int32(value):
            raise fault("integer", f"{key!r} is not a 32-bit integer")
        return int(value)

    def boolean(self, key: str) -> bool:
        """A required true or false."""
        value = self._required(key)
        if not isinstance(value, bool):
            raise fault("schema", f"{key!r} is neither true nor false")
        return value

    def timestamp(self, key: str) -> str:
        """A required time with a zone."""
        value = self.string(key)
        if not is_timestamp(value):
            raise fault("timestamp", f"{key!r} is not a time with a zone: {value[:40]!r}")
        return value


def fault(code: str, message: str) -> NotJsonError:
    """The error for a line that the agent could not read."""
    return NotJsonError(JsonFault(code, 0, message))


def is_timestamp(text: str) -> bool:
    """RFC 3339 with a zone, up to nanoseconds."""
    match = _TIMESTAMP.match(text)
    if match is None:
        return False
    _, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    zone_hour, zone_minute = int(match.group(8) or 0), int(match.group(9) or 0)
    return (
        1 <= month <= 12
        and 1 <= day <= _days(int(match.group(1)), month)
        and hour < 24
        and minute < 60
        and second <= 60
        and zone_hour < 24
        and zone_minute < 60
    )


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31
