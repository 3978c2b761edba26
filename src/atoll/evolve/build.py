"""Builds the system that evolves a Python object: proposer, evaluator, population, stop rules."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from atoll import cluster, control, errors, executor, function, llm, mutation, sandbox, system
from atoll.evolve.options import EvolveOptions
from atoll.evolve.representations import Representation
from atoll.llmsr.build import get_evaluator_source
from atoll.mutation import text_blocks
from atoll.programs import parameter_search
from atoll.programs.gepa import dataset, dataset_evaluator, reflection, text_edits, text_mutator
from atoll.programs.learners import TextNotes
from atoll.runs import search_methods

_ISLANDS, _MIGRATION_PERIOD = 4, 50  # for code; iterations of each island between migrations
_MAX_PROMPT_CHARS, _RESERVED_CHARS = 24_000, 1_000  # of a prompt for code; beside the program and the objective
_MAX_IDLE_ITERATIONS = 300  # in a row without an evaluator call: nothing new is proposed any more


@dataclass(frozen=True, slots=True)
class EvolveProblem:
    """Everything that the caller of `atoll.evolve` gave, in the form in which it evolves."""

    representation: Representation
    evaluator: Callable[..., Any]
    data: dataset.DatasetSplit | None
    options: EvolveOptions

    def open_executor(
        self, splits: Mapping[str, Sequence[Any]], executor_config: executor.ExecutorConfig
    ) -> sandbox.Sandbox:
        """Opens the executor of the evaluations: a sandbox for code, this process for texts and parameters.

        Raises:
            SetupError: The sandbox is missing, or the evaluator cannot be sent there.
        """
        representation, wants_sandbox = self.representation, self.options.sandbox
        make_job = partial(dataset_evaluator.InstanceJob, self.evaluator, representation.decode, splits)
        if representation.is_code if wants_sandbox is None else wants_sandbox:
            return executor_config.open(make_job, get_evaluator_source(self.evaluator))
        if representation.is_code:
            raise errors.SetupError(
                "Code is evaluated in a sandbox. Leave sandbox=False out, or pass unsafe=True if this machine has none."
            )
        return dataset_evaluator.InProcessExecutor(make_job())

    def compute_kernel_budget(self, budget: control.Budget) -> control.Budget:
        """Returns the budget in evaluations of candidates, of which each may call the evaluator several times."""
        if self.representation.is_text:
            return replace(budget, evaluations=None)  # a stop rule counts the calls
        if not self.data or budget.evaluations is None:
            return budget
        return replace(budget, evaluations=max(1, budget.evaluations // len(self.data.validation)))


def build_system(
    problem: EvolveProblem, max_calls: int | None, counter: dataset_evaluator.CallCounter, context: system.BuildContext
) -> system.BuiltSystem:
    """Builds the system; the caller closes it.

    Args:
        max_calls: Budget of evaluator calls; None for no limit.
        counter: Counts the evaluator calls.

    Raises:
        SetupError: The parts do not fit together.
    """
    representation, data, options = problem.representation, problem.data, problem.options
    splits = {"train": data.train, "validation": data.validation} if data else {}
    candidate_sandbox = problem.open_executor(splits, context.executor_config)
    try:
        is_function = representation.kind == "function"
        skeleton = (function.PyAstSkeleton if is_function else function.Text)(representation.content)
        candidate_evaluator = dataset_evaluator.DatasetEvaluator(candidate_sandbox, splits, counter)
        props = function.DefaultFunctionProps(skeleton, candidate_evaluator=candidate_evaluator)
        evolver_config = _build_evolver_config(problem, context.llm, function.DefaultFunction(props))
    except BaseException:
        candidate_sandbox.close()
        raise
    if isinstance(evolver_config.learner, TextNotes):
        calls_in_flight = _count_calls_in_flight(data, options)
        rules = [_make_call_limit_rule(evolver_config.learner, max_calls, calls_in_flight), _make_idle_rule(counter)]
        evolver_config = replace(evolver_config, stop_rules=rules)
    report = {"kind": representation.kind, "engine": "LLM" if context.llm else "no LLM", "workers": options.workers}
    return system.BuiltSystem(evolver_config, report, (), candidate_sandbox.level, candidate_sandbox.close)


def _build_evolver_config(
    problem: EvolveProblem, run_llm: llm.LLM | None, initial: function.Function
) -> cluster.EvolverConfig:
    representation, options = problem.representation, problem.options
    if representation.initial_parameters is not None:
        tunables = parameter_search.parse_tunables(representation.initial_parameters)
        proposer = parameter_search.PointProposer(tunables)
        islands = cluster.IslandConfig(1, 1, initial, proposer, make_population=_get_population_factory(1))
        learner = parameter_search.SearchLearner(tunables, options.seed)
        return cluster.EvolverConfig(islands, reset_period=None, learner=learner)
    if representation.is_text:
        return _build_text_config(problem, run_llm, initial)
    mutator = _make_mutator(representation, options, run_llm)
    num_islands = 1 if options.method == "sequential" else _ISLANDS
    make_population = _get_population_factory(2, options.method)
    islands = cluster.IslandConfig(num_islands, 2, initial, mutator, make_population=make_population)
    schedule = cluster.RoundRobin(num_islands, migrate_every=_MIGRATION_PERIOD * num_islands)
    return cluster.EvolverConfig(islands, schedule=schedule, learner=mutator.learner)


def _build_text_config(
    problem: EvolveProblem, run_llm: llm.LLM | None, initial: function.Function
) -> cluster.EvolverConfig:
    data, options = problem.data, problem.options
    writer: text_mutator.TextWriter = (
        text_edits.RandomTextWriter() if run_llm is None else reflection.ReflectionWriter(run_llm, options.objective)
    )
    batches = data.make_batches(options.minibatch, options.seed) if data else ()
    text_format = text_mutator.TextFormat(problem.representation.kind != "text")
    merge_probability = 0.2 if options.merge else 0.0
    mutator = text_mutator.TextMutator(text_format, writer, batches, options.target, merge_probability)
    make_population = _get_population_factory(2, options.method)
    if data and options.method == "evolve":
        make_population = text_mutator.make_pareto_population
    islands = cluster.IslandConfig(
        1, 2, initial, mutator, prefilter=text_mutator.better_on_batch, make_population=make_population
    )
    learner = TextNotes(len(data.validation) if data else 1)
    return cluster.EvolverConfig(islands, reset_period=None, learner=learner)


def _make_mutator(
    representation: Representation, options: EvolveOptions, run_llm: llm.LLM | None
) -> mutation.MixedMutator:
    language = representation.language
    if run_llm is not None:
        build_prompt = partial(_build_prompt, objective=options.objective.strip(), language=language)
        rewrite = mutation.RewriteMutator(run_llm, build_prompt, mutation.ResponseReader(language))
        return mutation.add_tuner(rewrite, representation.content, "rewrite")
    if language != "python" or not mutation.is_mutable(representation.content):
        raise errors.SetupError(
            f"This {representation.kind} has no Python that the syntax mutator can change. Pass an LLM with llm=."
        )
    return mutation.make_default_mutator(representation.content)


def _build_prompt(context: function.ProposalContext, *, objective: str, language: str) -> str:
    """Returns the prompt for a program. A long objective is cut before the program is."""
    max_objective_chars = _MAX_PROMPT_CHARS - _RESERVED_CHARS - len(str(context.parents[-1].skeleton()))
    shown_objective = text_blocks.cut_middle(objective, max(0, max_objective_chars))
    system_text = f"# Task\n{shown_objective}" if shown_objective else ""
    max_chars = _MAX_PROMPT_CHARS - len(system_text)
    user_text = mutation.build_program_prompt(context, task_description="", language=language, max_chars=max_chars)
    return llm.ChatPrompt(("system", system_text), ("user", user_text))


def _count_calls_in_flight(data: dataset.DatasetSplit | None, options: EvolveOptions) -> int:
    """Returns the highest number of evaluator calls of the iterations in flight."""
    trials = 1 + (1 if options.target is None else text_mutator.MAX_BATCHES)
    calls_per_iteration = len(data.validation) + trials * min(options.minibatch, len(data.train)) if data else 1
    return calls_per_iteration * options.workers


def _make_call_limit_rule(notes: TextNotes, limit: int | None, calls_in_flight: int) -> control.StopRule:
    """Stops before the evaluator is called too often. Counts applied iterations, so timing has no influence."""
    reason = f"budget of {limit} evaluator calls used"
    return lambda progress: reason if limit is not None and notes.calls + calls_in_flight > limit else None


def _make_idle_rule(counter: dataset_evaluator.CallCounter) -> control.StopRule:
    last_calls, last_iteration = 0, 0

    def rule(progress: control.RunProgress) -> str | None:
        nonlocal last_calls, last_iteration
        if counter.calls != last_calls:
            last_calls, last_iteration = counter.calls, progress.applied_count
        is_idle = progress.applied_count - last_iteration >= _MAX_IDLE_ITERATIONS
        return f"no new candidate in {_MAX_IDLE_ITERATIONS} iterations" if is_idle else None

    return rule


def _get_population_factory(num_parents: int, method: str = "evolve") -> cluster.MakePopulation:
    if method == "sequential":
        return search_methods.make_sequential_population
    population_class = search_methods.BestOfNPopulation if method == "best_of_n" else cluster.NichedPopulation
    return lambda island, rng, announce: population_class(
        cluster.by_signature,
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.RankSelector(rng),
        num_parents=num_parents,
    )
