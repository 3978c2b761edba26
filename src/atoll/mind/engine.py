"""Mind Evolution from Python: problems in, their best worldlines out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atoll import cluster, control, errors, journal, llm, system
from atoll.candidate import JSON
from atoll.evaluation import Cost
from atoll.mind import build, fitness, judge, standing, subject, worldlines
from atoll.mind.config import Options
from atoll.mind.tasks.problem import Problem
from atoll.mind.worldline import Worldline

type Model = llm.LLM | Callable[[str], str] | str | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to.

    Attributes:
        worldlines: The best of every problem, by its id.
        plans: Their texts.
        reasons: Why each search ended.
        facts: Calls, tokens, evaluations, and a row per problem.
        reason: Why the run as a whole ended.
    """

    worldlines: Mapping[str, Worldline]
    plans: Mapping[str, str]
    reasons: Mapping[str, str]
    facts: Mapping[str, JSON]
    reason: str


@dataclass(frozen=True)
class MindEvolutionEngine:
    """Searches for plans: islands of worldlines, conversations of author and critic, on the kernel.

    The search runs in the evolver's threads; a host with an event loop calls `run` through `asyncio.to_thread`.

    Attributes:
        problems: What is planned, such as `atoll.mind.tasks.trip.from_text(...)`.
        model: Who answers: a model's name, a function of the prompt, or anything that `atoll.llm` offers; None: traces
            are recombined and changed without one.
        options: Keys of the section `[mind]`.
        budget: What the run may use.
        island_budget: What the model may cost one island of one problem: calls, tokens, US dollars.
        records: Where the run is kept; one that holds a run goes on with it.
        longest_reply: Tokens that are put aside for a reply before it is asked for, so that a budget holds.
        workers: Steps at work at once.
        window: Steps in flight; with 1 the islands take turns exactly as in the paper.
        seed: All dice come from it.
    """

    problems: Sequence[Problem]
    model: Model = None
    options: Mapping[str, Any] = field(default_factory=dict)
    budget: control.Budget = control.UNLIMITED
    island_budget: control.Budget = control.UNLIMITED
    records: journal.Journal = field(default_factory=journal.Nowhere)
    longest_reply: int = 4096
    workers: int = 1
    window: int | None = None
    seed: int = 0

    def run(self) -> Found:
        """Searches to the end.

        Raises:
            SetupError: The options or the model cannot be used.
            RunFailed: The run ended before its time.
        """
        options = system.check("mind", Options, self.options)
        about = subject.Subject(self.problems, self._judge(options), f"{len(self.problems)} problems")
        purse = llm.Purse(per_island=self.island_budget)
        built = build.assemble(about, options, self._asked(purse))
        known = built.config.learner
        assert isinstance(known, standing.Standing)  # as `assemble` makes it
        purse.num_islands = built.config.island_config.num_islands
        evolver = cluster.Evolver(self._run_config(built.config))
        purse.on_empty = lambda reason: evolver.stop(reason)
        evolver.run()
        return self._found(known, built, evolver)

    def _judge(self, options: Options) -> judge.PlanJudge:
        return judge.PlanJudge({each.id: each for each in self.problems}, fitness.weights_of(options.weights))

    def _run_config(self, config: cluster.EvolverConfig) -> cluster.EvolverConfig:
        is_timed = self.budget.seconds is not None or self.budget.usd is not None
        window = self.window or self.workers
        run = replace(config, num_parallel=self.workers, seed=self.seed, ordered=not is_timed, window=window)
        return replace(run, journal=self.records, budget=self.budget)

    def _asked(self, purse: llm.Purse) -> llm.LLM | None:
        model = llm.make_llm(self.model) if isinstance(self.model, str) else self.model
        if model is None:
            return None
        if not callable(model):
            raise errors.SetupError(f"model is {model!r:.60}: give a model's name, a function of the prompt, or None.")
        counted = llm.Counted(llm.FromFunction(model))
        return llm.Durable(llm.Metered(counted, purse, self._most))

    def _most(self, prompt: str) -> Cost:
        return Cost(tokens_in=-(-len(prompt) // 4), tokens_out=self.longest_reply, calls=1)

    def _found(self, known: standing.Standing, built: system.Built, evolver: cluster.Evolver) -> Found:
        pairs = list(zip(self.problems, known.states, strict=True))
        best = {problem.id: worldlines.of(state.best, problem) for problem, state in pairs if state.best is not None}
        plans = {problem.id: judge.plan_of(str(state.best.skeleton())) for problem, state in pairs if state.best}
        reasons = {problem.id: state.reason or evolver.reason for problem, state in pairs}
        facts = built.finish(evolver) if built.finish else {}
        return Found(best, plans, reasons, facts, evolver.reason)
