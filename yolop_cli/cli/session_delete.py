"""``session delete``: preview with a token, then the deletion."""

from __future__ import annotations

from typing import Any

import click

from yolop_cli.cli import text
from yolop_cli.cli.command import Invocation, command
from yolop_cli.cli.screen import Screen
from yolop_cli.ground import paths
from yolop_cli.ground.errors import RefusedError, UsageError
from yolop_cli.operations import delete as deletion
from yolop_cli.operations.delete import Deletion
from yolop_cli.operations.interruption import is_half_done


@command(
    None,
    "delete",
    session=True,
    examples=[
        "yolop-cli session delete -s 01a2",
        'yolop-cli session delete -s 01a2 --token "$token"',
    ],
)
@click.option("--token", metavar="TOKEN", help="Delete what the preview with this token showed.")
@click.option("--yes", is_flag=True, help="Delete without a token.")
def delete(invocation: Invocation, token: str | None, yes: bool) -> None:
    """Delete a session: its directory, its private refs and the snapshots of directories taken for it.

    Without --token or --yes, show what would be deleted. Branches, tags and the session's worktree stay, and
    so do snapshots that another session refers to or that you made yourself. Private refs and
    snapshots stay too while another sessions directory has a session of the same id. `yolop-cli worktree
    prune` removes a worktree that no session needs any more.
    """
    if token is not None and yes:
        raise UsageError("--token and --yes cannot be used together", hint="give one of them")
    session = invocation.session()
    if yes and is_half_done(session):
        raise RefusedError(
            f"a restore of {session.id} was interrupted, and this would delete what can put the files back",
            hint=f"`yolop-cli rewind cancel -s {session.id}` puts them back; to delete the session anyway, "
            "run this without --yes and use the token it prints",
        )
    if token is None and not yes:
        found = deletion.plan(invocation.git, invocation.places, session)
    else:
        found = deletion.carry_out(invocation.git, invocation.places, session, token)
    deleted = token is not None or yes
    invocation.screen.result(_value(found, deleted), lambda: _show(invocation.screen, found, deleted))


def _value(found: Deletion, deleted: bool) -> dict[str, Any]:
    return {
        "session_id": found.session.id,
        "path": paths.to_json(found.session.path),
        "deleted": deleted,
        "token": None if deleted else found.token,
        "files": found.files,
        "bytes": found.size,
        "refs": [
            {"repo": paths.to_json(repo.main), "name": name}
            for repo, refs in found.refs
            for name in sorted(refs)
        ],
        "snapshots": [
            {"root": paths.to_json(share.root), "snapshot_id": each}
            for share in found.shares
            for each in share.own
        ],
        "kept_snapshots": [
            {"root": paths.to_json(share.root), "snapshot_id": each, "why": why}
            for share in found.shares
            for each, why in share.kept
        ],
        "worktree": paths.to_json(found.worktree) if found.worktree else None,
        "missing": [paths.to_json(path) for path in found.missing],
        "also_in": [paths.to_json(path) for path in found.also_in],
    }


def _show(screen: Screen, found: Deletion, deleted: bool) -> None:
    verb = "deleted" if deleted else "would delete"
    what = f"{text.count(found.files, 'file')}, {text.size(found.size)}"
    screen.record(f"{verb} {text.path(found.session.path)} ({what})", 2)
    for _, refs in found.refs:
        for name in sorted(refs):
            screen.record(f"{verb} {text.clean(name)}", 2)
    for share in found.shares:
        for each in share.own:
            screen.record(f"{verb} {text.clean(each)} in {text.path(share.root)}", 2)
        for each, why in share.kept:
            screen.record(f"left alone: {text.clean(each)} in {text.path(share.root)}: {text.clean(why)}", 2)
    for path in found.also_in:
        screen.record(
            f"left alone: its refs and snapshots, since {found.session.id} is also in {text.path(path)}", 2
        )
    for path in found.missing:
        screen.record(f"left alone: refs in {text.path(path)}, which is missing", 2)
    if found.worktree:
        screen.record(f"left alone: the worktree {text.path(found.worktree)}", 2)
    if not deleted:
        screen.line(f"token {found.token}")
        screen.command(
            "to delete it:", f"yolop-cli session delete -s {found.session.id} --token {found.token}"
        )
