"""Output of the command line. Results go to stdout, everything else to stderr; only terminals get color."""

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

from atoll.runs import text_format

PIPE_WIDTH = 200  # characters; width of tables that do not go to a terminal
GAP = 2  # spaces between columns
MIN_WIDTH = 10  # characters; the flexible column is never narrower


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """Treats SIGTERM like Ctrl-C while the block runs."""
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def get_stdout_console() -> Console:
    """Returns the console for results."""
    return _make_console(stderr=False)


def get_stderr_console() -> Console:
    """Returns the console for progress."""
    return _make_console(stderr=True)


def _make_console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, highlight=False, emoji=False, width=width)


def print_line(console: Console, content: str = "", style: str = "") -> None:
    """Prints a text with control characters escaped."""
    console.print(Text(text_format.escape_control(content), style=style), soft_wrap=True)


def write_line(console: Console, content: str) -> None:
    """Writes a text with control characters escaped, without layout or style, to what is not a terminal."""
    console.file.write(f"{text_format.escape_control(content)}\n")
    console.file.flush()


def show_hidden(text: str) -> str:
    """Returns a text on one line, with line ends, control characters and invisible characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_result(content: str = "", style: str = "") -> None:
    """Prints a text on stdout."""
    print_line(get_stdout_console(), content, style)


def print_note(content: str = "", style: str = "") -> None:
    """Prints a text on stderr."""
    print_line(get_stderr_console(), content, style)


def print_result_table(headings: Sequence[str], rows: Sequence[Sequence[str]], **layout: Any) -> None:
    """Prints a table on stdout. `layout` is passed to `print_table`."""
    print_table(get_stdout_console(), headings, rows, **layout)


def print_table(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right_aligned: Sequence[str] = (),
    flexible: str = "",
    optional: Sequence[str] = (),
) -> None:
    """Prints a table that fits the console. Optional columns are dropped first, then the flexible one is cut.

    Args:
        headings: One per column.
        rows: Cells; line breaks become spaces.
        right_aligned: Headings of the columns with numbers.
        flexible: Heading of the column whose cells may be cut.
        optional: Headings of the columns to drop on a narrow terminal, the least important first.
    """
    columns = {
        name: [text_format.escape_control(" ".join(row[index].split("\n"))) for row in rows]
        for index, name in enumerate(headings)
    }
    widths = {name: max(map(cell_len, (name, *cells))) for name, cells in columns.items()}
    for name in optional:
        if _sum_widths(widths, flexible) + (MIN_WIDTH if flexible else 0) > console.width:
            del columns[name], widths[name]
    if flexible in columns:
        width_left = max(console.width - _sum_widths(widths, flexible), MIN_WIDTH)
        columns[flexible] = [truncate(cell, width_left) for cell in columns[flexible]]
        widths[flexible] = min(widths[flexible], width_left)
    grid = _make_grid(list(columns), right_aligned)
    for row in zip(*columns.values(), strict=True):
        grid.add_row(*(Text(cell) for cell in row))
    if _sum_widths(widths) > console.width:
        grid.width = _sum_widths(widths)
    console.print(grid, crop=False)


def _sum_widths(widths: Mapping[str, int], excluded: str = "") -> int:
    return sum(width for name, width in widths.items() if name != excluded) + GAP * (len(widths) - 1)


def truncate(cell: str, width: int) -> str:
    """Shortens a text to a width, with an ellipsis at the end."""
    return cell if cell_len(cell) <= width else f"{set_cell_size(cell, width - 1).rstrip()}…"


def _make_grid(headings: Sequence[str], right_aligned: Sequence[str]) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="dim")
    for name in headings:
        grid.add_column(name, justify="right" if name in right_aligned else "left", no_wrap=True)
    return grid


def print_json(data: Any) -> None:
    """Prints data as one line of JSON."""
    print(json.dumps(data, allow_nan=False))


def get_program_name() -> str:
    """Returns the command that starts this program."""
    if wrapper := os.environ.get("ATOLL_STARTED_AS"):
        return shlex.quote(wrapper)
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        return f"{format_path(Path(sys.executable))} -m atoll"
    on_path = shutil.which(program.name)
    return program.name if on_path and program.exists() and program.samefile(on_path) else format_path(program)


def get_python_name() -> str:
    """Returns the command that starts the Python in which Atoll is installed."""
    on_path = shutil.which("python")
    return (
        "python"
        if on_path and Path(on_path).parent == Path(sys.executable).parent
        else format_path(Path(sys.executable))
    )


def format_path(path: Path) -> str:
    """Returns a path relative to the current folder if possible, quoted for a shell."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
