"""Which session is meant: path, id, prefix, environment, current directory; and what is never one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import Sandbox
from yolop_cli.ground.errors import (
    DeniedError,
    NotFoundError,
    RefusedError,
    StorageError,
    UsageError,
    YolopError,
)
from yolop_cli.session.find import find, sessions
from yolop_cli.session.places import Places

A = "session_" + "a" * 32
AB = "session_" + "a" * 16 + "b" * 16
B = "session_" + "b" * 32


class Machine:
    """A sessions directory, a place to stand in, and sessions whose metadata name roots."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions = root / "sessions"
        self.sessions.mkdir(mode=0o700)
        self.here = root / "here"
        self.here.mkdir()
        self.environ: dict[str, str] = {}

    def make(self, name: str, workspace: Any = None, at: Path | None = None) -> Path:
        path = (at or self.sessions) / name
        path.mkdir(mode=0o700, parents=True)
        if workspace is not None:
            text = workspace if isinstance(workspace, str) else json.dumps(workspace)
            (path / "workspace.json").write_text(text)
        return path

    def find(self, named: str | None = None, here: Path | None = None) -> Path:
        return find(Places(self.sessions, (), here or self.here, self.environ), named).path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# -- named


@pytest.mark.parametrize("named", [A, "a" * 32, "a" * 17, A[:25], "session_aaaaaaaaaaaaaaaaa"])
def test_id_and_unique_prefix(machine: Machine, named: str) -> None:
    for name in (A, AB, B):
        machine.make(name)
    assert machine.find(named) == machine.sessions / A


def test_prefix_of_several_names_them(machine: Machine) -> None:
    machine.make(A), machine.make(AB), machine.make(B)
    for named in ("a", "session_aaaa"):
        with pytest.raises(UsageError) as caught:
            machine.find(named)
        assert caught.value.details["sessions"] == [A, AB]
    assert machine.find("b") == machine.sessions / B


def test_path_absolute_or_from_here(machine: Machine) -> None:
    path = machine.make(A, at=machine.here / "deep")
    for named in (str(path), f"{path}/", f"deep/{A}", f"./deep/{A}", f"../here/deep/{A}/.", f"deep//{A}"):
        assert machine.find(named) == path
    for named in (".", "./", f"../{A}"):
        assert machine.find(named, here=path) == path


def test_id_is_looked_up_among_the_sessions_not_here(machine: Machine) -> None:
    path = machine.make(A)
    machine.make(A, at=machine.here)
    assert machine.find(A) == path
    assert machine.find(f"./{A}") == machine.here / A


def test_environment_counts_only_when_nothing_is_named(machine: Machine) -> None:
    machine.make(A, {"active_root": str(machine.here)}), machine.make(B)
    machine.environ["YOLOP_SESSION"] = "b"
    assert machine.find() == machine.sessions / B
    assert machine.find("a") == machine.sessions / A
    machine.environ["YOLOP_SESSION"] = ""
    assert machine.find() == machine.sessions / A


NO_IDS = [
    "",
    "..",
    "...",
    "session_",
    "session_.",
    "session_..",
    "session_*",
    "*",
    "?",
    "~",
    "-",
    "g",
    "sessions",
]
NEARLY = [
    "A" * 32,
    "a" * 33,
    f"{A}0",
    A.upper(),
    f"{A}\n",
    "a\n",
    "\na",
    f"{A} ",
    f"{A}\0",
    f"{A}\x1b[2J",
    "\udcff",
]
NO_PATHS = [
    ".",
    "/",
    "./",
    "../",
    ".locks",
    "../sessions",
    "../sessions/x",
    "../sessions/.locks",
    f"../sessions/{A}/..",
]
NEARLY_PATHS = [
    f"../sessions/{A}\n",
    "../sessions/session_/",
    f"../sessions/{A}/timeline.jsonl",
    f"../sessions/{A}/../..",
]
OTHER_DIGITS = ["ａ" * 32, "١" * 32]


