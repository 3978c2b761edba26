"""Runs `atoll.evolve`: prepares a `runs.Session`, runs it, and makes a `Result` of what it stored."""

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from atoll import config, control, errors, evaluation, function, journal, runs, store, system
from atoll.candidate import normalize_json
from atoll.config.settings import ExecutorSettings
from atoll.evolve import identity, representations
from atoll.evolve.build import EvolveProblem, build_system, estimate_llm_calls
from atoll.evolve.events import EvolveOptions
from atoll.evolve.identity import BUDGET_KEY, IDENTITY_KEY, find_resumable, make_identity
from atoll.evolve.progress import ProgressReporter, make_display
from atoll.evolve.read_result import compute_gain, read_result
from atoll.evolve.result import NOT_RUN, Result
from atoll.programs.gepa import dataset_evaluator, minibatch
from atoll.programs.gepa.dataset_evaluator import LoopThread
from atoll.runs import baselines, executor_config, limits
from atoll.runs.session import ALL_ISLANDS
from atoll.runs.summary import find_result, find_run

MEMORY_URL = "sqlite://"
_DEFAULT_EVALUATIONS, _DEFAULT_EVALUATIONS_WITH_LLM = 500, 200
_CALLS_PER_WORKER = 12  # LLM calls of a run with minibatches, for each iteration in parallel
_CALLS_PER_EVALUATION = 2  # LLM calls, if the budget limits only evaluations
_MAX_ITERATIONS = 10_000  # with a budget of dollars or tokens: an LLM may not report its cost


class _Task(system.Settings):
    kind: str
    objective: str


@dataclass(frozen=True, slots=True)
class EvolveConfig(config.RunConfig):
    """Configuration of a run of Python objects, which are not stored. The same call resumes it.

    Attributes:
        identity: What must not change when the run resumes.
        first_budget: Limits at its first start.
    """

    task: _Task
    identity: Mapping[str, Any] = field(default_factory=dict)
    first_budget: control.Budget = control.UNLIMITED

    def to_data(self) -> dict[str, Any]:
        settings = {"kind": self.task.kind, "seed": self.run.seed, "workers": self.run.workers}
        settings |= {"target": self.run.target, "objective": self.task.objective}
        budget = {name: limit for name, limit in limits.get_limits(self.first_budget).items() if limit is not None}
        return {"system": self.system, "run": settings, IDENTITY_KEY: dict(self.identity), BUDGET_KEY: budget}


def run(initial: Any, evaluator: Any, options: EvolveOptions) -> Result:
    """Evolves the initial object; see `atoll.evolve`.

    Raises:
        SetupError: An argument is invalid, or the initial object has no score.
        RunFailed: The run failed.
        KeyboardInterrupt: The user interrupted it before the initial object had a score.
    """
    if options.resume and not options.store:
        raise errors.SetupError('resume needs a stored run. Pass store="atoll.db" in both calls.')
    if isinstance(initial, Path) and (evaluator is None or isinstance(evaluator, os.PathLike)):
        return _run_task(initial, evaluator, options)
    if not callable(evaluator):
        raise errors.SetupError(f"evaluator is {evaluator!r:.60}. Give a function that scores a candidate.")
    if options.workers < 1 or options.minibatch < 1:
        raise errors.SetupError(f"workers is {options.workers}, minibatch {options.minibatch}: give at least 1 each.")
    representation = representations.choose_representation(initial, options.kind)
    data, test_set = _split_data(options)
    problem = EvolveProblem(representation, evaluator, data, options)
    result = _run_problem(problem, test_set)
    scores = _run_baselines(problem)
    if options.store and options.baselines:
        with store.Store(options.store) as run_store:
            _store_result(run_store, result.run, result.reason, {"baselines": scores})
    return result._replace(baselines={"initial": result.initial_score, **scores})


def _split_data(options: EvolveOptions) -> tuple[minibatch.DatasetSplit | None, minibatch.SealedTestSet | None]:
    if options.data is not None:
        return minibatch.split_dataset(options.data, options.validation, options.test, seed=options.seed)
    if options.validation is not None or options.test is not None:
        raise errors.SetupError("validation and test are parts of a data set. Pass data too.")
    return None, None


