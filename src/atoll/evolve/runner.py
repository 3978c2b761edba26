"""One run from the front door to its result."""

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from atoll import cluster, config, control, errors, evaluation, function, journal, llm, runs, store, system
from atoll.evaluation import Evaluation
from atoll.evolve import build, representations
from atoll.evolve.options import EvolveOptions
from atoll.evolve.result import NOT_RUN, Ancestor, Gain, Result, ResultUsage
from atoll.programs.gepa import dataset, dataset_evaluator
from atoll.runs import baselines
from atoll.runs.stop_rules import LLMFailureLimit

_MAX_ANCESTORS = 200  # ancestors in a result; a store has all


def read_result(
    evolver: cluster.Evolver,
    run_journal: journal.Journal,
    restore: Callable[[str], Any],
    suffix: str,
    evaluator_calls: int | None,
) -> Result:
    """Returns the result of a run that has ended, but for its test and its baselines.

    Args:
        restore: Makes of the best text what the caller is given.
        suffix: Of a file with it.
        calls: How often the evaluator was called; None: once per evaluation.

    Raises:
        NotFound: Nothing has a score.
    """
    best = evolver.best_fn()
    assert best.candidate is not None
    assert best.evaluation is not None
    candidates = {data["id"]: data for data in _read_evaluated(run_journal)}
    initial_evaluation, best_evaluation = evaluation.from_data(candidates["0.0"]["evaluation"]), best.evaluation
    usage = evolver.usage
    cost = usage.cost
    tokens = cost.tokens_in + cost.tokens_out
    return Result(
        best=restore(best.candidate.content),
        score=best_evaluation.score or 0.0,
        initial_score=initial_evaluation.score or 0.0,
        test=None,
        gain=compute_gain(best_evaluation.scores, initial_evaluation.scores),
        baselines={},
        cost=ResultUsage(
            usage.evaluations if evaluator_calls is None else evaluator_calls,
            usage.iterations,
            cost.calls,
            tokens,
            cost.usd,
            0.0,
        ),
        lineage=_trace_lineage(candidates, best.candidate.id),
        scores=best_evaluation.scores,
        reason=evolver.reason,
        run="",
        content=best.candidate.content,
        suffix=suffix,
    )


def compute_gain(best_scores: Sequence[float], initial_scores: Sequence[float]) -> Gain | None:
    """Compares instance by instance; None where there are too few to say how sure that is."""
    if len(best_scores) != len(initial_scores) or len(best_scores) < 2:
        return None
    differences = [
        best_score - initial_score for best_score, initial_score in zip(best_scores, initial_scores, strict=True)
    ]
    mean = statistics.fmean(differences)
    half_width = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return Gain(mean, mean - half_width, mean + half_width)


def _read_evaluated(run_journal: journal.Journal) -> Sequence[Mapping[str, Any]]:
    """Returns the start and all children that were judged; drafts are not among them."""
    evaluated_records = [record for record in run_journal.read() if record.kind in ("founded", "judged")]
    return [record.data for record in evaluated_records if not str(record.data.get("label", "")).startswith("d")]


def _trace_lineage(candidates: Mapping[str, Mapping[str, Any]], best_id: str) -> Sequence[Ancestor]:
    """Returns the best and its ancestors, each once, nearest first."""
    lineage_ids = [best_id]
    for id in lineage_ids:  # grows as it goes
        lineage_ids += [
            parent for parent in candidates[id]["parents"] if parent in candidates and parent not in lineage_ids
        ]
        if len(lineage_ids) >= _MAX_ANCESTORS:
            break
    return [_make_ancestor(candidates[id]) for id in lineage_ids[:_MAX_ANCESTORS]]


def _make_ancestor(data: Mapping[str, Any]) -> Ancestor:
    note = str(data.get("meta", {}).get("note", ""))
    return Ancestor(data["id"], tuple(data["parents"]), data["evaluation"]["score"], data["content"], note)


ALL_ISLANDS = -1  # the island of a record that concerns all of them
MEMORY_URL = "sqlite://"
_DEFAULT_EVALUATIONS, _DEFAULT_EVALUATIONS_WITH_LLM = 500, 200
_POLL_SECONDS = 0.02
_MAX_ITERATIONS = 10_000  # of a budget of dollars or tokens: a model may not say what it costs


