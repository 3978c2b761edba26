"""Lines about the candidates of an LLM run: scores, outcome and the change in the model's words."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rich.cells import cell_len

from atoll import evaluation, function, gate, system
from atoll.cli.terminal import console as terminal
from atoll.runs import text_format

MIN_TEXT_WIDTH = 8  # columns; a narrower change or reason is omitted
_MAX_TEXT_CHARS = 200
_MAX_DECIMALS = 17
_LONG_DECIMALS = 8  # a difference with more is written with an exponent
_RAISED = re.compile(r"the mutator raised (\w+): ")
_CHANGED_LINES = re.compile(r"(\d+) lines removed, (\d+) added")
_OUTCOME_WIDTH = 8  # that of "new best"
_NOT_CODE = ("#", '"""', "'''")  # start of comments and docstrings
_STYLES = {"new best": "bold green", "better": "green", "worse": "", "equal": ""}


class CandidateLine(NamedTuple):
    """One line of progress.

    Attributes:
        call: Number of LLM calls of the run so far; None: no LLM made the candidate.
        scores: Score of the parent and of the child, and their difference.
        outcome: The outcome in a few words.
        text: The change, or the reason of a failure.
        seconds: Time of the LLM calls and the evaluation; None: printed with a later candidate of the iteration.
    """

    call: int | None
    scores: str
    outcome: str
    text: str
    seconds: float | None

    @property
    def style(self) -> str:
        return _STYLES.get(self.outcome, "dim")

    def format(self, width: int, call_digits: int = 1) -> list[str]:
        """Returns the line. Only the text is shortened to the width; that of a new best gets its own line instead."""
        call = " " * (5 + call_digits) if self.call is None else f"call {self.call:>{call_digits}}"
        start = f"{call}  {self.scores} {self.outcome:{_OUTCOME_WIDTH}}"
        end = "" if self.seconds is None else f"  {self.seconds:.1f} s"
        text, width_left = text_format.format_one_line(self.text, _MAX_TEXT_CHARS), width - len(start) - len(end) - 2
        if self.outcome == "new best" and cell_len(text) > width_left:
            indent = " " * (len(call) + 2)
            return [f"{start}{end}", f"{indent}{terminal.truncate(text, max(width - len(indent), MIN_TEXT_WIDTH))}"]
        if not text or width_left < MIN_TEXT_WIDTH:
            return [f"{start}{end}"]
        return [f"{start}  {terminal.truncate(text, width_left)}{end}"]


def iter_lines(applied: system.AppliedIteration) -> Iterator[CandidateLine]:
    """Yields a line for each child of an iteration, or one about an unusable response.

    An iteration without an LLM call, for example of the tuner, gets a line only for a new best candidate.
    """
    result, best_score = applied.result, -math.inf if applied.best_score is None else applied.best_score
    call = applied.usage.cost.calls if result.cost.calls else None
    if result.failure is not None:
        outcome, reason = _describe_failure(result.failure)
        if outcome and (call is not None or outcome == "no response"):
            scores = f"{_format_score(_find_parent_score(result))} ->"
            yield CandidateLine(applied.usage.cost.calls, scores, outcome, reason, result.cost.seconds)
    for index, (fn, decision) in enumerate(result.children):
        score = fn.evaluation.score if fn.evaluation else None
        is_best = decision.verdict == "accept" and score is not None and score > best_score
        if is_best and score is not None:
            best_score = score
        if call is not None or is_best:
            seconds = result.cost.seconds if index == len(result.children) - 1 else None
            yield _describe_child(result, fn, decision, is_best=is_best)._replace(call=call, seconds=seconds)


def _describe_child(
    result: function.IterationResult, fn: function.Function, decision: gate.Decision, *, is_best: bool
) -> CandidateLine:
    parent_score, evaluated = _find_parent_score(result, fn), fn.evaluation
    if evaluated is None:
        return CandidateLine(None, f"{_format_score(parent_score)} ->", "not evaluated", decision.reason, None)
    if evaluated.score is None:
        return CandidateLine(None, f"{_format_score(parent_score)} ->", "failed", _shorten_failure(evaluated), None)
    scores = format_scores(parent_score, evaluated.score)
    if decision.verdict != "accept":
        outcome = "held" if decision.verdict == "hold" else "rejected"
        return CandidateLine(None, scores, outcome, decision.reason, None)
    outcome = "new best" if is_best else _compare(parent_score, evaluated.score)
    return CandidateLine(None, scores, outcome, describe_change(fn.candidate.meta if fn.candidate else {}), None)


