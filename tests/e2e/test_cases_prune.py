"""What went wrong when other tools cleaned up worktrees: each reported case, and others of its kind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support import holders, trees
from tests.support.sandbox import Sandbox
from tests.support.worktrees import Field, kept, removed, session_id, why


@pytest.fixture
def field(ready: Sandbox) -> Field:
    """A repository and a session that owns a linked worktree of it, with one checkpoint."""
    ready.cap()
    made = Field(ready)
    made.repos.append(ready.repo)
    return made


# -- 26: locked and gone


def test_case_26_locked_and_missing(field: Field) -> None:
    box, path, repo = field.box, field.box.worktree, field.box.repo
    refs = field.private_refs()
    box.git("worktree", "lock", str(path), "--reason", "on the usb disk", at=repo)
    path.rename(box.root / "unplugged")
    report = field.prune()
    assert "locked" in kept(report)[str(path)]
    said = why(report, path)
    assert "on the usb disk" in said and "not mounted" in said
    assert f"worktree unlock {path}" in said and str(repo) in said
    assert field.registered() == [str(path)] and field.private_refs() == refs

    (box.root / "unplugged").rename(path)
    for arguments in ((), ("--force",)):
        report = field.prune(*arguments)
        assert "locked" in kept(report)[str(path)]
    assert (path / "a.txt").exists()

    box.git("worktree", "unlock", str(path), at=repo)
    shutil.rmtree(path)
    report = field.dry()
    assert removed(report) == [str(path)]
    assert report["removed"][0]["missing"] is True
    assert report["removed"][0]["kept_refs"] == refs
    assert report["refs"] == report["kept"] == report["errors"] == []
    field.prune()
    assert field.private_refs() == refs


def test_case_26_nothing_is_unlocked_for_a_session_that_is_gone(field: Field) -> None:
    path = field.box.worktree
    field.box.git("worktree", "lock", str(path), at=field.box.repo)
    shutil.rmtree(path)
    report = field.prune("--force")
    assert "locked" in kept(report)[str(path)]
    shutil.rmtree(field.box.session)
    report = field.prune("--force", cwd=field.box.repo)
    assert kept(report)[str(path)] == ["locked"]
    assert field.private_refs()


# -- 28: one repository under two spellings


def test_case_28_two_spellings(box: Sandbox) -> None:
    real, link = box.root / "real", box.root / "tmp"
    link.rmdir()
    real.mkdir()
    link.symlink_to("real")
    box.ready()  # names the worktree through the link; git keeps the resolved path
    field = Field(box)
    field.repos.append(box.repo)
    name = box.cap()
    box.write("wip", "wip\n")
    stored = box.worktree.resolve()
    assert stored != box.worktree

    for arguments in ((), ("--force",)):
        assert kept(field.prune(*arguments))[str(stored)] == ["referenced"]
    assert box.read("wip") == b"wip\n"
    assert box.plan(name)["token"]
    box.cli("rewind", "cancel", "--json")
    refs = field.private_refs()

    moved = box.root / "repo-moved"
    box.repo.rename(moved)
    field.repos.clear()
    report = field.prune("--force")
    assert "git worktree repair" in why(report, stored)
    assert box.read("wip") == b"wip\n"
    moved.rename(box.repo)
    field.repos.append(box.repo)

    real.rename(box.root / "real2")
    link.unlink()
    link.symlink_to("real2")
    report = field.prune("--force")
    now = box.worktree.resolve()
    assert "git worktree repair" in why(report, now)
    assert removed(report) == []
    assert (now / "wip").read_text() == "wip\n"
    assert field.private_refs() == refs
    assert field.registered() == [str(stored)]


def test_case_28_repository_of_another_device_or_link_is_one_repository(box: Sandbox) -> None:
    """The session names the repository and the worktree through links of its own."""
    box.make_repo()
    (box.root / "alias").symlink_to(box.root)
    box.repo = box.root / "alias" / "repo"
    box.make_worktree()
    field = Field(box)
    field.repos.append(box.repo)
    field.ref(5)
    report = field.prune()
    assert report["refs"] == [f"refs/yolop/checkpoints/{session_id(5)}/cp_1_1"]
    assert kept(report)[str(box.worktree)] == ["referenced"]


# -- 29: a session that runs


def test_case_29_held_lock_means_keep(field: Field) -> None:
    box, path = field.box, field.box.worktree
    draft = box.write("draft", "draft\n")
    lock = box.sessions / ".locks" / box.sid
    with holders.flock(lock):
        for arguments in ((), ("--force",)):
            report = field.prune(*arguments)
            assert "running" in kept(report)[str(path)]
    assert draft.exists()

    shutil.rmtree(box.session)
    lock.unlink()
    with holders.flock(lock):  # running, and not saved
        assert kept(field.prune("--force"))[str(path)] == ["running"]
    lock.unlink()
    report = field.prune()
    assert kept(report)[str(path)] == ["changes"]
    assert not lock.exists(), "looking at a lock leaves no lock behind"

    draft.unlink()
    report = field.dry()
    assert removed(report) == [str(path)]
    assert kept(report) == {}
    assert removed(field.prune()) == [str(path)]


def test_case_29_event_log_that_is_held(field: Field) -> None:
    field.box.private(field.box.session / "events.jsonl", "")
    with holders.flock(field.box.session / "events.jsonl"):
        assert "running" in kept(field.prune("--force"))[str(field.box.worktree)]


def test_case_29_lock_taken_after_the_plan(field: Field) -> None:
    """A session that was deleted and whose agent comes to life between the plan and the removal."""
    from tests.e2e.test_worktree_prune import fake_git

    box = field.box
    shutil.rmtree(box.session)
    lock = box.sessions / ".locks" / box.sid
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    lock.touch(mode=0o600)
    # The second look at the refs is the one right before anything is removed.
    count = f"n=$(cat {box.root}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n >{box.root}/n"
    hold = f"flock {lock} sleep 3 </dev/null >/dev/null 2>&1 & sleep 0.3"
    script = f'case "$*" in for-each-ref*) {count}; [ $n = 2 ] && {{ {hold}; }} ;; esac'
    report = field.run("worktree", "prune", "--yes", "--json", env=fake_git(field, script)).json
    assert kept(report)[str(box.worktree)] == ["changed"]
    assert box.worktree.is_dir() and field.private_refs()


# -- 31: any ref format


def ref_formats() -> list[str]:
    import subprocess

    version = subprocess.run(["git", "--version"], capture_output=True, check=True).stdout.split()[2]
    major, minor = (int(part) for part in version.split(b".")[:2])
    return ["files", "packed", *(["reftable"] if (major, minor) >= (2, 45) else [])]


@pytest.mark.parametrize("ref_format", ref_formats())
def test_case_31_ref_formats(box: Sandbox, ref_format: str) -> None:
    box.ready(*(["--ref-format=reftable"] if ref_format == "reftable" else []))
    field = Field(box)
    field.repos.append(box.repo)
    first = box.cap()
    box.write("a.txt", "two\n")
    second = box.cap()
    if ref_format == "packed":
        box.git("pack-refs", "--all", "--prune", at=box.repo)
    box.back(first)
    assert box.read("a.txt") == b"one\n"
    box.git("gc", "-q", "--prune=now", at=box.repo)
    box.back(second)
    if ref_format == "packed":
        box.git("pack-refs", "--all", "--prune", at=box.repo)
    shutil.rmtree(box.session)
    shutil.rmtree(box.worktree)
    report = field.prune(cwd=box.repo)
    assert removed(report) == [str(box.worktree)]
    assert field.private_refs() == []
    assert sorted(field.refs()) == ["refs/heads/main", "refs/heads/work"]


def test_case_31_repository_that_nothing_names_any_more(field: Field) -> None:
    """Session and worktree are gone and one stands elsewhere: it is known where refs were made."""
    box = field.box
    shutil.rmtree(box.session)
    shutil.rmtree(box.worktree.parent)
    report = field.prune()
    assert removed(report) == [str(box.worktree)]
    assert field.private_refs() == []
    notes = box.sessions / ".repositories"
    assert [os.readlink(note) for note in notes.iterdir()] == [str(box.repo / ".git")]
    field.prune()
    assert list(notes.iterdir()) == [], "a repository without private refs is forgotten"
    box.repo.rename(box.root / "moved")
    field.repos.clear()
    assert field.prune() == {"dry_run": False, "removed": [], "refs": [], "kept": [], "errors": []}


def test_case_31_from_inside_a_linked_worktree(field: Field) -> None:
    """The current directory is a linked worktree of the user's own: its repository is the one meant."""
    user = field.box.root / "user"
    field.box.git("worktree", "add", "-q", "-b", "user", str(user), at=field.box.repo)
    shutil.rmtree(field.box.session)
    shutil.rmtree(field.box.worktree)
    assert removed(field.prune(cwd=user)) == [str(field.box.worktree)]
    assert field.private_refs() == []
    assert user.is_dir()


