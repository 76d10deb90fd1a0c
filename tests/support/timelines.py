"""Random records for property tests: ids and numbers from small pools, so that they meet each other."""

from __future__ import annotations

from hypothesis import strategies as st

from yolop_cli.timeline.records import (
    CheckpointCreated,
    FileSnapshot,
    HeadMoved,
    Initialized,
    Record,
    RedoCleared,
    Snapshot,
    TurnCompleted,
)

TREES = ("4b825dc642cb6eb9a060e54bf8d69288fbee4904", "0" * 64)
IDS = st.sampled_from(["cp_1_1", "cp_3_2", "cp_5_3", "cp_7_4", "other", ""])
NAMED = st.none() | IDS
SEQUENCES = st.integers(-2, 12)
TEXTS = st.text(max_size=20) | st.sampled_from(["\u2028\u0085\x0b\x0c\x00\r\n\t", '"\\', "🙂", "\ufeff"])
TIMES = st.sampled_from(
    [
        "2026-11-30T12:00:00Z",
        "2026-11-30T12:00:00.123456789Z",
        "2024-02-29t23:59:60z",
        "2026-01-01 00:00:00.5+14:00",
        "2026-01-01T00:00:00-00:30",
    ]
)
SNAPSHOTS = st.builds(
    Snapshot,
    tree=st.sampled_from(TREES),
    reference=st.none() | TEXTS,
    capture=st.sampled_from([None, "raw"]),
    restored=st.none() | st.sampled_from(TREES),
)
FILE_SNAPSHOTS = st.builds(FileSnapshot, TEXTS, TEXTS, TEXTS)
RECORDS: st.SearchStrategy[Record] = st.one_of(
    st.builds(Initialized, SEQUENCES, TIMES),
    st.builds(
        CheckpointCreated,
        id=IDS,
        parent=NAMED,
        prompt=TEXTS,
        event_start=SEQUENCES,
        snapshot=st.none() | SNAPSHOTS,
        snapshot_error=st.none() | TEXTS,
        created_at=TIMES,
        file_snapshot=st.none() | FILE_SNAPSHOTS,
    ),
    st.builds(TurnCompleted, IDS, SEQUENCES, st.booleans(), TIMES),
    st.builds(HeadMoved, NAMED, NAMED, NAMED, st.none() | SNAPSHOTS, TIMES, st.none() | FILE_SNAPSHOTS),
    st.builds(RedoCleared, TIMES),
)
DIALECTS = st.sampled_from(["underscore", "dotted"])
