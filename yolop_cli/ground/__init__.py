"""What everything stands on: git, files, paths, processes, journals, schemas, ids, the clock, errors."""
