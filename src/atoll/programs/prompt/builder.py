"""Builds prompts: collects the sections, fills the templates, and shortens them to the limit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atoll import errors, function, llm, mutation, system
from atoll.programs.prompt import sections as prompt_sections
from atoll.programs.prompt.sections import PromptPart, PromptSection, SectionTexts, estimate_tokens, fit_to_limit
from atoll.programs.prompt.templates import Templates

_USER_TEMPLATES = {"diff": "diff_user", "rewrite": "full_rewrite_user", "cross": "cross_user"}
_MARKER_NOTE = "Change only the lines between the EVOLVE-BLOCK markers. Keep the markers and all other lines."
_REPEAT_TEMPERATURE_SHIFT = 0.3  # for the second call, if the first repeated a known program
_HISTORY_SECTIONS = ("previous_attempts", "top_programs", "inspiration_programs")
_JOINED_SECTIONS = ("artifacts", "description", "last_answer", "fault")
_INLINE_SECTIONS = ("metrics", "feature_coords", "improvement_areas", "partner")


@dataclass(frozen=True, slots=True)
class ProgramPromptBuilder:
    """Builds the prompt that asks for a better program. Depends only on the context and the request.

    Attributes:
        blobs: Storage of artifacts.
        description: Purpose of the program.
        language: Language of the program.
        direction: Meaning of the score, such as "higher is better".
        features: Features of the population.
        templates: Templates of the prompt.
        limit: Maximum prompt length in characters.
        max_artifact: Maximum length of an artifact; 0 hides artifacts.
        use_variations: Draw random variations; otherwise the first of each is used.
        max_tokens: Maximum estimated tokens; None: only characters count.
    """

    blobs: system.BlobStore
    description: str = ""
    language: str = "python"
    direction: str = "higher is better"
    features: Sequence[str] = ()
    templates: Templates = field(default_factory=Templates.read)
    limit: int = 60_000
    max_artifact: int = 20_000
    use_variations: bool = True
    max_tokens: int | None = None

    def __call__(self, context: function.ProposalContext, request: mutation.EditRequest) -> mutation.Prompt:
        """Returns a prompt of at most `limit` characters and `max_tokens` tokens.

        Raises:
            SetupError: The program and the templates alone are longer.
        """
        fixed_values, sections = self._make_fixed_values(context, request), self._make_sections(context, request)
        limit = self.limit
        text, cut = fit_to_limit(sections, lambda texts: self._assemble(request, fixed_values, texts), limit)
        while len(text) <= limit and (excess := self._compute_excess(text)) > 1:
            limit = int(len(text) / excess)  # tokens shrink roughly in proportion
            text, cut = fit_to_limit(sections, lambda texts: self._assemble(request, fixed_values, texts), limit)
        if len(text) > limit:
            max_size, key = (limit, "chars") if limit == self.limit else (f"{self.max_tokens} tokens", "tokens")
            raise errors.SetupError(
                f"A program of {len(str(request.parent.skeleton()))} characters does not fit into a prompt of "
                f"{max_size}: raise programs.prompt_{key}, or shorten it."
            )
        return mutation.Prompt(text, cut)

    def _compute_excess(self, text: str) -> float:
        """Returns the tokens of a text divided by the limit; at most 1 if it fits."""
        if self.max_tokens is None or len(text.encode()) <= self.max_tokens:  # a token has at least one byte
            return 0.0
        return estimate_tokens(text) / self.max_tokens

    def _make_fixed_values(self, context: function.ProposalContext, request: mutation.EditRequest) -> Mapping[str, str]:
        """Returns the values that are never shortened: the program and the answer format."""
        program = str(request.parent.skeleton())
        selected = {name: texts[0] for name, texts in self.templates.variations.items()}
        if self.use_variations:
            # From a copy, so that a repair request has the words of the first prompt.
            selected = dict(self.templates.draw_variations(prompt_sections.copy_rng(context.rng)))
        values = {
            **selected,
            "current_program": program,
            "language": self.language,
            "feature_dimensions": ", ".join(map(prompt_sections.format_label, self.features)),
            "fitness_score": prompt_sections.format_number(
                request.parent.score() if request.parent.evaluation else None
            ),
            "marker_note": _MARKER_NOTE if "EVOLVE-BLOCK-START" in program else "",
        }
        return {**values, "answer": self.templates.fill(f"answer_{request.mode}", values)}

    def _make_sections(
        self, context: function.ProposalContext, request: mutation.EditRequest
    ) -> Sequence[PromptSection]:
        parent, templates = request.parent, self.templates
        shown_texts = {str(fn.skeleton()) for fn in (parent, request.partner) if fn}
        inspirations_by_role = {role: fns for role, fns in context.inspirations.items() if role != "failed"}
        top_by_role = {"top": inspirations_by_role.pop("top", ())}
        other_by_role = {
            "inspirations": [*inspirations_by_role.pop("inspirations", ()), *reversed(context.parents)],
            **inspirations_by_role,
        }
        artifact_parts = (
            prompt_sections.make_artifact_parts(parent, self.blobs, templates, self.max_artifact)
            if self.max_artifact
            else []
        )
        top_programs = prompt_sections.make_program_parts(
            top_by_role, "top_program", templates, self.language, shown_texts
        )
        inspirations = prompt_sections.make_program_parts(
            other_by_role, "inspiration_program", templates, self.language, shown_texts
        )
        sections = [
            PromptSection("inspiration_programs", inspirations, 1),
            PromptSection("top_programs", top_programs, 2),
            PromptSection(
                "previous_attempts", prompt_sections.make_attempt_parts(context.advice.get("attempts"), templates), 3
            ),
            PromptSection("artifacts", artifact_parts, 4),
            PromptSection("feature_coords", _make_parts(prompt_sections.format_features(parent, self.features)), 5),
            PromptSection("improvement_areas", prompt_sections.make_last_change_part(parent, templates), 6),
            PromptSection("last_answer", _make_parts(request.response), 7),
            PromptSection("partner", self._make_partner_parts(request), 8),
            PromptSection("metrics", _make_parts(prompt_sections.format_metrics(parent, self.direction)), 9),
            PromptSection("fault", _make_parts(request.failure), 10),
            PromptSection("description", _make_parts(self.description.strip()), 11),
        ]
        return [section for section in sections if section.parts]

    def _make_partner_parts(self, request: mutation.EditRequest) -> Sequence[PromptPart]:
        if request.partner is None:
            return []
        return prompt_sections.make_program_parts(
            {"partner": [request.partner]}, "partner", self.templates, self.language, set()
        )

    def _assemble(
        self, request: mutation.EditRequest, fixed_values: Mapping[str, str], texts: SectionTexts
    ) -> llm.ChatPrompt:
        """Fills the templates with the remaining sections.

        A repair request continues the conversation: the same system and user message, the response, the failure.
        """
        fill = self.templates.fill
        values = dict(fixed_values)
        values |= {name: "\n\n".join(texts.get(name, ())) for name in _JOINED_SECTIONS}
        values |= {name: "".join(texts.get(name, ())) for name in _INLINE_SECTIONS}
        if values["artifacts"] and (title := self.templates.format_fragment("artifact_title", "")):
            values["artifacts"] = f"## {title}\n\n{values['artifacts']}"
        history_lists = {name: "\n\n".join(texts.get(name, ())) for name in _HISTORY_SECTIONS}
        inspirations = fill("inspirations_section", history_lists) if history_lists["inspiration_programs"] else ""
        values["evolution_history"] = fill("evolution_history", {**history_lists, "inspirations_section": inspirations})
        user_text = fill(_USER_TEMPLATES[request.mode], {**values, "system_message": "", "repair": ""}) + "\n"
        prompt = llm.ChatPrompt(("system", fill("system_message", values)), ("user", user_text))
        if not request.failure:
            return prompt
        shift = _REPEAT_TEMPERATURE_SHIFT if request.is_repeat else 0.0
        return llm.continue_prompt(prompt, values["last_answer"], fill("repair", values), temperature_shift=shift)


def _make_parts(text: str) -> Sequence[PromptPart]:
    return [PromptPart(text)] if text else []
