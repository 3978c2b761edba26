"""A run as a page to read, in Markdown."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from atoll import store
from atoll.runs import baselines, failures, looks, progress, results, text
from atoll.runs.summary import Summary, summarise

_FIRST, _LAST = 10, 20  # improvements shown of many

type Quote = Callable[[str], str]  # how a name stands in a text


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a page says about a run."""

    summary: Summary
    settings: Sequence[str]
    best: store.Row | None
    improvements: Sequence[progress.Improvement]
    descent: Sequence[progress.Link]
    islands: Sequence[progress.Island]
    losses: failures.Losses
    baselines: Sequence[baselines.Baseline]

    def about(self, quote: Quote) -> str:
        """Says in two sentences what was run and how it ended."""
        summary = self.summary
        task = f"{quote(Path(summary.task).name)} " if summary.task else ""
        system = f"with the system {quote(summary.system)} and " if summary.system else "with "
        model = "no LLM" if summary.llm in ("", "none") else f"the model {quote(summary.llm)}"
        where = f"; candidates ran in sandbox {quote(summary.sandbox)}" if summary.sandbox else ""
        begun = f"Begun {summary.created_at:%Y-%m-%d %H:%M} UTC"
        ended = f"{summary.status}{f' ({quote(summary.reason)})' if summary.reason else ''}"
        return f"Evolved {task}{system}{model}{where}. {begun}; {ended}."

    def outcome(self) -> str:
        """Says what was gained."""
        start, best = self.summary.initial_score, self.summary.best_score
        if start is None or best is None or not self.improvements:
            return "Nothing has a score yet."
        judged = f"{self.summary.totals.evaluations:,} evaluations"
        if best <= start:
            return f"Nothing better than the start was found in {judged}."
        last = self.improvements[-1].evaluations
        return f"The gain is {text.number(best - start)}, reached after {last:,} of {judged}."

    def cost(self) -> str:
        """Says what the run took."""
        used = self.summary.totals
        took = [f"{used.steps:,} steps", f"{used.evaluations:,} evaluations", f"{used.failures:,} failures"]
        if used.cost.calls:
            took += [f"{used.cost.calls:,} calls of a model", f"{used.cost.tokens_in:,} tokens in"]
            took += [f"{used.cost.tokens_out:,} tokens out", f"${used.cost.usd:.4f}"]
        if used.cost.seconds:
            took.append(f"{used.cost.seconds:,.1f} seconds of work")
        return f"{', '.join(took)}."


def gather(kept: store.Store, run: str) -> Facts:
    """Reads all that a page says about a run.

    Raises:
        NotFound: There is no such run.
    """
    rows, summary = kept.candidates(run), summarise(kept, run)
    best = rows.get(summary.best) if summary.best else None
    return Facts(
        summary,
        list(text.settings(kept.run(run).config)),
        best,
        progress.improvements(kept, run),
        progress.descent(rows, best) if best else (),
        progress.islands(kept, run),
        failures.losses(kept, run),
        baselines.find(kept, run),
    )


def report(kept: store.Store, run: str) -> Iterator[str]:
    """Yields the lines of a report in Markdown.

    Raises:
        NotFound: There is no such run.
    """
    facts = gather(kept, run)
    yield from (f"# Run {facts.summary.run}", "", facts.about(_code), "", facts.outcome(), "")
    yield from _table(("", "score", "candidate"), _ends(facts))
    yield from ("", *baselines.lines(facts.baselines, facts.summary.best_score, run))
    if result := results.find(kept, run):
        yield from ("", "## The result", "", *results.lines(result))
    if facts.best is not None:
        yield from (
            "",
            f"## The best candidate, {facts.best.id}",
            "",
            *_fenced(looks.shown(facts.summary.system, facts.best.content)),
        )
    if len(facts.improvements) > 1:
        yield from ("", "## How it came about", "", *_way(facts))
    if facts.islands:
        yield from ("", "## Islands", "", *_islands(facts.islands))
    yield from ("", "## Failures", "", *_losses(facts.losses))
    yield from ("", "## Cost", "", facts.cost())
    if facts.settings:
        yield from ("", "## Set-up", "", *_fenced("\n".join(facts.settings).strip("\n"), "toml"))


def _ends(facts: Facts) -> Iterator[Sequence[str]]:
    yield "start", text.number(facts.summary.initial_score), "0.0" if facts.improvements else "-"
    yield "best", text.number(facts.summary.best_score), facts.best.id if facts.best else "-"


def _way(facts: Facts) -> Iterator[str]:
    steps = facts.improvements
    gains = [None, *(after.score - before.score for before, after in pairwise(steps))]
    rows = [
        (f"{each.evaluations:,}", text.number(each.score), "" if gain is None else f"+{text.number(gain)}", each.id)
        for each, gain in zip(steps, gains, strict=True)
    ]
    yield from _table(("evaluations", "score", "gain", "candidate"), shortened(rows, ("…", "", "", "")))
    ids = [link.row.id for link in facts.descent]
    yield from ("", f"Its line back to the start: {' ← '.join(shortened(ids, '…'))}.")


def shortened[T](rows: Sequence[T], gap: T) -> Sequence[T]:
    """Returns the first and last of many, with a gap between them."""
    if len(rows) <= _FIRST + _LAST + 1:
        return rows
    return [*rows[:_FIRST], gap, *rows[-_LAST:]]


def _islands(islands: Sequence[progress.Island]) -> Iterator[str]:
    rows = [
        (str(each.index), each.best_id or "-", text.number(each.best_score), *(f"{n:,}" for n in each.counts.values()))
        for each in islands
    ]
    return _table(("island", "best", "score", *islands[0].counts), rows)


def _losses(losses: failures.Losses) -> Iterator[str]:
    if not losses.failures:
        yield "None."
    else:
        yield from _table(("count", "by", "reason"), [_reason(each) for each in losses.failures])
    if losses.rejections:
        yield from ("", "Kept out by a gate:", "")
        yield from _table(("count", "by", "reason"), [_reason(each) for each in losses.rejections])


def _reason(reason: failures.Reason) -> Sequence[str]:
    return f"{reason.count:,}", _code(reason.by), _code(reason.text)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"|{'|'.join(' --- ' for _ in headings)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _code(said: str) -> str:
    """Returns foreign text as it stands inside a line or a cell: code, so that nothing in it is markup."""
    plain = text.gist(said).replace("|", "\\|")
    fence = "`" * (1 + _longest_fence(plain))
    return f"{fence} {plain} {fence}" if "`" in plain else f"`{plain}`"


def _fenced(content: str, language: str = "") -> Iterator[str]:
    fence = "`" * max(3, 1 + _longest_fence(content))
    yield f"{fence}{language}"
    yield from text.visible(content).rstrip("\n").split("\n")
    yield fence


def _longest_fence(content: str) -> int:
    return max((len(each) for each in re.findall("`+", content)), default=0)
