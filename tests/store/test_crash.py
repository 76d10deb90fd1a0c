"""Killed, or failing, at any call that touches the disk: nothing half, nothing lost, leftovers collected."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.store.faults import Faults, count, killed_at, spread
from tests.store.support import Place
from tests.support.trees import Entry
from yolop_cli import store as snapshots
from yolop_cli.ground.errors import StorageError
from yolop_cli.store.packs import Packs
from yolop_cli.store.reach import Reach

SAMPLES = 15


class Scene:
    """A root with two snapshots, one deleted one whose contents are garbage, and files changed since."""

    def __init__(self, root: Path):
        self.place = place = Place(root / "scene")
        place.write("stays", "same\n")
        place.write("edited", "old\n" * 100)
        place.write("removed/deep/x", "back\n")
        place.write("mode", "m\n", 0o640)
        place.write("d2f/a/b", "d\n")
        place.write("f2d", "f\n")
        (place.root / "link").symlink_to("stays")
        (place.root / "ro").mkdir()
        place.write("ro/x", "r\n")
        (place.root / "ro").chmod(0o555)
        self.target = place.snap()
        self.new = place.state()
        place.write("edited", "garbage\n" * 100)
        self.garbage = place.snap()
        place.write("edited", "now\n" * 100)
        shutil.rmtree(place.root / "removed")
        (place.root / "mode").chmod(0o600)
        shutil.rmtree(place.root / "d2f")
        place.write("d2f", "now a file\n")
        (place.root / "f2d").unlink()
        place.write("f2d/x/y", "now below\n")
        (place.root / "link").unlink()
        (place.root / "link").symlink_to("edited")
        (place.root / "ro").chmod(0o755)
        place.write("ro/x", "R\n")
        place.write("made/since", "away\n")
        self.old = place.state()

    def fresh(self, root: Path, number: int) -> Place:
        at = root / f"try{number}"
        shutil.copytree(self.place.root, at, symlinks=True)
        return Place(at)


def create(scene: Scene, place: Place) -> object:
    return place.snap()


def restore(scene: Scene, place: Place) -> object:
    return place.restore(scene.target)


def collect(scene: Scene, place: Place) -> object:
    there = scene.target.id in [item.id for item in place.manifests()]
    return place.delete(scene.target.id) if there else place.gc()


def copy(scene: Scene, place: Place) -> object:
    with snapshots.opened(place.root) as source:
        with snapshots.opened(place.root.with_name(place.root.name + "-fork"), create=True) as target:
            return snapshots.copy(source, scene.target, target)


STEPS = {"create": create, "restore": restore, "collect": collect, "copy": copy}


def check_store(place: Place) -> None:
    """Every manifest is complete; a collection removes whatever a crash left."""
    if not snapshots.has_store(place.root):
        return
    found = place.verify()
    assert found.ok, found.findings
    plan = place.gc()
    assert plan.deferred == () and plan.unreadable == ()
    assert not list((place.home / "tmp").iterdir())
    assert {path.name for path in (place.home / "locks").iterdir()} <= {"gc.lock", "workspace.lock"}
    with snapshots.opened(place.root) as store, Packs(store) as packs:
        reach = Reach(packs)
        for manifest in snapshots.load_all(store)[0]:
            reach.add(manifest.tree)
        assert reach.objects == packs.objects.keys()
    assert place.verify().ok


def check_files(scene: Scene, place: Place) -> None:
    """The old files, or the new ones, or a mixture that the safety snapshot undoes; nothing torn."""
    state = place.state()
    whole = {*scene.old.values(), *scene.new.values()}
    allowed = whole | {Entry("directory", mode, "") for mode in (0o700, 0o755, 0o555)}
    for path, entry in state.items():
        assert entry in allowed, f"{path!r} is neither old nor new: {entry}"
    with snapshots.opened(place.root) as store:
        record = snapshots.interrupted(store)
        if record is None:
            assert state in (scene.old, scene.new), "a mixture that nothing tells of"
            return
        safety = snapshots.load(store, record.safety_snapshot_id)
    place.restore(safety)
    assert place.state() == scene.old
    with snapshots.opened(place.root) as store:
        assert snapshots.interrupted(store) is None


@pytest.mark.parametrize("name", STEPS)
def test_killed_at_some_calls(tmp_path: Path, name: str) -> None:
    sweep(tmp_path, name, SAMPLES)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STEPS)
def test_killed_at_every_call(tmp_path: Path, name: str) -> None:
    sweep(tmp_path, name, 10_000)


def sweep(tmp_path: Path, name: str, samples: int) -> None:
    scene = Scene(tmp_path)
    prepare_fork(scene.fresh(tmp_path, 0), name)
    total = count(lambda: STEPS[name](scene, Place(tmp_path / "try0")))
    assert total > 5
    for number in spread(total, samples):
        place = scene.fresh(tmp_path, number)
        prepare_fork(place, name)
        killed_at(number, lambda place=place: STEPS[name](scene, place))  # type: ignore[misc]
        check_files(scene, place)
        check_store(place)
        check_store(Place(place.root.with_name(place.root.name + "-fork")))
        STEPS[name](scene, place)
        check_store(place)


def prepare_fork(place: Place, name: str) -> None:
    if name == "copy":
        place.root.with_name(place.root.name + "-fork").mkdir()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("name", STEPS)
def test_failing_at_some_calls(tmp_path: Path, name: str, code: int) -> None:
    fail(tmp_path, name, code, 12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("name", STEPS)
def test_failing_at_every_call(tmp_path: Path, name: str, code: int) -> None:
    fail(tmp_path, name, code, 10_000)


def fail(tmp_path: Path, name: str, code: int, samples: int) -> None:
    """One call fails: the step says so, or did without it; no file is changed by a step that failed."""
    scene = Scene(tmp_path)
    prepare_fork(scene.fresh(tmp_path, 0), name)
    total = count(lambda: STEPS[name](scene, Place(tmp_path / "try0")))

    def fails(call: str, arguments: tuple[Any, ...]) -> None:
        raise OSError(code, "injected", call)

    failures = 0
    for number in spread(total, samples):
        place = scene.fresh(tmp_path, number)
        prepare_fork(place, name)
        with Faults(number, fails):
            try:
                STEPS[name](scene, place)
                expected = scene.new if name == "restore" else scene.old
                assert all(item.skipped == () for item in place.manifests())
            except StorageError as error:
                failures += 1
                assert "injected" in error.message or "No space" in error.message or error.message
                expected = scene.old
        with snapshots.opened(place.root) as store:
            assert snapshots.interrupted(store) is None or place.state() != scene.old
        if place.state() != expected:
            check_files(scene, place)
        check_store(place)
    assert failures >= total // 4 if samples > total else failures
