"""capture.git: a git directory of our own, so that a capture is exact and touches nothing of the user's.

Its ``info/attributes`` outrank every ``.gitattributes``, so no conversion happens. Its index stays between
captures, so an unchanged file is not read again. A capture works in ``work/``: a copy of the index and an
object directory that only fills the repository's once everything is written. A killed capture
leaves no more than a ``work/`` that the next one sweeps.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import files
from yolop_cli.ground.git import Where
from yolop_cli.trees.checkout import Checkout

# !working-tree-encoding: "unset" is an error for git where "unspecified" means no conversion.
_ATTRIBUTES = b"* -text -eol -filter -ident !working-tree-encoding\n"
_CONFIG = """[core]
\trepositoryFormatVersion = {version}
\tbare = false
\tfileMode = true
\tsymlinks = true
\tignoreCase = false
\tprecomposeUnicode = false
\tautocrlf = false
\tsafecrlf = false
[extensions]
\tobjectFormat = {object_format}
"""
_CONFIG_SHA1 = _CONFIG.split("[extensions]")[0]


@dataclass(frozen=True)
class PrivateGit:
    """The private git directory of one session, for captures of one checkout.

    One that is ``aside`` is a temporary copy for looking: its objects never reach the repository.
    """

    path: Path
    checkout: Checkout
    aside: bool = False

    @property
    def index(self) -> Path:
        """The kept index."""
        return self.path / "index"

    @property
    def work(self) -> Path:
        """What one capture writes before it is known to be whole."""
        return self.path / "work"

    @property
    def tree_note(self) -> Path:
        """The tree that the kept index stands for; missing while the two may differ."""
        return self.path / "captured"

    def where(self, excludes: str, index: Path | None = None) -> Where:
        """Git on this directory: the worktree's files, the work index, new objects into ``work/``."""
        variables = {
            "GIT_DIR": str(self.path),
            "GIT_WORK_TREE": str(self.checkout.root),
            "GIT_INDEX_FILE": str(index or self.work / "index"),
            "GIT_OBJECT_DIRECTORY": str(self.work / "objects"),
        }
        return Where(self.checkout.root, variables, (("core.excludesFile", excludes),))

    @property
    def reading(self) -> Where:
        """Git for comparing and reading trees: the repository's objects, nothing of its configuration."""
        variables = {
            "GIT_DIR": str(self.path),
            "GIT_WORK_TREE": str(self.checkout.root),
            "GIT_OBJECT_DIRECTORY": str(self.work / "objects" if self.aside else self.checkout.objects),
        }
        return Where(self.checkout.root, variables)

    def borrow(self, other: Path) -> None:
        """Begin with the kept index of another private directory, so that unchanged files are not read."""
        files.make_private_directory(self.path)
        try:
            for name in ("index", "captured"):
                if (other / name).exists():
                    shutil.copy2(other / name, self.path / name)
        except OSError as error:
            raise files.failed("copy", other, error) from None

    def prepare(self) -> None:
        """Make the directory, or bring it up to date, and sweep what a killed capture left."""
        for directory in (self.path, self.path / "info", self.path / "refs", self.path / "objects"):
            files.make_private_directory(directory)
        settled = {
            "HEAD": b"ref: refs/heads/none\n",
            "config": _config(self.checkout.object_format),
            "info/attributes": _ATTRIBUTES,
            "info/exclude": files.read_bytes(self.checkout.common_dir / "info" / "exclude") or b"",
        }
        for name, content in settled.items():
            if files.read_bytes(self.path / name) != content:
                files.write_atomic(self.path / name, content)
        files.remove_file(self.path / "index.lock")
        self.sweep()

    def begin(self) -> int:
        """An empty ``work/`` with a copy of the kept index; the moment of beginning, in whole seconds.

        The moment comes from the file system's own clock and is a second early, so that git reads again
        whatever may have changed since (see ``finish``).
        """
        self.sweep()
        try:
            (self.work / "objects" / "info").mkdir(mode=0o700, parents=True)
            (self.work / "objects" / "pack").mkdir(mode=0o700)
            alternates = self.work / "objects" / "info" / "alternates"
            alternates.write_bytes(_quoted(os.fsencode(self.checkout.objects)) + b"\n")
            if self.index.exists():
                shutil.copy2(self.index, self.work / "index")
            return int(alternates.stat().st_mtime) - 1
        except OSError as error:
            raise files.failed("prepare", self.work, error) from None

    def finish(self, moment: int, tree: str) -> None:
        """Hand the new objects to the repository, then keep the index, dated to ``moment``.

        Git reads a file again when its time is not older than the index file's own, so an index dated
        before the capture began never hides a change made while it ran.
        """
        try:
            if self.aside:
                return
            self.hand_over()
            files.remove_file(self.tree_note)
            work_index = self.work / "index"
            if work_index.exists():
                os.utime(work_index, (moment, moment))
                work_index.chmod(files.PRIVATE_FILE)
                work_index.replace(self.index)
            files.write_atomic(self.tree_note, tree.encode("ascii") + b"\n")
        except OSError as error:
            raise files.failed("keep the captured objects in", self.checkout.objects, error) from None
        self.sweep()

    def close(self) -> None:
        """Sweep ``work/`` once a capture is over, unless its objects are still to be read."""
        if not self.aside:
            self.sweep()

    def hand_over(self) -> None:
        """Move the new objects into the repository, durably. Raises ``OSError``."""
        _hand_over(self.work / "objects", self.checkout, self.path.parent.name)

    def forget(self) -> None:
        """Drop the kept index, so that the next capture reads every file."""
        files.remove_file(self.tree_note)
        files.remove_file(self.index)

    def sweep(self) -> None:
        """Remove what a capture left in ``work/``."""
        for leftover in (self.work, _incoming(self.checkout, self.path.parent.name)):
            if leftover.exists():
                shutil.rmtree(leftover, ignore_errors=True)


