"""Tests of the worktrees package."""
