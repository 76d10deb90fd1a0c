"""The program without root's power to pass over permission bits, in a process that may lose it for good.

As ``setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=...`` does it, and for git too, which
the process starts. Whoever is not root has no such power, and nothing to lose.
"""

from __future__ import annotations

import ctypes
import os
import struct

from yolop_cli.__main__ import main as program

# linux/capability.h and linux/prctl.h
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2
_VERSION_3 = 0x20080522
_CAPBSET_DROP = 24


def main() -> None:
    """Run the program without that power."""
    drop()
    program()


def drop() -> None:
    """Take it from this process and from all that it will start. Raises ``OSError``."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for power in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        _done(libc.prctl(_CAPBSET_DROP, power, 0, 0, 0))
    # Effective, permitted and inheritable sets: the low half of each, then the high half.
    header, sets = struct.pack("Ii", _VERSION_3, 0), ctypes.create_string_buffer(24)
    _done(libc.capget(header, sets))
    keep = ~(1 << _DAC_OVERRIDE | 1 << _DAC_READ_SEARCH) & 0xFFFFFFFF
    low, high = struct.unpack("3I3I", sets.raw)[:3], struct.unpack("3I3I", sets.raw)[3:]
    _done(libc.capset(header, struct.pack("3I3I", *(part & keep for part in low), *high)))


def _done(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
