"""The private refs of a session, read and written only through git, in any ref format."""

from __future__ import annotations

from collections.abc import Mapping

from yolop_cli.ground import ids
from yolop_cli.ground.git import Git
from yolop_cli.trees.checkout import Checkout


def of_session(git: Git, checkout: Checkout, session_id: str) -> dict[str, str]:
    """The session's refs: full name to object id."""
    prefix = f"{ids.REF_ROOT}/{session_id}/"
    out = git.run(checkout.real, "for-each-ref", "--format=%(objectname) %(refname)", prefix).out
    pairs = [row.split(" ", 1) for row in out.decode("utf-8", "surrogateescape").split("\n") if row]
    return {name: oid for oid, name in pairs}


def create(git: Git, checkout: Checkout, ref: str, tree: str) -> None:
    """Make a ref that does not exist yet; git checks that the object does. Raises ``GitError``."""
    command = f"create {ref}\0{tree}\0".encode("ascii")
    git.run(checkout.real, "update-ref", "--stdin", "-z", stdin=command)


def delete(git: Git, checkout: Checkout, refs: Mapping[str, str | None]) -> None:
    """Delete refs, each only while it has the value given (any, for None). Raises ``GitError``."""
    if not refs:
        return
    commands = "".join(f"delete {ref}\0{value or ''}\0" for ref, value in refs.items())
    # Never through a symbolic ref to what it stands for.
    git.run(checkout.real, "update-ref", "--no-deref", "--stdin", "-z", stdin=commands.encode("ascii"))


def drop(git: Git, checkout: Checkout, session_id: str, refs: list[str]) -> list[str]:
    """Delete those of the refs that are this session's own and still there; the ones deleted."""
    present = of_session(git, checkout, session_id)
    doomed = {
        ref: present[ref]
        for ref in refs
        if ref in present and ids.reference_name(session_id, ref) is not None
    }
    delete(git, checkout, doomed)
    return list(doomed)
