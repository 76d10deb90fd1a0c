"""The session directory and its files."""
