"""Journals: what a line is, and appends that lose nothing whatever the file ends in."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import program
from yolop_cli.ground import journal
from yolop_cli.ground.errors import StorageError
from yolop_cli.ground.journal import AppendReport, append, append_bytes, is_blank, read_lines

ONE, TWO, NEW = b'{"n":1}', b'{"n":2}', b'{"n":"new"}'


def readable(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session" / "timeline.jsonl"


@pytest.fixture
def rejected(path: Path) -> Path:
    return path.with_name("timeline.rejected.jsonl")


def put(path: Path, data: bytes, mode: int = 0o600) -> None:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def add(path: Path, rejected: Path, *records: bytes) -> AppendReport:
    return append(path, list(records or (NEW,)), readable=readable, rejected=rejected)


# -- lines


@pytest.mark.parametrize(
    "inside",
    ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x00", "\r", "\x1c", "\x1d", "\x1e", "\ufeff", "\u00a0"],
)
def test_only_a_line_feed_ends_a_line(path: Path, inside: str) -> None:
    first = f'{{"n":"a{inside}b"}}'.encode()
    put(path, first + b"\n" + TWO + b"\n")
    assert [line.data for line in read_lines(path)] == [first, TWO]


@pytest.mark.parametrize("blank", [b"", b" ", b"\t", b"\r", b"\x0c", b" \t\r\x0c \r"])
def test_lines_of_ascii_white_space_do_not_count(path: Path, blank: bytes) -> None:
    assert is_blank(blank)
    put(path, blank + b"\n" + ONE + b"\n" + blank + b"\n" + TWO + b"\n" + blank)
    found = read_lines(path)
    assert [(line.number, line.data) for line in found] == [(2, ONE), (4, TWO)]
    assert [path.read_bytes()[line.offset : line.end] for line in found] == [ONE + b"\n", TWO + b"\n"]


@pytest.mark.parametrize(
    "damage", [b"\x00", b"\x0b", "\u00a0".encode(), b"\xef\xbb\xbf", "\u2028".encode(), b"\x85"]
)
def test_other_invisible_lines_count(path: Path, damage: bytes) -> None:
    assert not is_blank(damage)
    put(path, b" " + damage + b" \n" + ONE + b"\n")
    assert [line.data for line in read_lines(path)] == [b" " + damage + b" ", ONE]


def test_no_file_and_an_empty_one_have_no_lines(path: Path) -> None:
    assert read_lines(path) == []
    put(path, b"")
    assert read_lines(path) == []


@given(st.binary(max_size=60).map(lambda data: data.replace(b"x", b"\n")))
def test_lines_are_the_file_cut_at_line_feeds(data: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        found = list(journal.lines(file))
    assert b"".join(line.data + b"\n" * line.terminated for line in found) == data
    assert [line.number for line in found] == list(range(1, len(found) + 1))
    for line in found:
        assert b"\n" not in line.data
        assert data[line.offset : line.end] == line.data + b"\n" * line.terminated
    assert all(line.terminated for line in found[:-1])


# -- appends


def test_append_makes_a_private_file_in_a_private_directory(path: Path, rejected: Path) -> None:
    old = os.umask(0)
    try:
        assert add(path, rejected, ONE, TWO) == AppendReport(b"", False)
    finally:
        os.umask(old)
    assert path.read_bytes() == ONE + b"\n" + TWO + b"\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not rejected.exists()


def test_append_makes_a_file_that_others_could_read_private(path: Path, rejected: Path) -> None:
    put(path, ONE + b"\n", mode=0o644)
    add(path, rejected)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("before", "after", "newline_added"),
    [
        (b"", NEW + b"\n", False),
        (b"\n", b"\n" + NEW + b"\n", False),
        (b" \r\n\n", b" \r\n\n" + NEW + b"\n", False),
        # White space without a line feed: a form feed before a record would make it unreadable.
        (b"\x0c", b"\x0c\n" + NEW + b"\n", True),
        (b"\n \t", b"\n \t\n" + NEW + b"\n", True),
        (ONE + b"\n", ONE + b"\n" + NEW + b"\n", False),
        (ONE, ONE + b"\n" + NEW + b"\n", True),
        (ONE + b"\r\n", ONE + b"\r\n" + NEW + b"\n", False),
        (ONE + b"\r", ONE + b"\r\n" + NEW + b"\n", True),
        (ONE + b"\n\x0c", ONE + b"\n\x0c\n" + NEW + b"\n", True),
        (ONE + b"\n\n \n", ONE + b"\n\n \n" + NEW + b"\n", False),
    ],
)
def test_append_never_lands_on_a_line_that_is_there(
    path: Path, rejected: Path, before: bytes, after: bytes, newline_added: bool
) -> None:
    put(path, before)
    assert add(path, rejected) == AppendReport(b"", newline_added)
    assert path.read_bytes() == after
    assert not rejected.exists()


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n", b"\n \x0c", b" "])
@pytest.mark.parametrize("good", [b"", ONE + b"\n", b"\n" + ONE + b"\n \n"])
@pytest.mark.parametrize(
    "bad", [b'{"n":', b"\x00" * 5, b"\xef\xbb\xbf", ONE + TWO, b"\x0b", b"  {", b"\xff" * 70_000]
)
def test_unreadable_last_line_is_set_aside_first(
    path: Path, rejected: Path, good: bytes, bad: bytes, ending: bytes
) -> None:
    put(path, good + bad + ending)
    rejected.write_bytes(b"earlier\n")
    report = add(path, rejected)
    assert path.read_bytes() == good + NEW + b"\n"
    assert report.set_aside.startswith(bad) and not report.newline_added
    assert rejected.read_bytes().startswith(b"earlier\n" + bad)
    assert rejected.read_bytes().endswith(b"\n")
    assert rejected.read_bytes().count(b"\n") == 2


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors have no names here")
def test_what_is_set_aside_is_durable_before_it_is_cut_off(
    path: Path, rejected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(path, ONE + b"\n" + b'{"n":')
    done: list[tuple[str, str]] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(fd: int, *arguments: int) -> object:
            done.append((name, Path(os.readlink(f"/proc/self/fd/{fd}")).name))
            return real(fd, *arguments)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "ftruncate"):
        watch(name)
    add(path, rejected)
    # The bytes, the name, the cut, the new record, its name: each durable before the next.
    assert done == [
        ("fsync", rejected.name),
        ("fsync", path.parent.name),
        ("ftruncate", path.name),
        ("fsync", path.name),
        ("fsync", path.name),
        ("fsync", path.parent.name),
    ]


def test_records_are_one_write(path: Path, rejected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, ONE)
    written: list[bytes] = []
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(bytes(data)) or real(fd, data))
    add(path, rejected, TWO, NEW)
    assert written == [b"\n" + TWO + b"\n" + NEW + b"\n"]


CHILD = """
import resource, sys
from pathlib import Path
from yolop_cli.ground import journal
from yolop_cli.ground.errors import StorageError
path, rejected, limit = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
record = b'{"n":"' + b"x" * 5000 + b'"}'
try:
    journal.append(path, [record], readable=lambda line: line.endswith(b"}"), rejected=rejected)
