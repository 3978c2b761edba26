"""Several models as one: a step is advised which of them to ask, and another answers where that one fails."""

import math
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from atoll import errors, function
from atoll.llm.llm import LLM, NoReply, Reply

ADVICE = "llm"  # the key under which a step is told the name of its model


@dataclass(frozen=True, slots=True)
class Member:
    """One model of several.

    Attributes:
        name: As it was written; what advice names it by.
        weight: How often it is asked, relative to the others; 0: only when another fails.
    """

    name: str
    llm: LLM
    weight: float = 1.0


class Ensemble:
    """Asks the model that the step was advised of, and the next one when there is no reply.

    Outside of an advised step it asks the first. Which one to advise is for a `function.Learner`, such as those in
    `routing`, because a run must be able to go on, and to be repeated, with the same choices.
    """

    chosen: ContextVar[str | None] = ContextVar("atoll_chosen_llm", default=None)

    def __init__(self, members: Sequence[Member]) -> None:
        """Takes the members, the preferred first.

        Raises:
            SetupError: There is none, two have the same name, or no weight is above 0.
        """
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise errors.SetupError(f"The model {twice!r} is named twice: name it once, with a weight.")
        weights = [member.weight for member in members]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
            raise errors.SetupError("Models need weights of 0 or more, and one above 0: write e.g. openai:a*0.8.")
        self.members = tuple(members)

    def __repr__(self) -> str:
        return f"Ensemble({', '.join(f'{member.name}*{member.weight:g}' for member in self.members)})"

    def __call__(self, prompt: str) -> Reply:
        """Returns the first reply that there is.

        Raises:
            NoReply: No model gave one; it is down only if all are.
        """
        failures: list[NoReply] = []
        for member in self._in_turn():
            try:
                return member.llm(prompt)
            except NoReply as error:
                failures.append(error)
        statuses = {error.status for error in failures}
        raise NoReply(
            " ".join(str(error) for error in failures),
            status=statuses.pop() if len(statuses) == 1 else None,
            is_transient=any(error.is_transient for error in failures),
            is_down=all(error.is_down for error in failures),
        )

    def _in_turn(self) -> Sequence[Member]:
        chosen = self.chosen.get()
        return sorted(self.members, key=lambda member: member.name != chosen)  # stable: the others as they were named


class Routed:
    """A proposer whose steps ask the model that they were advised of."""

    def __init__(self, engine: function.MutationEngine | function.Proposer) -> None:
        self._engine = function.lift(engine)

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        name = task.advice.get(ADVICE)
        token = Ensemble.chosen.set(name if isinstance(name, str) else None)
        try:
            return self._engine.propose(task)
        finally:
            Ensemble.chosen.reset(token)
