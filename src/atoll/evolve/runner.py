"""Runs `atoll.evolve`: prepares a `runs.Session`, runs it, and makes a `Result` of what it stored."""

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from atoll import config, control, errors, evaluation, function, llm, runs, store, system
from atoll.config.settings import ExecutorSettings
from atoll.evolve import representations
from atoll.evolve.build import EvolveProblem, build_system
from atoll.evolve.options import EvolveOptions
from atoll.evolve.result import NOT_RUN, Ancestor, Gain, Result, ResultUsage
from atoll.programs.gepa import dataset, dataset_evaluator
from atoll.runs import baselines, executor_config
from atoll.runs.summary import compute_yield

MEMORY_URL = "sqlite://"
_DEFAULT_EVALUATIONS, _DEFAULT_EVALUATIONS_WITH_LLM = 500, 200
_CALLS_PER_EVALUATION = 2  # LLM calls, if the budget limits only evaluations
_MAX_ANCESTORS = 200  # in a result; a store has all
_MAX_ITERATIONS = 10_000  # with a budget of dollars or tokens: an LLM may not report its cost


class _Task(system.Settings):
    kind: str
    objective: str


@dataclass(frozen=True, slots=True)
class EvolveConfig(config.RunConfig):
    """Configuration of a run of Python objects, which are not stored. Such a run cannot be resumed."""

    task: _Task

    def to_data(self) -> dict[str, Any]:
        settings = {"kind": self.task.kind, "seed": self.run.seed, "workers": self.run.workers}
        settings |= {"target": self.run.target, "objective": self.task.objective}
        return {"system": self.system, "run": settings}


def run(initial: Any, evaluator: Any, options: EvolveOptions) -> Result:
    """Evolves the initial object; see `atoll.evolve`.

    Raises:
        SetupError: An argument is invalid, or the initial object has no score.
        RunFailed: The run failed.
    """
    if isinstance(initial, Path) and (evaluator is None or isinstance(evaluator, os.PathLike)):
        return _run_task(initial, evaluator, options)
    if not callable(evaluator):
        raise errors.SetupError(f"evaluator is {evaluator!r:.60}. Give a function that scores a candidate.")
    if options.workers < 1 or options.minibatch < 1:
        raise errors.SetupError(f"workers is {options.workers}, minibatch {options.minibatch}: give at least 1 each.")
    representation = representations.choose_representation(initial, options.kind)
    data, test_set = _split_data(options)
    problem = EvolveProblem(representation, evaluator, data, options)
    result = _run_problem(problem)
    if test_set is not None:
        result = _evaluate_on_test_set(result, problem, test_set)
    return result._replace(baselines={"initial": result.initial_score, **_run_baselines(problem)})


def _split_data(options: EvolveOptions) -> tuple[dataset.DatasetSplit | None, dataset.SealedTestSet | None]:
    if options.data is not None:
        return dataset.split_dataset(options.data, options.validation, options.test, seed=options.seed)
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


def _make_config(problem: EvolveProblem) -> EvolveConfig:
    options, kind = problem.options, problem.representation.kind
    workers = 1 if kind == "parameters" else options.workers  # a parameter search needs all earlier results
    llm_name = options.llm if isinstance(options.llm, str) else "none" if options.llm is None else "a function"
    return EvolveConfig(
        system="evolve",
        folder=Path.cwd(),
        task=_Task(kind=kind, objective=options.objective),
        options=system.Settings(),
        run=config.RunSettings(llm=llm_name, seed=options.seed, workers=workers, window=workers, target=options.target),
        llm=config.LLMSettings(),
        sandbox=config.SandboxSettings.model_validate({"seconds": options.seconds}),
        executor=ExecutorSettings(),
    )


def _make_llm_factory(value: Any) -> runs.LLMFactory | None:
    """Returns a factory for a function that was passed as LLM; None for names, which the session resolves."""
    if value is None or isinstance(value, str):
        return None
    if not callable(value):
        raise errors.SetupError(f"llm is {value!r:.60}. Give the name of an LLM, a function of the prompt, or None.")
    return lambda run_config: value if _has_price(value) else llm.FunctionLLM(value)


def _has_price(value: Any) -> bool:
    """Returns whether an LLM has a price before it is called; a function may report its dollars afterwards."""
    return value is None or isinstance(value, (str, llm.HostedLLM, llm.EnsembleLLM))


def _run_problem(problem: EvolveProblem) -> Result:
    """Runs a problem, without its test set and baselines."""
    options, representation, started_at = problem.options, problem.representation, time.monotonic()
    llm_factory, counter = _make_llm_factory(options.llm), dataset_evaluator.CallCounter()
    budget = parse_budget(options.budget, has_llm=options.llm is not None)
    with (
        store.Store(options.store or MEMORY_URL) as run_store,
        runs.Session(
            run_store,
            _make_config(problem),
            budget=problem.compute_kernel_budget(budget),
            llm_factory=llm_factory,
            allowed=runs.UnsafeOptions(unsafe=options.unsafe),
            build_system=partial(build_system, problem, budget.evaluations, counter),
            needs_price=_has_price(options.llm),
        ) as session,
    ):
        _run_session(session)
        result = _read_result(session, run_store, representation.restore, representation.suffix)
    cost = result.cost._replace(evaluator_calls=counter.calls, seconds=time.monotonic() - started_at)
    return result._replace(cost=cost, run=session.run_id if options.store else "")


def _run_session(session: runs.Session) -> None:
    """Runs a session; Ctrl-C ends it early and keeps the result."""
    try:
        session.run()
    except KeyboardInterrupt:
        session.evolver.stop("interrupted")
    except errors.RunFailed as error:
        if "initial function" in str(error):
            raise errors.SetupError(str(error).replace("initial function", "initial candidate")) from error
        raise


