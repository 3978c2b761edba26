"""Puts a run together for a thing: who proposes, who judges, what is kept."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from atoll import cluster, control, errors, executor, function, llm, mutation, sandbox, system
from atoll.evolve.options import EvolveOptions
from atoll.evolve.representations import Representation
from atoll.llmsr.build import get_evaluator_source
from atoll.programs import parameter_search
from atoll.programs.gepa import dataset, dataset_evaluator, reflection, text_edits, text_mutator
from atoll.programs.learners import TextNotes
from atoll.runs import search_methods

_ISLANDS, _MIGRATION_PERIOD = 4, 50  # of code; steps of each island between migrations
_MAX_IDLE_ITERATIONS = 300  # in a row without a call of the evaluator end a run of texts: nothing new comes any more


@dataclass(frozen=True, slots=True)
class RunParts:
    """The parts of a run.

    Attributes:
        meter: Counts the calls of the evaluator.
        stop_rules: What ends the run beside its budget.
        budget: What is left of the budget for the kernel to watch.
    """

    built_system: system.BuiltSystem
    call_counter: dataset_evaluator.CallCounter
    stop_rules: Sequence[control.StopRule]
    budget: control.Budget


def open_executor(
    representation: Representation,
    evaluator: Callable[..., Any],
    splits: Mapping[str, Sequence[Any]],
    options: EvolveOptions,
    has_llm: bool,
) -> sandbox.Sandbox:
    """Opens where candidates are judged: a jail for code, this process for what is data.

    Raises:
        SetupError: There is no jail, or the evaluator cannot be sent there.
    """
    make_job = partial(dataset_evaluator.InstanceJob, evaluator, representation.decode, splits)
    if not (representation.is_code if options.sandbox is None else options.sandbox):
        if representation.is_code:
            raise errors.SetupError("Code is judged in a jail: leave jail out, or say unsafe=True where there is none.")
        return dataset_evaluator.InProcessExecutor(make_job())
    executor_config = executor.ExecutorConfig(
        sandbox.Limits(seconds=options.seconds),
        min(options.workers, executor.cpu_count()),
        is_unsafe=options.unsafe or not has_llm,
    )
    return executor_config.open(make_job, get_evaluator_source(evaluator))


def build_run(
    representation: Representation,
    evaluator: Callable[..., Any],
    data: dataset.DatasetSplit | None,
    options: EvolveOptions,
    run_llm: llm.LLM | None,
    budget: control.Budget,
) -> RunParts:
    """Makes the parts; whoever gets them closes them.

    Raises:
        SetupError: They do not fit together.
    """
    splits = {"train": data.train, "validation": data.validation} if data else {}
    candidate_sandbox = open_executor(representation, evaluator, splits, options, run_llm is not None)
    candidate_evaluator = dataset_evaluator.DatasetEvaluator(candidate_sandbox, splits)
    try:
        skeleton = function.PyAstSkeleton(representation.content) if representation.kind == "function" else None
        props = function.DefaultFunctionProps(
            skeleton or function.Text(representation.content), candidate_evaluator=candidate_evaluator
        )
        evolver_config = _build_evolver_config(representation, data, options, run_llm, function.DefaultFunction(props))
    except BaseException:
        candidate_sandbox.close()
        raise
    report = {"kind": representation.kind, "engine": "no LLM" if run_llm is None else "LLM", "workers": options.workers}
    built_system = system.BuiltSystem(evolver_config, report, (), candidate_sandbox.level, candidate_sandbox.close)
    stop_rules = [] if options.target is None else [control.make_target_rule(options.target)]
    if isinstance(evolver_config.learner, TextNotes):
        max_calls = _compute_max_calls(data, options)
        stop_rules += [
            _make_call_limit_rule(evolver_config.learner, budget.evaluations, max_calls),
            _make_idle_rule(candidate_evaluator.counter),
        ]
        budget = replace(budget, evaluations=None)
    elif data and budget.evaluations is not None:
        budget = replace(budget, evaluations=max(1, budget.evaluations // len(data.validation)))
    return RunParts(built_system, candidate_evaluator.counter, stop_rules, budget)


def _build_evolver_config(
    representation: Representation,
    data: dataset.DatasetSplit | None,
    options: EvolveOptions,
    run_llm: llm.LLM | None,
    initial: function.Function,
) -> cluster.EvolverConfig:
    if representation.initial_parameters is not None:
        tunables = parameter_search.parse_tunables(representation.initial_parameters)
        islands = cluster.IslandConfig(
            1, 1, initial, parameter_search.PointProposer(tunables), make_population=_get_population_factory(1)
        )
        learner = parameter_search.SearchLearner(tunables, options.seed)
        return cluster.EvolverConfig(islands, reset_period=None, learner=learner)
    if representation.kind in ("text", "texts", "folder"):
        return _build_text_config(representation, data, options, run_llm, initial)
    mutator = _make_mutator(representation, options, run_llm)
    num_islands = 1 if options.method == "sequential" else _ISLANDS
    islands = cluster.IslandConfig(
        num_islands, 2, initial, mutator, make_population=_get_population_factory(2, options.method)
    )
    schedule = cluster.RoundRobin(num_islands, migrate_every=_MIGRATION_PERIOD * num_islands)
    return cluster.EvolverConfig(islands, schedule=schedule, learner=mutator.learner)


def _build_text_config(
    representation: Representation,
    data: dataset.DatasetSplit | None,
    options: EvolveOptions,
    run_llm: llm.LLM | None,
    initial: function.Function,
) -> cluster.EvolverConfig:
    writer: text_mutator.TextWriter = (
        text_edits.RandomTextWriter() if run_llm is None else reflection.ReflectionWriter(run_llm, options.objective)
    )
    batches = data.make_batches(options.minibatch, options.seed) if data else ()
    merge_probability = 0.2 if options.merge else 0.0
    mutator = text_mutator.TextMutator(
        text_mutator.TextFormat(representation.kind != "text"), writer, batches, options.target, merge_probability
    )
    make_population = (
        text_mutator.make_pareto_population
        if data and options.method == "evolve"
        else _get_population_factory(2, options.method)
    )
    islands = cluster.IslandConfig(
        1, 2, initial, mutator, prefilter=text_mutator.better_on_batch, make_population=make_population
    )
    learner = TextNotes(len(data.validation) if data else 1)
    return cluster.EvolverConfig(islands, reset_period=None, learner=learner)


def _make_mutator(
    representation: Representation, options: EvolveOptions, run_llm: llm.LLM | None
) -> mutation.MixedMutator:
    if run_llm is not None:
        build_prompt = partial(
            mutation.build_program_prompt, task_description=options.objective, language=representation.language
        )
        rewrite = mutation.RewriteMutator(
            run_llm, build_prompt, partial(mutation.extract_code, language=representation.language)
        )
        return mutation.add_tuner(rewrite, representation.content, "rewrite")
    if representation.language != "python" or not mutation.is_mutable(representation.content):
        raise errors.SetupError(
            f"This {representation.kind} has nothing that its syntax could change: give a model with llm."
        )
    return mutation.make_default_mutator(representation.content)


def _compute_max_calls(data: dataset.DatasetSplit | None, options: EvolveOptions) -> int:
    """Returns how often the steps in flight may call the evaluator at most."""
    trials = 1 + (1 if options.target is None else text_mutator.MAX_BATCHES)
    calls_per_iteration = len(data.validation) + trials * min(options.minibatch, len(data.train)) if data else 1
    return calls_per_iteration * options.workers


def _make_call_limit_rule(notes: TextNotes, limit: int | None, max_calls: int) -> control.StopRule:
    """Stops before the evaluator is called more often than that; steps that were applied count, and no clock."""
    reason = f"budget of {limit} evaluator calls used"
    return lambda progress: reason if limit is not None and notes.calls + max_calls > limit else None


def _make_idle_rule(call_counter: dataset_evaluator.CallCounter) -> control.StopRule:
    last_seen = [0, 0]  # the calls, and the step at which there were so many first

    def rule(progress: control.RunProgress) -> str | None:
        if call_counter.calls != last_seen[0]:
            last_seen[:] = [call_counter.calls, progress.applied_count]
        is_idle = progress.applied_count - last_seen[1] >= _MAX_IDLE_ITERATIONS
        return f"nothing new to judge in {_MAX_IDLE_ITERATIONS} steps" if is_idle else None

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
