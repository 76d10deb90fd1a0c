"""The decision about worktrees, without a disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yolop_cli.worktrees.contents import Contents, Tree
from yolop_cli.worktrees.prune_plan import Facts, barriers, decide, prune_plan, unsaved
from yolop_cli.worktrees.repository import Registered, Repository

ONE, TWO = (f"session_{number:032x}" for number in (1, 2))
REPO = Path("/repo/.git")
CLEAN = Contents("a" * 40, "refs/heads/x", 0, 0, 0, gitlinks=False)


def facts(session: str = ONE, **changes: Any) -> Facts:
    """A clean orphan, and what is to be different about it."""
    path = Path("/store/0a") / session
    made = Facts(
        path, session, REPO, path, CLEAN.head, CLEAN.branch, contents=CLEAN, tree=Tree(1), only_here=False
    )
    return replace(made, **changes)


def repository(*registered: Path, **private: dict[str, str]) -> Repository:
    return Repository(
        REPO, Path("/repo"), tuple(Registered(path) for path in registered), private, {}, frozenset()
    )


BARRIERS = {
    "unreadable": {"trouble": "no"},
    "symlink": {"is_link": True},
    "owner": {"foreign": True},
    "not-linked": {"unlinked": "no"},
    "not-ours": {"session_id": None},
    "referenced": {"named_by": (TWO,)},
    "running": {"running": True},
    "locked": {"locked": ""},
    "in-use": {"in_use": ("sh",)},
    "inside": {"inside": Path("/store/0a/x/y")},
    "mounted": {"tree": Tree(1, mounted=Path("/store/0a/x/m"))},
}
UNSAVED = {
    "changes": {"contents": replace(CLEAN, untracked=1)},
    "nested": {"tree": Tree(1, nested=Path("/n"))},
    "stash": {"stashed": True},
    "commits": {"only_here": True},
    "under-way": {"under_way": ("a merge",)},
}


def test_clean_orphan_goes() -> None:
    assert decide(facts(), force=False) == ("remove", ())


@pytest.mark.parametrize("code", BARRIERS)
def test_barriers_hold_against_force(code: str) -> None:
    for force in (False, True):
        decision, reasons = decide(facts(**BARRIERS[code]), force=force)
        assert (decision, [reason.code for reason in reasons]) == ("keep", [code])
        assert not reasons[0].overridable


@pytest.mark.parametrize("code", UNSAVED)
def test_unsaved_work_gives_way_to_force(code: str) -> None:
    decision, reasons = decide(facts(**UNSAVED[code]), force=False)
    assert (decision, [reason.code for reason in reasons]) == ("keep", [code])
    assert reasons[0].overridable
    assert decide(facts(**UNSAVED[code]), force=True) == ("remove", ())


some_facts = st.lists(st.sampled_from([*BARRIERS.values(), *UNSAVED.values()]), max_size=5).map(
    lambda chosen: facts(**{key: value for changes in chosen for key, value in changes.items()})
)


@given(some_facts, st.booleans())
def test_whatever_is_known_a_removal_needs_no_reason_against_it(one: Facts, force: bool) -> None:
    decision, reasons = decide(one, force=force)
    assert (decision == "remove") == (not barriers(one) and (force or not unsaved(one)))
    assert bool(reasons) == (decision != "remove")


def test_nobody_looked_means_keep() -> None:
    assert decide(facts(contents=None), force=True)[0] == "keep"
    assert decide(facts(tree=None), force=True)[0] == "keep"
    assert decide(facts(contents=None, tree=None, missing=True), force=False)[0] == "remove"


def test_stuck_is_a_failure_and_not_a_choice() -> None:
    plan = prune_plan([facts(tree=Tree(1, stuck=Path("/s")))], [repository()], living=frozenset())
    assert (plan.removals, plan.kept) == ((), ())
    assert [trouble.path for trouble in plan.troubles] == [facts().path]


@pytest.mark.parametrize(
    ("changes", "going"),
    [
        ({}, False),
        ({"uprooted": True, "missing": True}, False),
        ({"missing": True}, True),
        ({"missing": True, "owner_unreadable": True}, False),
    ],
)
def test_worktree_that_a_session_names_goes_only_when_it_is_gone_and_its_folder_is_not(
    changes: dict[str, Any], going: bool
) -> None:
    decision, _ = decide(facts(named_by=(ONE,), **changes), force=True)
    assert (decision == "remove") == going


REF = f"refs/yolop/checkpoints/{ONE}/cp_1_1"


def test_refs_go_with_their_worktree() -> None:
    plan = prune_plan([facts()], [repository(facts().path, **{ONE: {REF: "t"}})], living=frozenset())
    assert [dict(removal.refs) for removal in plan.removals] == [{REF: "t"}]
    assert plan.detachments == ()


def test_refs_of_a_living_session_stay_when_a_worktree_of_its_name_goes() -> None:
    plan = prune_plan([facts()], [repository(**{ONE: {REF: "t"}})], living=frozenset({ONE}))
    assert [dict(removal.refs) for removal in plan.removals] == [{}]
    assert plan.detachments == ()


def test_refs_of_a_session_stay_when_the_worktree_it_names_is_gone() -> None:
    gone = facts(missing=True, named_by=(ONE,), saved=True)
    plan = prune_plan([gone], [repository(gone.path, **{ONE: {REF: "t"}})], living=frozenset({ONE}))
    assert [(dict(removal.refs), removal.staying) for removal in plan.removals] == [({}, (REF,))]
    assert plan.detachments == ()


@pytest.mark.parametrize("stays", ["kept", "failed", "registered elsewhere"])
def test_refs_stay_while_a_worktree_of_their_session_stays(stays: str) -> None:
    """Two worktrees bear the name, in both roots or of two users; one of them stays."""
    second = replace(facts(), path=Path("/other/0a") / ONE, registered=Path("/other/0a") / ONE)
    known = repository(facts().path, second.path, **{ONE: {REF: "t"}})
    others = {
        "kept": [replace(second, locked="")],
        "failed": [replace(second, tree=Tree(1, stuck=Path("/s")))],
        "registered elsewhere": [],
    }[stays]
    plan = prune_plan([facts(), *others], [known], living=frozenset())
    assert [(dict(removal.refs), removal.staying) for removal in plan.removals] == [({}, ())]
    assert plan.detachments == ()


def test_refs_of_the_dead_go_alone() -> None:
    known = repository(**{ONE: {REF: "t"}, TWO: {REF.replace(ONE, TWO): "u"}})
    plan = prune_plan([], [known], living=frozenset({TWO}))
    assert [dict(detachment.refs) for detachment in plan.detachments] == [{REF: "t"}]


def test_repository_without_private_refs_is_idle() -> None:
    assert prune_plan([], [repository()], living=frozenset()).idle == (REPO,)
