"""Where a session's files are kept."""
