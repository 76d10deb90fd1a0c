"""The program's entry: also ``python -m yolop_cli``."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its status; an interrupted or broken start has a status too."""
    _open_standard_streams()
    try:
        from yolop_cli.cli.main import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    except ImportError as error:
        sys.stderr.write(f"error: yolop-cli is not installed whole: {error}\n")
        status = 70
    sys.exit(status)


def _open_standard_streams() -> None:
    """A stream that the caller closed becomes the null device: no session file may take its number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, "r", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    main()
