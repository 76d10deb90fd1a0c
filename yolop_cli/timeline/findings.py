"""What a check can find: one value a finding, one table of all codes.

A code never changes its meaning. An error is something the agent cannot read or would read wrongly; a
warning is something it tolerates but that a user should know.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from yolop_cli.ground import paths
from yolop_cli.ground.errors import YolopError, os_reason

Severity = Literal["error", "warning"]
Status = Literal["ok", "tail", "corrupt", "semantic"]


@dataclass(frozen=True)
class Rule:
    """A code of the table: its severity, one line of explanation, and what helps wherever it is met."""

    severity: Severity
    explanation: str
    fix: str | None = None


@dataclass(frozen=True)
class Finding:
    """One finding: where it is in the file (``line`` from 1, ``offset`` in bytes from 0) and what helps.

    ``line`` and ``offset`` are None for a finding about the session as a whole.
    """

    code: str
    message: str
    line: int | None = None
    offset: int | None = None
    record_type: str | None = None
    fix: str | None = None

    @property
    def severity(self) -> Severity:
        """``error`` or ``warning``, as the table says."""
        return RULES[self.code].severity

    @property
    def advice(self) -> str | None:
        """What helps: its own ``fix``, or the one of its code. Every error has one."""
        return self.fix or RULES[self.code].fix


@dataclass(frozen=True)
class Report:
    """What the check of one session found. ``path`` is that of the file that was read."""

    id: str
    path: bytes
    status: Status
    records: int
    findings: tuple[Finding, ...] = ()

    @property
    def errors(self) -> int:
        """How many of the findings are errors."""
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        """How many of the findings are warnings."""
        return len(self.findings) - self.errors


def passed(reports: Iterable[Report], *, strict: bool = False) -> bool:
    """Whether nothing was found: no error, and with ``strict`` no warning either."""
    return not any(report.findings if strict else report.errors for report in reports)


def unreadable(error: YolopError | OSError) -> Finding:
    """The finding for a file that the system does not let us read."""
    fix = "look at the file's type, mode and owner"
    if isinstance(error, YolopError):
        return Finding("unreadable-file", error.message, fix=error.hint or fix)
    return Finding(
        "unreadable-file", f"{paths.show(error.filename or 'a file')}: {os_reason(error)}", fix=fix
    )


def to_json(finding: Finding) -> dict[str, Any]:
    """A finding with the keys of the command line's contract."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "line": finding.line,
        "offset": finding.offset,
        "record_type": finding.record_type,
        "message": finding.message,
        "fix": finding.advice,
    }


_PASSED_OVER = "readers skip the line: leave it, or remove it from the file, keeping a copy"

