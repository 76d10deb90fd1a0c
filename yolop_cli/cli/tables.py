"""Tables for terminals: plain columns with bold headings, made to fit the width that there is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

GAP = 2
# What a column that may be narrowed should keep; rather than less, an optional column goes.
_ENOUGH = 24


def draw(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    color: bool,
    flexible: str | None,
    optional: Sequence[str],
) -> None:
    """Print rows as a table no wider than the terminal.

    The ``flexible`` column stands last and is folded where room is short; the ``optional`` ones are left out,
    the first first, while it would have too little room.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = shutil.get_terminal_size().columns
    natural = {
        heading: max(cell_len(each) for each in (heading, *(row[number] for row in rows)))
        for number, heading in enumerate(headings)
    }
    shown = shown_columns(natural, width, flexible, optional)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for heading in shown:
        table.add_column(
            heading, overflow="fold", min_width=None if heading == flexible else natural[heading]
        )
    places = [list(headings).index(heading) for heading in shown]
    for row in rows:
        table.add_row(*(Text(row[place]) for place in places))
    Console(width=width, no_color=not color, highlight=False).print(table)


def shown_columns(
    natural: dict[str, int], width: int, flexible: str | None, optional: Sequence[str]
) -> list[str]:
    """The headings of the columns that are shown, in their order, for the natural width of each."""
    shown = [heading for heading in natural if heading != flexible]
    if flexible is not None:
        shown.append(flexible)

    def needed() -> int:
        wanted = (min(natural[each], _ENOUGH) if each == flexible else natural[each] for each in shown)
        return sum(wanted) + GAP * (len(shown) - 1)

    for heading in optional:
        if needed() > width:
            shown.remove(heading)
    return shown
