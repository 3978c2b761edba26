"""A run as a page to read, in Markdown."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from atoll import store
from atoll.runs import baselines, failures, progress, summary, text_format
from atoll.runs.summary import Summary, summarize

_FIRST, _LAST = 10, 20  # improvements shown of many

type Quote = Callable[[str], str]  # how a name stands in a text


@dataclass(frozen=True, slots=True)
class ReportData:
    """All that a page says about a run."""

    summary: Summary
    settings: Sequence[str]
    best: store.Row | None
    improvements: Sequence[progress.Improvement]
    best_lineage: Sequence[progress.LineageEntry]
    islands: Sequence[progress.IslandSummary]
    failure_counts: failures.FailureCounts
    baselines: Sequence[baselines.Baseline]

    def describe_run(self, quote: Quote) -> str:
        """Says in two sentences what was run and how it ended."""
        summary = self.summary
        task = f"{quote(Path(summary.task).name)} " if summary.task else ""
        system = f"with the system {quote(summary.system)} and " if summary.system else "with "
        model = "no LLM" if summary.llm in ("", "none") else f"the model {quote(summary.llm)}"
        sandbox_note = f"; candidates ran in sandbox {quote(summary.sandbox)}" if summary.sandbox else ""
        started = f"Begun {summary.created_at:%Y-%m-%d %H:%M} UTC"
        ended = f"{summary.status}{f' ({quote(summary.reason)})' if summary.reason else ''}"
        return f"Evolved {task}{system}{model}{sandbox_note}. {started}; {ended}."

    def describe_outcome(self) -> str:
        """Says what was gained."""
        initial, best = self.summary.initial_score, self.summary.best_score
        if initial is None or best is None or not self.improvements:
            return "Nothing has a score yet."
        evaluations = f"{self.summary.totals.evaluations:,} evaluations"
        if best <= initial:
            return f"Nothing better than the start was found in {evaluations}."
        evaluations_to_best = self.improvements[-1].evaluations
        return f"The gain is {text_format.format_number(best - initial)}, reached after {evaluations_to_best:,} of {evaluations}."

    def describe_cost(self) -> str:
        """Says what the run took."""
        usage = self.summary.totals
        parts = [f"{usage.steps:,} steps", f"{usage.evaluations:,} evaluations", f"{usage.failures:,} failures"]
        if usage.cost.calls:
            parts += [f"{usage.cost.calls:,} calls of a model", f"{usage.cost.tokens_in:,} tokens in"]
            parts += [f"{usage.cost.tokens_out:,} tokens out", f"${usage.cost.usd:.4f}"]
        if usage.cost.seconds:
            parts.append(f"{usage.cost.seconds:,.1f} seconds of work")
        return f"{', '.join(parts)}."


def load_report_data(run_store: store.Store, run_id: str) -> ReportData:
    """Reads all that a page says about a run.

    Raises:
        NotFound: There is no such run.
    """
    rows, summary = run_store.candidates(run_id), summarize(run_store, run_id)
    best = rows.get(summary.best) if summary.best else None
    return ReportData(
        summary,
        list(text_format.format_settings(run_store.get_run(run_id).config)),
        best,
        progress.find_improvements(run_store, run_id),
        progress.get_best_lineage(rows, best) if best else (),
        progress.summarize_islands(run_store, run_id),
        failures.count_failures(run_store, run_id),
        baselines.find_baselines(run_store, run_id),
    )


def iter_report_lines(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the lines of a report in Markdown.

    Raises:
        NotFound: There is no such run.
    """
    data = load_report_data(run_store, run_id)
    yield from (f"# Run {data.summary.run}", "", data.describe_run(_format_code), "", data.describe_outcome(), "")
    yield from _format_table(("", "score", "candidate"), _make_score_rows(data))
    yield from ("", *baselines.format_lines(data.baselines, data.summary.best_score, run_id))
    if result := summary.find_result(run_store, run_id):
        yield from ("", "## The result", "", *summary.format_result(result))
    if data.best is not None:
        yield from (
            "",
            f"## The best candidate, {data.best.id}",
            "",
            *_format_fenced(text_format.format_candidate(data.summary.system, data.best.content)),
        )
    if len(data.improvements) > 1:
        yield from ("", "## How it came about", "", *_format_improvements(data))
    if data.islands:
        yield from ("", "## Islands", "", *_format_islands(data.islands))
    yield from ("", "## Failures", "", *_format_failures(data.failure_counts))
    yield from ("", "## Cost", "", data.describe_cost())
    if data.settings:
        yield from ("", "## Set-up", "", *_format_fenced("\n".join(data.settings).strip("\n"), "toml"))


