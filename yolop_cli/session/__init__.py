"""The session directory: finding it, its files, its lock, its events, its metadata.

Reads what the agent wrote. What the checkpoints mean is in ``timeline``.
"""
