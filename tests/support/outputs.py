"""Every ``--json`` output against its schema, found by the command's own words."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas" / "output"


def schema_name(command: Sequence[str | bytes]) -> str:
    """The schema of a command's output: ``checkpoint-list``; undo and redo share rewind's."""
    words = [os.fsdecode(word) for word in command]
    if words[0] in ("undo", "redo"):
        return "rewind-apply" if "--yes" in words else "rewind-preview"
    return words[0] if words[0] in ("demo", "doctor", "completion") else f"{words[0]}-{words[1]}"


@functools.cache
def _validator(name: str) -> Any:
    import jsonschema

    path = SCHEMAS / f"{name}.schema.json"
    if not path.exists():
        return None
    schema = json.loads(path.read_bytes())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def faults(name: str, value: Any) -> list[str]:
    """What is wrong with an output by its schema; a command without a schema is a fault of its own."""
    validator = _validator(name)
    if validator is None:
        return [f"there is no schema {name}"]
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
