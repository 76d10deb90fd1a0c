"""Parts of a store that are gone, and things that lie in the place of its files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.store.support import Place
from yolop_cli import store as snapshots
from yolop_cli.ground.errors import DeniedError, NotFoundError, StorageError
from yolop_cli.store import Manifest, locks


def two(place: Place) -> tuple[Manifest, Manifest]:
    place.write("a", "one\n")
    first = place.snap()
    place.write("a", "two\n")
    return first, place.snap()


def config_of(place: Place) -> str:
    return str(json.loads((place.home / "config.json").read_bytes())["workspace_id"])


def listed(place: Place) -> list[str]:
    return [each.id for each in place.manifests()]


# -- directories that a backup left out


@pytest.mark.parametrize("part", ["tmp", "locks"])
def test_an_absent_directory_hides_no_snapshot_and_reading_does_not_make_it(place: Place, part: str) -> None:
    first, second = two(place)
    for each in (place.home / part).iterdir():
        each.unlink()
    (place.home / part).rmdir()
    assert listed(place) == [second.id, first.id]
    with snapshots.opened(place.root) as store:
        assert snapshots.find(store, "latest") == second
        assert snapshots.leftovers(store) == 0 and not snapshots.is_restoring(store)
    assert not (place.home / part).exists()


@pytest.mark.parametrize("gone", [("tmp",), ("locks",), ("tmp", "locks")])
@pytest.mark.parametrize("step", ["snap", "restore", "gc", "verify", "delete", "repair"])
def test_who_writes_makes_an_absent_directory_again(place: Place, step: str, gone: tuple[str, ...]) -> None:
    first, _ = two(place)
    for part in gone:
        for each in (place.home / part).iterdir():
            each.unlink()
        (place.home / part).rmdir()
    if step == "snap":
        place.write("a", "three\n")
        place.snap()
    elif step == "restore":
        place.restore(first)
        assert (place.root / "a").read_text() == "one\n"
    elif step == "delete":
        place.delete(first.id)
    elif step == "repair":
        with snapshots.opened(place.root) as store:
            assert not snapshots.repair(store, apply=True).is_needed
    else:
        place.gc() if step == "gc" else place.verify()
    assert place.verify().ok
    assert not (place.home / "tmp").exists() or (place.home / "tmp").stat().st_mode & 0o777 == 0o700


def test_absent_packs_are_missing_contents_and_not_a_missing_store(place: Place, tmp_path: Path) -> None:
    first, second = two(place)
    (place.home / "packs").rename(tmp_path / "packs")
    assert listed(place) == [second.id, first.id]
    assert {item.code for item in place.verify().findings} == {"tree-missing"}
    with snapshots.opened(place.root) as store:
        assert snapshots.repair(store, apply=True).incomplete == (first.id,)
    place.write("a", "three\n")
    place.restore(second)
    assert (place.root / "a").read_text() == "two\n"


def test_where_nothing_was_ever_stored_there_are_no_snapshots(place: Place) -> None:
    with pytest.raises(NotFoundError, match="has no snapshots"):
        place.gc()
    assert not place.home.exists()


# -- config.json is gone


def test_the_workspace_id_is_taken_from_the_manifests_and_kept_by_the_next_write(place: Place) -> None:
    first, second = two(place)
    was = config_of(place)
    (place.home / "config.json").unlink()
    assert snapshots.has_store(place.root)
    assert listed(place) == [second.id, first.id]
    assert not (place.home / "config.json").exists(), "reading writes nothing"
    assert [item.code for item in place.verify().findings] == ["config-missing"]
    place.write("a", "three\n")
    assert place.snap().workspace_id == was == config_of(place)


@pytest.mark.parametrize("step", ["restore", "delete", "repair"])
def test_any_write_keeps_the_workspace_id(place: Place, step: str) -> None:
    first, second = two(place)
    was = config_of(place)
    (place.home / "config.json").unlink()
    if step == "restore":
        place.restore(first)
    elif step == "delete":
        place.delete(first.id, second.id)
    else:
        with snapshots.opened(place.root) as store:
            assert snapshots.repair(store).config and not (place.home / "config.json").exists()
            assert snapshots.repair(store, apply=True).is_needed
    assert config_of(place) == was
    assert place.verify().findings == ()


def test_a_damaged_manifest_has_no_say_in_the_workspace_id(place: Place) -> None:
    first, second = two(place)
    was = config_of(place)
    (place.home / "config.json").unlink()
    at = place.home / "manifests" / f"{first.id}.json"
    at.write_bytes(re.sub(rb"ws_[0-9a-f]{32}", b"ws_" + b"0" * 32, at.read_bytes()))
    assert listed(place) == [second.id]
    place.snap()
    assert config_of(place) == was


@pytest.mark.parametrize("case", ["several", "none"])
def test_without_agreement_no_id_is_invented(place: Place, tmp_path: Path, case: str) -> None:
    two(place)
    (place.home / "config.json").unlink()
    if case == "several":
        other = Place(tmp_path / "other")
        other.write("a", "x\n")
        theirs = f"{other.snap().id}.json"
        (place.home / "manifests" / theirs).write_bytes((other.home / "manifests" / theirs).read_bytes())
    else:
        for each in (place.home / "manifests").iterdir():
            each.write_bytes(b"{")
    for step in (place.snap, place.manifests, place.gc):
        with pytest.raises(StorageError, match="lost its config") as caught:
            step()
        assert "manifests/" in str(caught.value.hint)
    assert not (place.home / "config.json").exists()


def test_a_directory_in_the_place_of_the_config_is_named(place: Place) -> None:
    _, second = two(place)
    (place.home / "config.json").unlink()
    (place.home / "config.json").mkdir()
    assert snapshots.has_store(place.root)
    for step in (place.snap, place.manifests):
        with pytest.raises(StorageError, match=r"damaged config\.json: it is a directory") as caught:
            step()
        assert "move it away" in str(caught.value.hint)
    (place.home / "config.json").rmdir()  # as the hint says
    assert place.snap().workspace_id == second.workspace_id


# -- what is not the store's


def plant(at: Path, kind: str) -> None:
    at.unlink(missing_ok=True)
    if kind == "directory":
        at.mkdir(0o700)
    elif kind == "link":
        at.symlink_to("/etc/hostname")
    else:
        os.mkfifo(at, 0o600)


KINDS = ["directory", "link", "pipe"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_foreign_entry_among_the_manifests_is_named_and_the_others_go_on(place: Place, kind: str) -> None:
    first, second = two(place)
    name = "snap_" + "0" * 24
    plant(place.home / "manifests" / f"{name}.json", kind)
    assert listed(place) == [second.id, first.id]
    with snapshots.opened(place.root) as store:
        assert f"manifests/{name}.json" in snapshots.load_all(store)[1][name]
        plan = snapshots.repair(store, apply=True)
        assert plan.unreadable == (name,) and name in plan.by_hand[0]
        assert snapshots.prune(store, snapshots.Retention(keep_last=1)).deleted == (first.id,)
    [finding] = place.verify().findings
    assert finding.code == "manifest-damaged" and finding.path == f"manifests/{name}.json".encode()
    assert name in place.gc().deferred[0]
    if kind == "link":
        assert finding.fix is not None
        place.delete(name)
        assert Path("/etc/hostname").exists()
    else:
        assert finding.fix is None and f"move {place.home}/manifests/{name}.json away" in finding.message
        (place.home / "manifests" / f"{name}.json").rename(place.root.parent / "away")
    assert place.verify().findings == ()
    assert place.gc().deferred == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [locks.GC_LOCK, locks.WORKSPACE_LOCK])
def test_what_is_in_the_place_of_a_lock_is_named(place: Place, name: bytes, kind: str) -> None:
    first, second = two(place)
    at = place.home / "locks" / os.fsdecode(name)
    plant(at, kind)
    assert listed(place) == [second.id, first.id]
    [finding] = place.verify().findings
    assert (finding.code, finding.path) == ("foreign", b"locks/" + name)
    with pytest.raises(DeniedError, match=f"locks/{name.decode()}: it is a") as caught:
        place.restore(first)
    assert caught.value.details["path"] == f"locks/{name.decode()}"
    at.rename(place.root.parent / "away")
    place.restore(first)
    assert place.verify().ok


@pytest.mark.parametrize("name", ["restoring.json", "packs/" + "f" * 64 + ".pack"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_place_of_another_file_is_named(place: Place, name: str, kind: str) -> None:
    first, second = two(place)
    plant(place.home / name, kind)
    assert listed(place) == [second.id, first.id]
    assert [(item.code, item.path) for item in place.verify().findings] == [("foreign", name.encode())]
    with snapshots.opened(place.root) as store:
        plan = snapshots.repair(store, apply=True)
    assert not plan.is_needed and name in plan.by_hand[0]
    (place.home / name).rename(place.root.parent / "away")
    place.restore(first)
    assert place.verify().ok


# -- a damaged manifest


def test_a_repair_says_that_it_cannot_mend_a_manifest_and_what_to_do(place: Place) -> None:
    first, _ = two(place)
    (place.home / "manifests" / f"{first.id}.json").write_bytes(b"{")
    with snapshots.opened(place.root) as store:
        plan = snapshots.repair(store, apply=True)
    assert not plan.is_needed and plan.unreadable == (first.id,)
    [words] = plan.by_hand
    assert f"`yolop-cli snapshot delete {first.id} --root {place.root}` removes it" in words
    place.delete(first.id)
    with snapshots.opened(place.root) as store:
        assert snapshots.repair(store).by_hand == ()


def test_the_latest_snapshot_of_damaged_ones_is_not_no_snapshot(place: Place) -> None:
    for each in two(place):
        (place.home / "manifests" / f"{each.id}.json").write_bytes(b"{")
    with pytest.raises(StorageError, match="can be read"), snapshots.opened(place.root) as store:
        snapshots.find(store, "latest")
