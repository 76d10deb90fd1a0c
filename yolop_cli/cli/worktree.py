"""``worktree``: the worktrees below the agent's storage roots, and pruning those that nothing needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from yolop_cli.cli import candidates, text
from yolop_cli.cli.command import Invocation, command, group
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError, UsageError
from yolop_cli.operations import prune as pruning
from yolop_cli.operations.prune import Report
from yolop_cli.worktrees.prune_plan import Facts, Kept, Removal, barriers, unsaved
from yolop_cli.worktrees.storage import Trouble
from yolop_cli.worktrees.survey import Survey

_repositories = click.option(
    "--repo",
    "repositories",
    metavar="DIR",
    shell_complete=candidates.directories,
    multiple=True,
    type=click.Path(path_type=Path),
    help="Include this repository. The one of the current directory, and those that a session or a worktree"
    " names, are always included.",
)

_DECLINED = 130


@group(
    "worktree",
    "List and prune the agent's worktrees.",
    examples=["yolop-cli worktree list", "yolop-cli worktree prune --dry-run"],
)
def worktree() -> None:
    """List the worktrees that the agent made for its sessions, and prune those that nothing needs."""


@command(
    worktree, "list", sessions=True, examples=["yolop-cli worktree list", "yolop-cli worktree list --json"]
)
@_repositories
def list_(invocation: Invocation, repositories: tuple[Path, ...]) -> int:
    """List every worktree below the storage roots, and those that only a repository still knows.

    Exit 9 if something could not be read.
    """
    seen = pruning.everything(
        invocation.git, invocation.places, named=repositories, progress=invocation.screen.progress
    )
    value = {
        "worktrees": [_facts(one, seen) for one in seen.facts],
        "errors": [_trouble(trouble) for trouble in seen.troubles],
    }
    invocation.screen.result(value, lambda: _show_list(invocation.screen, seen))
    return _end(invocation.screen, seen.troubles, "could not be read")


@command(
    worktree,
    "prune",
    sessions=True,
    examples=[
        "yolop-cli worktree prune --dry-run",
        "yolop-cli worktree prune --yes --json",
    ],
)
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Also remove worktrees with uncommitted or untracked changes, with commits that are nowhere else,"
    " with a merge or rebase under way, a stash made on their branch, or a repository inside. Nothing else is"
    " overridden.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@_repositories
def prune(
    invocation: Invocation, dry_run: bool, force: bool, yes: bool, repositories: tuple[Path, ...]
) -> int:
    """Remove worktrees that no saved session needs: first their private refs, then the worktree.

    Branches stay. So does every worktree whose removal could lose something, with the reason shown.
    Ignored files are removed with their worktree. Private refs of sessions that no longer exist are
    deleted too; those of a session that exists stay, even if its worktree is gone.

    Exit 9 if something could not be removed.
    """
    screen = invocation.screen
    asks = screen.terminal and sys.stdin.isatty() and not screen.as_json
    if not (dry_run or yes or asks):
        raise UsageError(
            "nothing is removed without a terminal to confirm on",
            hint="check with --dry-run what would be removed, then use --yes",
        )
    plan = pruning.plan(
        invocation.git, invocation.places, named=repositories, force=force, progress=screen.progress
    )
    report = pruning.expected(plan)
    if not dry_run and not yes:
        _show_report(screen, report)
        if not (report.removed or report.refs):
            return _end(screen, report.errors, "could not be removed")
        if not click.confirm("Remove these?", default=False):
            screen.note("nothing was removed")
            return _DECLINED
    if not dry_run:
        report = pruning.carry_out(invocation.git, invocation.places, plan, progress=screen.progress)
    screen.result(_report(report), lambda: _show_report(screen, report))
    return _end(screen, report.errors, "could not be removed")


def _end(screen: Screen, troubles: tuple[Trouble, ...], failing: str) -> int:
    """Say on standard error that the job is not done whole; the exit status."""
    if not troubles:
        return 0
    raise StorageError(
        f"{text.count(len(troubles), 'path')} {failing}",
        hint=None if screen.as_json else "see the lines that begin with `error` above",
        details={"errors": [_trouble(trouble) for trouble in troubles]},
    )


def _report(report: Report) -> dict[str, Any]:
    return {
        "dry_run": report.dry_run,
        "removed": [_removal(removal) for removal in report.removed],
        "refs": list(report.refs),
        "kept": [_kept(kept) for kept in report.kept],
        "errors": [_trouble(trouble) for trouble in report.errors],
    }


def _removal(removal: Removal) -> dict[str, Any]:
    facts = removal.facts
    return {
        "path": paths.to_json(facts.path),
        "session_id": facts.session_id,
        "repo": paths.to_json(removal.main),
        "branch": _short(facts.branch),
        "missing": facts.missing,
        "overrode": [reason.code for reason in unsaved(facts)],
        "refs": sorted(removal.refs),
        "kept_refs": list(removal.staying),
    }


def _kept(kept: Kept) -> dict[str, Any]:
    return {
        "path": paths.to_json(kept.path),
        "why": kept.why,
        "codes": [reason.code for reason in kept.reasons],
    }


def _trouble(trouble: Trouble) -> dict[str, Any]:
    return {"path": paths.to_json(trouble.path), "message": trouble.message}


def _facts(facts: Facts, seen: Survey) -> dict[str, Any]:
    known = seen.known.get(facts.common) if facts.common is not None else None
    refs = known.repo.private.get(facts.session_id or "", {}) if known else {}
    return {
        "path": paths.to_json(facts.path),
        "session_id": facts.session_id,
        "repo": paths.to_json(known.repo.main) if known else None,
        "branch": _short(facts.branch),
        "head": facts.head,
        "state": _state(facts),
        "referenced_by": list(facts.named_by),
        "missing": facts.missing,
        "dirty": None if facts.contents is None else not facts.contents.is_clean,
        "locked": facts.locked is not None,
        "lock_reason": facts.locked or None,
        "in_use": list(facts.in_use),
        "refs": sorted(refs),
        "size": None if facts.tree is None else facts.tree.size,
        "kept": [
            {"code": reason.code, "why": reason.words} for reason in (*barriers(facts), *unsaved(facts))
        ],
    }


def _state(facts: Facts) -> str:
    return "referenced" if facts.named_by or facts.owner_unreadable else "orphan"


def _short(branch: str | None) -> str | None:
    return None if branch is None else branch.removeprefix("refs/heads/")


def _show_list(screen: Screen, seen: Survey) -> None:
    rows = []
    for one in (_facts(facts, seen) | {"facts": facts} for facts in seen.facts):
        facts = one["facts"]
        marks = [name for name in ("missing", "dirty", "locked") if one[name]]
        rows.append(
            (
                text.path(facts.path),
                one["state"],
                text.clean(one["branch"] or "-"),
                ",".join(marks) or "-",
                str(len(one["refs"])),
                "-" if one["size"] is None else text.size(one["size"]),
            )
        )
    if not rows:
        screen.note("no worktrees below the storage roots")
        return _show_errors(screen, seen.troubles)
    screen.table(("WORKTREE", "STATE", "BRANCH", "MARKS", "REFS", "SIZE"), rows, flexible="WORKTREE")
    return _show_errors(screen, seen.troubles)


def _show_report(screen: Screen, report: Report) -> None:
    for removal in report.removed:
        refs = f" and {text.count(len(removal.refs), 'ref')}" if removal.refs else ""
        gone = " (already gone, only registered)" if removal.facts.missing else ""
        screen.record(
            f"{'would remove' if report.dry_run else 'removed'} {text.path(removal.facts.path)}{refs}{gone}",
            2,
        )
        for reason in unsaved(removal.facts):
            screen.record(f"  although {text.clean(reason.words)}", 4)
        if removal.staying:
            count = len(removal.staying)
            stay = f"{text.count(count, 'ref')} with its files {'stays' if count == 1 else 'stay'}"
            screen.line(f"  its session exists, so {stay} in the repository")
    if report.dry_run and any(not removal.facts.missing for removal in report.removed):
        screen.line("ignored files in a worktree are removed with it")
    for ref in report.refs:
        screen.record(f"{'would detach' if report.dry_run else 'detached'} {text.clean(ref)}", 2)
    for kept in report.kept:
        screen.record(f"kept {text.path(kept.path)}: {text.clean(kept.why)}", 2)
    _show_errors(screen, report.errors)
    if not (report.removed or report.refs):
        screen.line("nothing to remove" if report.dry_run else "nothing removed")


def _show_errors(screen: Screen, troubles: tuple[Trouble, ...]) -> None:
    for trouble in troubles:
        screen.record(f"error {text.path(trouble.path)}: {text.clean(trouble.message)}", 2, fg="red")
