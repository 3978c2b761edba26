"""How things are written: to a terminal in colour, to a pipe as plain text; results to stdout, the rest to stderr."""

import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PIPE_WIDTH = 200  # of tables in a pipe, where no terminal cuts them


def out() -> Console:
    """Returns the console for results."""
    return _console(stderr=False)


def err() -> Console:
    """Returns the console for progress."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, highlight=False, width=width)


def say(console: Console, text: str) -> None:
    """Writes a text as it is: no markup, no wrapping."""
    console.print(text, soft_wrap=True, markup=False)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), flexible: str = "") -> Table:
    """Returns a table without lines.

    Args:
        headings: One per column.
        rows: Texts, taken as they are.
        right: Headings of the columns whose texts stand at their right: numbers.
        flexible: Heading of the column that is cut where the terminal is narrow.
    """
    made = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        justify = "right" if heading in right else "left"
        cut = heading == flexible
        made.add_column(heading, justify=justify, no_wrap=True, overflow="ellipsis", ratio=1 if cut else None)  # type: ignore[arg-type]
    for row in rows:
        made.add_row(*(each.replace("[", "\\[") for each in row))
    return made


def number(value: float | None) -> str:
    """Returns a score for people: six digits tell two good ones apart."""
    if value is None:
        return "-"
    return f"{value:.6g}" if math.isfinite(value) else str(value)


def print_json(data: Any) -> None:
    """Prints data for programs, on one line."""
    print(json.dumps(data, allow_nan=False))


def own_name() -> str:
    """Returns how this program is started from here."""
    program = Path(sys.argv[0])
    if program.name == "__main__.py":
        is_wrapped = Path("atoll").is_file() and os.access("atoll", os.X_OK)
        return "./atoll" if is_wrapped else f"{shown(Path(sys.executable))} -m atoll"
    on_path = shutil.which(program.name)
    return program.name if on_path and program.exists() and program.samefile(on_path) else shown(program)


def shown(path: Path) -> str:
    """Returns a path as one would type it here."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))


def quoted(text: str) -> str:
    """Returns a text as one would type it in a shell."""
    return shlex.quote(text)
