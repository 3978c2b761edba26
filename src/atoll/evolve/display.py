"""A result for people: in a terminal, in a notebook, in a folder."""

import html as markup
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

type Rows = Sequence[tuple[str, str]]  # what is worth knowing, title by title

_MAX_LINES = 12  # of the best, in a terminal


def format_text(rows: Rows, content: str) -> str:
    """Returns a few lines."""
    lines = content.rstrip("\n").split("\n")
    visible_lines = [*lines[:_MAX_LINES], *([f"... {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else [])]
    width = max(10, 2 + max((len(title) for title, _ in rows), default=0))
    return "\n".join(
        [*(f"{title:<{width}}{value}" for title, value in rows), "best", *(f"    {line}" for line in visible_lines)]
    )


def format_html(rows: Rows, content: str) -> str:
    """Returns a table and the best; all that a candidate wrote is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{markup.escape(title)}</th>"
        f"<td style='text-align:left'>{markup.escape(value)}</td></tr>"
        for title, value in rows
    )
    return f"<div><table>{cells}</table><pre>{markup.escape(content)}</pre></div>"


def save_result(folder: str | PathLike[str], name: str, content: str, summary: Mapping[str, Any]) -> str:
    """Writes the best and `result.json` into a folder and returns its path."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_text(content, encoding="utf-8")
    (path / "result.json").write_text(json.dumps(dict(summary), indent=2, default=list), encoding="utf-8")
    return str(path)
