"""The one door to the git binary: pinned environment, bytes in, bytes out.

Every call says where it runs (``Where``) and what a non-zero exit means (``ok``). Nothing of the caller's
``GIT_*`` environment gets through, so a foreign ``GIT_DIR`` or ``GIT_INDEX_FILE`` (as inside a hook) cannot
lead a command astray. Paths travel as NUL-separated bytes on standard input, never as arguments.
"""

from __future__ import annotations

import functools
import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from yolop_cli.ground.errors import StorageError, os_reason

MINIMUM_VERSION = (2, 34)
# The user's own choice of configuration files, kept where git is asked for the user's settings.
_CONFIG_FILES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_PINNED = {
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PAGER": "cat",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_FLUSH": "0",
}
# No program that a repository names may start, and nothing it sets may change what plumbing does.
_CONFIG = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.quotePath", "false"),
    ("core.splitIndex", "false"),
    ("core.trustctime", "true"),
    ("core.checkStat", "default"),
    ("core.ignoreStat", "false"),
    ("core.alternateRefsCommand", "true"),
    ("core.protectHFS", "false"),
    ("core.protectNTFS", "false"),
    ("core.fsync", "loose-object,reference"),
    ("core.fsyncMethod", "batch"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("index.threads", "true"),
    ("color.ui", "false"),
    ("advice.detachedHead", "false"),
)


_OWNERSHIP_HINT = "if you trust it, tell git: `git config --global --add safe.directory DIRECTORY`"


@dataclass(frozen=True)
class Where:
    """Where a git process runs: its directory, the ``GIT_*`` variables it sees, extra settings."""

    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    config: tuple[tuple[str, str], ...] = ()
    users_config: bool = False

    def with_config(self, *config: tuple[str, str]) -> Where:
        """The same place with more settings."""
        return Where(self.directory, self.variables, (*self.config, *config), self.users_config)

    def with_variables(self, **variables: str) -> Where:
        """The same place with other ``GIT_*`` variables."""
        return Where(self.directory, {**self.variables, **variables}, self.config, self.users_config)

    def with_index(self, index: Path) -> Where:
        """The same place with another index file."""
        return self.with_variables(GIT_INDEX_FILE=str(index))

    def with_objects(self, directory: Path) -> Where:
        """The same place with new objects read and written in another directory."""
        return self.with_variables(GIT_OBJECT_DIRECTORY=str(directory))


def discovered(directory: Path) -> Where:
    """The repository that holds a directory, found by git with the user's configuration in force."""
    return Where(directory, users_config=True)


def repository(git_dir: Path) -> Where:
    """A repository by its git directory: no discovery, no system or user configuration."""
    return Where(git_dir, {"GIT_DIR": str(git_dir)})


@dataclass(frozen=True)
class Output:
    """What a git process said: its exit status, standard output, standard error."""

    status: int
    out: bytes
    err: bytes

    def records(self) -> list[bytes]:
        """Standard output split at NUL."""
        return split(self.out)

    def line(self) -> str:
        """Standard output as one line of ASCII, as for an object id."""
        return self.out.decode("ascii", "surrogateescape").strip("\n")


def split(data: bytes) -> list[bytes]:
    """NUL-terminated records as a list."""
    parts = data.split(b"\0")
    return parts[:-1] if parts[-1] == b"" else parts


def join(parts: Sequence[bytes]) -> bytes:
    """A list as NUL-terminated records."""
    return b"".join(part + b"\0" for part in parts)


class GitError(StorageError):
    """Git could not do what was asked. ``details`` has its command line and its own words."""

    @property
    def words(self) -> str:
        """What git wrote to standard error."""
        return str(self.details.get("stderr", ""))


