"""``yolop-cli snapshot``: snapshots of any directory, with or without git."""

from yolop_cli.cli.snapshots import basics, single_files, upkeep
from yolop_cli.cli.snapshots.common import snapshot

__all__ = ["basics", "single_files", "snapshot", "upkeep"]
