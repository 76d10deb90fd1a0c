"""The worked example of the README: run again, and compared with what stands there word for word."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.sandbox import Sandbox

README = Path(__file__).resolve().parents[2] / "README.md"
SHOWN = "~/.local/share/yolop/sessions"


def transcript(box: Sandbox) -> str:
    """A session from damage to done: a crash left half a record, and the agent wrote on behind it."""
    box.make_timeline(4)
    lines = box.timeline.read_bytes().split(b"\n")
    lines[4:6] = [lines[4][:70] + lines[5]]
    lines.insert(2, b"\0" * 512)
    box.timeline.write_bytes(b"\n".join(lines))
    parts = []
    for words, code in (
        ("checkpoint create --prompt next", 5),
        ("timeline validate", 1),
        ("timeline repair", 1),
        ("timeline repair --apply", 0),
        ("timeline repair --apply", 0),
    ):
        ran = box.cli(*words.split(), code=code, env={"YOLOP_SESSION": box.sid}, session=False)
        parts.append(f"$ yolop-cli {words}\n{ran.said.strip()}\n")
    text = "\n".join(parts).replace(str(box.sessions), SHOWN)
    return re.sub(r"bak-\d{8}T\d{6}Z", "bak-20261130T120000Z", text)


def test_the_example_in_the_readme_is_what_the_program_says(box: Sandbox) -> None:
    text = transcript(box)
    assert f"```console\n{text}```" in README.read_text(encoding="utf-8"), text
