"""Builds the evolution of one function, from Python objects (`spawn_evolver`) or from a task folder (`build`)."""

import ast
import contextlib
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy

from atoll import (
    archipelago,
    cluster,
    control,
    errors,
    executor,
    function,
    journal,
    llm,
    mutation,
    noise,
    profiler,
    sandbox,
    strategies,
    system,
)
from atoll.candidate import JSON
from atoll.evaluation import ZERO_COST
from atoll.llm import budget as llm_budget
from atoll.llmsr import laws, source
from atoll.llmsr.config import EvolverConfig, LLMSpec, Options, Task
from atoll.llmsr.mutation_engine import AnnouncingProposer, PyMutationEngine
from atoll.llmsr.presets import Preset, get_preset

__all__ = ["Options", "Task", "build", "discover", "spawn_evolver"]

_OUTSIDE_NOTE = "outside the sandbox: candidates see only their arguments"
# Names that every new function may use.
AVAILABLE_NAMES: dict[str, Any] = {"np": numpy, "numpy": numpy, "math": math}
with contextlib.suppress(ImportError):  # the extra `laws`
    import scipy

    AVAILABLE_NAMES["scipy"] = scipy


def spawn_evolver(
    config: EvolverConfig[..., Any, Any],
    *,
    preset: str = "default",
    reset_evaluations: int | None = None,
    budget: control.Budget = control.UNLIMITED,
    seed: int = 0,
    ordered: bool = False,
    run_journal: journal.Journal | None = None,
    executor_config: executor.ExecutorConfig | None = None,
    modify: Callable[[system.BuiltSystem], system.BuiltSystem] = lambda built_system: built_system,
) -> system.SystemEvolver:
    """Makes an evolver of one function. `start()` begins and returns, `stop()` ends and waits.

    Functions are evaluated in a sandbox, never in this process. Evaluator and inputs are sent there once.

    Args:
        config: The function, its evaluator and the options.
        preset: Rules for selection and resets: "default", "funsearch", "llmsr" or "seed".
        reset_evaluations: Evaluations between resets; by default 50 per island in the default preset.
        budget: Limits of the run; by default it runs until `stop()`.
        seed: Random seed.
        ordered: Whether the same seed gives the same run, independent of timing. It excludes time-based resets and
            budgets.
        run_journal: Journal of the run, such as `store.Store("atoll.db").journal(run)`. A run in it is resumed.
        executor_config: Limits and sandbox level of an evaluation; by default 30 s, 2 GiB and the strongest sandbox of
            this machine. Without a sandbox, functions of an LLM need `is_unsafe`.
        modify: Changes the parts of the run, for example `partial(search_methods.apply_method, "best_of_n")` of
            `atoll.runs` for a baseline.

    Raises:
        SetupError: An argument is wrong, the equation is not a function defined with `def`, or an object cannot be sent
            to another process.
    """
    options = _check_arguments(config, preset, reset_evaluations, budget, seed)
    initial_source = source.get_function_source(config.equation)
    names = collect_names(config.equation)
    make_job = partial(sandbox.ScoreJob, config.evaluator, list(config.evaluation_inputs), names)
    make_function_job = partial(sandbox.FunctionServerJob, partial(function.PyAstSkeleton, names=names))
    builder = _RunBuilder(
        initial_source,
        config.prompt_comment,
        config.evaluation_inputs,
        make_job,
        get_evaluator_source(config.evaluator),
        make_apart_jobs=(partial(make_job, decode=sandbox.RemoteFunction), make_function_job),
        profiler_fn=config.profiler_fn,
    )
    run_journal = run_journal or journal.NullJournal()
    charges = llm_budget.read_charges(run_journal.read())
    calls_budget = llm.LLMBudget(budget, used=sum(charges.values(), ZERO_COST), journal=run_journal)
    language_model = _make_llm(config.llm, calls_budget)
    default_executor_config = executor.ExecutorConfig(
        num_slots=min(config.num_parallel, executor.cpu_count()), is_unsafe=language_model is None
    )
    built_system = modify(
        builder.build(options, language_model, executor_config or default_executor_config, config.num_parallel, seed)
    )
    run_config = replace(built_system.config, num_parallel=config.num_parallel, seed=seed, ordered=ordered)
    evolver = system.SystemEvolver(
        replace(run_config, journal=run_journal, budget=budget),
        built_system.report,
        built_system.close,
        repeated=built_system.repeated,
    )
    calls_budget.on_exhausted = evolver.stop
    evolver.use_profiler(config.profiler_fn)
    return evolver


