"""Where a session's files are kept: one protocol, a home in git, a home in a store, and the choice.

Who owns what is decided here, and the held session that a writer works through. No command is known here.
"""
