"""worktree prune: every reason to keep a worktree, failures, changes meanwhile; dry and real run alike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import holders, program
from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import Sandbox
from tests.support.worktrees import Field, kept, removed, session_id, why


@pytest.fixture
def field(box: Sandbox) -> Field:
    """One repository and no worktree."""
    made = Field(box)
    made.repo()
    return made


# -- what goes


def test_orphan_goes_with_its_refs_and_its_branch_stays(field: Field) -> None:
    path = field.worktree(1, refs=3)
    field.session(2, field.worktree(2))
    report = field.prune()
    assert removed(report) == [str(path)]
    (one,) = report["removed"]
    assert one["session_id"] == session_id(1)
    assert one["repo"] == str(field.repos[0])
    assert one["branch"] == "work1"
    assert (
        one["refs"]
        == report["refs"]
        == sorted(f"refs/yolop/checkpoints/{session_id(1)}/cp_{n}_{n}" for n in (1, 2, 3))
    )
    assert field.private_refs() == [f"refs/yolop/checkpoints/{session_id(2)}/cp_1_1"]
    assert "refs/heads/work1" in field.refs()
    assert kept(report) == {str(field.storage / "0a1b2c" / session_id(2)): ["referenced"]}


def test_both_roots_and_empty_parents_of_ours(field: Field) -> None:
    field.worktree(1)
    field.worktree(2, storage=field.other_storage, folder="ffff")
    report = field.prune()
    assert len(removed(report)) == 2
    assert sorted(os.listdir(field.box.tmp)) == []
    assert not (field.box.home / ".yolop").exists()
    assert field.box.home.is_dir()


def test_parents_that_hold_something_stay(field: Field) -> None:
    path = field.worktree(1)
    (path.parent / "note").write_text("mine")
    field.prune()
    assert (path.parent / "note").read_text() == "mine"


def test_second_prune_finds_nothing(field: Field) -> None:
    field.worktree(1)
    field.prune()
    report = field.prune()
    assert (report["removed"], report["refs"], report["kept"], report["errors"]) == ([], [], [], [])


def test_ignored_files_go_with_the_worktree(field: Field) -> None:
    path = field.worktree(1)
    (field.repos[0] / ".git/info/exclude").write_text("*.log\n")
    (path / "x.log").write_text("x")
    assert removed(field.prune()) == [str(path)]


def test_user_wide_ignores_count_as_ignored(field: Field) -> None:
    path = field.worktree(1)
    ignore = field.box.root / "xdg" / "git" / "ignore"
    ignore.parent.mkdir()
    ignore.write_text(".DS_Store\n")
    (path / ".DS_Store").write_text("x")
    assert removed(field.prune()) == [str(path)]


def test_commits_that_a_branch_a_tag_or_a_remote_has_are_no_reason_to_stay(field: Field) -> None:
    paths = [field.worktree(number) for number in (1, 2, 3)]
    for number, path in enumerate(paths, 1):
        commit(field, path, f"c{number}")
    field.box.git("branch", "elsewhere", "work1", at=field.repos[0])
    field.box.git("tag", "-a", "-m", "t", "v1", "work2", at=field.repos[0])
    field.box.git("update-ref", "refs/remotes/origin/x", "work3", at=field.repos[0])
    assert removed(field.prune()) == [str(path) for path in paths]


def test_name_that_is_not_utf8(field: Field) -> None:
    strange = Path(os.fsdecode(os.fsencode(field.box.root) + b'/tmp/caf\xe9 "q"\nx'))
    strange.mkdir()
    field.box.env["TMPDIR"] = str(strange)
    path = strange / "yolop" / "worktrees" / "00" / session_id(1)
    path.parent.mkdir(parents=True)
    field.box.git("worktree", "add", "-q", "--detach", path.name, at=field.repos[0])
    field.box.git("worktree", "move", path.name, os.fsencode(path), at=field.repos[0])  # type: ignore[arg-type]
    assert removed(field.prune()) == [str(path)]


def test_sha256_repository_and_bare_main(box: Sandbox) -> None:
    field = Field(box)
    repo = field.repo("source", "--object-format=sha256")
    bare = box.root / "bare.git"
    box.git("clone", "-q", "--bare", str(repo), str(bare), at=box.root)
    field.repos.append(bare)
    paths = [field.worktree(1, repo=repo), field.worktree(2, repo=bare)]
    report = field.prune()
    assert sorted(removed(report)) == [str(path) for path in paths]
    assert field.private_refs(repo) == field.private_refs(bare) == []


# -- what stays, also under force

Setup = Callable[[Field, Path], object]


def commit(field: Field, path: Path, name: str) -> None:
    (path / name).write_text(name)
    field.box.git("add", "-A", at=path)
    field.box.git("commit", "-qm", name, at=path)


def detached_commit(field: Field, path: Path) -> None:
    field.box.git("checkout", "-q", "--detach", at=path)
    commit(field, path, "c")


def merge(field: Field, path: Path) -> None:
    commit(field, path, "mine")
    field.box.git("branch", "saved", at=path)
    field.box.git("checkout", "-qb", "theirs", "main", at=path)
    commit(field, path, "theirs")
    field.box.git("checkout", "-q", "work1", at=path)
    field.box.git("merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "theirs", at=path)


def hidden_change(flag: str) -> Setup:
    def setup(field: Field, path: Path) -> None:
        field.box.git("update-index", flag, "a.txt", at=path)
        (path / "a.txt").write_text("changed\n")

    return setup


def stash(field: Field, path: Path) -> None:
    (path / "a.txt").write_text("stashed\n")
    field.box.git("stash", "-q", at=path)


def nested(field: Field, path: Path) -> None:
    (field.repos[0] / ".git/info/exclude").write_text("deps/\n")
    field.box.git("init", "-q", str(path / "deps" / "one"), at=path)


def unstaged_deletion(field: Field, path: Path) -> None:
    (path / "a.txt").unlink()


def staged(field: Field, path: Path) -> None:
    (path / "a.txt").write_text("staged\n")
    field.box.git("add", "a.txt", at=path)
    (path / "a.txt").write_text("one\n")


def hidden_by_configuration(field: Field, path: Path) -> None:
    field.box.git("config", "--global", "status.showUntrackedFiles", "no", at=path)
    (path / "draft").write_text("draft")


UNSAVED: dict[str, tuple[str, Setup]] = {
    "untracked": ("changes", lambda _, path: (path / "draft").write_text("draft")),
    "untracked, though git is told to hide it": ("changes", hidden_by_configuration),
    "modified": ("changes", lambda _, path: (path / "a.txt").write_text("two\n")),
    "mode": ("changes", lambda _, path: (path / "a.txt").chmod(0o755)),
    "deleted": ("changes", unstaged_deletion),
    "staged, and taken back on disk": ("changes", staged),
    "assume-unchanged": ("changes", hidden_change("--assume-unchanged")),
    "skip-worktree": ("changes", hidden_change("--skip-worktree")),
    "own commit": ("commits", lambda field, path: commit(field, path, "c")),
    "commit on no branch": ("commits", detached_commit),
    "merge": ("under-way", merge),
    "stash": ("stash", stash),
    "nested repository": ("nested", nested),
}


@pytest.mark.parametrize("kind", UNSAVED)
def test_unsaved_work_stays_until_forced(field: Field, kind: str) -> None:
    code, setup = UNSAVED[kind]
    path = field.worktree(1)
    setup(field, path)
    before = field.snapshot()
    report = field.prune()
    assert code in kept(report)[str(path)], report
    assert removed(report) == []
    assert field.snapshot() == before
    forced = field.prune("--force")
    assert removed(forced) == [str(path)]
    assert code in forced["removed"][0]["overrode"]
    assert kept(forced) == {}


def lock(field: Field, path: Path) -> None:
    field.box.git("worktree", "lock", "--reason", "mine\nreally", str(path), at=field.repos[0])


def main_checkout(field: Field, path: Path) -> None:
    field.box.git("worktree", "remove", str(path), at=field.repos[0])
    shutil.copytree(field.repos[0], path)


def copied(field: Field, path: Path) -> None:
    original = field.worktree(7, storage=field.box.root / "elsewhere")
    field.box.git("worktree", "remove", str(path), at=field.repos[0])
    shutil.copytree(original, path)


def plain(field: Field, path: Path) -> None:
    field.box.git("worktree", "remove", str(path), at=field.repos[0])
    path.mkdir()
    (path / "f").write_text("f")


def dangling(field: Field, path: Path) -> None:
    (path / ".git").write_text("gitdir: /nowhere/.git/worktrees/x\n")


def submodule(field: Field, path: Path) -> None:
    """A .git file that leads to a repository, but not as a worktree of it."""
    field.box.git("worktree", "remove", str(path), at=field.repos[0])
    path.mkdir()
    (path / ".git").write_text(f"gitdir: {field.repos[0] / '.git'}\n")


def linked_git_file(field: Field, path: Path) -> None:
    (path / ".git").rename(path.parent / "pointer")
    (path / ".git").symlink_to("../pointer")


def pruned(field: Field, path: Path) -> None:
    shutil.rmtree(next((field.repos[0] / ".git" / "worktrees").iterdir()))


def link(field: Field, path: Path) -> None:
    path.rename(field.box.root / "real")
    path.symlink_to(field.box.root / "real")


def linked_folder(field: Field, path: Path) -> None:
    path.parent.rename(field.box.root / "real")
    path.parent.symlink_to(field.box.root / "real")


def foreign(field: Field, path: Path) -> None:
    os.chown(path, 12345, -1)


def foreign_folder(field: Field, path: Path) -> None:
    os.chown(path.parent, 12345, -1)


def holds_another(field: Field, path: Path) -> None:
    (field.repos[0] / ".git/info/exclude").write_text(".inner/\n")
    field.box.git("worktree", "add", "-q", "-b", "inner", str(path / ".inner" / "w"), at=field.repos[0])


def named_by_another(field: Field, path: Path) -> None:
    field.session(9, path)


def used_as_root(field: Field, path: Path) -> None:
    (path / "sub").mkdir()
    field.session(9, None, active_root=str(path / "sub"))


def named_through_a_link(field: Field, path: Path) -> None:
    (field.box.root / "link").symlink_to(path.parent)
    field.session(9, field.box.root / "link" / path.name)


def unreadable_metadata(content: str) -> Setup:
    def setup(field: Field, path: Path) -> None:
        (field.box.sessions / path.name).mkdir(mode=0o700)
        field.box.private(field.box.sessions / path.name / "workspace.json", content)

    return setup


def session_without_metadata(field: Field, path: Path) -> None:
    (field.box.sessions / path.name).mkdir(mode=0o700)


def session_of_old_layout(field: Field, path: Path) -> None:
    field.box.private(field.box.sessions / f"{path.name}.jsonl", "")


FIRM: dict[str, tuple[str, Setup]] = {
    "locked": ("locked", lock),
    "main checkout": ("not-linked", main_checkout),
    "copy of a worktree": ("not-linked", copied),
    "plain directory": ("not-linked", plain),
    "pointer to nowhere": ("not-linked", dangling),
    "pointer to a repository": ("not-linked", submodule),
    "pointer is a link": ("not-linked", linked_git_file),
    "forgotten by its repository": ("not-linked", pruned),
    "symlink": ("symlink", link),
    "another user's": ("owner", foreign),
    "folder of another user": ("owner", foreign_folder),
    "holds another worktree": ("inside", holds_another),
    "named by another session": ("referenced", named_by_another),
    "a session works below it": ("referenced", used_as_root),
    "named through a link": ("referenced", named_through_a_link),
    "metadata not JSON": ("referenced", unreadable_metadata("{")),
    "metadata empty": ("referenced", unreadable_metadata("")),
    "metadata without a root": ("referenced", unreadable_metadata("{}")),
    "metadata with a damaged worktree": (
        "referenced",
        unreadable_metadata('{"active_root": "/x", "worktree": {"path": 5}}'),
    ),
    "metadata with a relative path": (
        "referenced",
        unreadable_metadata('{"active_root": "/x", "worktree": {"path": "w"}}'),
    ),
    "session without metadata": ("referenced", session_without_metadata),
    "session of the old layout": ("referenced", session_of_old_layout),
}


@pytest.mark.parametrize("kind", FIRM)
def test_stays_also_when_forced(field: Field, kind: str) -> None:
    code, setup = FIRM[kind]
    path = field.worktree(1)
    setup(field, path)
    spot = path.parent if kind == "linked folder" else path
    before = field.snapshot()
    for arguments in ((), ("--force",)):
        report = field.prune(*arguments)
        assert code in kept(report)[str(spot)], report
        assert removed(report) == []
        assert report["errors"] == []
    assert field.snapshot() == before


def test_folder_that_is_a_link_is_not_entered(field: Field) -> None:
    path = field.worktree(1)
    linked_folder(field, path)
    report = field.prune("--force")
    assert kept(report)[str(path.parent)] == ["symlink", "not-ours"]
    assert (field.box.root / "real" / path.name / "a.txt").exists()
    assert removed(report) == []


def test_reason_is_said_in_words(field: Field) -> None:
    path = field.worktree(1)
    (path / "draft").write_text("x")
    lock(field, path)
    said = field.run("worktree", "prune", "--dry-run").text
    assert f"kept {path}: it is locked (mine\\nreally)" in said
    report = field.dry()
    assert why(report, path).startswith("it is locked (mine\nreally)")


def test_worktree_in_use_stays(field: Field) -> None:
    path = field.worktree(1)
    with holders.standing_in(path) as pid:
        report = field.prune("--force")
        assert kept(report)[str(path)] == ["in-use"]
        assert f"pid {pid}" in why(report, path)
    with holders.having_open(path / "a.txt"):
        assert kept(field.prune())[str(path)] == ["in-use"]
    assert removed(field.prune()) == [str(path)]


def test_running_session_that_is_not_saved_stays(field: Field) -> None:
    path = field.worktree(1)
    with holders.flock(field.box.sessions / ".locks" / path.name):
        report = field.prune("--force")
        assert kept(report)[str(path)] == ["running"]
        assert field.private_refs()
    assert removed(field.prune()) == [str(path)]


def test_name_that_is_no_session_id_stays(field: Field) -> None:
    path = field.worktree(1, name="something")
    assert kept(field.prune("--force"))[str(path)] == ["not-ours"]


@pytest.mark.parametrize("damage", ["HEAD", "config"])
def test_damaged_repository_keeps_its_worktrees_and_hides_no_other(field: Field, damage: str) -> None:
    healthy = field.worktree(2, repo=field.repo("healthy"))
    path = field.worktree(1, repo=field.repos[0])
    broken = field.repos.pop(0)
    (broken / ".git" / damage).write_text("[broken\n" if damage == "config" else "")
    report = field.prune(code=9)
    assert kept(report)[str(path)] == ["unreadable"]
    assert [one["path"] for one in report["errors"]] == [str(broken / ".git")]
    assert removed(report) == [str(healthy)]


# -- repositories that moved, worktrees that are gone


def test_repository_that_moved(field: Field) -> None:
    path = field.worktree(1)
    field.session(2, field.worktree(2))
    moved = field.box.root / "moved"
    field.repos[0].rename(moved)
    old = field.repos.pop()
    report = field.prune("--force")
    assert "worktree repair" in why(report, path)
    assert kept(report)[str(old)] == ["repository-gone"]
    assert removed(report) == []
    assert len(field.private_refs(moved)) == 2
    field.box.git("worktree", "repair", str(path), at=moved)
    field.repos.append(moved)
    assert removed(field.prune()) == [str(path)]


def test_worktree_that_moved(field: Field) -> None:
    path = field.worktree(1)
    path.parent.rename(path.parent.with_name("new"))
    now = path.parent.with_name("new") / path.name
    report = field.prune("--force")
    assert "worktree repair" in why(report, now)
    assert removed(report) == []
    assert field.private_refs()
    assert field.registered() == [str(path)]


def test_gone_but_registered(field: Field) -> None:
    path = field.worktree(1)
    other = field.worktree(2, storage=field.box.root / "user")  # the user's own, gone as well
    shutil.rmtree(path)
    shutil.rmtree(other)
    report = field.prune(cwd=field.repos[0])
    assert removed(report) == [str(path)]
    assert report["removed"][0]["missing"] is True
    assert field.registered() == [str(other)]
    assert field.private_refs() == [f"refs/yolop/checkpoints/{session_id(2)}/cp_1_1"]


DAMAGES = {
    "whole": lambda directory: None,
    "no metadata": lambda directory: (directory / "workspace.json").unlink(),
    "damaged metadata": lambda directory: (directory / "workspace.json").write_bytes(b"{"),
    "damaged journal": lambda directory: (directory / "timeline.jsonl").write_bytes(b"\0\n\0\n"),
    "empty": lambda directory: shutil.rmtree(directory) or directory.mkdir(),
    "a file": lambda directory: shutil.rmtree(directory) or directory.write_bytes(b""),
    "a link that leads nowhere": lambda directory: shutil.rmtree(directory) or directory.symlink_to("gone"),
    "the old layout": lambda directory: (
        shutil.rmtree(directory) or directory.with_name(f"{directory.name}.jsonl").write_bytes(b"")
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("force", [(), ("--force",)], ids=["", "force"])
def test_no_ref_goes_while_its_session_exists(field: Field, damage: str, force: tuple[str, ...]) -> None:
    """A worktree that is gone leaves its files in the refs alone: only the registration may go."""
    path = field.worktree(1)
    directory = field.session(1, path)
    field.worktree(2)  # a session that is gone, in the same repository
    shutil.rmtree(path)
    DAMAGES[damage](directory)
    report = field.prune(*force, cwd=field.repos[0])
    ref = f"refs/yolop/checkpoints/{session_id(1)}/cp_1_1"
    assert field.private_refs() == [ref]
    gone = [one for one in report["removed"] if one["path"] == str(path)]
    assert [(one["missing"], one["refs"], one["kept_refs"]) for one in gone] in ([], [(True, [], [ref])])


def test_the_files_of_a_pruned_worktree_are_still_in_the_refs(field: Field) -> None:
    path = field.worktree(1)
    field.session(1, path)
    shutil.rmtree(path)
    said = field.run("worktree", "prune", "--dry-run").text
    assert "its session exists, so 1 ref with its files stays in the repository" in said
    assert removed(field.prune()) == [str(path)]
    assert field.registered() == []
    assert b"a.txt" in field.box.git("ls-tree", "-r", field.private_refs()[0], at=field.repos[0])


def test_two_sessions_on_one_worktree_keep_their_refs_when_one_goes(field: Field) -> None:
    path = field.worktree(1)
    field.ref(2)
    directory = field.session(1, path)
    field.session(2, path)
    shutil.rmtree(directory)
    assert kept(field.prune("--force", cwd=field.repos[0]))[str(path)] == ["referenced"]
    assert len(field.private_refs()) == 2
    shutil.rmtree(path)
    field.prune("--force", cwd=field.repos[0])
    assert field.private_refs() == [f"refs/yolop/checkpoints/{session_id(2)}/cp_1_1"]


def test_gone_with_commits_that_are_nowhere_else_stays_registered(field: Field) -> None:
    path = field.worktree(1)
    detached_commit(field, path)
    shutil.rmtree(path)
    field.session(2, None)  # names the repository
    assert kept(field.prune())[str(path)] == ["commits"]
    assert removed(field.prune("--force")) == [str(path)]


def test_gone_together_with_its_folder_stays_while_a_session_names_it(field: Field) -> None:
    """As after a reboot that emptied the temporary directory: the refs are the only copy of the files."""
    path = field.worktree(1)
    directory = field.session(1, path)
    shutil.rmtree(field.box.tmp / "yolop")
    report = field.prune("--force")
    assert kept(report)[str(path)] == ["referenced", "missing"]
    assert field.private_refs()
    shutil.rmtree(directory)
    # Nothing names the repository now but the place one stands in.
    report = field.prune(cwd=field.repos[0])
    assert removed(report) == [str(path)]
    assert field.private_refs() == []


def test_worktree_of_a_saved_session_that_names_another_goes_and_leaves_the_refs(field: Field) -> None:
    old, new = field.worktree(1), field.worktree(2, refs=0)
    field.session(1, new)
    report = field.prune()
    assert removed(report) == [str(old)]
    assert report["refs"] == []
    assert field.private_refs()


# -- refs of sessions that are gone


def test_refs_of_sessions_that_are_gone(field: Field) -> None:
    second = field.repo("second")
    field.session(1, field.worktree(1), repo=field.repos[0])
    field.session(2, None, repo=second)
    gone = [field.ref(5), field.ref(6, "recovery_7_ab")]
    field.ref(1)
    lost = field.ref(7, repo=second)
    living = field.ref(2, repo=second)
    report = field.prune()
    assert report["refs"] == sorted([*gone, lost])
    assert report["removed"] == []
    assert field.private_refs(field.repos[0]) == [f"refs/yolop/checkpoints/{session_id(1)}/cp_1_1"]
    assert field.private_refs(second) == [living]


def test_repository_named_on_the_command_line(field: Field) -> None:
    ref = field.ref(5)
    assert field.prune()["refs"] == []
    assert field.prune("--repo", str(field.repos[0]))["refs"] == [ref]
    for nowhere in ("nowhere", str(field.box.home), ""):
        field.run("worktree", "prune", "--dry-run", "--json", "--repo", nowhere, code=3)


def test_refs_stay_with_a_worktree_that_stays(field: Field) -> None:
    path = field.worktree(1)
    (path / "draft").write_text("x")
    elsewhere = field.worktree(
        2, storage=field.box.root / "elsewhere"
    )  # as another user's, or another TMPDIR
    assert field.prune(cwd=field.repos[0])["refs"] == []
    assert len(field.private_refs()) == 2
    assert elsewhere.is_dir()


def test_foreign_refs_are_never_touched(field: Field) -> None:
    git = field.box.git
    sid = session_id(5)
    strange = [
        f"refs/yolop/checkpoints/{sid}0/cp_1_1",
        f"refs/yolop/checkpoints/{sid}/deep/cp_1_1",
        f"refs/yolop/checkpoints/{sid}/cp.1",
        "refs/yolop/checkpoints/other/cp_1_1",
        f"refs/yolop/checkpoints-other/{sid}/x",
        f"refs/yolop/{sid}/x",
    ]
    for ref in strange:
        git("update-ref", ref, "HEAD^{tree}", at=field.repos[0])
    git("symbolic-ref", f"refs/yolop/checkpoints/{sid}/cp_9_9", "refs/heads/main", at=field.repos[0])
    mine = field.ref(5)
    before = field.refs()
    report = field.prune("--force", "--repo", str(field.repos[0]))
    assert report["refs"] == [mine]
    assert field.refs() == {name: oid for name, oid in before.items() if name != mine}


# -- failures


def test_entries_that_cannot_be_read_hide_no_other(field: Field) -> None:
    path = field.worktree(1, storage=field.other_storage)
    secret = field.storage / "secret"
    secret.mkdir(parents=True)
    secret.chmod(0)
    closed = field.worktree(3, folder="00")
    closed.chmod(0)
    report = field.prune(code=9, prefix=UNPRIVILEGED)
    closed.chmod(0o700)
    assert removed(report) == [str(path)]
    assert [one["path"] for one in report["errors"]] == [str(secret)]
    assert kept(report)[str(closed)] == ["unreadable"]


def test_root_that_cannot_be_read(field: Field) -> None:
    path = field.worktree(1, storage=field.other_storage)
    field.storage.mkdir(parents=True)
    field.storage.chmod(0)
    report = field.prune(code=9, prefix=UNPRIVILEGED)
    assert removed(report) == [str(path)]
    assert [one["path"] for one in report["errors"]] == [str(field.storage)]


def test_sessions_that_cannot_be_listed_stop_everything(field: Field) -> None:
    field.worktree(1)
    before = field.snapshot()
    field.box.sessions.chmod(0)
    ran = program.run(
        ("worktree", "prune", "--yes", "--json"),
        env=field.box.environment(),
        cwd=field.box.root,
        prefix=UNPRIVILEGED,
    )
    field.box.sessions.chmod(0o700)
    assert ran.code == 9
    assert ran.out == b""
    assert field.snapshot() == before


@pytest.mark.parametrize("where", ["inside", "above"])
def test_worktree_that_cannot_be_removed_is_an_error_and_stays_whole(field: Field, where: str) -> None:
    (field.repos[0] / ".git/info/exclude").write_text("cache/\n")
    path = field.worktree(1)
    other = field.worktree(2, folder="zz")
    (path / "cache").mkdir()
    (path / "cache" / "f").write_text("f")
    closed = path / "cache" if where == "inside" else path.parent
    closed.chmod(0o500)
    report = field.prune(code=9, prefix=UNPRIVILEGED)
    closed.chmod(0o700)
    assert [one["path"] for one in report["errors"]] == [str(path)]
    assert removed(report) == [str(other)]
    assert (path / "a.txt").exists() and (path / "cache" / "f").exists()
    assert field.private_refs() == [f"refs/yolop/checkpoints/{session_id(1)}/cp_1_1"]
    assert str(path) in field.registered()


def fake_git(field: Field, script: str) -> dict[str, str]:
    """A git on PATH that does something first; ``$GIT`` in the script is the real one."""
    real = shutil.which("git")
    directory = field.box.root / "bin"
    directory.mkdir()
    wrapper = directory / "git"
    outside = f'"env -u GIT_DIR -u GIT_WORK_TREE {real}"'
    wrapper.write_text(f'#!/bin/sh\nGIT={outside}\n{script}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    return {"PATH": f"{directory}:{field.box.env['PATH']}"}


def test_refs_that_cannot_be_detached_keep_the_worktree(field: Field) -> None:
    path = field.worktree(1)
    lock_file = field.repos[0] / ".git" / "packed-refs.lock"
    lock_file.touch()
    before = field.refs()
    report = field.run("worktree", "prune", "--yes", "--json", code=9).json
    assert report["removed"] == report["refs"] == []
    assert "detached" in report["errors"][0]["message"]
    assert path.is_dir()
    assert field.refs() == before
    lock_file.unlink()
    assert removed(field.prune()) == [str(path)]


def test_git_that_fails_to_remove_leaves_the_refs(field: Field) -> None:
    path = field.worktree(1, refs=2)
    before = field.refs()
    env = fake_git(field, 'case "$*" in *"worktree remove"*) echo "fatal: no" >&2; exit 128;; esac')
    report = field.run("worktree", "prune", "--yes", "--json", code=9, env=env).json
    assert report["removed"] == report["refs"] == []
    (error,) = report["errors"]
    assert error["path"] == str(path) and "could not be removed" in error["message"]
    assert field.refs() == before


def test_git_that_says_it_removed_what_is_still_there(field: Field) -> None:
    path = field.worktree(1)
    env = fake_git(field, 'case "$*" in *"worktree remove"*) exit 0;; esac')
    report = field.run("worktree", "prune", "--yes", "--json", code=9, env=env).json
    assert report["removed"] == []
    assert report["errors"][0]["path"] == str(path)
    assert field.private_refs()


MEANWHILE = {
    "a file appears": 'echo x > "$W/draft"',
    "it is locked": '$GIT -C "$R" worktree lock "$W"',
    "a commit is made": '$GIT -C "$W" commit -q --allow-empty -m x',
    "a session names it": 'mkdir "$S" && echo "{" > "$S/workspace.json"',
    "it becomes a link": 'mv "$W" "$W.real" && ln -s "$W.real" "$W"',
}


@pytest.mark.parametrize("kind", MEANWHILE)
def test_what_changes_between_plan_and_removal_stays(field: Field, kind: str) -> None:
    """The change comes while the worktree before it is removed."""
    first, second = field.worktree(1), field.worktree(2)
    script = (
        f"W={second}; R={field.repos[0]}; S={field.box.sessions / session_id(2)}\n"
        f'case "$*" in *"worktree remove"*{first.name}*) {MEANWHILE[kind]} ;; esac'
    )
    report = field.run("worktree", "prune", "--yes", "--json", env=fake_git(field, script)).json
    assert removed(report) == [str(first)]
    assert kept(report) == {str(second): ["changed"]}
    assert os.path.lexists(second)
    assert f"refs/yolop/checkpoints/{session_id(2)}/cp_1_1" in field.private_refs()


def test_ref_that_moves_meanwhile_keeps_the_worktree(field: Field) -> None:
    first, second = field.worktree(1), field.worktree(2)
    ref = f"refs/yolop/checkpoints/{session_id(2)}/cp_1_1"
    move = f"$GIT -C {field.repos[0]} update-ref {ref} HEAD"
    script = f'case "$*" in *"worktree remove"*{first.name}*) {move} ;; esac'
    report = field.run("worktree", "prune", "--yes", "--json", code=9, env=fake_git(field, script)).json
    assert removed(report) == [str(first)]
    assert [one["path"] for one in report["errors"]] == [str(second)]
    assert second.is_dir() and ref in field.private_refs()


def test_session_that_comes_back_keeps_its_refs(field: Field) -> None:
    field.worktree(1)
    ref = field.ref(5)
    script = f'case "$*" in *"worktree remove"*) mkdir {field.box.sessions / session_id(5)} ;; esac'
    report = field.run("worktree", "prune", "--yes", "--json", env=fake_git(field, script)).json
    assert ref not in report["refs"]
    assert ref in field.private_refs()


def test_git_that_cannot_list_worktrees_with_nul(field: Field) -> None:
    """Git before 2.36."""
    path = field.worktree(1)
    locked = field.worktree(2)
    field.box.git("worktree", "lock", "--reason", "why", str(locked), at=field.repos[0])
    env = fake_git(
        field, 'case "$*" in "worktree list"*" -z"*) echo "error: unknown switch" >&2; exit 129;; esac'
    )
    report = field.run("worktree", "prune", "--yes", "--json", env=env).json
    assert removed(report) == [str(path)]
    assert kept(report)[str(locked)] == ["locked"]


def test_submodules(field: Field) -> None:
    """One that is not checked out holds nothing; one that is may hold work of its own."""
    library = field.repo("library")
    repo = field.repos[0]
    field.box.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib", at=repo
    )
    field.box.git("commit", "-qm", "lib", at=repo)
    empty, filled = field.worktree(1, repo=repo), field.worktree(2, repo=repo)
    field.box.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", at=filled)
    (filled / "lib" / "draft").write_text("x")
    report = field.prune()
    assert removed(report) == [str(empty)]
    assert kept(report)[str(filled)] == ["nested"]
    assert (filled / "lib" / "draft").exists()
    assert removed(field.prune("--force")) == [str(filled)]


# -- the command line


def test_without_a_terminal_it_needs_yes(field: Field) -> None:
    path = field.worktree(1)
    for stdin in (b"", b"y\ny\n"):
        ran = field.run("worktree", "prune", code=2, stdin=stdin)
        assert b"--yes" in ran.err and ran.out == b""
    ran = field.run("worktree", "prune", "--json", code=2)
    assert json.loads(ran.err)["error"]["code"] == "USAGE"
    assert path.is_dir()


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 130), ("\n", 130)])
def test_on_a_terminal_it_shows_the_plan_and_asks(field: Field, answer: str, code: int) -> None:
    import pty

    from tests.support.program import PROGRAM

    path = field.worktree(1)
    master, slave = pty.openpty()
    with subprocess.Popen(
        [PROGRAM, "worktree", "prune"],
        env=field.box.environment(),
        cwd=field.box.root,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    ) as process:
        os.close(slave)
        os.write(master, answer.encode())
        said = b""
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                break
            if not data:
                break
            said += data
    os.close(master)
    assert process.returncode == code, said
    assert b"would remove" in said and b"Remove these?" in said
    assert path.is_dir() == (code != 0)


def test_sessions_of_the_usual_place_count_beside_a_chosen_one(field: Field) -> None:
    path = field.worktree(1)
    field.session(1, path)
    other = field.box.root / "others"
    other.mkdir()
    report = field.prune("--sessions-dir", str(other), "--force")
    assert kept(report)[str(path)] == ["referenced"]
    report = field.prune("--force", env={"YOLOP_SESSIONS_DIR": str(other)})
    assert kept(report)[str(path)] == ["referenced"]


@pytest.mark.parametrize("variable", ["YOLOP_SESSIONS_DIR", "YOLOP_DATA_DIR", "XDG_DATA_HOME", "HOME"])
def test_refs_of_a_session_in_any_directory_that_the_environment_names_stay(
    field: Field, variable: str
) -> None:
    """What outranks another for finding a session hides none of it from a prune."""
    ref = field.ref(1)
    places = {"YOLOP_SESSIONS_DIR": "", "YOLOP_DATA_DIR": "sessions", "XDG_DATA_HOME": "yolop/sessions"}
    for name, below in {**places, "HOME": ".local/share/yolop/sessions"}.items():
        root = field.box.home if name == "HOME" else field.box.root / name
        (root / below).mkdir(parents=True)
        field.box.env[name] = str(root)
        if name == variable:
            directory = root / below / session_id(1)
    directory.mkdir()
    chosen = ("--sessions-dir", str(field.box.sessions), "--repo", str(field.repos[0]))
    assert field.prune(*chosen)["refs"] == []
    directory.rmdir()
    assert field.prune(*chosen)["refs"] == [ref]


def test_sessions_behind_a_link_to_nowhere_are_not_gone(field: Field) -> None:
    """As of a disk that is not mounted: nobody knows which sessions are there."""
    field.ref(1)
    field.box.env["YOLOP_SESSIONS_DIR"] = str(field.box.root / "disk" / "sessions")
    (field.box.root / "disk").symlink_to("not mounted")
    before = field.snapshot()
    chosen = ("--sessions-dir", str(field.box.sessions), "--repo", str(field.repos[0]))
    ran = program.run(
        ("worktree", "prune", "--yes", *chosen), env=field.box.environment(), cwd=field.box.root
    )
    assert ran.code == 9 and b"leads nowhere" in ran.err
    assert field.snapshot() == before


def test_refs_of_sessions_in_another_data_directory_stay(box: Sandbox) -> None:
    """Called inside a repository that no session known here has to do with: whose refs are these?"""
    demo = box.cli("demo", box.root / "demo", "--json", session=False, watch=False).json
    (box.root / "data/sessions").mkdir(parents=True, exist_ok=True)
    for place in ("worktree", "repository"):
        options = {"session": False, "watch": False, "cwd": box.root / "demo" / place}
        ran = box.cli("worktree", "prune", "--yes", "--json", **options)
        assert ran.json["refs"] == [] and ran.json["removed"] == []
        assert [one["codes"] for one in ran.json["kept"]] == [["unclaimed"]]
    listed = box.cli("checkpoint", "list", "--json", "-s", demo["session"], session=False, watch=False).json
    assert all(one["workspace"]["available"] for one in listed["checkpoints"])


def test_without_a_sessions_directory_nothing_is_removed(ready: Sandbox) -> None:
    cp = ready.cap()
    nowhere = {"YOLOP_DATA_DIR": str(ready.root / "nowhere")}
    for words in (["--dry-run"], ["--yes"], ["--yes", "--force"]):
        ready.cli("worktree", "prune", *words, session=False, env=nowhere, cwd=ready.worktree, code=3)
    assert ready.checkpoint(cp)["workspace"]["available"]
