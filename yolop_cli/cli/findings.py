"""What a check found, for people, for scripts, for code scanning, and as workflow annotations."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from yolop_cli import __version__
from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation
from yolop_cli.cli.screen import Screen, write, write_json
from yolop_cli.ground import paths
from yolop_cli.ground.errors import UsageError
from yolop_cli.timeline.findings import RULES, Finding, Report, passed, to_json

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_STATUS = {
    "ok": ("no problems", "green"),
    "tail": ("the last line is damaged and ignored", "yellow"),
    "corrupt": ("damaged before its last line; read-only until repaired", "red"),
    "semantic": ("every line can be read, but the records contradict each other", "red"),
}


def show(invocation: Invocation, reports: Sequence[Report], *, strict: bool, form: str | None) -> int:
    """Print the reports in the form asked for; 1 when they hold what counts. Raises ``UsageError``."""
    screen = invocation.screen
    if screen.as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} cannot be used together")
    ok = passed(reports, strict=strict)
    if screen.as_json or form == "json":
        write_json({"sessions": [report_json(report) for report in reports], "ok": ok})
    elif form == "sarif":
        write_json(sarif(reports, invocation.places.here))
    elif form == "github":
        for line in workflow_commands(reports, invocation.places.here):
            write(line + "\n")
    else:
        shown = invocation.shown_ids([report.id for report in reports])
        for report in reports:
            show_report(screen, report, shown[report.id])
    return 0 if ok else 1


def report_json(report: Report) -> dict[str, Any]:
    """A report with the keys of the command line's contract."""
    return {
        "id": report.id,
        "path": paths.to_json(report.path),
        "status": report.status,
        "records": report.records,
        "findings": [to_json(finding) for finding in report.findings],
    }


def show_report(screen: Screen, report: Report, name: str) -> None:
    """A report as text: a line for the session, shown as ``name``, then each finding and its fix."""
    words, color = _STATUS[report.status]
    status = screen.styled(report.status, fg=color, bold=True)
    screen.folded(f"{name} {status}: {words}; {text.count(report.records, 'record')}", 2)
    for finding in report.findings:
        show_finding(screen, headline(screen, finding), finding)


def show_finding(screen: Screen, words: str, finding: Finding) -> None:
    """A finding in its words, and below it its fix."""
    screen.folded(f"  {words}", 6)
    if finding.advice:
        screen.folded(f"      fix: {text.clean(finding.advice)}", 11)


def headline(screen: Screen, finding: Finding) -> str:
    """A finding on one line: where, how bad, its code, what is wrong."""
    byte = "" if finding.offset is None else f", byte {finding.offset}"
    where = "" if finding.line is None else f"line {finding.line}{byte}: "
    severity = screen.styled(finding.severity, fg="red" if finding.severity == "error" else "yellow")
    return f"{where}{severity} {finding.code}: {text.clean(finding.message)}"


def workflow_commands(reports: Sequence[Report], here: Path) -> Iterator[str]:
    """Workflow commands that put each finding on its line."""
    for report in reports:
        file = _relative(report.path, here)
        name = file if file is not None else os.fsdecode(report.path)
        for finding in report.findings:
            properties = {"file": name, "line": finding.line, "title": finding.code}
            given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
            fix = f"\n{finding.advice}" if finding.advice else ""
            yield f"::{finding.severity} {given}::{_data(text.clean(finding.message) + fix)}"


def _data(value: str) -> str:
    return value.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    shown = str(value).encode("utf-8", "replace").decode()
    return _data(shown).replace(":", "%3A").replace(",", "%2C")


def sarif(reports: Sequence[Report], here: Path) -> dict[str, Any]:
    """The reports as one SARIF 2.1.0 log with one run."""
    codes = sorted({finding.code for report in reports for finding in report.findings})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": RULES[code].explanation},
            "defaultConfiguration": {"level": RULES[code].severity},
        }
        for code in codes
    ]
    results = [
        _result(report, finding, codes.index(finding.code), here)
        for report in reports
        for finding in report.findings
    ]
    driver = {"name": "yolop-cli", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "utf16CodeUnits", "results": results}
    return {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(report: Report, finding: Finding, rule: int, here: Path) -> dict[str, Any]:
    words = text.clean(finding.message) + (f". {text.clean(finding.advice)}" if finding.advice else "")
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(report.path, here)}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line}
        if finding.offset is not None:
            place["region"]["byteOffset"] = finding.offset
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": words},
        "locations": [{"physicalLocation": place}],
    }


def _uri(path: bytes, here: Path) -> str:
    """A file below the current directory by its relative path, as code scanning wants it; else in full."""
    relative = _relative(path, here)
    return quote(os.fsencode(relative)) if relative is not None else "file://" + quote(path)


def _relative(path: bytes, here: Path) -> str | None:
    file, base = Path(os.fsdecode(path)), paths.resolved(here)
    return os.fspath(file.relative_to(base)) if paths.is_below(file, base) else None
