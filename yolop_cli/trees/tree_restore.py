"""Carry out a restore plan: all new content staged first, then placed path by path.

Nothing is followed and nothing leaves the root: every path is reached through directory descriptors
opened with ``O_NOFOLLOW``. A file is replaced by a rename, so at any instant it holds its old bytes or
its new ones. Right before each path is touched it is compared with what the plan was made for.

Different in kind from ``store.place``: content comes from git's objects, a mode is one executable bit, and
directories come and go with their files. The store places directories and exact modes, and opens what is
read-only on the way.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files, paths
from yolop_cli.ground.errors import StaleError, StorageError, os_reason
from yolop_cli.ground.git import Git
from yolop_cli.trees import tree
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.tree import Content, Entry, TreeChange
from yolop_cli.trees.tree_plan import RestorePlan
from yolop_cli.trees.worktree_files import MISSING, STAGE_PREFIX, Disk, Seen, seen

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Restored:
    """What a restore did: paths written (or given their mode) and paths deleted."""

    restored: tuple[bytes, ...]
    deleted: tuple[bytes, ...]


def stage_name(token: str) -> str:
    """The name of the directory in which a restore stages its content, inside the worktree's root."""
    return STAGE_PREFIX.decode("ascii") + hashlib.sha256(token.encode()).hexdigest()[:16]


def look_at(private: PrivateGit, wanted: Iterable[bytes]) -> dict[bytes, Seen]:
    """What lies at some paths now, to compare with right before each of them is touched."""
    disk = Disk(os.fsencode(private.checkout.root))
    return {path: disk.look(path) for path in wanted}


def carry_out(
    git: Git, private: PrivateGit, plan: RestorePlan, expected: Mapping[bytes, Seen], stage: str
) -> Restored:
    """Do exactly what the plan says.

    Raises ``StorageError`` when content is missing or the file system fails, ``StaleError`` when a path is
    no longer what it was; both may come in the middle, and the caller then puts the files back.
    """
    root = private.checkout.root
    try:
        staged = _stage(git, private, plan, expected, root / stage)
        _Placing(root, root / stage, expected).all(plan, staged)
        sweep(root, stage)
    except OSError as error:
        where = f" at {paths.show(error.filename)}" if error.filename else ""
        raise StorageError(f"the restore failed{where}: {os_reason(error)}") from None
    return Restored(
        tuple(change.path for change, _ in plan.writes), tuple(change.path for change in plan.deletions)
    )


