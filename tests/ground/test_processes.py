"""Processes at work in a directory, seen from outside, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yolop_cli.ground.processes import family, writers, writers_below

_READY = "print(flush=True); import time; time.sleep(60)"


@contextmanager
def _process(code: str, cwd: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", code + _READY], cwd=cwd, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_working_directory_below_the_root_counts(tmp_path: Path) -> None:
    deep = tmp_path / "root" / "deep"
    deep.mkdir(parents=True)
    with _process("", deep) as process:
        (writer,) = writers(tmp_path / "root")
        assert (writer.pid, writer.why, writer.path) == (process.pid, "working directory", deep)
        assert writer.name
        assert writers(tmp_path / "root" / "deep" / "deeper") == ()
        assert writers(tmp_path / "roo") == ()


def test_open_file_below_the_root_counts_once(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    code = f"a = open({str(root / 'a')!r}, 'w'); b = open({str(root / 'b')!r}, 'w');"
    with _process(code, tmp_path) as process:
        (writer,) = writers(root)
        assert (writer.pid, writer.why) == (process.pid, "open file")
        assert writer.path in (root / "a", root / "b")


def test_root_named_through_a_link_is_the_same_directory(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    link = tmp_path / "link"
    link.symlink_to(root)
    with _process("", root) as process:
        assert [writer.pid for writer in writers(link)] == [process.pid]
        both = writers_below([link, root, tmp_path / "other"])
        assert {path: [writer.pid for writer in found] for path, found in both.items()} == {
            link: [process.pid],
            root: [process.pid],
        }


def test_own_family_does_not_count_unless_asked_for(tmp_path: Path) -> None:
    with open(tmp_path / "mine", "w"):
        assert writers(tmp_path) == ()
        assert [writer.pid for writer in writers(tmp_path, aside=())] == [os.getpid()]
    assert {os.getpid(), os.getppid()} <= family()