def _read_result(session: runs.Session, run_store: store.Store, restore: Callable[[str], Any], suffix: str) -> Result:
    """Returns the result of an ended run, without its test set and baselines.

    Args:
        restore: Turns the text of the best candidate into the object that the caller gets.
        suffix: Suffix of a file with the best candidate.

    Raises:
        NotFound: No candidate has a score.
    """
    best, usage = session.evolver.best_fn(), session.evolver.usage
    assert best.candidate is not None
    assert best.evaluation is not None
    records = run_store.journal(session.run_id).read_kinds("founded", "judged")
    candidates = {
        record.data["id"]: record.data for record in records if not str(record.data.get("label", "")).startswith("d")
    }  # without trials
    initial_evaluation, cost = evaluation.from_data(candidates["0.0"]["evaluation"]), usage.cost
    tokens = cost.tokens_in + cost.tokens_out
    call_yield = compute_yield(run_store, session.run_id) if cost.calls else None
    llm_yield = call_yield.ratio if call_yield else None
    return Result(
        best=restore(best.candidate.content),
        score=best.evaluation.score or 0.0,
        initial_score=initial_evaluation.score or 0.0,
        test=None,
        gain=compute_gain(best.evaluation.scores, initial_evaluation.scores),
        baselines={},
        cost=ResultUsage(usage.evaluations, usage.iterations, cost.calls, tokens, cost.usd, 0.0, llm_yield),
        lineage=_trace_lineage(candidates, best.candidate.id),
        scores=best.evaluation.scores,
        reason=session.evolver.reason,
        run=session.run_id,
        content=best.candidate.content,
        suffix=suffix,
    )


def compute_gain(best_scores: Sequence[float], initial_scores: Sequence[float]) -> Gain | None:
    """Compares scores instance by instance; None with fewer than two instances."""
    if len(best_scores) != len(initial_scores) or len(best_scores) < 2:
        return None
    differences = [best - initial for best, initial in zip(best_scores, initial_scores, strict=True)]
    mean = statistics.fmean(differences)
    half_width = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return Gain(mean, mean - half_width, mean + half_width)


def _trace_lineage(candidates: Mapping[str, Mapping[str, Any]], best_id: str) -> Sequence[Ancestor]:
    """Returns the best candidate and its ancestors, each once, nearest first."""
    lineage_ids = [best_id]
    for id in lineage_ids:  # the list grows in this loop
        parents = candidates[id]["parents"]
        lineage_ids += [parent for parent in parents if parent in candidates and parent not in lineage_ids]
        if len(lineage_ids) >= _MAX_ANCESTORS:
            break
    return [_make_ancestor(candidates[id]) for id in lineage_ids[:_MAX_ANCESTORS]]


def _make_ancestor(data: Mapping[str, Any]) -> Ancestor:
    note = str(data.get("meta", {}).get("note", ""))
    return Ancestor(data["id"], tuple(data["parents"]), data["evaluation"]["score"], data["content"], note)


def _evaluate_on_test_set(result: Result, problem: EvolveProblem, test_set: dataset.SealedTestSet) -> Result:
    """Scores the best and the initial candidate on the test set, which is opened only here."""
    splits, options = {"validation": test_set.open()}, problem.options
    allowed = runs.UnsafeOptions(unsafe=options.unsafe)
    test_executor_config = executor_config.make_executor_config(
        _make_config(problem), allowed, has_llm=options.llm is not None
    )
    with closing(problem.open_executor(splits, test_executor_config)) as candidate_executor:
        evaluate = dataset_evaluator.DatasetEvaluator(candidate_executor, splits)
        best, initial = (
            evaluation.validate(evaluate(function.Text(content)))
            for content in (result.content, problem.representation.content)
        )
    failure_note = "" if best.failure is None else f"; the test set has no score: {best.failure}"
    gain = compute_gain(best.scores, initial.scores)
    return result._replace(test=best.score, gain=gain, reason=result.reason + failure_note)


def _run_baselines(problem: EvolveProblem) -> dict[str, float | str]:
    """Runs each baseline with the whole budget, without a store."""
    options = problem.options._replace(store=None)
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
    llm_factory, started_at = _make_llm_factory(options.llm), time.monotonic()
    run_config = _load_task_config(initial, evaluator, options)
    has_llm = llm_factory is not None or run_config.run.llm.lower() != "none"
    budget = None if options.budget is None else parse_budget(options.budget, has_llm=has_llm)
    allowed = runs.UnsafeOptions(unsafe=options.unsafe)
    suffix = Path(str(getattr(run_config.task, "program", "x.py"))).suffix
    with store.Store(options.store or MEMORY_URL) as run_store:
        with runs.Session(
            run_store,
            run_config,
            budget=budget,
            llm_factory=llm_factory,
            allowed=allowed,
            needs_price=_has_price(options.llm),
        ) as session:
            session.run()
            result = _read_result(session, run_store, str, suffix)
        scores: dict[str, float | str] = {"initial": result.initial_score}
        for baseline in baselines.find_baselines(run_store, session.run_id, has_llm=llm_factory is not None or None):
            title = baseline.title.replace("best of N", "best-of-N")
            scores[title] = NOT_RUN
            if options.baselines:
                scores[title] = _run_task_baseline(run_store, session.run_id, baseline.name, llm_factory, allowed)
    cost = result.cost._replace(seconds=time.monotonic() - started_at)
    return result._replace(cost=cost, run=session.run_id if options.store else "", baselines=scores)


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