def sweep(root: Path, stage: str) -> None:
    """Remove a staging directory, if it is there; only files and links that a restore put in it."""
    if not stage.encode().startswith(STAGE_PREFIX) or "/" in stage:
        return
    try:
        fd = os.open(root / stage, _DIRECTORY)
    except OSError:
        return
    try:
        for name in os.listdir(fd):
            os.unlink(name, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(root / stage)


def _stage(
    git: Git, private: PrivateGit, plan: RestorePlan, expected: Mapping[bytes, Seen], stage: Path
) -> dict[bytes, str]:
    """Write the new content of every path into the staging directory; the name of each there.

    A file that only gets another mode is written too when it has other names: they are not the session's.
    """
    wanted = [
        new
        for change, new in plan.writes
        if change.change != "mode" or expected.get(change.path, MISSING).links > 1
    ]
    if not wanted:
        return {}
    sweep(stage.parent, stage.name)
    stage.mkdir(mode=files.PRIVATE_DIRECTORY)
    names = {entry.path: str(number) for number, entry in enumerate(wanted)}
    algorithm = private.checkout.object_format

    def place(entry: Entry, content: Content) -> None:
        digest = hashlib.new(algorithm, f"blob {content.size}\0".encode())
        if entry.mode == tree.LINK:
            text = content.read()
            digest.update(text)
            os.symlink(text, os.fsencode(stage / names[entry.path]))
        else:
            _write_staged(stage / names[entry.path], content, digest)
        if digest.hexdigest() != entry.oid:
            raise StorageError(f"the object {entry.oid} of {paths.show(entry.path)} is damaged")

    tree.with_content(git, private.reading, wanted, place)
    files.sync_directory(stage)
    return names


def _write_staged(path: Path, content: Content, digest: hashlib._Hash) -> None:
    fd = os.open(
        path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, files.PRIVATE_FILE
    )
    try:
        for chunk in content.chunks():
            digest.update(chunk)
            files.write_all(fd, chunk)
        os.fsync(fd)
    finally:
        os.close(fd)


class _Placing:
    """The second half: removals, then writes, then directories that emptied."""

    def __init__(self, root: Path, stage: Path, expected: Mapping[bytes, Seen]):
        self.root = os.fsencode(root)
        self.stage = os.fsencode(stage)
        self.expected = expected
        self.touched: set[bytes] = set()
        self.released: set[int | None] = set()
        umask = os.umask(0)
        os.umask(umask)
        self.umask = umask

    def all(self, plan: RestorePlan, staged: Mapping[bytes, str]) -> None:
        for change in sorted(plan.deletions, key=lambda change: change.path, reverse=True):
            self._delete(change)
        needed = {directory for change, _ in plan.writes for directory in paths.ancestors(change.path)}
        for change, new in sorted(plan.writes, key=lambda write: write[0].path):
            self._write(change, new, staged.get(change.path))
        self._remove_emptied(plan, needed)
        for directory in sorted(self.touched):
            self._sync(directory)

    def _delete(self, change: TreeChange) -> None:
        with self._parent(change.path) as (fd, name):
            self._check(change.path, fd, name)
            os.unlink(name, dir_fd=fd)

    def _write(self, change: TreeChange, new: Entry, staged: str | None) -> None:
        self._make_parents(change.path)
        with self._parent(change.path) as (fd, name):
            found = self._check(change.path, fd, name)
            if found.kind == "directory":
                _remove_empty_directories(fd, name)
                found = MISSING
            if staged is None:
                self._set_executable(fd, name, new)
                return
            source = self.stage + b"/" + staged.encode()
            if new.mode != tree.LINK:
                self._prepare(source, fd, name, found, executable=new.mode == tree.EXECUTABLE)
            os.rename(source, name, dst_dir_fd=fd)

    def _check(self, path: bytes, fd: int, name: bytes) -> Seen:
        """What is there now, which must be what was there when the plan was checked."""
        found = seen(lambda: os.stat(name, dir_fd=fd, follow_symlinks=False))
        wanted = self.expected.get(path, MISSING)
        same = found.kind == wanted.kind if found.kind == "directory" else found == wanted
        # A directory that emptied while its files were removed may be gone already.
        emptied = found.kind == "missing" and wanted.kind == "directory"
        # Another name of a file that the restore has replaced: the inode lost a link, and nothing else.
        unlinked = found.inode in self.released and found.is_but_for_change_time(wanted)
        if not (same or emptied or unlinked):
            raise StaleError(
                f"{paths.show(path)} changed since the preview",
                hint="make a new preview, then apply that one",
            )
        if found.links > 1:
            self.released.add(found.inode)
        return found

    def _prepare(self, source: bytes, fd: int, name: bytes, found: Seen, *, executable: bool) -> None:
        """Give the staged file its final mode and owner before it becomes visible under its name."""
        owner = os.stat(name, dir_fd=fd, follow_symlinks=False) if found.kind == "file" else os.fstat(fd)
        if os.geteuid() == 0 and owner.st_uid != 0:
            os.chown(source, owner.st_uid, owner.st_gid, follow_symlinks=False)
        if found.kind == "file":
            mode = _with_executable(stat.S_IMODE(found.mode), executable)
        else:
            mode = (0o777 if executable else 0o666) & ~self.umask
        os.chmod(source, mode)

    def _set_executable(self, fd: int, name: bytes, new: Entry) -> None:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        try:
            mode = stat.S_IMODE(os.fstat(file).st_mode)
            os.fchmod(file, _with_executable(mode, new.mode == tree.EXECUTABLE))
        finally:
            os.close(file)

    def _make_parents(self, path: bytes) -> None:
        for directory in paths.ancestors(path):
            with self._parent(directory) as (fd, name):
                try:
                    os.mkdir(name, 0o777, dir_fd=fd)
                except FileExistsError:
                    continue
                above = os.fstat(fd)
                if os.geteuid() == 0 and above.st_uid != 0:
                    os.chown(name, above.st_uid, above.st_gid, dir_fd=fd, follow_symlinks=False)

    def _remove_emptied(self, plan: RestorePlan, needed: set[bytes]) -> None:
        emptied = {
            directory for change in plan.deletions for directory in paths.ancestors(change.path)
        } - needed
        for directory in sorted(emptied, key=lambda path: path.count(b"/"), reverse=True):
            try:
                with self._parent(directory) as (fd, name):
                    os.rmdir(name, dir_fd=fd)
            except OSError:
                continue  # it still holds something that is not ours to remove, or a file took its place

    def _sync(self, directory: bytes) -> None:
        try:
            fd = os.open(self.root + b"/" + directory, _DIRECTORY)
        except OSError:
            return  # removed since; its parent is synced too
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    @contextmanager
    def _parent(self, path: bytes) -> Iterator[tuple[int, bytes]]:
        """A descriptor of the directory that holds a path, reached without following a link."""
        *directories, name = path.split(b"/")
        self.touched.add(b"/".join(directories))
        fd = os.open(self.root, _DIRECTORY)
        try:
            for directory in directories:
                below = os.open(directory, _DIRECTORY, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd, name
        finally:
            os.close(fd)


def _with_executable(mode: int, executable: bool) -> int:
    """A mode with the executable bit where it is readable, or without it; its other bits stay."""
    return mode | (mode & 0o444) >> 2 if executable else mode & ~0o111


def _remove_empty_directories(fd: int, name: bytes) -> None:
    """Remove a directory that holds nothing but directories. Raises ``OSError`` when it holds more."""
    inner = os.open(name, _DIRECTORY, dir_fd=fd)
    try:
        for child in os.listdir(inner):
            _remove_empty_directories(inner, os.fsencode(child))
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=fd)
