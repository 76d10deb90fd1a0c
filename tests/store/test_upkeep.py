"""Retention, collection, verify, repair and copy."""

from __future__ import annotations

import fcntl
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.store.support import Place
from yolop_cli import store as snapshots
from yolop_cli.ground.errors import NotFoundError, RefusedError, StorageError, YolopError
from yolop_cli.store import Label, Manifest, Reference, Retention
from yolop_cli.store.layout import new_snapshot_id
from yolop_cli.store.packs import Packs

TREE = "0" * 64
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def of_age(hours: float) -> Manifest:
    moment = (NOW - timedelta(hours=hours)).isoformat()
    return Manifest(new_snapshot_id(), moment, "ws_" + "0" * 32, b"/r", TREE)


def test_both_limits_of_a_retention_hold_and_protected_ones_stay() -> None:
    made = [of_age(hours) for hours in (0, 1, 2, 30, 40)]

    def gone(protect: tuple[str, ...] = (), **limits: float) -> list[int]:
        plan = snapshots.plan_prune(made, Retention(**limits), protect, NOW)  # type: ignore[arg-type]
        return [made.index(item) for item in plan]

    assert gone() == []
    assert gone(keep_last=2) == [2, 3, 4]
    assert gone(keep_within=24 * 3600) == [3, 4]
    assert gone(keep_last=4, keep_within=1.5 * 3600) == [2, 3, 4]
    assert gone(protect=(made[4].id,), keep_last=1) == [1, 2, 3]
    assert gone(keep_last=0) == [0, 1, 2, 3, 4]


def test_a_deleted_snapshot_takes_its_contents_along_and_nothing_else(place: Place) -> None:
    place.write("shared", b"shared" * 50)
    place.write("secret", b"secret" * 50)
    first = place.snap()
    (place.root / "secret").unlink()
    second = place.snap()
    pruned = place.delete(first.id)
    assert pruned.deleted == (first.id,) and pruned.kept == (second.id,)
    assert pruned.gc is not None and pruned.gc.deleted == 2  # the blob and the first root tree
    assert place.object_count() == 2
    assert place.verify().ok
    assert not any(b"secretsecret" in pack.read_bytes() for pack in (place.home / "packs").iterdir())


def test_the_grace_keeps_what_is_young(place: Place) -> None:
    place.write("a", "one\n")
    first = place.snap()
    place.write("a", "two\n")
    place.snap()
    assert place.delete(first.id, grace=3600).gc == snapshots.GcPlan(kept=2, waiting=2)
    assert place.object_count() == 4
    assert place.gc(grace=3600).deleted == 0
    assert place.gc(grace=0).deleted == 2


def test_a_dry_collection_removes_nothing(place: Place) -> None:
    place.write("a", "one\n")
    first = place.snap()
    with snapshots.opened(place.root) as store:
        (place.home / "manifests" / f"{first.id}.json").unlink()
        assert snapshots.collect(store, 0, dry_run=True).deleted == 2
    assert place.object_count() == 2


def test_leftovers_go_and_strangers_stay(place: Place, tmp_path: Path) -> None:
    place.write("a", "one\n")
    place.snap()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tmp-0123456789abcdef").write_text("not ours\n")
    (place.home / "tmp" / "tmp-0123456789abcdef").write_bytes(b"left by a crash")
    (place.home / "tmp" / "mine.txt").write_bytes(b"not a name of the store")
    (place.home / "tmp" / "tmp-aaaaaaaaaaaaaaaa").symlink_to(outside)
    (place.home / "packs" / ("f" * 64 + ".pack")).symlink_to(outside)
    plan = place.gc()
    assert len(plan.leftovers) == 2
    assert sorted(path.name for path in (place.home / "tmp").iterdir()) == ["mine.txt"]
    assert (outside / "tmp-0123456789abcdef").exists()


def test_a_planted_directory_link_stops_a_collection(place: Place, tmp_path: Path) -> None:
    place.write("a", "one\n")
    place.snap()
    outside = tmp_path / "outside"
    (place.home / "packs").rename(outside)
    (place.home / "packs").symlink_to(outside)
    with pytest.raises(snapshots_denied()):
        place.gc()
    assert len(list(outside.iterdir())) == 1


def snapshots_denied() -> type[Exception]:
    from yolop_cli.ground.errors import DeniedError

    return DeniedError


def test_a_marker_that_is_alive_defers_and_a_dead_one_is_removed(place: Place) -> None:
    place.write("a", "one\n")
    snapshot = place.snap()
    (place.home / "manifests" / f"{snapshot.id}.json").unlink()
    marker = place.home / "locks" / "create.123.abcd"
    marker.write_text("{}\n")
    with marker.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert place.gc().deferred == ("create.123.abcd",)
        assert place.object_count() == 2
    plan = place.gc()
    assert plan.deferred == () and plan.deleted == 2
    assert not marker.exists()


