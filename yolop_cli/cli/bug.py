"""A mistake of our own: one line, and a report to paste into an issue with nothing private in it."""

from __future__ import annotations

import platform
import traceback
from pathlib import Path

from yolop_cli import __version__
from yolop_cli.ground.errors import YolopError


class BugError(YolopError):
    """Something that should not happen did."""

    code = "BUG"
    exit_status = 70

    @classmethod
    def of(cls, error: Exception) -> BugError:
        """The report of an exception: its type and the lines it passed, never its message."""
        frames = traceback.extract_tb(error.__traceback__)
        passed = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
        report = (
            f"yolop-cli {__version__}, Python {platform.python_version()}, {platform.system()}: "
            f"{type(error).__name__} at {' < '.join(reversed(passed))}"
        )
        return cls(
            "this is a mistake in yolop-cli, not in your session",
            hint=f"please report it with this line: {report}",
            details={"report": report},
        )