RULES: dict[str, Rule] = {
    # Pass 1: bytes.
    "unreadable-file": Rule("error", "the file exists but cannot be read"),
    "half-record": Rule("error", "an unfinished record, as after a crash"),
    "glued-record": Rule("error", "a whole record on the same line right after half of another"),
    "several-records": Rule("error", "more than one whole record on one line"),
    "split-record": Rule("error", "one record spread over several lines"),
    "interleaved-record": Rule("error", "another writer's record, or other text, in the middle of this one"),
    "nul-bytes": Rule("error", "a run of NUL bytes, as a file system leaves behind after a crash"),
    "byte-order-mark": Rule("error", "a byte-order mark, which the agent takes for damage"),
    "invalid-utf8": Rule("error", "bytes that are not UTF-8"),
    "lone-surrogate": Rule("error", "a \\u escape that is half of a pair and no character"),
    "foreign-text": Rule("error", "text that is not part of a record, as from another program"),
    "foreign-blank": Rule("error", "a line of blanks that are not ASCII white space"),
    "trailing-garbage": Rule("error", "something follows a whole record on its line"),
    "not-json": Rule("error", "a complete line that is not JSON"),
    "not-a-number": Rule("error", "NaN or Infinity, which JSON does not have"),
    "number-range": Rule("error", "a number that is larger than any the agent can read"),
    "too-deep": Rule("error", "more than 127 containers inside each other"),
    "repeated-key": Rule("error", "a field that occurs more than once in an object"),
    "crlf": Rule(
        "warning", "lines end in carriage return and line feed; readable, but not what the agent writes"
    ),
    "no-final-newline": Rule("warning", "the last record is whole but its line feed is missing"),
    # Pass 2: schema.
    "not-a-record": Rule("error", "JSON, but not an object with a type"),
    "unknown-type": Rule("error", "a type of record that the agent does not know"),
    "missing-field": Rule("error", "a field that the record needs is missing"),
    "wrong-type": Rule("error", "a field with a value of the wrong type"),
    "bad-integer": Rule("error", "a number that is not a 32-bit integer"),
    "bad-timestamp": Rule("error", "a time that is not RFC 3339 with a zone"),
    "damaged-key": Rule("error", "the name of a field with one letter damaged, so that the field is missing"),
    "unknown-field": Rule("warning", "a field that the format does not have; the agent ignores it"),
    "dotted-type": Rule("warning", "the dotted spelling of a type, which the agent cannot read"),
    # Pass 3: meaning.
    "duplicate-id": Rule("error", "a checkpoint that was created before"),
    "bad-id": Rule(
        "error",
        "a checkpoint id that cannot be part of a ref",
        "yolop-cli timeline repair gives it the name that other records or its ref use, or a new one",
    ),
    "bad-tree": Rule(
        "error",
        "a snapshot whose tree is no object id",
        "yolop-cli timeline repair uses the tree of the turn's ref, or leaves the turn without files",
    ),
    "parent-missing": Rule("error", "a checkpoint whose parent was never created"),
    "parent-cycle": Rule("error", "a checkpoint that is its own ancestor"),
    "journal-lost": Rule("error", "no checkpoint in the journal, though refs or the event log tell of turns"),
    "journal-absent": Rule("warning", "no journal, as in a session older than checkpoints"),
    "completed-unknown": Rule("error", "the end of a turn that never began"),
    "head-unknown": Rule("error", "the head moves to a checkpoint that was never created"),
    "redo-unknown": Rule("error", "redo would go to a checkpoint that was never created"),
    "end-before-start": Rule("error", "a turn that ends before it begins"),
    "overlapping-ranges": Rule(
        "error",
        "an event that belongs to two turns",
        "yolop-cli timeline repair ends the earlier one before the next begins",
    ),
    "backward-range": Rule(
        "error",
        "a turn that begins before an earlier one did",
        "yolop-cli timeline repair puts the turns in the order of the log",
    ),
    "foreign-reference": Rule(
        "error",
        "a snapshot whose ref is another session's, or none of this tool's",
        "yolop-cli timeline repair uses the turn's own ref, or leaves the name out when it has none; "
        "it needs the session's worktree for that",
    ),
    "foreign-repository": Rule("error", "the snapshots are not in the repository that the session names"),
    "recovery-missing": Rule(
        "error",
        "the snapshot that redo would bring back is gone",
        "the next turn clears the redo; until then `redo --mode conversation` still moves the conversation",
    ),
    "ref-differs": Rule("error", "a ref that holds another tree than its record says"),
    "tree-missing": Rule("error", "a snapshot whose tree, or a directory in it, is gone"),
    "blob-missing": Rule("error", "a snapshot that lacks the content of a file"),
    "bad-file": Rule(
        "error",
        "another file of the session does not have the form it must have",
        "fix by hand what the message names, keeping a copy of the file",
    ),
    "unknown-capture": Rule("warning", "a way of capturing that this toolkit does not know"),
    "baseline-gap": Rule("warning", "events before the first turn that belong to no branch"),
    "parent-not-head": Rule("warning", "a turn that did not begin at the head"),
    "from-differs": Rule("warning", "a move of the head that did not start from where the head was"),
    "id-differs": Rule("warning", "a checkpoint id that encodes another event than its record"),
    "completed-twice": Rule("warning", "the end of a turn that had ended before"),
    "never-completed": Rule("warning", "a turn that never ended, though another began after it"),
    "range-beyond-log": Rule("warning", "a turn that reaches beyond the event log"),
    "prompt-differs": Rule("warning", "a prompt that is not the one in the event log"),
    "prompt-without-turn": Rule("warning", "prompts in the event log that belong to no turn of the journal"),
    "foreign-events": Rule("warning", "events of another session in the log; readers skip them"),
    "ref-missing": Rule(
        "warning", "a snapshot whose ref is gone, so that its checkpoint is conversation-only"
    ),
    "file-snapshot-refused": Rule(
        "warning",
        "a snapshot in a store that is gone or another's, so that its checkpoint is conversation-only",
    ),
    "ref-without-record": Rule("warning", "a private ref that no record names"),
    "recovery-without-record": Rule(
        "warning",
        "a snapshot from before a restore that no record names: the record of the restore may be lost",
    ),
    "snapshot-without-record": Rule("warning", "a snapshot in a store that no record names"),
    "snapshots-unreachable": Rule(
        "warning", "snapshots that could not be checked because their worktree is missing"
    ),
    "loose-mode": Rule("warning", "a file or directory that others can read, or with an odd mode"),
    # The event log.
    "event-malformed": Rule("error", "a line of the event log that is no event", _PASSED_OVER),
    "event-torn": Rule("warning", "half an event at the end of the log, as after a crash"),
    "event-form": Rule("error", "an event that does not have the form it must have", _PASSED_OVER),
    "event-order": Rule(
        "error",
        "a sequence that is not greater than all before it",
        "find the line whose number is wrong, this one or an earlier one, and remove it, keeping a copy",
    ),
    "event-unnumbered": Rule("warning", "events without a sequence, as old logs have them"),
    # The model-context replacements.
    "compaction-malformed": Rule(
        "error", "a line of compaction-checkpoints.jsonl that is no record", _PASSED_OVER
    ),
    "compaction-foreign": Rule("warning", "a model-context replacement of another session"),
    "compaction-beyond-log": Rule("warning", "a replacement for events that the log does not have"),
    # What doctor finds beside these.
    "leftover": Rule("warning", "something that a killed command left behind"),
    "stale-restore": Rule("warning", "a prepared restore that can no longer be applied"),
    "interrupted-restore": Rule("error", "a restore that was killed while it changed the files"),
    "unreachable-worktree": Rule("warning", "the session's worktree cannot be used"),
}