# -- 49: no terminal, no answer


def test_case_49_piped_answers_are_no_answers(field: Field) -> None:
    shutil.rmtree(field.box.session)
    before = field.snapshot()
    for stdin in (b"", b"y\n" * 1000, None):
        ran = field.run("worktree", "prune", "--json", code=2, stdin=stdin)
        assert ran.out == b"" and "--yes" in ran.error["hint"]
    assert field.snapshot() == before


# -- 51: ids are checked before they touch a path or a ref


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "session_",
        "session_0000000000007000800000000000000g",
        "SESSION_" + "0" * 32,
        "session_" + "0" * 33,
    ],
)
def test_case_51_directory_names(field: Field, name: str) -> None:
    if name != "..":
        path = field.worktree(3, name=name)
        assert "not-ours" in kept(field.prune("--force"))[str(path)]
    before = trees.state(field.box.data)
    for given in (name, f"../{name}", f"{field.box.sid}/../{name}"):
        field.run("session", "delete", "--yes", "--json", "-s", given, code=3)
    assert trees.state(field.box.data) == before


def test_case_51_session_directory_that_is_a_link(field: Field) -> None:
    victim = field.box.root / "victim"
    victim.mkdir()
    (victim / "timeline.jsonl").write_text("v\n")
    linked = field.box.sessions / session_id(9)
    linked.symlink_to(victim)
    path = field.worktree(9)
    for given in (session_id(9), str(linked)):
        field.run("session", "delete", "--yes", "--json", "-s", given, code=7)
    assert "referenced" in kept(field.prune("--force"))[str(path)]
    assert (victim / "timeline.jsonl").read_text() == "v\n"
    assert sorted(os.listdir(victim)) == ["timeline.jsonl"]


