"""A pool of one: the head of a version history."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from atoll import archipelago, errors, evaluation, function, gate, versions
from atoll.candidate import Candidate


@dataclass(eq=False, slots=True)
class Head:
    """Offers the head of a key as the parent and makes what is accepted the new head.

    The version is set before the step is recorded, under a token of the run and the candidate: a step that runs again
    after a crash finds its own version. Whoever was overtaken is rejected as stale.
    """

    store: versions.Versions
    key: str
    initial: function.Function
    make_skeleton: Callable[[str], function.Skeleton[..., Any]]
    _: KW_ONLY
    run: str
    _standing: dict[str, tuple[evaluation.Evaluation, float | None]] = field(default_factory=dict, init=False)

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        candidate = fn.candidate
        assert candidate is not None, "the kernel adds only what it settled"
        if decision.version is None:
            based_on = next((int(id.rpartition("@")[2]) for id in candidate.parents if self._is_mine(id)), 0)
            token = f"{self.run}/{self.key}/{candidate.id}"
            try:
                change = (self.key, candidate.content, decision.reason, decision.by)
                decision = replace(decision, version=self.store.set(*change, expected=based_on, token=token).id)
            except errors.Conflict as conflict:
                return gate.Decision("reject", f"stale: {conflict}", "versions")
            except errors.SetupError as refusal:
                return gate.Decision("reject", str(refusal), "versions")
        if decision.version is not None and fn.evaluation is not None:
            self._standing[decision.version] = (fn.evaluation, fn.score())
        return decision

    def pick(self) -> archipelago.Pick:
        return archipelago.Pick([self.best_fn()])

    def best_fn(self) -> function.Function:
        return self._live(self.store.get(self.key))

    def find(self, id: str) -> function.Function:
        if not self._is_mine(id):
            raise errors.NotFound(f"{id} is no version of {self.key}.")
        return self._live(self.store.get(self.key, int(id.rpartition("@")[2])))

    def observe(self, fn: function.Function) -> None:
        if fn.candidate is None or not self._is_mine(fn.candidate.id):
            raise errors.NotFound(f"{fn.candidate and fn.candidate.id} is no version of {self.key}.")
        if fn.evaluation is not None:
            self._standing[fn.candidate.id] = (fn.evaluation, fn.score())

    def _live(self, version: versions.Version) -> function.Function:
        found, rank = self._standing.get(version.id, (None, None))
        skeleton = self.make_skeleton(version.value)
        return self.initial.clone(skeleton).settle(Candidate(version.id, version.value), found, rank)

    def _is_mine(self, id: str) -> bool:
        return id.rpartition("@")[0] == self.key
