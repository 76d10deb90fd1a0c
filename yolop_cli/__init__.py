"""yolop-cli: look at, checkpoint, rewind and repair Yolop sessions from a shell."""

__version__ = "0.1.0"
