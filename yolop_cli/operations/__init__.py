"""The only place that changes a session: begin and end turns, preview, apply and cancel restores."""
