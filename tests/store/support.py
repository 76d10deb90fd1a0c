"""A plain directory with a store, opened for each step as a command would."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import trees
from yolop_cli import store as snapshots
from yolop_cli.store import Manifest, Prepared, RestorePlan, Rules, Settings


class Place:
    """One root. Every step opens the store anew, so nothing is carried over in memory."""

    def __init__(self, root: Path):
        self.root = root
        root.mkdir(exist_ok=True)

    @property
    def home(self) -> Path:
        return self.root / ".cogitator" / "checkpoints"

    def write(self, path: str | bytes, data: bytes | str = b"x\n", mode: int | None = None) -> Path:
        at = self.root / os.fsdecode(path)
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_bytes(data.encode() if isinstance(data, str) else data)
        if mode is not None:
            at.chmod(mode)
        return at

    def snap(self, **rules: Any) -> Manifest:
        with snapshots.opened(self.root, create=True) as store:
            return snapshots.create(store, rules=Rules(**rules))

    def plan(self, target: Manifest, settings: Settings | None = None) -> RestorePlan:
        with snapshots.opened(self.root) as store:
            return snapshots.plan_restore(store, target, settings)

    def restore(self, target: Manifest, settings: Settings | None = None) -> Prepared:
        with snapshots.opened(self.root) as store:
            return snapshots.restore(store, target, settings)

    def gc(self, grace: float = 0) -> snapshots.GcPlan:
        with snapshots.opened(self.root) as store:
            return snapshots.collect(store, grace)

    def verify(self, *, quick: bool = False) -> snapshots.Verified:
        with snapshots.opened(self.root) as store:
            return snapshots.verify(store, quick=quick)

    def delete(self, *ids: str, grace: float = 0) -> snapshots.Pruned:
        with snapshots.opened(self.root) as store:
            return snapshots.delete(store, ids, grace)

    def manifests(self) -> list[Manifest]:
        with snapshots.opened(self.root) as store:
            return snapshots.load_all(store)[0]

    def state(self) -> dict[bytes, trees.Entry]:
        return trees.state(self.root)

    def object_count(self) -> int:
        from yolop_cli.store.packs import Packs

        with snapshots.opened(self.root) as store, Packs(store) as packs:
            return len(packs.objects)


Settle = Callable[[], None]
