"""Python interface of Mind Evolution."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atoll import cluster, control, errors, journal, llm, system
from atoll.candidate import JSON
from atoll.evaluation import ZERO_COST
from atoll.llm import budget
from atoll.mind import build, generations, plan_evaluator, problems, worldline_manager
from atoll.mind.config import Options
from atoll.mind.tasks.problem import Problem
from atoll.mind.worldline import Worldline

type Model = llm.LLM | Callable[[str], str] | str | None


@dataclass(frozen=True, slots=True)
class MindResult:
    """Result of a search.

    Attributes:
        worldlines: Best worldline of each problem, by its id.
        plans: Their texts.
        reasons: Why the search for each problem ended.
        stats: Calls, tokens, evaluations, and a row per problem.
        reason: Why the run ended.
    """

    worldlines: Mapping[str, Worldline]
    plans: Mapping[str, str]
    reasons: Mapping[str, str]
    stats: Mapping[str, JSON]
    reason: str


@dataclass(frozen=True)
class MindEvolutionEngine:
    """Searches for plans with islands of worldlines and conversations of author and critic.

    The search runs in threads. With an event loop, call `await asyncio.to_thread(engine.run)`.

    Attributes:
        problems: Problems to solve, such as `atoll.mind.tasks.trip.from_text(...)`.
        model: Name of an LLM, a function of the prompt, or any LLM of `atoll.llm`. None recombines and mutates traces
            without an LLM.
        options: Keys of the section `[mind]`.
        budget: Budget of the run.
        island_budget: LLM budget of one island of one problem: calls, tokens, US dollars.
        run_journal: Journal of the run. A journal that contains a run resumes it.
        max_response_tokens: Longest response, reserved for each call so that the budget holds.
        workers: Parallel iterations.
        window: Iterations in flight. With 1, the islands take turns as in the paper.
        seed: Random seed.
    """

    problems: Sequence[Problem]
    model: Model = None
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: control.Budget = control.UNLIMITED
    island_budget: control.Budget = control.UNLIMITED
    run_journal: journal.Journal = field(default_factory=journal.NullJournal)
    max_response_tokens: int = 4096
    workers: int = 1
    window: int | None = None
    seed: int = 0

    def run(self) -> MindResult:
        """Runs the search.

        Raises:
            SetupError: The options or the model cannot be used.
            RunFailed: The run failed.
        """
        options = system.validate_settings("mind", Options, self.options)
        problem_set = problems.ProblemSet(
            self.problems, problems.make_evaluator(self.problems, options), f"{len(self.problems)} problems"
        )
        charges = budget.read_charges(self.run_journal.read())
        used = sum(charges.values(), ZERO_COST)
        llm_budget = llm.LLMBudget(self.budget, self.island_budget, used, charges, journal=self.run_journal)
        built_system = build.assemble(problem_set, options, self._make_llm(llm_budget))
        status = built_system.config.learner
        assert isinstance(status, generations.ProblemStatus)  # as `assemble` makes it
        llm_budget.num_islands = built_system.config.island_config.num_islands
        evolver = cluster.Evolver(self._make_run_config(built_system.config))
        llm_budget.on_exhausted = lambda reason: evolver.stop(reason)
        evolver.run()
        return self._make_result(status, built_system, evolver)

    def _make_run_config(self, config: cluster.EvolverConfig) -> cluster.EvolverConfig:
        is_timed = any(limit is not None for limit in (self.budget.seconds, self.budget.usd, self.budget.tokens))
        window = self.window or self.workers
        run_config = replace(config, num_parallel=self.workers, seed=self.seed, ordered=not is_timed, window=window)
        return replace(run_config, journal=self.run_journal, budget=self.budget)

    def _make_llm(self, llm_budget: llm.LLMBudget) -> llm.LLM | None:
        max_tokens = self.max_response_tokens
        model = llm.make_llm(self.model, max_tokens=max_tokens) if isinstance(self.model, str) else self.model
        if model is None:
            return None
        if not callable(model):
            raise errors.SetupError(f"model is {model!r:.60}. Pass the name of an LLM, a function, or None.")
        metered_model = model if isinstance(model, llm.HostedLLM) else llm.FunctionLLM(model)
        return llm.JournaledLLM(budget.make_metered_llm(metered_model, llm_budget, self.max_response_tokens))

    def _make_result(
        self, status: generations.ProblemStatus, built_system: system.BuiltSystem, evolver: cluster.Evolver
    ) -> MindResult:
        pairs = list(zip(self.problems, status.states, strict=True))
        best_worldlines = {
            problem.id: worldline_manager.make_worldline(state.best, problem)
            for problem, state in pairs
            if state.best is not None
        }
        plans = {
            problem.id: plan_evaluator.get_plan(str(state.best.skeleton())) for problem, state in pairs if state.best
        }
        reasons = {problem.id: state.reason or evolver.reason for problem, state in pairs}
        stats = built_system.summarize_result(evolver) if built_system.summarize_result else {}
        return MindResult(best_worldlines, plans, reasons, stats, evolver.reason)
