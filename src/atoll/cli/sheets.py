"""All that is known about one run or one candidate, on a sheet."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from atoll import runs, store
from atoll.cli import drawing, output
from atoll.runs import baselines, looks, progress, results, text

MAX_LINES = 60  # of a source beside other things
MAX_SCORES = 24


def run_to_json(run_store: store.Store, run: str) -> dict[str, Any]:
    """Returns what `show RUN --json` prints."""
    summary = runs.summarize(run_store, run)
    best = progress.row_to_data(run_store.candidates(run).get(summary.best)) if summary.best else None
    islands = [island.to_data() for island in progress.summarize_islands(run_store, run)]
    config = dict(run_store.get_run(run).config)
    baseline_data = {baseline.name: baseline.to_data() for baseline in baselines.find_baselines(run_store, run)}
    results_data = {"baselines": baseline_data, "result": dict(results.find_result(run_store, run))}
    return {**summary.to_data(), **results_data, "config": config, "islands": islands, "best_candidate": best}


def print_run(console: Console, run_store: store.Store, run: str) -> None:
    """Prints the summary of a run, its set-up, its islands and its best candidate."""
    summary, settings = runs.summarize(run_store, run), text.format_settings(run_store.get_run(run).config)
    output.print_line(console, f"Run {run}", "bold")
    _print_summary(console, summary)
    if lines := list(settings):
        drawing.print_heading(console, "Set-up")
        drawing.print_body(console, "\n".join(lines).strip("\n"))
    if result := results.find_result(run_store, run):
        drawing.print_heading(console, "Result")
        drawing.print_body(console, "\n".join(results.format_result(result)))
    if islands := progress.summarize_islands(run_store, run):
        drawing.print_heading(console, "Islands")
        print_islands(console, islands)
    if summary.best is not None:
        best = run_store.candidates(run).get(summary.best)
        drawing.print_heading(console, f"The best candidate, {best.id}")
        drawing.print_body(
            console, looks.format_candidate(summary.system, best.content), max_lines=MAX_LINES, more_hint=f"{output.get_program_name()} best {run}"
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
        "start": text.format_number(summary.initial_score),
        "best": f"{text.format_number(summary.best_score)}{f'  candidate {summary.best}' if summary.best else ''}",
        "steps": f"{totals.steps:,}",
        "judged": f"{totals.evaluations:,}",
        "failed": f"{totals.failures:,}",
        "cost": f"{drawing.format_dollars(cost)} for {cost.calls:,} calls{tokens}" if cost.calls else "",
    }
    drawing.print_fields(console, facts)


def print_islands(console: Console, islands: Sequence[progress.IslandSummary]) -> None:
    counts = tuple(islands[0].counts)
    headings = ("island", "best", "score", *counts)
    rows = [
        (str(island.index), island.best_id or "-", text.format_number(island.best_score), *(f"{value:,}" for value in island.counts.values()))
        for island in islands
    ]
    output.print_table(console, headings, rows, right_aligned=("island", "score", *counts))


def load_llm_calls(run_store: store.Store, run: str, iteration: int) -> list[dict[str, Any]]:
    """Returns what a step asked of models and what they answered, in the order of the answers."""
    records = (record.data for record in run_store.journal(run).read_kinds("replied") if record.step == iteration)
    return [{name: data.get(name) for name in ("call", "model", "prompt", "text")} for data in records]


def print_candidate(console: Console, run_store: store.Store, run: str, row: store.Row, *, with_prompt: bool) -> None:
    """Prints all that is known about a candidate."""
    lineage_entry = progress.make_lineage_entry(run_store.candidates(run), row)
    output.print_line(console, f"Candidate {row.id} of run {run}", "bold")
    drawing.print_fields(
        console,
        {
            "kind": "a draft, judged on the way to a child" if row.is_draft else "",
            "parents": " ".join(dict.fromkeys(row.parents)) or "none: it is the start",
            "island": row.island,
            "step": row.step,
            "score": text.format_number(row.score),
            "gain": f"{drawing.format_gain(lineage_entry.gain)} against {lineage_entry.parent.id}" if lineage_entry.parent and lineage_entry.gain else "",
            "scores": _format_scores(row.scores),
            "verdict": _format_verdict(row),
            "version": row.version,
            "failure": row.failure,
        },
    )
    if row.metrics:
        drawing.print_heading(console, "Metrics")
        drawing.print_fields(console, {name: text.format_number(value) for name, value in row.metrics.items()})
    if row.meta:
        drawing.print_heading(console, "How it was made")
        drawing.print_fields(console, {name: text.format_pairs({"": value})[1:] for name, value in row.meta.items()})
    if row.feedback:
        drawing.print_heading(console, "Feedback")
        drawing.print_body(console, row.feedback)
    drawing.print_heading(console, "Content")
    drawing.print_body(console, looks.format_candidate(looks.get_system_name(run_store, run), row.content))
    if with_prompt:
        _print_llm_calls(console, load_llm_calls(run_store, run, row.step))


def _format_scores(scores: Sequence[float]) -> str:
    more = f" … {len(scores) - MAX_SCORES:,} more" if len(scores) > MAX_SCORES else ""
    return " ".join(text.format_number(score) for score in scores[:MAX_SCORES]) + more


def _format_verdict(row: store.Row) -> str:
    if row.verdict is None:
        return "" if row.is_draft else "none yet: its step was not finished"
    return f"{row.verdict} by {row.by}{f': {row.reason}' if row.reason else ''}"


def _print_llm_calls(console: Console, llm_calls: Sequence[dict[str, Any]]) -> None:
    for llm_call in llm_calls:
        drawing.print_heading(console, f"Prompt of call {llm_call['call']}")
        drawing.print_body(console, llm_call["prompt"] or "(not stored)")
        drawing.print_heading(console, f"Reply of {llm_call['model'] or 'the model'} to call {llm_call['call']}")
        drawing.print_body(console, llm_call["text"] or "(empty)")
    if not llm_calls:
        output.print_line(console)
        output.print_line(console, "Its step asked no model.")
