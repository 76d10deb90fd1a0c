"""What the commands do, one module a verb, each a function from a session to a value.

The only floor that changes a session. Nothing here prints or knows Click.
"""