def run(initial: Any, evaluator: Any, options: EvolveOptions) -> Result:
    """Evolves a thing and says what came of it.

    Raises:
        SetupError: Something does not fit.
    """
    if isinstance(initial, Path) and (evaluator is None or isinstance(evaluator, os.PathLike)):
        return _run_task(initial, evaluator, options)
    if not callable(evaluator):
        raise errors.SetupError(f"The evaluator is {evaluator!r:.60}: give a function that scores a candidate.")
    representation = representations.choose_representation(initial, options.kind)
    data, test_set = _split_data(options)
    result = EvolveRun(representation, evaluator, data, options).run()
    if test_set is not None:
        result = _evaluate_on_test_set(result, representation, evaluator, test_set, options)
    return result._replace(
        baselines={"start": result.initial_score, **_run_baselines(representation, evaluator, data, options)}
    )


def _split_data(options: EvolveOptions) -> tuple[dataset.DatasetSplit | None, dataset.SealedTestSet | None]:
    if options.data is None:
        if options.validation is not None or options.test is not None:
            raise errors.SetupError("validation and test are parts of a data set: give data too.")
        return None, None
    return dataset.split_dataset(options.data, options.validation, options.test, seed=options.seed)


def make_llm(value: Any) -> LLMFailureLimit | None:
    """Returns the model that was given, which is given up after so many faults in a row.

    Raises:
        SetupError: It is neither a name nor a function.
    """
    if value is not None and not isinstance(value, str) and not callable(value):
        raise errors.SetupError(f"llm is {value!r:.60}: give a model's name, a function of the prompt, or None.")
    llm_or_function = llm.make_llm(value) if isinstance(value, str) else value
    return None if llm_or_function is None else LLMFailureLimit(llm.FunctionLLM(llm_or_function))


def parse_budget(value: object, *, has_llm: bool) -> control.Budget:
    """Reads what a run may use.

    Raises:
        SetupError: It cannot be read, or never ends a run.
    """
    if value is None:
        return control.Budget(evaluations=_DEFAULT_EVALUATIONS_WITH_LLM if has_llm else _DEFAULT_EVALUATIONS)
    budget = config.parse_budget(value) if isinstance(value, str) else value
    if not isinstance(budget, control.Budget):
        raise errors.SetupError(f'budget is {value!r:.60}: give e.g. "60s", "$1" or "500evals".')
    is_endless = all(getattr(budget, name) is None for name in ("iterations", "evaluations", "seconds"))
    if is_endless and (not has_llm or budget == control.UNLIMITED):
        raise errors.SetupError('The budget never ends the run without a model: give e.g. "60s" or "500evals".')
    return replace(budget, iterations=_MAX_ITERATIONS) if is_endless else budget