def test_a_manifest_nobody_can_read_defers_the_sweep(place: Place) -> None:
    place.write("a", "one\n")
    first = place.snap()
    place.write("a", "two\n")
    second = place.snap()
    (place.home / "manifests" / f"{first.id}.json").write_bytes(b"{")
    plan = place.gc()
    assert plan.unreadable == (first.id,) and len(plan.deferred) == 1
    assert place.object_count() == 4
    assert [item.code for item in place.verify().findings if item.severity == "error"] == ["manifest-damaged"]
    place.delete(first.id)
    assert place.object_count() == 2
    assert place.manifests()[0].id == second.id


def test_a_tree_nobody_can_read_keeps_what_is_still_reached(place: Place) -> None:
    place.write("a", b"one" * 100)
    place.write("d/b", b"two" * 100)
    made = place.snap()
    spoil(place, tree_at(place, made, b"d"))
    plan = place.gc()
    assert plan.unreadable == (made.id,)
    assert plan.deferred == ()
    with snapshots.opened(place.root) as store, Packs(store) as packs:
        assert packs.has(blob_of(b"one" * 100), 300)


def blob_of(data: bytes) -> str:
    from yolop_cli.store.listing import digest_of

    return digest_of(data)


def tree_at(place: Place, made: Manifest, path: bytes) -> str:
    from yolop_cli.store.listing import entry_at

    with snapshots.opened(place.root) as store, Packs(store) as packs:
        found = entry_at(packs.listing, made.tree, path)
        assert found is not None
        return found.hash