@pytest.mark.parametrize("named", [*NO_IDS, *NEARLY, *NO_PATHS, *NEARLY_PATHS, *OTHER_DIGITS])
def test_what_names_no_session_is_not_found(machine: Machine, named: str) -> None:
    machine.make(A)
    machine.make(f"{A}\n")
    machine.make(".locks")
    with pytest.raises(NotFoundError) as caught:
        machine.find(named)
    assert caught.value.hint


@pytest.mark.parametrize(
    "named", ["c", "c" * 32, "session_c", f"../sessions/session_{'c' * 32}", "/nowhere/" + A]
)
def test_session_that_is_not_there_is_not_found(machine: Machine, named: str) -> None:
    machine.make(A)
    with pytest.raises(NotFoundError):
        machine.find(named)


def test_file_of_that_name_is_no_session(machine: Machine) -> None:
    (machine.sessions / A).write_text("")
    for named in (A, "a", str(machine.sessions / A)):
        with pytest.raises(NotFoundError):
            machine.find(named)


def test_link_is_refused_by_name_and_passed_over_in_lists(machine: Machine) -> None:
    target = machine.make(B, {"active_root": str(machine.here)}, at=machine.root / "elsewhere")
    (machine.sessions / A).symlink_to(target)
    for named in (A, str(machine.sessions / A)):
        with pytest.raises(DeniedError):
            machine.find(named)
    for named in ("a", None):
        with pytest.raises(NotFoundError):
            machine.find(named)


def test_links_above_the_session_are_followed(machine: Machine) -> None:
    path = machine.make(A)
    (machine.root / "link").symlink_to(machine.sessions)
    assert machine.find(f"../link/{A}") == path
    machine.sessions = machine.root / "link"
    assert machine.find("a") == path


# -- by directory


def test_deepest_directory_wins(machine: Machine) -> None:
    machine.make(A, {"active_root": str(machine.here)})
    machine.make(B, {"active_root": str(machine.here / "sub/deep")})
    (machine.here / "sub/deep/er").mkdir(parents=True)
    assert machine.find(here=machine.here) == machine.sessions / A
    assert machine.find(here=machine.here / "sub") == machine.sessions / A
    assert machine.find(here=machine.here / "sub/deep") == machine.sessions / B
    assert machine.find(here=machine.here / "sub/deep/er") == machine.sessions / B


def test_worktree_counts_as_the_active_root_does(machine: Machine) -> None:
    worktree = {"path": str(machine.here / "tree"), "branch": "x", "base_ref": "y", "slug": "z"}
    machine.make(A, {"active_root": str(machine.root), "worktree": worktree})
    machine.make(B, {"workspace_root": str(machine.here)})
    assert machine.find(here=machine.here / "tree/below") == machine.sessions / A
    assert machine.find(here=machine.here) == machine.sessions / B
    assert machine.find(here=machine.root) == machine.sessions / A


def test_tie_names_them(machine: Machine) -> None:
    for name in (A, B):
        machine.make(name, {"active_root": str(machine.here)})
    machine.make(AB, {"active_root": str(machine.root)})
    with pytest.raises(RefusedError) as caught:
        machine.find()
    assert caught.value.details["sessions"] == [A, B]
    assert A in caught.value.message and B in caught.value.message
    assert caught.value.exit_status == 4


def test_only_whole_names_of_directories_match(machine: Machine) -> None:
    machine.make(A, {"active_root": str(machine.root / "he")})
    machine.make(B, {"active_root": f"{machine.root}/here-not"})
    with pytest.raises(NotFoundError):
        machine.find()


def test_links_lead_to_the_same_directory(machine: Machine) -> None:
    (machine.root / "link").symlink_to(machine.here)
    machine.make(A, {"active_root": str(machine.root / "link")})
    assert machine.find() == machine.sessions / A
    assert machine.find(here=machine.root / "link") == machine.sessions / A
    assert machine.find(here=machine.here / "below") == machine.sessions / A


ROOTS = ["null", "7", '""', '"."', '"here"', r'"/\u0000"']
SILENT = [None, "", "{", "[]", "null", "{}", "\ufeff{}", '{"worktree":[]}', '{"worktree":{"path":null}}']


