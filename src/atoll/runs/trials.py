"""A value of a parameter tried by whole runs: the same task and the same seed, with the present value and another."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from atoll import config, errors, store
from atoll.candidate import Candidate
from atoll.runs import place
from atoll.runs.session import MakeLLM, Session, reader
from atoll.runs.summary import summarise
from atoll.store import ledger


class Trials:
    """What a shadow run needs to compare two values of a parameter by runs: samples, how to apply, how to score.

    Every run is of its own and leaves nothing in the store; how far each goes is the plan's own budget.

    Args:
        plan: A task that has the parameter among its settings.
        key: Which parameter.
        known: Where it is, and the others that the task names; only read.
        seeds: One pair of runs each.
        model: Makes the model that the plan names.
        allowed: What whoever starts them takes upon themselves.

    Attributes:
        asked: What the task calls the parameter, `KEY@production` maybe: what the present value is.

    Raises:
        SetupError: The task does not use it.
        NotFound: There is no such parameter.
    """

    def __init__(
        self,
        plan: config.Plan,
        key: str,
        known: ledger.Ledger,
        seeds: Sequence[int],
        *,
        model: MakeLLM | None = None,
        allowed: place.Allowed = place.NOTHING,
    ) -> None:
        self._plan, self._seeds, self._model, self._allowed = plan, seeds, model, allowed
        self._read, self._key = reader(known), key
        found = [name for name in plan.named.values() if self._read(name).key == key]
        if not found:
            raise errors.SetupError(
                f"{plan.folder.name} has no setting that is the parameter {key}: write one as "
                f"\"@param:{key}\", e.g. --set {plan.system}.KEY=@param:{key}; 'atoll params evolvable {plan.system}' "
                "lists those that can be one."
            )
        self.asked = found[0]

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        return self.samples, self.apply, self.score

    def samples(self) -> Sequence[Candidate]:
        """Returns a sample for each seed."""
        return [Candidate(f"seed {seed}", json.dumps({"seed": seed})) for seed in self._seeds]

    def apply(self, candidate: Candidate, value: Any) -> Candidate:
        """Returns a sample with a value of the parameter."""
        return Candidate(candidate.id, json.dumps({**json.loads(candidate.content), "value": value}))

    def score(self, candidate: Candidate) -> tuple[float, dict[str, float]]:
        """Runs the task and returns its best score, and what it used.

        Raises:
            SetupError: The task cannot run with that value.
            RunFailed: It ended before its time, or nothing got a score.
        """
        said = json.loads(candidate.content)
        plan = config.Plan.from_data(self._plan.to_data(), [{"run": {"seed": said["seed"]}}])
        with store.Store("sqlite://") as kept:
            with Session(kept, plan.bound(self._with(said["value"])), model=self._model, allowed=self._allowed) as each:
                each.go()
            found = summarise(kept, each.run)
        if found.best_score is None:
            raise errors.RunFailed(f"The run with {candidate.id} has no score.")
        used = found.totals
        return found.best_score, {"evaluations": float(used.evaluations), "usd": used.cost.usd}

    def _with(self, value: Any) -> Callable[[str], config.Bound]:
        def find(name: str) -> config.Bound:
            found = self._read(name)
            return found._replace(value=value) if found.key == self._key else found

        return find
