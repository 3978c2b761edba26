"""Mutator that changes only numbers: the baseline for the other mutators."""

from collections.abc import Sequence
from dataclasses import dataclass

from atoll import function
from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.program import Program, analyze
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.source_text import apply_splices, replace_node
from atoll.mutation.syntax.value_kinds import Vocabulary
from atoll.mutation.text_blocks import with_text


@dataclass(frozen=True, slots=True)
class ConstantMutator:
    """Makes one child of the best parent by moving numbers as `SyntaxMutator` moves them.

    Attributes:
        repeat_probability: Probability of moving another number after each one.
    """

    repeat_probability: float = 0.3

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child with other numbers.

        Raises:
            ValueError: The parent is not valid Python, or has no number that may change.
        """
        parent, rng = context.parents[-1], context.rng
        program = analyze(str(parent.skeleton()), Vocabulary())
        number_sites = _find_numbers(program)
        if not number_sites:
            raise ValueError("The program has no number to change. Use SyntaxMutator, which changes more.")
        count = 1
        while count < len(number_sites) and rng.random() < self.repeat_probability:
            count += 1
        roots = {index: program.expression_sites[index].root for index, _, _ in number_sites}
        for index, site, value in rng.sample(number_sites, count):
            new = numbers.make_literal(numbers.move_number(rng, value, site.required_kind))
            roots[index] = replace_node(roots[index], site.node, new)
        old = [expression_site.root for expression_site in program.expression_sites]
        splices = [
            program.source_text.make_replacement(old[index], root)
            for index, root in roots.items()
            if root is not old[index]
        ]
        skeleton = with_text(parent, apply_splices(program.source_text.text, splices))
        return [function.derive_child(parent, skeleton, parents=[parent], engine="constants", edit="constant")]


def _find_numbers(program: Program) -> list[tuple[int, Site, float]]:
    """Returns every number that may change, with the index of its expression."""
    return [
        (index, site, value)
        for index in range(len(program.expression_sites))
        for site in program.get_sites(index)
        if (value := numbers.parse_number(site.node)) is not None
    ]
