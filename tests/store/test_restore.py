"""Restoring: exact in both directions, only what differs, what is kept, what is refused, and the way back."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.support import Place, Settle
from tests.support import inprocess, trees, unprivileged
from yolop_cli import store as snapshots
from yolop_cli.ground.errors import DeniedError, StaleError, StorageError, YolopError
from yolop_cli.store import Kept, Rules, Settings, disk
from yolop_cli.store import place as apply


def kept(plan: snapshots.RestorePlan) -> dict[bytes, str]:
    return {item.path: item.why for item in plan.kept}


def changes(plan: snapshots.RestorePlan) -> dict[bytes, str]:
    return {change.path: change.change for change in plan.changes}


def scene(place: Place) -> snapshots.Manifest:
    place.write("same", "same\n")
    place.write("changed", "old\n")
    place.write("gone/deep/x", "back\n")
    place.write("mode", "m\n", 0o640)
    place.write("file-to-dir", "f\n")
    place.write("dir-to-file/a/b", "d\n")
    (place.root / "link").symlink_to("same")
    (place.root / "empty").mkdir(mode=0o710)
    return place.snap()


def disturb(place: Place) -> None:
    place.write("changed", "new\n")
    (place.root / "gone/deep/x").unlink()
    (place.root / "gone/deep").rmdir()
    (place.root / "gone").rmdir()
    (place.root / "mode").chmod(0o600)
    (place.root / "file-to-dir").unlink()
    place.write("file-to-dir/x/y", "now below\n")
    (place.root / "dir-to-file/a/b").unlink()
    (place.root / "dir-to-file/a").rmdir()
    (place.root / "dir-to-file").rmdir()
    place.write("dir-to-file", "now a file\n")
    (place.root / "link").unlink()
    (place.root / "link").symlink_to("changed")
    (place.root / "empty").rmdir()
    place.write("made/since/z", "away\n")


def test_back_to_exactly_what_was(place: Place) -> None:
    target = scene(place)
    before = place.state()
    disturb(place)
    disturbed = place.state()
    plan = place.plan(target)
    assert place.state() == disturbed, "a plan changes nothing"
    done = place.restore(target)
    assert done.plan == plan
    assert place.state() == before
    assert done.safety is not None and done.safety.kind == "safety"
    undone = place.restore(done.safety)
    assert place.state() == disturbed
    assert undone.safety is not None
    assert not (place.home / "restoring.json").exists()
    assert place.verify().findings == ()


def test_the_plan_names_every_path(place: Place) -> None:
    target = scene(place)
    disturb(place)
    plan = place.plan(target)
    assert changes(plan) == {
        b"changed": "modified",
        b"gone": "added",
        b"gone/deep": "added",
        b"gone/deep/x": "added",
        b"mode": "mode",
        b"file-to-dir": "type",
        b"file-to-dir/x": "deleted",
        b"file-to-dir/x/y": "deleted",
        b"dir-to-file": "type",
        b"dir-to-file/a": "added",
        b"dir-to-file/a/b": "added",
        b"link": "modified",
        b"empty": "added",
        b"made": "deleted",
        b"made/since": "deleted",
        b"made/since/z": "deleted",
    }
    assert plan.deleted == (b"file-to-dir/x", b"file-to-dir/x/y", b"made", b"made/since", b"made/since/z")
    assert plan.unchanged == 1
    assert plan.kept == ()


def test_only_what_differs_is_touched(place: Place) -> None:
    for number in range(20):
        place.write(f"d{number % 3}/f{number}", f"{number}\n")
    target = place.snap()
    place.write("d0/f0", "other\n")
    (place.root / "d1/f1").chmod(0o600)
    before = trees.stamps(place.root)
    place.restore(target)
    after = trees.stamps(place.root)
    assert {path for path in before if before[path] != after[path]} == {b"d0/f0"}
    assert stat.S_IMODE((place.root / "d1/f1").stat().st_mode) == 0o644


def test_nothing_to_do_changes_nothing_and_takes_no_safety_snapshot(place: Place) -> None:
    target = scene(place)
    before = trees.stamps(place.root)
    done = place.restore(target)
    assert done.safety is None and done.plan.changes == ()
    assert trees.stamps(place.root) == before
    assert len(place.manifests()) == 1


def test_excluded_and_skipped_paths_are_kept(place: Place) -> None:
    place.write("a.txt", "one\n")
    place.write("big", b"x" * 200)
    place.write("log/x.log", "1\n")
    place.write(".git/config", "g\n")
    target = place.snap(max_file_bytes=100, exclude=("*.log",))
    place.write("a.txt", "two\n")
    place.write("big", b"y" * 50)
    place.write("log/x.log", "2\n")
    place.write("log/new.log", "3\n")
    place.write("new-big", b"z" * 200)
    place.write("new", "n\n")
    done = place.restore(target)
    assert kept(done.plan) == {
        b".git": "excluded",
        b"big": "too-large",
        b"log/new.log": "excluded",
        b"log/x.log": "excluded",
        b"new-big": "too-large",
    }
    assert changes(done.plan) == {b"a.txt": "modified", b"new": "deleted"}
    assert (place.root / "big").read_bytes() == b"y" * 50
    assert (place.root / "new-big").exists() and not (place.root / "new").exists()


def test_what_is_kept_stays_kept_on_the_way_back(place: Place) -> None:
    place.write("a", "one\n")
    place.write("big", b"x" * 200)
    target = place.snap(max_file_bytes=100)
    place.write("a", b"two" * 100)
    place.write("other-big", b"x" * 150)
    done = place.restore(target)
    assert done.safety is not None and done.safety.rules.max_file_bytes == 300
    place.write("big", "changed after\n")
    back = place.restore(done.safety)
    assert changes(back.plan) == {b"a": "modified"}
    assert (place.root / "a").read_bytes() == b"two" * 100
    assert (place.root / "big").read_text() == "changed after\n"
    assert (place.root / "other-big").exists()


def test_a_directory_made_since_that_holds_something_kept_is_left_alone(place: Place) -> None:
    place.write("a", "one\n")
    target = place.snap()
    place.write("clone/sub/.git/config", "g\n")
    place.write("clone/file", "theirs\n")
    place.write("plain/file", "ours\n")
    done = place.restore(target)
    assert kept(done.plan) == {
        b"clone": "holds-kept",
        b"clone/sub/.git": "excluded",
    }
    assert (place.root / "clone/file").exists() and not (place.root / "plain").exists()


def test_a_directory_that_would_have_to_give_way_but_holds_something_kept_refuses(place: Place) -> None:
    place.write("x", "a file\n")
    target = place.snap()
    (place.root / "x").unlink()
    place.write("x/.git/config", "g\n")
    place.write("other", "since\n")
    before = place.state()
    for attempt in (place.plan, place.restore):
        with pytest.raises(DeniedError) as refused:
            attempt(target)
        assert refused.value.details["paths"] == ["x/.git"]
    assert place.state() == before
    assert len(place.manifests()) == 1


def test_special_files_are_kept(place: Place) -> None:
    place.write("was-a-file", "one\n")
    target = place.snap()
    (place.root / "was-a-file").unlink()
    os.mkfifo(place.root / "was-a-file")
    os.mkfifo(place.root / "pipe")
    done = place.restore(target)
    assert kept(done.plan) == {b"pipe": "special", b"was-a-file": "special"}
    assert done.plan.changes == ()


def test_a_change_that_the_workspace_leaves_out_of_its_snapshots_is_denied(place: Place) -> None:
    place.write("a.log", "one\n")
    place.write("b", "one\n")
    target = place.snap()
    place.write("a.log", "two\n")
    place.write("b", "two\n")
    settings = Settings(rules=Rules(exclude=("*.log",)))
    before = place.state()
    for attempt in (place.plan, place.restore):
        with pytest.raises(DeniedError) as refused:
            attempt(target, settings)
        assert refused.value.details["paths"] == ["a.log"]
    assert place.state() == before


def test_a_hard_linked_file_that_would_be_rewritten_is_denied(place: Place) -> None:
    place.write("a", "one\n")
    target = place.snap(refuse_hard_links=True)
    place.write("a", "two\n")
    os.link(place.root / "a", place.root / "b")
    with pytest.raises(DeniedError) as refused:
        place.restore(target)
    assert refused.value.details["paths"] == ["a"]


def test_the_other_name_of_a_hard_link_keeps_its_content(place: Place, tmp_path: Path) -> None:
    place.write("a", "one\n")
    target = place.snap()
    place.write("a", "two\n")
    os.link(place.root / "a", tmp_path / "outside")
    place.restore(target)
    assert (place.root / "a").read_text() == "one\n"
    assert (tmp_path / "outside").read_text() == "two\n"


def test_a_damaged_content_refuses_before_anything_changes(place: Place) -> None:
    place.write("a", b"one" * 1000)
    place.write("b", "one\n")
    target = place.snap()
    place.write("a", "two\n")
    place.write("b", "two\n")
    damage(place)
    before = place.state()
    for attempt in (place.plan, place.restore):
        with pytest.raises(StorageError, match=r"hash|unpacked|damaged|read"):
            attempt(target)
    assert place.state() == before
    assert len(place.manifests()) == 1, "the safety snapshot is only kept when something may have changed"


def damage(place: Place) -> None:
    """Flip a bit in the first object of every pack."""
    for pack in (place.home / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        data[8 + 12] ^= 0x40
        pack.write_bytes(data)


def test_a_link_put_in_place_of_a_directory_leads_nowhere(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place.write("d/x", "one\n")
    target = place.snap()
    place.write("d/x", "two\n")
    real = apply.carry_out

    def swapped(*arguments: object) -> None:
        (place.root / "d").rename(place.root / "d-moved")
        (place.root / "d").symlink_to(outside)
        monkeypatch.setattr(apply, "carry_out", real)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(apply, "carry_out", swapped)
    with pytest.raises(StorageError, match="as they were before"):
        place.restore(target)
    assert not list(outside.iterdir())
    assert (place.root / "d/x").read_text() == "two\n" and not (place.root / "d").is_symlink()


def test_a_file_that_changes_between_plan_and_restore_is_not_overwritten(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("a", "one\n")
    target = place.snap()
    place.write("a", "two\n")
    real = apply.check_still

    def meanwhile(store: snapshots.Store, plan: snapshots.RestorePlan) -> None:
        place.write("a", "three\n")
        real(store, plan)

    monkeypatch.setattr(apply, "check_still", meanwhile)
    with pytest.raises(StaleError):
        place.restore(target)
    assert (place.root / "a").read_text() == "three\n"
    assert [item.kind for item in place.manifests()] == ["snapshot"]


def test_prepared_and_carried_out_later(place: Place) -> None:
    target = scene(place)
    before = place.state()
    disturb(place)
    with snapshots.opened(place.root) as store:
        prepared = snapshots.prepare(store, target)
    assert prepared.safety is not None
    with snapshots.opened(place.root) as store:
        plan = snapshots.carry_out(store, target, prepared.safety)
    assert plan == prepared.plan
    assert place.state() == before


@pytest.mark.parametrize("what", ["edit", "add", "delete", "mode"])
def test_prepared_and_stale(place: Place, what: str) -> None:
    target = scene(place)
    disturb(place)
    with snapshots.opened(place.root) as store:
        prepared = snapshots.prepare(store, target)
    assert prepared.safety is not None
    if what == "edit":
        place.write("same", "SAME\n")
    elif what == "add":
        place.write("another", "x\n")
    elif what == "delete":
        (place.root / "same").unlink()
    else:
        (place.root / "same").chmod(0o600)
    before = place.state()
    with snapshots.opened(place.root) as store, pytest.raises(StaleError):
        snapshots.carry_out(store, target, prepared.safety)
    assert place.state() == before


def test_case_47_exact_modes_set_before_the_content_is_visible(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(".env", "k\n", 0o600)
    place.write("s", "s\n", 0o4750)
    place.write("w", "w\n", 0o666)
    before = place.state()
    target = place.snap()
    place.write(".env", "k2\n", 0o644)
    (place.root / "s").unlink()
    (place.root / "w").chmod(0o600)
    seen = {}
    rename = disk.rename

    def look(source: bytes, source_at: int, name: bytes, at: int) -> None:
        seen[name] = stat.S_IMODE(os.stat(source, dir_fd=source_at, follow_symlinks=False).st_mode)
        rename(source, source_at, name, at)

    monkeypatch.setattr(disk, "rename", look)
    old = os.umask(0)
    try:
        place.restore(target)
    finally:
        os.umask(old)
    assert place.state() == before
    assert seen[b".env"] == 0o600 and seen[b"s"] == 0o4750


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away takes root")
def test_a_set_id_file_of_another_owner_does_not_become_ours(place: Place) -> None:
    at = place.write("s", "s\n")
    os.chown(at, 12345, 12345)
    at.chmod(0o4755)
    target = place.snap()
    at.unlink()
    place.restore(target)
    status = at.stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (12345, 0o4755)


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away takes root")
def test_a_replaced_file_keeps_its_owner(place: Place) -> None:
    at = place.write("s", "one\n")
    target = place.snap()
    at.write_text("two\n")
    os.chown(at, 12345, 12346)
    place.restore(target)
    assert (at.stat().st_uid, at.stat().st_gid, at.read_text()) == (12345, 12346, "one\n")


def as_user(place: Place, words: str) -> str:
    """What lines of Python on the place print without the power to pass over permission bits."""

    def entry() -> None:
        unprivileged.drop()
        try:
            exec(words, {"place": place})
        except YolopError as error:
            print(error.code, error.details.get("paths"))

    status, said, wrong = inprocess.forked(entry, [], os.environ, place.root, None, 60)
    assert status == 0, wrong.decode()
    return said.decode().strip()


def test_case_03_what_cannot_be_read_is_skipped_and_left_alone(place: Place) -> None:
    place.write("ok", "one\n")
    place.write("secret", "s\n", 0o000)
    place.write("closed/x", "c\n")
    place.write("listed/y", "l\n")
    (place.root / "closed").chmod(0o000)
    (place.root / "listed").chmod(0o400)
    said = as_user(place, "print([(i.path, i.reason) for i in place.snap().skipped])")
    assert said == str([(name, "unreadable") for name in (b"closed", b"listed", b"secret")])
    place.write("ok", "two\n")
    place.write("new", "n\n")
    (place.root / "secret").chmod(0o600)
    place.write("secret", "changed\n")
    (place.root / "closed").chmod(0o700)
    place.write("closed/z", "made since\n")
    done = place.restore(place.manifests()[0])
    assert changes(done.plan) == {b"new": "deleted", b"ok": "modified"}
    assert kept(done.plan) == {b"closed": "unreadable", b"listed": "unreadable", b"secret": "unreadable"}
    assert (place.root / "secret").read_text() == "changed\n" and (place.root / "closed/z").exists()


def test_what_became_unreadable_and_would_be_written_is_denied(place: Place) -> None:
    place.write("closed/x", "c\n")
    place.write("file", "one\n")
    place.snap()
    (place.root / "closed").chmod(0o000)
    (place.root / "file").chmod(0o000)
    for verb in ("plan", "restore"):
        said = as_user(place, f"place.{verb}(place.manifests()[0])")
        assert said == "DENIED ['closed', 'file']"
    (place.root / "closed").chmod(0o755)
    (place.root / "file").chmod(0o644)


def test_a_directory_made_read_only_since_is_opened_while_the_restore_runs(place: Place) -> None:
    place.write("d/x", "one\n")
    place.write("e/x", "one\n")
    place.write("f/g/x", "one\n")
    place.snap()
    place.write("d/x", "two\n")
    place.write("e/new", "two\n")
    (place.root / "f/g/x").unlink()
    for name in ("d", "e", "f/g"):
        (place.root / name).chmod(0o555)
    said = as_user(place, "print(sorted(place.restore(place.manifests()[0]).plan.opened))")
    assert said == "[b'd', b'e', b'f/g']"
    assert (place.root / "d/x").read_text() == "one\n" and (place.root / "f/g/x").exists()
    modes = {name: stat.S_IMODE((place.root / name).stat().st_mode) for name in ("d", "e", "f/g")}
    assert modes == {"d": 0o755, "e": 0o755, "f/g": 0o755}, "the snapshot's modes"
    place.snap()
    (place.root).chmod(0o555)
    place.write("top", "since\n")
    as_user(place, "place.restore(place.manifests()[0])")
    assert not (place.root / "top").exists()
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o555, "its own back"
    place.root.chmod(0o755)


def test_read_only_directories_of_the_snapshot_are_made_again(place: Place) -> None:
    place.write("d/sub/x", "one\n")
    (place.root / "d/sub").chmod(0o555)
    (place.root / "d").chmod(0o555)
    target = place.snap()
    before = place.state()
    (place.root / "d").chmod(0o755)
    (place.root / "d/sub").chmod(0o755)
    subprocess.run(["rm", "-r", str(place.root / "d")], check=True)
    said = as_user(place, "print(len(place.restore(place.manifests()[0]).plan.changes))")
    assert said == "3"
    assert place.state() == before
    assert place.plan(target).changes == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving directories away takes root")
def test_another_users_read_only_directory_is_denied(place: Place) -> None:
    place.write("d/x", "one\n")
    place.snap()
    place.write("d/x", "two\n")
    (place.root / "d").chmod(0o555)
    os.chown(place.root / "d", 12345, 12345)
    for verb in ("plan", "restore"):
        assert as_user(place, f"place.{verb}(place.manifests()[0])") == "DENIED ['d']"
    assert (place.root / "d/x").read_text() == "two\n"


def test_case_43_the_same_cap_decides_at_capture_and_at_restore(place: Place) -> None:
    place.write("a.txt", "one\n")
    place.write("data.bin", os.urandom(20_000))
    place.write("grow.log", "log\n")
    target = place.snap(max_file_bytes=10_000)
    grown = b"log\n" + os.urandom(30_000)
    place.write("grow.log", grown)
    place.write("new.bin", os.urandom(20_000))
    place.write("a.txt", "v2\n")
    place.write("new.txt", "n\n")
    before = {name: (place.root / name).read_bytes() for name in ("data.bin", "new.bin")}
    done = place.restore(target)
    assert kept(done.plan) == {b"data.bin": "too-large", b"new.bin": "too-large"}
    assert {name: (place.root / name).read_bytes() for name in before} == before
    assert (place.root / "grow.log").read_text() == "log\n" and not (place.root / "new.txt").exists()
    assert done.safety is not None
    place.restore(done.safety)
    assert (place.root / "grow.log").read_bytes() == grown, "the safety snapshot held its present bytes"


def test_case_44_content_of_equal_size_and_time_is_told_apart(place: Place) -> None:
    def write(name: str, data: str) -> None:
        place.write(name, data)
        os.utime(place.root / name, (1700000000, 1700000000))

    write("x", "AAAA")
    place.snap()
    write("x", "BBBB")
    first = place.snap()
    write("y", "CCCC")
    (place.root / "y").rename(place.root / "x")
    second = place.snap()
    bad = 0
    for number in range(50):
        place.write("x", f"{number:04d}")
        made = place.snap()
        place.write("x", "zzzz")
        place.restore(made)
        bad += (place.root / "x").read_text() != f"{number:04d}"
    assert bad == 0
    place.restore(first)
    assert (place.root / "x").read_text() == "BBBB"
    place.restore(second)
    assert (place.root / "x").read_text() == "CCCC"


def test_a_file_replaced_by_one_with_the_same_size_and_times(place: Place, settle: Settle) -> None:
    place.write("x", "AAAA")
    os.utime(place.root / "x", ns=(1, 1_700_000_000_123_456_789))
    settle()
    place.snap()
    place.write("y", "BBBB")
    os.utime(place.root / "y", ns=(1, 1_700_000_000_123_456_789))
    (place.root / "y").rename(place.root / "x")
    second = place.snap()
    place.write("x", "gone")
    place.restore(second)
    assert (place.root / "x").read_text() == "BBBB"


def test_an_interrupted_restore_keeps_its_first_safety_snapshot(place: Place) -> None:
    place.write("a", "one\n")
    first = place.snap()
    place.write("a", "two\n")
    safety = place.snap()
    at = place.home / "restoring.json"
    at.write_text(
        f'{{"snapshot_id":"{first.id}","safety_snapshot_id":"{safety.id}","began_at":"2026-01-01T00:00:00Z"}}'
    )
    at.chmod(0o600)
    with snapshots.opened(place.root) as store:
        found = snapshots.interrupted(store)
        assert found is not None and found.safety_snapshot_id == safety.id
        assert snapshots.prune(store, snapshots.Retention(keep_last=1), grace=0).deleted == ()
    assert [item.code for item in place.verify().findings] == ["restore-interrupted"]
    place.restore(safety)
    with snapshots.opened(place.root) as store:
        assert snapshots.interrupted(store) is None


def test_sparse_files_come_back_sparse_and_equal(place: Place) -> None:
    at = place.root / "sparse"
    with at.open("wb") as file:
        file.write(b"head")
        file.seek(64 << 20)
        file.write(b"tail")
    target = place.snap(max_file_bytes=1 << 40)
    assert target.stats.stored_bytes < 1 << 20
    at.unlink()
    place.restore(target)
    assert at.stat().st_size == (64 << 20) + 4
    assert at.stat().st_blocks * 512 < 8 << 20
    with at.open("rb") as file:
        assert file.read(8) == b"head\0\0\0\0"
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"tail"


def test_kept_is_a_value() -> None:
    assert Kept(b"a", "excluded") == Kept(b"a", "excluded")


@pytest.mark.parametrize("content", ["text", "noise", "zeros"])
def test_large_files_are_streamed_and_stored_once(place: Place, content: str) -> None:
    size = 9 << 20
    data = {"text": b"the same line again\n" * (size // 20), "noise": os.urandom(size), "zeros": bytes(size)}
    place.write("large", data[content])
    place.write("copy", data[content])
    target = place.snap()
    assert len(list((place.home / "packs").glob("*.pack"))) == 2, "one for it, one for the listing"
    again = place.snap()
    assert again.stats.stored_bytes == 0
    (place.root / "copy").unlink()
    place.write("large", b"changed")
    place.restore(target)
    assert (place.root / "large").read_bytes() == data[content] == (place.root / "copy").read_bytes()
    assert place.verify().ok


MEASURE = """
import resource, sys
from pathlib import Path
from tests.store.support import Place
place = Place(Path(sys.argv[1]))
{step}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory_of(place: Place, step: str) -> int:
    """The most memory a step takes in a process of its own, in KiB."""
    said = subprocess.run(
        [sys.executable, "-c", MEASURE.format(step=step), str(place.root)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return int(said.stdout)


def one_file_of(place: Place, size: int, noise: int = 32 << 20) -> tuple[int, int]:
    """The memory that a snapshot and a restore of one file of that size take; the rest of it are zeros."""
    with (place.root / "large").open("wb") as file:
        for _ in range(min(size, noise) >> 20):
            file.write(os.urandom(1 << 20))
        file.truncate(size)
    created = memory_of(place, "place.snap(max_file_bytes=1 << 40)")
    (place.root / "large").unlink()
    restored = memory_of(place, "place.restore(place.manifests()[0])")
    assert (place.root / "large").stat().st_size == size
    return created, restored


def test_a_large_file_takes_no_more_memory_than_a_small_one(place: Place, tmp_path: Path) -> None:
    small = one_file_of(Place(tmp_path / "small"), 6 << 20)
    large = one_file_of(place, 64 << 20)
    assert all(more - less < 24 << 10 for less, more in zip(small, large, strict=True)), (small, large)


@pytest.mark.exhaustive
@pytest.mark.parametrize("noise", [0, 32 << 20])
def test_a_file_of_five_gigabytes_in_constant_memory(place: Place, tmp_path: Path, noise: int) -> None:
    small = one_file_of(Place(tmp_path / "small"), 6 << 20)
    large = one_file_of(place, 5 << 30, noise)
    assert all(more - less < 24 << 10 for less, more in zip(small, large, strict=True)), (small, large)


@pytest.mark.parametrize("how", ["at once", "prepared"])
def test_what_the_store_has_lost_unnoticed_is_stored_anew_before_it_is_replaced(
    place: Place, settle: Settle, how: str
) -> None:
    """The file on disk is the last good copy: the safety snapshot must not trust the damaged one."""
    place.write("a", "old\n")
    place.write("d/b", "old\n")
    first = place.snap()
    precious = {"a": os.urandom(3000), "d/b": os.urandom(3000)}
    for name, content in precious.items():
        place.write(name, content)
    before = set(os.listdir(place.home / "packs"))
    settle()
    place.snap()
    for pack in (place.home / "packs").iterdir():
        if pack.name not in before:
            data = bytearray(pack.read_bytes())
            data[8 : len(data) - 400] = bytes(len(data) - 408)
            times = pack.stat().st_mtime_ns, pack.stat().st_mtime_ns
            pack.write_bytes(data)
            os.utime(pack, ns=times)  # as when a disk forgets
    if how == "at once":
        safety = place.restore(first).safety
    else:
        with snapshots.opened(place.root) as store:
            target = snapshots.load(store, first.id)
            safety = snapshots.prepare(store, target).safety
            assert safety is not None
            snapshots.carry_out(store, target, safety)
    assert safety is not None and (place.root / "a").read_text() == "old\n"
    place.restore(safety)
    assert {name: (place.root / name).read_bytes() for name in precious} == precious
