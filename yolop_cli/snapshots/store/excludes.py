"""What a snapshot leaves out by rule: three names always, and gitignore-style patterns on top.

A pattern leaves out what it matches and everything under it, so a directory it matches is not entered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

from yolop_cli.errors import UsageError

ALWAYS = frozenset((b".cogitator", b".git", b"node_modules"))
Matcher = Callable[[bytes, bool], bool]


def matcher(patterns: tuple[str, ...]) -> Matcher | None:
    """A function that says whether a relative path (and whether it is a directory) is left out, or None.

    Raises ``UsageError`` when a pattern makes no sense.
    """
    return _compiled(patterns) if patterns else None


def merged(*groups: Iterable[str]) -> tuple[str, ...]:
    """Several lists of patterns as one, each pattern once, in the order given."""
    return tuple(dict.fromkeys(pattern for group in groups for pattern in group))


@functools.lru_cache(maxsize=16)
def _compiled(patterns: tuple[str, ...]) -> Matcher:
    import pathspec

    try:
        spec = pathspec.GitIgnoreSpec.from_lines(map(_everything_inside, patterns))
    except ValueError as error:
        raise UsageError(f"an exclude pattern cannot be read: {error}") from None

    def excluded(path: bytes, is_directory: bool) -> bool:
        text = path.decode("utf-8", "surrogateescape")
        return spec.match_file(text + "/" if is_directory else text)

    return excluded


def _everything_inside(pattern: str) -> str:
    # The library takes the directory itself for a match of "dist/**", which git does not, and which would
    # hide what "!dist/keep" takes back; "dist/*" says the same.
    return pattern[:-1] if pattern.endswith("/**") else pattern


def excluded_at_any_level(path: bytes, is_directory: bool, match: Matcher) -> bool:
    """Whether a path, or a directory above it, is left out."""
    parts = path.split(b"/")
    above = (b"/".join(parts[:end]) for end in range(1, len(parts)))
    return any(match(directory, True) for directory in above) or match(path, is_directory)
