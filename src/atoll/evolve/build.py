"""Builds the system that evolves a Python object, with the search of `programs`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from atoll import cluster, control, errors, executor, function, mutation, noise, sandbox, system
from atoll.candidate import JSON
from atoll.evolve.events import EvolveOptions
from atoll.evolve.representations import Representation
from atoll.llmsr.build import get_evaluator_source
from atoll.programs import parameter_search, program_search
from atoll.programs.config import Options, Task
from atoll.programs.evaluation.folder_text import FORMAT_NOTE
from atoll.programs.gepa import dataset_evaluator, instance_job, minibatch, text_parts
from atoll.programs.gepa.front_population import FrontSearch
from atoll.programs.learners import CombinedLearner, RepeatWatch
from atoll.programs.parameter_search import ParameterReader, describe_parameters
from atoll.programs.population.leader import LeaderSearch
from atoll.runs import search_methods

_MAX_TRIALS, _MIN_TRIALS = 40, 4  # of the tuner for a new best program
_TUNER_SHARE = 10  # at most this fraction of the evaluator calls for one program: one in ten
_EXAMPLE_SHARE, _EXAMPLE_SHARE_ALONE = 0.2, 0.5  # of iterations on a text, with and without an LLM
_POINT_SHARE = 0.5  # of iterations on parameters, without the LLM
_MAX_IDLE_ITERATIONS = 300  # in a row without an evaluator call: nothing new is proposed any more
_TEXT_NOTE = "The evaluator uses the text and scores the result."
_PROMPT_NOTE = (
    "The evaluator uses the text on every instance, mostly as the instruction of an assistant that sees the text and "
    "one input, and nothing else."
)


@dataclass(frozen=True, slots=True)
class EvolveProblem:
    """Everything that the caller of `atoll.evolve` gave, in the form in which it evolves."""

    representation: Representation
    evaluator: Callable[..., Any]
    data: minibatch.DatasetSplit | None
    options: EvolveOptions

    @property
    def evaluator_name(self) -> str:
        return str(getattr(self.evaluator, "__name__", type(self.evaluator).__name__))

    @property
    def splits(self) -> Mapping[str, Sequence[Any]]:
        data = self.data
        return {dataset_evaluator.TRAIN: data.train, dataset_evaluator.VALIDATION: data.validation} if data else {}

    @property
    def has_minibatches(self) -> bool:
        """True if children are first compared with their parent on a minibatch."""
        representation, options = self.representation, self.options
        is_tuned = representation.initial_parameters is not None
        return self.data is not None and (options.llm is not None or not (representation.is_code or is_tuned))

    @property
    def uses_sandbox(self) -> bool:
        wants_sandbox = self.options.sandbox
        return self.representation.is_code if wants_sandbox is None else wants_sandbox

    @property
    def uses_examples(self) -> bool:
        """True if training instances may become examples in the text."""
        is_text = self.representation.kind == "text"
        return self.options.examples and is_text and self.data is not None and self.data.has_answers

    def open_executor(
        self, splits: Mapping[str, Sequence[Any]], executor_config: executor.ExecutorConfig
    ) -> sandbox.Sandbox:
        """Opens the executor of the evaluations: a sandbox for code, this process for texts and parameters.

        Raises:
            SetupError: The sandbox is missing, or the evaluator cannot be sent there.
        """
        make_job = partial(instance_job.InstanceJob, self.evaluator, self.representation.decode, splits)
        if self.uses_sandbox:
            return executor_config.open_scoring(
                make_job,
                self._make_apart_jobs(splits),
                self._make_request(splits),
                get_evaluator_source(self.evaluator),
                has_llm=self.options.llm is not None,
            ).executor
        if self.representation.is_code:
            raise errors.SetupError(
                "Code is evaluated in a sandbox. Leave sandbox=False out, or pass unsafe=True if this machine has none."
            )
        return dataset_evaluator.InProcessExecutor(make_job(), self.options.workers)

    def _make_apart_jobs(self, splits: Mapping[str, Sequence[Any]]) -> tuple[sandbox.MakeJob, sandbox.MakeJob] | None:
        """Returns the jobs of the evaluator and of the function in two sandboxes; None if it is not a function."""
        if self.representation.kind != "function":
            return None
        make_job = partial(instance_job.InstanceJob, self.evaluator, sandbox.RemoteFunction, splits)
        return make_job, partial(sandbox.FunctionServerJob, self.representation.decode)

    def _make_request(self, splits: Mapping[str, Sequence[Any]]) -> JSON:
        """Returns the request of a dry run: the initial candidate, on one instance."""
        return {"content": self.representation.content, "part": next(iter(splits), ""), "at": [0]}

    def compute_kernel_budget(self, budget: control.Budget) -> control.Budget:
        """Returns the budget in evaluations of candidates, of which each may call the evaluator several times."""
        if self.has_minibatches:
            return replace(budget, evaluations=None)  # a stop rule counts the calls
        if not self.data or budget.evaluations is None:
            return budget
        return replace(budget, evaluations=max(1, budget.evaluations // len(self.data.validation)))

    def describe(self) -> str:
        """Describes the purpose of the candidate for the LLM."""
        objective = self.options.objective.strip() or (inspect.getdoc(self.evaluator) or "").strip()
        sentences = [objective] if objective else []
        if self.representation.kind in ("text", "texts"):
            sentences.append(_TEXT_NOTE if self.data is None else _PROMPT_NOTE)
        if self.data is not None:
            examples = "a few of them" if self.data.is_shared else "a few others"
            sentences.append(
                f"The score is the mean over {len(self.data.validation)} instances. The evaluation shows {examples} "
                "with their results. General rules raise the score; copies of single answers do not."
            )
        if self.representation.initial_parameters is not None:
            sentences.append(describe_parameters(self.representation.initial_parameters))
        if self.representation.kind == "folder":
            sentences.append(FORMAT_NOTE)
        return "\n\n".join(sentences)


def build_system(
    problem: EvolveProblem, max_calls: int | None, memory: dataset_evaluator.CallMemory, context: system.BuildContext
) -> system.BuiltSystem:
    """Builds the system; the caller closes it.

    Args:
        max_calls: Budget of evaluator calls; None for no limit.
        memory: Holds and counts the evaluator calls.

    Raises:
        SetupError: The parts do not fit together.
    """
    representation, options = problem.representation, problem.options
    context = context._replace(first_budget=estimate_llm_calls(problem, context.first_budget))
    candidate_executor = problem.open_executor(problem.splits, context.executor_config)
    try:
        evaluator: function.CandidateEvaluator = dataset_evaluator.DatasetEvaluator(
            candidate_executor, problem.splits, memory
        )
        repeated = None
        if problem.data is None:  # with data the instances show the noise
            evaluator = repeated = noise.RepeatedEvaluator(evaluator, is_strict=True, make_repeat=_make_repeat)
        props = function.DefaultFunctionProps(function.Text(representation.content), candidate_evaluator=evaluator)
        initial = function.DefaultFunction(props)
        built = _build_search(problem, max_calls, context, initial)
    except BaseException:
        candidate_executor.close()
        raise
    built = search_methods.apply_method(options.method, built._replace(close=candidate_executor.close))
    built = _add_limits(problem, max_calls, memory, built)
    report = {"kind": representation.kind, "engine": "LLM" if context.llm else "no LLM", "workers": options.workers}
    return built._replace(report=report, sandbox=candidate_executor.level, repeated=repeated)


def _make_repeat(skeleton: function.Skeleton[..., Any], number: int) -> function.Skeleton[..., Any]:
    """Returns the candidate for a further call of its evaluator, which the memory of calls keeps apart."""
    return dataset_evaluator.Minibatch.create(str(skeleton), [number], dataset_evaluator.VALIDATION)


def estimate_llm_calls(problem: EvolveProblem, budget: control.Budget) -> control.Budget:
    """Returns the budget with the LLM calls that its evaluations allow, since the policy depends on their number."""
    if budget.evaluations is None:
        return budget
    per_call = 1
    if problem.data is not None:
        per_call = len(problem.data.validation) * 2 // 3 + 2 * problem.options.minibatch  # two in three are validated
    num_calls = max(1, budget.evaluations // per_call)
    return replace(budget, calls=num_calls if budget.calls is None else min(num_calls, budget.calls))


def _add_limits(
    problem: EvolveProblem, max_calls: int | None, memory: dataset_evaluator.CallMemory, built: system.BuiltSystem
) -> system.BuiltSystem:
    """Adds the budget of evaluator calls, and the rules that end a run without new candidates."""
    config, watch = built.config, RepeatWatch()
    islands, learners = config.island_config, [config.learner, watch]
    stop_rules: list[control.StopRule] = [*config.stop_rules, watch.find_reason, _make_idle_rule(memory)]
    stop_rules.append(_make_perfect_rule(problem))
    if problem.has_minibatches and problem.data is not None:
        calls_per_iteration = _make_minibatches(problem, built.config.island_config.mutation_engine).max_calls
        calls_per_iteration += _choose_max_trials(problem, max_calls) * len(problem.data.validation)
        budget = minibatch.CallBudget(memory, max_calls, calls_per_iteration)
        proposer = minibatch.BudgetedProposer(function.as_proposer(islands.mutation_engine), budget)
        islands = replace(islands, mutation_engine=proposer, prefilter=minibatch.MinibatchFilter(islands.prefilter))
        learners.append(budget)
        stop_rules.insert(0, budget.find_reason)
    learner = CombinedLearner([learner for learner in learners if learner is not None])
    new_config = replace(config, island_config=islands, learner=learner, stop_rules=stop_rules)
    return built._replace(config=new_config)


def _build_search(
    problem: EvolveProblem, max_calls: int | None, context: system.BuildContext, initial: function.Function
) -> system.BuiltSystem:
    representation, options = problem.representation, problem.options
    if context.llm is None and representation.initial_parameters is not None:
        return _as_system(_build_parameter_config(representation.initial_parameters, options, initial))
    if context.llm is None and not representation.is_code:
        return _as_system(_build_text_config(problem, initial))
    language = "json" if representation.initial_parameters is not None else representation.language
    max_trials = _choose_max_trials(problem, max_calls)
    inputs = program_search.SearchInputs(
        representation.content,
        language,
        Task(program=f"This {representation.kind}", description=problem.describe()),
        _make_options(problem, max_trials),
        context,
        "" if problem.evaluator_name == "<lambda>" else get_evaluator_source(problem.evaluator),
        wrap=partial(_wrap_mutator, problem),
        max_trials=max_trials,
        limits=None if problem.uses_sandbox else "",
        make_policy=_choose_policy(problem),
    )
    if context.llm is None and (language != "python" or not mutation.is_mutable(representation.content)):
        raise errors.SetupError(
            f"This {representation.kind} has no Python that the syntax mutator can change. Pass an LLM with llm=."
        )
    search = program_search.make_program_search(inputs)
    prefilter = program_search.make_novelty_filter(inputs) if context.llm else None
    config = search.make_config(initial, None, prefilter)
    if representation.initial_parameters is not None:
        config = _add_parameter_search(representation.initial_parameters, options, config)
    built = _as_system(config)
    return built._replace(baseline_proposer=search.llm_proposer, is_free=search.policy is not None)


def _make_options(problem: EvolveProblem, max_trials: int) -> Options:
    # Texts differ by every word: only programs have copies in other words.
    threshold = 1.0 if problem.representation.is_code else 2.0
    weights = {} if max_trials else {"tuner": 0.0}
    # Notes compare whole programs; with data, the failed instances tell more.
    notes = "auto" if problem.representation.is_code and problem.data is None else "built"
    return Options.model_validate({"engine_weights": weights, "similarity_threshold": threshold, "run_notes": notes})


def _as_system(config: cluster.EvolverConfig) -> system.BuiltSystem:
    return system.BuiltSystem(config, {}, (), "", lambda: None)


def _choose_max_trials(problem: EvolveProblem, max_calls: int | None) -> int:
    """Returns the trials of the tuner for a new best program; 0: not worth it."""
    if not problem.representation.is_code or problem.options.llm is None:
        return 0
    if max_calls is None:
        return _MAX_TRIALS if problem.data is None else 0
    num_instances = len(problem.data.validation) if problem.data else 1
    trials = min(_MAX_TRIALS, max_calls // (_TUNER_SHARE * num_instances))
    return trials if trials >= _MIN_TRIALS else 0


def _choose_policy(problem: EvolveProblem) -> Callable[..., LeaderSearch]:
    """Returns what makes the policy. With data parents come from the Pareto front; a tuner changes parameters too."""
    is_tuned = problem.representation.initial_parameters is not None

    def make_policy(*arguments: Any, **options: Any) -> LeaderSearch:
        options |= {"engines": {"tuner": _POINT_SHARE}} if is_tuned else {}
        options |= {"engines": {text_parts.EXAMPLES_ENGINE: _EXAMPLE_SHARE}} if problem.uses_examples else {}
        if problem.data is None:
            return LeaderSearch(*arguments, **options)
        is_code, is_text = problem.representation.is_code, problem.representation.kind in ("text", "texts")
        return FrontSearch(*arguments, explores=is_code, merges=problem.options.merge, adds=is_text, **options)

    return make_policy


def _wrap_mutator(problem: EvolveProblem, mutator: mutation.EditMutator) -> function.Proposer:
    """Adds the parts of a dict of texts and the minibatches of a data set to the LLM mutator."""
    proposer: function.Proposer = mutator
    if problem.representation.initial_parameters is not None:
        tunables = parameter_search.parse_tunables(problem.representation.initial_parameters)
        proposer = replace(mutator, reader=ParameterReader(tunables=tunables), mode="rewrite")
    elif not problem.representation.is_code:
        has_parts = problem.representation.kind == "texts"
        whole_mutator = replace(mutator, mode="rewrite", can_add=True)
        if has_parts:
            whole_mutator = replace(whole_mutator, find_duplicate=lambda text, context: "")
        proposer = text_parts.PartProposer(whole_mutator, text_parts.TextFormat(has_parts))
    proposer = _add_examples(problem, proposer)
    return _make_minibatches(problem, proposer) if problem.data is not None else proposer


def _add_examples(problem: EvolveProblem, proposer: function.Proposer, share: float = 0.0) -> function.Proposer:
    if not problem.uses_examples or problem.data is None:
        return proposer
    examples = [dataset_evaluator.format_instance(item) for item in problem.data.train]
    return text_parts.ExampleProposer(proposer, examples, share)


def _make_minibatches(problem: EvolveProblem, proposer: Any) -> minibatch.MinibatchProposer:
    data, options = problem.data, problem.options
    assert data is not None
    batches = data.make_batches(options.minibatch, options.seed)
    return minibatch.MinibatchProposer(proposer, data, batches, options.minibatch, options.target)


def _build_parameter_config(
    parameters: Mapping[str, Any], options: EvolveOptions, initial: function.Function
) -> cluster.EvolverConfig:
    tunables = parameter_search.parse_tunables(parameters)
    proposer = parameter_search.PointProposer(tunables)
    islands = cluster.IslandConfig(1, 1, initial, proposer, make_population=_make_ranked_population)
    learner = parameter_search.SearchLearner(tunables, options.seed)
    return cluster.EvolverConfig(islands, reset_period=None, learner=learner)


def _add_parameter_search(
    parameters: Mapping[str, Any], options: EvolveOptions, config: cluster.EvolverConfig
) -> cluster.EvolverConfig:
    """Lets the numeric optimizer and the LLM take turns; each learns from the other's results."""
    tunables, islands = parameter_search.parse_tunables(parameters), config.island_config
    proposer = function.as_proposer(islands.mutation_engine)
    mixed = mutation.MixedMutator({"llm": proposer, "tuner": parameter_search.PointProposer(tunables)})
    learners = [config.learner, parameter_search.SearchLearner(tunables, options.seed)]
    learner = CombinedLearner([learner for learner in learners if learner is not None])
    return replace(config, island_config=replace(islands, mutation_engine=mixed), learner=learner)


