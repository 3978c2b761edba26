"""Prompts of the policy `leader`: a system message for the whole run, and a user message that shows its state."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from atoll import errors, function, llm, mutation, system
from atoll.programs.evaluation import failures
from atoll.programs.prompt import sections as prompt_sections
from atoll.programs.prompt.sections import PromptPart, PromptSection, SectionTexts, estimate_tokens, fit_to_limit
from atoll.programs.prompt.templates import Templates

_UNITS = {"text": "text", "json": "set of values"}
_COMMENTS = {"python": "#", "r": "#", "rust": "//", "javascript": "//"}
_REPEAT_TEMPERATURE_SHIFT = 0.3  # for `new`, and for a second call after a repeated program
_EDIT_FORM = (
    "Answer with one line `IDEA:` that states your change in one sentence, then with one block for each place that "
    "changes. Copy complete lines of the {unit} into its upper part:\n"
    "<<<<<<< SEARCH\nlines of the {unit}\n=======\nnew lines\n>>>>>>> REPLACE"
)
_TEXT_FORM = (
    "Answer with one line `IDEA:` that states your change in one sentence, then with the complete new {unit} in one "
    "fenced block. It must differ from the one above."
)
_OPENING = (
    "You improve one {}, one change at a time. An evaluator runs every version and returns a score; {}. A version that "
    "fails costs as much as one that works."
)
_TEXT_OPENING = "You improve one {}. An evaluator uses every version and returns a score; {}."
_FOCUSES = (
    "Find what limits the score, and change that.",
    "Replace the weakest step by a better algorithm.",
    "Change the structure of the {unit}, not only its constants.",
    "Improve the {unit} so that its score rises.",
    "Change numbers and formulas: they may be far from the best ones.",
)
_ADD_FORM = (
    "Answer with one fenced block that has only the new lines, one rule or fact per line. The lines of the {unit} "
    "above stay as they are."
)
_TEXT_TASK = (
    "Find out from the evaluation what is asked and what a right result looks like. Then write {result}. State every "
    "name, rule, format and fact that the evaluation teaches: the user of the {unit} does not see the evaluation."
)
_TEXT_FOCUSES = (
    "Find what the failures have in common, and state the rule that prevents them.",
    "State which results are allowed, and when each of them is right.",
    "State the steps to take, and the exact form of the result.",
    "Keep what works, remove what misleads, and state the rest more clearly.",
)
_DIRECTIONS_FORM = (
    "Below the first line of the program, write two more comments that begin with `{comment} NEXT:`, each with one "
    "other method that is worth a try."
)
_VALUE_FOCUSES = (
    "Change the values that the feedback asks to change.",
    "Change the value that limits the score most.",
    "Try values far from those listed above.",
)
_CASE_FOCUS = "Handle the cases in which it does worst."
_TIME_FOCUS = "The evaluation takes {used} of {limit} seconds. Use more of that time to reach a higher score."
_OTHER_FOCUS = "Take one idea of another {unit} above that this one does not have."


@dataclass(frozen=True, slots=True)
class SearchPromptBuilder:
    """Builds the prompt of an iteration. Depends only on the context and the request.

    Attributes:
        blobs: Storage of artifacts.
        description: Purpose of the program.
        language: Language of the program.
        direction: Meaning of the score, such as "higher is better".
        interface: Names that the evaluator needs.
        limits: Limits of an evaluation, in words.
        evaluator: Source of the evaluator; empty: hidden.
        max_seconds: Time limit of an evaluation; None: show no times, so that equal runs have equal prompts.
        target: Score at which the run ends.
        templates: Templates of the prompt.
        limit: Maximum prompt length in characters.
        max_artifact: Maximum length of an artifact; 0 hides artifacts.
        max_tokens: Maximum estimated tokens; None: only characters count.
    """

    blobs: system.BlobStore
    description: str = ""
    language: str = "python"
    direction: str = "higher is better"
    interface: str = ""
    limits: str = ""
    evaluator: str = ""
    max_seconds: float | None = None
    target: float | None = None
    templates: Templates = field(default_factory=Templates.read)
    limit: int = 60_000
    max_artifact: int = 20_000
    max_tokens: int | None = None

    def __call__(self, context: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
        """Returns a prompt of at most `limit` characters and `max_tokens` tokens.

        Raises:
            SetupError: The program and the instructions alone are longer.
        """
        sections, limit = self._make_sections(context, request), self.limit
        assemble = partial(self._assemble, context, request)
        text, cut = fit_to_limit(sections, assemble, limit)
        while len(text) <= limit and self.max_tokens and (excess := estimate_tokens(text) / self.max_tokens) > 1:
            limit = int(len(text) / excess)  # tokens shrink roughly in proportion
            text, cut = fit_to_limit(sections, assemble, limit)
        if len(text) > limit:
            max_size, key = (limit, "chars") if limit == self.limit else (f"{self.max_tokens} tokens", "tokens")
            raise errors.SetupError(
                f"A program of {len(str(request.parent.skeleton()))} characters does not fit into a prompt of "
                f"{max_size}: raise programs.prompt_{key}, or shorten it."
            )
        return mutation.Prompt(text, cut)

    @property
    def _unit(self) -> str:
        return _UNITS.get(self.language, "program")

    def _make_sections(
        self, context: function.ProposalContext, request: mutation.EditRequest
    ) -> Sequence[PromptSection]:
        format_score = prompt_sections.make_score_format(_list_scores(context, request))
        others = self._make_program_parts(context, request, format_score)
        attempts = prompt_sections.format_attempts(context.advice.get("attempts"), format_score)
        notes = prompt_sections.format_notes(context.advice.get("run_notes"), format_score)
        artifacts = self._make_artifact_parts(request.parent)
        metrics = self._format_metrics(request.parent, format_score)
        sections = [
            PromptSection("other_programs", others, 1),
            PromptSection("run_notes", [PromptPart(note, is_indivisible=True) for note in notes], 2),
            PromptSection("previous_attempts", [PromptPart(line, is_indivisible=True) for line in attempts], 3),
            PromptSection("artifacts", artifacts, 4),
            PromptSection("evaluator", self._make_evaluator_parts(request.parent), 5),
            PromptSection("last_answer", _make_parts(request.response), 6),
            PromptSection("metrics", _make_parts(metrics), 7),
            PromptSection("fault", _make_parts(request.failure), 8),
            PromptSection("description", _make_parts(self.description.strip()), 9),
        ]
        return [section for section in sections if section.parts]

    def _make_artifact_parts(self, parent: function.Function) -> Sequence[PromptPart]:
        if not self.max_artifact:
            return []
        parts = prompt_sections.make_artifact_parts(parent, self.blobs, self.templates, self.max_artifact)
        return [part for part in parts if part.text != "It printed nothing."]

    def _make_evaluator_parts(self, parent: function.Function) -> Sequence[PromptPart]:
        """Returns the evaluator's source; for a text only without feedback, since Python would mislead."""
        has_feedback = bool(parent.evaluation and parent.evaluation.feedback)
        source = "" if self.language == "text" and has_feedback else prompt_sections.redact_source(self.evaluator)
        return [PromptPart(source, partial(mutation.fence, language="python"))] if source else []

    def _make_program_parts(
        self, context: function.ProposalContext, request: mutation.EditRequest, format_score: Callable[[Any], str]
    ) -> list[PromptPart]:
        """Returns the other programs, the most important first: a partner, the best, and the rest."""
        parent, parts, shown_texts = request.parent, list[PromptPart](), {str(request.parent.skeleton())}
        roles, other_parts = context.inspirations, context.advice.get("other_parts")
        if context.advice.get("operator") == "fix":  # others would distract, and small LLMs copy them
            roles = {"best": roles.get("best", ())}
        for name, text in other_parts.items() if isinstance(other_parts, Mapping) else ():
            title = f"Other part `{prompt_sections.format_label(name)}`, which does not change"
            render = partial(self._render_program, {"title": title, "language": self.language})
            parts.append(PromptPart(str(text), render))
        labeled = [("Second program", request.partner)] if request.partner else []
        labeled += [("Best program so far", fn) for fn in roles.get("best", ())]
        labeled += [
            ("Another program", fn) for role, fns in roles.items() if role not in ("best", "failed") for fn in fns
        ]
        for label, fn in labeled:
            text = str(fn.skeleton())
            if text in shown_texts or fn.evaluation is None:
                continue
            shown_texts.add(text)
            difference = _describe_difference(fn, parent, format_score)
            label = label.replace("program", self._unit)
            values = {"title": f"{label}: score {format_score(fn.score())}{difference}", "language": self.language}
            render = partial(self._render_program, values)
            parts.append(PromptPart(self._format_program(fn), render, is_indivisible=True))
        return parts

    def _format_program(self, fn: function.Function) -> str:
        """Returns a program without markers, with its idea as the first comment, as in the requested answer."""
        meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
        text = mutation.hide_markers(str(fn.skeleton()))
        idea = str(meta.get("idea") or "")
        if not idea or self.language not in _COMMENTS or idea in text:
            return text
        return f"{_COMMENTS[self.language]} IDEA: {prompt_sections.shorten(idea, 160)}\n{text}"

    def _render_program(self, values: Mapping[str, str], text: str) -> str:
        return self.templates.fill("search_program", {**values, "program_snippet": text})

    def _format_metrics(self, fn: function.Function, format_score: Callable[[Any], str]) -> str:
        """Returns metrics and evaluation time; the score is in the title of the program."""
        result = fn.evaluation
        if result is None:
            return ""
        metrics = [
            f"- {prompt_sections.format_label(name)}: {value:.9g}"
            for name, value in list(result.metrics.items())[:30]
            if value != result.score or len(result.metrics) > 1
        ]
        if 1 < len(result.scores) <= 1000 and result.score is not None:
            low, high = format_score(min(result.scores)), format_score(max(result.scores))
            metrics.append(f"- mean over {len(result.scores)} instances; the lowest has {low}, the highest {high}")
        if self.max_seconds is not None and result.cost.seconds:
            count = max(1 + result.repeats, math.ceil(result.cost.seconds / self.max_seconds))  # new bests run twice
            metrics.append(f"- evaluation time: {result.cost.seconds / count:.2g} s of {self.max_seconds:g} s")
        return "\n".join(metrics)

    def _assemble(
        self, context: function.ProposalContext, request: mutation.EditRequest, texts: SectionTexts
    ) -> llm.ChatPrompt:
        """Fills the templates.

        A second call after an invalid program continues the conversation. After an answer without a new program it is a
        new prompt with another focus, because LLMs repeat their own answers.
        """
        fill, unit = self.templates.fill, self._unit
        joined = {name: "\n".join(parts) for name, parts in texts.items()}
        names = {"unit": unit, "language": self.language, "comment": _COMMENTS.get(self.language, "#")}
        kind = unit if self.language in _UNITS else f"{self.language.capitalize()} program"
        constants = (
            "A tuner searches good values after your change. To give it a range, write a comment behind a constant, "
            "such as `WIDTH = 0.3  # tunable: 0.1..0.9`."
            if self.language == "python"
            else ""
        )
        system_values = {"opening": (_TEXT_OPENING if unit == "text" else _OPENING).format(kind, self.direction)}
        system_values |= {"kind": kind, "direction": self.direction, "description": joined.get("description", "")}
        system_values |= {"interface": self.interface, "limits": self.limits, "constants": constants}
        system_values |= {"evaluator": joined.get("evaluator", "")}
        is_fresh = bool(request.failure) and (request.is_repeat or request.kind == "unreadable")
        values = {
            **names,
            "state": self._describe_state(context),
            "title": self._make_title(context, request),
            "current_program": self._format_program(request.parent),
            "run_notes": joined.get("run_notes", ""),
            "other_programs": "\n\n".join(reversed(texts.get("other_programs", ()))),
            "metrics": joined.get("metrics", ""),
            "artifacts": "\n\n".join(texts.get("artifacts", ())),
            "previous_attempts": joined.get("previous_attempts", ""),
            "answer": self._write_answer(request, names),
            "instruction": self._write_instruction(context, request, joined.get("fault", "") if is_fresh else ""),
        }
        is_new = context.advice.get("operator") == "new" or is_fresh
        shift = context.advice.get("temperature_shift", 0.0)
        prompt = llm.ChatPrompt(
            ("system", fill("search_system", system_values)),
            ("user", fill("search_user", values) + "\n"),
            temperature_shift=_REPEAT_TEMPERATURE_SHIFT if is_new else _to_float(shift),
            effort_shift=int(is_new or _is_stagnant(context)),
        )
        if not request.failure or is_fresh:
            return prompt
        repair = fill("repair", {"fault": joined.get("fault", "")})
        return llm.continue_prompt(prompt, joined.get("last_answer", ""), repair)

    def _describe_state(self, context: function.ProposalContext) -> str:
        state: Any = context.advice.get("state")
        if not isinstance(state, Mapping):
            return ""
        format_score = prompt_sections.make_score_format([state.get("best"), state.get("initial"), self.target])
        sentences = [f"Iteration {context.iteration}."]
        budget, calls = state.get("budget"), state.get("calls", 0)
        if budget is not None and calls < budget:  # a resumed run may have more calls than the first budget
            sentences.append(f"{budget - calls} of {budget} calls left.")
        if state.get("best") is not None:
            sentences.append(f"Best score so far: {format_score(state['best'])}.")
        if state.get("initial") is not None:
            sentences.append(f"Score of the initial {self._unit}: {format_score(state['initial'])}.")
        if self.target is not None:
            sentences.append(f"Target: {format_score(self.target)}.")
        if (since := state.get("since", 0)) > 2:
            sentences.append(f"The last {since} versions brought no gain.")
        return " ".join(sentences)

    def _make_title(self, context: function.ProposalContext, request: mutation.EditRequest) -> str:
        fn, operator = request.parent, context.advice.get("operator")
        state: Any = context.advice.get("state") or {}
        format_score = prompt_sections.make_score_format(_list_scores(context, request))
        is_best = bool(fn.candidate) and state.get("best_id") == (fn.candidate.id if fn.candidate else "")
        score = format_score(fn.score() if fn.evaluation else None)
        if fn.evaluation is not None and failures.find_error(fn.evaluation):
            score = f"{score}, it fails"
        if operator == "new":
            name = f"Best {self._unit} so far" if is_best else f"Initial {self._unit}"
        else:
            part = context.advice.get("part")
            what = f"Part `{prompt_sections.format_label(str(part))}`" if part else self._unit.capitalize()
            name = f"{what} to {'repair' if operator == 'fix' else 'improve'}"
        return f"{name}: score {score}{', the best so far' if is_best and operator != 'new' else ''}"

    def _write_instruction(self, context: function.ProposalContext, request: mutation.EditRequest, fault: str) -> str:
        """Returns the operator, the focus and the requested form; after a useless answer, with its fault."""
        rng = prompt_sections.copy_rng(context.rng)  # a second prompt repeats the draw
        rng.random()
        sentences = [f"Your last answer could not be used: {prompt_sections.flatten(fault, 300)}"] if fault else []
        operator, has_attempts = context.advice.get("operator"), bool(context.advice.get("attempts"))
        if request.partner is not None:
            sentences.append("Combine the second {unit} with this one: keep the better parts of each.")
        elif operator == "new":
            direction = context.advice.get("direction")
            method = prompt_sections.flatten(str(direction), 200).rstrip(".") if direction else ""
            method = f"this method: {method}" if method else "a different method"
            sentences.append(
                f"Write a {{unit}} that solves the task by {method}. It is not a variation of the one above, and may "
                "score lower at first."
            )
            if context.advice.get("asks_directions") and self.language in _COMMENTS:
                sentences.append(_DIRECTIONS_FORM.replace("{comment}", _COMMENTS[self.language]))
        elif operator == "fix":
            sentences.append("The {unit} fails, see its evaluation. Repair it, and keep its idea.")
        else:
            is_text = self.language == "text"
            result = "lines to add to the {unit}" if request.mode == "add" else "a better {unit}"
            sentences += [_TEXT_TASK.replace("{result}", result)] if is_text else []
            sentences.append(self._choose_focus(context, request, rng, 1 if fault else 0))
            if is_text:
                sentences += ["Do not repeat a change listed above."] if has_attempts else []
            else:
                sentences.append("Make one change that is not listed above." if has_attempts else "Make one change.")
        texts = [sentence.replace("{unit}", self._unit) for sentence in sentences]
        if editable := mutation.describe_editable_part(str(request.parent.skeleton())):
            is_free = self._unit == "program" and not editable.startswith("the line")
            texts += [f"Edit only {editable}.", *(["You may add functions."] if is_free else [])]
            texts.append(f"The rest of the {self._unit} stays as it is.")
        return " ".join(texts)

    def _write_answer(self, request: mutation.EditRequest, names: Mapping[str, str]) -> str:
        """Returns the requested form of the answer. A small LLM follows a form that it sees."""
        if request.mode == "diff":
            return _EDIT_FORM.format(**names)
        if self.language not in _COMMENTS:
            return (_ADD_FORM if request.mode == "add" else _TEXT_FORM).format(**names)
        return self.templates.fill("search_answer", names)

    def _choose_focus(
        self, context: function.ProposalContext, request: mutation.EditRequest, rng: Random, offset: int
    ) -> str:
        """Returns the direction of the notes, if the advice has one; otherwise a random focus."""
        direction = prompt_sections.flatten(str(context.advice.get("direction") or ""), 200).rstrip(".")
        return f"Try this: {direction}." if direction else self._draw_focus(context, request, rng, offset)

    def _draw_focus(
        self, context: function.ProposalContext, request: mutation.EditRequest, rng: Random, offset: int
    ) -> str:
        focuses = list({"text": _TEXT_FOCUSES, "json": _VALUE_FOCUSES}.get(self.language, _FOCUSES))
        evaluation = request.parent.evaluation
        if self.language not in ("text", "json") and self._make_artifact_parts(request.parent):
            focuses.append(_CASE_FOCUS)  # without feedback no one knows the cases
        seconds = evaluation.cost.seconds if evaluation else 0.0
        if self.max_seconds and 0 < seconds < 0.1 * self.max_seconds:
            focuses.append(_TIME_FOCUS.replace("{used}", f"{seconds:.2g}").replace("{limit}", f"{self.max_seconds:g}"))
        if context.inspirations:
            focuses.append(_OTHER_FOCUS)
        return focuses[(rng.randrange(len(focuses)) + offset) % len(focuses)]


