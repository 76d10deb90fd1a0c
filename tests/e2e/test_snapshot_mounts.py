"""Directories in which something is mounted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.test_snapshot_cases import Plain
from tests.support.sandbox import Sandbox
from yolop_cli.store import mounts

OWN = ("unshare", "-m", "--propagation", "private", "sh", "-c")


@pytest.fixture
def plain(box: Sandbox) -> Plain:
    return Plain(box)


def mounting(source: Path, at: Path) -> tuple[str, ...]:
    """A prefix under which ``source`` is mounted for the program alone."""
    prefix = (*OWN, 'mount --bind "$0" "$1" && shift && exec "$@"', str(source), str(at))
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    return prefix


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_a_mount_point_that_would_have_to_go_is_denied_in_a_dry_run_too(
    plain: Plain, kind: str, words: tuple[str, ...]
) -> None:
    made = plain.snap()
    source, at = plain.box.root / "source", plain.root / "with blank" / "mnt"
    at.parent.mkdir()
    for each in (source, at):
        each.mkdir() if kind == "directory" else each.write_text("x\n")
    before = plain.state()
    error = plain.ran("restore", made, *words, code=7, prefix=mounting(source, at)).error
    assert error["details"]["paths"] == ["with blank/mnt"]
    assert error["details"]["reasons"] == ["is a mount point"]
    assert {path for path in plain.state() if not path.startswith(b".cog")} == {
        path for path in before if not path.startswith(b".cog")
    }
    plain.run("restore", made, *words)


def test_what_lies_below_a_mount_point_is_restored(plain: Plain) -> None:
    source, at = plain.box.root / "source", plain.root / "mnt"
    plain.write("mnt/hidden", "h\n")
    source.mkdir()
    (source / "a").write_text("one\n")
    prefix = mounting(source, at)
    made = plain.ran("create", prefix=prefix).json["id"]
    (source / "a").write_text("two\n")
    (source / "new").write_text("n\n")
    plain.ran("restore", made, prefix=prefix)
    assert [(each.name, each.read_text()) for each in source.iterdir()] == [("a", "one\n")]


def test_the_table_is_read_as_it_is_written() -> None:
    table = b"1 2 3:4 / / rw - ext4 d rw\n5 1 3:4 /s /a\\040b\\134c rw shared:1 - ext4 d rw\n"
    assert mounts.points(table) == [b"/", b"/a b\\c"]
    assert b"" not in mounts.below(Path("/"))
