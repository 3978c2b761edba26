"""The weakest engine, to compare others with: it changes numbers and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass

from atoll import function
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.listing import spliced
from atoll.mutation.syntax.program import Program, analysed
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.trees import replaced
from atoll.mutation.syntax.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Constants:
    """Makes one child of the best parent by moving one of its numbers, as `Syntax` moves them.

    Attributes:
        more: The chance of another number after each one.
    """

    more: float = 0.3

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns one child whose numbers differ.

        Raises:
            ValueError: The parent is no Python, or has no number that may change.
        """
        parent, rng = task.parents[-1], task.rng
        program = analysed(str(parent.skeleton()), Vocabulary())
        found = _numbers(program)
        if not found:
            raise ValueError("It has no number to change: use an engine that rewrites more, such as Syntax.")
        count = 1
        while count < len(found) and rng.random() < self.more:
            count += 1
        roots = {place: program.places[place].root for place, _, _ in found}
        for place, site, value in rng.sample(found, count):
            new = numbers.literal(numbers.moved(rng, value, site.demand))
            roots[place] = replaced(roots[place], site.node, new)
        old = [each.root for each in program.places]
        splices = [
            program.listing.replacing(old[place], root) for place, root in roots.items() if root is not old[place]
        ]
        skeleton = skeleton_of(parent, spliced(program.listing.text, splices))
        return [function.draft(parent, skeleton, parents=[parent], engine="constants", edit="constant")]


def _numbers(program: Program) -> list[tuple[int, Site, float]]:
    """Returns every number that may change, with the place it stands in."""
    return [
        (place, site, value)
        for place in range(len(program.places))
        for site in program.sites(place)
        if (value := numbers.value_of(site.node)) is not None
    ]
