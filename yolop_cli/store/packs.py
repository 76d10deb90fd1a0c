"""Packs: how contents and listings lie on disk, and how they are found and read again.

    "YSTPACK1"                       8 bytes
    stored bytes of each object      one after the other
    table                            a record an object: SHA-256 of the content (32), offset, stored
                                     length and content length (8 each), codec (1: 0 as it is, 1 zstandard)
    trailer                          SHA-256 of the table (32), number of records (8), "YSTPEND1"

Integers are big-endian. The file is called ``<SHA-256 of the table>.pack``. A pack is written under
``tmp/``, synced, and only then renamed into ``packs/``; it is never changed afterwards. A file an object
would cost more than hashing, compressing and packing together.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from yolop_cli.ground.errors import StorageError
from yolop_cli.store import disk
from yolop_cli.store.layout import PACKS, Store
from yolop_cli.store.listing import Entry, decode

HEAD = b"YSTPACK1"
END = b"YSTPEND1"
RECORD = struct.Struct(">32sQQQB")
TRAILER = struct.Struct(">32sQ8s")
RAW, ZSTANDARD = 0, 1
CHUNK = 1 << 20
_NAME = re.compile(rb"([0-9a-f]{64})\.pack\Z")


class Location(NamedTuple):
    """Where an object lies: its pack, and how it is stored there."""

    pack: bytes
    offset: int
    stored: int
    size: int
    codec: int


class DamagedError(StorageError):
    """An object or a pack is missing or not what its name says."""


@dataclass
class Packs:
    """Every object of a store. The tables are read when the first object is looked up."""

    store: Store
    damaged: dict[bytes, str] = field(default_factory=dict)
    _found: dict[str, Location] | None = None
    _open: dict[bytes, int] = field(default_factory=dict)
    _decompressor: Any = None

    def __enter__(self) -> Packs:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    @property
    def objects(self) -> dict[str, Location]:
        """Every object in a pack that is whole, by its hash. Of one in two packs the newer counts."""
        if self._found is None:
            self._found = {}
            for name in sorted(names(self.store), key=self._age):
                try:
                    self._found.update(table(self.store, name))
                except DamagedError as error:
                    self.damaged[name] = error.message
        return self._found

    def _age(self, name: bytes) -> tuple[int, bytes]:
        try:
            return os.stat(name, dir_fd=self.store.packs, follow_symlinks=False).st_mtime_ns, name
        except OSError:  # it has just gone; reading it will say so
            return 0, name

    def is_whole(self, digest: str) -> bool:
        """Whether the object is there and its content is what its hash says."""
        try:
            for _ in self.stream(digest):
                pass
        except DamagedError:
            return False
        return True

    def forget(self, digest: str) -> None:
        """Take the object for missing, so that a writer stores it anew."""
        self.objects.pop(digest, None)

    def has(self, digest: str, size: int) -> bool:
        """Whether the object is there at that size. Its content is not read."""
        location = self.objects.get(digest)
        return location is not None and location.size == size

    def read(self, digest: str) -> bytes:
        """The content of an object, checked against its hash. Raises ``DamagedError``."""
        return b"".join(self.stream(digest))

    def listing(self, digest: str) -> dict[bytes, Entry]:
        """The listing a tree holds. Raises ``StorageError`` when it is missing, damaged or no listing."""
        return decode(self.read(digest))

    def stream(self, digest: str) -> Iterator[bytes]:
        """The content in chunks; the hash is known to match once the last chunk was taken.

        Raises ``DamagedError`` when the object is missing or its content is not what its hash says.
        """
        location = self.objects.get(digest)
        if location is None:
            raise DamagedError(f"the store lacks the object {digest}", details={"object": digest})
        hashing, size = hashlib.sha256(), 0
        try:
            for chunk in self._decoded(location):
                hashing.update(chunk)
                size += len(chunk)
                if size > location.size:
                    break
                yield chunk
        except OSError as error:
            raise _damaged(digest, f"cannot be read: {error.strerror}") from error
        if size != location.size or hashing.hexdigest() != digest:
            raise _damaged(digest, "does not match its hash")

    def stored_bytes(self, location: Location) -> Iterator[bytes]:
        """The bytes of an object as they lie in its pack."""
        stored = _Stored(self._descriptor(location.pack), location)
        while stored.left:
            yield stored.read(CHUNK)

    def _decoded(self, location: Location) -> Iterator[bytes]:
        if location.codec == RAW:
            yield from self.stored_bytes(location)
            return
        import zstandard

        if self._decompressor is None:
            self._decompressor = zstandard.ZstdDecompressor()
        try:
            if location.size <= CHUNK:
                yield self._unpacked(b"".join(self.stored_bytes(location)), location.size)
                return
            stored = _Stored(self._descriptor(location.pack), location)
            with self._decompressor.stream_reader(stored, read_size=CHUNK) as reader:
                while chunk := reader.read(CHUNK):
                    yield chunk
        except zstandard.ZstdError as error:
            raise OSError(0, f"cannot be unpacked ({error})") from None

    def _unpacked(self, data: bytes, size: int) -> bytes:
        import zstandard

        # Looked at first: a damaged header may claim a size that nobody has memory for.
        if zstandard.frame_content_size(data) != size:
            raise OSError(0, "cannot be unpacked (not of its size)")
        unpacked: bytes = self._decompressor.decompress(data)
        return unpacked

    def _descriptor(self, pack: bytes) -> int:
        fd = self._open.pop(pack, None)
        if fd is None:
            if len(self._open) >= 64:
                os.close(self._open.pop(next(iter(self._open))))
            fd = disk.open_file(pack, self.store.packs)
        self._open[pack] = fd
        return fd


class _Stored:
    """The bytes of an object in its pack, as something to read from."""

    def __init__(self, fd: int, location: Location):
        self._fd, self._at, self.left = fd, location.offset, location.stored

    def read(self, size: int) -> bytes:
        data = os.pread(self._fd, min(size, self.left), self._at)
        if not data and self.left:
            raise OSError(0, "the pack ends early")
        self._at, self.left = self._at + len(data), self.left - len(data)
        return data


def names(store: Store) -> Iterator[bytes]:
    """The names in ``packs/`` that are names of packs."""
    return (raw for raw in map(os.fsencode, store.names(PACKS)) if _NAME.match(raw))


def table(store: Store, name: bytes) -> dict[str, Location]:
    """The objects of one pack, by hash. Raises ``DamagedError`` when the pack is not whole."""
    try:
        fd = disk.open_file(name, store.packs)
    except OSError as error:
        raise DamagedError(f"the pack {name.decode()} cannot be opened: {error.strerror}") from None
    try:
        size = os.fstat(fd).st_size
        digest, count, end = TRAILER.unpack(os.pread(fd, TRAILER.size, max(0, size - TRAILER.size)))
        start = size - TRAILER.size - count * RECORD.size
        if end != END or start < len(HEAD) or os.pread(fd, len(HEAD), 0) != HEAD:
            raise ValueError
        data = _pread_all(fd, count * RECORD.size, start)
        if hashlib.sha256(data).digest() != digest or name != digest.hex().encode() + b".pack":
            raise ValueError
    except (OSError, ValueError, struct.error):
        raise DamagedError(f"the pack {name.decode()} is damaged", details={"pack": name.decode()}) from None
    finally:
        os.close(fd)
    return {row[0].hex(): Location(name, *row[1:]) for row in RECORD.iter_unpack(data)}


def _pread_all(fd: int, size: int, at: int) -> bytes:
    parts = []
    while size:
        part = os.pread(fd, size, at)
        if not part:
            raise ValueError
        parts.append(part)
        size, at = size - len(part), at + len(part)
    return b"".join(parts)


def _damaged(digest: str, why: str) -> DamagedError:
    return DamagedError(f"the object {digest} {why}", details={"object": digest})


class PackWriter:
    """Adds objects to a store. Nothing is there for others before ``finish``; ``abort`` takes all back.

    ``known`` says what the store has already: such an object is not written again.
    """

    ROLL = 32 << 20  # a pack is closed when it has grown this large
    OWN = 4 << 20  # an object larger than this gets a pack of its own

    def __init__(self, store: Store, known: Packs):
        self.store, self.known = store, known
        self.stored_bytes = 0
        self.finished: list[bytes] = []
        self._written: set[str] = set()
        self._current: _PackFile | None = None
        self._sealed: list[tuple[bytes, bytes]] = []
        self._compressor: Any = None

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def has(self, digest: str, size: int) -> bool:
        """Whether the object needs no writing any more."""
        return digest in self._written or self.known.has(digest, size)

    def wrote(self, digest: str) -> bool:
        """Whether this writer has stored the object itself."""
        return digest in self._written

    def add(self, digest: str, data: bytes) -> None:
        """Store a content held in memory under its hash."""
        if self.has(digest, len(data)):
            return
        packed = self._compress().compress(data)
        small = len(packed) < len(data)
        self.add_stored(digest, (packed if small else data,), len(data), ZSTANDARD if small else RAW)

    def add_stored(self, digest: str, chunks: Iterable[bytes], size: int, codec: int) -> None:
        """Store an object whose stored form is known already (as another pack has it)."""
        pack = self._pack()
        pack.begin()
        for chunk in chunks:
            pack.append(chunk)
        self._end(pack, digest, size, codec)

    def add_stream(self, chunks: Iterator[bytes]) -> tuple[str, int]:
        """Store a content of any size, held a chunk at a time; its hash and size.

        Compressed when its first chunk gets smaller by that.
        """
        pack = _PackFile(self.store)
        try:
            first = next(chunks, b"")
            shrinks = len(self._compress().compress(first)) < len(first) * 0.97
            digest, size = _copy(first, chunks, pack, self._compress().compressobj() if shrinks else None)
            if self.has(digest, size):
                pack.discard()
            else:
                self._end(pack, digest, size, ZSTANDARD if shrinks else RAW)
                self._seal(pack)
        except BaseException:
            pack.discard()
            raise
        return digest, size

    def finish(self) -> None:
        """Make everything added durable, then visible under its final names."""
        if self._current is not None:
            current, self._current = self._current, None
            self._seal(current)
        for temporary, name in self._sealed:
            disk.rename(temporary, self.store.tmp, name, self.store.packs)
            self.finished.append(name)
        if self._sealed:
            disk.sync(self.store.packs)
        self._sealed.clear()

    def abort(self) -> None:
        """Take back what was not finished."""
        if self._current is not None:
            self._current.discard()
            self._current = None
        for temporary, _ in self._sealed:
            disk.remove_quietly(temporary, self.store.tmp)
        self._sealed.clear()

    def _pack(self) -> _PackFile:
        if self._current is not None and self._current.size >= self.ROLL:
            full, self._current = self._current, None
            self._seal(full)
        if self._current is None:
            self._current = _PackFile(self.store)
        return self._current

    def _end(self, pack: _PackFile, digest: str, size: int, codec: int) -> None:
        self.stored_bytes += pack.end(digest, size, codec)
        self._written.add(digest)

    def _seal(self, pack: _PackFile) -> None:
        try:
            name = pack.seal()
        except BaseException:
            pack.discard()
            raise
        self._sealed.append((pack.temporary, name))

    def _compress(self) -> Any:
        if self._compressor is None:
            import zstandard

            self._compressor = zstandard.ZstdCompressor(level=3)
        return self._compressor


def _copy(first: bytes, rest: Iterator[bytes], pack: _PackFile, compressing: Any) -> tuple[str, int]:
    hashing, size = hashlib.sha256(), 0
    pack.begin()
    chunk = first
    while chunk:
        hashing.update(chunk)
        size += len(chunk)
        pack.append(compressing.compress(chunk) if compressing else chunk)
        chunk = next(rest, b"")
    if compressing:
        pack.append(compressing.flush())
    return hashing.hexdigest(), size


class _PackFile:
    """One pack being written under ``tmp/``."""

    def __init__(self, store: Store):
        self.store = store
        self.temporary = disk.temporary_name()
        self.size = len(HEAD)
        self._records: list[bytes] = []
        self._start = self.size
        self._buffer = bytearray(HEAD)
        self._fd = disk.create(self.temporary, store.tmp)

    def begin(self) -> None:
        self._start = self.size

    def append(self, data: bytes) -> None:
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= CHUNK:
            self._flush()

    def end(self, digest: str, size: int, codec: int) -> int:
        stored = self.size - self._start
        self._records.append(RECORD.pack(bytes.fromhex(digest), self._start, stored, size, codec))
        return stored

    def seal(self) -> bytes:
        """Write the table, sync, close; the name the pack is to have."""
        data = b"".join(self._records)
        digest = hashlib.sha256(data)
        self._buffer += data + TRAILER.pack(digest.digest(), len(self._records), END)
        self._flush()
        disk.sync(self._fd)
        self._close()
        return digest.hexdigest().encode() + b".pack"

    def discard(self) -> None:
        self._close()
        disk.remove_quietly(self.temporary, self.store.tmp)

    def _flush(self) -> None:
        disk.write(self._fd, self._buffer)
        self._buffer = bytearray()

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
