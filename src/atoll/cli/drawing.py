"""What runs and candidates look like on a terminal and in a pipe.

Candidates are foreign text: all text goes through `visible`, so that none of it takes over the terminal.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from atoll import evaluation, store
from atoll.cli import output
from atoll.runs import comparison as compared
from atoll.runs import looks, progress, text

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_fields(console: Console, items: Mapping[str, object], indent: str = "  ") -> None:
    """Prints names and values in two columns; what is None or empty is left out."""
    values = {name: str(value) for name, value in items.items() if value not in (None, "")}
    width = max(map(len, values), default=0)
    for name, value in values.items():
        first, *more = value.rstrip("\n").split("\n")
        output.print_line(console, f"{indent}{name:{width}}  {first}")
        for continuation in more:
            output.print_line(console, f"{indent}{'':{width}}  {continuation}")


def print_heading(console: Console, title: str) -> None:
    output.print_line(console)
    output.print_line(console, title, "bold")


def print_body(console: Console, content: str, *, max_lines: int | None = None, more_hint: str = "") -> None:
    """Prints a longer text below its heading, of a very long one the beginning and how to see it all."""
    lines = content.rstrip("\n").split("\n")
    for line in lines[:max_lines]:
        output.print_line(console, f"  {line}".rstrip())
    if max_lines is not None and len(lines) > max_lines:
        output.print_line(console, f"  … {len(lines) - max_lines:,} more lines: {more_hint}", "dim")


def print_patch(console: Console, lines: Iterable[str]) -> None:
    """Prints the lines of a diff: in colour on a terminal, and to the letter in a pipe, where it may be a patch."""
    for line in lines:
        if console.is_terminal:
            output.print_line(console, line, _STYLES.get(line[:1], ""))
        else:
            console.file.write(f"{make_encodable(line)}\n")


def make_encodable(content: str) -> str:
    """Returns a text that can be written: half surrogates, which no encoding has, are spelled out."""
    return content.encode("utf-8", "backslashreplace").decode()


def format_local_time(timestamp: datetime) -> str:
    """Returns a time as one reads it here, short."""
    local_time, now = timestamp.astimezone(), datetime.now(UTC).astimezone()
    return f"{local_time:%m-%d %H:%M}" if local_time.year == now.year else f"{local_time:%Y-%m-%d}"


def format_dollars(cost: evaluation.Cost) -> str:
    return f"${cost.usd:.4f}" if cost.calls or cost.usd else "-"


def format_gain(value: float | None) -> str:
    return "-" if value is None else f"{'+' if value >= 0 else ''}{text.format_number(value)}"


def print_candidates(console: Console, rows: Sequence[store.Row], initial_content: str, system: str) -> None:
    """Prints candidates one per line, with what is new in them against the start."""
    headings = ("candidate", "island", "step", "score", "what is new")
    cells = [
        (row.id, str(row.island), f"{row.step:,}", text.format_number(row.score), looks.summarize_candidate(system, row.content, initial_content, 400))
        for row in rows
    ]
    output.print_table(console, headings, cells, right_aligned=headings[1:4], flexible="what is new", optional=("step",))


def print_lineage(console: Console, lineage: Sequence[progress.LineageEntry]) -> None:
    """Prints a line of descent, nearest first."""
    headings = ("candidate", "island", "step", "score", "gain", "parents", "how")
    cells = [
        (
            entry.row.id,
            str(entry.row.island),
            f"{entry.row.step:,}",
            text.format_number(entry.row.score),
            format_gain(entry.gain),
            _format_parents(entry),
            describe_origin(entry.row),
        )
        for entry in lineage
    ]
    output.print_table(console, headings, cells, right_aligned=headings[1:5], flexible="how", optional=("step", "parents"))


def _format_parents(link: progress.LineageEntry) -> str:
    """Returns the ids of the parents, the best first, since the gain is the one against it."""
    best = link.parent.id if link.parent else None
    return " ".join(sorted(dict.fromkeys(link.row.parents), key=lambda id: id != best)) or "-"


def describe_origin(row: store.Row) -> str:
    """Says how a candidate was made."""
    if not row.step:
        return "the start"
    meta = dict(row.meta)
    return " ".join(str(part) for part in (meta.pop("engine", ""), text.format_one_line(text.format_pairs(meta), 200)) if part) or "-"


def print_comparison(console: Console, result: compared.Comparison) -> None:
    """Prints runs side by side, as many at once as fit, and which is better."""
    facts = [_get_facts(entry) for entry in result.entries]
    names, label = [entry.summary.run for entry in result.entries], max(map(len, facts[0]))
    widths = [max(map(len, (name, *fact_values.values()))) for name, fact_values in zip(names, facts, strict=True)]
    runs_per_table = max(1, (console.width - label) // (output.GAP + max(widths)))
    for start in range(0, len(names), runs_per_table):
        chunk = slice(start, start + runs_per_table)
        rows = [(name, *(fact_values[name] for fact_values in facts[chunk])) for name in facts[0]]
        output.print_table(console, ("", *names[chunk]), rows, right_aligned=names[chunk])
        output.print_line(console)
    output.print_line(console, result.verdict)


def _get_facts(entry: compared.ComparedRun) -> dict[str, str]:
    summary, totals = entry.summary, entry.summary.totals
    facts: dict[str, str | int | float | None] = {
        "task": Path(summary.task).name or "-",
        "system": summary.system or "-",
        "model": summary.llm,
        "status": summary.status,
        "start": text.format_number(summary.initial_score),
        "best": text.format_number(summary.best_score),
        "gain": format_gain(entry.gain),
        "judged": totals.evaluations,
        "judged until the best": entry.evaluations_to_best,
        "failed": totals.failures,
        "calls": totals.cost.calls,
        "cost": format_dollars(totals.cost),
        "seconds of work": entry.seconds and round(entry.seconds, 1),
    }
    return {name: _format_value(value) for name, value in facts.items()}


def _format_value(value: str | int | float | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:,}"
