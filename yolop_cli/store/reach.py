"""What a snapshot reaches: the trees below its root tree and the blobs they name, each looked at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from yolop_cli.ground.errors import StorageError
from yolop_cli.store.listing import DIRECTORY, FILE, SYMLINK, Entry, decode
from yolop_cli.store.manifest import Manifest
from yolop_cli.store.packs import Packs


@dataclass
class Reach:
    """The trees and blobs that were reached, and the trees that could not be read, with the reason.

    ``instead`` are listings to go on with where the store's own cannot be read.
    """

    packs: Packs
    instead: Mapping[str, bytes] = field(default_factory=dict)
    listings: dict[str, dict[bytes, Entry]] = field(default_factory=dict)
    blobs: dict[str, int] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def add(self, tree: str) -> None:
        """Follow a tree down to its blobs."""
        waiting = [tree]
        while waiting:
            digest = waiting.pop()
            if digest in self.listings or digest in self.broken:
                continue
            try:
                listing = self.packs.listing(digest)
            except StorageError as error:
                self.broken[digest] = error.message
                if digest not in self.instead:
                    continue
                listing = decode(self.instead[digest])
            self.listings[digest] = listing
            for entry in listing.values():
                if entry.type == DIRECTORY:
                    waiting.append(entry.hash)
                elif entry.type == FILE:
                    self.blobs[entry.hash] = entry.size

    @property
    def objects(self) -> set[str]:
        """Everything reached, trees that could not be read included."""
        return self.listings.keys() | self.blobs.keys() | self.broken.keys()

    def unreadable(self, manifests: Iterable[Manifest]) -> tuple[str, ...]:
        """The snapshots that reach a tree which cannot be read."""
        if not self.broken:
            return ()
        bad = self.bad(self.broken.keys())
        return tuple(manifest.id for manifest in manifests if bad.get(manifest.tree))

    def bad(self, objects: Iterable[str]) -> dict[str, tuple[bytes, str]]:
        """For every tree at or above one of ``objects``: the path of one of them below it, and which it is.

        A tree that is one of them itself has the empty path.
        """
        found: dict[str, tuple[bytes, str]] = {digest: (b"", digest) for digest in objects}
        waiting = list(found)
        while waiting:
            digest = waiting.pop()
            path, which = found[digest]
            for tree, name in self._parents.get(digest, ()):
                if tree not in found:
                    found[tree] = (name + b"/" + path if path else name, which)
                    waiting.append(tree)
        return found

    @cached_property
    def _parents(self) -> dict[str, list[tuple[str, bytes]]]:
        """The trees that name each object, once everything was added."""
        parents: dict[str, list[tuple[str, bytes]]] = {}
        for tree, listing in self.listings.items():
            for name, entry in listing.items():
                if entry.type != SYMLINK:
                    parents.setdefault(entry.hash, []).append((tree, name))
        return parents