# -- 53: no program that the repository names


def hostile(field: Field) -> Path:
    """Settings of every kind that name a program, in the repository and in the worktree."""
    box, mark = field.box, field.box.root / "ran"
    script = box.root / "mark.sh"
    script.write_text(f"#!/bin/sh\necho ran >>{mark}\ncat\n")
    script.chmod(0o755)
    (box.worktree / ".gitattributes").write_text("* filter=x diff=x merge=x\nb filter=y.z\n")
    box.write("b", "b\n")
    box.git("add", "-A")
    box.git("commit", "-qm", "attributes")
    box.git("branch", "saved")
    for key in (
        "core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "filter.y.z.clean",
        "diff.x.textconv", "diff.x.command", "diff.external", "core.pager", "core.sshCommand", "gpg.program",
        "core.alternateRefsCommand", "core.editor", "core.askPass", "credential.helper", "merge.x.driver",
    ):  # fmt: skip
        box.git("config", key, str(script), at=box.repo)
    box.git("config", "filter.x.required", "true", at=box.repo)
    box.git("config", "log.showSignature", "true", at=box.repo)
    box.git("config", "status.submoduleSummary", "true", at=box.repo)
    hooks = box.root / "hooks"
    hooks.mkdir()
    for name in (
        "post-index-change",
        "reference-transaction",
        "post-checkout",
        "fsmonitor-watchman",
        "pre-auto-gc",
    ):
        shutil.copy(script, hooks / name)
    box.git("config", "core.hooksPath", str(hooks), at=box.repo)
    mark.unlink(missing_ok=True)
    return mark


def touch(path: Path) -> None:
    """Make git look at the content, because the time is another one."""
    os.utime(path / "a.txt", (1700000000, 1700000000))
    os.utime(path / "b", (1700000000, 1700000000))


