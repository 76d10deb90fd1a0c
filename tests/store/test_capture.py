"""Taking a snapshot: what is held, what is left out and why, what is read, and how it lies on disk."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.store.support import Place, Settle
from yolop_cli import store as snapshots
from yolop_cli.ground.errors import DeniedError, NotFoundError, UsageError
from yolop_cli.store import disk, file_reader
from yolop_cli.store.listing import entry_at
from yolop_cli.store.packs import Packs


def held(place: Place, snapshot: snapshots.Manifest, path: bytes) -> bytes | None:
    """The content or link text a snapshot has at a path."""
    with snapshots.opened(place.root) as store, Packs(store) as packs:
        entry = entry_at(packs.listing, snapshot.tree, path)
        if entry is None:
            return None
        return packs.read(entry.hash) if entry.type == "file" else entry.target


def test_a_snapshot_holds_files_links_and_empty_directories(place: Place) -> None:
    place.write("a/b/c.txt", "deep\n")
    place.write(b"caf\xe9 \n'\"\\", "odd\n")
    (place.root / "empty").mkdir(mode=0o750)
    (place.root / "link").symlink_to("no where")
    made = place.snap()
    assert held(place, made, b"a/b/c.txt") == b"deep\n"
    assert held(place, made, b"caf\xe9 \n'\"\\") == b"odd\n"
    assert held(place, made, b"link") == b"no where"
    assert held(place, made, b"empty") == b""
    assert made.stats.files == 2 and made.stats.hashed == 2 and made.stats.reused == 0
    assert made.stats.bytes == 9
    assert made.skipped == ()


def test_equal_contents_and_listings_are_stored_once(place: Place) -> None:
    for name in ("a", "b", "c"):
        place.write(f"{name}/x", "same\n")
    place.snap()
    assert place.object_count() == 3  # the blob, the listing of a, b and c, the root


def test_an_unchanged_file_is_not_read_again(place: Place, settle: Settle) -> None:
    place.write("x", "one\n")
    place.write("d/y", "two\n")
    settle()
    first = place.snap()
    second = place.snap()
    assert (second.stats.hashed, second.stats.reused) == (0, 2)
    assert second.stats.stored_bytes == 0
    assert second.tree == first.tree
    place.write("x", "ONE\n")
    third = place.snap()
    assert (third.stats.hashed, third.stats.reused) == (1, 1)
    assert held(place, third, b"x") == b"ONE\n"


def test_a_file_that_changed_within_two_seconds_is_read_again(place: Place) -> None:
    place.write("x", "one\n")
    place.snap()
    again = place.snap()
    assert (again.stats.hashed, again.stats.reused) == (1, 0)
    time.sleep(2.1)
    place.snap()
    assert place.snap().stats.hashed == 0


def test_the_state_counts_only_while_its_snapshot_is_there(place: Place, settle: Settle) -> None:
    place.write("x", "one\n")
    settle()
    first = place.snap()
    place.delete(first.id)
    assert place.object_count() == 0
    second = place.snap()
    assert second.stats.hashed == 1
    assert held(place, second, b"x") == b"one\n"


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_lost_or_damaged_state_costs_only_time(place: Place, settle: Settle, damage: bytes | None) -> None:
    place.write("x", "one\n")
    settle()
    place.snap()
    at = place.home / "state"
    if damage is None:
        data = bytearray(at.read_bytes())
        data[-20] ^= 1
        damage = bytes(data)
    at.write_bytes(damage)
    made = place.snap()
    assert (made.stats.hashed, made.stats.reused) == (1, 0)


def test_three_names_are_never_held(place: Place) -> None:
    for name in (".git", "node_modules", ".cogitator"):
        place.write(f"sub/{name}/x", "no\n")
    place.write("sub/ok/.git", "gitdir: elsewhere\n")
    made = place.snap()
    assert made.stats.files == 0
    assert held(place, made, b"sub/ok") == b""


def test_patterns_leave_out_what_they_match_and_everything_under_it(place: Place) -> None:
    for path in ("a.log", "b/c.log", "build/x", "b/build/y", "keep.log", "dist/z", b"\xff.log"):
        place.write(path)
    place.write("build2", "a file\n")
    made = place.snap(exclude=("*.log", "!keep.log", "build/", "dist/**"))
    assert made.stats.files == 2
    assert held(place, made, b"keep.log") and held(place, made, b"build2")
    with snapshots.opened(place.root) as store, Packs(store) as packs:
        assert entry_at(packs.listing, made.tree, b"build") is None
        assert entry_at(packs.listing, made.tree, b"dist") is not None


def test_a_pattern_takes_back_what_another_left_out(place: Place) -> None:
    for path in ("dist/a", "dist/keep", "dist/sub/b"):
        place.write(path)
    made = place.snap(exclude=("dist/**", "!dist/keep"))
    assert made.stats.files == 1
    assert held(place, made, b"dist/keep") == b"x\n"


def test_other_excludes_than_last_time_are_obeyed(place: Place, settle: Settle) -> None:
    place.write("a.log")
    place.write("b/build/y")
    settle()
    assert place.snap().stats.files == 2
    assert place.snap(exclude=("*.log", "build/")).stats.files == 0
    assert place.snap(exclude=("*.log", "build/")).stats.files == 0
    assert place.snap().stats.files == 2


def test_a_name_that_becomes_a_directory_meets_the_patterns_again(place: Place, settle: Settle) -> None:
    place.write("build", "a file\n")
    settle()
    assert place.snap(exclude=("build/",)).stats.files == 1
    (place.root / "build").unlink()
    place.write("build/x")
    assert place.snap(exclude=("build/",)).stats.files == 0


def test_a_bad_pattern_is_a_usage_error(place: Place) -> None:
    with pytest.raises(UsageError):
        place.snap(exclude=("!",))


def test_large_files_are_skipped_with_the_reason(place: Place) -> None:
    place.write("large", b"x" * 101)
    place.write("small", b"x" * 100)
    made = place.snap(max_file_bytes=100)
    assert made.skipped == (snapshots.Skipped(b"large", "too-large"),)
    assert made.stats.files == 1


def test_hard_links_are_refused_when_asked(place: Place, settle: Settle) -> None:
    place.write("a", "linked\n")
    os.link(place.root / "a", place.root / "b")
    settle()
    assert place.snap().skipped == ()
    made = place.snap(refuse_hard_links=True)
    assert [(item.path, item.reason) for item in made.skipped] == [(b"a", "hard-link"), (b"b", "hard-link")]
    assert made.stats.hashed == 0


def test_sockets_pipes_and_devices_are_left_out(place: Place) -> None:
    os.mkfifo(place.root / "pipe")
    here = os.open(place.root, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/sock")
    os.close(here)
    snapshot = place.snap()
    assert snapshot.stats.files == 0 and snapshot.skipped == ()


def test_a_file_that_never_holds_still_is_skipped_as_changing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("x", "0")
    place.write("y", "still\n")
    tries = []
    real = file_reader._same

    def changes_meanwhile(before: os.stat_result, after: os.stat_result) -> bool:
        if before.st_size == 1:
            tries.append(1)
            return False
        return real(before, after)

    monkeypatch.setattr(file_reader, "_same", changes_meanwhile)
    made = place.snap()
    assert made.skipped == (snapshots.Skipped(b"x", "changing"),)
    assert len(tries) == 5
    assert held(place, made, b"y") == b"still\n"


def test_a_file_under_a_writer_is_held_whole_or_not_at_all(place: Place) -> None:
    path = place.write("x", b"0" * 200_000)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number = (number + 1) % 10
            with path.open("r+b", buffering=0) as file:
                for _ in range(10):
                    file.write(b"%d" % number * 20_000)
            time.sleep(0.002)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        made = [place.snap() for _ in range(15)]
    finally:
        stop.set()
        thread.join()
    for snapshot in made:
        data = held(place, snapshot, b"x")
        assert data is None or len(set(data)) == 1, "a mixture of two versions was stored"


def test_the_store_is_the_owners_alone(place: Place) -> None:
    before = os.umask(0)
    try:
        place.write(".env", "secret\n", 0o600)
        place.snap()
        place.write(".env", "secret2\n", 0o600)
        place.restore(place.snap())
    finally:
        os.umask(before)
    wrong = [
        path
        for path in (place.home, *place.home.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) != (0o700 if path.is_dir() else 0o600)
    ]
    assert wrong == []
    assert not list((place.home / "tmp").iterdir())


def test_the_store_stays_out_of_git_status(place: Place) -> None:
    place.snap()
    assert (place.home / ".gitignore").read_bytes() == b"*\n"


def test_a_planted_link_is_refused(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / ".cogitator").symlink_to(outside)
    with pytest.raises(DeniedError):
        place.snap()
    assert not list(outside.iterdir())


def test_looking_at_a_directory_without_a_store_makes_none(place: Place) -> None:
    with pytest.raises(NotFoundError), snapshots.opened(place.root):
        pass
    assert not list(place.root.iterdir())
    assert not snapshots.has_store(place.root)


def test_very_deep_directories(place: Place) -> None:
    fd = os.open(place.root, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("dddd", dir_fd=fd)
        below = os.open("dddd", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open("leaf", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)
    try:
        made = place.snap()
        assert made.stats.files == 1
        assert place.plan(made).changes == ()
    finally:  # deeper than what removes temporary directories can reach
        subprocess.run(["rm", "-rf", str(place.root)], check=True)


def test_synced_before_the_manifest_names_anything(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[tuple[str, str]] = []
    sync, rename = disk.sync, disk.rename

    def record_sync(fd: int) -> None:
        events.append(("sync", os.readlink(f"/proc/self/fd/{fd}")))
        sync(fd)

    def record_rename(source: bytes, source_at: int, target: bytes, target_at: int) -> None:
        events.append(("rename", source.decode() + " " + target.decode()))
        rename(source, source_at, target, target_at)

    place.write("x", "one\n")
    with snapshots.opened(place.root, create=True):
        pass
    monkeypatch.setattr(disk, "sync", record_sync)
    monkeypatch.setattr(disk, "rename", record_rename)
    place.snap()
    manifest = next(i for i, (what, name) in enumerate(events) if what == "rename" and ".json" in name)
    pack = next(i for i, (what, name) in enumerate(events) if what == "rename" and ".pack" in name)
    source = events[pack][1].split()[0]
    synced = [name.rsplit("/", 1)[1] for what, name in events[:pack] if what == "sync"]
    assert source in synced, "the pack is synced before it gets its name"
    assert ("sync", str(place.home / "packs")) in events[pack:manifest], "then the directory of packs"
    assert events[manifest][1].split()[0] in [
        name.rsplit("/", 1)[1] for what, name in events[pack:manifest] if what == "sync"
    ], "the manifest is synced before it gets its name"
    assert ("sync", str(place.home / "manifests")) in events[manifest:]
