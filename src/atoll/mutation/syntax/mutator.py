"""The engine that rewrites Python by its syntax, without a language model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from atoll import errors, function
from atoll.mutation.applicability import with_text
from atoll.mutation.syntax.draft import CROSSOVER, EditSampler
from atoll.mutation.syntax.program import analyze, compiles
from atoll.mutation.syntax.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class SyntaxMutator:
    """Makes one child of the best parent by a few random edits of its syntax; draws from the task alone.

    With `EVOLVE-BLOCK-START` and `EVOLVE-BLOCK-END` in comments only what stands between them changes; without, all
    code but imports, docstrings, signatures, decorators and what runs as a script only. The text of all statements
    that do not change stays as it is.

    Attributes:
        vocabulary: What may be written beyond what the source has.
        more: The chance of another edit after each one.
        soft_size: Nodes of a function beyond which edits shrink it more often than they grow it; `fitting` sets it.
        attempts: How many drafts may fail to compile or repeat the parent before the proposal fails.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    repeat_probability: float = 0.2
    soft_size: int = 150
    max_attempts: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.repeat_probability < 1:
            raise errors.SetupError(f"more is {self.repeat_probability}; it is a chance, at least 0 and below 1.")
        if self.soft_size < 1 or self.max_attempts < 1:
            raise errors.SetupError(
                f"soft_size is {self.soft_size}, attempts {self.max_attempts}; both must be at least 1."
            )

    @classmethod
    def for_source(cls, text: str, vocabulary: Vocabulary | None = None) -> Self:
        """Returns an engine that lets the functions of this source double.

        Raises:
            ValueError: It is no Python, or nothing in it may change.
        """
        vocabulary = vocabulary or Vocabulary()
        sizes = [site.usage.size for site in analyze(text, vocabulary).expression_sites]
        return cls(vocabulary, soft_size=max(150, 2 * max(sizes)))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child that differs from its parent, and compiles if that does.

        Raises:
            ValueError: The parent is no Python, or no such child was found.
        """
        parent, mate = context.parents[-1], _choose_mate(context)
        program = analyze(str(parent.skeleton()), self.vocabulary)
        sampler = EditSampler(
            program, str(mate.skeleton()), self.vocabulary, context.rng, self.repeat_probability, self.soft_size
        )
        for _ in range(self.max_attempts):
            child = sampler.draw()
            if child is not None:
                parents = [parent, mate] if CROSSOVER.name in child.edits and mate is not parent else [parent]
                skeleton, edit = with_text(parent, child.text), ", ".join(child.edits)
                return [function.derive_child(parent, skeleton, parents=parents, engine="syntax", edit=edit)]
        raise ValueError(f"{self.max_attempts} drafts gave no new program: use an LLM for this source.")


def is_mutable(text: str) -> bool:
    """Says whether a text is Python that compiles and has something in it that may change; if not, it needs an LLM."""
    try:
        program = analyze(text, Vocabulary())
    except ValueError:
        return False
    return compiles(text) and any(program.get_sites(index) for index in range(len(program.expression_sites)))


def _choose_mate(context: function.ProposalContext) -> function.Function:
    """Draws another program to take expressions from; the parent itself if there is no other."""
    *other_parents, parent = context.parents
    groups = [other_parents, *(fns for role, fns in context.inspirations.items() if role != "failed")]
    mates = [fn for fns in groups for fn in fns if str(fn.skeleton()) != str(parent.skeleton())]
    return context.rng.choice(mates) if mates else parent
