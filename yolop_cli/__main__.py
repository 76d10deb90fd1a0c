"""The program's entry: also ``python -m yolop_cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status; an interrupted or broken start has a status too."""
    try:
        from yolop_cli.cli.main import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        status = 130
    except ImportError as error:
        sys.stderr.write(f"error: yolop-cli is not installed whole: {error}\n")
        status = 70
    sys.exit(status)


if __name__ == "__main__":
    main()
