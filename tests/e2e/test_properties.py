"""Random trees, random changes: a capture comes back exactly, and so does what a restore replaced."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.support import reader, trees
from tests.support.sandbox import Sandbox

FILE, EXECUTABLE, LINK = "file", "executable", "link"
# Parts that collide with each other (so that files, directories and links take each other's places), and
# parts that are hard to spell.
PARTS = [
    *(b"a", b"b", b"c", b"d"),
    *(b"nl\nx", b'q"x', b"'", b" lead", b"trail ", b"-rf", b"*", b"caf\xc3\xa9", b"\xff\xfe", b"back\\slash"),
    *(b"\xe2\x80\xa8", b"tab\t", b":(top)", b"build", b"con", b"A"),
]
CONTENTS = [
    b"",
    b"x",
    b"x\n",
    b"x\r\n",
    b"\0\xff",
    b"$Id$\n",
    b"a\r\nb\n",
    b"y" * 3000,
    b"ref: refs/heads/x\n",
]
TARGETS = [b"a", b"../..", b"/nowhere", b"b/c", b".", b"\xff"]
BLOCKED = frozenset({b"build"})


@dataclass(frozen=True)
class Thing:
    """A file, executable file or link."""

    kind: str
    content: bytes


things = st.one_of(
    st.builds(Thing, st.just(FILE), st.sampled_from(CONTENTS)),
    st.builds(Thing, st.just(EXECUTABLE), st.sampled_from(CONTENTS)),
    st.builds(Thing, st.just(LINK), st.sampled_from(TARGETS)),
)
paths = st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map(b"/".join)
Tree = dict[bytes, Thing]


def consistent(tree: Tree) -> Tree:
    """The tree without paths that would need a file to be a directory, and without blocked directories."""
    kept: Tree = {}
    for path in sorted(tree, key=len):
        parts = path.split(b"/")
        above = [b"/".join(parts[:end]) for end in range(1, len(parts))]
        if not BLOCKED.intersection(parts[:-1]) and not any(parent in kept for parent in above):
            kept[path] = tree[path]
    return kept


random_trees = st.dictionaries(paths, things, max_size=9).map(consistent)


@st.composite
def changed(draw: st.DrawFn, tree: Tree) -> Tree:
    """Another tree that shares some of the first one's paths: edits, deletions, renames, other types."""
    keep = {path: thing for path, thing in tree.items() if draw(st.booleans())}
    moved = {path + b"~": thing for path, thing in tree.items() if path not in keep and draw(st.booleans())}
    fresh = draw(st.dictionaries(st.one_of(paths, below(list(tree))), things, max_size=5))
    return consistent({**keep, **moved, **fresh})


def below(taken: list[bytes]) -> st.SearchStrategy[bytes]:
    """Paths of the first tree, and paths below them where it has files."""
    if not taken:
        return paths
    return st.builds(
        lambda path, part: path + part, st.sampled_from(taken), st.sampled_from([b"", b"/in", b"/a"])
    )


pairs = random_trees.flatmap(lambda tree: st.tuples(st.just(tree), changed(tree)))


