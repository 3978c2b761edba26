"""Several models as one: a step is advised which of them to ask, and another answers where that one fails."""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from atoll import errors, function
from atoll.llm.base import LLM, LLMError, Response

ADVICE_KEY = "llm"  # the key under which a step is told the name of its model


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One model of several.

    Attributes:
        name: As it was written; what advice names it by.
        weight: How often it is asked, relative to the others; 0: only when another fails.
    """

    name: str
    llm: LLM
    weight: float = 1.0


class EnsembleLLM:
    """Asks the model that the step was advised of, and the next one when there is no reply.

    Outside of an advised step it asks the first. Which one to advise is for a `function.Learner`, such as those in
    `routing`, because a run must be able to go on, and to be repeated, with the same choices.
    """

    selected: ContextVar[str | None] = ContextVar("atoll_chosen_llm", default=None)

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        """Takes the members, the preferred first.

        Raises:
            SetupError: There is none, two have the same name, or no weight is above 0.
        """
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise errors.SetupError(f"The model {duplicate!r} is named twice: name it once, with a weight.")
        weights = [member.weight for member in members]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
            raise errors.SetupError("Models need weights of 0 or more, and one above 0: write e.g. openai:a*0.8.")
        self.members = tuple(members)

    def __repr__(self) -> str:
        return f"Ensemble({', '.join(f'{member.name}*{member.weight:g}' for member in self.members)})"

    def __call__(self, prompt: str) -> Response:
        """Returns the first reply that there is.

        Raises:
            NoReply: No model gave one; it is down only if all are.
        """
        failures: list[LLMError] = []
        for member in self._order_members():
            try:
                return member.llm(prompt)
            except LLMError as error:
                failures.append(error)
        statuses = {error.status for error in failures}
        raise LLMError(
            " ".join(str(error) for error in failures),
            status=statuses.pop() if len(statuses) == 1 else None,
            is_transient=any(error.is_transient for error in failures),
            is_down=all(error.is_down for error in failures),
        )

    def _order_members(self) -> Sequence[EnsembleMember]:
        selected = self.selected.get()
        return sorted(self.members, key=lambda member: member.name != selected)  # stable: the others as they were named


class RoutedProposer:
    """A proposer whose steps ask the model that they were advised of."""

    def __init__(self, mutation_engine: function.MutationEngine | function.Proposer) -> None:
        self._proposer = function.as_proposer(mutation_engine)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        name = context.advice.get(ADVICE_KEY)
        token = EnsembleLLM.selected.set(name if isinstance(name, str) else None)
        try:
            return self._proposer.propose(context)
        finally:
            EnsembleLLM.selected.reset(token)