except StorageError as error:
    print(error)
"""


def append_to_full_disk(path: Path, rejected: Path, limit: int) -> str:
    """Append 5,000 bytes where no file may grow beyond ``limit``."""
    command = [sys.executable, "-B", "-c", CHILD, str(path), str(rejected), str(limit)]
    ran = subprocess.run(command, cwd=program.ROOT, capture_output=True, timeout=60, check=False, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("before", [ONE + b"\n", ONE], ids=["whole", "no-newline"])
def test_full_disk_leaves_the_file_as_it_was(path: Path, rejected: Path, before: bytes, room: int) -> None:
    put(path, before)
    said = append_to_full_disk(path, rejected, len(before) + room)
    assert "as it was" in said and "File too large" in said
    assert path.read_bytes() == before


def test_full_disk_while_setting_aside_cuts_nothing_off(path: Path, rejected: Path) -> None:
    put(path, ONE + b"\n" + b"{" * 300)
    assert str(rejected) in append_to_full_disk(path, rejected, 50)
    assert path.read_bytes() == ONE + b"\n" + b"{" * 300
    assert rejected.read_bytes() == b""


def test_full_disk_after_setting_aside_loses_nothing(path: Path, rejected: Path) -> None:
    put(path, ONE + b"\n" + b"{" * 300)
    assert append_to_full_disk(path, rejected, 1000)
    assert path.read_bytes() == ONE + b"\n"
    assert rejected.read_bytes() == b"{" * 300 + b"\n"


def test_link_in_place_of_the_journal_stays_a_link(path: Path, rejected: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(ONE)
    path.parent.mkdir(mode=0o700)
    path.symlink_to(elsewhere)
    assert [line.data for line in read_lines(path)] == [ONE]
    add(path, rejected)
    assert path.is_symlink()
    assert elsewhere.read_bytes() == ONE + b"\n" + NEW + b"\n"


def test_dangling_link_makes_no_file_elsewhere(path: Path, rejected: Path, tmp_path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError):
        add(path, rejected)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("kind", ["fifo", "directory", "loop", "device"])
def test_what_is_no_file_is_refused_at_once(path: Path, rejected: Path, kind: str) -> None:
    path.parent.mkdir(mode=0o700)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(path if kind == "loop" else "/dev/zero")
    for action in (lambda: read_lines(path), lambda: add(path, rejected), lambda: append_bytes(path, b"x")):
        with pytest.raises(StorageError, match=str(path)):
            action()


def test_pipe_in_place_of_the_rejected_bytes_cuts_nothing_off(path: Path, rejected: Path) -> None:
    put(path, ONE + b"\n" + b"{")
    os.mkfifo(rejected)
    with pytest.raises(StorageError):
        add(path, rejected)
    assert path.read_bytes() == ONE + b"\n" + b"{"


# -- any file

RECORDS = st.lists(
    st.dictionaries(st.text(max_size=3), st.text(max_size=6) | st.integers(), max_size=3),
    min_size=1,
    max_size=5,
)
BLANKS = st.lists(st.sampled_from([b"", b" ", b"\r", b"\x0c\t"]), max_size=2)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("journals")
    os.chmod(directory, 0o700)
    yield directory


@given(st.lists(st.tuples(BLANKS, RECORDS), max_size=3), st.data())
def test_no_append_after_a_crash_makes_a_corrupt_prefix_or_loses_a_record(
    scratch: Path, pieces: list[tuple[list[bytes], list[dict[str, object]]]], data: st.DataObject
) -> None:
    lines = [
        line
        for blanks, records in pieces
        for line in (*blanks, *(json.dumps(record, ensure_ascii=False).encode() for record in records))
    ]
    good = b"".join(line + b"\n" for line in lines)
    cut = good[: data.draw(st.integers(0, len(good)), label="cut")]
    garbage = data.draw(st.binary(max_size=4).filter(lambda tail: b"\n" not in tail), label="garbage")
    path, rejected = scratch / "timeline.jsonl", scratch / "timeline.rejected.jsonl"
    path.write_bytes(cut + garbage)
    rejected.unlink(missing_ok=True)
    whole = [line for line in (cut + garbage).split(b"\n") if readable(line)]
    unreadable = [line for line in (cut + garbage).split(b"\n") if not readable(line) and not is_blank(line)]

    report = add(path, rejected, NEW, TWO)

    assert path.read_bytes().endswith(b"\n")
    assert [line.data for line in read_lines(path)] == [*whole, NEW, TWO]
    assert [report.set_aside] == (unreadable or [b""])
    assert (rejected.read_bytes() if rejected.exists() else b"") == b"".join(
        each + b"\n" for each in unreadable
    )


def test_end_is_found_across_blocks(path: Path, rejected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for block in (1, 2, 3, 7, 8, 64):
        monkeypatch.setattr(journal, "_CHUNK", block)
        for tail in (b"", b"\n", b"\n   \n \x0c"):
            put(path, ONE + b"\n" + TWO + tail)
            assert add(path, rejected).set_aside == b""
            put(path, ONE + b"\n" + b'{"n":22' + tail)
            add(path, rejected)
            assert path.read_bytes() == ONE + b"\n" + NEW + b"\n"
