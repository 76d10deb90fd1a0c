"""The files of snapshots kept in a store, in the forms that those kept in git have.

So that one set of functions looks at both. Links and files have git's modes here; directories appear only
in comparisons.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from yolop_cli import store as snapshots
from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git, Where, repository
from yolop_cli.homes import session_store
from yolop_cli.session.directory import SessionDirectory
from yolop_cli.store import Store, streams
from yolop_cli.timeline.records import CheckpointCreated, FileSnapshot
from yolop_cli.trees import tree
from yolop_cli.trees.check_tree import Problem
from yolop_cli.trees.comparison import Comparison
from yolop_cli.trees.tree import Content, Entry, TreeChange

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DIRECTORY = "040000"
Use = Callable[[Entry, Content], None]


@dataclass(frozen=True)
class StoredEntry(Entry):
    """An entry as the store has it; ``oid`` is the hash of a file's content or of a directory's listing."""

    stored: snapshots.Entry


@dataclass(frozen=True)
class SnapshotFiles:
    """The files of one snapshot in a store that is open."""

    store: Store
    manifest: snapshots.Manifest

    def entries(self) -> list[Entry]:
        """The files and links, in the order of paths."""
        return [
            _entry(path, entry)
            for path, entry in snapshots.entries(self.store, self.manifest)
            if entry.type != streams.DIRECTORY
        ]

    def with_content(self, wanted: list[Entry], use: Use) -> None:
        """Call ``use`` with each entry's content, streamed. Raises ``StorageError``."""
        with streams.contents(self.store) as stream:
            for entry in wanted:
                _give(stream, entry, use)


@dataclass(frozen=True)
class StoredFiles:
    """The files of one checkpoint. Every method raises ``RefusedError`` when its snapshot is not its own."""

    session: SessionDirectory
    checkpoint: CheckpointCreated

    def entries(self) -> list[Entry]:
        """See ``SnapshotFiles``."""
        with self._opened() as files:
            return files.entries()

    def with_content(self, wanted: list[Entry], use: Use) -> None:
        """See ``SnapshotFiles``."""
        with self._opened() as files:
            files.with_content(wanted, use)

    def check(self) -> tuple[int, list[Problem]]:
        """How many files and links there are, and what is wrong with them."""
        try:
            held = self.entries()
        except StorageError as error:
            return 0, [Problem("tree-damaged", error.message)]
        problems: list[Problem] = []
        with self._opened() as files, streams.contents(files.store) as stream:
            for entry in held:
                try:
                    _give(stream, entry, lambda _, content: content.skip())
                except StorageError as error:
                    problems.append(Problem("blob-damaged", error.message, entry.oid, entry.path))
        return len(held), problems

    @contextmanager
    def _opened(self) -> Iterator[SnapshotFiles]:
        with session_store.opened(self.session) as store:
            yield SnapshotFiles(store, self._manifest(store))

    def _manifest(self, store: Store) -> snapshots.Manifest:
        recorded = self.checkpoint.file_snapshot
        assert isinstance(recorded, FileSnapshot)
        return session_store.of_checkpoint(store, self.session, self.checkpoint.id, recorded)


@contextmanager
def compared(git: Git, one: StoredFiles, other: StoredFiles | None) -> Iterator[Comparison]:
    """A checkpoint compared with another one, or with the files as they are now."""
    with session_store.opened(one.session) as store:
        base = one._manifest(store)
        found = snapshots.diff(store, base, other._manifest(store) if other is not None else None)
        with comparison(git, store, found, present=other is None) as made:
            yield made


@contextmanager
def comparison(git: Git, store: Store, found: snapshots.Difference, *, present: bool) -> Iterator[Comparison]:
    """What differs, so that git can count and show it; ``present`` when the other side is on disk."""
    changes = [_change(change) for change in found.changes]
    with tempfile.TemporaryDirectory(prefix="yolop-") as aside:

        @functools.cache
        def in_git() -> tuple[Where, str, str]:
            return _copied(git, store, Path(aside), changes, present=present)

        yield Comparison(found.from_tree, found.to_tree, changes, git, in_git)


def _copied(
    git: Git, store: Store, aside: Path, changes: list[TreeChange], *, present: bool
) -> tuple[Where, str, str]:
    """A scratch repository with both sides of what changed, and the two trees in it."""
    where = repository(aside / "scratch.git").with_index(aside / "index")
    git.run(Where(aside), "init", "-q", "--bare", str(aside / "scratch.git"))
    with streams.contents(store) as stream:
        on_disk = streams.present_files(store) if present else stream
        old = _side(git, where, aside / "old", [change.old for change in changes], stream)
        new = _side(git, where, aside / "new", [change.new for change in changes], on_disk)
    return where, old, new


def _side(
    git: Git, where: Where, aside: Path, entries: Iterable[Entry | None], stream: streams.Stream
) -> str:
    held = [entry for entry in entries if entry is not None and entry.mode != _DIRECTORY]
    aside.mkdir()
    for number, entry in enumerate(held):
        with open(aside / str(number), "wb") as file:
            _give(stream, entry, lambda _, content, file=file: file.writelines(content.chunks()))  # type: ignore[misc]
    names = "".join(f"{aside / str(number)}\n" for number in range(len(held)))
    written = git.run(where, "hash-object", "-w", "--no-filters", "--stdin-paths", stdin=os.fsencode(names))
    oids = written.out.decode("ascii").split()
    replaced = [Entry(entry.mode, oid, entry.path) for entry, oid in zip(held, oids, strict=True)]
    return tree.write_tree(git, where, EMPTY_TREE, replaced)


def _give(stream: streams.Stream, entry: Entry, use: Use) -> None:
    assert isinstance(entry, StoredEntry)
    chunks = stream(entry.path, entry.stored)
    content = Content(_Chunks(chunks), streams.size(entry.stored))
    try:
        use(entry, content)
        content.skip()
        for _ in chunks:  # the hash is compared after the last one
            raise StorageError("it is longer than it was")
    except StorageError as error:
        if "path" in error.details:
            raise
        raise StorageError(
            f"{paths.show(entry.path)}: {error.message}",
            hint=error.hint,
            details={**error.details, "path": paths.to_json(entry.path)},
        ) from None


class _Chunks:
    """Chunks as something to read from."""

    def __init__(self, chunks: Iterator[bytes]):
        self._chunks = chunks
        self._held = b""

    def read(self, size: int, /) -> bytes:
        """So many bytes, or fewer; none at the end."""
        while not self._held:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._held = chunk
        piece, self._held = self._held[:size], self._held[size:]
        return piece


def _change(change: snapshots.Change) -> TreeChange:
    before, after = (
        None if entry is None else _entry(change.path, entry) for entry in (change.before, change.after)
    )
    return TreeChange(change.path, change.change, before, after)  # type: ignore[arg-type]


def _entry(path: bytes, entry: snapshots.Entry) -> StoredEntry:
    if entry.type == streams.DIRECTORY:
        mode = _DIRECTORY
    elif entry.type == streams.SYMLINK:
        mode = tree.LINK
    else:
        mode = tree.EXECUTABLE if entry.mode & 0o111 else "100644"
    return StoredEntry(mode, entry.hash, path, entry)
