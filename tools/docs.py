"""Run the console blocks of README.md and docs/ and put in what came out, so that no output is made up.

Run ``python tools/docs.py`` after a change of what a command prints; ``--check`` writes nothing and exits 1
when a page is stale. Each page runs in a home of its own, its blocks one after another in one shell. What
differs from run to run (session ids, tokens, times, the home) is shown as a fixed stand-in; a stand-in in a
command is replaced by what it stands for. A block marked ``sh examples/NAME`` shows that file. The README's
table of commands is that of the program, and docs/terminal.svg is a picture of a run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pages
import picture

HERE = Path(__file__).resolve().parents[1]
DOCS = HERE / "docs"
BLOCK = re.compile(r"^```(console|(?:sh|yaml) (examples/\S+))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PICTURE = DOCS / "terminal.svg"
_TABLE = re.compile(r"(?<=^<!-- commands -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)
_STEPS = (
    ("yolop-cli checkpoint list", ""),
    ("yolop-cli undo", "y"),
    ("yolop-cli redo --yes", ""),
    ("yolop-cli timeline validate", ""),
)
_END = "\x1e"
_HOME = "/home/you"
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z?")
_MINUTE = re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d\b")
_STAMP = re.compile(r"\b20\d{6}T\d{6}Z\b")
_VARYING = (
    (re.compile(r"\bsession_[0-9a-f]{32}\b"), "session_01a2{:028d}"),
    (re.compile(r"(?<=recovery_)\d+_[0-9a-f]+\b"), "6_{:08d}"),
    (re.compile(r"\b[0-9a-f]{16}\b"), "5f0c1d2e3a4b{:04d}"),
    (re.compile(r"(?<![\w.-])[0-9a-f]{12}(?![\w.-])"), "01a2{:08d}"),
)
_STAND_IN = re.compile(r"session_01a20{27}\d|recovery_6_0{7}\d|5f0c1d2e3a4b00\d\d")


class Shell:
    """One bash in a home of its own; knows which stand-in it showed for what."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.shown: dict[str, str] = {}
        (root / "tmp").mkdir()
        self.home.mkdir()
        shutil.copytree(DOCS / "examples", self.home / "examples")
        self.environment = {
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(root / "tmp"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            cwd=self.home,
        )

    def run(self, command: str) -> str:
        """Run a command line; what it printed, with stand-ins."""
        assert self.process.stdin is not None and self.process.stdout is not None
        for real, stand_in in self.shown.items():
            command = command.replace(stand_in, real)
        if left := _STAND_IN.search(command):
            raise RuntimeError(f"nothing that was shown is {left.group()}, which this names: {command}")
        self.process.stdin.write(f"{command}\nstatus=$?; printf '{_END}'; (exit $status)\n".encode())
        self.process.stdin.flush()
        output = bytearray()
        while not output.endswith(_END.encode()):
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise RuntimeError(f"the shell ended in: {command}\n{output.decode()}")
            output += data
        return self.with_stand_ins(output.decode()[:-1])

    def with_stand_ins(self, output: str) -> str:
        """What was printed, with a stand-in for whatever differs from run to run."""
        for pattern, form in _VARYING:
            for real in dict.fromkeys(pattern.findall(output)):
                taken = [each for each in self.shown.values() if pattern.fullmatch(each)]
                self.shown.setdefault(real, form.format(len(taken) + 1))
        for real in sorted(self.shown, key=len, reverse=True):
            output = output.replace(real, self.shown[real])
        output = output.replace(str(self.home), _HOME)
        output = _MINUTE.sub("2026-12-01 09:00", _STAMP.sub("20261201T090000Z", output))
        return _TIME.sub(lambda match: "2026-12-01T09:00:00" + "Z" * match.group().endswith("Z"), output)


@contextmanager
def shell() -> Iterator[Shell]:
    """A shell in a new temporary home, which is removed in the end."""
    with tempfile.TemporaryDirectory() as directory:
        opened = Shell(Path(directory).resolve())
        try:
            yield opened
        finally:
            opened.process.kill()
            opened.process.communicate()


def commands(block: str) -> list[str]:
    """The command lines of a console block, each with its continuation lines."""
    found: list[str] = []
    for line in block.split("\n"):
        if line.startswith("$ "):
            found.append(line)
        elif line.startswith("> ") and found:
            found[-1] += "\n" + line
    return found


def rendered(text: str) -> str:
    """A page with what its commands print now."""
    text = _TABLE.sub(lambda _: command_table(), text)
    if not BLOCK.search(text):
        return text
    with shell() as opened:

        def replace(match: re.Match[str]) -> str:
            kind, file, body = match.groups()
            if file:
                return f"```{kind}\n{(DOCS / file).read_text()}```"
            lines = []
            for command in commands(body):
                output = opened.run("\n".join(line[2:] for line in command.split("\n")))
                if re.search(r"^[$>] |^```", output, flags=re.MULTILINE):
                    raise RuntimeError(f"what this prints cannot be told from a command: {command}")
                lines.append(f"{command}\n{output}" + "\n" * (output[-1:] not in ("", "\n")))
            return f"```console\n{''.join(lines)}```"

        return BLOCK.sub(replace, text)


def command_table() -> str:
    """Every command of the program that does something, with its summary, as a table."""
    rows = ["", "| command | what it does |", "| --- | --- |"]
    for page in pages.commands():
        if not isinstance(page.command, click.Group):
            rows.append(f"| `{' '.join(page.words[1:])}` | {page.summary} |")
    return "\n".join([*rows, "", ""])


def drawn() -> str:
    """The picture of a terminal: the demo's session looked at, undone and redone."""
    with shell() as opened:
        opened.run("yolop-cli demo ~/demo")
        place = opened.home / "demo"
        environment = {**opened.environment, "TERM": "xterm-16color", "YOLOP_DATA_DIR": str(place / "data")}

        def run(command: str, answer: str) -> str:
            return opened.with_stand_ins(picture.shown(command, answer, environment, place / "worktree"))

        return picture.drawn(picture.transcript(_STEPS, run), "yolop-cli takes back a turn, and that back")


def made(page: Path) -> str:
    """What a page or the picture is now."""
    return drawn() if page.suffix == ".svg" else rendered(page.read_text())


def main() -> int:
    """Rewrite the pages, or with ``--check`` only name those that are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a page is stale")
    parser.add_argument("pages", nargs="*", type=Path, help="these pages only")
    options = parser.parse_args()
    stale = 0
    for page in options.pages or [HERE / "README.md", *sorted(DOCS.glob("*.md")), PICTURE]:
        text = page.read_text() if page.exists() else ""
        now = made(page)
        if now != text:
            stale += 1
            print(f"{'stale' if options.check else 'written'}: {page}")
            if not options.check:
                page.write_text(now)
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
