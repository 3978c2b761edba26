"""How things are written: to a terminal in colour, to a pipe as plain text; results to stdout, the rest to stderr."""

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from atoll.runs import text

PIPE_WIDTH = 200  # of tables in a pipe, where no terminal cuts them
GAP = 2  # between columns
LEAST = 10  # what the column that is cut keeps


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Makes a polite end (SIGTERM) the same as Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def out() -> Console:
    """Returns the console for results."""
    return _console(stderr=False)


def err() -> Console:
    """Returns the console for progress."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, highlight=False, emoji=False, width=width)


def say(console: Console, said: str = "", style: str = "") -> None:
    """Writes a text as it is, but for what cannot be seen."""
    console.print(Text(text.visible(said), style=style), soft_wrap=True)


def table(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[str] = (),
    flexible: str = "",
    spare: Sequence[str] = (),
) -> None:
    """Prints a table that fits: first the spare columns go, then the flexible one is cut; nothing else ever is.

    Args:
        headings: One per column.
        rows: Texts, taken as they are, but on one line.
        right: Headings of the columns with numbers.
        flexible: Heading of the column whose texts may be cut.
        spare: Headings of the columns that a narrow terminal can do without, the least needed first.
    """
    columns = {
        name: [text.visible(" ".join(row[place].split("\n"))) for row in rows] for place, name in enumerate(headings)
    }
    widths = {name: max(map(cell_len, (name, *cells))) for name, cells in columns.items()}
    for name in spare:
        if _total(widths, flexible) + (LEAST if flexible else 0) > console.width:
            del columns[name], widths[name]
    if flexible in columns:
        room = max(console.width - _total(widths, flexible), LEAST)
        columns[flexible] = [cut(cell, room) for cell in columns[flexible]]
        widths[flexible] = min(widths[flexible], room)
    made = _grid(list(columns), right)
    for row in zip(*columns.values(), strict=True):
        made.add_row(*(Text(cell) for cell in row))
    if _total(widths) > console.width:
        made.width = _total(widths)
    console.print(made, crop=False)


def _total(widths: Mapping[str, int], without: str = "") -> int:
    return sum(width for name, width in widths.items() if name != without) + GAP * (len(widths) - 1)


def cut(cell: str, room: int) -> str:
    """Returns a text that fits, with an ellipsis where it was cut."""
    return cell if cell_len(cell) <= room else f"{set_cell_size(cell, room - 1).rstrip()}…"


def _grid(headings: Sequence[str], right: Sequence[str]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim")
    for name in headings:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=True)
    return made


def print_json(data: Any) -> None:
    """Prints data for programs, on one line."""
    print(json.dumps(data, allow_nan=False))


def own_name() -> str:
    """Returns how this program is started from here."""
    if wrapper := os.environ.get("ATOLL_STARTED_AS"):
        return quoted(wrapper)
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{shown(Path(sys.executable))} -m atoll"
    on_path = shutil.which(program.name)
    return program.name if on_path and program.exists() and program.samefile(on_path) else shown(program)


def shown(path: Path) -> str:
    """Returns a path as one would type it here."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def quoted(text: str) -> str:
    """Returns a text as one would type it in a shell."""
    return shlex.quote(text)
