"""The journal of checkpoints: its records, the state they fold to, the file they lie in.

``checking`` finds what is wrong and ``mending`` plans repairs; neither is needed to read a sound journal.
"""
