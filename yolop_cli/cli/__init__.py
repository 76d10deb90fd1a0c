"""The command line: the only place that knows Click and rich, and the only one that prints."""