def _compare(parent_score: float | None, score: float) -> str:
    if parent_score is None:
        return "scored"
    return "equal" if score == parent_score else "better" if score > parent_score else "worse"


def _find_parent_score(result: function.IterationResult, fn: function.Function | None = None) -> float | None:
    """Returns the score of a child's first parent; without a child, that of the best parent."""
    candidate = fn.candidate if fn is not None else None
    by_id = {parent.candidate.id: parent for parent in result.parents if parent.candidate}
    parent = by_id.get(candidate.parents[0]) if candidate and candidate.parents else None
    parent = parent or (result.parents[-1] if result.parents else None)
    return parent.evaluation.score if parent is not None and parent.evaluation else None


def describe_change(meta: Mapping[str, Any]) -> str:
    """Returns the idea of a candidate, else a summary of its changed lines, else the name of its mutator."""
    idea, change = meta.get("idea"), meta.get("change")
    if isinstance(idea, str) and idea.strip():
        return idea
    if isinstance(change, str) and (counts := _CHANGED_LINES.match(change)):
        added_lines = [line[2:] for line in change.splitlines() if line.startswith("+ ")]
        line = next((line for line in added_lines if not line.startswith(_NOT_CODE)), "")
        return f"-{counts[1]} +{counts[2]} lines{f': {line}' if line else ''}"
    return str(meta.get("engine") or "")


def _describe_failure(failure: str) -> tuple[str, str]:
    """Returns the outcome and the reason of an iteration without children; no outcome if the budget is used up."""
    raised = _RAISED.match(failure)
    kind, reason = (raised[1], failure[raised.end() :]) if raised else ("", failure)
    if kind in ("BudgetExhausted", "BudgetUsed"):
        return "", reason
    return ("no response" if kind == "LLMError" else "unusable response"), reason


def _shorten_failure(evaluated: evaluation.Evaluation) -> str:
    """Returns the error of a failed evaluation; of a traceback, its last line."""
    lines = [line.strip() for line in str(evaluated.failure).strip().splitlines() if line.strip()]
    is_traceback = any(line.startswith("Traceback (most recent call last)") for line in lines)
    return lines[-1] if is_traceback else " ".join(lines)


def format_scores(old: float | None, new: float) -> str:
    """Formats two scores with enough digits to distinguish them, and their difference."""
    if old is None:
        return f"- -> {_format_score(new)}"
    difference = new - old
    largest, has_only_integers = max(abs(old), abs(new)), old.is_integer() and new.is_integer()
    if has_only_integers and largest < 1e15:
        return f"{old:.0f} -> {new:.0f} ({difference:+.0f})"
    if largest >= 1e7 or 0 < largest < 1e-3:
        digits = next((digits for digits in range(7, 17) if f"{old:.{digits}g}" != f"{new:.{digits}g}"), 7)
        return f"{old:.{digits}g} -> {new:.{digits}g} ({difference:+.3g})"
    # The difference of unequal scores has a digit other than 0 too.
    decimals = next((d for d in range(6, _MAX_DECIMALS) if old == new or abs(difference) >= 10**-d), _MAX_DECIMALS)
    short_difference = f"{difference:+.{decimals}f}" if decimals <= _LONG_DECIMALS else f"{difference:+.2g}"
    return f"{old:.{decimals}f} -> {new:.{decimals}f} ({short_difference})"


def _format_score(score: float | None) -> str:
    if score is None:
        return "-"
    if score.is_integer() and abs(score) < 1e15:
        return f"{score:.0f}"
    return f"{score:.6f}" if 1e-3 <= abs(score) < 1e7 else f"{score:.7g}"
