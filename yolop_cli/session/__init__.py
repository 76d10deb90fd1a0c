"""The session directory: where it is, its files, its lock, its events, its metadata."""
