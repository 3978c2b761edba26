"""Sections of a prompt (metrics, features, artifacts, attempts, programs), and their shortening to a limit."""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random
from typing import Any

from atoll import errors, evaluation, function, system
from atoll.mutation import text_blocks
from atoll.programs.prompt.templates import Templates
from atoll.secret_scanner import redact

type SectionTexts = Mapping[str, Sequence[str]]

_TOKEN_PATTERN = re.compile(r"[A-Za-z]+|[0-9]|\n[ \t]*|[ \t]+|[\x21-\x7e]|[^\x00-\x7f]")
_LETTERS_PER_TOKEN = 3  # a low estimate
_MAX_COMPARED = 2000  # characters of an artifact that are looked up in the feedback
_MIN_DIGITS, _MAX_DIGITS = 6, 12


def make_score_format(values: Sequence[Any]) -> Callable[[Any], str]:
    """Returns a format with as many digits as it takes to tell all these scores apart, 6 to 12."""
    numbers = {float(value) for value in values if isinstance(value, int | float)}
    digits = next(
        (d for d in range(_MIN_DIGITS, _MAX_DIGITS) if len({f"{n:.{d}g}" for n in numbers}) == len(numbers)),
        _MAX_DIGITS,
    )
    return lambda value: f"{value:.{digits}g}" if isinstance(value, int | float) else "none"


