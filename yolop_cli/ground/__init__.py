"""What everything else stands on: git, files, paths, processes, journals, schemas, ids, clock, errors.

Only ``git`` starts programs. Nothing here knows what a session is.
"""
