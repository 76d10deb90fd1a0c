"""A machine of its own for one test: homes, configuration, a repository, a worktree, a session.

Everything lives below one temporary directory; a run whose environment points outside it is refused.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import program, reader, templates, trees
from tests.support.agent import TIME, Agent
from tests.support.program import Ran

SID = "session_00000000000070008000000000000001"
OTHER_SID = "session_00000000000070008000000000000002"
HOMES = ("HOME", "TMPDIR", "YOLOP_DATA_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
GITCONFIG = '[user]\n\tname = tester\n\temail = none\n[protocol "file"]\n\tallow = always\n'


class OutsideTheSandboxError(AssertionError):
    """A test was about to run the program or git with a home that is not its own."""


class Sandbox:
    """Temporary homes and makers of repositories, worktrees and sessions, as the cases describe them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home, self.tmp, self.data = root / "home", root / "tmp", root / "data"
        root.mkdir(exist_ok=True)
        for directory in (self.home, self.tmp, root / "xdg"):
            directory.mkdir()
        self.sessions = self.data / "sessions"
        self.sessions.mkdir(mode=0o700, parents=True)
        os.chmod(self.sessions, 0o700)
        (self.home / ".gitconfig").write_text(GITCONFIG)
        self.env = self._environment()
        self.sid = SID
        self.repo = root / "repo"
        self.branch = "work"
        self.agent = Agent(self.session)

    def _environment(self) -> dict[str, str]:
        passed = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
        return {
            **passed,
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "YOLOP_DATA_DIR": str(self.data),
            "XDG_CONFIG_HOME": str(self.root / "xdg"),
            "XDG_DATA_HOME": str(self.root / "xdg"),
            "XDG_CACHE_HOME": str(self.root / "xdg"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
            "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
            "GIT_TERMINAL_PROMPT": "0",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
        }

    # -- places

    @property
    def session(self) -> Path:
        """The session's directory."""
        return self.sessions / self.sid

    @property
    def timeline(self) -> Path:
        """The session's journal."""
        return self.session / "timeline.jsonl"

    @property
    def worktree(self) -> Path:
        """The linked worktree that the session owns, once it is made."""
        return self.tmp / "yolop" / "worktrees" / "0a1b2c" / self.sid

    def refs(self) -> dict[str, str]:
        """Every private ref of the repository and the object it names."""
        listed = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/yolop", at=self.repo)
        return dict(line.split(" ") for line in listed.decode().split("\n") if line)

    def records(self) -> list[dict[str, Any]]:
        """The records of the timeline, by the tests' own reader."""
        return reader.records(self.timeline)

    def folded(self) -> reader.Folded:
        """What they add up to, by the tests' own fold."""
        return reader.fold(self.records())

    # -- makers

    def make_repo(self, *options: str, files: Mapping[str, str | bytes] | None = None) -> Path:
        """A repository with one commit: ``a.txt`` holding ``one``, unless other files are given."""
        if not options and files is None and self._as_made():
            templates.copied("repository", lambda root: Sandbox(root)._make_repo(), self.root)
            return self.repo
        return self._make_repo(*options, files=files)

    def _make_repo(self, *options: str, files: Mapping[str, str | bytes] | None = None) -> Path:
        self.git("init", "-q", "-b", "main", *options, str(self.repo), at=self.root)
        for name, content in (files or {"a.txt": "one\n"}).items():
            self.write(name, content, at=self.repo)
        self.git("add", "-A", at=self.repo)
        self.git("commit", "-qm", "init", at=self.repo)
        return self.repo

    def make_worktree(self) -> Path:
        """The session's own linked worktree of the repository, and the metadata that says so."""
        self.worktree.parent.mkdir(parents=True, exist_ok=True)
        self.git("worktree", "add", "-q", "-b", self.branch, str(self.worktree), at=self.repo)
        self.make_session(owned=True)
        return self.worktree

    def make_session(self, *, owned: bool, root: Path | None = None, **metadata: Any) -> Path:
        """The session's directory with its workspace.json."""
        self.session.mkdir(mode=0o700, parents=True, exist_ok=True)
        value: dict[str, Any] = {"active_root": str(root or self.worktree), "session_kind": "interactive"}
        if owned:
            value["repo_root"] = value["canonical_repo_root"] = str(self.repo)
            value["worktree"] = {
                "path": str(self.worktree),
                "branch": self.branch,
                "base_ref": "main",
                "slug": self.branch,
            }
        self.private(self.session / "workspace.json", json.dumps({**value, **metadata}))
        return self.session

    def ready(self, *options: str) -> Path:
        """A repository and the session's worktree in it."""
        if not options and self._untouched():
            templates.copied("ready", lambda root: Sandbox(root)._ready(), self.root)
            return self.worktree
        return self._ready(*options)

    def _untouched(self) -> bool:
        """Whether there is no repository and no session yet, and those to be made are the usual ones."""
        return (
            type(self) is Sandbox
            and (self.sid, self.branch) == (SID, "work")
            and self._as_made()
            and not self.session.exists()
            and not self.worktree.parent.exists()
        )

    def _as_made(self) -> bool:
        """Whether git would make the repository that the template holds: nothing was set otherwise."""
        return (
            re.fullmatch(r"[\w./-]+", str(self.root), re.ASCII) is not None
            and os.path.realpath(self.tmp) == str(self.root / "tmp")
            and self.repo == self.root / "repo"
            and not self.repo.exists()
            and self.env == self._environment()
            and (self.home / ".gitconfig").read_text() == GITCONFIG
        )

    def _ready(self, *options: str) -> Path:
        self.make_repo(*options)
        return self.make_worktree()

    def make_timeline(self, turns: int) -> Path:
        """A sound timeline with some finished turns, conversation only."""
        self.session.mkdir(mode=0o700, parents=True, exist_ok=True)
        found: list[dict[str, Any]] = [{"type": "initialized", "baseline_end": 0, "created_at": TIME}]
        previous = None
        for number in range(turns):
            start = number * 10 + 1
            name = f"cp_{start}_{number + 1}"
            found.append(checkpoint_record(name, previous, f"p{number}", start))
            found.append(completed_record(name, start + 9))
            previous = name
        self.private(self.timeline, b"".join(json.dumps(record).encode() + b"\n" for record in found))
        return self.timeline

    def agent_checkpoint(self, name: str, tree: str) -> None:
        """Append a finished checkpoint the way the agent does, without a capture mark."""
        if not self.timeline.exists():
            self.make_timeline(0)
        start = int(name.split("_")[1])
        snapshot = {"tree": tree, "reference": f"refs/yolop/checkpoints/{self.sid}/{name}"}
        for record in (checkpoint_record(name, None, "x", start, snapshot), completed_record(name, start)):
            with self.timeline.open("ab") as file:
                file.write(json.dumps(record).encode() + b"\n")

    # -- files

    def write(
        self, name: str | bytes, content: str | bytes = "", *, at: Path | None = None, mode: int | None = None
    ) -> Path:
        """Write a file below the worktree (or ``at``), making its directories."""
        path = Path(os.fsdecode(os.path.join(os.fsencode(at or self.worktree), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if mode is not None:
            os.chmod(path, mode)
        return path

    def read(self, name: str | bytes) -> bytes:
        """A file of the worktree."""
        return Path(os.fsdecode(os.path.join(os.fsencode(self.worktree), os.fsencode(name)))).read_bytes()

    def private(self, path: Path, content: str | bytes) -> Path:
        """A session file, 0600."""
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.chmod(path, 0o600)
        return path

    def state(self) -> dict[bytes, trees.Entry]:
        """The worktree as it is."""
        return trees.state(self.worktree)

    # -- git and the program

    def environment(self, extra: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """The sandbox's environment with changes (None takes a variable away). Never leads outside."""
        merged = {key: value for key, value in {**self.env, **(extra or {})}.items() if value is not None}
        for name in HOMES:
            value = merged.get(name)
            if value is not None and not Path(os.path.abspath(value)).is_relative_to(self.root):
                raise OutsideTheSandboxError(f"{name}={value} is outside {self.root}")
        if "HOME" not in merged:
            raise OutsideTheSandboxError("HOME is not set")
        if "YOLOP_DATA_DIR" not in merged and "XDG_DATA_HOME" not in merged and not merged["HOME"]:
            raise OutsideTheSandboxError("no data directory is set")
        return merged

    def git(
        self, *arguments: str, at: Path | None = None, ok: tuple[int, ...] = (0,), stdin: bytes = b""
    ) -> bytes:
        """Plain git in the worktree (or ``at``)."""
        return trees.git(at or self.worktree, *arguments, env=self.environment(), ok=ok, stdin=stdin)

    def cli(
        self,
        *arguments: str | bytes | Path,
        code: int | Sequence[int] = 0,
        stdin: bytes | None = None,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
        session: bool = True,
        watch: bool = True,
        prefix: Sequence[str] = (),
        timeout: float = 90,
        process: bool = False,
    ) -> Ran:
        """Run the program; the exit code must be the expected one.

        ``-s`` and the session's id are added unless ``session`` is off. With ``watch`` the user's git state
        of the repository and the worktree must be the same before and after, and session files private.
        ``process`` asks for a process of its own (``program.run`` says when that is needed).
        """
        words = [part if isinstance(part, str | bytes) else str(part) for part in arguments]
        if session and not {"-s", "--session"} & set(words):
            words += ["-s", self.sid]
        before = self.gitstates(words) if watch else None
        ran = program.run(
            words,
            env=self.environment(env),
            cwd=cwd or self.root,
            stdin=stdin,
            prefix=prefix,
            timeout=timeout,
            process=process,
        )
        program.check(ran, code)
        if watch:
            after = self.gitstates(words)
            assert before == after, f"git state changed: {_differences(before, after)}\n{ran.dump()}"
            self.assert_private()
        return ran

    def gitstates(self, words: Sequence[str | bytes] = ()) -> dict[str, object]:
        """What no command may change in the repository and the worktree."""
        restores = "apply" in words or "cancel" in words or "--yes" in words
        return {
            f"{place.name}:{key}": value
            for place in (self.repo, self.worktree)
            if (place / ".git").exists()
            for key, value in trees.gitstate(
                place, self.env, status=place == self.worktree and not restores
            ).items()
        }

    def assert_private(self) -> None:
        """Session files are for the owner alone."""
        if not self.session.is_dir():
            return
        for path in (self.session, *self.session.rglob("*")):
            status = path.lstat()
            if not stat.S_ISLNK(status.st_mode):
                assert not status.st_mode & 0o077, f"{path} has mode {stat.S_IMODE(status.st_mode):o}"

    # -- the commands of the contract

    def cap(self, prompt: str = "x", **options: Any) -> str:
        """A whole turn without events: create and complete. Gives the checkpoint's id."""
        name = self.create(prompt, **options)["id"]
        self.cli("checkpoint", "complete", "--json", **options)
        return str(name)

    def create(self, prompt: str = "x", **options: Any) -> dict[str, Any]:
        """Begin a turn. Gives the CHECKPOINT."""
        made: dict[str, Any] = self.cli("checkpoint", "create", "--prompt", prompt, "--json", **options).json
        assert made["session_id"] == self.sid
        return dict(made["checkpoint"])

    def complete(self, *arguments: str) -> None:
        """End the pending turn."""
        self.cli("checkpoint", "complete", *arguments, "--json")

    def checkpoints(self, *arguments: str, **options: Any) -> list[dict[str, Any]]:
        """``checkpoint list``."""
        return list(self.cli("checkpoint", "list", *arguments, "--json", **options).json["checkpoints"])

    def checkpoint(self, name: str) -> dict[str, Any]:
        """One CHECKPOINT of the list of all branches."""
        return next(item for item in self.checkpoints("--all-branches") if item["id"] == name)

    def plan(self, name: str, mode: str | None = "workspace", **options: Any) -> dict[str, Any]:
        """``rewind preview``."""
        mode_words = ("--mode", mode) if mode else ()
        return dict(self.cli("rewind", "preview", name, *mode_words, "--json", **options).json)

    def apply(self, token: str, **options: Any) -> Ran:
        """``rewind apply``."""
        return self.cli("rewind", "apply", token, "--json", **options)

    def back(self, name: str, mode: str | None = "workspace", **options: Any) -> dict[str, Any]:
        """Preview and apply. Gives the result."""
        return dict(self.apply(self.plan(name, mode, **options)["token"], **options).json)

    def undo(self, *arguments: str) -> dict[str, Any]:
        """``undo --yes``."""
        return dict(self.cli("undo", *arguments, "--yes", "--json").json)

    def redo(self, *arguments: str) -> dict[str, Any]:
        """``redo --yes``."""
        return dict(self.cli("redo", *arguments, "--yes", "--json").json)

    def turn(self, prompt: str, changes: Iterable[tuple[str, str | bytes]] = (), **options: Any) -> str:
        """A whole turn of the agent: checkpoint, message, changed files, a tool result, an answer."""
        name = self.create(prompt, **options)["id"]
        self.agent.ask(prompt)
        for path, content in changes:
            self.write(path, content)
        self.agent.tool(f"tool of {prompt}")
        self.agent.answer(f"answer to {prompt}")
        self.complete()
        return str(name)

    def supports(self, *command: str) -> bool:
        """Whether the program has a command."""
        return self.cli(*command, "--help", code=(0, 2), session=False, watch=False).code == 0

    def settle(self) -> None:
        """Wait until children of a killed program have let go of the session's locks."""
        import fcntl

        for path in (self.sessions / ".locks" / self.sid, self.session / "events.jsonl"):
            for _ in range(200):
                if not path.exists():
                    break
                fd = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(0.02)
                finally:
                    os.close(fd)


def _differences(before: object, after: object) -> list[str]:
    assert isinstance(before, dict) and isinstance(after, dict)
    keys = sorted(before.keys() | after.keys())
    return [
        f"{key}: {before.get(key)} -> {after.get(key)}" for key in keys if before.get(key) != after.get(key)
    ]


def checkpoint_record(
    name: str, parent: str | None, prompt: str, start: int, snapshot: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A ``checkpoint_created`` as the agent writes it."""
    return {
        "type": "checkpoint_created",
        "id": name,
        "parent": parent,
        "prompt": prompt,
        "event_start": start,
        "snapshot": snapshot,
        "snapshot_error": None,
        "created_at": TIME,
    }


def completed_record(name: str, end: int, success: bool = True) -> dict[str, Any]:
    """A ``turn_completed`` as the agent writes it."""
    return {
        "type": "turn_completed",
        "checkpoint_id": name,
        "event_end": end,
        "success": success,
        "completed_at": TIME,
    }