def parse_budget(value: object, *, has_llm: bool) -> control.Budget:
    """Returns the budget of a run, from a text or a `Budget`; None gives the default.

    A budget in evaluations limits the LLM calls too, if it does not say otherwise.

    Raises:
        SetupError: The value is invalid, or it never ends a run.
    """
    if value is None:
        value = control.Budget(evaluations=_DEFAULT_EVALUATIONS_WITH_LLM if has_llm else _DEFAULT_EVALUATIONS)
    budget = config.parse_budget(value) if isinstance(value, str) else value
    if not isinstance(budget, control.Budget):
        raise errors.SetupError(f'budget is {value!r:.60}. Give a text such as "60s", "$1" or "500evals".')
    is_endless = all(getattr(budget, name) is None for name in ("iterations", "evaluations", "seconds"))
    if is_endless and (not has_llm or budget == control.UNLIMITED):
        raise errors.SetupError('The budget never ends a run without an LLM. Give e.g. "60s" or "500evals".')
    if has_llm and budget.calls is None and budget.evaluations is not None:
        budget = replace(budget, calls=_CALLS_PER_EVALUATION * budget.evaluations)
    return replace(budget, iterations=_MAX_ITERATIONS) if is_endless else budget


def _make_config(problem: EvolveProblem, budget: control.Budget = control.UNLIMITED) -> EvolveConfig:
    options, kind = problem.options, problem.representation.kind
    # A parameter search needs all earlier results. Without an LLM only the evaluator is slow: it gets the workers.
    workers = 1 if kind == "parameters" or (problem.has_minibatches and options.llm is None) else options.workers
    if problem.has_minibatches and (num_calls := estimate_llm_calls(problem, budget).calls) is not None:
        # Few LLM calls must see each other's results. The evaluator still runs with all workers.
        workers = min(workers, max(1, num_calls // _CALLS_PER_WORKER))
    llm_name = identity.get_name(options.llm)
    return EvolveConfig(
        system="evolve",
        folder=Path.cwd(),
        task=_Task(kind=kind, objective=options.objective),
        options=system.Settings(),
        run=config.RunSettings(llm=llm_name, seed=options.seed, workers=workers, window=workers, target=options.target),
        llm=config.LLMSettings(),
        sandbox=config.SandboxSettings.model_validate({"seconds": options.seconds}),
        executor=ExecutorSettings(),
        identity=make_identity(problem) if options.store else {},
        first_budget=budget,
    )


def _run_problem(problem: EvolveProblem, test_set: minibatch.SealedTestSet | None = None) -> Result:
    """Runs a problem, without its baselines."""
    options, representation, started_at = problem.options, problem.representation, time.monotonic()
    budget = parse_budget(options.budget, has_llm=options.llm is not None)
    memory = dataset_evaluator.CallMemory(is_stored=options.store is not None and problem.data is not None)

    def count_calls(session: runs.Session) -> int:
        return memory.calls if problem.has_minibatches or options.store is None else session.evolver.usage.evaluations

    with (
        closing(LoopThread()) as loop,
        store.Store(options.store or MEMORY_URL) as run_store,
        closing(_make_reporter(options, count_calls)) as reporter,
    ):
        run_config = _make_config(problem, budget)
        run_id = find_resumable(run_store, run_config.identity, options.resume)
        first_budget = budget
        if run_id is not None:
            memory.load(run_store.journal(run_id).read_kinds(dataset_evaluator.CALL_RECORD))
            first_budget = control.Budget(**run_store.get_run(run_id).config[BUDGET_KEY])

        def build(context: system.BuildContext) -> system.BuiltSystem:
            return build_system(problem, budget.evaluations, memory, context._replace(first_budget=first_budget))

        with runs.Session(
            run_store,
            run_config,
            run_id=run_id,
            budget=problem.compute_kernel_budget(budget),
            llm_factory=identity.make_llm_factory(options.llm, loop),
            allowed=runs.UnsafeOptions(unsafe=options.unsafe),
            build_system=build,
            needs_price=identity.has_price(options.llm),
        ) as session:
            reporter.start(session, representation.kind, is_resumed=run_id is not None)
            _run_session(session, reporter)
            result = read_result(session, run_store, representation.restore, representation.suffix)
            evaluator_calls = count_calls(session)
        if test_set is not None:
            result = _evaluate_on_test_set(result, problem, test_set, run_store, session.run_id)
        reporter.end(result.status, result.reason, result.score)
    cost = result.cost._replace(evaluator_calls=evaluator_calls, seconds=time.monotonic() - started_at)
    return result._replace(cost=cost, run=session.run_id if options.store else "")


def _make_reporter(options: EvolveOptions, count_calls: Callable[[runs.Session], int]) -> ProgressReporter:
    return ProgressReporter(make_display(verbose=options.verbose), options.on_event, count_calls)


def _run_session(session: runs.Session, reporter: ProgressReporter) -> None:
    """Runs a session; Ctrl-C ends it after the running iterations and keeps the result."""
    try:
        session.run(reporter.poll)
    except KeyboardInterrupt as interrupt:
        try:
            session.evolver.stop("interrupted")
        except errors.RunFailed:
            raise interrupt from None
    except errors.RunFailed as error:
        if str(error).startswith("The initial candidate"):
            raise errors.SetupError(str(error)) from error
        raise


def _evaluate_on_test_set(
    result: Result, problem: EvolveProblem, test_set: minibatch.SealedTestSet, run_store: store.Store, run_id: str
) -> Result:
    """Scores the best and the initial candidate on the test set, which is opened only here."""
    splits, options = {dataset_evaluator.TEST: test_set.open()}, problem.options
    allowed = runs.UnsafeOptions(unsafe=options.unsafe)
    test_executor_config = executor_config.make_executor_config(
        _make_config(problem), allowed, has_llm=options.llm is not None
    )
    memory = dataset_evaluator.CallMemory(is_stored=options.store is not None)
    run_journal = run_store.journal(run_id)
    memory.load(run_journal.read_kinds(dataset_evaluator.CALL_RECORD), is_test=True)
    token = journal.CallCache.current.set(journal.CallCache(0, ALL_ISLANDS, run_journal, {}))
    try:
        with closing(problem.open_executor(splits, test_executor_config)) as candidate_executor:
            evaluate = dataset_evaluator.DatasetEvaluator(
                candidate_executor, splits, memory, default_part=dataset_evaluator.TEST
            )
            best, initial = (
                evaluation.validate(evaluate(function.Text(content)))
                for content in (result.content, problem.representation.content)
            )
    finally:
        journal.CallCache.current.reset(token)
    failure_note = "" if best.failure is None else f"; the test set has no score: {best.failure}"
    gain, reason = compute_gain(best.scores, initial.scores), result.reason + failure_note
    test_scores: dict[str, Any] = {
        "test": best.score,
        "initial_test": initial.score,
        "test_size": len(splits[dataset_evaluator.TEST]),
    }
    if gain is not None and all(map(math.isfinite, gain)):
        test_scores["gain"] = list(gain)
    _store_result(run_store, run_id, reason, test_scores)
    return result._replace(test=best.score, gain=gain, reason=reason)


def _store_result(run_store: store.Store, run_id: str, reason: str, data: Mapping[str, Any]) -> None:
    """Adds to the stored result of an ended run, which the dashboard and the reports show."""
    result = normalize_json({**find_result(run_store, run_id), **data})
    run_store.journal(run_id).write(
        journal.Record(journal.CONCLUDED, 0, ALL_ISLANDS, {"reason": reason, "result": result})
    )


def _run_baselines(problem: EvolveProblem) -> dict[str, float | str]:
    """Runs each baseline with the whole budget, without a store."""
    options = problem.options._replace(store=None, resume=False, verbose=False, on_event=None)
    baseline_options = {
        "best-of-N": options._replace(method="best_of_n"),
        "sequential conditioning": options._replace(method="sequential"),
    }
    if options.llm is not None:
        baseline_options["no LLM"] = options._replace(llm=None)
    if not options.baselines:
        return dict.fromkeys(baseline_options, NOT_RUN)
    return {
        name: _run_baseline(replace(problem, options=run_options)) for name, run_options in baseline_options.items()
    }


def _run_baseline(problem: EvolveProblem) -> float | str:
    try:
        return _run_problem(problem).score
    except errors.SetupError as error:  # e.g. a program that only an LLM can change
        return f"cannot be run: {error}"


def _run_task(initial: Path, evaluator: os.PathLike[str] | None, options: EvolveOptions) -> Result:
    """Runs a task folder, or a program with an evaluator file, as the command line does."""
    started_at = time.monotonic()
    run_config = _load_task_config(initial, evaluator, options)
    allowed = runs.UnsafeOptions(unsafe=options.unsafe)
    suffix = Path(str(getattr(run_config.task, "program", "x.py"))).suffix
    with (
        closing(LoopThread()) as loop,
        store.Store(options.store or MEMORY_URL) as run_store,
        closing(
            ProgressReporter(make_display(verbose=options.verbose), options.on_event, _count_evaluations)
        ) as reporter,
    ):
        llm_factory = identity.make_llm_factory(options.llm, loop)
        has_llm = llm_factory is not None or run_config.run.llm.lower() != "none"
        budget = None if options.budget is None else parse_budget(options.budget, has_llm=has_llm)
        run_id = _find_task_run(run_store, run_config, options.resume)
        with runs.Session(
            run_store,
            run_config,
            run_id=run_id,
            budget=budget,
            llm_factory=llm_factory,
            allowed=allowed,
            needs_price=identity.has_price(options.llm),
        ) as session:
            reporter.start(session, "task", is_resumed=run_id is not None)
            _run_session(session, reporter)
            result = read_result(session, run_store, str, suffix)
        scores: dict[str, float | str] = {"initial": result.initial_score}
        for baseline in baselines.find_baselines(run_store, session.run_id, has_llm=llm_factory is not None or None):
            title = baseline.title.replace("best of N", "best-of-N")
            scores[title] = NOT_RUN
            if options.baselines:
                scores[title] = _run_task_baseline(run_store, session.run_id, baseline.name, llm_factory, allowed)
        reporter.end(result.status, result.reason, result.score)
    cost = result.cost._replace(seconds=time.monotonic() - started_at)
    return result._replace(cost=cost, run=session.run_id if options.store else "", baselines=scores)


def _count_evaluations(session: runs.Session) -> int:
    return session.evolver.usage.evaluations


def _find_task_run(run_store: store.Store, run_config: config.RunConfig, resume: bool | str) -> str | None:
    """Returns the stored run of a task folder to resume; None to start a new one.

    Raises:
        SetupError: The named run does not exist.
    """
    if isinstance(resume, str):
        try:
            return find_run(run_store, resume)
        except errors.NotFound as error:
            raise errors.SetupError(str(error)) from error
    requested = run_config.to_data()
    keys = ("system", "folder", "task", run_config.system)
    runs_of_task = (
        stored.id
        for stored in run_store.list_runs()
        if "baseline_of" not in stored.config and all(stored.config.get(key) == requested.get(key) for key in keys)
    )
    return next(runs_of_task, None) if resume else None


def _load_task_config(initial: Path, evaluator: os.PathLike[str] | None, options: EvolveOptions) -> config.RunConfig:
    settings: dict[str, Any] = {"seed": options.seed, "workers": options.workers, "target": options.target}
    if isinstance(options.llm, str):
        settings["llm"] = options.llm
    if evaluator is None:
        return config.load(initial, [{"run": settings}])
    task = {"program": str(initial.absolute()), "evaluator": str(Path(evaluator).absolute())}
    folder = initial.parent.absolute()
    return config.RunConfig.from_layers(folder, [{"system": "programs", "task": task}, {"run": settings}])


def _run_task_baseline(
    run_store: store.Store, run_id: str, name: str, llm_factory: runs.LLMFactory | None, allowed: runs.UnsafeOptions
) -> float | str:
    try:
        with baselines.start(run_store, run_id, name, llm_factory=llm_factory, allowed=allowed) as session:
            session.run()
    except errors.SetupError as error:
        return f"cannot be run: {error}"
    score = runs.summarize(run_store, session.run_id).best_score
    return "no score" if score is None else score