class EvolveRun:
    """A run of live objects: its place in a store, its parts and its evolver."""

    def __init__(
        self,
        representation: representations.Representation,
        evaluator: Callable[..., Any],
        data: dataset.DatasetSplit | None,
        options: EvolveOptions,
    ) -> None:
        self._representation, self._options, self._data = representation, options, data
        self._llm_with_limit = make_llm(options.llm)
        journaled_llm = llm.JournaledLLM(self._llm_with_limit) if self._llm_with_limit is not None else None
        budget = parse_budget(options.budget, has_llm=journaled_llm is not None)
        if options.workers < 1 or options.minibatch < 1:
            raise errors.SetupError("workers and minibatch must be at least 1.")
        self._parts = build.build_run(representation, evaluator, data, options, journaled_llm, budget)

    def run(self) -> Result:
        """Runs to the end; without a store its records live as long as this call.

        Raises:
            SetupError: The start has no score, or the store cannot be opened.
            RunFailed: The run ended before its time.
        """
        with closing(_Closer(self._parts.built_system.close)):
            if self._options.store is None:
                return self._run_with_journal(store.MemoryJournal(), None)
            with store.Store(self._options.store) as run_store:
                run_id = run_store.create_run(config=self._describe_setup())
                with run_store.lock_run(run_id):
                    return self._run_with_journal(run_store.journal(run_id), run_store.inbox(run_id))._replace(
                        run=run_id
                    )

    def _run_with_journal(self, run_journal: journal.Journal, inbox: control.Inbox | None) -> Result:
        started_at = time.monotonic()
        evolver = self._build_evolver(run_journal, inbox)
        self._wait_until_done(evolver)
        representation, evaluator_calls = self._representation, self._parts.call_counter.calls
        result = read_result(evolver, run_journal, representation.restore, representation.suffix, evaluator_calls)
        return result._replace(cost=result.cost._replace(seconds=time.monotonic() - started_at))

    def _describe_setup(self) -> dict[str, Any]:
        options = self._options
        run_options = {
            "kind": self._representation.kind,
            "seed": options.seed,
            "workers": options.workers,
            "target": options.target,
        }
        return {"system": "evolve", "run": {**run_options, "objective": options.objective}}

    def _build_evolver(self, run_journal: journal.Journal, inbox: control.Inbox | None) -> system.SystemEvolver:
        parts = self._parts
        is_timed = parts.budget.seconds is not None or parts.budget.usd is not None
        is_sequential = self._representation.kind == "parameters"  # each point depends on all before it
        workers = 1 if is_sequential else self._options.workers
        evolver_config = replace(
            parts.built_system.config,
            num_parallel=workers,
            window=workers,
            journal=run_journal,
            budget=parts.budget,
            stop_rules=tuple(parts.stop_rules),
            inbox=inbox,
            seed=self._options.seed,
            ordered=not is_timed,
        )
        llm_name = (
            self._options.llm
            if isinstance(self._options.llm, str)
            else "a function"
            if self._llm_with_limit
            else "none"
        )
        run_journal.write(
            journal.Record("started", 0, ALL_ISLANDS, {"sandbox": parts.built_system.sandbox, "llm": llm_name})
        )
        return system.SystemEvolver(evolver_config, parts.built_system.report, parts.built_system.close)

    def _wait_until_done(self, evolver: system.SystemEvolver) -> None:
        """Waits for the end; a model that gives no reply any more ends it too, and so does Ctrl-C."""
        evolver.start()
        try:
            while not evolver.reason:
                time.sleep(_POLL_SECONDS)
                if self._llm_with_limit is not None and self._llm_with_limit.stop_reason:
                    evolver.stop(f"failed: {self._llm_with_limit.stop_reason}")
            evolver.join()
        except KeyboardInterrupt:
            evolver.stop("interrupted")
        except errors.RunFailed as error:
            if "initial function" in str(error):
                raise errors.SetupError(str(error).replace("initial function", "start")) from error
            raise


class _Closer:
    def __init__(self, close: Callable[[], None]) -> None:
        self.close = close


def _evaluate_on_test_set(
    result: Result,
    representation: representations.Representation,
    evaluator: Callable[..., Any],
    test_set: dataset.SealedTestSet,
    options: EvolveOptions,
) -> Result:
    """Scores the best, and the start beside it, on the test set: here it is opened, and nowhere else."""
    splits = {"validation": test_set.open()}
    candidate_sandbox = build.open_executor(representation, evaluator, splits, options, options.llm is not None)
    with closing(candidate_sandbox):
        candidate_evaluator = dataset_evaluator.DatasetEvaluator(candidate_sandbox, splits)
        best_evaluation, initial_evaluation = (
            _evaluate(candidate_evaluator, content) for content in (result.content, representation.content)
        )
    reason = (
        result.reason
        if best_evaluation.failure is None
        else f"{result.reason}; the test has no score: {best_evaluation.failure}"
    )
    return result._replace(
        test=best_evaluation.score, gain=compute_gain(best_evaluation.scores, initial_evaluation.scores), reason=reason
    )


def _evaluate(candidate_evaluator: dataset_evaluator.DatasetEvaluator, content: str) -> Evaluation:
    return evaluation.validate(candidate_evaluator(function.Text(content)))


def _run_baselines(
    representation: representations.Representation,
    evaluator: Callable[..., Any],
    data: dataset.DatasetSplit | None,
    options: EvolveOptions,
) -> dict[str, float | str]:
    """Runs what the result should be compared with, each with the whole budget, in no store."""
    base_options = options._replace(store=None)
    baseline_options = {
        "best-of-N": base_options._replace(method="best_of_n"),
        "sequential conditioning": base_options._replace(method="sequential"),
    }
    if options.llm is not None:
        baseline_options["no LLM"] = base_options._replace(llm=None)
    if not options.baselines:
        return dict.fromkeys(baseline_options, NOT_RUN)
    return {
        name: _run_baseline(representation, evaluator, data, run_options)
        for name, run_options in baseline_options.items()
    }


