"""What a directory and a repository look like, in a form that two moments can be compared in.

Nothing here asks the program under test: trees are read with ``os``, repositories as files and through git.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SNAPSHOT_BLIND = frozenset({b".git", b".cogitator"})


@dataclass(frozen=True)
class Entry:
    """One path: what kind of thing it is, its permission bits, and what it holds."""

    kind: str
    mode: int
    content: str

    @classmethod
    def of(cls, path: bytes) -> Entry:
        """The entry at a path, which is not followed."""
        status = os.lstat(path)
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISLNK(status.st_mode):
            return cls("link", mode, os.fsdecode(os.readlink(path)))
        if stat.S_ISREG(status.st_mode):
            return cls("file", mode, _hash(path, status))
        return cls("directory" if stat.S_ISDIR(status.st_mode) else "other", mode, "")


_hashes: dict[tuple[int, ...], str] = {}
# How long a file must have been left alone for its change time to tell every later change apart.
_SETTLED = 20_000_000


def _hash(path: bytes, status: os.stat_result) -> str:
    """The hash of a file's content, read again only when its inode says that it may have changed."""
    key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if key in _hashes:
        return _hashes[key]
    now = time.time_ns()
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if now - status.st_ctime_ns > _SETTLED:
        _hashes[key] = found
    return found


def _walk(root: bytes, below: bytes = b"") -> Iterator[bytes]:
    for entry in sorted(os.scandir(os.path.join(root, below)), key=lambda item: item.name):
        if entry.name in SNAPSHOT_BLIND:
            continue
        path = os.path.join(below, entry.name)
        yield path
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, path)


def state(root: Path | bytes) -> dict[bytes, Entry]:
    """Every path below a directory but for what lies in a ``.git``: type, mode, link text, hash."""
    base = os.fsencode(root)
    return {path: Entry.of(os.path.join(base, path)) for path in _walk(base)}


def content(root: Path | bytes) -> dict[bytes, Entry]:
    """The same without directories, whose emptiness and modes no snapshot holds."""
    return {path: entry for path, entry in state(root).items() if entry.kind != "directory"}


def stamps(root: Path | bytes) -> dict[bytes, tuple[int, int]]:
    """Inode and modification time of every file and link, in nanoseconds."""
    base = os.fsencode(root)
    found = {path: os.lstat(os.path.join(base, path)) for path in _walk(base)}
    return {path: (st.st_ino, st.st_mtime_ns) for path, st in found.items() if not stat.S_ISDIR(st.st_mode)}


def difference(before: Mapping[bytes, object], after: Mapping[bytes, object]) -> list[str]:
    """The paths at which two states differ, with what each had there: for messages."""
    names = sorted(before.keys() | after.keys())
    return [f"{n!r}: {before.get(n)} -> {after.get(n)}" for n in names if before.get(n) != after.get(n)]


def git(
    directory: Path, *arguments: str, env: Mapping[str, str], ok: tuple[int, ...] = (0,), stdin: bytes = b""
) -> bytes:
    """Plain git, for what a test itself does or asks. Its output as bytes."""
    ran = subprocess.run(
        ["git", "-C", str(directory), *arguments],
        env=dict(env),
        input=stdin,
        capture_output=True,
        check=False,
    )
    assert ran.returncode in ok, f"git {arguments}: {ran.returncode}\n{ran.stdout!r}\n{ran.stderr!r}"
    return ran.stdout


def gitstate(directory: Path, env: Mapping[str, str], *, status: bool = True) -> dict[str, object]:
    """What no command may change in a repository or linked worktree.

    Every byte below the git directories (HEAD, the raw index, reflogs, hooks, configuration, merge state),
    the objects and our private refs aside; and, unless ``status`` is off, every file: all that
    ``git status`` could speak of, without a git process before and after each command.
    """
    quiet = {**env, "GIT_OPTIONAL_LOCKS": "0"}
    found: dict[str, object] = {}
    for name, base in _git_directories(directory):
        found.update(
            {f"{name}/{path.decode(errors='backslashreplace')}": entry for path, entry in _internals(base)}
        )
        if os.path.isdir(os.path.join(base, b"reftable")):  # refs are not files there: ask git
            listed = git(directory, "for-each-ref", env=quiet).split(b"\n")
            found["refs"] = [line for line in listed if b"refs/yolop/" not in line]
    if status:
        found.update(
            {
                f"file {path.decode(errors='backslashreplace')}": entry
                for path, entry in state(directory).items()
            }
        )
    return found


def _git_directories(directory: Path) -> list[tuple[str, bytes]]:
    dot = directory / ".git"
    if dot.is_dir():
        return [(".git", os.fsencode(dot))]
    if not dot.exists():
        return []
    own = Path(os.fsdecode(dot.read_bytes().removeprefix(b"gitdir: ").rstrip(b"\n")))
    return [("own", os.fsencode(own)), (".git", os.fsencode(own.parent.parent))] if own.is_dir() else []


def _internals(base: bytes) -> Iterator[tuple[bytes, object]]:
    """Everything in a git directory that is the user's: not the objects, not the refs below refs/yolop."""
    for parent, directories, names in os.walk(base):
        here = os.path.relpath(parent, base)
        if here == b".":
            directories[:] = [name for name in directories if name not in (b"objects", b"reftable")]
        if here == b"refs":
            directories[:] = [name for name in directories if name != b"yolop"]
        for name in names:
            path = os.path.join(parent, name)
            if here == b"." and name == b"packed-refs":
                yield b"packed-refs", _packed(path)
            else:
                yield os.path.normpath(os.path.join(here, name)), Entry.of(path)


def _packed(path: bytes) -> list[bytes]:
    with open(path, "rb") as file:
        return [line for line in file.read().split(b"\n") if b" refs/yolop/" not in line]
