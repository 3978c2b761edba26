"""Several LLMs as one. Each iteration calls the selected one, and the next one if that fails."""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from atoll import errors, function
from atoll.llm.base import LLM, LLMError, Response, current_meter

ADVICE_KEY = "llm"  # advice key for the name of the selected LLM


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One LLM of an ensemble.

    Attributes:
        name: Name as written by the user; used in advice.
        weight: Relative frequency; 0 means only if another LLM fails.
    """

    name: str
    llm: LLM
    weight: float = 1.0


class EnsembleLLM:
    """Calls the LLM that is selected for the iteration, and the next one if it fails.

    The default is the first LLM. A `function.Learner`, such as those in `routing`, selects it, so that a resumed or
    repeated run makes the same choices.
    """

    selected: ContextVar[str | None] = ContextVar("atoll_chosen_llm", default=None)

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        """Takes the members in order of preference.

        Raises:
            SetupError: The list is empty, a name is repeated, or no weight is above 0.
        """
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise errors.SetupError(f"LLM {duplicate!r} is named twice. Name it once, with a weight.")
        weights = [member.weight for member in members]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
            raise errors.SetupError(
                "Weights of LLMs must be 0 or more, and one above 0. Write for example openai:a*0.8."
            )
        self.members = tuple(members)

    def __repr__(self) -> str:
        return f"EnsembleLLM({', '.join(f'{member.name}*{member.weight:g}' for member in self.members)})"

    def __call__(self, prompt: str) -> Response:
        """Returns the first response.

        Raises:
            LLMError: All LLMs failed. It is down only if all are.
        """
        failures: list[LLMError] = []
        meter = current_meter.get()
        for member in self._order_members():
            try:
                if meter is not None:
                    meter.reserve()
                return member.llm(prompt)
            except LLMError as error:
                failures.append(error)
                if meter is not None:
                    meter.fail(error.cost)
        statuses = {error.status for error in failures}
        raise LLMError(
            " ".join(str(error) for error in failures),
            status=statuses.pop() if len(statuses) == 1 else None,
            is_transient=any(error.is_transient for error in failures),
            is_down=all(error.is_down for error in failures),
            cost=failures[-1].cost,
        )

    def _order_members(self) -> Sequence[EnsembleMember]:
        selected = self.selected.get()
        return sorted(self.members, key=lambda member: member.name != selected)  # stable: the others keep their order


class RoutedProposer:
    """Proposer whose iterations call the LLM named in their advice."""

    def __init__(self, mutation_engine: function.MutationEngine | function.Proposer) -> None:
        self._proposer = function.as_proposer(mutation_engine)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        name = context.advice.get(ADVICE_KEY)
        token = EnsembleLLM.selected.set(name if isinstance(name, str) else None)
        try:
            return self._proposer.propose(context)
        finally:
            EnsembleLLM.selected.reset(token)
