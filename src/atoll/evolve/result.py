"""Result of `atoll.evolve`, shown in a terminal or a notebook, or saved in a folder.

`import atoll` loads this file, so it imports nothing slow.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

NOT_RUN = "not run: baselines=True"
_MAX_LINES = 12  # of the best candidate, in a terminal


class Ancestor(NamedTuple):
    """The best candidate, or one of its ancestors."""

    id: str
    parents: Sequence[str]
    score: float | None
    content: str
    note: str


class ResultUsage(NamedTuple):
    """Usage of a run.

    Attributes:
        evaluator_calls: Number of evaluator calls, one per instance; without the test set.
        steps: Number of iterations.
        llm_calls: Number of LLM responses.
        llm_yield: Distinct candidates evaluated per LLM call; None without calls.
    """

    evaluator_calls: int
    steps: int
    llm_calls: int
    tokens: int
    usd: float
    seconds: float
    llm_yield: float | None = None


class Gain(NamedTuple):
    """Mean difference between the best and the initial candidate on the same instances, with its 95 % interval."""

    mean: float
    low: float
    high: float


class Result(NamedTuple):
    """Result of `atoll.evolve`.

    Attributes:
        best: Best candidate, of the same kind as the initial object. A function is its source, and calling it runs it
            in this process.
        score: Its score; with data the mean over the validation set.
        initial_score: Score of the initial object.
        test: Its score on the test set; None without one.
        gain: Gain on the test set, or on the validation set without one; None without data.
        baselines: Scores with the same budget by name; a text if a baseline was not run.
        cost: Usage of the run.
        lineage: The best candidate and its nearest ancestors, at most 200.
        scores: Its score on each instance of the validation set.
        reason: Why the run ended.
        run: Id of the run in the store; empty without a store.
        content: The best candidate as text, as in the store.
        suffix: Suffix of a file with the best candidate.
        status: `done`, `interrupted` (Ctrl-C), `stopped` or `failed`.
        candidates: A row per evaluated candidate: id, iteration, score, best_score, engine, idea, failure, parents.
        score_error: Standard error of the score, if repeated evaluations varied.
        initial_error: The same of the initial score.
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
    status: str = "done"
    candidates: Sequence[Mapping[str, Any]] = ()
    score_error: float | None = None
    initial_error: float | None = None

    @property
    def is_gain_within_noise(self) -> bool:
        """True if the best score may be higher than the initial one by chance."""
        if self.gain is not None:
            return self.gain.low <= 0 < self.gain.mean
        from atoll import noise  # imports more than this file may

        gain = self.score - self.initial_score
        return gain > 0 and noise.is_within_noise(gain, self.score_error, self.initial_error)

    @property
    def history(self) -> Any:
        """All evaluated candidates in order: a pandas DataFrame if pandas is installed, otherwise a list of dicts."""
        rows = [dict(row) for row in self.candidates]
        try:
            import pandas  # optional, slow import
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def plot(self) -> Any:
        """Draws the best score over the evaluated candidates, and returns the axes of matplotlib.

        Raises:
            SetupError: Matplotlib is not installed.
        """
        try:
            from matplotlib import pyplot  # optional, slow import
        except ImportError as error:
            from atoll.errors import SetupError

            raise SetupError("plot() needs matplotlib. Install it with 'pip install matplotlib'.") from error
        scores = [(index, row["score"]) for index, row in enumerate(self.candidates) if row["score"] is not None]
        _, axes = pyplot.subplots()
        axes.scatter([index for index, _ in scores], [score for _, score in scores], s=8, label="candidates")
        axes.step(
            range(len(self.candidates)), [row["best_score"] for row in self.candidates], where="post", label="best"
        )
        axes.set_xlabel("evaluated candidates")
        axes.set_ylabel("score")
        axes.legend()
        return axes

    def __repr__(self) -> str:
        score, initial = _format_score(self.score, self.score_error), self.initial_score
        parts = [f"score={score}", f"initial_score={_format_score(initial, self.initial_error)}"]
        parts += ["is_gain_within_noise=True"] if self.is_gain_within_noise else []
        parts += [f"test={self.test:.6g}"] if self.test is not None else []
        if self.gain is not None:
            parts.append(f"gain={self.gain.mean:+.4g} [{self.gain.low:+.4g}, {self.gain.high:+.4g}]")
        parts += [f"evaluator_calls={self.cost.evaluator_calls}", f"llm_calls={self.cost.llm_calls}"]
        parts += [f"status={self.status!r}"] + ([f"run={self.run!r}"] if self.run else [])
        return f"Result({', '.join(parts)}, best={self.content!r:.60})"

    def save(self, folder: str | PathLike[str] = "atoll_result") -> str:
        """Writes the best candidate and `result.json` into a folder, and returns its path."""
        summary = {
            name: value
            for name, value in self._asdict().items()
            if name not in ("best", "content", "suffix", "candidates")
        }
        summary |= {"gain": self.gain and self.gain._asdict(), "cost": self.cost._asdict()}
        summary |= {"lineage": [ancestor._asdict() for ancestor in self.lineage], "baselines": dict(self.baselines)}
        from pathlib import Path  # slow import

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"best{self.suffix}").write_text(self.content, encoding="utf-8")
        (path / "result.json").write_text(json.dumps(summary, indent=2, default=list), encoding="utf-8")
        return str(path)

    def __str__(self) -> str:
        rows, lines = list(_iter_rows(self)), self.content.rstrip("\n").split("\n")
        width = max(10, 2 + max(len(title) for title, _ in rows))
        shown_lines = lines[:_MAX_LINES]
        if len(lines) > _MAX_LINES:
            shown_lines.append(f"... {len(lines) - _MAX_LINES} more lines")
        table = [f"{title:<{width}}{value}" for title, value in rows]
        return "\n".join([*table, "best", *(f"    {line}" for line in shown_lines)])

    def _repr_html_(self) -> str:
        import html as markup  # slow import

        cells = "".join(
            f"<tr><th style='text-align:left'>{markup.escape(title)}</th>"
            f"<td style='text-align:left'>{markup.escape(value)}</td></tr>"
            for title, value in _iter_rows(self)
        )
        return f"<div><table>{cells}</table><pre>{markup.escape(self.content)}</pre></div>"


