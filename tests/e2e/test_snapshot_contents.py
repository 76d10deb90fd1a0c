"""Single files out of a snapshot of a plain directory: nothing but what was asked for is touched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.test_snapshot_cases import Plain
from tests.support import program
from tests.support.sandbox import Sandbox


@pytest.fixture
def plain(box: Sandbox) -> Plain:
    one = Plain(box)
    one.write("a.txt", "one\n")
    one.write("run", "#!/bin/sh\n", mode=0o755)
    one.write("dir/b", b"\0\xff" * 300_000)
    one.write(b"dir/n\xff\n", "odd\n")
    os.symlink("../outside", one.root / "link")
    one.snap()
    one.write("a.txt", "two\n")
    return one


def ran(plain: Plain, *words: str | bytes | Path, code: int | Sequence[int] = 0) -> program.Ran:
    arguments = ["snapshot", *map(os.fsdecode, words), "--root", str(plain.root)]
    done = program.run(arguments, env=plain.box.environment(), cwd=plain.box.root)
    program.check(done, code)
    return done


def test_cat_gives_the_bytes(plain: Plain) -> None:
    before = plain.state()
    assert ran(plain, "cat", "latest", "a.txt").out == b"one\n"
    assert ran(plain, "cat", "latest", "./dir/../a.txt").out == b"one\n"
    assert ran(plain, "cat", "latest", plain.root / "a.txt").out == b"one\n"
    assert ran(plain, "cat", "latest", "dir/b").out == b"\0\xff" * 300_000
    assert ran(plain, "cat", "latest", b"dir/n\xff\n").out == b"odd\n"
    assert ran(plain, "cat", "latest", "link").out == b"../outside"
    assert plain.state() == before
    assert plain.run("cat", "latest", "dir/b")["content"]["bytes"]
    assert plain.run("cat", "latest", "run")["mode"] == "100755"


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("nothing", 3, b"holds no nothing"),
        ("dir", 2, b"extract"),
        ("../a.txt", 7, b"below the root"),
        ("/etc/passwd", 7, b"below the root"),
        (".", 2, b"directory"),
    ],
)
def test_what_is_no_file_of_the_snapshot_is_refused(plain: Plain, path: str, code: int, words: bytes) -> None:
    assert words in ran(plain, "cat", "latest", path, code=code).err


def test_extract_writes_what_was_asked_for_and_overwrites_nothing(plain: Plain) -> None:
    before, out = plain.state(), plain.box.root / "out"
    assert b"2 files in " in ran(plain, "extract", "latest", out, "dir", "dir/b").out
    assert (out / "dir/b").read_bytes() == b"\0\xff" * 300_000
    assert sorted(os.listdir(os.fsencode(out / "dir"))) == [b"b", b"n\xff\n"]
    (out / "a.txt").write_text("mine\n")
    refused = ran(plain, "extract", "latest", out, "a.txt", "run", code=7)
    assert b"a.txt" in refused.err and (out / "a.txt").read_text() == "mine\n"
    assert not (out / "run").exists(), "nothing at all is written then"
    whole = plain.run("extract", "latest", str(plain.box.root / "all"))
    assert len(whole["files"]) == 5
    assert os.readlink(plain.box.root / "all/link") == "../outside"
    assert os.access(plain.box.root / "all/run", os.X_OK)
    assert plain.state() == before


def test_a_damaged_content_is_named_and_never_left_as_if_it_were_whole(plain: Plain) -> None:
    plain.write("big", os.urandom(3 << 20).hex())
    made = plain.snap()
    for pack in (plain.home / "packs").iterdir():
        if pack.stat().st_size > 2 << 20:
            data = bytearray(pack.read_bytes())
            data[1_000_000] ^= 1
            pack.write_bytes(data)
    out = plain.box.root / "out"
    refused = plain.run("extract", made, str(out), code=9)
    assert refused["details"]["path"] == "big" and "big: " in refused["message"]
    assert refused["details"]["state"] == "1 file had been written, whole"
    assert "nothing was changed" not in refused["message"]
    assert os.listdir(out) == ["a.txt"] and (out / "a.txt").read_text() == "two\n"
    assert b"big: " in ran(plain, "cat", made, "big", code=9).err