@pytest.mark.parametrize("place", ["repository", "worktree", "included"])
def test_case_53_no_program_is_started(field: Field, place: str) -> None:
    box = field.box
    mark = hostile(field)
    if place == "worktree":
        config = (box.repo / ".git" / "config").read_text()
        box.git("config", "extensions.worktreeConfig", "true", at=box.repo)
        admin = next((box.repo / ".git" / "worktrees").iterdir())
        (admin / "config.worktree").write_text(config[config.index("[filter") :])
        for key in ("filter.x", "filter.y.z"):
            box.git("config", "--remove-section", key, at=box.repo)
    if place == "included":
        (box.root / "more").write_text(f'[filter "x"]\n\tclean = {box.root / "mark.sh"}\n')
        box.git("config", "--remove-section", "filter.x", at=box.repo)
        box.git("config", "includeIf.gitdir:**/worktrees/**.path", str(box.root / "more"), at=box.repo)
    touch(box.worktree)
    (box.repo / ".git" / "refs" / "x").mkdir()
    mark.unlink(missing_ok=True)
    field.run("worktree", "list", "--json")
    field.run("worktree", "prune", "--dry-run", "--json")
    assert not mark.exists(), "looking ran a program"
    shutil.rmtree(box.session)
    field.run("worktree", "prune", "--dry-run", "--json")
    report = field.run("worktree", "prune", "--yes", "--json").json
    assert not mark.exists(), "pruning ran a program"
    assert removed(report) == [str(box.worktree)]


def test_case_53_settings_do_start_programs_without_care(field: Field) -> None:
    """The trap works: plain git runs the monitor and the filter."""
    mark = hostile(field)
    touch(field.box.worktree)
    field.box.git("status", "--porcelain", ok=(0, 1, 128))
    assert mark.exists()


# -- 55: paths and branches named in a state file


def test_case_55_forged_paths(field: Field) -> None:
    box, repo = field.box, field.box.repo
    victim, directory = box.root / "victim", box.root / "dir"
    victim.write_text("v\n")
    directory.mkdir()
    (directory / "f").write_text("d\n")
    box.git("branch", "keepme", at=repo)
    metadata = box.session / "workspace.json"
    value = json.loads(metadata.read_text())
    above = f"{box.worktree}/../../../../../dir"
    for bad in (directory, repo, box.root, above, box.home):
        value["worktree"].update(path=str(bad), branch="keepme")
        value["active_root"] = str(bad)
        box.private(metadata, json.dumps(value))
        field.run("worktree", "prune", "--yes", "--json")
        field.run("worktree", "prune", "--yes", "--force", "--json")
        assert (directory / "f").read_text() == "d\n"
        assert victim.exists() and box.home.is_dir() and (repo / "a.txt").exists()
    shutil.rmtree(box.worktree, ignore_errors=True)
    box.worktree.parent.mkdir(parents=True, exist_ok=True)
    box.worktree.symlink_to(directory)
    report = field.run("worktree", "prune", "--yes", "--force", "--json").json
    assert "symlink" in kept(report)[str(box.worktree)]
    assert (directory / "f").read_text() == "d\n"
    assert "refs/heads/keepme" in field.refs()


def test_case_55_one_id_is_a_prefix_of_another(field: Field) -> None:
    box = field.box
    foreign = [f"refs/yolop/checkpoints/{box.sid}0/cp_1_1", "refs/yolop/checkpoints-other/x"]
    for ref in foreign:
        box.git("update-ref", ref, "HEAD^{tree}", at=box.repo)
    shutil.rmtree(box.session)
    report = field.prune()
    assert removed(report) == [str(box.worktree)]
    assert sorted(ref for ref in field.refs() if ref.startswith("refs/yolop")) == sorted(foreign)


def test_case_55_worktree_of_another_session_under_this_name(field: Field) -> None:
    """The directory of one session holds the .git file of another's worktree: neither goes."""
    box = field.box
    path = field.worktree(3)
    (path / ".git").write_bytes((box.worktree / ".git").read_bytes())
    report = field.prune("--force")
    assert "not-linked" in kept(report)[str(path)]
    assert removed(report) == []
    assert box.worktree.is_dir()