def _run_baseline(
    representation: representations.Representation,
    evaluator: Callable[..., Any],
    data: dataset.DatasetSplit | None,
    options: EvolveOptions,
) -> float | str:
    try:
        return EvolveRun(representation, evaluator, data, options).run().score
    except errors.SetupError as error:  # such as a program that no engine can change without a model
        return f"cannot be run: {error}"


def _make_llm_factory(run_llm: llm.LLM) -> runs.LLMFactory:
    return lambda run_config: run_llm


def _run_task(initial: Path, evaluator: os.PathLike[str] | None, options: EvolveOptions) -> Result:
    """Runs a task folder, or a program with an evaluator's file, as the command line would."""
    folder = initial if evaluator is None else initial.parent
    changes: dict[str, Any] = {"run": {"seed": options.seed, "workers": options.workers, "target": options.target}}
    if evaluator is not None:
        task = {"program": str(initial.absolute()), "evaluator": str(Path(evaluator).absolute())}
        run_config = config.RunConfig.from_layers(folder.absolute(), [{"system": "programs", "task": task}, changes])
    else:
        run_config = config.load(folder, [changes])
    if isinstance(options.llm, str):
        run_config = replace(run_config, run=run_config.run.model_copy(update={"llm": options.llm}))
    custom_llm = None if options.llm is None or isinstance(options.llm, str) else make_llm(options.llm)
    llm_or_name = custom_llm or (run_config.run.llm if run_config.run.llm.lower() != "none" else None)
    budget = (
        run_config.get_budget()
        if options.budget is None
        else parse_budget(options.budget, has_llm=llm_or_name is not None)
    )
    started_at = time.monotonic()
    with store.Store(options.store or MEMORY_URL) as run_store:
        unsafe_options = runs.UnsafeOptions(unsafe=options.unsafe)
        with runs.Session(
            run_store,
            run_config,
            budget=budget,
            llm_factory=_make_llm_factory(custom_llm) if custom_llm is not None else None,
            allowed=unsafe_options,
        ) as session:
            session.run()
            suffix = Path(str(getattr(run_config.task, "program", "x.py"))).suffix
            result = read_result(session.evolver, run_store.journal(session.run_id), str, suffix, None)
        baseline_scores = _run_task_baselines(
            run_store,
            session.run_id,
            _make_llm_factory(custom_llm) if custom_llm is not None else None,
            unsafe_options,
            options,
        )
    cost = result.cost._replace(seconds=time.monotonic() - started_at)
    run_id = session.run_id if options.store is not None else ""
    return result._replace(cost=cost, run=run_id, baselines={"start": result.initial_score, **baseline_scores})


def _run_task_baselines(
    run_store: store.Store,
    run_id: str,
    llm_factory: runs.LLMFactory | None,
    unsafe_options: runs.UnsafeOptions,
    options: EvolveOptions,
) -> dict[str, float | str]:
    """Runs the baselines of a task, or says of each that it was not."""
    scores = dict[str, float | str]()
    for baseline in baselines.find_baselines(run_store, run_id, has_llm=llm_factory is not None or None):
        title = baseline.title.replace("best of N", "best-of-N")
        scores[title] = (
            _run_task_baseline(run_store, run_id, baseline.name, llm_factory, unsafe_options)
            if options.baselines
            else NOT_RUN
        )
    return scores


def _run_task_baseline(
    run_store: store.Store,
    run_id: str,
    name: str,
    llm_factory: runs.LLMFactory | None,
    unsafe_options: runs.UnsafeOptions,
) -> float | str:
    try:
        with baselines.start(run_store, run_id, name, llm_factory=llm_factory, allowed=unsafe_options) as session:
            session.run()
    except errors.SetupError as error:
        return f"cannot be run: {error}"
    score = runs.summarize(run_store, session.run_id).best_score
    return "no score" if score is None else score