def _build_text_config(problem: EvolveProblem, initial: function.Function) -> cluster.EvolverConfig:
    """Builds the search without an LLM: random edits."""
    text_format = text_parts.TextFormat(problem.representation.kind == "texts")
    random_proposer = text_parts.PartProposer(text_parts.RandomTextProposer(), text_format)
    proposer = _add_examples(problem, random_proposer, _EXAMPLE_SHARE_ALONE)
    if problem.data is not None:
        proposer = _make_minibatches(problem, proposer)
    islands = cluster.IslandConfig(1, 2, initial, proposer, make_population=_make_ranked_population)
    return cluster.EvolverConfig(islands, reset_period=None)


def _make_ranked_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    return cluster.NichedPopulation(
        cluster.by_signature,
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.RankSelector(rng),
        num_parents=2,
    )


def _make_perfect_rule(problem: EvolveProblem) -> control.StopRule:
    """Stops if every instance has the score 1 and no target says that more is possible."""
    data, target = problem.data, problem.options.target

    def rule(progress: control.RunProgress) -> str | None:
        if data is None or target is not None or progress.best_score != 1.0:
            return None
        return "every instance has the score 1, taken as the highest; pass target= if there are higher scores"

    return rule


def _make_idle_rule(memory: dataset_evaluator.CallMemory) -> control.StopRule:
    last_calls, last_iteration = 0, 0

    def rule(progress: control.RunProgress) -> str | None:
        nonlocal last_calls, last_iteration
        if memory.calls != last_calls:
            last_calls, last_iteration = memory.calls, progress.applied_count
        is_idle = progress.applied_count - last_iteration >= _MAX_IDLE_ITERATIONS
        return f"no new candidate in {_MAX_IDLE_ITERATIONS} iterations" if is_idle else None

    return rule
