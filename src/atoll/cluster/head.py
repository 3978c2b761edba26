"""A pool of one: the head of a version history."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from atoll import archipelago, errors, evaluation, function, gate, versions
from atoll.candidate import Candidate


@dataclass(eq=False, slots=True)
class VersionedPopulation:
    """Offers the head of a key as the parent and makes what is accepted the new head.

    The version is set before the step is recorded, under a token of the run and the candidate: a step that runs again
    after a crash finds its own version. Whoever was overtaken is rejected as stale.
    """

    store: versions.Versions
    key: str
    initial: function.Function
    make_skeleton: Callable[[str], function.Skeleton[..., Any]]
    _: KW_ONLY
    run_id: str
    _evaluations: dict[str, tuple[evaluation.Evaluation, float | None]] = field(default_factory=dict, init=False)

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        candidate = fn.candidate
        assert candidate is not None, "the kernel adds only what it settled"
        if decision.version is None:
            base_version = next((int(id.rpartition("@")[2]) for id in candidate.parents if self._is_own_version(id)), 0)
            token = f"{self.run_id}/{self.key}/{candidate.id}"
            try:
                change = (self.key, candidate.content, decision.reason, decision.decided_by)
                decision = replace(decision, version=self.store.set(*change, expected=base_version, token=token).id)
            except errors.Conflict as conflict:
                return gate.Decision("reject", f"stale: {conflict}", "versions")
            except errors.SetupError as refusal:
                return gate.Decision("reject", str(refusal), "versions")
        if decision.version is not None and fn.evaluation is not None:
            self._evaluations[decision.version] = (fn.evaluation, fn.score())
        return decision

    def select(self) -> archipelago.Selection:
        return archipelago.Selection([self.best_fn()])

    def best_fn(self) -> function.Function:
        return self._make_fn(self.store.get(self.key))

    def get(self, id: str) -> function.Function:
        if not self._is_own_version(id):
            raise errors.NotFound(f"{id} is no version of {self.key}.")
        return self._make_fn(self.store.get(self.key, int(id.rpartition("@")[2])))

    def update_evaluation(self, fn: function.Function) -> None:
        if fn.candidate is None or not self._is_own_version(fn.candidate.id):
            raise errors.NotFound(f"{fn.candidate and fn.candidate.id} is no version of {self.key}.")
        if fn.evaluation is not None:
            self._evaluations[fn.candidate.id] = (fn.evaluation, fn.score())

    def _make_fn(self, version: versions.Version) -> function.Function:
        result, fitness = self._evaluations.get(version.id, (None, None))
        skeleton = self.make_skeleton(version.value)
        return self.initial.clone(skeleton).with_evaluation(Candidate(version.id, version.value), result, fitness)

    def _is_own_version(self, id: str) -> bool:
        return id.rpartition("@")[0] == self.key
