"""Mutator that changes Python by its syntax tree. It needs no LLM."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from atoll import errors, function
from atoll.mutation.syntax.draft import CROSSOVER, EditSampler
from atoll.mutation.syntax.program import analyze, compiles
from atoll.mutation.syntax.value_kinds import Vocabulary
from atoll.mutation.text_blocks import with_text


@dataclass(frozen=True, slots=True)
class SyntaxMutator:
    """Makes one child of the best parent by a few random edits of its syntax tree.

    With `EVOLVE-BLOCK-START` and `EVOLVE-BLOCK-END` comments, only code between them changes. Without them, all code
    may change except imports, docstrings, signatures, decorators and the `__main__` block. Unchanged statements keep
    their text.

    Attributes:
        vocabulary: Names and constants for new code.
        repeat_probability: Probability of another edit after each one.
        soft_size: Size of a function, in nodes, above which edits mostly shrink it. `for_source` sets it.
        max_attempts: Samples that may fail to compile or repeat the parent before the proposal fails.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    repeat_probability: float = 0.2
    soft_size: int = 150
    max_attempts: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.repeat_probability < 1:
            raise errors.SetupError(f"repeat_probability is {self.repeat_probability}. Set it from 0 to below 1.")
        if self.soft_size < 1 or self.max_attempts < 1:
            raise errors.SetupError(
                f"soft_size is {self.soft_size} and max_attempts {self.max_attempts}. Set both to at least 1."
            )

    @classmethod
    def for_source(cls, text: str, vocabulary: Vocabulary | None = None) -> Self:
        """Returns a mutator that lets the functions of this source double in size.

        Raises:
            ValueError: The text is not valid Python, or nothing in it may change.
        """
        vocabulary = vocabulary or Vocabulary()
        sizes = [site.usage.size for site in analyze(text, vocabulary).expression_sites]
        return cls(vocabulary, soft_size=max(150, 2 * max(sizes)))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child that differs from its parent and compiles if the parent does.

        Raises:
            ValueError: The parent is not valid Python, or no such child was found.
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
        raise ValueError(f"{self.max_attempts} attempts gave no new program. Use an LLM for this source.")


def is_mutable(text: str) -> bool:
    """Returns whether a text is valid Python with code that may change. If not, it needs an LLM."""
    try:
        program = analyze(text, Vocabulary())
    except ValueError:
        return False
    return compiles(text) and any(program.get_sites(index) for index in range(len(program.expression_sites)))


def _choose_mate(context: function.ProposalContext) -> function.Function:
    """Draws another program as a source of expressions; the parent if no other exists."""
    *other_parents, parent = context.parents
    groups = [other_parents, *(fns for role, fns in context.inspirations.items() if role != "failed")]
    mates = [fn for fns in groups for fn in fns if str(fn.skeleton()) != str(parent.skeleton())]
    return context.rng.choice(mates) if mates else parent
