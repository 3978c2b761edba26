"""What a system itself says of a run that has ended, beyond scores."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atoll import store


def find_result(run_store: store.Store, run_id: str) -> Mapping[str, Any]:
    """Returns the newest result of a run; empty where its system adds none, or it has not ended.

    Raises:
        NotFound: There is no such run.
    """
    result: Mapping[str, Any] = {}
    for record in run_store.journal(run_id).read_kinds("concluded"):
        result = record.data["result"]
    return result


def list_best_candidates(result: Mapping[str, Any]) -> list[str]:
    """Returns the ids of the best of each instance, where a run has searched for several things at once."""
    rows = result.get("instances", ())
    ids = [str(row["candidate"]) for row in rows if isinstance(row, Mapping) and row.get("candidate")]
    return ids if len(rows) > 1 else []


def format_result(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields a result as Markdown: texts and numbers by name, and a table for every list of rows."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield f"{name}: {', '.join(f'{key} {_format_value(item)}' for key, item in value.items())}"
        elif not isinstance(value, Sequence) or isinstance(value, str):
            yield f"{name}: {_format_value(value)}"
    for name, rows in result.items():
        if isinstance(rows, Sequence) and not isinstance(rows, str) and rows:
            yield from ("", f"{name}:", "", f"| {' | '.join(rows[0])} |", f"|{'|'.join(' --- ' for _ in rows[0])}|")
            yield from (f"| {' | '.join(_format_value(cell) for cell in row.values())} |" for row in rows)


def _format_value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
