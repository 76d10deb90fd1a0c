"""The built wheel: what is in it, that an sdist builds the same one, that it works where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.program import ROOT
from tests.support.sandbox import Sandbox

SHARED = {
    "share/man/man1/yolop-cli.1",
    "share/man/man1/yolop-cli-checkpoint-create.1",
    "share/man/man5/yolop-session.5",
    "share/man/man5/yolop-timeline.5",
    "share/bash-completion/completions/yolop-cli",
    "share/zsh/site-functions/_yolop-cli",
    "share/fish/vendor_completions.d/yolop-cli.fish",
    "share/yolop-cli/schemas/timeline-record.schema.json",
    "share/yolop-cli/schemas/output/session-list.schema.json",
}


def run(command: list[str | Path], cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed; gives what it printed."""
    ran = subprocess.run(
        command, cwd=cwd, env=None if env is None else dict(env), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def build(source: Path, target: str, out: Path) -> Path:
    """Build a wheel or sdist of a tree with the build backend itself: nothing is fetched."""
    run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out], source)
    (made,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_carries_what_systems_look_for(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    data = {name.partition(".data/data/")[2] for name in names if ".data/data/" in name}
    assert data >= SHARED
    pages = {f"share/man/{page.parent.name}/{page.name}" for page in (ROOT / "man").glob("man?/*")}
    assert {name for name in data if name.startswith("share/man/")} == pages
    assert "yolop_cli/_schemas/timeline-record.schema.json" in names
    assert not [name for name in names if name.startswith(("tests/", "tools/", "docs/"))]


def test_an_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as opened:
        opened.extractall(tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    again = build(source, "wheel", tmp_path / "again")
    assert again.name == wheel.name
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {name: first.read(name) for name in first.namelist()} == {
            name: second.read(name) for name in second.namelist()
        }
    assert again.read_bytes() == wheel.read_bytes()


def test_the_installed_wheel_plays_the_demo(wheel: Path, box: Sandbox) -> None:
    """In an environment of its own; only what it depends on is borrowed from the environment of the tests."""
    environment = box.root / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", environment], box.root)
    python = environment / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps"]
    run([*pip, wheel], box.root, {**os.environ, "HOME": str(box.home), "PIP_NO_CACHE_DIR": "1"})
    packages = Path(
        run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], box.root).strip()
    )
    # The lines of a .pth file come last on the path, and .pth files (an editable install) there do not count.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    program = environment / "bin/yolop-cli"
    env = box.environment({"PYTHONDONTWRITEBYTECODE": "1"})
    where = run([python, "-c", "import yolop_cli; print(yolop_cli.__file__)"], box.root, env)
    assert where.strip() == str(packages / "yolop_cli/__init__.py")
    assert "the files are back" in run([program, "demo", "played"], box.root, env)
    assert "timeline-record" in run([program, "schema", "list"], box.root, env)
    for name in SHARED:
        assert (environment / name).is_file()
    drawn = run(
        ["man", "-M", environment / "share/man", "yolop-cli-undo"], box.root, {**env, "MANPAGER": "cat"}
    )
    assert "Undo the last turn" in drawn
    script = environment / "share/bash-completion/completions/yolop-cli"
    assert "_yolop_cli" in run(["bash", "-c", '. "$0"; complete -p yolop-cli', script], box.root, env)
