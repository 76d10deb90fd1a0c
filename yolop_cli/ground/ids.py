"""The grammar of every id and ref name, checked before one touches a path or a ref.

Rules of the format page ("Where sessions live"); a name that fails here never reaches the file system.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

REF_ROOT = "refs/yolop/checkpoints"
_SESSION = re.compile(r"session_[0-9a-f]{32}\Z")
_SESSION_PREFIX = re.compile(r"(?:session_)?[0-9a-f]{1,32}\Z")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,127}\Z")
_OBJECT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_EVENT_START = re.compile(r"cp_(\d{1,10})_\d{1,10}\Z")


def is_session_id(text: str) -> bool:
    """``session_`` and 32 lowercase hex digits."""
    return _SESSION.match(text) is not None


def is_session_prefix(text: str) -> bool:
    """A possible beginning of a session id, with or without ``session_``."""
    return _SESSION_PREFIX.match(text) is not None


def is_checkpoint_id(text: str) -> bool:
    """A name that is safe as one component of a ref: letters, digits, ``_`` and ``-``."""
    return _NAME.match(text) is not None


def is_object_id(text: str) -> bool:
    """A full SHA-1 or SHA-256 object id in lowercase hex."""
    return _OBJECT.match(text) is not None


def reference(session_id: str, name: str) -> str:
    """The private ref of a checkpoint or recovery snapshot."""
    if not (is_session_id(session_id) and is_checkpoint_id(name)):
        raise ValueError(f"not a ref of ours: {session_id!r} {name!r}")
    return f"{REF_ROOT}/{session_id}/{name}"


def reference_name(session_id: str, ref: str) -> str | None:
    """The last component of a ref that is exactly one of this session's own, else None."""
    prefix = f"{REF_ROOT}/{session_id}/"
    name = ref.removeprefix(prefix)
    return name if ref.startswith(prefix) and is_checkpoint_id(name) else None


def event_start_of(checkpoint_id: str) -> int | None:
    """The event sequence that an id made by the agent (``cp_<event_start>_<n>``) carries."""
    match = _EVENT_START.match(checkpoint_id)
    return int(match.group(1)) if match else None


def is_reference(text: str) -> bool:
    """The private ref of a checkpoint or recovery snapshot, of any session."""
    root, _, rest = text.partition(f"{REF_ROOT}/")
    session_id, _, name = rest.partition("/")
    return not root and is_session_id(session_id) and is_checkpoint_id(name)


def is_recovery_name(name: str) -> bool:
    """Whether a ref's last component is that of a recovery snapshot (``recovery_<sequence>_<nonce>``)."""
    return name.startswith("recovery_")


def shortened(session_ids: Sequence[str]) -> dict[str, str]:
    """For each id a beginning that names it among these, without ``session_``.

    At least the 12 digits of the time it was made: they stay the same when sessions come and go.
    """
    bare = {one: one.removeprefix("session_") for one in session_ids}
    length = 12
    while len({digits[:length] for digits in bare.values()}) < len(bare):
        length += 1
    return {one: digits[:length] for one, digits in bare.items()}