def _config(object_format: str) -> bytes:
    if object_format == "sha1":
        return _CONFIG_SHA1.format(version=0).encode("ascii")
    return _CONFIG.format(version=1, object_format=object_format).encode("ascii")


def _quoted(path: bytes) -> bytes:
    """A path as a line of ``info/alternates``, which takes C quoting for the odd ones."""
    if not path.startswith((b'"', b"#")) and b"\n" not in path:
        return path
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _incoming(checkout: Checkout, session_id: str) -> Path:
    return checkout.objects / f"tmp_yolop_{session_id}"


def _hand_over(objects: Path, checkout: Checkout, session_id: str) -> None:
    """Move whole objects into the repository: packs before their indexes, directories synced."""
    if objects.stat().st_dev != checkout.objects.stat().st_dev:
        incoming = _incoming(checkout, session_id)
        shutil.copytree(objects, incoming, symlinks=True)
        for path in incoming.rglob("*"):
            if path.is_file():
                _sync_file(path)
        objects = incoming
    touched: set[Path] = set()
    for path in sorted(objects.rglob("*"), key=lambda path: (path.suffix == ".idx", path)):
        if not path.is_file() or path.parent.name == "info" or path.name.startswith("tmp_"):
            continue
        target = checkout.objects / path.relative_to(objects)
        if not target.parent.exists():
            target.parent.mkdir()
            target.parent.chmod(checkout.objects.stat().st_mode & 0o7777)
            _adopt(target.parent, checkout.objects)
            touched.add(checkout.objects)
        if not target.exists():
            _adopt(path, checkout.objects)
            path.rename(target)
            touched.add(target.parent)
    for directory in touched:
        files.sync_directory(directory)


def _adopt(path: Path, like: Path) -> None:
    """Give a new file the owner of the repository, for a superuser who captures another user's."""
    owner = like.stat()
    if os.geteuid() == 0 and (owner.st_uid, owner.st_gid) != (0, 0):
        os.chown(path, owner.st_uid, owner.st_gid)


def _sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
