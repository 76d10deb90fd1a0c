"""A newcomer's first minute: a throw-away repository and session, three turns, a rewind and a redo.

The session is made the way the agent makes one, in a directory of its own; nothing of the user's is read
or touched.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from yolop_cli.ground import clock, files, paths, strict_json
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.git import Git, Where
from yolop_cli.operations import apply as applying
from yolop_cli.operations import preview as previewing
from yolop_cli.operations import turns
from yolop_cli.session.directory import SessionDirectory

_IDENTITY = (
    ("user.name", "yolop-cli demo"),
    ("user.email", "demo@localhost"),
    ("init.defaultBranch", "main"),
    ("commit.gpgSign", "false"),
)


@dataclass(frozen=True)
class Step:
    """One thing that was done: the command that would do it, and what came of it."""

    command: str
    result: str


@dataclass(frozen=True)
class Demo:
    """Where the demo's pieces are, and what was done."""

    root: Path
    session: SessionDirectory
    worktree: Path
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class _Turn:
    prompt: str
    change: Callable[[Path], None]
    answer: str


def run(git: Git, root: Path) -> Demo:
    """Build the demo below an empty directory and play it. Raises ``StorageError``."""
    try:
        session, worktree = _build(git, root)
    except OSError as error:
        raise files.failed("build the demo in", root, error) from None
    git = Git({**git.environ, "HOME": str(root), "XDG_CONFIG_HOME": str(root / "config")})
    steps: list[Step] = []
    for number, turn in enumerate(_TURNS):
        steps.append(_play(git, session, worktree, number, turn))
    first = turns_of(session)[0]
    before = _listing(worktree)
    preview = previewing.rewind(git, session, first, None)
    changed = len(preview.waiting.changes)
    steps.append(Step(f"yolop-cli rewind preview {first}", f"{changed} paths would change"))
    applying.apply(git, session, preview.waiting.token)
    rewound = f"the files are those before turn 1: {_listing(worktree)}"
    steps.append(Step(f"yolop-cli rewind apply {preview.waiting.token}", rewound))
    again = previewing.redo(git, session, None)
    applying.apply(git, session, again.waiting.token)
    if _listing(worktree) != before:
        raise StorageError("the redo did not bring the files back")
    steps.append(Step("yolop-cli redo --yes", f"the files are back: {before}"))
    return Demo(root, session, worktree, tuple(steps))


def turns_of(session: SessionDirectory) -> tuple[str, ...]:
    """The checkpoints of the demo's session, oldest first."""
    from yolop_cli.timeline import file as timeline_file

    return tuple(timeline_file.load(session).state.nodes)


def _build(git: Git, root: Path) -> tuple[SessionDirectory, Path]:
    session_id = f"session_{int(clock.seconds() * 1000):012x}7{secrets.token_hex(10)[:19]}"
    repository, worktree = root / "repository", root / "worktree"
    session = SessionDirectory(paths.resolved(root) / "data" / "sessions" / session_id)
    files.make_private_directory(session.path)
    repository.mkdir()
    at = Where(repository, {}, _IDENTITY)
    git.run(at, "init", "-q")
    (repository / "notes.txt").write_bytes(b"Buy milk.\n")
    (repository / "hello.sh").write_bytes(b"#!/bin/sh\necho hello\n")
    git.run(at, "add", "-A")
    git.run(at, "commit", "-q", "-m", "The beginning")
    git.run(at, "worktree", "add", "-q", "-b", "demo", str(worktree))
    metadata = {
        "active_root": str(worktree),
        "repo_root": str(repository),
        "canonical_repo_root": str(repository),
        "title": "A demo",
        "created_at": clock.now(),
        "updated_at": clock.now(),
        "session_kind": "test",
        "worktree": {"path": str(worktree), "branch": "demo", "base_ref": "main", "slug": "demo"},
    }
    files.write_atomic(session.workspace, strict_json.dumps(metadata) + b"\n")
    return session, worktree


def _play(git: Git, session: SessionDirectory, worktree: Path, number: int, turn: _Turn) -> Step:
    turns.begin(git, session, turn.prompt, require_workspace=True)
    turn.change(worktree)
    _append_event(session, number * 2 + 1, "input.message", "user", turn.prompt)
    _append_event(session, number * 2 + 2, "output.message.completed", "agent", turn.answer)
    done = turns.complete(git, session, None, success=True)
    return Step(
        f'yolop-cli checkpoint create --prompt "{turn.prompt}"', f"{done.checkpoint.id}: {turn.answer}"
    )


def _append_event(session: SessionDirectory, sequence: int, kind: str, role: str, words: str) -> None:
    event = {
        "id": f"event_{secrets.token_hex(16)}",
        "type": kind,
        "ts": clock.now(),
        "session_id": session.id,
        "context": {},
        "data": {
            "message": {
                "id": f"message_{secrets.token_hex(16)}",
                "role": role,
                "content": [{"type": "text", "text": words}],
            }
        },
        "sequence": sequence,
    }
    fd = files.open_regular_or_create(session.events)
    try:
        files.write_all(fd, strict_json.dumps(event) + b"\n")
    finally:
        os.close(fd)


def _listing(worktree: Path) -> str:
    return ", ".join(sorted(name for name in os.listdir(worktree) if name != ".git"))


def _first(worktree: Path) -> None:
    (worktree / "notes.txt").write_bytes(b"Buy milk.\nBuy bread.\n")


def _second(worktree: Path) -> None:
    (worktree / "notes.txt").rename(worktree / "shopping.txt")
    (worktree / "hello.sh").chmod(0o755)


def _third(worktree: Path) -> None:
    (worktree / "shopping.txt").unlink()
    (worktree / "list").symlink_to("shopping.txt")


_TURNS = (
    _Turn("Add bread to my notes", _first, "added a line to notes.txt"),
    _Turn("Call the notes shopping.txt", _second, "renamed notes.txt and made hello.sh executable"),
    _Turn("Make a shortcut to it", _third, "made a link, and deleted shopping.txt by mistake"),
)
