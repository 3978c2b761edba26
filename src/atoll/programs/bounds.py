"""How long a program may be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from atoll import function


@dataclass(frozen=True, slots=True)
class LengthLimit:
    """A proposer whose children are no longer than so many characters; a longer one is a failed proposal.

    Attributes:
        proposer: Proposes.
        most: Characters, or what else is measured.
        measure: How long a text is.
        unit: What it is measured in, in words.
        rule: Who says so, in words.
    """

    proposer: function.Proposer
    max_length: int
    measure: Callable[[str], int] = len
    unit: str = "characters"
    rule: str = "max_code_length is"

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children that are short enough.

        Raises:
            ValueError: None is.
        """
        children = self.proposer.propose(context)
        short_enough = [child for child in children if self.measure(str(child.skeleton())) <= self.max_length]
        if children and not short_enough:
            length = min(self.measure(str(child.skeleton())) for child in children)
            raise ValueError(f"the program has {length} {self.unit}; {self.rule} {self.max_length}.")
        return short_enough
