"""``yolop-cli session``: list the sessions of this machine, show one in full."""

from __future__ import annotations

from typing import Any

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation, command, group
from yolop_cli.ground import paths
from yolop_cli.operations import overview
from yolop_cli.session import lock, restore_file, workspace
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.timeline import file as timeline_file


@group(
    "session",
    "List, show and delete sessions.",
    examples=["yolop-cli session list", "yolop-cli session show"],
)
def session() -> None:
    """List, show and delete sessions."""


session.table["delete"] = (
    "yolop_cli.cli.session_delete",
    "delete",
    "Delete a session after a preview.",
    "Commands",
)


@command(
    session,
    "list",
    sessions=True,
    examples=["yolop-cli session list", "yolop-cli session list --json | jq -r '.sessions[0].id'"],
)
def list_sessions(invocation: Invocation) -> None:
    """List every session, most recently updated first.

    On a terminal, ids are shortened as far as -s accepts them.

    The state is ok, tail (an unfinished last record, ignored), corrupt (read-only until repaired) or busy
    (another process writes it).
    """
    found = list(overview.summaries(invocation.places))
    screen = invocation.screen

    def render() -> None:
        shown = invocation.shown_ids([one.session.id for one in found])
        screen.table(
            ("ID", "STATE", "UPDATED", "TURNS", "TITLE", "WORKTREE"),
            [
                (
                    shown[one.session.id],
                    one.state,
                    text.day(one.updated_at or "-") if screen.terminal else one.updated_at or "-",
                    "-" if one.turns is None else str(one.turns),
                    text.clip(one.metadata.title or "-", 40),
                    text.path(one.metadata.worktree.path) if one.metadata.worktree else "-",
                )
                for one in found
            ],
            flexible="TITLE",
            optional=("WORKTREE",),
            empty=f"no sessions in {text.path(invocation.places.sessions)}",
        )

    screen.result({"sessions": [_summary(one) for one in found]}, render)


@command(
    session,
    "show",
    session=True,
    examples=["yolop-cli session show", "yolop-cli session show -s 01a2 --json"],
)
def show(invocation: Invocation) -> None:
    """Show one session: files, counts, head, waiting restore, worktree and lock."""
    value = _details(invocation)
    screen = invocation.screen

    def render() -> None:
        room = screen.width - 13 if screen.terminal else None
        for name, shown in _rows(value, room):
            screen.field(name, shown, 12)
        screen.line()
        screen.table(
            ("FILE", "MODE", "SIZE"),
            [(each["name"], each["mode"] or "-", _size(each["size"])) for each in value["files"]],
        )

    screen.result(value, render)


def _summary(one: overview.Summary) -> dict[str, Any]:
    worktree = one.metadata.worktree
    return {
        "id": one.session.id,
        "path": paths.to_json(one.session.path),
        "title": one.metadata.title,
        "created_at": one.created_at,
        "updated_at": one.updated_at,
        "turns": one.turns,
        "head": one.head,
        "worktree": paths.to_json(worktree.path) if worktree else None,
        "state": one.state,
    }


def _details(invocation: Invocation) -> dict[str, Any]:
    chosen = invocation.session()
    timeline = timeline_file.load(chosen)
    summary = overview.summary(chosen)
    counts = overview.count_events(chosen, timeline)
    state = timeline.state
    waiting = _waiting(invocation, chosen)
    damage = timeline.damage
    return {
        "id": chosen.id,
        "path": paths.to_json(chosen.path),
        "title": summary.metadata.title,
        "created_at": summary.created_at,
        "updated_at": summary.updated_at,
        "session_kind": summary.metadata.session_kind,
        "parent_session_id": summary.metadata.parent_session_id,
        "state": summary.state,
        "files": [
            {
                "name": one.name,
                "present": one.mode is not None,
                "mode": None if one.mode is None else f"{one.mode:04o}",
                "size": one.size,
            }
            for one in overview.file_states(chosen)
        ],
        "counts": {
            "events": counts.events,
            "active_events": counts.active,
            "checkpoints": len(state.nodes),
            "turns": sum(node.completion is not None for node in state.nodes.values()),
        },
        "last_sequence": counts.last_sequence,
        "head": state.head,
        "pending": state.pending,
        "redo": {"head": state.redo.head, "snapshot": state.redo.files is not None} if state.redo else None,
        "worktree": _worktree(invocation, summary.metadata, chosen),
        "lock": {"held": lock.is_held(chosen), "pid": lock.holder(chosen)},
        "restore": None
        if waiting is None
        else {
            "token": waiting.token,
            "kind": waiting.kind,
            "phase": waiting.phase,
            "checkpoint_id": waiting.checkpoint_id,
            "mode": waiting.mode,
            "created_at": waiting.created_at,
        },
        "damage": None
        if damage is None
        else {"line": damage.line.number, "offset": damage.line.offset, "message": damage.fault.message},
    }


def _waiting(invocation: Invocation, chosen: SessionDirectory) -> restore_file.WaitingRestore | None:
    try:
        return restore_file.read(chosen)
    except restore_file.UnreadableRestoreError as error:
        invocation.screen.warn(f"{error.message}; {error.hint}")
        return None


def _worktree(invocation: Invocation, metadata: workspace.Workspace, chosen: Any) -> dict[str, Any] | None:
    worktree = metadata.worktree
    if worktree is None:
        return None
    reason = overview.why_not_owned(invocation.git, chosen)
    return {
        "path": paths.to_json(worktree.path),
        "branch": worktree.branch,
        "repo": paths.to_json(metadata.repo_root) if metadata.repo_root else None,
        "owned": reason is None,
        "reason": reason,
    }


def _rows(value: dict[str, Any], room: int | None) -> list[tuple[str, str]]:
    counts, redo, waiting, worktree = value["counts"], value["redo"], value["restore"], value["worktree"]
    rows = [
        ("session", value["id"]),
        ("path", _path(value["path"], room)),
        ("title", text.clean(value["title"] or "-")),
        ("state", value["state"]),
        ("created", value["created_at"] or "-"),
        ("updated", value["updated_at"] or "-"),
        (
            "events",
            f"{counts['events']}, {counts['active_events']} of them active, last {value['last_sequence']}",
        ),
        ("checkpoints", f"{counts['checkpoints']}, {text.count(counts['turns'], 'turn')} ended"),
        ("head", value["head"] or "-"),
        ("pending", value["pending"] or "-"),
        (
            "redo",
            "-"
            if redo is None
            else f"{redo['head'] or 'the start'}{' with files' if redo['snapshot'] else ''}",
        ),
        (
            "lock",
            "free" if not value["lock"]["held"] else f"held by process {value['lock']['pid'] or '(unknown)'}",
        ),
    ]
    if worktree is not None:
        rows.append(("worktree", _path(worktree["path"], room)))
        rows.append(("owned", "yes" if worktree["owned"] else f"no: {text.clean(worktree['reason'])}"))
    if waiting is not None:
        rows.append(
            (
                "restore",
                f"{waiting['kind']} to {waiting['checkpoint_id']}, {waiting['phase']}, "
                f"token {waiting['token']}",
            )
        )
    if value["damage"] is not None:
        damage = value["damage"]
        rows.append(
            ("damage", f"line {damage['line']}, byte {damage['offset']}: {text.clean(damage['message'])}")
        )
    return [(name, text.clean(shown)) for name, shown in rows]


def _path(value: Any, room: int | None) -> str:
    raw = paths.from_json(value)
    shown = text.path(raw) if raw is not None else "-"
    return shown if room is None else text.shortened(shown, room)


def _size(size: int | None) -> str:
    return "-" if size is None else str(size)
