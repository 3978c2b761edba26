"""The blocks of a prompt: what each shows of a task, as plain texts in templates."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from atoll import errors, evaluation, function, system
from atoll.mutation import text_blocks
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.token_limit import PromptPart
from atoll.secret_scanner import redact

_MAX_NAME_CHARS, _MAX_METRICS, _MAX_ARTIFACTS = 60, 30, 20
_MAX_READ_CHARS = 100_000  # characters of a body that are looked at
ROLE_LABELS = {"top": "good", "diverse": "different", "inspirations": "an inspiration"}


def format_label(name: str) -> str:
    """Returns a name that a candidate may have given as a word of ours: one line, no mark-up, not long."""
    safe_name = "".join(char if char.isalnum() or char in " _-.,:+/()" else "_" for char in name)
    return " ".join(safe_name.split())[:_MAX_NAME_CHARS] or "_"


def format_number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def format_metrics(fn: function.Function, direction: str) -> str:
    """Returns score and metrics, a line each."""
    result = fn.evaluation
    if result is None or result.score is None:
        return "Score: unknown" if result is None else "Score: none, it failed"
    lines = [
        f"- {format_label(name)}: {format_number(value)}" for name, value in list(result.metrics.items())[:_MAX_METRICS]
    ]
    return "\n".join([f"Score: {format_number(result.score)} ({direction})", *lines])


def format_features(fn: function.Function, features: Sequence[str]) -> str:
    """Returns where a program stands among those that the population tells apart."""
    values = fn.evaluation.metrics if fn.evaluation else {}
    builtin_values = {"complexity": float(len(str(fn.skeleton()))), "score": function.get_fitness(fn)}
    feature_values = {name: values.get(name, builtin_values.get(name)) for name in features}
    items = [
        f"{format_label(name)} = {format_number(value)}" for name, value in feature_values.items() if value is not None
    ]
    return f"Features: {', '.join(items)}" if items else ""


def describe_outcome(parent_score: float | None, child_score: float | None) -> str:
    """Says in words what a change did to the score."""
    if child_score is None:
        return "failed"
    if parent_score is None:
        return f"scored {format_number(child_score)}"
    if child_score > parent_score:
        return f"improved, from {format_number(parent_score)} to {format_number(child_score)}"
    return (
        f"declined, from {format_number(parent_score)} to {format_number(child_score)}"
        if child_score < parent_score
        else f"did not move {format_number(child_score)}"
    )


def make_last_change_part(fn: function.Function, templates: Templates) -> list[PromptPart]:
    """Says what the last change to a program was, and what came of it."""
    candidate = fn.candidate
    if candidate is None or "change" not in candidate.meta:
        return []
    parent_score: Any = candidate.meta.get("from_score")
    outcome = f"The change that made it {describe_outcome(parent_score, fn.score())}:"
    render = partial(_fill_template, templates, "improvement_areas", "changes", {"outcome": outcome})
    return [PromptPart(str(candidate.meta["change"]), render)]


def make_artifact_parts(
    fn: function.Function, blobs: system.BlobStore, templates: Templates, max_chars: int
) -> list[PromptPart]:
    """Returns what the evaluation said: feedback in words first, then each artifact under its name."""
    result = fn.evaluation
    if result is None:
        return []
    texts = {name: _read_artifact(blobs, ref) for name, ref in list(result.artifacts.items())[:_MAX_ARTIFACTS]}
    feedback = _strip_artifacts(result.feedback, texts)
    texts_by_name = {
        **({"failure": result.failure} if result.failure else {}),
        **({"feedback": feedback} if feedback else {}),
        **texts,
    }
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


def _strip_artifacts(feedback: str, texts: Mapping[str, str]) -> str:
    """Returns feedback without the artifacts and the output that it repeats."""
    for name, text in texts.items():
        for repeated in (f"{name}: {text}", text):
            if repeated.strip():
                feedback = feedback.replace(repeated.strip()[:2000], "", 1)
    return "\n".join(line for line in feedback.splitlines() if line.strip())


def make_attempt_parts(advice: object, templates: Templates) -> list[PromptPart]:
    """Returns what was tried last, the latest first, from the advice of the step."""
    rows = [row for row in advice if isinstance(row, Mapping)] if isinstance(advice, Sequence) else []
    parts = list[PromptPart]()
    for index, each in enumerate(rows, 1):
        text = "\n".join(str(each[key]) for key in ("change", "reason") if each.get(key))
        performance = f"Score: {format_number(_parse_number(each.get('score')))}, from {format_number(_parse_number(each.get('from_score')))}"
        values = {
            "attempt_number": str(index),
            "outcome": format_label(str(each.get("outcome"))),
            "performance": performance,
        }
        parts.append(
            PromptPart(redact(text), partial(_fill_template, templates, "previous_attempt", "changes", values))
        )
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
    """Returns programs that are not known yet, each with its score; a part of one is worth nothing."""
    parts = list[PromptPart]()
    for role, fns in groups.items():
        for fn in fns:
            text = str(fn.skeleton())
            if text in shown_texts or fn.evaluation is None:
                continue
            shown_texts.add(text)
            values = {
                **_make_values(fn, language),
                "program_number": str(len(parts) + 1),
                "program_type": ROLE_LABELS.get(role, role),
            }
            parts.append(
                PromptPart(
                    text, partial(_fill_template, templates, template, "program_snippet", values), is_indivisible=True
                )
            )
    return parts


def _make_values(fn: function.Function, language: str) -> Mapping[str, str]:
    metrics = fn.evaluation.metrics if fn.evaluation else {}
    items = ", ".join(f"{format_label(name)} = {format_number(value)}" for name, value in list(metrics.items())[:8])
    features = f"Metrics: {items}" if items else ""
    return {
        "score": format_number(fn.score()),
        "language": language,
        "key_features": features,
        "unique_features": features,
    }
