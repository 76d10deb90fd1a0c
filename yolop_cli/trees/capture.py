"""Capture: the files of a worktree as a git tree, exactly as they lie on disk.

Held are the tracked files and the untracked ones that no rule ignores, and of those only what a snapshot
may hold (format page, "What a git snapshot holds"). Look first, then add: git finds what changed since
the kept index, and only that is read. What cannot be captured whole is a ``CaptureError``, never a tree.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass

from yolop_cli.ground import paths
from yolop_cli.ground.errors import StorageError, os_reason
from yolop_cli.ground.git import Git, GitError, Output, Where, join
from yolop_cli.trees import private_refs
from yolop_cli.trees.checkout import excludes_file
from yolop_cli.trees.private_git import PrivateGit
from yolop_cli.trees.worktree_files import STAGE_PREFIX, Disk, Seen

TRIES = 5
_SUBMODULE = b"160000"


class CaptureError(StorageError):
    """The worktree could not be captured whole; the message is the reason, with the path if one is known."""


@dataclass(frozen=True)
class Capture:
    """A captured tree and what a comparison with it needs to know."""

    tree: str
    excludes: str


def capture(git: Git, private: PrivateGit, forced: Collection[bytes] = ()) -> Capture:
    """Capture the worktree now; ``forced`` are paths to hold although they are ignored.

    Objects are durable in the repository when this returns; no ref names them yet. Raises
    ``CaptureError``.
    """
    try:
        excludes = excludes_file(git, private.checkout)
        private.prepare()
        if not _index_is_backed(git, private):
            private.forget()
        try:
            return _capture(git, private, excludes, forced)
        except GitError as error:
            if not private.index.exists() or not _blames_the_index(error):
                raise
            # The kept index is only a memory of what was read: without it, everything is read.
            private.forget()
            return _capture(git, private, excludes, forced)
    except CaptureError:
        raise
    except GitError as error:
        raise CaptureError(error.message, details=error.details) from None
    except StorageError as error:
        raise CaptureError(error.message, details=error.details) from None
    except OSError as error:
        where = f"{paths.show(error.filename)}: " if error.filename else ""
        raise CaptureError(f"{where}{os_reason(error)}") from None
    finally:
        private.close()


def _capture(git: Git, private: PrivateGit, excludes: str, forced: Collection[bytes]) -> Capture:
    moment = private.begin()
    where = private.where(excludes)
    again: Collection[bytes] = forced
    read: dict[bytes, Seen] = {}
    for _ in range(TRIES):
        now_read = _bring_up_to_date(git, private, where, again, frozenset(forced))
        read |= now_read
        disk = Disk(os.fsencode(private.checkout.root))
        again = [path for path, seen in now_read.items() if disk.stat(path) != seen]
        if not again:
            break
    else:
        names = ", ".join(paths.show(path) for path in sorted(again)[:3])
        raise CaptureError(f"changing while it was read: {names}")
    tree = git.run(where, "write-tree").line()
    _distrust(git, where, {path for path, seen in read.items() if seen.changed_since(moment)})
    private.finish(moment, tree)
    return Capture(tree, excludes)


def _distrust(git: Git, where: Where, recent: set[bytes]) -> None:
    """Make the next capture read these files again, whatever their times say then.

    Git compares times by whole seconds, and a tool can set a modification time back. A file whose inode
    changed about as late as this capture could change once more within that second and look the same; one
    that had been left alone for longer cannot.
    """
    if not recent:
        return
    rows = git.run(where, "ls-files", "-z", "-s").records()
    entries = [row.replace(b" 0\t", b"\t", 1) for row in rows if row.partition(b"\t")[2] in recent]
    git.run(where, "update-index", "-z", "--index-info", stdin=join(entries))


def _bring_up_to_date(
    git: Git, private: PrivateGit, where: Where, again: Collection[bytes], forced: frozenset[bytes]
) -> dict[bytes, Seen]:
    """Make the index agree with the disk; the paths that were read, as they were right before that."""
    disk = Disk(os.fsencode(private.checkout.root))
    changed = _whole(git.run(where, "diff-files", "-z", "--name-only", "--ignore-submodules=all"))
    untracked = _whole(git.run(where, "ls-files", "-z", "-o", "--exclude-standard", *_BLOCKED_ARGUMENTS))
    held = git.run(where, "ls-files", "-z").records()
    head = _against_head(git, private, where)
    submodules = head.submodules
    candidates = {*changed, *again, *(path for path in untracked if path[-1:] != b"/")}
    candidates |= head.missing.difference(held)

    def may_hold(path: bytes) -> bool:
        return (
            not disk.is_outside(path)
            and submodules.isdisjoint((path, *paths.ancestors(path)))
            and disk.look(path).kind in ("file", "link")
        )

    adds = {path for path in candidates if may_hold(path)}
    beyond = [path for path in head.beyond if path not in forced and may_hold(path)]
    ignored = ignored_by(git, where, beyond)
    outside = {path for path in held if disk.is_outside(path)} if _may_be_outside(disk, held) else set()
    drops = {path for path in changed if path not in adds} | ignored | outside
    if drops:
        zero = b"0" * len(git.run(where, "hash-object", "-t", "blob", "--stdin").line())
        entries = [b"0 " + zero + b"\t" + path for path in sorted(drops)]
        git.run(where, "update-index", "-z", "--index-info", stdin=join(entries))
    adds -= ignored
    if not adds:
        return {}
    before = {path: disk.stat(path) for path in adds}
    arguments = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    # Git passes over a name it will not hold, such as ".GIT", says so and exits 0.
    _whole(git.run(where, *arguments, stdin=join(sorted(adds))))
    return before


def _may_be_outside(disk: Disk, held: list[bytes]) -> bool:
    """Whether any captured path could lie outside by now: a directory that became a repository."""
    directories = {path.rpartition(b"/")[0] for path in held}
    return any(disk.is_outside(directory + b"/x") for directory in directories if directory)


@dataclass(frozen=True)
class _Head:
    """The index against what the user tracks (HEAD and their own index)."""

    beyond: list[bytes]
    missing: frozenset[bytes]
    submodules: frozenset[bytes]


def _against_head(git: Git, private: PrivateGit, where: Where) -> _Head:
    """Paths the index has beyond what the user tracks, and tracked paths it lacks.

    Reads the user's index without a lock and without refreshing it; conflicts in it are tracked paths.
    """
    real = private.checkout.real
    base = _head_tree(git, real)
    users = _raw(git.run(real, "diff-index", "--cached", "--raw", "-z", "--no-renames", base))
    ours = _raw(
        git.run(
            real.with_index(private.work / "index").with_objects(private.work / "objects"),
            *("diff-index", "--cached", "--raw", "-z", "--no-renames", base),
        )
    )
    staged = {path for status, _, _, path in users if status in (b"A", b"U", b"M", b"T")}
    beyond = [path for status, _, _, path in ours if status == b"A" and path not in staged]
    missing = {path for status, _, _, path in ours if status == b"D"} | staged
    submodules = {path for _, old, new, path in (*users, *ours) if _SUBMODULE in (old, new)}
    return _Head(beyond, frozenset(missing), frozenset(submodules))


def tracked(git: Git, real: Where) -> set[bytes]:
    """Every path that HEAD or the user's index holds."""
    head = git.run(real, "ls-tree", "-r", "-z", "--name-only", "--full-tree", _head_tree(git, real)).records()
    return {*head, *git.run(real, "ls-files", "-z").records()}


