"""The way back from a restore: what undoing it needs is read once before anything changes.

The files that a restore replaces may be the last good copy of what the store has lost unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass

from yolop_cli.ground.errors import DeniedError, StaleError
from yolop_cli.ground.paths import ancestors, show, to_json
from yolop_cli.store import disk
from yolop_cli.store.file_reader import ContentReader
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import FILE, encode
from yolop_cli.store.packs import Packs, PackWriter
from yolop_cli.store.snapshot_plan import MODE, RestorePlan
from yolop_cli.store.walk import Directory, Scan


@dataclass(frozen=True)
class Lost:
    """What the store does not have whole though the files do: paths by content, and directories."""

    contents: dict[str, bytes]
    listings: tuple[Directory, ...]


NOTHING = Lost({}, ())


def lost(packs: Packs, scan: Scan, plan: RestorePlan, writer: PackWriter | None = None) -> Lost:
    """What undoing the plan needs and the store has lost. What the writer has just stored is believed."""

    def is_whole(digest: str) -> bool:
        return (writer is not None and writer.wrote(digest)) or packs.is_whole(digest)

    replaced = {
        change.before.hash: change.path
        for change in plan.changes
        if change.before is not None and change.before.type == FILE and change.change != MODE
    }
    touched = {above for change in plan.changes for above in (b"", change.path, *ancestors(change.path))}
    return Lost(
        {digest: path for digest, path in replaced.items() if not is_whole(digest)},
        tuple(at for at in scan.directories if at.path in touched and not is_whole(at.tree)),
    )


def keep(store: Store, packs: Packs, scan: Scan, plan: RestorePlan, writer: PackWriter) -> None:
    """Store anew from the files what is lost, so that the safety snapshot can undo the plan.

    Raises ``DeniedError`` for a file that cannot be read, ``StaleError`` for one that has changed meanwhile.
    """
    gone = lost(packs, scan, plan, writer)
    reader = ContentReader(writer)
    for digest, path in gone.contents.items():
        packs.forget(digest)
        parent, _, name = path.rpartition(b"/")
        with disk.directory(parent, store.root_fd) as at:
            row = reader.read(name, at, None)
        if isinstance(row, str):
            raise DeniedError(
                f"the store has lost the content of {show(path)}, and it cannot be read: {row}",
                hint="see `yolop-cli snapshot verify`",
                details={"paths": [to_json(path)]},
            )
        if row is None or row[5] != digest:
            raise StaleError(f"{show(path)} changed meanwhile", hint="try again")
    for directory in gone.listings:
        packs.forget(directory.tree)
        writer.add(directory.tree, encode(directory.listing()))
