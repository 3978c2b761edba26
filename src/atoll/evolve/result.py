"""What came of it: the best, its score, what it took, how it came about; in a terminal, a notebook, a folder."""

import html as markup
import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

NOT_RUN = "not run: baselines=True"


class Ancestor(NamedTuple):
    """One candidate on the way to the best, the best first."""

    id: str
    parents: Sequence[str]
    score: float | None
    content: str
    note: str


class ResultUsage(NamedTuple):
    """What a run took.

    Attributes:
        evaluator_calls: How often the evaluator was called, once per instance; the test set not counted.
        llm_calls: Replies of the model.
    """

    evaluator_calls: int
    steps: int
    llm_calls: int
    tokens: int
    usd: float
    seconds: float


class Gain(NamedTuple):
    """How much better the best is than the start on the same instances, with 95 % of where the truth may lie."""

    mean: float
    low: float
    high: float


class Result(NamedTuple):
    """What `atoll.evolve` returns.

    Attributes:
        best: The best candidate, in the form of what was given; of a function, its source that can be called: it runs
            in this process then.
        score: Its score: with data the mean over the validation part.
        start: The score of what was given.
        test: Its score on the sealed test set, None if there was none.
        gain: Of the test set, else of the validation part; None without data.
        baselines: Scores at equal budget by name; a text where one was not run.
        cost: What the run took.
        lineage: The best and its nearest ancestors, at most 200.
        scores: Its score on each instance of the validation part.
        reason: Why the run ended.
        run: Its id in the store; empty without one.
        content: The best as a text, as the store has it.
        suffix: What a file of it is called at its end.
    """

    best: Any
    score: float
    initial_score: float
    test: float | None
    gain: Gain | None
    baselines: Mapping[str, float | str]
    cost: ResultUsage
    lineage: Sequence[Ancestor]
    scores: Sequence[float]
    reason: str
    run: str
    content: str
    suffix: str

    def save(self, folder: str | PathLike[str] = "atoll_result") -> str:
        """Writes the best and all that is known of it into a folder, and returns the folder's path."""
        pass  # here and below: `import atoll` loads this file, and must not wait for that

        summary = {name: value for name, value in self._asdict().items() if name not in ("best", "content", "suffix")}
        summary |= {"gain": self.gain and self.gain._asdict(), "cost": self.cost._asdict()}
        summary |= {"lineage": [ancestor._asdict() for ancestor in self.lineage], "baselines": dict(self.baselines)}
        return save_result(folder, f"best{self.suffix}", self.content, summary)

    def __str__(self) -> str:
        pass

        return format_text(list(_iter_rows(self)), self.content)

    def _repr_html_(self) -> str:
        pass

        return format_html(list(_iter_rows(self)), self.content)


def _iter_rows(result: Result) -> Iterator[tuple[str, str]]:
    """Yields what is worth knowing, title by title."""
    yield "score", f"{result.score:.6g} (start {result.initial_score:.6g})"
    if result.test is not None:
        yield "test", f"{result.test:.6g}, scored once"
    if result.gain is not None:
        yield "gain", f"{result.gain.mean:+.4g}, 95 % within {result.gain.low:+.4g} to {result.gain.high:+.4g}"
    for name, score in result.baselines.items():
        if name != "start":
            yield name, score if isinstance(score, str) else f"{score:.6g}"
    usage = result.cost
    llm_usage = f", {usage.llm_calls:,} calls of the model, {usage.tokens:,} tokens, ${usage.usd:.4f}"
    yield (
        "cost",
        f"{usage.evaluator_calls:,} evaluator calls{llm_usage if usage.llm_calls else ''}, {usage.seconds:.1f} s",
    )
    yield (
        "lineage",
        " <- ".join(ancestor.id for ancestor in result.lineage[:8]) + (" ..." if len(result.lineage) > 8 else ""),
    )
    yield "ended", result.reason


type Rows = Sequence[tuple[str, str]]  # what is worth knowing, title by title

_MAX_LINES = 12  # of the best, in a terminal


def format_text(rows: Rows, content: str) -> str:
    """Returns a few lines."""
    lines = content.rstrip("\n").split("\n")
    visible_lines = [
        *lines[:_MAX_LINES],
        *([f"... {len(lines) - _MAX_LINES} more lines"] if len(lines) > _MAX_LINES else []),
    ]
    width = max(10, 2 + max((len(title) for title, _ in rows), default=0))
    return "\n".join(
        [*(f"{title:<{width}}{value}" for title, value in rows), "best", *(f"    {line}" for line in visible_lines)]
    )


def format_html(rows: Rows, content: str) -> str:
    """Returns a table and the best; all that a candidate wrote is escaped."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{markup.escape(title)}</th>"
        f"<td style='text-align:left'>{markup.escape(value)}</td></tr>"
        for title, value in rows
    )
    return f"<div><table>{cells}</table><pre>{markup.escape(content)}</pre></div>"


def save_result(folder: str | PathLike[str], name: str, content: str, summary: Mapping[str, Any]) -> str:
    """Writes the best and `result.json` into a folder and returns its path."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / name).write_text(content, encoding="utf-8")
    (path / "result.json").write_text(json.dumps(dict(summary), indent=2, default=list), encoding="utf-8")
    return str(path)