def spoil(place: Place, digest: str) -> None:
    """Flip a bit of a stored object."""
    with snapshots.opened(place.root) as store, Packs(store) as packs:
        location = packs.objects[digest]
    at = place.home / "packs" / location.pack.decode()
    data = bytearray(at.read_bytes())
    data[location.offset + location.stored // 2] ^= 0x10
    at.write_bytes(data)


def test_case_41_a_stopped_snapshot_holds_back_a_collection(place: Place) -> None:
    """What is garbage but old is reused by a snapshot that is going on: the collection leaves it alone."""
    from yolop_cli.store import locks, snapshot_capture, walk

    place.write("f", b"old garbage" * 100)
    first = place.snap()
    (place.root / "f").unlink()
    place.snap()
    (place.home / "manifests" / f"{first.id}.json").unlink()
    place.write("f", b"old garbage" * 100)
    with snapshots.opened(place.root) as store, locks.working(store, "create") as marker:
        with (
            Packs(store) as packs,
            snapshot_capture.capturing(store, packs, walk.Scope(snapshots.Rules()), marker) as it,
        ):
            assert it.writer.has(blob_of(b"old garbage" * 100), 1100)
            assert len(place.gc().deferred) == 1
            made = snapshot_capture.commit(store, it, Label())
    assert place.gc().deleted == 0
    assert place.verify().ok
    (place.root / "f").unlink()
    place.restore(made)
    assert (place.root / "f").read_bytes() == b"old garbage" * 100


def test_the_retention_after_a_snapshot_never_fails_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from yolop_cli.store import retention

    for number in range(4):
        place.write("a", f"{number}\n")
        place.snap()
    with snapshots.opened(place.root) as store:
        newest = snapshots.load_all(store)[0][0]
        assert snapshots.prune_after(store, Retention()) is None
        pruned = snapshots.prune_after(store, Retention(keep_last=2), protect=(newest.id,), grace=0)
        assert pruned is not None and len(pruned.deleted) == 2

        def fails(*_: object, **__: object) -> None:
            raise StorageError("no")

        monkeypatch.setattr(retention, "collect", fails)
        failed = snapshots.prune_after(store, Retention(keep_last=1))
        assert (
            failed is not None
            and failed.error
            == "no; some of them may be gone; "
            f"`yolop-cli snapshot list --root {place.root}` shows what is there"
        )


def test_deleting_what_is_not_there_deletes_nothing(place: Place) -> None:
    place.write("a", "one\n")
    made = place.snap()
    with pytest.raises(NotFoundError):
        place.delete(made.id, "snap_" + "0" * 24)
    assert len(place.manifests()) == 1


DAMAGES = {
    "blob": ("blob-damaged", True, False),
    "tree": ("tree-damaged", True, True),
    "pack": ("pack-damaged", True, True),
    "pack-gone": ("blob-missing", True, True),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_mended_from_the_files_on_disk(place: Place, damage: str) -> None:
    code, curable, quick_sees = DAMAGES[damage]
    place.write("a", b"one" * 100)
    place.write("d/b", b"two" * 100)
    place.write("d/c", b"three" * 100)
    made = place.snap()
    assert place.verify().findings == ()
    pack = next((place.home / "packs").iterdir())
    if damage == "blob":
        spoil(place, blob_of(b"two" * 100))
    elif damage == "tree":
        spoil(place, tree_at(place, made, b"d"))
    elif damage == "pack":
        data = bytearray(pack.read_bytes())
        data[-30] ^= 1
        pack.write_bytes(data)
    else:
        pack.rename(place.root.parent / "lost.pack")
    found = place.verify()
    assert not found.ok
    codes = {item.code for item in found.findings}
    assert code in codes or (code == "blob-missing" and "tree-missing" in codes), codes
    assert all(item.fix for item in found.findings if item.severity == "error")
    assert place.verify(quick=True).ok is not quick_sees
    with snapshots.opened(place.root) as store:
        before = sorted((place.home / "packs").iterdir())
        plan = snapshots.repair(store)
        assert plan.is_needed and plan.incomplete == ()
        assert sorted((place.home / "packs").iterdir()) == before, "a plan changes nothing"
        assert snapshots.repair(store, apply=True) == plan
        assert not snapshots.repair(store).is_needed
    assert curable and place.verify().ok, place.verify().findings
    aside = place.home / "damaged"
    assert damage == "pack-gone" or [item.name for item in aside.iterdir()] == [pack.name]
    place.write("a", "x")
    (place.root / "d/b").unlink()
    place.restore(made)
    assert (place.root / "d/b").read_bytes() == b"two" * 100


def test_what_no_file_has_any_more_cannot_be_mended(place: Place) -> None:
    place.write("a", b"one" * 100)
    made = place.snap()
    spoil(place, blob_of(b"one" * 100))
    place.write("a", b"changed since")
    with snapshots.opened(place.root) as store:
        plan = snapshots.repair(store, apply=True)
    assert plan.incomplete == (made.id,) and plan.unrepaired[0].path == b"a"
    assert not place.verify().ok


def test_a_mended_pack_may_have_the_name_of_the_damaged_one(place: Place) -> None:
    made = place.snap()
    spoil(place, made.tree)
    damaged = next((place.home / "packs").iterdir())
    before = damaged.read_bytes()
    with snapshots.opened(place.root) as store:
        snapshots.repair(store, apply=True)
    assert place.verify().ok
    assert [path.name for path in (place.home / "packs").iterdir()] == [damaged.name]
    assert (place.home / "damaged" / damaged.name).read_bytes() == before


def test_open_modes_are_found_and_closed(place: Place) -> None:
    place.write("a", "one\n")
    made = place.snap()
    at = place.home / "manifests" / f"{made.id}.json"
    at.chmod(0o644)
    assert [item.code for item in place.verify().findings] == ["mode"]
    with snapshots.opened(place.root) as store:
        snapshots.repair(store, apply=True)
    assert place.verify().findings == ()


def test_a_copy_is_whole_and_keeps_its_id_and_origin(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "fork")
    place.write("a", b"one" * 100)
    place.write("d/b", "two\n", 0o640)
    before = place.state()
    with snapshots.opened(place.root, create=True) as store:
        made = snapshots.create(store, label=Label("t", "session_" + "1" * 32, "cp_1_1"))
    with snapshots.opened(place.root) as source, snapshots.opened(other.root, create=True) as target:
        assert snapshots.copy(source, made, target, dry_run=True).objects == 4
        assert snapshots.load_all(target)[0] == []
        copied = snapshots.copy(source, made, target)
        again = snapshots.copy(source, made, target)
        assert copied.objects == 4 and again.already_there and again.objects == 0
        assert copied.manifest.id == made.id and copied.manifest.workspace_id == target.workspace_id
        assert copied.manifest.origin == snapshots.Origin(made.workspace_id, made.root)
        reference = snapshots.reference_to(source, made)
        assert snapshots.referred(target, reference, [made.label.session_id or ""], ["cp_1_1"]).id == made.id
    assert other.verify().findings == ()
    other.restore(copied.manifest)
    assert other.state() == before


def test_a_damaged_snapshot_is_not_copied(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "fork")
    place.write("a", b"one" * 100)
    made = place.snap()
    spoil(place, blob_of(b"one" * 100))
    with snapshots.opened(place.root) as source, snapshots.opened(other.root, create=True) as target:
        with pytest.raises(StorageError):
            snapshots.copy(source, made, target)
        assert snapshots.load_all(target)[0] == []
    assert not list((other.home / "packs").iterdir()) and not list((other.home / "tmp").iterdir())


def test_references_that_are_forged_or_foreign_are_refused(place: Place, tmp_path: Path) -> None:
    place.write("a", "one\n")
    session, checkpoint = "session_" + "1" * 32, "cp_1_1"
    with snapshots.opened(place.root, create=True) as store:
        made = snapshots.create(store, label=Label(None, session, checkpoint))
        plain = snapshots.create(store)
        good = snapshots.reference_to(store, made)
        assert snapshots.referred(store, good, [session], [checkpoint]) == made
        forged = [
            (Reference(made.id, "ws_" + "f" * 32, store.root), [session], [checkpoint]),
            (Reference(made.id, store.workspace_id, tmp_path), [session], [checkpoint]),
            (Reference("snap_" + "0" * 24, store.workspace_id, store.root), [session], [checkpoint]),
            (Reference("../../etc/passwd", store.workspace_id, store.root), [session], [checkpoint]),
            (Reference(plain.id, store.workspace_id, store.root), [session], [checkpoint]),
            (good, ["session_" + "2" * 32], [checkpoint]),
            (good, [session], ["cp_2_2"]),
        ]
        for reference, sessions, checkpoints in forged:
            with pytest.raises(RefusedError):
                snapshots.referred(store, reference, sessions, checkpoints)
    place.root.rename(tmp_path / "moved")
    with snapshots.opened(tmp_path / "moved") as store, pytest.raises(RefusedError):
        snapshots.referred(store, Reference(made.id, store.workspace_id, store.root), [session], [checkpoint])


def test_ids_are_found_by_their_beginning(place: Place) -> None:
    place.write("a", "one\n")
    made = [place.snap() for _ in range(3)]
    with snapshots.opened(place.root) as store:
        assert snapshots.find(store, made[1].id) == made[1]
        assert snapshots.find(store, made[1].id.removeprefix("snap_")) == made[1]
        assert snapshots.find(store, "latest") == made[2]
        with pytest.raises(RefusedError):
            snapshots.find(store, "snap_0")
        for text in ("", "snap_ffff", "../x", "zz"):
            with pytest.raises(NotFoundError):
                snapshots.find(store, text)


def test_what_differs(place: Place) -> None:
    place.write("a", "one\n")
    place.write("d/x", "x\n")
    first = place.snap()
    place.write("a", "two\n")
    place.write("d/y", "y\n")
    (place.root / "d/x").unlink()
    (place.root / "n").mkdir()
    second = place.snap()
    (place.root / "d/y").chmod(0o600)
    with snapshots.opened(place.root) as store:
        between = snapshots.diff(store, first, second)
        now = snapshots.diff(store, second)
    shown = {change.path: change.change for change in between.changes}
    assert shown == {b"a": "modified", b"d/x": "deleted", b"d/y": "added", b"n": "added"}
    assert [(change.path, change.change) for change in now.changes] == [(b"d/y", "mode")]


def test_many_packs_and_one_that_is_too_young(place: Place) -> None:
    made = []
    for number in range(5):
        place.write(f"f{number}", os.urandom(2000))
        made.append(place.snap())
    for pack in (place.home / "packs").iterdir():
        os.utime(pack, (1, 1))
    place.delete(*(item.id for item in made[:4]), grace=3600)
    assert place.verify().ok and place.object_count() == 6
    assert all(pack.stat().st_mtime == 1 for pack in (place.home / "packs").iterdir()), "ages are kept"


def test_a_manifest_that_was_changed_by_hand_is_damaged(place: Place) -> None:
    place.write("a", "one\n")
    made = place.snap(exclude=("*.log",))
    at = place.home / "manifests" / f"{made.id}.json"
    at.write_bytes(at.read_bytes().replace(b"*.log", b"*.lox"))
    with snapshots.opened(place.root) as store, pytest.raises(StorageError, match="checksum"):
        snapshots.load(store, made.id)


def test_any_flipped_bit_is_noticed_or_harmless(place: Place) -> None:
    """Whatever bit of a pack, manifest or the state rots: no crash, no wrong content passed off as right."""
    rng = random.Random(7)
    place.write("text", b"some text, again and again\n" * 40)
    place.write("d/noise", rng.randbytes(300))
    place.write("d/empty", b"")
    before = place.state()
    made = place.snap()
    for _ in range(60):
        stored = [*(place.home / "packs").iterdir(), *(place.home / "manifests").iterdir()]
        at = rng.choice([*stored, place.home / "state"])
        whole = at.read_bytes()
        broken = bytearray(whole)
        broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        at.write_bytes(broken)
        try:
            ok = place.verify().ok
            place.write("text", "changed\n")
            (place.root / "d/noise").unlink()
            place.restore(place.manifests()[-1] if place.manifests() else made)
            assert place.state() == before or not ok
        except YolopError:
            pass
        finally:
            at.write_bytes(whole)
        for manifest in place.manifests():
            if manifest.id != made.id:
                place.delete(manifest.id)
        place.restore(made)
        assert place.state() == before
    assert place.verify().findings == ()
