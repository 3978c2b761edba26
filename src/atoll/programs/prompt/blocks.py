"""The blocks of a prompt: what each shows of a task, as plain texts in templates."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from atoll import errors, evaluation, function, system
from atoll.mutation import cuts
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.window import Part
from atoll.secrets import redacted

_LONGEST_NAME, _MOST_METRICS, _MOST_ARTIFACTS = 60, 30, 20
_LONGEST_READ = 100_000  # characters of a body that are looked at
KINDS = {"top": "good", "diverse": "different", "inspirations": "an inspiration"}


def label(name: str) -> str:
    """Returns a name that a candidate may have given as a word of ours: one line, no mark-up, not long."""
    kept = "".join(each if each.isalnum() or each in " _-.,:+/()" else "_" for each in name)
    return " ".join(kept.split())[:_LONGEST_NAME] or "_"


def number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"


def metrics_text(fn: function.Function, direction: str) -> str:
    """Returns score and metrics, a line each."""
    found = fn.evaluation
    if found is None or found.score is None:
        return "Score: unknown" if found is None else "Score: none, it failed"
    shown = [f"- {label(name)}: {number(value)}" for name, value in list(found.metrics.items())[:_MOST_METRICS]]
    return "\n".join([f"Score: {number(found.score)} ({direction})", *shown])


def coordinates(fn: function.Function, features: Sequence[str]) -> str:
    """Returns where a program stands among those that the population tells apart."""
    values = fn.evaluation.metrics if fn.evaluation else {}
    built_in = {"complexity": float(len(str(fn.skeleton()))), "score": function.rank_of(fn)}
    known = {name: values.get(name, built_in.get(name)) for name in features}
    shown = [f"{label(name)} = {number(value)}" for name, value in known.items() if value is not None]
    return f"Features: {', '.join(shown)}" if shown else ""


def outcome_of(before: float | None, after: float | None) -> str:
    """Says in words what a change did to the score."""
    if after is None:
        return "failed"
    if before is None:
        return f"scored {number(after)}"
    if after > before:
        return f"improved, from {number(before)} to {number(after)}"
    return f"declined, from {number(before)} to {number(after)}" if after < before else f"did not move {number(after)}"


def history(fn: function.Function, templates: Templates) -> list[Part]:
    """Says what the last change to a program was, and what came of it."""
    born = fn.candidate
    if born is None or "change" not in born.meta:
        return []
    before: Any = born.meta.get("from_score")
    happened = f"The change that made it {outcome_of(before, fn.score())}:"
    fill = partial(_filled, templates, "improvement_areas", "changes", {"outcome": happened})
    return [Part(str(born.meta["change"]), fill)]


def artifacts(fn: function.Function, bodies: system.Bodies, templates: Templates, longest: int) -> list[Part]:
    """Returns what the evaluation said: feedback in words first, then each artifact under its name."""
    found = fn.evaluation
    if found is None:
        return []
    texts = {name: _body(bodies, ref) for name, ref in list(found.artifacts.items())[:_MOST_ARTIFACTS]}
    own = _own_words(found.feedback, texts)
    named = {**({"failure": found.failure} if found.failure else {}), **({"feedback": own} if own else {}), **texts}
    return [
        Part(cuts.middle_cut(text, longest), partial(_filled, templates, "artifact", "body", {"key": label(name)}))
        for name, said in named.items()
        if (text := redacted(said).strip())
    ]


def _filled(templates: Templates, name: str, place: str, values: Mapping[str, str], text: str) -> str:
    return templates.fill(name, {**values, place: text})


def _body(bodies: system.Bodies, ref: evaluation.BlobRef) -> str:
    try:
        body = bodies.body(ref)
    except errors.NotFound:
        return ref.head
    if b"\0" in body[:1000]:
        return f"[{len(body)} bytes]"
    return cuts.middle_cut(body.decode("utf-8", "replace"), _LONGEST_READ)


def _own_words(feedback: str, texts: Mapping[str, str]) -> str:
    """Returns feedback without the artifacts and the output that it repeats."""
    for name, text in texts.items():
        for said in (f"{name}: {text}", text):
            if said.strip():
                feedback = feedback.replace(said.strip()[:2000], "", 1)
    return "\n".join(line for line in feedback.splitlines() if line.strip())


def attempts(told: object, templates: Templates) -> list[Part]:
    """Returns what was tried last, the latest first, from the advice of the step."""
    tried = [each for each in told if isinstance(each, Mapping)] if isinstance(told, Sequence) else []
    parts = list[Part]()
    for place, each in enumerate(tried, 1):
        said = "\n".join(str(each[key]) for key in ("change", "reason") if each.get(key))
        performance = f"Score: {number(_number(each.get('score')))}, from {number(_number(each.get('from_score')))}"
        values = {"attempt_number": str(place), "outcome": label(str(each.get("outcome"))), "performance": performance}
        parts.append(Part(redacted(said), partial(_filled, templates, "previous_attempt", "changes", values)))
    return parts


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def programs(
    groups: Mapping[str, Sequence[function.Function]],
    template: str,
    templates: Templates,
    language: str,
    known: set[str],
) -> list[Part]:
    """Returns programs that are not known yet, each with its score; a part of one is worth nothing."""
    parts = list[Part]()
    for role, fns in groups.items():
        for fn in fns:
            text = str(fn.skeleton())
            if text in known or fn.evaluation is None:
                continue
            known.add(text)
            values = {
                **_values(fn, language),
                "program_number": str(len(parts) + 1),
                "program_type": KINDS.get(role, role),
            }
            parts.append(Part(text, partial(_filled, templates, template, "program_snippet", values), is_whole=True))
    return parts


def _values(fn: function.Function, language: str) -> Mapping[str, str]:
    found = fn.evaluation.metrics if fn.evaluation else {}
    shown = ", ".join(f"{label(name)} = {number(value)}" for name, value in list(found.items())[:8])
    features = f"Metrics: {shown}" if shown else ""
    return {"score": number(fn.score()), "language": language, "key_features": features, "unique_features": features}