def _list_scores(context: function.ProposalContext, request: mutation.EditRequest) -> Sequence[Any]:
    fns = [request.parent, *(fn for fns in context.inspirations.values() for fn in fns)]
    state, attempts = context.advice.get("state"), context.advice.get("attempts")
    scores: list[Any] = [fn.score() for fn in fns if fn.evaluation is not None]
    scores += [state.get("best"), state.get("initial")] if isinstance(state, Mapping) else []
    rows = attempts if isinstance(attempts, Sequence) else ()
    return scores + [row.get("score") for row in rows if isinstance(row, Mapping)]


def _describe_difference(fn: function.Function, parent: function.Function, format_score: Callable[[Any], str]) -> str:
    """Compares the score of a program with the one to improve, unless one of them failed."""
    if any(program.evaluation is None or failures.find_error(program.evaluation) for program in (fn, parent)):
        return ""
    score, other = fn.score(), parent.score()
    if score is None or other is None or score == other:
        return ""
    return f" ({'+' if score > other else ''}{score - other:.6g} against the one to improve)"


def _is_stagnant(context: function.ProposalContext) -> bool:
    state: Any = context.advice.get("state")
    return isinstance(state, Mapping) and _to_float(state.get("stagnation")) >= 1


def _to_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _make_parts(text: str) -> Sequence[PromptPart]:
    return [PromptPart(text)] if text else []