def build(root: Path, tree: Tree) -> None:
    """Make the worktree hold exactly this tree, touching only what differs."""
    base = os.fsencode(root)
    for name in os.listdir(base):
        if name != b".git":
            path = os.path.join(base, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
    for relative, thing in tree.items():
        path = os.path.join(base, relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if thing.kind == LINK:
            os.symlink(thing.content, path)
        else:
            with open(path, "wb") as file:
                file.write(thing.content)
            os.chmod(path, 0o755 if thing.kind == EXECUTABLE else 0o644)


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One session and one kept capture index for all examples: what earlier ones left must not matter."""
    box = Sandbox(tmp_path_factory.mktemp("playground"))
    box.make_repo()
    box.git("config", "core.autocrlf", "true", at=box.repo)
    box.git("config", "core.fileMode", "false", at=box.repo)
    box.make_worktree()
    return box


@contextmanager
def unchanged_repository(box: Sandbox) -> Iterator[None]:
    """The user's git state is the same before and after; runs inside need not compare it one by one."""
    before = box.gitstates(["--yes"])
    yield
    assert box.gitstates(["--yes"]) == before
    box.assert_private()


def there_and_back(box: Sandbox, first: Tree, second: Tree) -> None:
    """Capture the first tree, turn it into the second, rewind, redo."""
    with unchanged_repository(box):
        build(box.worktree, first)
        captured = box.state()
        name = box.create(watch=False)["id"]
        build(box.worktree, second)
        replaced = box.state()
        box.cli("checkpoint", "complete", watch=False)
        box.back(name, "both", watch=False)
        assert box.state() == captured, trees.difference(captured, box.state())
        box.cli("redo", "--yes", "--json", watch=False)
        assert box.state() == replaced, trees.difference(replaced, box.state())
        assert box.folded().head == name
        assert reader.records(box.timeline)


RELAXED = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)


@settings(max_examples=4, deadline=None, suppress_health_check=RELAXED, derandomize=True, database=None)
@for_all(pair=pairs)
def test_capture_change_rewind_redo(playground: Sandbox, pair: tuple[Tree, Tree]) -> None:
    there_and_back(playground, *pair)


@pytest.mark.exhaustive
@settings(max_examples=300, deadline=None, suppress_health_check=RELAXED, database=None)
@for_all(pair=pairs)
def test_capture_change_rewind_redo_at_length(playground: Sandbox, pair: tuple[Tree, Tree]) -> None:
    there_and_back(playground, *pair)


def walk(box: Sandbox, trees_in_turn: list[Tree], order: list[int]) -> None:
    """A checkpoint of each tree, then jumps between them."""
    states, names = [], []
    with unchanged_repository(box):
        for tree in trees_in_turn:
            build(box.worktree, tree)
            states.append(box.state())
            names.append(box.create(watch=False)["id"])
            box.cli("checkpoint", "complete", watch=False)
        for index in order:
            at = index % len(names)
            box.back(names[at], "workspace", watch=False)
            assert box.state() == states[at], trees.difference(states[at], box.state())


sequences = st.tuples(
    st.lists(random_trees, min_size=2, max_size=3), st.lists(st.integers(0, 5), min_size=2, max_size=3)
)


@settings(max_examples=2, deadline=None, suppress_health_check=RELAXED, derandomize=True, database=None)
@for_all(sequence=sequences)
def test_jumps_between_several_checkpoints(
    playground: Sandbox, sequence: tuple[list[Tree], list[int]]
) -> None:
    walk(playground, *sequence)


@pytest.mark.exhaustive
@settings(max_examples=80, deadline=None, suppress_health_check=RELAXED, database=None)
@for_all(sequence=sequences)
def test_jumps_between_several_checkpoints_at_length(
    playground: Sandbox, sequence: tuple[list[Tree], list[int]]
) -> None:
    walk(playground, *sequence)


def test_every_kind_of_change_at_one_path(playground: Sandbox) -> None:
    """File, executable, link and directory at the same place, in every order of two."""
    kinds: list[Tree] = [
        {},
        {b"p": Thing(FILE, b"f\n")},
        {b"p": Thing(EXECUTABLE, b"f\n")},
        {b"p": Thing(LINK, b"f")},
        {b"p/q": Thing(FILE, b"f\n"), b"p/r/s": Thing(LINK, b"..")},
    ]
    pairs_of_kinds = [(a, b) for a in range(5) for b in range(5) if a != b]
    first: Tree = {}
    second: Tree = {}
    for number, (a, b) in enumerate(pairs_of_kinds):  # all at once: one path for every pair
        top = b"%d" % number
        first |= {top + b"/" + path: thing for path, thing in kinds[a].items()}
        second |= {top + b"/" + path: thing for path, thing in kinds[b].items()}
    there_and_back(playground, first, second)
