"""One walk over a root: what is there now, with the hash of every file, reading only what may have changed.

The walk goes through directory descriptors and never follows a link. With a pack writer, contents and
listings go into the store as they are met; without one they are only hashed, which is what a dry run does.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from yolop_cli.store import disk, last_state
from yolop_cli.store.excludes import ALWAYS, matcher
from yolop_cli.store.file_reader import CHANGING, HARD_LINK, TOO_LARGE, UNREADABLE, ContentReader
from yolop_cli.store.last_state import KnownDirectory, LastState, Row
from yolop_cli.store.layout import Store
from yolop_cli.store.listing import DIRECTORY, FILE, SYMLINK, Entry, digest_of, encode
from yolop_cli.store.manifest import Rules, Skipped, Stats
from yolop_cli.store.packs import PackWriter

EXCLUDED, SPECIAL = "excluded", "special"
Progress = Callable[[int, int], None]
_FS = sys.getfilesystemencoding()
_HELD = 200  # directories held open at once; deeper ones are reached from the root again


@dataclass(slots=True)
class Directory:
    """A directory as the walk saw it. ``left`` are the entries it leaves alone, with the reason."""

    path: bytes
    mode: int
    files: dict[bytes, Row] = field(default_factory=dict)
    links: dict[bytes, bytes] = field(default_factory=dict)
    below: dict[bytes, Directory] = field(default_factory=dict)
    left: dict[bytes, str] = field(default_factory=dict)
    known: KnownDirectory | None = None
    files_unchanged: bool = False
    tree: str = ""

    def child(self, name: bytes) -> bytes:
        """The path of an entry."""
        return self.path + b"/" + name if self.path else name

    def entry(self, name: bytes) -> Entry | None:
        """The entry of that name as a listing has it, or None."""
        row, below = self.files.get(name), self.below.get(name)
        if row is not None:
            return file_entry(row)
        if below is not None:
            return Entry(DIRECTORY, below.mode, hash=below.tree)
        return Entry(SYMLINK, target=self.links[name]) if name in self.links else None

    def listing(self) -> dict[bytes, Entry]:
        """Every entry that belongs to the snapshot."""
        entries = {name: file_entry(row) for name, row in self.files.items()}
        entries.update((name, Entry(SYMLINK, target=target)) for name, target in self.links.items())
        entries.update((name, Entry(DIRECTORY, at.mode, hash=at.tree)) for name, at in self.below.items())
        return entries

    def is_as_known(self) -> bool:
        """Whether everything in it and below it is what the last snapshot recorded."""
        known = self.known
        return (
            known is not None
            and self.files_unchanged
            and self.links == known.links
            and self.below.keys() == known.directories
            and all(
                at.known is not None and at.tree == at.known.tree and at.mode == at.known.mode
                for at in self.below.values()
            )
        )


def file_entry(row: Row) -> Entry:
    """A file's row as a listing has it."""
    return Entry(FILE, stat.S_IMODE(row[0]), row[1], row[5], owner=tuple(row[6]) if len(row) > 6 else None)


@dataclass(frozen=True)
class Scan:
    """The whole of a walk: every directory, parents first."""

    directories: list[Directory]
    skipped: tuple[Skipped, ...]
    stats: Stats
    rules: Rules

    @property
    def root(self) -> Directory:
        return self.directories[0]

    @property
    def tree(self) -> str:
        return self.root.tree

    def records(self, began_ns: int) -> Iterator[tuple[bytes, list[object]]]:
        """What the next walk may rely on, for ``state.save``."""
        limit = began_ns - last_state.SETTLED
        for at in self.directories:
            if at.known is not None and at.tree == at.known.tree and at.files_unchanged:
                yield at.path, [at.mode, *at.known.recorded[1:]]
            else:
                yield at.path, last_state.record(at.mode, at.tree, at.files, at.links, at.below, limit)


