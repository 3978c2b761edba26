"""Makes the prompt of a request: gathers the blocks, fills the templates, cuts what is too much."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from atoll import errors, function, mutation, system
from atoll.programs.prompt import blocks
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.window import Part, Piece, Texts, fitted, tokens_of

_USER = {"diff": "diff_user", "rewrite": "full_rewrite_user", "cross": "cross_user"}
_MARKERS = "Change only what stands between the EVOLVE-BLOCK markers; keep the markers and all the rest."
_IN_HISTORY = ("previous_attempts", "top_programs", "inspiration_programs")


@dataclass(frozen=True, slots=True)
class Prompter:
    """Asks for a better program; a function of the task and the request.

    Attributes:
        bodies: Where artifacts are kept, of every candidate.
        description: What the program is for.
        language: Of the program.
        direction: How to read the score, in words.
        features: What the population tells programs apart by.
        templates: The texts around it all.
        limit: Characters of the longest prompt: what the model can read.
        max_artifact: Characters of the longest artifact; none is shown if it is 0.
        varied: Whether variations are drawn; otherwise the first of each counts.
        most_tokens: What a prompt may have besides, as `window.tokens_of` counts; None: only characters count.
    """

    bodies: system.Bodies
    description: str = ""
    language: str = "python"
    direction: str = "higher is better"
    features: Sequence[str] = ()
    templates: Templates = field(default_factory=Templates.read)
    limit: int = 60_000
    max_artifact: int = 20_000
    varied: bool = True
    most_tokens: int | None = None

    def __call__(self, task: function.Task, request: mutation.Request) -> mutation.Prompt:
        """Returns a prompt of at most `limit` characters and `most_tokens` tokens.

        Raises:
            SetupError: The program and the templates alone are longer.
        """
        words, pieces, limit = self._words(task, request), self._pieces(task, request), self.limit
        text, cut = fitted(pieces, lambda texts: self._text(request, words, texts), limit)
        while len(text) <= limit and (excess := self._excess(text)) > 1:
            limit = int(len(text) / excess)  # of fewer characters there are fewer tokens, not quite in proportion
            text, cut = fitted(pieces, lambda texts: self._text(request, words, texts), limit)
        if len(text) > limit:
            most, key = (limit, "chars") if limit == self.limit else (f"{self.most_tokens} tokens", "tokens")
            raise errors.SetupError(
                f"A program of {len(str(request.parent.skeleton()))} characters does not fit into a prompt of "
                f"{most}: raise programs.prompt_{key}, or shorten it."
            )
        return mutation.Prompt(text, cut)

    def _excess(self, text: str) -> float:
        """Returns how many times too many tokens a text has; at most 1: it fits."""
        if self.most_tokens is None or len(text.encode()) <= self.most_tokens:  # none is shorter than a byte
            return 0.0
        return tokens_of(text) / self.most_tokens

    def _words(self, task: function.Task, request: mutation.Request) -> Mapping[str, str]:
        """Returns what is never cut: the program and what is said of the answer."""
        program = str(request.parent.skeleton())
        said = self.templates.variations.items()
        drawn = self.templates.drawn(task.rng) if self.varied else {name: each[0] for name, each in said}
        words = {
            **drawn,
            "current_program": program,
            "language": self.language,
            "feature_dimensions": ", ".join(map(blocks.label, self.features)),
            "fitness_score": blocks.number(request.parent.score() if request.parent.evaluation else None),
            "marker_note": _MARKERS if "EVOLVE-BLOCK-START" in program else "",
        }
        return {**words, "answer": self.templates.fill(f"answer_{request.mode}", words)}

    def _pieces(self, task: function.Task, request: mutation.Request) -> Sequence[Piece]:
        parent, templates = request.parent, self.templates
        known = {str(fn.skeleton()) for fn in (parent, request.partner) if fn}
        shown = {role: fns for role, fns in task.others.items() if role != "failed"}
        tops = {"top": shown.pop("top", ())}
        more = {"inspirations": [*shown.pop("inspirations", ()), *reversed(task.parents)], **shown}
        told = blocks.artifacts(parent, self.bodies, templates, self.max_artifact) if self.max_artifact else []
        top_programs = blocks.programs(tops, "top_program", templates, self.language, known)
        inspirations = blocks.programs(more, "inspiration_program", templates, self.language, known)
        found = [
            Piece("inspiration_programs", inspirations, 1),
            Piece("top_programs", top_programs, 2),
            Piece("previous_attempts", blocks.attempts(task.advice.get("attempts"), templates), 3),
            Piece("artifacts", told, 4),
            Piece("feature_coords", _part(blocks.coordinates(parent, self.features)), 5),
            Piece("improvement_areas", blocks.history(parent, templates), 6),
            Piece("last_answer", _part(request.answer), 7),
            Piece("partner", self._partner(request), 8),
            Piece("metrics", _part(blocks.metrics_text(parent, self.direction)), 9),
            Piece("fault", _part(request.fault), 10),
            Piece("description", _part(self.description.strip()), 11),
        ]
        return [piece for piece in found if piece.parts]

    def _partner(self, request: mutation.Request) -> Sequence[Part]:
        if request.partner is None:
            return []
        return blocks.programs({"partner": [request.partner]}, "partner", self.templates, self.language, set())

    def _text(self, request: mutation.Request, words: Mapping[str, str], texts: Texts) -> str:
        """Fills the templates with what is left of the pieces."""
        fill = self.templates.fill
        one = {name: "\n\n".join(texts.get(name, ())) for name in ("artifacts", "description", "last_answer", "fault")}
        one |= {name: "".join(texts.get(name, ())) for name in ("metrics", "feature_coords", "improvement_areas")}
        lists = {name: "\n\n".join(texts.get(name, ())) for name in _IN_HISTORY}
        inspired = fill("inspirations_section", lists) if lists["inspiration_programs"] else ""
        values = {**words, **one, "partner": "".join(texts.get("partner", ()))}
        values["evolution_history"] = fill("evolution_history", {**lists, "inspirations_section": inspired})
        values["system_message"] = fill("system_message", {**words, **one})
        values["repair"] = fill("repair", {**words, **one}) if request.fault else ""
        return fill(_USER[request.mode], values) + "\n"


def _part(text: str) -> Sequence[Part]:
    return [Part(text)] if text else []
