"""The engine that rewrites Python by its syntax, without a language model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from atoll import errors, function
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.syntax.draft import CROSSOVER, Draft
from atoll.mutation.syntax.program import analysed, compiles
from atoll.mutation.syntax.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Syntax:
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
    more: float = 0.2
    soft_size: int = 150
    attempts: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.more < 1:
            raise errors.SetupError(f"more is {self.more}; it is a chance, at least 0 and below 1.")
        if self.soft_size < 1 or self.attempts < 1:
            raise errors.SetupError(
                f"soft_size is {self.soft_size}, attempts {self.attempts}; both must be at least 1."
            )

    @classmethod
    def fitting(cls, text: str, vocabulary: Vocabulary | None = None) -> Self:
        """Returns an engine that lets the functions of this source double.

        Raises:
            ValueError: It is no Python, or nothing in it may change.
        """
        vocabulary = vocabulary or Vocabulary()
        sizes = [place.uses.size for place in analysed(text, vocabulary).places]
        return cls(vocabulary, soft_size=max(150, 2 * max(sizes)))

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns one child that differs from its parent, and compiles if that does.

        Raises:
            ValueError: The parent is no Python, or no such child was found.
        """
        parent, mate = task.parents[-1], _mate(task)
        program = analysed(str(parent.skeleton()), self.vocabulary)
        draft = Draft(program, str(mate.skeleton()), self.vocabulary, task.rng, self.more, self.soft_size)
        for _ in range(self.attempts):
            child = draft.drawn()
            if child is not None:
                kin = [parent, mate] if CROSSOVER.name in child.edits and mate is not parent else [parent]
                skeleton, edit = skeleton_of(parent, child.text), ", ".join(child.edits)
                return [function.draft(parent, skeleton, parents=kin, engine="syntax", edit=edit)]
        raise ValueError(f"{self.attempts} drafts gave no new program: use an LLM for this source.")


def can_rewrite(text: str) -> bool:
    """Says whether a text is Python that compiles and has something in it that may change; if not, it needs an LLM."""
    try:
        program = analysed(text, Vocabulary())
    except ValueError:
        return False
    return compiles(text) and any(program.sites(place) for place in range(len(program.places)))


def _mate(task: function.Task) -> function.Function:
    """Draws another program to take expressions from; the parent itself if there is no other."""
    *rest, parent = task.parents
    groups = [rest, *(fns for role, fns in task.others.items() if role != "failed")]
    mates = [fn for fns in groups for fn in fns if str(fn.skeleton()) != str(parent.skeleton())]
    return task.rng.choice(mates) if mates else parent
