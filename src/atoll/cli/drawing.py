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


def fields(console: Console, facts: Mapping[str, object], indent: str = "  ") -> None:
    """Prints names and values in two columns; what is None or empty is left out."""
    shown = {name: str(value) for name, value in facts.items() if value not in (None, "")}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        first, *more = value.rstrip("\n").split("\n")
        output.say(console, f"{indent}{name:{width}}  {first}")
        for each in more:
            output.say(console, f"{indent}{'':{width}}  {each}")


def heading(console: Console, title: str) -> None:
    output.say(console)
    output.say(console, title, "bold")


def body(console: Console, content: str, *, most: int | None = None, more: str = "") -> None:
    """Prints a longer text below its heading, of a very long one the beginning and how to see it all."""
    lines = content.rstrip("\n").split("\n")
    for line in lines[:most]:
        output.say(console, f"  {line}".rstrip())
    if most is not None and len(lines) > most:
        output.say(console, f"  … {len(lines) - most:,} more lines: {more}", "dim")


def patch(console: Console, lines: Iterable[str]) -> None:
    """Prints the lines of a diff: in colour on a terminal, and to the letter in a pipe, where it may be a patch."""
    for line in lines:
        if console.is_terminal:
            output.say(console, line, _STYLES.get(line[:1], ""))
        else:
            console.file.write(f"{encodable(line)}\n")


def encodable(content: str) -> str:
    """Returns a text that can be written: half surrogates, which no encoding has, are spelled out."""
    return content.encode("utf-8", "backslashreplace").decode()


def local(when: datetime) -> str:
    """Returns a time as one reads it here, short."""
    here, now = when.astimezone(), datetime.now(UTC).astimezone()
    return f"{here:%m-%d %H:%M}" if here.year == now.year else f"{here:%Y-%m-%d}"


def dollars(cost: evaluation.Cost) -> str:
    return f"${cost.usd:.4f}" if cost.calls or cost.usd else "-"


def gain(value: float | None) -> str:
    return "-" if value is None else f"{'+' if value >= 0 else ''}{text.number(value)}"


def candidates(console: Console, rows: Sequence[store.Row], start: str, system: str) -> None:
    """Prints candidates one per line, with what is new in them against the start."""
    headings = ("candidate", "island", "step", "score", "what is new")
    cells = [
        (row.id, str(row.island), f"{row.step:,}", text.number(row.score), looks.news(system, row.content, start, 400))
        for row in rows
    ]
    output.table(console, headings, cells, right=headings[1:4], flexible="what is new", spare=("step",))


def links(console: Console, line: Sequence[progress.Link]) -> None:
    """Prints a line of descent, nearest first."""
    headings = ("candidate", "island", "step", "score", "gain", "parents", "how")
    cells = [
        (
            each.row.id,
            str(each.row.island),
            f"{each.row.step:,}",
            text.number(each.row.score),
            gain(each.gain),
            _parents(each),
            how(each.row),
        )
        for each in line
    ]
    output.table(console, headings, cells, right=headings[1:5], flexible="how", spare=("step", "parents"))


def _parents(link: progress.Link) -> str:
    """Returns the ids of the parents, the best first, since the gain is the one against it."""
    best = link.parent.id if link.parent else None
    return " ".join(sorted(dict.fromkeys(link.row.parents), key=lambda id: id != best)) or "-"


def how(row: store.Row) -> str:
    """Says how a candidate was made."""
    if not row.step:
        return "the start"
    meta = dict(row.meta)
    return " ".join(str(part) for part in (meta.pop("engine", ""), text.gist(text.data(meta), 200)) if part) or "-"


def comparison(console: Console, found: compared.Comparison) -> None:
    """Prints runs side by side, as many at once as fit, and which is better."""
    facts = [_facts(entry) for entry in found.entries]
    names, label = [entry.summary.run for entry in found.entries], max(map(len, facts[0]))
    widths = [max(map(len, (name, *each.values()))) for name, each in zip(names, facts, strict=True)]
    at_once = max(1, (console.width - label) // (output.GAP + max(widths)))
    for start in range(0, len(names), at_once):
        chunk = slice(start, start + at_once)
        rows = [(name, *(each[name] for each in facts[chunk])) for name in facts[0]]
        output.table(console, ("", *names[chunk]), rows, right=names[chunk])
        output.say(console)
    output.say(console, found.verdict)


def _facts(entry: compared.Entry) -> dict[str, str]:
    summary, used = entry.summary, entry.summary.totals
    facts: dict[str, str | int | float | None] = {
        "task": Path(summary.task).name or "-",
        "system": summary.system or "-",
        "model": summary.llm,
        "status": summary.status,
        "start": text.number(summary.initial_score),
        "best": text.number(summary.best_score),
        "gain": gain(entry.gain),
        "judged": used.evaluations,
        "judged until the best": entry.evaluations_to_best,
        "failed": used.failures,
        "calls": used.cost.calls,
        "cost": dollars(used.cost),
        "seconds of work": entry.seconds and round(entry.seconds, 1),
    }
    return {name: _shown(value) for name, value in facts.items()}


def _shown(value: str | int | float | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:,}"
