"""Completion in real shells: what is offered, how it is described, what is put in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.support.program import PROGRAM, ROOT
from tests.support.sandbox import Sandbox
from tests.support.terminal import Terminal
from tests.support.tools import need
from yolop_cli.cli.main import root

COMPLETIONS = ROOT / "completions"
# What a person makes up, and no shell can know.
FREE = {"prompt", "label", "exclude", "to_event", "keep_last", "keep_within", "max_file_bytes", "grace"}
# A deletion's token is there to show that its preview was seen.
NEVER = {("session", "delete", "token")}


@pytest.fixture
def turned(ready: Sandbox) -> Sandbox:
    """A session with a title and two turns, and the program on the path."""
    ready.make_session(owned=True, title="Tidy: the 'shed'")
    ready.turn("Sweep the floor", [("dir/it's here.txt", "x\n")])
    ready.turn("Paint it $(red)\x1b[31m", [("b.txt", "y\n")])
    ready.env["PATH"] = f"{Path(PROGRAM).parent}:{ready.env['PATH']}"
    ready.env["TERM"] = "xterm"
    return ready


def ids(box: Sandbox) -> list[str]:
    return [str(item["id"]) for item in box.checkpoints()]


# -- bash


@pytest.fixture
def bash(turned: Sandbox) -> Iterator[Terminal]:
    command = [need("bash"), "--norc", "--noprofile", "-i"]
    with Terminal(command, {**turned.env, "PS1": "ready> "}, turned.worktree) as terminal:
        terminal.wait_for("ready> ")
        terminal.send(f"bind 'set bell-style none'; . {COMPLETIONS}/yolop-cli.bash; echo 'lo'aded\n")
        terminal.wait_for("loaded")
        terminal.forget()
        yield terminal


def test_bash_lists_checkpoints_with_prompts_and_puts_in_the_chosen_one(
    turned: Sandbox, bash: Terminal
) -> None:
    newest, oldest = ids(turned)
    bash.send("yolop-cli rewind preview cp_\t\t")
    bash.wait_for(f"{oldest}  (Sweep the floor)")
    assert f"{newest}  (Paint it $(red)\\e[31m)" in bash.text
    assert bash.text.index(newest) < bash.text.index(oldest)
    bash.forget()
    bash.send(oldest[3:])
    bash.send("\t --json | grep -o '\"exact\": [a-z]*'\n")
    bash.wait_for('"exact": true')


def test_bash_completes_commands_options_modes_sessions_tokens_and_paths(
    turned: Sandbox, bash: Terminal
) -> None:
    token = turned.plan(ids(turned)[0])["token"]
    for typed, put_in in [
        ("yolop-cli rew\t", "rewind "),
        ("yolop-cli checkpoint diff --name\t", "--name-status "),
        ("yolop-cli undo --mode=conv\t", "--mode=conversation "),
        ("yolop-cli undo --mode conv\t", "--mode conversation "),
        ("yolop-cli session show -s \t", f"-s {turned.sid} "),
        ("yolop-cli session show -s 0000\t", f"-s {turned.sid[8:]} "),
        ("yolop-cli rewind apply \t", f"apply {token} "),
        (f"yolop-cli checkpoint cat {ids(turned)[0]} d\t", "dir/"),
        (f"yolop-cli checkpoint cat {ids(turned)[0]} dir/\t", "dir/it\\'s\\ here.txt "),
        ("yolop-cli snapshot list --root di\t", "--root dir/"),
        ("yolop-cli schema validate b.\t", "validate b.txt "),
    ]:
        bash.send(typed)
        bash.wait_for(put_in)
        bash.send("\x15")  # clear the line
        bash.forget()


def test_bash_offers_commands_with_their_summaries(bash: Terminal) -> None:
    bash.send("yolop-cli \t\t")
    bash.wait_for("(Take back the last restore.)")
    assert "(Undo the last turn.)" in bash.text


# -- zsh


@pytest.fixture(params=["autoloaded", "sourced"])
def zsh(turned: Sandbox, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    with Terminal([need("zsh"), "-f", "-i"], {**turned.env, "PS1": "ready> "}, turned.worktree) as terminal:
        terminal.wait_for("ready> ")
        setup = "autoload -U compinit; compinit -u -D; zstyle ':completion:*' menu no; setopt nobeep"
        if request.param == "autoloaded":
            terminal.send(f"fpath=({COMPLETIONS} $fpath); {setup}; echo 'lo'aded\n")
        else:
            terminal.send(f"{setup}; . {COMPLETIONS}/_yolop-cli; echo 'lo'aded\n")
        terminal.wait_for("loaded")
        terminal.forget()
        yield terminal


def test_zsh_completes_with_descriptions(turned: Sandbox, zsh: Terminal) -> None:
    newest, oldest = ids(turned)
    token = turned.plan(newest)["token"]
    zsh.send("yolop-cli rewind preview \t")  # zsh lists nothing while more keys wait to be read
    zsh.wait_for("cp_")
    zsh.send("\t")
    zsh.wait_for("-- Sweep the floor")
    assert "-- Paint it $(red)\\e[31m" in zsh.text and oldest in zsh.text
    zsh.send("\x15")
    zsh.send("yolop-cli \t")
    zsh.wait_for("-- Take back the last restore.")
    for typed, put_in in [
        ("yolop-cli undo --mode=conv\t", "--mode=conversation"),
        ("yolop-cli session show -s 0000\t", turned.sid[8:]),
        ("yolop-cli rewind apply \t", token),
        (f"yolop-cli checkpoint cat {newest} d\t", "dir/"),
        (f"yolop-cli checkpoint cat {newest} dir/\t", "here.txt"),
        ("yolop-cli snapshot list --root di\t", "dir/"),
    ]:
        zsh.send("\x15")
        zsh.forget()
        zsh.send(typed)
        zsh.wait_for(put_in)


# -- fish


def fish(box: Sandbox, line: str) -> dict[str, str]:
    """What fish offers for a line, with descriptions."""
    command = [need("fish"), "--no-config", "-c", "set -p fish_complete_path $argv[2]; complete -C $argv[1]"]
    env = {**box.env, "XDG_RUNTIME_DIR": str(box.tmp)}
    ran = subprocess.run(
        [*command, line, str(COMPLETIONS)],
        env=env, cwd=box.worktree, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    rows = (row.partition("\t") for row in ran.stdout.split("\n") if row)
    return {value: words for value, _, words in rows}


def test_fish_completes_with_descriptions(turned: Sandbox) -> None:
    newest, oldest = ids(turned)
    token = turned.plan(newest)["token"]
    found = fish(turned, "yolop-cli rewind preview ")
    assert list(found.items()) == [(newest, "Paint it $(red)\\e[31m"), (oldest, "Sweep the floor")]
    assert fish(turned, "yolop-cli ")["redo"] == "Take back the last restore."
    assert fish(turned, "yolop-cli session show -s 0000") == {turned.sid[8:]: "Tidy: the 'shed'"}
    assert fish(turned, "yolop-cli undo --mode conv") == {"conversation": "the conversation, not the files"}
    assert list(fish(turned, "yolop-cli undo --mode=conv")) == ["--mode=conversation"]
    assert list(fish(turned, "yolop-cli rewind apply ")) == [token]
    assert list(fish(turned, f"yolop-cli checkpoint cat {newest} dir/")) == ["dir/it's here.txt"]
    assert list(fish(turned, "yolop-cli snapshot list --root di")) == ["dir/"]
    assert "--all-branches" in fish(turned, "yolop-cli checkpoint list --a")


# -- the answers themselves


def answer(box: Sandbox, line: str, *python: str) -> subprocess.CompletedProcess[str]:
    """What the program answers a shell for the last word of a line."""
    words = line.split(" ")
    env = {**box.env, "_YOLOP_CLI_COMPLETE": "bash_complete", "COMP_WORDS": line}
    command = [sys.executable, *python, "-m", "yolop_cli"]
    return subprocess.run(
        command, env={**env, "COMP_CWORD": str(len(words) - 1)}, cwd=box.worktree,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_completing_loads_nothing_heavy_and_starts_no_program(turned: Sandbox) -> None:
    turned.cli("snapshot", "create", "--root", turned.worktree, session=False)
    for line in (
        "yolop-cli ",
        "yolop-cli session show -s ",
        "yolop-cli rewind preview ",
        "yolop-cli rewind apply ",
        "yolop-cli undo --mode ",
        "yolop-cli timeline repair --head ",
        "yolop-cli event list --type ",
        "yolop-cli snapshot show ",
        "yolop-cli schema show ",
    ):
        ran = answer(turned, line, "-X", "importtime")
        assert ran.returncode == 0 and (ran.stdout.strip() or "apply" in line), line
        loaded = {row.rpartition("|")[2].strip() for row in ran.stderr.split("\n")}
        assert "yolop_cli.cli.completion" in loaded
        assert not loaded & {"rich", "rich_click", "jsonschema", "sh", "psutil", "subprocess"}, line


def test_what_cannot_be_completed_is_silent(turned: Sandbox) -> None:
    for line in (
        "yolop-cli nonsense ",
        "yolop-cli rewind preview -s nowhere ",
        "yolop-cli rewind apply ",
        "yolop-cli snapshot show ",
        "yolop-cli checkpoint cat cp_9_9 ",
        "yolop-cli session show -s '",
    ):
        ran = answer(turned, line)
        assert (ran.returncode, ran.stderr) == (0, ""), line


def test_an_id_made_to_do_harm_is_not_offered(turned: Sandbox) -> None:
    record = turned.records()[1]
    assert record["type"] == "checkpoint_created"
    text = turned.timeline.read_text()
    turned.timeline.write_text(text.replace(record["id"], "cp_$(touch${IFS}x);"))
    assert answer(turned, "yolop-cli rewind preview ").stdout.count("plain\t") == 1


def test_every_value_of_every_command_is_completed() -> None:
    """A new argument or option has to say what a shell offers for it."""
    missing = []

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        ctx = click.Context(command, info_name=words[-1] if words else "yolop-cli")
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                assert below is not None
                walk(below, (*words, name))
        for parameter in command.params:
            is_flag = isinstance(parameter, click.Option) and parameter.is_flag
            name = str(parameter.name)
            if is_flag or name in FREE or (*words, name) in NEVER:
                continue
            own = getattr(parameter, "_custom_shell_complete", None) is not None
            by_type = type(parameter.type).shell_complete is not click.ParamType.shell_complete
            if not (own or by_type):
                missing.append((*words, name))

    walk(root, ())
    assert not missing


@pytest.mark.parametrize(("shell", "name"), [("bash", "yolop-cli.bash"), ("zsh", "_yolop-cli"),
                                             ("fish", "yolop-cli.fish")])  # fmt: skip
def test_the_command_prints_the_script_that_is_shipped(box: Sandbox, shell: str, name: str) -> None:
    shipped = (COMPLETIONS / name).read_text()
    assert box.cli("completion", shell, session=False).text == shipped
    assert box.cli("completion", shell, "--json", session=False).json == {"shell": shell, "script": shipped}
    flags = {"fish": ["--no-execute"]}.get(shell, ["-n"])
    subprocess.run(
        [need(shell), *flags, str(COMPLETIONS / name)], check=True, env={"PATH": os.environ["PATH"]}
    )
    box.cli("completion", "tcsh", code=2, session=False)
