"""Append-only JSON Lines: bytes in, lines with their offsets out, and appends that never fuse.

Rules of the format page ("Reading", "Writing"): bytes are split at line feed and at nothing else; lines
of only space, tab, carriage return and form feed do not count; an append looks at the end of the file
first, sets a damaged last line aside, is one write, is synced, and is taken back when it fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from yolop_cli.ground import files
from yolop_cli.ground.errors import NotFoundError, StorageError, os_reason

BLANK = b" \t\r\f"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its number from 1, its byte offset in the file, its bytes without the line feed."""

    number: int
    offset: int
    data: bytes
    terminated: bool

    @property
    def end(self) -> int:
        """The offset just after the line, its line feed included."""
        return self.offset + len(self.data) + self.terminated


def is_blank(data: bytes) -> bool:
    """Whether a line holds ASCII white space only, and so does not count."""
    return not data.strip(BLANK)


def lines(file: BinaryIO) -> Iterator[Line]:
    """Every line of an open file, blank ones too, holding one line at a time."""
    offset = 0
    for number, raw in enumerate(file, start=1):
        terminated = raw.endswith(b"\n")
        yield Line(number, offset, raw[:-1] if terminated else raw, terminated)
        offset += len(raw)


def read_lines(path: Path) -> list[Line]:
    """The lines of a journal that count; none when there is no file. Raises ``StorageError``."""
    try:
        with files.reading(path) as file:
            return [line for line in lines(file) if not is_blank(line.data)]
    except NotFoundError:
        return []


@dataclass(frozen=True)
class AppendReport:
    """What an append had to do first: bytes it set aside, whether it ended an unfinished line."""

    set_aside: bytes
    newline_added: bool


def append(
    path: Path, records: list[bytes], *, readable: Callable[[bytes], bool], rejected: Path
) -> AppendReport:
    """Append records (without line feeds) in one durable write.

    ``readable`` says whether the last line is whole. If it is and the file does not end in a line feed,
    that is written first (white space alone may need one too). If it is not, its bytes go to ``rejected``
    before they are cut off. On failure no whole line is gone and no new one there; ``StorageError`` says so.
    """
    fd = files.open_regular_or_create(path)
    try:
        report = _settle_tail(fd, path, readable, rejected)
        payload = (b"\n" if report.newline_added else b"") + b"".join(record + b"\n" for record in records)
        _write_or_take_back(fd, path, payload)
        if os.fstat(fd).st_mode & 0o077:
            os.fchmod(fd, files.PRIVATE_FILE)
        files.sync_directory(Path(os.path.realpath(path)).parent)
        return report
    except OSError as error:
        raise files.failed("append to", path, error) from None
    finally:
        os.close(fd)


def append_bytes(path: Path, data: bytes) -> None:
    """Append raw bytes durably, as for the file of bytes set aside. Raises ``StorageError``."""
    fd = files.open_regular_or_create(path)
    try:
        _write_or_take_back(fd, path, data)
        files.sync_directory(Path(os.path.realpath(path)).parent)
    except OSError as error:
        raise files.failed("append to", path, error) from None
    finally:
        os.close(fd)


def _settle_tail(fd: int, path: Path, readable: Callable[[bytes], bool], rejected: Path) -> AppendReport:
    last = _last_line(fd)
    if last is None or readable(last.data):
        return AppendReport(b"", not _ends_with_line_feed(fd))
    fragment = last.data + (b"\n" if last.terminated else b"")
    append_bytes(rejected, last.data + b"\n")
    os.ftruncate(fd, last.offset)
    os.fsync(fd)
    return AppendReport(fragment, False)


def _ends_with_line_feed(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def _last_line(fd: int) -> Line | None:
    """The last line that counts, found from the end; its number is not known (0)."""
    end = os.fstat(fd).st_size
    tail, start = b"", end
    while start > 0:
        step = min(_CHUNK, start)
        start -= step
        tail = os.pread(fd, step, start) + tail
        stripped = tail.rstrip(BLANK + b"\n")
        cut = stripped.rfind(b"\n")
        if stripped and (cut >= 0 or start == 0):
            stop = tail.find(b"\n", len(stripped))
            data = tail[cut + 1 : stop if stop >= 0 else len(tail)]
            return Line(0, start + cut + 1, data, stop >= 0)
    return None


def _write_or_take_back(fd: int, path: Path, payload: bytes) -> None:
    size = os.fstat(fd).st_size
    try:
        os.lseek(fd, size, os.SEEK_SET)
        files.write_all(fd, payload)
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise StorageError(
            f"cannot append to {path}: {os_reason(error)}; the file is as it was",
            details={"path": str(path)},
        ) from None
