"""The candidates of a run as a table for other programs."""

import csv
import io
from collections.abc import Iterator

from atoll import store

CSV_COLUMNS = ("id", "parents", "island", "step", "is_draft", "score", "verdict", "reason", "by", "version", "failure")

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(rows: store.Candidates) -> Iterator[str]:
    """Yields a heading and one row per candidate, each with its line end; metrics have columns of their own.

    No text in it is taken for a formula by a spreadsheet: what would be begins with an apostrophe.
    """
    metrics = sorted({name for row in rows for name in row.metrics})
    yield _format_row([*CSV_COLUMNS, *(_escape_formula(f"metric {name}") for name in metrics), "feedback", "content"])
    for row in rows:
        base_cells = [_escape_formula(row.id), _escape_formula(" ".join(row.parents)), row.island, row.step, int(row.is_draft), row.score]
        decision_cells = [_escape_formula(value) for value in (row.verdict, row.reason, row.by, row.version, row.failure)]
        metric_cells = [row.metrics.get(name) for name in metrics]
        yield _format_row([*base_cells, *decision_cells, *metric_cells, _escape_formula(row.feedback), _escape_formula(row.content)])


def _escape_formula(text: str | None) -> str | None:
    if text is None:
        return None
    encodable = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return f"'{encodable}" if encodable.startswith(_FORMULA_PREFIXES) else encodable


def _format_row(cells: list[str | float | None]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
