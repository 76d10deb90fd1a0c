"""Whatever a directory holds comes back, from whatever it became, and the way back leads back too."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.support import Place
from tests.support.trees import difference

NAMES = st.one_of(
    st.sampled_from(
        [b"a", b"b", b"c", b"A", b"-x", b"*", b" ", b"\\", b"\n", b'"', b".x", b"\xff", b"\xc3\xa4"]
    ),
    st.binary(min_size=1, max_size=6).filter(
        lambda name: not set(name) & set(b"/\0") and name not in (b".", b"..", b".git", b".cogitator")
    ),
)
LARGE = {"text": b"x" * 5000, "zeros": bytes(70_000), "noise": bytes(range(256)) * 12}
FILES = st.tuples(
    st.just("file"),
    st.one_of(st.binary(max_size=40), st.sampled_from(sorted(LARGE))),
    st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o4711]),
)
LINKS = st.tuples(st.just("link"), st.binary(min_size=1, max_size=8).filter(lambda text: b"\0" not in text))
ENTRIES: Any = st.recursive(
    st.one_of(FILES, LINKS),
    lambda children: st.tuples(
        st.just("directory"),
        st.dictionaries(NAMES, children, max_size=4),
        st.sampled_from([0o755, 0o700, 0o555]),
    ),
    max_leaves=12,
)
TREES = st.dictionaries(NAMES, ENTRIES, max_size=5)


def build(at: bytes, tree: dict[bytes, Any]) -> None:
    for name, entry in tree.items():
        path = os.path.join(at, name)
        if entry[0] == "file":
            with open(path, "wb") as file:
                file.write(LARGE[entry[1]] if isinstance(entry[1], str) else entry[1])
            os.chmod(path, entry[2])
        elif entry[0] == "link":
            os.symlink(entry[1], path)
        else:
            os.mkdir(path)
            build(path, entry[1])
            os.chmod(path, entry[2])


def clear(root: Path) -> None:
    for entry in os.scandir(os.fsencode(root)):
        if entry.name != b".cogitator":
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=TREES, second=TREES)
def test_back_and_forth(first: dict[bytes, Any], second: dict[bytes, Any]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(Path(scratch) / "plain")
        build(os.fsencode(place.root), first)
        before = place.state()
        target = place.snap()
        clear(place.root)
        build(os.fsencode(place.root), second)
        after = place.state()
        plan = place.plan(target)
        done = place.restore(target)
        assert done.plan == plan
        assert difference(before, place.state()) == []
        assert place.plan(target).changes == ()
        assert (done.safety is None) is (before == after)
        if done.safety is not None:
            place.restore(done.safety)
            assert difference(after, place.state()) == []
        assert place.verify().findings == ()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(first=TREES, second=TREES, third=TREES)
def test_deleting_one_snapshot_leaves_the_others_whole(
    first: dict[bytes, Any], second: dict[bytes, Any], third: dict[bytes, Any]
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        place = Place(Path(scratch) / "plain")
        states, made = [], []
        for tree in (first, second, third):
            clear(place.root)
            build(os.fsencode(place.root), tree)
            states.append(place.state())
            made.append(place.snap())
        place.delete(made[1].id)
        for number in (0, 2):
            place.restore(made[number])
            assert difference(states[number], place.state()) == []
        assert place.verify().findings == ()
