"""Population of the policy `leader` for data sets: parents come from the Pareto front over the instances."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from atoll import cluster, function, gate
from atoll.programs.gepa.text_parts import EXAMPLES_ENGINE, are_complementary
from atoll.programs.population.leader import LeaderSearch
from atoll.programs.population.leader_population import LeaderPopulation, Mode, Policy

_MAX_CHAMPIONS = 8  # of one instance; of more, the best remain
_MIN_COPIES = 3  # texts that the LLM repeated, before it is asked for lines to add


class FrontSearch(LeaderSearch):
    """The policy `leader` with Pareto fronts.

    Args:
        explores: Whether other methods get tries, as for programs; a text is only refined.
        merges: Whether two candidates that are best on different instances are combined.
        adds: Whether lines to add to a text are requested if the LLM often copies the text.
    """

    def __init__(
        self, *arguments: Any, explores: bool = True, merges: bool = True, adds: bool = False, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._explores, self._merges, self._adds = explores, merges, adds
        self._num_copies = self._num_rewrites = self._num_examples = self._num_passed = 0

    def make_population(self, island: int, rng: Random, profilers: cluster.ClusterProfilers) -> LeaderPopulation:
        population = self._populations[island] = FrontPopulation(self, rng, explores=self._explores)
        return population

    def _choose_form(self, mode: Mode, parent: function.Function, rng: Random) -> str:
        form = super()._choose_form(mode, parent, rng)
        form = "rewrite" if form == "cross" and not self._merges else form
        if self._adds and form == "rewrite" and self._num_copies >= _MIN_COPIES:
            return "add" if rng.random() < self._num_copies / self._num_rewrites else form
        return form

    def _choose_engine(self, mode: Mode, rng: Random) -> str:
        """Returns the mutator; examples that do not pass their minibatch become rare."""
        engine = super()._choose_engine(mode, rng)
        if engine != EXAMPLES_ENGINE:
            return engine
        return engine if rng.random() < (self._num_passed + 1) / (self._num_examples + 1) else "llm"

    def learn(self, result: function.IterationResult) -> None:
        """Learns from an applied iteration, and counts the texts that the LLM copied instead of rewriting them."""
        super().learn(result)
        if result.advice.get("engine") == EXAMPLES_ENGINE:
            self._num_examples += 1
            self._num_passed += any(fn.evaluation is not None for fn, _ in result.children)
            return
        if result.advice.get("mode") == "rewrite":
            faults = [fn.candidate.meta.get("first_fault") for fn, _ in result.children if fn.candidate]
            self._num_rewrites += 1
            self._num_copies += "unchanged" in faults or "repeats" in (result.failure or "")


class FrontPopulation(LeaderPopulation):
    """Programs by lineage, and the best programs of each instance."""

    def __init__(self, policy: Policy, rng: Random, *, explores: bool = True) -> None:
        super().__init__(policy, rng)
        self._explores = explores
        self._champions: dict[int, list[function.Function]] = {}

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        decision = super().add_fn(fn, decision)
        if fn.evaluation is not None and fn.score() is not None and decision.verdict == "accept":
            for index, score in enumerate(fn.evaluation.scores):
                self._add_champion(index, score, fn)
        return decision

    def _add_champion(self, index: int, score: float, fn: function.Function) -> None:
        champions = self._champions.setdefault(index, [])
        best = _get_score(champions[0], index) if champions else None
        if best is None or score > best:
            self._champions[index] = [fn]
        elif score == best:
            champions.append(fn)
            champions.sort(key=function.get_fitness, reverse=True)
            del champions[_MAX_CHAMPIONS:]

    def _choose_parent(self, best: function.Function) -> tuple[Mode, function.Function, bool]:
        """Returns the mode and the parent: the best program, one of the front, or another method."""
        if self._policy.find_error(best):
            return "fix", best, False
        if self._explores and self._failures and self._rng.random() < self._policy.fix_share:
            return "fix", self._rng.choice(self._failures), False
        if self._tries < 1:
            return "refine", best, False
        explore, spread = self._policy.compute_shares()  # more of both in stagnation
        draw = self._rng.random()
        if self._explores and self._tries > 1 and draw < explore:
            return self._choose_challenger(best)
        if self._champions and draw < explore + (spread if self._explores else 0.0):
            return "spread", self._draw_champion(), False
        return "refine", best, False

    def _draw_champion(self) -> function.Function:
        """Draws an instance, then the better of two random champions of it."""
        champions = self._champions[self._rng.choice(sorted(self._champions))]
        return max(self._rng.choice(champions), self._rng.choice(champions), key=function.get_fitness)

    def _choose_inspirations(self, parent: function.Function) -> Mapping[str, Sequence[function.Function]]:
        """Returns as the first other program one that is better on some instances, if there is one."""
        roles = super()._choose_inspirations(parent)
        fronts = (fn for champions in self._champions.values() for fn in champions[:1])
        partner = next((fn for fn in fronts if are_complementary(parent, fn)), None)
        if partner is None or any(partner is fn for fns in roles.values() for fn in fns):
            return roles
        return {**roles, "other": (partner, *roles.get("other", ()))[: self._policy.settings.num_inspirations]}


def _get_score(fn: function.Function, index: int) -> float:
    return fn.evaluation.scores[index] if fn.evaluation else float("-inf")
