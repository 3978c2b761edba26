"""The candidates of a run as a table for other programs."""

import csv
import io
from collections.abc import Iterator

from atoll import store

COLUMNS = ("id", "parents", "island", "step", "is_draft", "score", "verdict", "reason", "by", "version", "failure")

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(rows: store.Candidates) -> Iterator[str]:
    """Yields a heading and one row per candidate, each with its line end; metrics have columns of their own.

    No text in it is taken for a formula by a spreadsheet: what would be begins with an apostrophe.
    """
    metrics = sorted({name for row in rows for name in row.metrics})
    yield _line([*COLUMNS, *(_safe(f"metric {name}") for name in metrics), "feedback", "content"])
    for row in rows:
        about = [_safe(row.id), _safe(" ".join(row.parents)), row.island, row.step, int(row.is_draft), row.score]
        said = [_safe(each) for each in (row.verdict, row.reason, row.by, row.version, row.failure)]
        numbers = [row.metrics.get(name) for name in metrics]
        yield _line([*about, *said, *numbers, _safe(row.feedback), _safe(row.content)])


def _safe(text: str | None) -> str | None:
    if text is None:
        return None
    plain = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return f"'{plain}" if plain.startswith(_FORMULA) else plain


def _line(cells: list[str | float | None]) -> str:
    made = io.StringIO(newline="")
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue()
