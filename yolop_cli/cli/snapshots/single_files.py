"""``yolop-cli snapshot cat|extract``: take single files out of a snapshot, without a restore."""

from __future__ import annotations

import click

from yolop_cli.cli import candidates, taking_out
from yolop_cli.cli.command import Invocation, command
from yolop_cli.cli.snapshots.common import root_option, snapshot, store_of
from yolop_cli.operations import snapshot as snapshots
from yolop_cli.operations import take_out
from yolop_cli.operations.snapshot import Manifest


@command(
    snapshot,
    "cat",
    session=True,
    examples=["yolop-cli snapshot cat latest hello.sh"],
)
@click.argument("snapshot_id", metavar="ID", shell_complete=candidates.snapshots)
@click.argument("path", shell_complete=candidates.snapshot_paths)
@root_option
def cat(invocation: Invocation, snapshot_id: str, path: str, root: str | None) -> None:
    """Print one file of a snapshot, byte for byte, or the target of a link.

    On a terminal, control characters are escaped.
    """
    with store_of(invocation, root) as store:
        manifest = snapshots.find(store, snapshot_id)
        found, source = take_out.of_snapshot(store, manifest, [path])
        wanted = take_out.relative(path, lambda: store.root)
        taking_out.print_file(invocation.screen, _of(manifest), found, wanted, source)


@command(
    snapshot,
    "extract",
    session=True,
    examples=[
        "yolop-cli snapshot extract latest ../old",
        "yolop-cli snapshot extract latest ../scripts hello.sh",
    ],
)
@click.argument("snapshot_id", metavar="ID", shell_complete=candidates.snapshots)
@click.argument("destination", metavar="DEST", shell_complete=candidates.directories)
@click.argument("wanted", metavar="[PATH]...", nargs=-1, shell_complete=candidates.snapshot_paths)
@root_option
def extract(
    invocation: Invocation, snapshot_id: str, destination: str, wanted: tuple[str, ...], root: str | None
) -> None:
    """Write the files of a snapshot below DEST: all, or those at and below each PATH.

    Existing files are never overwritten. Only the executable bit of modes is kept, and only directories
    that hold a file are created.
    """
    with store_of(invocation, root) as store:
        manifest = snapshots.find(store, snapshot_id)
        found, source = take_out.of_snapshot(store, manifest, wanted)
        target = invocation.places.here / destination
        taking_out.write_files(invocation.screen, _of(manifest), found, target, source)


def _of(manifest: Manifest) -> dict[str, str]:
    return {"snapshot_id": manifest.id}