@dataclass(frozen=True)
class Git:
    """A git binary and the environment it is run in.

    ``keep`` are descriptors (locks) that children keep open, so that they are not released while a child
    that outlived us still runs. ``timeout`` bounds each call, in seconds.
    """

    environ: Mapping[str, str]
    keep: tuple[int, ...] = ()
    timeout: float | None = None

    def keeping(self, descriptors: tuple[int, ...]) -> Git:
        """The same git whose children keep these descriptors open."""
        return Git(self.environ, descriptors, self.timeout)

    def limited(self, seconds: float) -> Git:
        """The same git with a bound on the time of each call."""
        return Git(self.environ, self.keep, seconds)

    def run(self, where: Where, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> Output:
        """Run git to its end. Raises ``GitError`` for an exit status that is not in ``ok``."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin)
            given.flush()
            given.seek(0)
            status = self._wait(self._launch(where, arguments, given, out, err), arguments)
            output = Output(status, _content(out), _content(err))
        if output.status not in ok:
            raise _error(arguments, output)
        return output

    @contextmanager
    def streaming(self, where: Where, *arguments: str, stdin: bytes = b"") -> Iterator[IO[bytes]]:
        """Run git and read its standard output while it runs: for content of any size.

        Raises ``GitError`` on leaving when git failed.
        """
        reader, writer = os.pipe()
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as err,
            os.fdopen(reader, "rb", buffering=1 << 16) as out,
        ):
            given.write(stdin)
            given.flush()
            given.seek(0)
            with os.fdopen(writer, "wb") as sink:
                running = self._launch(where, arguments, given, sink, err)
            completed = False
            try:
                yield out
                completed = True
            finally:
                out.close()
                status = self._wait(running, arguments)
                if completed and status not in (0, -signal.SIGPIPE):
                    raise _error(arguments, Output(status, b"", _content(err)))

    def version(self) -> tuple[int, ...]:
        """The version of git, as numbers."""
        path = self.environ.get("PATH")
        if path not in _versions:
            match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", self.run(Where(Path("/")), "--version").line())
            _versions[path] = tuple(int(part or 0) for part in match.groups()) if match else (0,)
        return _versions[path]

    def _launch(
        self, where: Where, arguments: tuple[str, ...], given: IO[bytes], out: IO[bytes], err: IO[bytes]
    ) -> Any:
        import sh

        if not where.directory.is_dir():
            raise StorageError(
                f"{where.directory} is not a directory", details={"path": str(where.directory)}
            )
        command = _binary(self.environ.get("PATH"))
        given_arguments, encoding = _encodable(arguments)
        try:
            return command(
                *given_arguments,
                _encoding=encoding,
                _in=given,
                _out=out,
                _err=err,
                _cwd=str(where.directory),
                _env=self._environment(where),
                _tty_out=False,
                _return_cmd=True,
                _bg=True,
                _bg_exc=False,
                _pass_fds=set(self.keep),
            )
        except sh.ForkException as error:
            raise StorageError(f"cannot start git: {str(error).strip().rpartition(chr(10))[2]}") from None
        except OSError as error:
            raise StorageError(f"cannot start git: {os_reason(error)}") from None

    def _wait(self, running: Any, arguments: tuple[str, ...]) -> int:
        """The exit status of a process, negative for a signal. Raises ``GitError`` when time ran out."""
        import sh

        expired = threading.Event()

        def expire() -> None:
            expired.set()
            running.kill()

        # sh's own time limit is watched in steps of a tenth of a second, which each call would pay.
        timer = threading.Timer(self.timeout, expire) if self.timeout is not None else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            running.wait()
            status = int(running.exit_code)
        except sh.ErrorReturnCode as error:
            status = int(error.exit_code)
        finally:
            if timer is not None:
                timer.cancel()
        if expired.is_set():
            details = {"command": ["git", *arguments]}
            raise GitError(f"git {arguments[0]} took too long and was stopped", details=details)
        return status

    def _environment(self, where: Where) -> dict[str, str]:
        environment = {key: value for key, value in self.environ.items() if not key.startswith("GIT_")}
        if where.users_config:
            environment.update({key: self.environ[key] for key in _CONFIG_FILES if key in self.environ})
        else:
            environment.update({"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull})
        environment.update(_PINNED)
        environment.update(where.variables)
        settings = (*_CONFIG, *where.config)
        environment["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (key, value) in enumerate(settings):
            environment[f"GIT_CONFIG_KEY_{number}"] = key
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        return environment


def _encodable(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The arguments and the encoding that turns them into their bytes, for a path that is not UTF-8 too."""
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError:
        return tuple(os.fsencode(word).decode("latin-1") for word in arguments), "latin-1"
    return arguments, "utf-8"


@functools.cache
def _binary(path: str | None) -> Any:
    import sh

    try:
        return sh.Command("git", search_paths=path.split(os.pathsep) if path else None)
    except sh.CommandNotFound:
        raise StorageError("git is not installed, or not on PATH", hint="install git 2.34 or newer") from None


_versions: dict[str | None, tuple[int, ...]] = {}


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _error(arguments: tuple[str, ...], output: Output) -> GitError:
    words = output.err.decode("utf-8", "backslashreplace").strip()
    said = [line for line in words.split("\n") if not line.startswith(("hint:", "warning:"))] or [words]
    reason = said[0].removeprefix("fatal: ").removeprefix("error: ") or f"exit status {output.status}"
    return GitError(
        f"git {arguments[0]} failed: {reason}",
        hint=_OWNERSHIP_HINT if "dubious ownership" in words else None,
        details={"command": ["git", *arguments], "status": output.status, "stderr": words},
    )
