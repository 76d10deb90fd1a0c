"""Several processes on one store at once: nothing that is referred to is ever lost."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.store.support import Place
from yolop_cli import store as snapshots
from yolop_cli.ground.errors import BusyError
from yolop_cli.store import locks

WORKER = """
import os, random, sys
from pathlib import Path
from tests.store.support import Place
from yolop_cli.ground.errors import BusyError, StaleError
from yolop_cli import store as snapshots
root, job, rounds, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
place, rng = Place(root), random.Random(seed)
for number in range(rounds):
    try:
        if job == "create":
            place.write(f"{job}{seed}/f{rng.randrange(6)}", f"{rng.randrange(20)}" * 50)
            place.snap()
        elif job == "restore":
            place.restore(rng.choice(place.manifests()))
        else:
            with snapshots.opened(root) as store:
                snapshots.prune(store, snapshots.Retention(keep_last=4), grace=0)
    except (BusyError, StaleError, FileNotFoundError):
        pass
    except Exception as error:
        from yolop_cli.ground.errors import NotFoundError, StorageError
        # An edit in the middle of a restore undoes it; a snapshot may be pruned before it is used.
        if not isinstance(error, NotFoundError) and "as they were before" not in str(error):
            raise
"""


def together(root: Path, rounds: int) -> None:
    """Two snapshots, a restore and a pruning collection, each over and over in a process of its own."""
    jobs = [("create", 1), ("create", 2), ("restore", 3), ("collect", 4)]
    started = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(root), job, str(rounds), str(seed)],
                         cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)
        for job, seed in jobs
    ]  # fmt: skip
    for process in started:
        _, said = process.communicate(timeout=600)
        assert process.returncode == 0, said.decode()


def rounds_of(place: Place, rounds: int) -> None:
    for number in range(5):
        place.write(f"base/f{number}", f"{number}" * 100)
    place.snap()
    together(place.root, rounds)
    assert place.verify().ok, place.verify().findings
    for made in place.manifests():
        place.restore(made)
    assert place.gc().deferred == ()
    assert place.verify().ok
    assert not list((place.home / "tmp").iterdir())


def test_four_processes_at_once(place: Place) -> None:
    rounds_of(place, 25)


@pytest.mark.exhaustive
def test_four_processes_at_once_for_long(place: Place) -> None:
    rounds_of(place, 200)


def test_two_processes_make_one_store(place: Place) -> None:
    place.write("a", "one\n")
    words = (
        "import sys; from pathlib import Path; from tests.store.support import Place\n"
        "print(Place(Path(sys.argv[1])).snap().workspace_id)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", words, str(place.root)],
                         cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
        for _ in range(4)
    ]  # fmt: skip
    assert len({process.communicate(timeout=60)[0] for process in started}) == 1
    assert len(place.manifests()) == 4 and place.verify().findings == ()


def test_a_stopped_process_still_counts_and_a_killed_one_does_not(place: Place) -> None:
    place.write("a", "one\n")
    made = place.snap()
    words = (
        "import sys, time; from pathlib import Path\n"
        "from yolop_cli import store as s\nfrom yolop_cli.store import locks\n"
        "with s.opened(Path(sys.argv[1])) as store, locks.working(store, 'create'):\n"
        "    print('here', flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", words, str(place.root)],
                          cwd=Path(__file__).parents[2], stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None and process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGSTOP)
        (place.home / "manifests" / f"{made.id}.json").unlink()
        assert len(place.gc().deferred) == 1 and place.object_count() == 2
        process.kill()
    assert place.gc().deleted == 2
    assert sorted(os.listdir(place.home / "locks")) == ["gc.lock", "workspace.lock"]


def test_a_restore_and_a_snapshot_keep_off_each_other(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a", "one\n")
    made = place.snap()
    place.write("a", "two\n")
    with snapshots.opened(place.root) as store:
        with locks.changing_files(store):
            began = time.monotonic()
            prune = functools.partial(snapshots.prune, store, snapshots.Retention(keep_last=1))
            delete = functools.partial(place.delete, made.id)
            restore, plan = functools.partial(place.restore, made), functools.partial(place.plan, made)
            for attempt in (place.snap, restore, plan, prune, delete):
                with pytest.raises(BusyError):
                    attempt()
            assert time.monotonic() - began < 5
        with locks.reading_files(store), pytest.raises(BusyError):
            place.restore(made)
        assert place.manifests() == [made]
        monkeypatch.setattr(locks, "PATIENCE", 0.1)
        with locks.collecting(store), pytest.raises(BusyError):
            place.snap()
    assert place.restore(made).safety is not None


def test_a_snapshot_waits_for_a_collection_to_end(place: Place) -> None:
    place.write("a", "one\n")
    place.snap()
    with snapshots.opened(place.root) as store, contextlib.ExitStack() as collection:
        collection.enter_context(locks.collecting(store))
        ending = threading.Timer(0.3, collection.close)
        ending.start()
        began = time.monotonic()
        place.snap()
        assert time.monotonic() - began >= 0.2
        ending.join()


def test_roots_that_hold_one_another_keep_off_each_other(place: Place) -> None:
    below = Place(place.root / "below")
    below.write("a", "one\n")
    inner = below.snap()
    outer = place.snap()
    below.write("a", "two\n")
    with snapshots.opened(place.root) as store, locks.changing_files(store):
        for attempt in (below.snap, lambda: below.restore(inner)):
            with pytest.raises(BusyError):
                attempt()
    with snapshots.opened(below.root) as store, locks.changing_files(store):
        for attempt in (place.snap, lambda: place.restore(outer)):
            with pytest.raises(BusyError):
                attempt()
    with snapshots.opened(below.root) as store, locks.reading_files(store):
        place.snap()
