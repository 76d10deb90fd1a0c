"""The command line: the only place that knows Click and rich, and the only one that prints.

One module a noun. A command resolves the session, calls one operation and renders its value.
"""
