"""Repair plans for a damaged journal: bytes and evidence in, a plan out. ``operations`` carries it out."""
