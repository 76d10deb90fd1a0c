"""``yolop-cli doctor``: everything at once, over one session or all of them."""

from __future__ import annotations

from typing import Any

import click

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation, command, sessions_argument
from yolop_cli.cli.findings import headline, show_finding
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.ground.errors import NotFoundError, YolopError
from yolop_cli.operations import doctor as doctors
from yolop_cli.operations import installation
from yolop_cli.operations.doctor import Cure, Examination, Treated
from yolop_cli.operations.installation import Part
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.session.places import SESSION_VARIABLE
from yolop_cli.timeline.findings import to_json

_PART_COLORS = {"ok": "green", "warning": "yellow", "error": "red"}


@command(
    None,
    "doctor",
    session=True,
    examples=["yolop-cli doctor", "yolop-cli doctor --all", "yolop-cli doctor --all --fix"],
)
@sessions_argument
@click.option("--fix", is_flag=True, help="Fix what needs no decision, and report what is left.")
def doctor(invocation: Invocation, sessions: tuple[str, ...], every: bool, fix: bool) -> int:
    """Check everything: modes, journals, refs, objects, the worktree, and what a crash left behind.

    --fix sets file modes, completes the last line of a journal, removes what killed commands left behind,
    and deletes prepared restores that can no longer be applied, and recovery refs and snapshots that
    nothing names and that hold nothing of their own. It never deletes the ref of a checkpoint: that may be
    all that is left of a turn. What needs a decision is only reported.

    Where there is no session, check the installation instead.

    Exit 1 while there is an error or something to fix.
    """
    chosen = _chosen(invocation, sessions, every=every)
    parts = None if chosen else installation.examine(invocation.git, invocation.places)
    rows: list[tuple[Examination, Treated | None, str | None]] = []
    with invocation.screen.progress("examining", len(chosen)) as step:
        for session in chosen:
            treated, refused = None, None
            if fix:
                try:
                    treated = doctors.treat(invocation.git, session)
                except YolopError as error:
                    refused = error.message
            rows.append((doctors.examine(invocation.git, session), treated, refused))
            step()
    ok = all(examined.is_sound and refused is None for examined, _, refused in rows)
    ok = ok and not any(part.status == "error" for part in parts or ())
    value = {
        "sessions": [_json(*row) for row in rows],
        "installation": None if parts is None else [_part_json(part) for part in parts],
        "ok": ok,
    }

    def render() -> None:
        for part in parts or ():
            _show_part(invocation.screen, part)
        shown = invocation.shown_ids([examined.session.id for examined, _, _ in rows])
        for row in rows:
            _show(invocation.screen, shown[row[0].session.id], *row)

    invocation.screen.result(value, render)
    return 0 if ok else 1


def _chosen(invocation: Invocation, named: tuple[str, ...], *, every: bool) -> list[SessionDirectory]:
    """The sessions to check; none where nobody named one and the current directory has none."""
    meant = named or invocation.named or invocation.places.environ.get(SESSION_VARIABLE)
    try:
        return invocation.chosen(named, every=every)
    except NotFoundError as error:
        if every or meant:
            raise
        invocation.screen.remark(f"{error.message}; checking the installation")
        return []


def _part_json(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "status": part.status,
        "found": part.found,
        "path": None if part.path is None else paths.to_json(part.path),
        "fix": part.fix,
    }


def _show_part(screen: Screen, part: Part) -> None:
    status = screen.styled(part.status, fg=_PART_COLORS[part.status], bold=part.status == "error")
    where = "" if part.path is None else f" ({text.path(part.path)})"
    screen.folded(f"{text.clean(part.name):<14}{status}: {text.clean(part.found)}{where}", 14)
    if part.fix is not None:
        screen.folded(f"{'':<14}fix: {text.clean(part.fix)}", 19)


def _json(examined: Examination, treated: Treated | None, refused: str | None) -> dict[str, Any]:
    return {
        "id": examined.session.id,
        "path": paths.to_json(examined.session.path),
        "busy": examined.busy,
        "findings": [{"file": one.file, **to_json(one.finding)} for one in examined.ailments],
        "fixed": [_cure_json(cure) for cure in treated.cured] if treated is not None else [],
        "failed": [{**_cure_json(cure), "reason": reason} for cure, reason in treated.failed]
        if treated is not None
        else [],
        "fixable": [_cure_json(cure) for cure in examined.cures],
        "refused": refused,
    }


def _cure_json(cure: Cure) -> dict[str, Any]:
    return {
        "kind": cure.kind,
        "what": cure.what,
        "path": None if cure.path is None else paths.to_json(cure.path),
        "reference": cure.reference,
    }


def _show(
    screen: Screen, name: str, examined: Examination, treated: Treated | None, refused: str | None
) -> None:
    state = "no problems" if examined.is_sound else "problems found"
    busy = ", in use by another process" if examined.busy else ""
    screen.folded(f"{name} {state}{busy}", 2, bold=True)
    for one in examined.ailments:
        show_finding(screen, f"{text.clean(one.file)}: {headline(screen, one.finding)}", one.finding)
    if treated is not None:
        for cure in treated.cured:
            screen.folded(f"  fixed {_cured(examined, cure)}", 6)
        for cure, reason in treated.failed:
            screen.folded(f"  could not fix {_cured(examined, cure)}: {text.clean(reason)}", 6)
    if refused is not None:
        screen.folded(f"  nothing was fixed: {text.clean(refused)}", 6)
    if examined.cures and treated is None and refused is None:
        count = text.count(len(examined.cures), "problem")
        screen.line(f"  `yolop-cli doctor --fix` can fix {count}")


def _cured(examined: Examination, cure: Cure) -> str:
    home = examined.session.path
    if cure.path is None:
        where = text.clean(cure.reference or "")
    elif cure.path == home:
        where = "the session's directory"
    else:
        where = text.path(cure.path.relative_to(home) if paths.is_below(cure.path, home) else cure.path)
    return f"{where}: {cure.what}"
