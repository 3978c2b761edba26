"""All that is known about one run or one candidate, on a sheet."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from atoll import runs, store
from atoll.cli import drawing, output
from atoll.runs import baselines, looks, progress, results, text

MOST_LINES = 60  # of a source beside other things
MOST_SCORES = 24


def run_data(kept: store.Store, run: str) -> dict[str, Any]:
    """Returns what `show RUN --json` prints."""
    summary = runs.summarise(kept, run)
    best = progress.row_data(kept.candidates(run).get(summary.best)) if summary.best else None
    islands = [island.to_data() for island in progress.islands(kept, run)]
    config = dict(kept.run(run).config)
    rivals = {each.name: each.to_data() for each in baselines.find(kept, run)}
    found = {"baselines": rivals, "result": dict(results.find(kept, run))}
    return {**summary.to_data(), **found, "config": config, "islands": islands, "best_candidate": best}


def show_run(console: Console, kept: store.Store, run: str) -> None:
    """Prints the summary of a run, its set-up, its islands and its best candidate."""
    summary, settings = runs.summarise(kept, run), text.settings(kept.run(run).config)
    output.say(console, f"Run {run}", "bold")
    _summary(console, summary)
    if lines := list(settings):
        drawing.heading(console, "Set-up")
        drawing.body(console, "\n".join(lines).strip("\n"))
    if result := results.find(kept, run):
        drawing.heading(console, "Result")
        drawing.body(console, "\n".join(results.lines(result)))
    if islands := progress.islands(kept, run):
        drawing.heading(console, "Islands")
        show_islands(console, islands)
    if summary.best is not None:
        best = kept.candidates(run).get(summary.best)
        drawing.heading(console, f"The best candidate, {best.id}")
        drawing.body(
            console, looks.shown(summary.system, best.content), most=MOST_LINES, more=f"{output.own_name()} best {run}"
        )


def _summary(console: Console, summary: runs.Summary) -> None:
    used, cost = summary.totals, summary.totals.cost
    tokens = f", {cost.tokens_in + cost.tokens_out:,} tokens"
    facts = {
        "status": f"{summary.status}{f' ({summary.reason})' if summary.reason else ''}",
        "created": f"{summary.created_at.astimezone():%Y-%m-%d %H:%M}",
        "system": summary.system,
        "task": summary.task,
        "model": summary.llm,
        "sandbox": summary.sandbox,
        "start": text.number(summary.initial_score),
        "best": f"{text.number(summary.best_score)}{f'  candidate {summary.best}' if summary.best else ''}",
        "steps": f"{used.steps:,}",
        "judged": f"{used.evaluations:,}",
        "failed": f"{used.failures:,}",
        "cost": f"{drawing.dollars(cost)} for {cost.calls:,} calls{tokens}" if cost.calls else "",
    }
    drawing.fields(console, facts)


def show_islands(console: Console, islands: Sequence[progress.Island]) -> None:
    counts = tuple(islands[0].counts)
    headings = ("island", "best", "score", *counts)
    rows = [
        (str(each.index), each.best_id or "-", text.number(each.best_score), *(f"{n:,}" for n in each.counts.values()))
        for each in islands
    ]
    output.table(console, headings, rows, right=("island", "score", *counts))


def replies(kept: store.Store, run: str, step: int) -> list[dict[str, Any]]:
    """Returns what a step asked of models and what they answered, in the order of the answers."""
    records = (record.data for record in kept.journal(run).of_kind("replied") if record.step == step)
    return [{name: data.get(name) for name in ("call", "model", "prompt", "text")} for data in records]


def show_candidate(console: Console, kept: store.Store, run: str, row: store.Row, *, with_prompt: bool) -> None:
    """Prints all that is known about a candidate."""
    link = progress.link(kept.candidates(run), row)
    output.say(console, f"Candidate {row.id} of run {run}", "bold")
    drawing.fields(
        console,
        {
            "kind": "a draft, judged on the way to a child" if row.is_draft else "",
            "parents": " ".join(dict.fromkeys(row.parents)) or "none: it is the start",
            "island": row.island,
            "step": row.step,
            "score": text.number(row.score),
            "gain": f"{drawing.gain(link.gain)} against {link.parent.id}" if link.parent and link.gain else "",
            "scores": _scores(row.scores),
            "verdict": _verdict(row),
            "version": row.version,
            "failure": row.failure,
        },
    )
    if row.metrics:
        drawing.heading(console, "Metrics")
        drawing.fields(console, {name: text.number(value) for name, value in row.metrics.items()})
    if row.meta:
        drawing.heading(console, "How it was made")
        drawing.fields(console, {name: text.data({"": value})[1:] for name, value in row.meta.items()})
    if row.feedback:
        drawing.heading(console, "Feedback")
        drawing.body(console, row.feedback)
    drawing.heading(console, "Content")
    drawing.body(console, looks.shown(looks.system_of(kept, run), row.content))
    if with_prompt:
        _replies(console, replies(kept, run, row.step))


def _scores(scores: Sequence[float]) -> str:
    more = f" … {len(scores) - MOST_SCORES:,} more" if len(scores) > MOST_SCORES else ""
    return " ".join(text.number(score) for score in scores[:MOST_SCORES]) + more


def _verdict(row: store.Row) -> str:
    if row.verdict is None:
        return "" if row.is_draft else "none yet: its step was not finished"
    return f"{row.verdict} by {row.by}{f': {row.reason}' if row.reason else ''}"


def _replies(console: Console, found: Sequence[dict[str, Any]]) -> None:
    for each in found:
        drawing.heading(console, f"Prompt of call {each['call']}")
        drawing.body(console, each["prompt"] or "(not stored)")
        drawing.heading(console, f"Reply of {each['model'] or 'the model'} to call {each['call']}")
        drawing.body(console, each["text"] or "(empty)")
    if not found:
        output.say(console)
        output.say(console, "Its step asked no model.")
