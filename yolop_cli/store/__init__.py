"""A content-addressed store in a plain directory: what its files were, and the way back.

    with opened(root, create=True) as store:
        snapshot = create(store, label=Label(session_id=..., checkpoint_id=...), rules=settings.rules)
        plan = plan_restore(store, snapshot, settings)       # changes nothing
        done = restore(store, snapshot, settings)            # safety snapshot, then exactly the plan

With a preview and a token in between: ``prepare`` (plan and safety snapshot), later ``carry_out``, which
refuses as STALE when the files moved. ``reference_to`` and ``referred`` are what a session's journal keeps
and what is checked before it is believed.
"""

from yolop_cli.store.diff import Difference, diff, entries
from yolop_cli.store.gc import GcPlan, collect, leftovers
from yolop_cli.store.layout import Store, command, has_store, is_snapshot_id, opened
from yolop_cli.store.listing import Entry
from yolop_cli.store.locks import is_restoring
from yolop_cli.store.manifest import (
    SAFETY,
    SNAPSHOT,
    Label,
    Manifest,
    Origin,
    Rules,
    Skipped,
    Stats,
    exists,
    find,
    find_id,
    from_document,
    load,
    load_all,
    snapshot_ids,
    to_document,
)
from yolop_cli.store.reference import Reference, reference_to, referred
from yolop_cli.store.repair_store import Lost, RepairPlan, repair
from yolop_cli.store.retention import Pruned, delete, plan_prune, prune, prune_after
from yolop_cli.store.settings import Retention, Settings, seconds
from yolop_cli.store.settings import load as load_settings
from yolop_cli.store.snapshot_capture import create
from yolop_cli.store.snapshot_plan import Change, Kept, RestorePlan
from yolop_cli.store.snapshot_restore import (
    Interrupted,
    Prepared,
    carry_out,
    interrupted,
    plan_restore,
    prepare,
    restore,
)
from yolop_cli.store.take_back import take_back
from yolop_cli.store.transfer import Copied, copy, plan_copy
from yolop_cli.store.verify import Finding, Verified, verify

__all__ = [
    "SAFETY",
    "SNAPSHOT",
    "Change",
    "Copied",
    "Difference",
    "Entry",
    "Finding",
    "GcPlan",
    "Interrupted",
    "Kept",
    "Label",
    "Lost",
    "Manifest",
    "Origin",
    "Prepared",
    "Pruned",
    "Reference",
    "RepairPlan",
    "RestorePlan",
    "Retention",
    "Rules",
    "Settings",
    "Skipped",
    "Stats",
    "Store",
    "Verified",
    "carry_out",
    "collect",
    "command",
    "copy",
    "create",
    "delete",
    "diff",
    "entries",
    "exists",
    "find",
    "find_id",
    "from_document",
    "has_store",
    "interrupted",
    "is_restoring",
    "is_snapshot_id",
    "leftovers",
    "load",
    "load_all",
    "load_settings",
    "opened",
    "plan_copy",
    "plan_prune",
    "plan_restore",
    "prepare",
    "prune",
    "prune_after",
    "reference_to",
    "referred",
    "repair",
    "restore",
    "seconds",
    "snapshot_ids",
    "take_back",
    "to_document",
    "verify",
]
