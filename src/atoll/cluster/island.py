"""One place in the ring."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from atoll import archipelago, function, gate, profiler

type RunIteration = Callable[[Island], function.Function]


@dataclass(eq=False, slots=True)
class Island:
    """A pool with its place and epoch; a reset puts a new island with the next epoch in the same place."""

    index: int
    epoch: int
    population: archipelago.Population
    _profilers: profiler.Profilers[archipelago.IslandEvent]
    _run_iteration: "RunIteration"
    _best: float = -math.inf

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[archipelago.IslandEvent]) -> profiler.Remove:
        """Registers a profiler with every island of this ring."""
        return self._profilers.use(profiler_fn)

    def best_fn(self) -> function.Function:
        return self.population.best_fn()

    def request_mutation(self) -> function.Function:
        return self._run_iteration(self)

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        """Lets the pool carry out the decision and announces a new best."""
        decision = self.population.add_fn(fn, decision)
        if decision.verdict == "accept" and function.get_fitness(fn) > self._best:
            self._best = function.get_fitness(fn)
            self._profilers.emit(archipelago.OnBestFnImproved("on_best_fn_improved", fn))
        return decision
