"""What the snapshot commands are told and what they say: patterns, patches, and failures that help."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_snapshot_cases import Plain
from tests.support import program
from tests.support.program import UNPRIVILEGED
from tests.support.sandbox import Sandbox


@pytest.fixture
def plain(box: Sandbox) -> Plain:
    return Plain(box)


def said(plain: Plain, *words: str) -> bytes:
    """What a command prints for people."""
    arguments = ["snapshot", *words, "--root", str(plain.root)]
    ran = program.run(arguments, env=plain.box.environment(), cwd=plain.box.root)
    program.check(ran, 0)
    return ran.out


# -- patterns

NONSENSE = [
    "[",
    "a[",
    "[]",
    "[z-a]",
    "!",
    "a\\",
    "",
    "  ",
    "/",
    "# a comment",
    "[[:digit:]]*",
    "..",
    "../x",
    ".",
    "./x",
    "!../x",
]


@pytest.mark.parametrize("pattern", NONSENSE)
def test_a_pattern_that_leaves_out_nothing_is_refused(plain: Plain, pattern: str) -> None:
    error = plain.run("create", "--exclude", "*.log", f"--exclude={pattern}", code=2)
    assert error["details"]["pattern"] == pattern
    assert repr(pattern) in error["message"]
    assert not plain.home.exists(), "and no store is made"


@pytest.mark.parametrize("pattern", NONSENSE)
def test_so_it_is_in_the_settings_which_are_named(plain: Plain, pattern: str) -> None:
    made = plain.snap()
    quoted = pattern.replace("\\", "\\\\")
    plain.write(".cogitator/checkpoints.toml", f'exclude = ["*.log", "{quoted}"]\n')
    for words in (("create",), ("restore", made), ("restore", made, "--dry-run")):
        error = plain.run(words[0], *words[1:], code=2)
        assert "checkpoints.toml" in error["message"] and repr(pattern) in error["message"]


@pytest.mark.parametrize("pattern", ["[a]", "\\[", "[^a].log", "**", "\\#x", "!keep", "a b", "dist/**", "é*"])
def test_a_pattern_that_means_something_is_taken(plain: Plain, pattern: str) -> None:
    plain.snap("--exclude", pattern)


def test_settings_that_are_nested_too_deeply_are_named(plain: Plain) -> None:
    plain.write(".cogitator/checkpoints.toml", f"exclude={'[' * 3000}\n")
    assert "checkpoints.toml cannot be used" in plain.run("create", code=2)["message"]


def test_settings_that_cannot_be_read_are_named(plain: Plain) -> None:
    plain.write(".cogitator/checkpoints.toml", "exclude = []\n", mode=0)
    ran = plain.ran("create", code=9, prefix=UNPRIVILEGED)
    assert "checkpoints.toml" in ran.error["message"]


# -- differences


def _changed(plain: Plain) -> str:
    plain.write("gone", "g\n")
    plain.write("run", "#!/bin/sh\n", mode=0o644)
    plain.write("bytes", b"\0\1\2" * 50)
    plain.write(b"n\xff", "odd\n")
    os.symlink("old", plain.root / "link")
    made = plain.snap()
    plain.write("a.txt", "one\ntwo\n")
    (plain.root / "gone").unlink()
    (plain.root / "run").chmod(0o755)
    plain.write("bytes", b"\0\3\2" * 50)
    plain.write(b"n\xff", "odder\n")
    plain.write("new", "n\n")
    (plain.root / "empty").mkdir()
    (plain.root / "link").unlink()
    os.symlink("new", plain.root / "link")
    return made


def test_a_patch_is_gits_and_can_be_applied(plain: Plain) -> None:
    made = _changed(plain)
    patch = said(plain, "diff", made, "--patch")
    assert b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n one\n+two\n" in patch
    assert b"GIT binary patch" in patch and b"old mode 100644\nnew mode 100755\n" in patch
    assert b"+++ b/n\xff\n" in patch
    second = plain.snap()
    assert said(plain, "diff", made, second, "--patch") == patch
    now = plain.state()
    plain.run("restore", made)
    subprocess.run(
        ["git", "apply", "-"], input=patch, cwd=plain.root, check=True, env=plain.box.environment()
    )
    (plain.root / "empty").mkdir()
    assert plain.state() == now


def test_stat_and_name_status(plain: Plain) -> None:
    made = _changed(plain)
    lines = said(plain, "diff", made, "--stat").splitlines()
    assert b"+1\t-0\ta.txt" in lines and b"-\t-\tbytes" in lines and b"+1\t-1\tn\\xff" in lines
    assert said(plain, "diff", made, "--name-status") == said(plain, "diff", made)
    assert said(plain, "diff", made, made, "--patch") == b""


def test_the_patch_in_json_is_text(plain: Plain) -> None:
    made = _changed(plain)
    found: Any = plain.run("diff", made)
    assert found["patch"] is None
    asked: Any = plain.run("diff", made, "--patch")
    assert {**asked, "patch": None} == found
    assert asked["patch"] == said(plain, "diff", made, "--patch").decode("utf-8", "backslashreplace")
    plain.write("a.txt", b"\xe9\n")
    assert "+\\xe9\n" in plain.run("diff", made, "--patch")["patch"]
    plain.run("diff", made, "--patch", "--exit-code", code=1)


# -- which directory


def test_sessions_that_share_a_directory_leave_no_doubt_about_it(plain: Plain) -> None:
    box = plain.box
    box.make_session(owned=False, root=plain.root)
    second = box.session.with_name("session_" + "7" * 32)
    shutil.copytree(box.session, second)

    ran = program.run(["snapshot", "create", "--json"], env=box.environment(), cwd=plain.root)
    program.check(ran, 0)
    made = ran.json["id"]
    assert [one["id"] for one in plain.run("list")["snapshots"]] == [made]


def test_a_limit_of_the_process_is_not_called_damage(plain: Plain) -> None:
    plain.write("big", os.urandom(3 << 20))
    error = plain.ran("create", code=9, prefix=("bash", "-c", 'ulimit -f 1000; exec "$@"', "sh")).error
    assert "ulimit" in error["hint"] and "verify" not in error["hint"]


# -- commands to paste


def pasted(box: Sandbox, words: str, code: int = 0) -> bytes:
    """What a shell somewhere else does with the first command in ``words``, quoted or on its own line."""
    found = re.search(r"`yolop-cli ([^`]*)`", words) or re.search(r"^ +yolop-cli (.*)$", words, re.M)
    assert found is not None, words
    line = f"{shlex.quote(program.PROGRAM)} {found[1]}"
    ran = subprocess.run(["bash", "-c", line], cwd="/", env=box.environment(), capture_output=True)
    assert ran.returncode == code, (line, ran.stderr)
    return ran.stdout


@pytest.mark.parametrize("name", [b"plain", b"it's $a", b"n\xff\n'x\\", "é".encode()])
def test_what_undoes_a_restore_can_be_pasted_anywhere(plain: Plain, name: bytes) -> None:
    root = plain.root.parent / os.fsdecode(b"of " + name)
    plain.root.rename(root)
    plain.root = root
    made = plain.snap()
    plain.write("a.txt", "two\n")
    words = said(plain, "restore", made)
    assert (root / "a.txt").read_text() == "one\n"
    pasted(plain.box, words.decode())
    assert (root / "a.txt").read_text() == "two\n"


def test_the_hints_of_failures_can_be_pasted_anywhere(plain: Plain) -> None:
    error = plain.run("list", "--root", plain.root, code=0)
    assert error["snapshots"] == []
    pasted(plain.box, plain.run("show", "latest", code=3)["hint"])
    made = plain.run("list")["snapshots"][0]["id"]
    assert made.encode() in pasted(plain.box, plain.run("show", "snap_" + "0" * 24, code=3)["hint"])
    (plain.home / "manifests" / f"{made}.json").write_bytes(b"{")
    pasted(plain.box, plain.run("show", made, code=9)["hint"])
    assert plain.run("list")["unreadable"] == []


def test_what_ends_an_interrupted_restore_can_be_pasted_anywhere(plain: Plain) -> None:
    made = plain.snap()
    plain.write("a.txt", "two\n")
    safety = plain.run("restore", made)["safety_snapshot_id"]
    record = {"snapshot_id": made, "safety_snapshot_id": safety, "began_at": "2026-01-01T00:00:00Z"}
    (plain.home / "restoring.json").write_text(json.dumps(record))
    fix = plain.run("verify")["findings"][0]["fix"]
    arguments = ["snapshot", "list", "--root", str(plain.root)]
    ran = program.run(arguments, env=plain.box.environment(), cwd=plain.box.root)
    assert f"`yolop-cli {fix}`".encode() in ran.err
    pasted(plain.box, ran.err.decode())
    assert (plain.root / "a.txt").read_text() == "two\n"
    assert plain.run("list")["interrupted"] is None


# -- repair


def test_a_repair_names_what_it_cannot_mend_and_what_to_do(plain: Plain) -> None:
    made = plain.snap()
    (plain.home / "manifests" / f"{made}.json").write_bytes(b"{")
    arguments = ["snapshot", "repair", "--root", str(plain.root), "--apply"]
    ran = program.run(arguments, env=plain.box.environment(), cwd=plain.box.root)
    program.check(ran, 1)
    assert b"nothing to do" not in ran.out
    assert made.encode() in ran.out
    pasted(plain.box, ran.out.decode())
    assert plain.run("repair")["by_hand"] == []
    assert plain.run("verify")["ok"]


@pytest.mark.parametrize("gone", ["tmp", "locks", "config.json"])
def test_what_a_backup_left_out_does_not_hide_the_snapshots(plain: Plain, gone: str) -> None:
    made = plain.snap()
    was = plain.run("show", made)["snapshot"]["workspace_id"]
    if gone == "config.json":
        (plain.home / gone).unlink()
    else:
        shutil.rmtree(plain.home / gone)
    assert [one["id"] for one in plain.run("list")["snapshots"]] == [made]
    assert not (plain.home / gone).exists()
    plain.write("a.txt", "two\n")
    plain.run("restore", made)
    assert plain.run("create")["workspace_id"] == was
    assert plain.run("verify")["findings"] == []


# -- failures


def _rot(plain: Plain, content: bytes) -> None:
    """Damage the one pack that holds a content as it is."""
    for pack in (plain.home / "packs").iterdir():
        data = pack.read_bytes()
        if content in data:
            pack.write_bytes(data.replace(content, b"X" * len(content)))


def _lost(plain: Plain) -> tuple[str, str]:
    """Two snapshots that differ in a file whose old content is damaged in the store."""
    plain.write("d/a file", b"old content of it")
    made = plain.snap()
    plain.write("d/a file", b"new content of it")
    second = plain.snap()
    _rot(plain, b"old content of it")
    return made, second


@pytest.mark.parametrize("way", ["rotten", "gone"])
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_restore_names_the_path_whose_content_is_lost(
    plain: Plain, way: str, words: tuple[str, ...]
) -> None:
    made, _ = _lost(plain)
    if way == "gone":
        for pack in (plain.home / "packs").iterdir():
            if b"X" * 17 in pack.read_bytes():
                pack.unlink()
    before = plain.state()
    error = plain.run("restore", made, *words, code=9)
    if way == "rotten":
        assert error["details"]["path"] == "d/a file"
        assert "the snapshot has lost d/a file" in error["message"]
    assert error["message"].endswith("; nothing was changed")
    assert "snapshot verify --root" in error["hint"] and "snapshot repair" in error["hint"]
    assert plain.state() == before


def test_copy_diff_and_show_of_what_is_lost(plain: Plain) -> None:
    made, second = _lost(plain)
    (plain.root.parent / "other").mkdir()
    error = plain.run("copy", made, "--to", plain.root.parent / "other", code=9)
    assert error["message"].endswith("; it was not copied")
    assert f"verify --root {plain.root}`" in error["hint"]
    error = plain.run("diff", made, second, "--patch", code=9)
    assert "verify" in error["hint"]
    plain.run("diff", made, second)


def test_what_stops_a_restore_half_way_is_named(plain: Plain) -> None:
    plain.write("d/b", b"old\n")
    made = plain.snap()
    plain.write("d/b", b"new\n")
    plain.write("a.txt", b"new\n")
    if subprocess.run(["chattr", "+i", plain.root / "d/b"], capture_output=True).returncode:
        pytest.skip("no immutable files here")
    before = plain.state()
    try:
        error = plain.run("restore", made, code=9)
    finally:
        subprocess.run(["chattr", "-i", plain.root / "d/b"], check=True)
    assert "d/b" in error["message"]
    assert error["details"]["state"] == "the files are as they were before"
    assert error["hint"]
    assert plain.state() == before


@pytest.mark.parametrize("part", ["packs", "manifests", "tmp", "locks"])
@pytest.mark.parametrize("verb", ["create", "restore", "gc", "delete", "prune", "verify", "copy"])
def test_a_store_that_may_not_be_written(plain: Plain, verb: str, part: str) -> None:
    made = plain.snap()
    plain.write("a.txt", "two\n")
    plain.snap()
    other = plain.root.parent / "other"
    other.mkdir()
    words: dict[str, list[str | Path]] = {
        "restore": [made],
        "delete": [made],
        "prune": ["--keep-last", "1"],
        "copy": [made, "--to", other],
    }
    before = plain.state()
    (plain.home / part).chmod(0o500)
    try:
        ran = plain.ran(verb, *words.get(verb, []), code=(0, 7, 9), prefix=UNPRIVILEGED)
    finally:
        (plain.home / part).chmod(0o700)
    if ran.code == 9:
        error = ran.error
        assert "ermission denied" in error["message"]
        assert error["hint"] and error["details"]["state"]
        assert error["details"]["root"] == str(other if verb == "copy" else plain.root)
        assert {k: v for k, v in plain.state().items() if not k.startswith(b".cogitator")} == {
            k: v for k, v in before.items() if not k.startswith(b".cogitator")
        }
    assert plain.run("verify")["ok"]


def test_a_damaged_config_says_how_to_mend_it(plain: Plain) -> None:
    plain.snap()
    held = (plain.home / "config.json").read_bytes()
    (plain.home / "config.json").write_bytes(b"{")
    error = plain.run("list", code=9)
    assert str(plain.root) in error["message"] and "manifests/" in error["hint"]
    (plain.home / "config.json").write_bytes(held)
    plain.run("list")