def _make_score_rows(data: ReportData) -> Iterator[Sequence[str]]:
    yield "start", text_format.format_number(data.summary.initial_score), "0.0" if data.improvements else "-"
    yield "best", text_format.format_number(data.summary.best_score), data.best.id if data.best else "-"


def _format_improvements(data: ReportData) -> Iterator[str]:
    improvements = data.improvements
    gains = [None, *(after.score - before.score for before, after in pairwise(improvements))]
    rows = [
        (
            f"{improvement.evaluations:,}",
            text_format.format_number(improvement.score),
            "" if gain is None else f"+{text_format.format_number(gain)}",
            improvement.id,
        )
        for improvement, gain in zip(improvements, gains, strict=True)
    ]
    yield from _format_table(("evaluations", "score", "gain", "candidate"), shorten(rows, ("…", "", "", "")))
    ids = [entry.row.id for entry in data.best_lineage]
    yield from ("", f"Its line back to the start: {' ← '.join(shorten(ids, '…'))}.")


def shorten[T](rows: Sequence[T], gap: T) -> Sequence[T]:
    """Returns the first and last of many, with a gap between them."""
    if len(rows) <= _FIRST + _LAST + 1:
        return rows
    return [*rows[:_FIRST], gap, *rows[-_LAST:]]


def _format_islands(islands: Sequence[progress.IslandSummary]) -> Iterator[str]:
    rows = [
        (
            str(island.index),
            island.best_id or "-",
            text_format.format_number(island.best_score),
            *(f"{n:,}" for n in island.counts.values()),
        )
        for island in islands
    ]
    return _format_table(("island", "best", "score", *islands[0].counts), rows)


def _format_failures(failure_counts: failures.FailureCounts) -> Iterator[str]:
    if not failure_counts.failures:
        yield "None."
    else:
        yield from _format_table(
            ("count", "by", "reason"), [_format_reason(reason) for reason in failure_counts.failures]
        )
    if failure_counts.rejections:
        yield from ("", "Kept out by a gate:", "")
        yield from _format_table(
            ("count", "by", "reason"), [_format_reason(reason) for reason in failure_counts.rejections]
        )


def _format_reason(reason: failures.FailureReason) -> Sequence[str]:
    return f"{reason.count:,}", _format_code(reason.source), _format_code(reason.text)


def _format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join(' --- ' for _ in headings)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _format_code(content: str) -> str:
    """Returns foreign text as it stands inside a line or a cell: code, so that nothing in it is markup."""
    escaped = text_format.format_one_line(content).replace("|", "\\|")
    fence = "`" * (1 + _find_longest_fence(escaped))
    return f"{fence} {escaped} {fence}" if "`" in escaped else f"`{escaped}`"


def _format_fenced(content: str, language: str = "") -> Iterator[str]:
    fence = "`" * max(3, 1 + _find_longest_fence(content))
    yield f"{fence}{language}"
    yield from text_format.escape_control(content).rstrip("\n").split("\n")
    yield fence


def _find_longest_fence(content: str) -> int:
    return max((len(fence) for fence in re.findall("`+", content)), default=0)