def _head_tree(git: Git, real: Where) -> str:
    asked = git.run(real, "rev-parse", "-q", "--verify", "HEAD^{tree}", ok=(0, 1, 128))
    if asked.status == 0:
        return asked.line()
    return git.run(real, "hash-object", "-t", "tree", "--stdin").line()


def _raw(output: Output) -> list[tuple[bytes, bytes, bytes, bytes]]:
    """``--raw -z`` output as (status, old mode, new mode, path)."""
    parts = output.records()
    rows = []
    for header, path in zip(parts[::2], parts[1::2], strict=True):
        fields = header[1:].split(b" ")
        rows.append((fields[4][:1], fields[0], fields[1], path))
    return rows


def ignored_by(git: Git, where: Where, candidates: list[bytes]) -> set[bytes]:
    """Those of the paths that the rules at a place ignore, whether or not they are tracked.

    No candidate may lie below a symbolic link there: git takes that for an error.
    """
    if not candidates:
        return set()
    # check-ignore knows no literal pathspecs; "./" in front keeps a name like ":(top)x" from being magic.
    plain = where.with_variables(GIT_LITERAL_PATHSPECS="0")
    given = join([b"./" + path for path in candidates])
    asked = git.run(plain, "check-ignore", "-z", "--no-index", "--stdin", stdin=given, ok=(0, 1))
    return {path.removeprefix(b"./") for path in _whole(asked)}


def _whole(output: Output) -> list[bytes]:
    """The records of a listing. Git says on standard error what it left out, and exits 0."""
    words = output.err.decode("utf-8", "backslashreplace")
    # A .gitignore that is a symbolic link is not followed, as git says; that leaves nothing out.
    complaints = [line for line in words.split("\n") if line and "symbolic links" not in line]
    if complaints:
        raise CaptureError(complaints[0].removeprefix("warning: ").removeprefix("error: "))
    return output.records()


def _index_is_backed(git: Git, private: PrivateGit) -> bool:
    """Whether every object of the kept index is surely there, so that unchanged files need no reading.

    A ref on the captured tree keeps its objects; without one git's garbage collection may have taken some.
    """
    if not private.index.exists():
        return True
    note = (private.tree_note.read_bytes() if private.tree_note.exists() else b"").decode().strip()
    session_id = private.path.parent.name
    if note and note in private_refs.of_session(git, private.checkout, session_id).values():
        return True
    try:
        entries = git.run(private.reading.with_index(private.index), "ls-files", "-z", "-s").records()
        objects = b"\n".join({entry.split(b" ", 2)[1] for entry in entries})
        found = git.run(private.reading, "cat-file", "--batch-check=%(objecttype)", stdin=objects).out
    except GitError:
        return False
    return b"missing" not in found


def _blames_the_index(error: GitError) -> bool:
    """Whether git says that the index is damaged, or names objects that are gone."""
    blamed = (
        "invalid object",
        "nonexistent object",
        "bad object",
        "index file",
        "bad signature",
        "bad index",
    )
    return any(words in error.words for words in (*blamed, "unordered stage", "malformed name"))


_BLOCKED_ARGUMENTS = (
    *(f"--exclude={name}/" for name in paths.BLOCKED_DIRECTORIES if name != ".git"),
    f"--exclude=/{STAGE_PREFIX.decode()}*/",
)
