"""What runs and candidates look like on a terminal and in a pipe.

Candidates are foreign text: all text goes through `visible`, so that none of it takes over the terminal.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from atoll import evaluation, runs, store
from atoll.cli.terminal import console as terminal_console
from atoll.runs import baselines, progress, text_format
from atoll.runs import comparison as compared
from atoll.runs import summary as runs_summary

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_fields(console: Console, items: Mapping[str, object], indent: str = "  ") -> None:
    """Prints names and values in two columns; what is None or empty is left out."""
    values = {name: str(value) for name, value in items.items() if value not in (None, "")}
    width = max(map(len, values), default=0)
    for name, value in values.items():
        first, *more = value.rstrip("\n").split("\n")
        terminal_console.print_line(console, f"{indent}{name:{width}}  {first}")
        for continuation in more:
            terminal_console.print_line(console, f"{indent}{'':{width}}  {continuation}")


def print_heading(console: Console, title: str) -> None:
    terminal_console.print_line(console)
    terminal_console.print_line(console, title, "bold")


def print_body(console: Console, content: str, *, max_lines: int | None = None, more_hint: str = "") -> None:
    """Prints a longer text below its heading, of a very long one the beginning and how to see it all."""
    lines = content.rstrip("\n").split("\n")
    for line in lines[:max_lines]:
        terminal_console.print_line(console, f"  {line}".rstrip())
    if max_lines is not None and len(lines) > max_lines:
        terminal_console.print_line(console, f"  … {len(lines) - max_lines:,} more lines: {more_hint}", "dim")


def print_patch(console: Console, lines: Iterable[str]) -> None:
    """Prints the lines of a diff: in colour on a terminal, and to the letter in a pipe, where it may be a patch."""
    for line in lines:
        if console.is_terminal:
            terminal_console.print_line(console, line, _STYLES.get(line[:1], ""))
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
    return "-" if value is None else f"{'+' if value >= 0 else ''}{text_format.format_number(value)}"


def print_candidates(console: Console, rows: Sequence[store.Row], initial_content: str, system: str) -> None:
    """Prints candidates one per line, with what is new in them against the start."""
    headings = ("candidate", "island", "step", "score", "what is new")
    cells = [
        (
            row.id,
            str(row.island),
            f"{row.step:,}",
            text_format.format_number(row.score),
            text_format.summarize_candidate(system, row.content, initial_content, 400),
        )
        for row in rows
    ]
    terminal_console.print_table(
        console, headings, cells, right_aligned=headings[1:4], flexible="what is new", optional=("step",)
    )


def print_lineage(console: Console, lineage: Sequence[progress.LineageEntry]) -> None:
    """Prints a line of descent, nearest first."""
    headings = ("candidate", "island", "step", "score", "gain", "parents", "how")
    cells = [
        (
            entry.row.id,
            str(entry.row.island),
            f"{entry.row.step:,}",
            text_format.format_number(entry.row.score),
            format_gain(entry.gain),
            _format_parents(entry),
            describe_origin(entry.row),
        )
        for entry in lineage
    ]
    terminal_console.print_table(
        console, headings, cells, right_aligned=headings[1:5], flexible="how", optional=("step", "parents")
    )


def _format_parents(link: progress.LineageEntry) -> str:
    """Returns the ids of the parents, the best first, since the gain is the one against it."""
    best = link.parent.id if link.parent else None
    return " ".join(sorted(dict.fromkeys(link.row.parents), key=lambda id: id != best)) or "-"


def describe_origin(row: store.Row) -> str:
    """Says how a candidate was made."""
    if not row.step:
        return "the start"
    meta = dict(row.meta)
    return (
        " ".join(
            str(part)
            for part in (meta.pop("engine", ""), text_format.format_one_line(text_format.format_pairs(meta), 200))
            if part
        )
        or "-"
    )


def print_comparison(console: Console, result: compared.Comparison) -> None:
    """Prints runs side by side, as many at once as fit, and which is better."""
    facts = [_get_facts(entry) for entry in result.entries]
    names, label = [entry.summary.run for entry in result.entries], max(map(len, facts[0]))
    widths = [max(map(len, (name, *fact_values.values()))) for name, fact_values in zip(names, facts, strict=True)]
    runs_per_table = max(1, (console.width - label) // (terminal_console.GAP + max(widths)))
    for start in range(0, len(names), runs_per_table):
        chunk = slice(start, start + runs_per_table)
        rows = [(name, *(fact_values[name] for fact_values in facts[chunk])) for name in facts[0]]
        terminal_console.print_table(console, ("", *names[chunk]), rows, right_aligned=names[chunk])
        terminal_console.print_line(console)
    terminal_console.print_line(console, result.verdict)


def _get_facts(entry: compared.ComparedRun) -> dict[str, str]:
    summary, totals = entry.summary, entry.summary.totals
    facts: dict[str, str | int | float | None] = {
        "task": Path(summary.task).name or "-",
        "system": summary.system or "-",
        "model": summary.llm,
        "status": summary.status,
        "start": text_format.format_number(summary.initial_score),
        "best": text_format.format_number(summary.best_score),
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


MAX_LINES = 60  # of a source beside other things
MAX_SCORES = 24


def run_to_json(run_store: store.Store, run: str) -> dict[str, Any]:
    """Returns what `show RUN --json` prints."""
    summary = runs.summarize(run_store, run)
    best = progress.row_to_data(run_store.candidates(run).get(summary.best)) if summary.best else None
    islands = [island.to_data() for island in progress.summarize_islands(run_store, run)]
    config = dict(run_store.get_run(run).config)
    baseline_data = {baseline.name: baseline.to_data() for baseline in baselines.find_baselines(run_store, run)}
    results_data = {"baselines": baseline_data, "result": dict(runs_summary.find_result(run_store, run))}
    return {**summary.to_data(), **results_data, "config": config, "islands": islands, "best_candidate": best}


def print_run(console: Console, run_store: store.Store, run: str) -> None:
    """Prints the summary of a run, its set-up, its islands and its best candidate."""
    summary, settings = runs.summarize(run_store, run), text_format.format_settings(run_store.get_run(run).config)
    terminal_console.print_line(console, f"Run {run}", "bold")
    _print_summary(console, summary)
    if lines := list(settings):
        print_heading(console, "Set-up")
        print_body(console, "\n".join(lines).strip("\n"))
    if result := runs_summary.find_result(run_store, run):
        print_heading(console, "Result")
        print_body(console, "\n".join(runs_summary.format_result(result)))
    if islands := progress.summarize_islands(run_store, run):
        print_heading(console, "Islands")
        print_islands(console, islands)
    if summary.best is not None:
        best = run_store.candidates(run).get(summary.best)
        print_heading(console, f"The best candidate, {best.id}")
        print_body(
            console,
            text_format.format_candidate(summary.system, best.content),
            max_lines=MAX_LINES,
            more_hint=f"{terminal_console.get_program_name()} best {run}",
        )


def _print_summary(console: Console, summary: runs.Summary) -> None:
    totals, cost = summary.totals, summary.totals.cost
    tokens = f", {cost.tokens_in + cost.tokens_out:,} tokens"
    facts = {
        "status": f"{summary.status}{f' ({summary.reason})' if summary.reason else ''}",
        "created": f"{summary.created_at.astimezone():%Y-%m-%d %H:%M}",
        "system": summary.system,
        "task": summary.task,
        "model": summary.llm,
        "sandbox": summary.sandbox,
        "start": text_format.format_number(summary.initial_score),
        "best": f"{text_format.format_number(summary.best_score)}{f'  candidate {summary.best}' if summary.best else ''}",
        "steps": f"{totals.steps:,}",
        "judged": f"{totals.evaluations:,}",
        "failed": f"{totals.failures:,}",
        "cost": f"{format_dollars(cost)} for {cost.calls:,} calls{tokens}" if cost.calls else "",
    }
    print_fields(console, facts)


def print_islands(console: Console, islands: Sequence[progress.IslandSummary]) -> None:
    counts = tuple(islands[0].counts)
    headings = ("island", "best", "score", *counts)
    rows = [
        (
            str(island.index),
            island.best_id or "-",
            text_format.format_number(island.best_score),
            *(f"{value:,}" for value in island.counts.values()),
        )
        for island in islands
    ]
    terminal_console.print_table(console, headings, rows, right_aligned=("island", "score", *counts))


def load_llm_calls(run_store: store.Store, run: str, iteration: int) -> list[dict[str, Any]]:
    """Returns what a step asked of models and what they answered, in the order of the answers."""
    records = (record.data for record in run_store.journal(run).read_kinds("replied") if record.step == iteration)
    return [{name: data.get(name) for name in ("call", "model", "prompt", "text")} for data in records]


def print_candidate(console: Console, run_store: store.Store, run: str, row: store.Row, *, with_prompt: bool) -> None:
    """Prints all that is known about a candidate."""
    lineage_entry = progress.make_lineage_entry(run_store.candidates(run), row)
    terminal_console.print_line(console, f"Candidate {row.id} of run {run}", "bold")
    print_fields(
        console,
        {
            "kind": "a draft, judged on the way to a child" if row.is_draft else "",
            "parents": " ".join(dict.fromkeys(row.parents)) or "none: it is the start",
            "island": row.island,
            "step": row.step,
            "score": text_format.format_number(row.score),
            "gain": f"{format_gain(lineage_entry.gain)} against {lineage_entry.parent.id}"
            if lineage_entry.parent and lineage_entry.gain
            else "",
            "scores": _format_scores(row.scores),
            "verdict": _format_verdict(row),
            "version": row.version,
            "failure": row.failure,
        },
    )
    if row.metrics:
        print_heading(console, "Metrics")
        print_fields(console, {name: text_format.format_number(value) for name, value in row.metrics.items()})
    if row.meta:
        print_heading(console, "How it was made")
        print_fields(console, {name: text_format.format_pairs({"": value})[1:] for name, value in row.meta.items()})
    if row.feedback:
        print_heading(console, "Feedback")
        print_body(console, row.feedback)
    print_heading(console, "Content")
    print_body(console, text_format.format_candidate(text_format.get_system_name(run_store, run), row.content))
    if with_prompt:
        _print_llm_calls(console, load_llm_calls(run_store, run, row.step))


def _format_scores(scores: Sequence[float]) -> str:
    more = f" … {len(scores) - MAX_SCORES:,} more" if len(scores) > MAX_SCORES else ""
    return " ".join(text_format.format_number(score) for score in scores[:MAX_SCORES]) + more


def _format_verdict(row: store.Row) -> str:
    if row.verdict is None:
        return "" if row.is_draft else "none yet: its step was not finished"
    return f"{row.verdict} by {row.by}{f': {row.reason}' if row.reason else ''}"


def _print_llm_calls(console: Console, llm_calls: Sequence[dict[str, Any]]) -> None:
    for llm_call in llm_calls:
        print_heading(console, f"Prompt of call {llm_call['call']}")
        print_body(console, llm_call["prompt"] or "(not stored)")
        print_heading(console, f"Reply of {llm_call['model'] or 'the model'} to call {llm_call['call']}")
        print_body(console, llm_call["text"] or "(empty)")
    if not llm_calls:
        terminal_console.print_line(console)
        terminal_console.print_line(console, "Its step asked no model.")