def estimate_tokens(text: str) -> int:
    """Estimates the number of tokens, rather too many, since tokenizers differ.

    A word counts one per three letters; a digit, a mark and an indentation one; letters of other alphabets two.
    """
    count = 0
    for piece in _TOKEN_PATTERN.findall(text):
        is_word = piece.isalpha() and piece.isascii()
        count += -(-len(piece) // _LETTERS_PER_TOKEN) if is_word else 1 + (not piece.isascii())
    return count


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of a section.

    Attributes:
        text: The text; its middle may be cut unless `is_indivisible`.
        render: Fills the template with the remaining text.
        is_indivisible: Half of it would be useless, as with programs.
    """

    text: str
    render: Callable[[str], str] = str
    is_indivisible: bool = False

    def __str__(self) -> str:
        return self.render(self.text)

    def shorten(self, excess: int, min_chars: int) -> "PromptPart | None":
        """Returns a copy shorter by about `excess` characters, or None if it cannot be shortened."""
        size = max(min_chars, len(self.text) - excess)
        if self.is_indivisible or size >= len(self.text):
            return None
        return replace(self, text=text_blocks.cut_middle(self.text, size))


@dataclass(frozen=True, slots=True)
class PromptSection:
    """Content of a placeholder: parts, most important first. The section with the lowest priority is cut first."""

    name: str
    parts: Sequence[PromptPart]
    priority: int


def fit_to_limit(
    sections: Sequence[PromptSection], assemble: Callable[[SectionTexts], str], limit: int, min_chars: int = 300
) -> tuple[str, Sequence[str]]:
    """Returns the prompt shortened to `limit` characters, and descriptions of the cuts.

    Parts are shortened to at least `min_chars` characters or removed, last parts of low-priority sections first. If
    nothing is left to cut, the prompt is longer than the limit.
    """
    remaining = {section.name: [(part, str(part)) for part in section.parts] for section in sections}
    cut = dict[str, str]()

    def assemble_remaining() -> str:
        return assemble({name: [text for _, text in parts] for name, parts in remaining.items()})

    text = assemble_remaining()
    for section in sorted(sections, key=lambda section: section.priority):
        parts = remaining[section.name]
        while len(text) > limit and parts:
            part, rendered = parts.pop()
            shortened = part.shorten(len(text) - limit, min_chars)
            if shortened is not None and len(str(shortened)) < len(rendered):
                parts.append((shortened, str(shortened)))
            part_name = f"{section.name} {len(parts) + (shortened is None)}"
            cut[part_name] = "in part" if shortened is not None else "left out"
            text = assemble_remaining()
    return text, [f"{name} {action}" for name, action in cut.items()]


_MAX_NAME_CHARS, _MAX_METRICS, _MAX_ARTIFACTS = 60, 30, 20
_MAX_READ_CHARS = 100_000  # of an artifact
_ATTEMPT_FRAGMENTS = {"improved": "attempt_all_metrics_improved", "declined": "attempt_all_metrics_regressed"}
_FAILURES = ("failed", "refused")  # outcomes that OpenEvolve never shows
ROLE_LABELS = {"top": "good", "diverse": "different", "inspirations": "an inspiration"}


def format_label(name: str) -> str:
    """Returns an untrusted name as a safe label: one line, no markup, bounded length."""
    safe_name = "".join(char if char.isalnum() or char in " _-.,:+/()" else "_" for char in name)
    return " ".join(safe_name.split())[:_MAX_NAME_CHARS] or "_"


def format_number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def format_metrics(fn: function.Function, direction: str) -> str:
    """Returns the score and the metrics, one per line."""
    result = fn.evaluation
    if result is None or result.score is None:
        return "Score: unknown" if result is None else "Score: none, it failed"
    lines = [
        f"- {format_label(name)}: {format_number(value)}" for name, value in list(result.metrics.items())[:_MAX_METRICS]
    ]
    return "\n".join([f"Score: {format_number(result.score)} ({direction})", *lines])


def format_features(fn: function.Function, features: Sequence[str]) -> str:
    """Returns the feature values of a program."""
    values = fn.evaluation.metrics if fn.evaluation else {}
    builtin_values = {"complexity": float(len(str(fn.skeleton()))), "score": function.get_fitness(fn)}
    feature_values = {name: values.get(name, builtin_values.get(name)) for name in features}
    items = [
        f"{format_label(name)} = {format_number(value)}" for name, value in feature_values.items() if value is not None
    ]
    return f"Features: {', '.join(items)}" if items else ""


def describe_outcome(parent_score: float | None, child_score: float | None) -> str:
    """Describes the effect of a change on the score."""
    if child_score is None:
        return "failed"
    if parent_score is None:
        return f"scored {format_number(child_score)}"
    if child_score > parent_score:
        return f"improved, from {format_number(parent_score)} to {format_number(child_score)}"
    if child_score < parent_score:
        return f"declined, from {format_number(parent_score)} to {format_number(child_score)}"
    return f"unchanged, at {format_number(child_score)}"


def make_last_change_part(fn: function.Function, templates: Templates) -> list[PromptPart]:
    """Returns the last change to a program and its effect."""
    candidate = fn.candidate
    if candidate is None or "change" not in candidate.meta:
        return []
    parent_score: Any = candidate.meta.get("from_score")
    outcome = f"Last change to this program ({describe_outcome(parent_score, fn.score())}):"
    if parent_score is not None and (score := fn.score()) is not None:
        fragment = f"fitness_{'improved' if score > parent_score else 'declined' if score < parent_score else 'stable'}"
        outcome = templates.format_fragment(fragment, outcome, prev=parent_score, current=score)
    render = partial(_fill_template, templates, "improvement_areas", "changes", {"outcome": outcome})
    return [PromptPart(str(candidate.meta["change"]), render)]


def make_artifact_parts(
    fn: function.Function, blobs: system.BlobStore, templates: Templates, max_chars: int
) -> list[PromptPart]:
    """Returns failure, feedback and artifacts of the evaluation, each under its name."""
    result = fn.evaluation
    if result is None:
        return []
    texts = {name: _read_artifact(blobs, ref) for name, ref in list(result.artifacts.items())[:_MAX_ARTIFACTS]}
    failure = {"failure": result.failure} if result.failure else {}
    feedback = _strip_artifacts(result.feedback, {**failure, **texts})
    if result.failure:
        texts = {name: text for name, text in texts.items() if not _repeats_failure(name, text.strip(), result.failure)}
    texts_by_name = {**failure, **({"feedback": feedback} if feedback else {}), **texts}
    return [
        PromptPart(
            text_blocks.cut_middle(text, max_chars),
            partial(_fill_template, templates, "artifact", "body", {"key": format_label(name)}),
        )
        for name, raw_text in texts_by_name.items()
        if (text := redact(raw_text).strip())
    ]


def _fill_template(templates: Templates, name: str, placeholder: str, values: Mapping[str, str], text: str) -> str:
    return templates.fill(name, {**values, placeholder: text})


def _read_artifact(blobs: system.BlobStore, ref: evaluation.BlobRef) -> str:
    try:
        body = blobs.load_blob(ref)
    except errors.NotFound:
        return ref.head
    if b"\0" in body[:1000]:
        return f"[{len(body)} bytes]"
    return text_blocks.cut_middle(body.decode("utf-8", "replace"), _MAX_READ_CHARS)


def _repeats_failure(name: str, text: str, failure: str) -> bool:
    """Says whether an artifact of a failure adds nothing to its text."""
    if name in ("error_type", "stderr"):
        return text in failure
    return name == "attempt" or (name, text) == ("failure_stage", "evaluation")


def _strip_artifacts(feedback: str, texts: Mapping[str, str]) -> str:
    """Returns the feedback without artifacts and output that are shown separately."""
    for name, text in texts.items():
        for repeated in (f"{name}: {text}", text):
            start = repeated.strip()[:_MAX_COMPARED]
            end = "$" if len(start) < _MAX_COMPARED else ""
            lines = re.compile(rf"^(?:\w+ failed: )?{re.escape(start)}{end}", re.MULTILINE)  # never a part of a line
            feedback = lines.sub("", feedback, count=1) if start else feedback
    return "\n".join(line for line in feedback.splitlines() if line.strip())


def make_attempt_parts(advice: object, templates: Templates) -> list[PromptPart]:
    """Returns the latest attempts, newest first, from the advice."""
    rows = [row for row in advice if isinstance(row, Mapping)] if isinstance(advice, Sequence) else []
    parts = list[PromptPart]()
    for index, row in enumerate(rows, 1):
        text = "\n".join(str(row[key]) for key in ("change", "reason") if row.get(key))
        score, parent_score = (format_number(_parse_number(row.get(key))) for key in ("score", "from_score"))
        outcome = format_label(str(row.get("outcome")))
        fragment = _ATTEMPT_FRAGMENTS.get(outcome, "attempt_mixed_metrics")
        outcome = outcome if outcome in _FAILURES else templates.format_fragment(fragment, outcome)
        values = {"attempt_number": str(index), "outcome": outcome}
        values["performance"] = f"Score: {score}, from {parent_score}"
        render = partial(_fill_template, templates, "previous_attempt", "changes", values)
        parts.append(PromptPart(redact(text), render))
    return parts


def _parse_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def make_program_parts(
    groups: Mapping[str, Sequence[function.Function]],
    template: str,
    templates: Templates,
    language: str,
    shown_texts: set[str],
) -> list[PromptPart]:
    """Returns programs that are not shown elsewhere, each with its score; they are never shortened."""
    parts = list[PromptPart]()
    for role, fns in groups.items():
        for fn in fns:
            text = str(fn.skeleton())
            if text in shown_texts or fn.evaluation is None:
                continue
            shown_texts.add(text)
            label = templates.format_fragment(f"inspiration_type_{role}", ROLE_LABELS.get(role, role))
            values = {"program_number": str(len(parts) + 1), "program_type": label}
            values |= _make_values(fn, language)
            render = partial(_fill_template, templates, template, "program_snippet", values)
            parts.append(PromptPart(text, render, is_indivisible=True))
    return parts


def _make_values(fn: function.Function, language: str) -> Mapping[str, str]:
    metrics = fn.evaluation.metrics if fn.evaluation else {}
    items = ", ".join(f"{format_label(name)} = {format_number(value)}" for name, value in list(metrics.items())[:8])
    features = f"Metrics: {items}" if items else ""
    values = {"score": format_number(fn.score()), "language": language}
    return values | {"key_features": features, "unique_features": features}


def format_attempts(advice: object, format_score: Callable[[Any], str]) -> Sequence[str]:
    """Returns one line per earlier change: its outcome and the LLM's own idea."""
    rows = [row for row in advice if isinstance(row, Mapping)] if isinstance(advice, Sequence) else []
    lines = list[str]()
    for row in rows:
        idea = shorten(str(row.get("idea") or _describe_change(str(row.get("change") or ""))), 300)
        why = f" Why: {flatten(str(row['why']), 200)}" if row.get("why") else ""
        reason = flatten(str(row.get("reason") or ""), 300)
        score, difference = row.get("score"), row.get("difference")
        outcome = str(row.get("outcome"))
        if score is not None:
            change = f" ({difference:+.6g})" if isinstance(difference, int | float) else ""
            outcome = f"score {format_score(score)}{change}"
        elif reason:
            outcome = f"{outcome}: {reason}"
        lines.append(f"- {outcome.rstrip('.')}. Change: {idea}{why}" if idea else f"- {outcome}")
    return list(dict.fromkeys(lines))  # different changes may have the same first lines


def _describe_change(change: str) -> str:
    """Returns a removed and a new statement of a change; whole diffs in a list of changes get copied into programs."""
    parts = list[str]()
    for sign, verb in (("-", "removed"), ("+", "added")):
        lines = [line[1:].strip() for line in change.splitlines() if line.startswith(sign)]
        plain = [line for line in lines if line and not line.startswith(("import ", "from ", "#", '"', "'", "//"))]
        parts += [f"{verb} `{plain[0]}`"] if plain else []
    return ", ".join(parts) or ("only comments or imports" if change else "")


def format_notes(advice: object, format_score: Callable[[Any], str]) -> Sequence[str]:
    """Returns the notes of the run on changes that helped and on repeated errors."""
    rows = [row for row in advice if isinstance(row, Mapping)] if isinstance(advice, Sequence) else []
    lines = list[str]()
    for row in rows:
        if row.get("text"):
            lines.append(f"- {str(row.get('note')).capitalize()}: {flatten(str(row['text']), 200)}")
        elif row.get("note") == "helped":
            difference = row.get("difference")
            gain = f" ({difference:+.6g})" if isinstance(difference, int | float) else ""
            idea = str(row.get("idea") or "")
            idea = _describe_change(idea) or "a change" if "\n+" in idea else idea
            lines.append(f"- Helped{gain}: {flatten(idea, 200)}")
        else:
            lines.append(f"- Failed {row.get('count')} times: {flatten(str(row.get('reason')), 200)}")
    return lines


def shorten(text: str, max_chars: int) -> str:
    """Returns the beginning of a text on one line. A mark in its middle would be copied into programs."""
    return textwrap.shorten(flatten(text, len(text) + max_chars), max_chars, placeholder=" ...")


@lru_cache(maxsize=512)  # prompts repeat the ideas and errors of earlier ones
def flatten(text: str, max_chars: int) -> str:
    """Returns a text on one line, shortened in the middle, without fences and secrets."""
    line = " ".join(redact(text).replace("```", "'''").split())
    return " ".join(text_blocks.cut_middle(line, max_chars).split())


@lru_cache(maxsize=4)
def redact_source(source: str) -> str:
    """Returns a source without possible secrets; prompts show the same one again and again."""
    return redact(source).strip()


def copy_rng(rng: Random) -> Random:
    """Returns a copy, so that drawing from it changes no later random number.

    `copy.copy` takes longer: it reads random numbers of the system first.
    """
    copied = Random(0)
    copied.setstate(rng.getstate())
    return copied
