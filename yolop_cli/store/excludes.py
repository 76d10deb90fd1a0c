"""What a snapshot leaves out by rule: three names always, and gitignore-style patterns on top.

A pattern leaves out what it matches and everything under it, so a directory it matches is not entered.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from yolop_cli.ground.errors import UsageError

if TYPE_CHECKING:
    import pathspec

ALWAYS = frozenset((b".cogitator", b".git", b"node_modules"))
_CLASS = re.compile(r"\[[.:=].*[.:=]\]")
Matcher = Callable[[bytes, bool], bool]


def matcher(patterns: tuple[str, ...]) -> Matcher | None:
    """A function that says whether a relative path (and whether it is a directory) is left out, or None.

    Raises ``UsageError`` when a pattern makes no sense.
    """
    return _compiled(patterns) if patterns else None


def check(patterns: Iterable[str]) -> None:
    """Raise ``UsageError`` for a pattern that would leave out nothing, or not what was meant by it."""
    for pattern in patterns:
        why = _fault(pattern)
        if why is not None:
            raise UsageError(
                f"the exclude pattern {pattern!r} {why}",
                hint="write it as in .gitignore; a backslash makes a character literal",
                details={"pattern": pattern},
            )


def _fault(pattern: str) -> str | None:
    if not pattern.strip():
        return "is empty"
    if pattern.startswith("#"):
        return "is a comment"
    if {".", ".."} & set(pattern.removeprefix("!").split("/")):
        return "matches nothing: patterns begin at the directory, and no path has . or .. in it"
    if _CLASS.search(pattern):
        return "has a named class, which is not supported here"
    try:
        found = _spec((pattern,)).patterns
    except UsageError:
        return "cannot be read"
    return None if found and found[0].include is not None else "matches nothing"


def merged(*groups: Iterable[str]) -> tuple[str, ...]:
    """Several lists of patterns as one, each pattern once, in the order given."""
    return tuple(dict.fromkeys(pattern for group in groups for pattern in group))


@functools.lru_cache(maxsize=16)
def _compiled(patterns: tuple[str, ...]) -> Matcher:
    spec = _spec(patterns)

    def excluded(path: bytes, is_directory: bool) -> bool:
        text = path.decode("utf-8", "surrogateescape")
        return spec.match_file(text + "/" if is_directory else text)

    return excluded


def _spec(patterns: tuple[str, ...]) -> pathspec.GitIgnoreSpec:
    import pathspec

    try:
        return pathspec.GitIgnoreSpec.from_lines(map(_everything_inside, patterns))
    except (ValueError, re.error) as error:
        raise UsageError(f"an exclude pattern cannot be read: {error}") from None


def _everything_inside(pattern: str) -> str:
    # The library takes the directory itself for a match of "dist/**", which git does not, and which would
    # hide what "!dist/keep" takes back; "dist/*" says the same.
    return pattern[:-1] if pattern.endswith("/**") else pattern


def excluded_at_any_level(path: bytes, is_directory: bool, match: Matcher) -> bool:
    """Whether a path, or a directory above it, is left out."""
    parts = path.split(b"/")
    above = (b"/".join(parts[:end]) for end in range(1, len(parts)))
    return any(match(directory, True) for directory in above) or match(path, is_directory)
