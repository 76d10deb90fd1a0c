"""The journal of checkpoints, heads and redo targets: records, fold, findings, repair plans."""