def _format_score(score: float, error: float | None) -> str:
    return f"{score:.6g}" + (f" ± {error:.2g}" if error else "")


def _iter_rows(result: Result) -> Iterator[tuple[str, str]]:
    initial_score = _format_score(result.initial_score, result.initial_error)
    yield "score", f"{_format_score(result.score, result.score_error)} (initial {initial_score})"
    if result.is_gain_within_noise:
        noise_note = "the difference is within the noise of the evaluator, so it is not a gain"
        few_note = "the gain may be chance: its interval includes 0; more instances make it narrower"
        yield "noise", noise_note if result.gain is None else few_note
    if result.test is not None:
        yield "test", f"{result.test:.6g}, scored once"
    if result.gain is not None:
        part = "validation" if result.test is None else "test"
        interval = f"95 % within {result.gain.low:+.4g} to {result.gain.high:+.4g}"
        yield "gain", f"{result.gain.mean:+.4g} on the {part} set, {interval}"
    for name, score in result.baselines.items():
        if name != "initial":
            yield name, score if isinstance(score, str) else f"{score:.6g}"
    usage = result.cost
    llm_usage = f", {usage.llm_calls:,} LLM calls, {usage.tokens:,} tokens, ${usage.usd:.4f}" if usage.llm_calls else ""
    yield "cost", f"{usage.evaluator_calls:,} evaluator calls{llm_usage}, {usage.seconds:.1f} s"
    if usage.llm_yield is not None:
        yield "yield", f"{usage.llm_yield:.2f} candidates evaluated per LLM call"
    ids = [ancestor.id for ancestor in result.lineage[:8]]
    yield "lineage", " <- ".join(ids) + (" ..." if len(result.lineage) > 8 else "")
    yield "ended", f"{result.status}: {result.reason}" if result.status not in result.reason else result.reason
    if result.run:
        yield "run", result.run
