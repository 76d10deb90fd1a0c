"""Read one JSON document as strictly as the agent's reader does.

The rules are those of the format page ("The agent's reader"): valid UTF-8 without a byte-order mark, no
NaN or Infinity, no lone surrogate, no number beyond a double, at most 127 nested containers, nothing
after the document. A repeated key is not refused here, because only the keys of a record that the agent
knows count: it is reported through ``JsonObject.repeated``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 127
_BOM = b"\xef\xbb\xbf"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
# Every escape of a document; the group is an escape of half a pair.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F])|.)", re.DOTALL
)
# Strings whole, so that a bracket in one does not count.
_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"|([\[{])|([\]}])', re.DOTALL)


@dataclass(frozen=True)
class JsonFault:
    """Why bytes are not a document: a stable code, a byte offset into them, and words."""

    code: str
    offset: int
    message: str


class NotJsonError(ValueError):
    """The bytes are not one JSON document. ``fault`` says where and why."""

    def __init__(self, fault: JsonFault):
        super().__init__(fault.message)
        self.fault = fault


class JsonObject(dict[str, Any]):
    """A JSON object that remembers which of its keys were written more than once."""

    repeated: frozenset[str] = frozenset()


def loads(data: bytes) -> Any:
    """The value in ``data`` (objects as ``JsonObject``). Raises ``NotJsonError``."""
    text = _decode(data)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJsonError(_syntax_fault(text, error)) from None
    except RecursionError:
        raise _fault("depth", 0, f"more than {MAX_DEPTH} nested containers") from None
    # Looked for in the text: a value that a repeated key replaced makes the document unreadable too.
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_depth(text)
    if _SURROGATE_ESCAPE.search(text):
        _refuse_lone_surrogates(text)
    return value


def dumps(value: Any) -> bytes:
    """One line of compact UTF-8 JSON, without the newline, that ``loads`` and the agent can read."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8")


def is_int32(value: object) -> bool:
    """Whether the value is what the agent takes for a sequence number."""
    return type(value) is int and -(2**31) <= value < 2**31


def _fault(code: str, offset: int, message: str) -> NotJsonError:
    return NotJsonError(JsonFault(code, offset, message))


def _decode(data: bytes) -> str:
    if data.startswith(_BOM):
        raise _fault("bom", 0, "starts with a byte-order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _fault("utf8", error.start, f"byte 0x{data[error.start]:02x} is not UTF-8") from None


def _syntax_fault(text: str, error: json.JSONDecodeError) -> JsonFault:
    offset = _offset(text, error.pos)
    if error.msg == "Extra data":
        return JsonFault("trailing", offset, "something follows the JSON document")
    words = error.msg.removesuffix(" at").removesuffix(" starting")
    return JsonFault("syntax", offset, f"not JSON: {words[0].lower()}{words[1:]}")


def _pairs(pairs: list[tuple[str, Any]]) -> JsonObject:
    value = JsonObject(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        value.repeated = frozenset(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return value


def _constant(name: str) -> Any:
    raise _fault("nan", 0, f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise _fault("number", 0, f"the number {text[:20]} is out of range")
    return value


def _integer(text: str) -> int | float:
    # The agent reads "-0" and integers beyond 64 bits as floats, so they never pass for a sequence.
    if text == "-0" or len(text) > 20:
        return _float(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(text)


def _refuse_depth(text: str) -> None:
    depth = 0
    for match in _BRACKET.finditer(text):
        opens, closes = match.groups()
        depth += 1 if opens else -1 if closes else 0
        if depth > MAX_DEPTH:
            raise _fault("depth", _offset(text, match.start()), f"more than {MAX_DEPTH} nested containers")


def _refuse_lone_surrogates(text: str) -> None:
    for match in _ESCAPE.finditer(text):
        if match.group(1):
            raise _fault(
                "surrogate", _offset(text, match.start()), "a \\u escape is half of a surrogate pair"
            )


def _offset(text: str, position: int) -> int:
    return len(text[:position].encode("utf-8"))


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float, parse_int=_integer
)
