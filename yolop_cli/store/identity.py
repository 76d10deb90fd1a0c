"""Which workspace a store belongs to: ``config.json``, and the manifests when that file is gone.

Every session names the workspace of its snapshots, so a store never gets a second id: one whose
``config.json`` was lost has the id that all its manifests agree on, and the next write keeps it again.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from yolop_cli.ground import strict_json
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.paths import for_shell
from yolop_cli.store import disk

FORMAT = 1
CONFIG = b"config.json"
MANIFEST = ".json"
_SNAPSHOT = re.compile(r"snap_[0-9a-f]{24}\Z")
_WORKSPACE = re.compile(r"ws_[0-9a-f]{32}\Z")


def is_snapshot_id(text: str) -> bool:
    """``snap_`` and 24 lowercase hex digits, the first twelve of them the time in milliseconds."""
    return _SNAPSHOT.match(text) is not None


def is_workspace_id(text: str) -> bool:
    """``ws_`` and 32 lowercase hex digits."""
    return _WORKSPACE.match(text) is not None


def new_workspace_id() -> str:
    """An id for a directory that gets its first store."""
    return f"ws_{secrets.token_hex(16)}"


def command(root: Path, verb: str, *words: str) -> str:
    """A ``yolop-cli snapshot`` command that means the directory ``root`` wherever it is typed."""
    return " ".join(("yolop-cli snapshot", verb, *words, "--root", for_shell(root)))


def checksum(document: Any) -> str:
    """What a manifest says of itself: excludes and skipped paths decide what a restore leaves alone."""
    return hashlib.sha256(strict_json.dumps(document)).hexdigest()


def manifest_ids(names: list[str]) -> list[str]:
    """The snapshots that have an entry among the ``names`` in ``manifests/``, oldest first."""
    found = (name.removesuffix(MANIFEST) for name in names if name.endswith(MANIFEST))
    return sorted(name for name in found if is_snapshot_id(name))


def read(base: int, manifests: int | None, root: Path) -> str | None:
    """The workspace id of a store, or None when it has neither ``config.json`` nor a manifest.

    Raises ``StorageError`` when ``config.json`` is damaged or of another format, or gone while the manifests
    do not agree.
    """
    try:
        data = disk.read_file(CONFIG, base)
    except OSError as error:
        kind = disk.foreign(CONFIG, base)
        if kind is None:
            raise
        raise _bad_config(root, f": it is {kind}") from error
    if data is None:
        return None if manifests is None else _agreed(manifests, root)
    try:
        config = strict_json.loads(data)
        version, workspace_id = config["format"], config["workspace_id"]
    except (ValueError, KeyError, TypeError):
        raise _bad_config(root) from None
    if version != FORMAT:
        raise StorageError(f"the store of {root} has format {version!r}, this program knows {FORMAT}")
    if not (isinstance(workspace_id, str) and is_workspace_id(workspace_id)):
        raise _bad_config(root)
    return workspace_id


def is_kept(base: int) -> bool:
    """Whether ``config.json`` is there."""
    try:
        os.stat(CONFIG, dir_fd=base, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def keep(base: int, tmp: int, workspace_id: str) -> None:
    """Write ``config.json`` durably; one that is there stays as it is.

    Linked, not renamed: of two processes that make the store at once, both go on with one workspace id.
    """
    config = {"format": FORMAT, "workspace_id": workspace_id}
    for name, data in ((b".gitignore", b"*\n"), (CONFIG, strict_json.dumps(config) + b"\n")):
        temporary = disk.temporary_name()
        fd = disk.create(temporary, tmp)
        try:
            disk.write(fd, data)
            disk.sync(fd)
            disk.link(temporary, tmp, name, base)
        except FileExistsError:
            pass
        finally:
            os.close(fd)
            disk.remove_quietly(temporary, tmp)
    disk.sync(base)


def _agreed(manifests: int, root: Path) -> str | None:
    """The id that all manifests which can be read name."""
    ids = manifest_ids(os.listdir(manifests))
    if not ids:
        return None
    named = set(_named(manifests, ids))
    if len(named) == 1:
        return named.pop()
    why = "its manifests name several workspaces" if named else "none of its manifests can be read"
    raise StorageError(
        f"the store of {root} has lost its config.json, and {why}",
        hint=f'write {{"format": {FORMAT}, "workspace_id": ID}} to it; sessions and the files in manifests/ '
        "name the ID",
        details={"workspaces": sorted(named)},
    )


def _named(manifests: int, ids: list[str]) -> Iterator[str]:
    for snapshot_id in ids:
        try:
            document = strict_json.loads(
                disk.read_file(f"{snapshot_id}{MANIFEST}".encode(), manifests) or b""
            )
            if document.pop("checksum") == checksum(document) and is_workspace_id(document["workspace_id"]):
                yield document["workspace_id"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # verify speaks of it


def _bad_config(root: Path, why: str = "") -> StorageError:
    return StorageError(
        f"the store of {root} has a damaged config.json{why}",
        hint="move it away: the workspace id is then taken from the files in manifests/",
        details={"path": os.fsdecode(CONFIG)},
    )
