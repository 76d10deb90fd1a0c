"""The agent's worktrees: which there are, who needs them, what may go and why not.

Decides, and removes nothing by itself.
"""
