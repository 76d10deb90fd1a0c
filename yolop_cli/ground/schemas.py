"""The JSON Schemas (2020-12) of the session's files and of what the commands print, and values against them.

A schema's name is its path below ``schemas/`` without the ending: ``timeline-record``,
``output/checkpoint-list``. In a wheel the files lie inside the package, in a source checkout beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yolop_cli.ground.errors import NotFoundError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_ENDING = ".schema.json"
_PACKAGE = Path(__file__).parent.parent
_RECORD_SCHEMA = "timeline-record"
_BRANCHING = ("oneOf", "anyOf")


@cache
def names() -> tuple[str, ...]:
    """Every schema's name, those of files first."""
    root = _root()
    found = [path.relative_to(root).as_posix().removesuffix(_ENDING) for path in root.rglob(f"*{_ENDING}")]
    return tuple(sorted(found, key=lambda name: ("/" in name, name)))


def text(name: str) -> str:
    """A schema as it stands on disk. Raises ``NotFoundError`` for an unknown name."""
    if name not in names():
        raise NotFoundError(f"no such schema: {name}", hint="see `yolop-cli schema list`")
    return (_root() / f"{name}{_ENDING}").read_text(encoding="utf-8")


@cache
def load(name: str) -> dict[str, Any]:
    """A schema as a value, read once and not to be changed. Raises as ``text``."""
    schema: dict[str, Any] = json.loads(text(name))
    return schema


@cache
def validator(name: str) -> Validator:
    """The compiled schema, built once a process. Raises as ``text``."""
    return _compile(load(name))


def record_validator(kind: str) -> Validator | None:
    """The compiled schema of one type of timeline record, in either spelling; None for an unknown type.

    Checking a record against the one form its type names takes half the time of trying all five,
    and its faults are those of that form.
    """
    return _record_validators().get(kind)


def errors(name: str, value: Any) -> list[tuple[str, str]]:
    """What is wrong with a value, as (JSON path, message), in the order of the paths.

    A message names keys and rules but never quotes the value, which may be private. Raises as ``text``.
    """
    kind = value.get("type") if name == _RECORD_SCHEMA and isinstance(value, dict) else None
    chosen = record_validator(kind) if isinstance(kind, str) else None
    found = (chosen or validator(name)).iter_errors(value)
    return sorted({(leaf.json_path, _message(leaf)) for leaf in _telling(found)})


def _root() -> Path:
    packaged = _PACKAGE / "_schemas"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "schemas"


@cache
def _record_validators() -> dict[str, Validator]:
    schema = load(_RECORD_SCHEMA)
    found: dict[str, Validator] = {}
    for form in schema["oneOf"]:
        compiled = _compile({"$schema": schema["$schema"], **form, "$defs": schema["$defs"]})
        definition = schema["$defs"][form["$ref"].removeprefix("#/$defs/")]
        found |= dict.fromkeys(definition["properties"]["type"]["enum"], compiled)
    return found


def _compile(schema: dict[str, Any]) -> Validator:
    compiled: Validator = _dialect()(schema)
    return compiled


@cache
def _dialect() -> Any:
    from jsonschema import Draft202012Validator, validators

    # JSON Schema counts 1.0 among the integers; the agent's reader does not.
    integers_only = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    extend: Any = validators.extend
    return extend(Draft202012Validator, type_checker=integers_only)


def _telling(found: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """The faults, without a "fits none of the forms" that another at or below its place explains."""
    leaves = [leaf for error in found for leaf in _leaves(error)]
    explained = {
        tuple(leaf.absolute_path)[:depth]
        for leaf in leaves
        if leaf.validator not in _BRANCHING
        for depth in range(len(leaf.absolute_path) + 1)
    }
    for leaf in leaves:
        if leaf.validator not in _BRANCHING or tuple(leaf.absolute_path) not in explained:
            yield leaf


def _leaves(error: ValidationError) -> Iterator[ValidationError]:
    """The faults behind a failed ``oneOf`` or ``anyOf``: those of the one branch that was meant."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context or ():
        branches.setdefault(inner.relative_schema_path[0], []).append(inner)
    depth = len(error.absolute_path)
    meant = [branch for branch in branches.values() if not any(_is_foreign(inner, depth) for inner in branch)]
    if len(meant) != 1:
        yield error
        return
    for inner in meant[0]:
        yield from _leaves(inner)


def _is_foreign(error: ValidationError, depth: int) -> bool:
    """Whether a fault in a branch says that the value is of another kind, not that it is wrong."""
    path = list(error.absolute_path)[depth:]
    if error.validator == "type":
        return not path
    return error.validator in ("const", "enum") and path in ([], ["type"], ["record_type"])


def _message(error: ValidationError) -> str:
    rule: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "type":
            allowed = [rule] if isinstance(rule, str) else rule
            return f"is {_kind(error.instance)}, not {' or '.join(_ARTICLES[kind] for kind in allowed)}"
        case "required":
            missing = next(key for key in rule if error.message.startswith(repr(key)))
            return f"the field {missing!r} is missing"
        case "additionalProperties":
            instance: Any = error.instance
            unknown = sorted(key for key in instance if key not in schema.get("properties", {}))
            return f"has unknown fields: {', '.join(map(repr, unknown))}"
        case "const" | "enum":
            allowed = [rule] if error.validator == "const" else rule
            return f"is not {' or '.join(json.dumps(item) for item in allowed)}"
        case "minimum" | "minItems" | "minLength":
            return f"is below the least allowed, {rule}"
        case "maximum" | "maxItems" | "maxLength":
            return f"is above the most allowed, {rule}"
        case "pattern":
            return f"does not have the form: {schema.get('description', rule).rstrip('.')}"
        case _:
            return "fits none of the allowed forms"


_ARTICLES = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "an integer"
        case float():
            return "a number with a fraction or an exponent"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"