def _check_arguments(
    config: EvolverConfig[..., Any, Any], preset: str, reset_evaluations: int | None, budget: control.Budget, seed: int
) -> Options:
    """Checks the arguments of `spawn_evolver` and returns the options of the run.

    Raises:
        SetupError: An argument is wrong.
    """
    if not isinstance(config, EvolverConfig):
        raise errors.SetupError(f"config is {config!r:.60}. Pass an EvolverConfig.")
    num_parallel: Any = config.num_parallel
    checks = {
        "evaluation_inputs": (isinstance(config.evaluation_inputs, Iterable), "a list of inputs"),
        "evaluator": (callable(config.evaluator), "a function of (function, input)"),
        "prompt_comment": (isinstance(config.prompt_comment, str), "a text"),
        "profiler_fn": (callable(config.profiler_fn), "a function of an event"),
        "num_parallel": (isinstance(num_parallel, int) and num_parallel >= 1, "a number of at least 1"),
    }
    for name, (is_valid, expected) in checks.items():
        if not is_valid:
            value = getattr(config, name)
            raise errors.SetupError(f"EvolverConfig.{name} is {value!r:.60}. Set {expected}.")
    if not isinstance(budget, control.Budget):
        raise errors.SetupError(f"budget is {budget!r:.60}. Pass control.Budget(iterations=100), for example.")
    if not isinstance(seed, int):
        raise errors.SetupError(f"seed is {seed!r:.60}. Pass a whole number.")
    settings = {
        "num_islands": config.num_islands,
        "num_selected_clusters": config.num_selected_clusters,
        "reset_period": config.get_reset_period(),
        "preset": preset,
        "reset_evaluations": reset_evaluations,
    }
    return system.validate_settings("EvolverConfig", Options, settings)


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns the settings of a law search for a table or a folder of tables. Other folders need an `atoll.toml`."""
    if not laws.has_tables(folder):
        return None
    data = folder.name if folder.is_file() else "."
    return {"task": {"data": data}, "llmsr": {"num_islands": 1}, "run": {"workers": 1}}


def build(task: Task, options: Options, context: system.BuildContext) -> system.BuiltSystem:
    """Builds a run from a task folder. Its file is run only in workers, except with `score(output, case)`."""
    if task.data is not None:
        for key in ("engine_weights", *strategies.KINDS):
            if getattr(options, key):
                raise errors.SetupError(f"llmsr.{key} is for functions, not for laws of data. Leave it out.")
        return laws.build_law_search(task, options, context)
    path = context.folder / task.file
    initial_source = source.load_function_source(path, task.function)
    text = path.read_text("utf-8-sig")
    comment = task.comment if task.comment is not None else ast.get_docstring(ast.parse(text)) or ""
    make_job = partial(sandbox.load_score_job, str(path), task.evaluator, task.inputs)
    builder = _RunBuilder(
        initial_source,
        comment,
        (),
        make_job,
        text,
        make_apart_jobs=(
            partial(make_job, decode=sandbox.RemoteFunction),
            partial(sandbox.load_function_server, str(path)),
        ),
        files=[path],
        is_repeated=task.repeats == "auto",
        has_tuner=get_preset(options.preset).has_feedback and options.engine_weights.get("tuner", 0.0) > 0,
        is_deterministic=context.is_deterministic,
    )
    if source.is_output_task(text, task):
        loaded = source.load_output_task(path, task)
        names = {**loaded.modules, **collect_names(loaded.function)}
        # Without the evaluator's source the sandbox gets no access to the task folder, where the answers are.
        builder = replace(
            builder,
            make_job=partial(sandbox.CallJob, loaded.arguments, names),
            make_apart_jobs=None,
            evaluator_source="",
            make_evaluator=partial(_make_output_evaluator, loaded),
        )
    options = _limit_islands(options, context)
    return builder.build(options, context.llm, context.executor_config, context.workers, context.seed)


def _limit_islands(options: Options, context: system.BuildContext) -> Options:
    """Returns the options with as many islands as the budget of an LLM can feed: prompts show functions of one island.

    The published presets and strategies of the user have the number of islands in the settings.
    """
    is_adaptive = options.islands_by_budget and get_preset(options.preset).has_feedback
    has_own_parts = any((options.population, options.selector, options.schedule))
    limits = [limit for limit in (context.first_budget.calls, context.first_budget.iterations) if limit is not None]
    if context.llm is None or not is_adaptive or has_own_parts or not limits:
        return options
    limit = 1 if min(limits) < 500 else 2 if min(limits) < 2000 else 4
    return options.model_copy(update={"num_islands": min(options.num_islands, limit)})


def get_evaluator_source(evaluator: Callable[..., Any]) -> str:
    """Returns the source of an evaluator, from which the sandbox derives permissions; empty if unknown."""
    try:
        return textwrap.dedent(inspect.getsource(evaluator))
    except (OSError, TypeError):
        return ""


def collect_names(fn: Callable[..., Any]) -> Mapping[str, Any]:
    """Returns the names that a function uses from its module, and those that new functions may use."""
    closure, module_globals = inspect.getclosurevars(fn), getattr(fn, "__globals__", {})
    header = ast.parse(source.get_function_source(fn).header + " pass")  # defaults and annotations have names too
    header_names = {node.id for node in ast.walk(header) if isinstance(node, ast.Name) and node.id in module_globals}
    referenced = {**{name: module_globals[name] for name in header_names}, **closure.globals, **closure.nonlocals}
    return {**AVAILABLE_NAMES, **{name: value for name, value in referenced.items() if value is not fn}}


def _make_llm(spec: LLMSpec, calls_budget: llm.LLMBudget) -> llm.LLM | None:
    language_model = llm.make_llm(spec) if isinstance(spec, str) else spec
    if language_model is None:
        return None
    if not callable(language_model):
        raise errors.SetupError(f"llm is {language_model!r:.60}. Set the name of an LLM, a function, or None.")
    model = language_model if isinstance(language_model, llm.HostedLLM) else llm.FunctionLLM(language_model)
    return llm.JournaledLLM(llm_budget.make_metered_llm(model, calls_budget))


def _make_score_evaluator(pool: sandbox.Sandbox, preset: Preset) -> function.CandidateEvaluator:
    return sandbox.SandboxEvaluator(pool, sandbox.make_score_reader(preset.reduce, partial=preset.allow_partial))


def _make_output_evaluator(
    task: source.OutputTask, pool: sandbox.Sandbox, preset: Preset
) -> function.CandidateEvaluator:
    return sandbox.OutputEvaluator(pool, task.score, task.cases, preset.reduce, preset.allow_partial)


@dataclass(frozen=True, slots=True)
class _RunBuilder:
    """Initial function and evaluator of a run."""

    initial_source: source.Source
    comment: str
    inputs: Sequence[Any]
    make_job: sandbox.MakeJob
    evaluator_source: str = ""
    make_apart_jobs: tuple[sandbox.MakeJob, sandbox.MakeJob] | None = None
    profiler_fn: profiler.ProfilerFn[Any] = profiler.default_fn
    files: Sequence[Path] = ()
    make_evaluator: Callable[[sandbox.Sandbox, Preset], function.CandidateEvaluator] = _make_score_evaluator
    is_repeated: bool = True
    has_tuner: bool = False  # besides an LLM; `spawn_evolver` promises one child per mutation
    is_deterministic: bool = False

    def build(
        self,
        options: Options,
        language_model: llm.LLM | None,
        executor_config: executor.ExecutorConfig,
        workers: int,
        seed: int,
    ) -> system.BuiltSystem:
        preset = get_preset(options.preset)
        task_folder = self.files[0].parent if self.files else None
        chosen = strategies.choose("llmsr", options, task_folder)
        if chosen.selector is not None:
            preset = replace(preset, make_selector=chosen.selector.make)
        if chosen.schedule is not None:
            preset = replace(preset, schedule_type=partial(chosen.schedule.make, seed=seed))
        mutator = self._make_mutator(language_model, preset, options.engine_weights, chosen.mutator)
        proposer = AnnouncingProposer(mutator)
        folder = str(task_folder) if task_folder and self.evaluator_source else None
        slot_pool, place = self._open(executor_config, folder, language_model is not None)
        skeleton = function.PyAstSkeleton(self.initial_source.text)
        candidate_evaluator, repeated = self.make_evaluator(slot_pool, preset), None
        if self.is_repeated:
            candidate_evaluator = repeated = noise.RepeatedEvaluator(candidate_evaluator)
        props = function.DefaultFunctionProps(skeleton, self.inputs, candidate_evaluator=candidate_evaluator)
        initial = function.DefaultFunction(props)
        for part in (initial, proposer):
            part.use_profiler(self.profiler_fn)
        islands = cluster.IslandConfig(
            options.num_islands,
            options.num_selected_clusters,
            initial,
            proposer,
            island_profiler_fn=self.profiler_fn,
            cluster_profiler_fn=self.profiler_fn,
            gate=chosen.make_gate(),
            make_population=chosen.make_population(options.num_selected_clusters)
            or preset.make_population(options.num_selected_clusters, options.temperature),
        )
        schedule = preset.make_schedule(options, seed)
        report = {**self._build_report(options, schedule, language_model, workers), **chosen.report, "evaluator": place}
        config = cluster.EvolverConfig(islands, schedule=schedule, learner=mutator.learner)
        baseline_proposer = None if language_model is None else AnnouncingProposer(mutator.get_first())
        return system.BuiltSystem(
            config,
            report,
            [*self.files, *chosen.files],
            slot_pool.level,
            slot_pool.close,
            baseline_proposer=baseline_proposer,
            repeated=repeated,
        )

    def _open(
        self, config: executor.ExecutorConfig, folder: str | None, has_llm: bool
    ) -> tuple[executor.LocalExecutor, str]:
        """Opens the executor; returns it with a description of where the evaluator runs."""
        if self.make_apart_jobs is None:
            return config.open(self.make_job, self.evaluator_source, folder), _OUTSIDE_NOTE
        apart_jobs, source_text = self.make_apart_jobs, self.evaluator_source
        opened = config.open_scoring(
            self.make_job, apart_jobs, self.initial_source.text, source_text, folder, has_llm=has_llm
        )
        if opened.is_apart:
            return opened.executor, sandbox.APART_NOTE
        return opened.executor, system.SHARED_SANDBOX_RISK + (f" ({opened.reason})" if opened.reason else "")

    def _make_mutator(
        self,
        language_model: llm.LLM | None,
        preset: Preset,
        weights: Mapping[mutation.MutatorName, float],
        chosen: strategies.Strategy | None,
    ) -> mutation.MixedMutator:
        if chosen is not None:
            return mutation.MixedMutator({chosen.name: chosen.make(self.initial_source.text, language_model)})
        if language_model is None:
            if not mutation.is_mutable(self.initial_source.text):
                raise errors.SetupError(
                    f"{self.initial_source.name} has nothing that the syntax mutator can change. Use an LLM."
                )
            return mutation.make_default_mutator(self.initial_source.text, weights=weights)
        engine: function.MutationEngine | function.Proposer = PyMutationEngine(
            self.comment, self.initial_source.docstring, language_model, has_feedback=preset.has_feedback
        )
        if self.has_tuner:
            proposer = function.as_proposer(engine)
            engine = mutation.ChildTuner(proposer) if self.is_deterministic else mutation.ChildTuner.timed(proposer)
        return mutation.add_mutators(engine, self.initial_source.text, weights=weights)

    def _build_report(
        self, options: Options, schedule: archipelago.Schedule, language_model: llm.LLM | None, workers: int
    ) -> Mapping[str, JSON]:
        seconds, count = getattr(schedule, "reset_seconds", None), getattr(schedule, "reset_every", None)
        periods = ([f"{seconds:g} s"] if seconds else []) + ([f"{count} evaluations"] if count else [])
        return {
            "source": self.initial_source.text,
            "comment": self.comment,
            "docstring": self.initial_source.docstring,
            "engine": self._describe_mutators(has_llm=language_model is not None),
            "preset": options.preset,
            "islands": options.num_islands,
            "clusters": options.num_selected_clusters,
            "workers": workers,
            "reset": f"the worse half every {' and every '.join(periods)}"
            if periods and options.num_islands > 1
            else "",
        }

    def _describe_mutators(self, *, has_llm: bool) -> str:
        if not has_llm:
            return "syntax and tuner, no LLM"
        return "LLM; a tuner improves its functions" if self.has_tuner else "LLM"
