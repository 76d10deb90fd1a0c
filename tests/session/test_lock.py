"""The two locks of a session: who has them, who keeps them, and that looking leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import holders
from tests.support.sandbox import SID
from yolop_cli.ground.errors import BusyError, StorageError
from yolop_cli.session import lock
from yolop_cli.session.directory import SessionDirectory

Which = Callable[[SessionDirectory], Path]
EACH = pytest.mark.parametrize("which", [lambda s: s.lock, lambda s: s.events], ids=["lock", "events"])


@pytest.fixture
def session(tmp_path: Path) -> SessionDirectory:
    path = tmp_path / "sessions" / SID
    path.mkdir(mode=0o700, parents=True)
    return SessionDirectory(path)


@pytest.fixture
def logged(session: SessionDirectory) -> SessionDirectory:
    session.events.write_bytes(b"")
    return session


def tree(session: SessionDirectory) -> dict[Path, tuple[int, int, int]]:
    found = (session.path.parent, *session.path.parent.rglob("*"))
    return {path: (path.lstat().st_mode, path.lstat().st_mtime_ns, path.lstat().st_ino) for path in found}


def test_lock_file_and_its_directory_are_private_and_nothing_else_is_made(session: SessionDirectory) -> None:
    old = os.umask(0)
    try:
        with lock.held(session) as descriptors:
            assert len(descriptors) == 1
    finally:
        os.umask(old)
    assert stat.S_IMODE(session.lock.stat().st_mode) == 0o600
    assert stat.S_IMODE(session.lock.parent.stat().st_mode) == 0o700
    assert not session.events.exists()


@EACH
def test_lock_of_another_process_is_busy_at_once(logged: SessionDirectory, which: Which) -> None:
    with holders.flock(which(logged)):
        assert lock.is_held(logged)
        with pytest.raises(BusyError) as caught, lock.held(logged):
            raise AssertionError("both locks were taken")
        assert caught.value.details["session_id"] == SID
        assert caught.value.hint
    assert not lock.is_held(logged)
    with lock.held(logged) as descriptors:
        assert len(descriptors) == 2


@EACH
def test_busy_lets_go_of_the_lock_it_had(logged: SessionDirectory, which: Which) -> None:
    with holders.flock(which(logged)):
        with pytest.raises(BusyError), lock.held(logged):
            pass
        other = logged.events if which(logged) == logged.lock else logged.lock
        with holders.flock(other):
            pass


def test_both_locks_are_seen_from_outside_and_let_go(logged: SessionDirectory) -> None:
    look = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def is_free(path: Path) -> bool:
        ran = subprocess.run([sys.executable, "-c", look, str(path)], capture_output=True, check=False)
        return ran.returncode == 0

    with lock.held(logged):
        assert lock.is_held(logged)
        assert not is_free(logged.lock) and not is_free(logged.events)
        with pytest.raises(BusyError), lock.held(logged):
            pass
        assert not is_free(logged.lock)
    assert is_free(logged.lock) and is_free(logged.events)


def test_failure_inside_lets_go(logged: SessionDirectory) -> None:
    with pytest.raises(KeyboardInterrupt), lock.held(logged):
        raise KeyboardInterrupt
    assert not lock.is_held(logged)


def test_child_that_was_given_them_keeps_the_locks(logged: SessionDirectory) -> None:
    with lock.held(logged) as descriptors:
        stays = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=descriptors)
        plain = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert stays.stdin is not None and plain.stdin is not None
    try:
        assert lock.is_held(logged)
        with pytest.raises(BusyError), lock.held(logged):
            pass
        stays.stdin.close()
        stays.wait(10)
        assert not lock.is_held(logged)  # a child that was not given them has none
    finally:
        for child in (stays, plain):
            if child.stdin and not child.stdin.closed:
                child.stdin.close()
            child.wait(10)


def test_looking_makes_no_file_and_leaves_no_lock(session: SessionDirectory) -> None:
    before = tree(session)
    assert not lock.is_held(session)
    assert lock.holder(session) is None
    assert tree(session) == before
    with lock.held(session):
        pass
    session.events.write_bytes(b"")
    before = tree(session)
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(3):
        assert not lock.is_held(session)
    assert tree(session) == before
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) == descriptors
    with holders.flock(session.lock), holders.flock(session.events):
        assert lock.is_held(session)


def test_readers_that_look_do_not_see_each_other(logged: SessionDirectory) -> None:
    with lock.held(logged):
        pass
    with logged.lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert not lock.is_held(logged)


def test_old_layout_locks_the_log_beside_the_directory(session: SessionDirectory) -> None:
    beside = session.path.parent / f"{SID}.jsonl"
    beside.write_bytes(b"")
    with holders.flock(beside):
        assert lock.is_held(session)
        with pytest.raises(BusyError), lock.held(session):
            pass


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not tell who holds a lock")
def test_holder_is_the_process_that_has_the_lock_file(session: SessionDirectory) -> None:
    with holders.flock(session.lock) as pid:
        assert lock.holder(session) == pid
    assert lock.holder(session) is None


def test_link_in_place_of_the_lock_makes_no_file_elsewhere(session: SessionDirectory, tmp_path: Path) -> None:
    session.lock.parent.mkdir(mode=0o700)
    session.lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError), lock.held(session):
        pass
    assert not (tmp_path / "elsewhere").exists()
    assert not lock.is_held(session)


@EACH
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "directory"])
def test_what_is_no_file_hangs_nobody(
    session: SessionDirectory, which: Which, make: Callable[[Path], None]
) -> None:
    which(session).parent.mkdir(mode=0o700, exist_ok=True)
    make(which(session))
    assert not lock.is_held(session)
    with pytest.raises(StorageError), lock.held(session):
        pass
    if which(session) == session.events:  # the lock that was taken first is free again
        with holders.flock(session.lock):
            pass
