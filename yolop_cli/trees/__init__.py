"""Snapshots that are git trees: capture, plan a restore, carry it out, compare, check, take files out.

Knows worktrees and repositories. Knows neither sessions nor the store of plain directories.
"""
