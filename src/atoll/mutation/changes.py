"""What a program changed in another, in a line: for prompts, tables and people."""

from collections.abc import Sequence

_LONGEST_LINE, _MOST_LINES = 70, 2


def change(parent: str, child: str) -> str:
    """Returns how many lines went and came, and the first of each; lines that only moved do not count."""
    old, new = parent.splitlines(), child.splitlines()
    gone, came = _missing(old, set(new)), _missing(new, set(old))
    shown = [*(f"- {line}" for line in gone[:_MOST_LINES]), *(f"+ {line}" for line in came[:_MOST_LINES])]
    return "\n".join([f"{len(gone)} lines went, {len(came)} came", *shown])


def _missing(lines: Sequence[str], others: set[str]) -> Sequence[str]:
    return [line.strip()[:_LONGEST_LINE] for line in lines if line not in others and line.strip()]
