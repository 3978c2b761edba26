"""How long a program may be."""

from collections.abc import Sequence
from dataclasses import dataclass

from atoll import function


@dataclass(frozen=True, slots=True)
class Bounded:
    """A proposer whose children are no longer than so many characters; a longer one is a failed proposal.

    Attributes:
        proposer: Proposes.
        most: Characters.
    """

    proposer: function.Proposer
    most: int

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns the children that are short enough.

        Raises:
            ValueError: None is.
        """
        children = self.proposer.propose(task)
        short = [child for child in children if len(str(child.skeleton())) <= self.most]
        if children and not short:
            length = min(len(str(child.skeleton())) for child in children)
            raise ValueError(f"the program has {length} characters; max_code_length is {self.most}.")
        return short
