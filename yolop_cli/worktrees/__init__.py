"""The worktrees below the agent's storage roots: what is there, who needs it, what may go and why not."""
