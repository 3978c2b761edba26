"""Report of a run in Markdown, and the data that the HTML page shares with it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from atoll import store
from atoll.runs import baselines, progress, text_format
from atoll.runs.summary import (
    FailureCounts,
    FailureReason,
    Summary,
    count_failures,
    find_result,
    format_result,
    summarize,
)
from atoll.runs.text_format import format_error, format_number

_FIRST, _LAST = 10, 20  # improvements shown of a long list

type Quote = Callable[[str], str]  # formats a name inside a sentence


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything that a report says about a run."""

    summary: Summary
    settings: Sequence[str]
    best: store.Row | None
    improvements: Sequence[progress.Improvement]
    best_lineage: Sequence[progress.LineageEntry]
    islands: Sequence[progress.IslandSummary]
    failure_counts: FailureCounts
    baselines: Sequence[baselines.Baseline]
    mutator_gains: Sequence[progress.MutatorGain] = ()

    def describe_run(self, quote: Quote) -> str:
        """Returns two sentences: what was run, and how it ended."""
        summary = self.summary
        task = f"{quote(Path(summary.task).name)} " if summary.task else ""
        system = f"with the system {quote(summary.system)} and " if summary.system else "with "
        model = "no LLM" if summary.llm in ("", "none") else f"the LLM {quote(summary.llm)}"
        sandbox_note = f"; candidates ran in sandbox {quote(summary.sandbox)}" if summary.sandbox else ""
        started = f"Started {summary.created_at:%Y-%m-%d %H:%M} UTC"
        ended = f"{summary.status}{f' ({quote(summary.reason)})' if summary.reason else ''}"
        return f"Evolved {task}{system}{model}{sandbox_note}. {started}; {ended}."

    def describe_outcome(self) -> str:
        """Returns a sentence about the gain."""
        initial, best = self.summary.initial_score, self.summary.best_score
        if initial is None or best is None or not self.improvements:
            return "No candidate has a score yet."
        evaluations = f"{self.summary.totals.evaluations:,} evaluations"
        if best <= initial:
            return f"No candidate is better than the initial one after {evaluations}."
        if self.summary.is_gain_within_noise:
            difference = f"The difference of {format_number(best - initial)} after {evaluations}"
            return f"{difference} is within the noise of the evaluator, so it is not a gain."
        gain, evaluations_to_best = format_number(best - initial), self.improvements[-1].evaluations
        by_mutator = f" By mutator: {', '.join(map(str, self.mutator_gains))}." if self.mutator_gains else ""
        return f"The gain is {gain}, reached after {evaluations_to_best:,} of {evaluations}.{by_mutator}"

    def describe_cost(self) -> str:
        """Returns the usage of the run."""
        usage = self.summary.totals
        parts = [f"{usage.steps:,} iterations", f"{usage.evaluations:,} evaluations", f"{usage.failures:,} failures"]
        if usage.cost.calls:
            parts += [f"{usage.cost.calls:,} LLM calls", f"{usage.cost.tokens_in:,} tokens in"]
            parts += [f"{usage.cost.tokens_out:,} tokens out", f"${usage.cost.usd:.4f}"]
        if usage.cost.seconds:
            parts.append(f"{usage.cost.seconds:,.1f} seconds of work")
        call_yield = f" Yield {self.summary.call_yield}." if self.summary.call_yield else ""
        return f"{', '.join(parts)}.{call_yield}"


def load_report_data(run_store: store.Store, run_id: str) -> ReportData:
    """Loads everything that a report says about a run."""
    rows, summary = run_store.candidates(run_id), summarize(run_store, run_id)
    best = rows.get(summary.best) if summary.best else None
    return ReportData(
        summary,
        list(text_format.format_settings(run_store.get_run(run_id).config)),
        best,
        progress.find_improvements(run_store, run_id),
        progress.get_best_lineage(rows, best) if best else (),
        progress.summarize_islands(run_store, run_id),
        count_failures(run_store, run_id),
        baselines.find_baselines(run_store, run_id),
        progress.compute_mutator_gains(run_store, run_id),
    )


def iter_report_lines(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields the lines of a report in Markdown."""
    data = load_report_data(run_store, run_id)
    yield from (f"# Run {data.summary.run}", "", data.describe_run(_format_code), "", data.describe_outcome(), "")
    yield from _format_table(("", "score", "candidate"), _make_score_rows(data))
    yield from ("", *baselines.format_lines(data.baselines, data.summary.best_score, run_id))
    if result := find_result(run_store, run_id):
        yield from ("", "## Result", "", *format_result(result))
    if data.best is not None:
        best = text_format.format_candidate(data.summary.system, data.best.content)
        yield from ("", f"## Best candidate: {data.best.id}", "", *_format_fenced(best))
    if len(data.improvements) > 1:
        yield from ("", "## Progress", "", *_format_improvements(data))
    if data.islands:
        yield from ("", "## Islands", "", *_format_islands(data.islands))
    yield from ("", "## Failures", "", *_format_failures(data.failure_counts))
    yield from ("", "## Cost", "", data.describe_cost())
    if data.settings:
        yield from ("", "## Settings", "", *_format_fenced("\n".join(data.settings).strip("\n"), "toml"))


def _make_score_rows(data: ReportData) -> Iterator[Sequence[str]]:
    summary = data.summary
    initial, best = (format_number(score) for score in (summary.initial_score, summary.best_score))
    yield "initial", f"{initial}{format_error(summary.initial_error)}", "0.0" if data.improvements else "-"
    yield "best", f"{best}{format_error(summary.best_error)}", data.best.id if data.best else "-"


def _format_improvements(data: ReportData) -> Iterator[str]:
    improvements = data.improvements
    gains = ["", *(f"+{format_number(after.score - before.score)}" for before, after in pairwise(improvements))]
    rows = [
        (f"{improvement.evaluations:,}", format_number(improvement.score), gain, improvement.id)
        for improvement, gain in zip(improvements, gains, strict=True)
    ]
    yield from _format_table(("evaluations", "score", "gain", "candidate"), shorten(rows, ("…", "", "", "")))
    ids = [entry.row.id for entry in data.best_lineage]
    yield from ("", f"Lineage of the best: {' ← '.join(shorten(ids, '…'))}.")


def shorten[T](rows: Sequence[T], gap: T) -> Sequence[T]:
    """Shortens a long list to its beginning and its end, with a gap between them."""
    if len(rows) <= _FIRST + _LAST + 1:
        return rows
    return [*rows[:_FIRST], gap, *rows[-_LAST:]]


def _format_islands(islands: Sequence[progress.IslandSummary]) -> Iterator[str]:
    rows = [
        (
            str(island.index),
            island.best_id or "-",
            format_number(island.best_score),
            *map("{:,}".format, island.counts.values()),
        )
        for island in islands
    ]
    return _format_table(("island", "best", "score", *islands[0].counts), rows)


def _format_failures(failure_counts: FailureCounts) -> Iterator[str]:
    yield from _format_reasons(failure_counts.failures) if failure_counts.failures else ("None.",)
    if failure_counts.rejections:
        yield from ("", "Rejected by a gate:", "", *_format_reasons(failure_counts.rejections))


def _format_reasons(reasons: Sequence[FailureReason]) -> Iterator[str]:
    rows = [(f"{reason.count:,}", _format_code(reason.source), _format_code(reason.text)) for reason in reasons]
    return _format_table(("count", "by", "reason"), rows)


def _format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join(' --- ' for _ in headings)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _format_code(content: str) -> str:
    """Formats untrusted text as inline code, so that nothing in it is markup."""
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