@dataclass(frozen=True)
class Scope:
    """What a walk takes in.

    ``leave`` are paths to leave alone whatever they are now (a snapshot to restore skipped them), with the
    reason; ``cover`` says of a path that it is taken in whatever its size (the snapshot to restore holds
    it).
    """

    rules: Rules
    leave: Mapping[bytes, str] = field(default_factory=dict)
    cover: Callable[[bytes], bool] | None = None


def walk(
    store: Store,
    scope: Scope,
    last: LastState,
    writer: PackWriter | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Look at everything below the store's root. Raises bare ``OSError`` when the system fails."""
    walker = _Walk(store, scope, last, writer, progress)
    walker.run()
    return walker.result()


class _Walk:
    def __init__(
        self,
        store: Store,
        scope: Scope,
        last: LastState,
        writer: PackWriter | None,
        progress: Progress | None,
    ):
        self.store, self.scope, self.last, self.writer, self.progress = store, scope, last, writer, progress
        self.rules = scope.rules
        self.match = matcher(self.rules.exclude)
        self.same_excludes = self.match is None or self.rules.exclude == last.exclude
        self.leave = _by_directory(scope.leave)
        self.reader = ContentReader(writer)
        self.directories: list[Directory] = []
        self.skipped: list[Skipped] = []
        self.files = self.bytes = self.reused = 0

    def run(self) -> None:
        root = Directory(b"", stat.S_IMODE(os.fstat(self.store.root_fd).st_mode))
        frames: list[_Frame] = []
        try:
            self._visit(root, self.store.root_fd)
            frames.append(_Frame(root, os.dup(self.store.root_fd)))
            while frames:
                if not frames[-1].waiting:
                    frames.pop().close()
                    continue
                entered = self._enter(frames[-1], frames[-1].waiting.pop(), hold=len(frames) < _HELD)
                if entered is not None:
                    frames.append(entered)
        finally:
            for frame in frames:
                frame.close()
        self._name_trees()

    def result(self) -> Scan:
        stats = Stats(self.files, self.bytes, self.reader.hashed, self.reused)
        skipped = tuple(sorted(self.skipped, key=lambda item: item.path))
        return Scan(self.directories, skipped, stats, self.rules)

    def _enter(self, frame: _Frame, directory: Directory, *, hold: bool) -> _Frame | None:
        """Visit a directory; None when it is gone or cannot be read, which its parent then knows."""
        parent, name = frame.directory, directory.path.rpartition(b"/")[2]
        try:
            with frame.opened(self.store.root_fd) as at:
                fd = disk.open_directory(name, at)
        except PermissionError:
            self._leave(parent, name, UNREADABLE)
            return None
        except (FileNotFoundError, NotADirectoryError):
            del parent.below[name]
            return None
        entered = _Frame(directory, fd)
        try:
            self._visit(directory, fd)
        except PermissionError:  # it may be listed but not searched
            entered.close()
            self._leave(parent, name, UNREADABLE)
            return None
        except BaseException:
            entered.close()
            raise
        entered.waiting = list(directory.below.values())
        if not hold:
            entered.close()
        return entered

    def _visit(self, directory: Directory, fd: int) -> None:
        known = directory.known = self.last.directory(directory.path)
        known_files = known.files if known is not None else {}
        leave = self.leave.get(directory.path, {})
        trusting = self.same_excludes and not leave and not self.rules.refuse_hard_links
        files, limit, reused = directory.files, self.rules.max_file_bytes, 0
        with os.scandir(fd) as entries:
            for entry in entries:
                name = entry.name.encode(_FS, "surrogateescape")
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                row = known_files.get(name)
                if row is not None and not (
                    row[3] == status.st_ctime_ns
                    and row[2] == status.st_mtime_ns
                    and row[1] == status.st_size
                    and row[4] == status.st_ino
                    and row[0] == status.st_mode
                ):
                    row = None
                if row is not None and trusting and row[1] <= limit:
                    files[name] = row
                    reused += 1
                    continue
                reason = leave.get(name) or self._rule_against(directory, name, status)
                if reason is not None:
                    self._leave(directory, name, reason)
                elif row is not None:
                    files[name] = row
                    reused += 1
                else:
                    self._take(directory, name, status, fd)
        directory.files_unchanged = known is not None and reused == len(files) == len(known_files)
        self.directories.append(directory)
        self.reused += reused
        self.files += len(files)
        self.bytes += sum(row[1] for row in files.values())
        if self.progress is not None:
            self.progress(self.files, self.bytes)

    def _rule_against(self, directory: Directory, name: bytes, status: os.stat_result) -> str | None:
        """Why an entry is not taken in, or None."""
        if name in ALWAYS:
            return EXCLUDED
        is_directory, is_file = stat.S_ISDIR(status.st_mode), stat.S_ISREG(status.st_mode)
        if (
            self.match is not None
            and not self._was_taken_in(directory, name, is_directory, is_file)
            and self.match(directory.child(name), is_directory)
        ):
            return EXCLUDED
        if is_file:
            if status.st_size > self.rules.max_file_bytes and not self._is_covered(directory, name):
                return TOO_LARGE
            if self.rules.refuse_hard_links and status.st_nlink > 1:
                return HARD_LINK
        return None

    def _was_taken_in(self, directory: Directory, name: bytes, is_directory: bool, is_file: bool) -> bool:
        """Whether the last walk, under the same excludes, took in an entry of that name and kind."""
        known = directory.known
        if known is None or not self.same_excludes:
            return False
        return name in (known.directories if is_directory else known.files if is_file else known.links)

    def _is_covered(self, directory: Directory, name: bytes) -> bool:
        return self.scope.cover is not None and self.scope.cover(directory.child(name))

    def _take(self, directory: Directory, name: bytes, status: os.stat_result, fd: int) -> None:
        if stat.S_ISDIR(status.st_mode):
            directory.below[name] = Directory(directory.child(name), stat.S_IMODE(status.st_mode))
        elif stat.S_ISLNK(status.st_mode):
            try:
                directory.links[name] = os.readlink(name, dir_fd=fd)
            except OSError:  # gone, or no longer a link
                self._leave(directory, name, CHANGING)
        elif stat.S_ISREG(status.st_mode):
            limit = self.rules.max_file_bytes
            outcome = self.reader.read(name, fd, limit if status.st_size <= limit else None)
            if isinstance(outcome, str):
                self._leave(directory, name, outcome)
            elif outcome is not None:
                directory.files[name] = outcome
        else:
            self._leave(directory, name, SPECIAL)

    def _leave(self, directory: Directory, name: bytes, reason: str) -> None:
        directory.below.pop(name, None)
        directory.left[name] = reason
        if reason not in (EXCLUDED, SPECIAL):
            self.skipped.append(Skipped(directory.child(name), reason))

    def _name_trees(self) -> None:
        for directory in reversed(self.directories):
            if directory.is_as_known() and directory.known is not None:
                directory.tree = directory.known.tree
                continue
            data = encode(directory.listing())
            directory.tree = digest_of(data)
            if self.writer is not None:
                self.writer.add(directory.tree, data)


class _Frame:
    """A directory whose children are being walked, and its descriptor unless it lies too deep to be held."""

    def __init__(self, directory: Directory, fd: int):
        self.directory = directory
        self.fd = fd
        self.waiting = list(directory.below.values())

    @contextmanager
    def opened(self, root: int) -> Iterator[int]:
        if self.fd >= 0:
            yield self.fd
        else:
            with disk.directory(self.directory.path, root) as fd:
                yield fd

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _by_directory(paths: Mapping[bytes, str]) -> dict[bytes, dict[bytes, str]]:
    grouped: dict[bytes, dict[bytes, str]] = {}
    for path, reason in paths.items():
        parent, _, name = path.rpartition(b"/")
        grouped.setdefault(parent, {})[name] = reason
    return grouped
