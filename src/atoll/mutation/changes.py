"""What a program changed in another, in a line: for prompts, tables and people."""

from collections.abc import Sequence

_MAX_LINE_LENGTH, _MAX_LINES = 70, 2


def summarize_change(parent: str, child: str) -> str:
    """Returns how many lines went and came, and the first of each; lines that only moved do not count."""
    old, new = parent.splitlines(), child.splitlines()
    removed, added = _find_missing(old, set(new)), _find_missing(new, set(old))
    lines = [*(f"- {line}" for line in removed[:_MAX_LINES]), *(f"+ {line}" for line in added[:_MAX_LINES])]
    return "\n".join([f"{len(removed)} lines went, {len(added)} came", *lines])


def _find_missing(lines: Sequence[str], other_lines: set[str]) -> Sequence[str]:
    return [line.strip()[:_MAX_LINE_LENGTH] for line in lines if line not in other_lines and line.strip()]
