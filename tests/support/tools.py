"""Programs that some tests run besides Python and git: skipped at a desk that lacks one, never in CI."""

from __future__ import annotations

import os
import shutil

import pytest


def need(tool: str, package: str | None = None) -> str:
    """The path of a program. Without it a test is skipped, and fails where CI says that it must be there."""
    found = shutil.which(tool)
    if found is None:
        words = f"this test needs {tool} (Debian: {package or tool})"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return found
