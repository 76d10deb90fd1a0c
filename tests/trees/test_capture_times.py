"""A capture never believes times that a later change could have kept: no edit is lost to a clock."""

import os
from pathlib import Path

from tests.support.sandbox import Sandbox
from yolop_cli.ground.git import Git
from yolop_cli.trees.capture import capture
from yolop_cli.trees.checkout import open_checkout
from yolop_cli.trees.private_git import PrivateGit

LONG_AGO = (1_000_000_000, 1_000_000_000)


def test_edits_of_equal_size_and_time_are_all_seen(ready: Sandbox) -> None:
    git = Git(ready.env)
    private = PrivateGit(ready.session / "capture.git", open_checkout(git, ready.worktree))
    file = Path(ready.worktree) / "a.txt"
    lost = []
    for number in range(8):
        content = b"%04d" % number
        file.write_bytes(content)
        os.utime(file, LONG_AGO)
        tree = capture(git, private).tree
        if git.run(private.reading, "cat-file", "blob", f"{tree}:a.txt").out != content:
            lost.append(number)
    assert lost == []