@pytest.mark.parametrize("workspace", [*SILENT, *(f'{{"active_root":{root}}}' for root in ROOTS)])
def test_session_whose_metadata_say_nothing_hides_no_other(machine: Machine, workspace: Any) -> None:
    machine.make(A, workspace)
    with pytest.raises(NotFoundError):
        machine.find()
    machine.make(B, {"active_root": str(machine.here)})
    assert machine.find() == machine.sessions / B


def test_pipe_in_place_of_the_metadata_hides_no_other_and_hangs_nobody(machine: Machine) -> None:
    os.mkfifo(machine.make(A) / "workspace.json")
    machine.make(B, {"active_root": str(machine.here)})
    assert machine.find() == machine.sessions / B


def test_directory_whose_name_is_not_utf8(machine: Machine) -> None:
    here = Path(os.fsdecode(os.fsencode(machine.root) + b"/\xff\n\x1b"))
    here.mkdir()
    machine.make(A, {"active_root": str(machine.root)})
    assert machine.find(here=here) == machine.sessions / A


# -- lists


def test_lists_hold_session_directories_alone_sorted_by_name(machine: Machine) -> None:
    (
        machine.make(B),
        machine.make(A),
        machine.make(".locks"),
        machine.make(f"{AB}\n"),
        machine.make("session_a"),
    )
    (machine.sessions / AB).write_text("")
    (machine.sessions / f"{A}.jsonl").write_text("")
    found = [session.path for session in sessions(Places(machine.sessions, (), machine.here, {}))]
    assert found == [machine.sessions / A, machine.sessions / B]


@pytest.mark.parametrize("kind", ["missing", "file", "empty"])
def test_no_sessions_directory_means_no_sessions(machine: Machine, kind: str) -> None:
    machine.sessions.rmdir()
    if kind == "file":
        machine.sessions.write_text("")
    elif kind == "empty":
        machine.sessions.mkdir()
    assert list(sessions(Places(machine.sessions, (), machine.here, {}))) == []


def test_looping_sessions_directory_is_an_error_not_an_empty_list(machine: Machine) -> None:
    machine.sessions.rmdir()
    machine.sessions.symlink_to(machine.sessions)
    with pytest.raises(StorageError):
        list(sessions(Places(machine.sessions, (), machine.here, {})))


def test_unreadable_sessions_directory_is_an_error_not_an_empty_list(box: Sandbox) -> None:
    box.sessions.chmod(0)
    try:
        said = box.cli("session", "list", session=False, code=9, prefix=UNPRIVILEGED).said
    finally:
        box.sessions.chmod(0o700)
    assert str(box.sessions) in said


# -- where to look


def test_places_in_their_order(tmp_path: Path) -> None:
    environ = {"HOME": "/h"}
    assert Places.of(environ, tmp_path).sessions == Path("/h/.local/share/yolop/sessions")
    environ["XDG_DATA_HOME"] = "relative"
    assert Places.of(environ, tmp_path).sessions == Path("/h/.local/share/yolop/sessions")
    environ["XDG_DATA_HOME"] = "/x"
    assert Places.of(environ, tmp_path).sessions == Path("/x/yolop/sessions")
    environ["YOLOP_DATA_DIR"] = "data"
    assert Places.of(environ, tmp_path).sessions == tmp_path / "data/sessions"
    environ["YOLOP_SESSIONS_DIR"] = "/s"
    assert Places.of(environ, tmp_path).sessions == Path("/s")
    assert Places.of(environ, tmp_path, Path("given")).sessions == tmp_path / "given"
    assert Places.of(environ, tmp_path).worktree_roots == (
        Path("/tmp/yolop/worktrees"),
        Path("/h/.yolop/worktrees"),
    )
    environ["TMPDIR"] = "t"
    assert Places.of(environ, tmp_path).worktree_roots[0] == tmp_path / "t/yolop/worktrees"


def test_every_error_of_finding_is_one_a_user_can_read(machine: Machine) -> None:
    for number in range(256):
        with pytest.raises(YolopError):
            machine.find(os.fsdecode(bytes([number])))
