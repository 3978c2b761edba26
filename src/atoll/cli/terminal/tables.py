"""Tables and texts of runs and candidates.

Candidates are untrusted text. All of it is printed with control characters escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from atoll import evaluation, runs, store
from atoll.cli.terminal import console as terminal
from atoll.llm.base import split_stored_prompt
from atoll.runs import baselines, progress, text_format
from atoll.runs import comparison as comparisons
from atoll.runs import summary as summaries

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def print_fields(console: Console, items: Mapping[str, object], indent: str = "  ") -> None:
    """Prints names and values in two columns. Omits values that are None or empty."""
    values = {name: str(value) for name, value in items.items() if value not in (None, "")}
    width = max(map(len, values), default=0)
    for name, value in values.items():
        first, *more = value.rstrip("\n").split("\n")
        terminal.print_line(console, f"{indent}{name:{width}}  {first}")
        for continuation in more:
            terminal.print_line(console, f"{indent}{'':{width}}  {continuation}")


def print_heading(console: Console, title: str) -> None:
    terminal.print_line(console)
    terminal.print_line(console, title, "bold")


def print_body(console: Console, content: str, *, max_lines: int | None = None, more_hint: str = "") -> None:
    """Prints a text below its heading. A text over `max_lines` is cut, followed by a hint."""
    lines = content.rstrip("\n").split("\n")
    for line in lines[:max_lines]:
        terminal.print_line(console, f"  {line}".rstrip())
    if max_lines is not None and len(lines) > max_lines:
        terminal.print_line(console, f"  … {len(lines) - max_lines:,} more lines: {more_hint}", "dim")


def print_patch(console: Console, lines: Iterable[str]) -> None:
    """Prints a diff, in color on a terminal. A pipe gets the exact lines, which may be used as a patch."""
    for line in lines:
        if console.is_terminal:
            terminal.print_line(console, line, _STYLES.get(line[:1], ""))
        else:
            console.file.write(f"{make_encodable(line)}\n")


def make_encodable(content: str) -> str:
    """Escapes lone surrogates, which no encoding can write."""
    return content.encode("utf-8", "backslashreplace").decode()


def format_local_time(timestamp: datetime) -> str:
    """Formats a time in the local time zone."""
    local_time, now = timestamp.astimezone(), datetime.now(UTC).astimezone()
    return f"{local_time:%m-%d %H:%M}" if local_time.year == now.year else f"{local_time:%Y-%m-%d}"


def format_dollars(cost: evaluation.Cost) -> str:
    return f"${cost.usd:.4f}" if cost.calls or cost.usd else "-"


def format_gain(value: float | None) -> str:
    return "-" if value is None else f"{'+' if value >= 0 else ''}{text_format.format_number(value)}"


def print_candidates(console: Console, rows: Sequence[store.Row], initial_content: str, system: str) -> None:
    """Prints candidates, one per line, with their changes to the initial candidate."""
    headings = ("candidate", "island", "iteration", "score", "change")
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
    terminal.print_table(
        console, headings, cells, right_aligned=headings[1:4], flexible="change", optional=("iteration",)
    )


def print_lineage(console: Console, lineage: Sequence[progress.LineageEntry]) -> None:
    """Prints a lineage, the candidate first."""
    headings = ("candidate", "island", "iteration", "score", "gain", "parents", "origin")
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
    terminal.print_table(
        console, headings, cells, right_aligned=headings[1:5], flexible="origin", optional=("iteration", "parents")
    )


def _format_parents(link: progress.LineageEntry) -> str:
    """Returns the ids of the parents, the best first; the gain is relative to it."""
    best = link.parent.id if link.parent else None
    return " ".join(sorted(dict.fromkeys(link.row.parents), key=lambda id: id != best)) or "-"


def describe_origin(row: store.Row) -> str:
    """Describes the mutator that made a candidate."""
    if not row.step:
        return "initial candidate"
    meta = dict(row.meta)
    return (
        " ".join(
            str(part)
            for part in (meta.pop("engine", ""), text_format.format_one_line(text_format.format_pairs(meta), 200))
            if part
        )
        or "-"
    )


def print_comparison(console: Console, result: comparisons.Comparison) -> None:
    """Prints runs side by side, as many per table as fit, and which is better."""
    facts = [_get_facts(entry) for entry in result.entries]
    names, label = [entry.summary.run for entry in result.entries], max(map(len, facts[0]))
    widths = [max(map(len, (name, *fact_values.values()))) for name, fact_values in zip(names, facts, strict=True)]
    runs_per_table = max(1, (console.width - label) // (terminal.GAP + max(widths)))
    for start in range(0, len(names), runs_per_table):
        chunk = slice(start, start + runs_per_table)
        rows = [(name, *(fact_values[name] for fact_values in facts[chunk])) for name in facts[0]]
        terminal.print_table(console, ("", *names[chunk]), rows, right_aligned=names[chunk])
        terminal.print_line(console)
    terminal.print_line(console, result.verdict)


def _get_facts(entry: comparisons.ComparedRun) -> dict[str, str]:
    summary, totals = entry.summary, entry.summary.totals
    facts: dict[str, str | int | float | None] = {
        "task": Path(summary.task).name or "-",
        "system": summary.system or "-",
        "LLM": summary.llm,
        "status": summary.status,
        "initial": text_format.format_number(summary.initial_score),
        "best": text_format.format_number(summary.best_score),
        "gain": format_gain(entry.gain),
        "evaluations": totals.evaluations,
        "evaluations to best": entry.evaluations_to_best,
        "failures": totals.failures,
        "LLM calls": totals.cost.calls,
        "cost": format_dollars(totals.cost),
        "seconds": entry.seconds and round(entry.seconds, 1),
    }
    return {name: _format_value(value) for name, value in facts.items()}


def _format_value(value: str | int | float | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:,}"


MAX_LINES = 60  # lines of the best candidate in `show RUN`
MAX_SCORES = 24


def run_to_json(run_store: store.Store, run: str) -> dict[str, Any]:
    """Returns the data of `show RUN --json`."""
    summary = runs.summarize(run_store, run)
    best = progress.row_to_data(run_store.candidates(run).get(summary.best)) if summary.best else None
    islands = [island.to_data() for island in progress.summarize_islands(run_store, run)]
    config = dict(run_store.get_run(run).config)
    baseline_data = {baseline.name: baseline.to_data() for baseline in baselines.find_baselines(run_store, run)}
    results_data = {"baselines": baseline_data, "result": dict(summaries.find_result(run_store, run))}
    return {**summary.to_data(), **results_data, "config": config, "islands": islands, "best_candidate": best}


def print_run(console: Console, run_store: store.Store, run: str) -> None:
    """Prints summary, settings, islands and best candidate of a run."""
    summary, settings = runs.summarize(run_store, run), text_format.format_settings(run_store.get_run(run).config)
    terminal.print_line(console, f"Run {run}", "bold")
    _print_summary(console, summary)
    if lines := list(settings):
        print_heading(console, "Settings")
        print_body(console, "\n".join(lines).strip("\n"))
    if result := summaries.find_result(run_store, run):
        print_heading(console, "Result")
        print_body(console, "\n".join(summaries.format_result(result)))
    if islands := progress.summarize_islands(run_store, run):
        print_heading(console, "Islands")
        print_islands(console, islands)
    if summary.best is not None:
        best = run_store.candidates(run).get(summary.best)
        print_heading(console, f"Best candidate, {best.id}")
        print_body(
            console,
            text_format.format_candidate(summary.system, best.content),
            max_lines=MAX_LINES,
            more_hint=f"{terminal.get_program_name()} best {run}",
        )


def _print_summary(console: Console, summary: runs.Summary) -> None:
    totals, cost = summary.totals, summary.totals.cost
    tokens = f", {cost.tokens_in + cost.tokens_out:,} tokens"
    candidate = f"  candidate {summary.best}" if summary.best else ""
    facts = {
        "status": f"{summary.status}{f' ({summary.reason})' if summary.reason else ''}",
        "created": f"{summary.created_at.astimezone():%Y-%m-%d %H:%M}",
        "system": summary.system,
        "task": summary.task,
        "LLM": summary.llm,
        "sandbox": summary.sandbox,
        "initial": text_format.format_number(summary.initial_score),
        "best": f"{text_format.format_number(summary.best_score)}{candidate}",
        "iterations": f"{totals.steps:,}",
        "evaluations": f"{totals.evaluations:,}",
        "failures": f"{totals.failures:,}",
        "cost": f"{format_dollars(cost)} for {cost.calls:,} LLM calls{tokens}" if cost.calls else "",
        "yield": str(summary.call_yield or ""),
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
    terminal.print_table(console, headings, rows, right_aligned=("island", "score", *counts))


def load_llm_calls(run_store: store.Store, run: str, iteration: int) -> list[dict[str, Any]]:
    """Returns prompts and responses of an iteration, in the order of the responses."""
    records = (record.data for record in run_store.journal(run).read_kinds("replied") if record.step == iteration)
    return [{name: data.get(name) for name in ("call", "model", "prompt", "roles", "text")} for data in records]


def print_candidate(console: Console, run_store: store.Store, run: str, row: store.Row, *, with_prompt: bool) -> None:
    """Prints a candidate with its evaluation, origin and, if requested, prompts."""
    lineage_entry = progress.make_lineage_entry(run_store.candidates(run), row)
    terminal.print_line(console, f"Candidate {row.id} of run {run}", "bold")
    print_fields(
        console,
        {
            "kind": "trial, evaluated inside an iteration" if row.is_draft else "",
            "parents": " ".join(dict.fromkeys(row.parents)) or "none (initial candidate)",
            "island": row.island,
            "iteration": row.step,
            "score": text_format.format_number(row.score),
            "gain": f"{format_gain(lineage_entry.gain)} over {lineage_entry.parent.id}"
            if lineage_entry.parent and lineage_entry.gain
            else "",
            "scores": _format_scores(row.scores),
            "decision": _format_verdict(row),
            "version": row.version,
            "failure": row.failure,
        },
    )
    if row.metrics:
        print_heading(console, "Metrics")
        print_fields(console, {name: text_format.format_number(value) for name, value in row.metrics.items()})
    if row.meta:
        print_heading(console, "Origin")
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
        return "" if row.is_draft else "none yet; its iteration is not finished"
    return f"{row.verdict} by {row.by}{f': {row.reason}' if row.reason else ''}"


def _print_llm_calls(console: Console, llm_calls: Sequence[dict[str, Any]]) -> None:
    for llm_call in llm_calls:
        messages = split_stored_prompt(llm_call)
        for role, text in messages:
            role_text = f", {role} message" if len(messages) > 1 else ""
            print_heading(console, f"Prompt of LLM call {llm_call['call']}{role_text}")
            print_body(console, text or "(not stored)")
        print_heading(console, f"Response of {llm_call['model'] or 'the LLM'} to call {llm_call['call']}")
        print_body(console, llm_call["text"] or "(empty)")
    if not llm_calls:
        terminal.print_line(console)
        terminal.print_line(console, "Its iteration made no LLM calls.")
