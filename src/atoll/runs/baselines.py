"""Runs to compare with: baselines, and pairs of runs with two values of a parameter and the same task and seed."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from atoll import config, control, errors, store
from atoll.candidate import Candidate
from atoll.runs import executor_config, text_format
from atoll.runs.run_llm import LLMFactory
from atoll.runs.session import Session, make_parameter_reader
from atoll.runs.summary import Summary, Totals, compute_totals, summarize
from atoll.store.versions import ledger

BASELINE_OF = "baseline_of"  # key in the configuration of a baseline: the run to compare with
TITLES: Mapping[str, str] = {"best_of_n": "best of N", "sequential": "sequential conditioning", "no_llm": "no LLM"}
COLUMNS = ("baseline", "best", "lead of this run", "evaluations", "calls", "USD", "run")
_ITERATION_FACTOR = 10  # iterations without an evaluation must end too


@dataclass(frozen=True, slots=True)
class Baseline:
    """One baseline of a run.

    Attributes:
        name: A key of `TITLES`.
        summary: Summary of its run; None if it was not run.
        reason: Why it could not be run, if it was tried.
        is_behind: Whether the run has since used more than its baseline may use.
    """

    name: str
    summary: Summary | None = None
    reason: str = ""
    is_behind: bool = False

    @property
    def title(self) -> str:
        return TITLES[self.name]

    def to_data(self) -> dict[str, Any] | str:
        summary = self.summary
        if summary is None:
            return f"not run{f': {self.reason}' if self.reason else ''}"
        usage, cost = summary.totals, summary.totals.cost
        score = {"run": summary.run, "status": summary.status, "best_score": summary.best_score}
        return {**score, "evaluations": usage.evaluations, "calls": cost.calls, "cost_usd": cost.usd}


def list_names(llm: str) -> list[str]:
    """Returns the names of the baselines of a run with this LLM."""
    has_llm = llm.strip().lower() not in ("", "none")
    return [name for name in TITLES if has_llm or name != "no_llm"]


def make_equal_budget(limits: control.Budget, usage: Totals, name: str) -> control.Budget:
    """Returns the budget of a baseline: the usage of the run, within its limits of seconds and dollars."""
    has_llm = name != "no_llm"
    calls = usage.cost.calls or limits.calls if has_llm else None
    tokens, usd = (limits.tokens, limits.usd) if has_llm else (None, None)
    # A repeated proposal needs no evaluation; the baseline may repeat less.
    evaluations = max(usage.evaluations, 1 + (calls or 0))
    return control.Budget(max(1, usage.steps) * _ITERATION_FACTOR, evaluations, calls, tokens, usd, limits.seconds)


def describe(limits: control.Budget, llm: str) -> str:
    """Describes the budget of the baselines, before the run."""
    names = list_names(llm)
    llm_names = [name for name in names if name != "no_llm"] if "no_llm" in names else []
    usage = "evaluations and LLM calls" if llm_names else "evaluations"
    description = f"{', '.join(TITLES[name] for name in names)}: each gets as many {usage} as this run"
    amounts = {field.name: getattr(limits, field.name) for field in fields(limits)}
    limit_texts = [
        f"{limit * (1 + len(llm_names if name in ('calls', 'tokens', 'usd') else names)):g} {name}"
        for name, limit in amounts.items()
        if limit is not None and name != "iterations"
    ]
    cost_note = f"; LLM calls cost {1 + len(llm_names)} times as much" if llm_names else ""
    return f"{description}{cost_note}{f'; at most {", ".join(limit_texts)} in total' if limit_texts else ''}"


def start(
    run_store: store.Store,
    run_id: str,
    name: str,
    *,
    llm_factory: LLMFactory | None = None,
    allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
) -> Session:
    """Starts a baseline of an ended run, or continues one that crashed or is behind.

    Raises:
        SetupError: The baseline cannot be run, e.g. without the LLM that alone can change the program.
    """
    stored_config = run_store.get_run(run_id).config
    if "folder" not in stored_config or BASELINE_OF in stored_config:
        raise errors.SetupError(f"Run {run_id} cannot have baselines: it is one itself, or has no task folder.")
    past_plans = [record.data["plan"] for record in run_store.journal(run_id).read_kinds("started")]
    run_config = config.RunConfig.from_data(past_plans[-1])
    budget = make_equal_budget(run_config.get_budget(), compute_totals(run_store, run_id), name)
    has_llm = name != "no_llm"
    settings = {"iterations": budget.iterations, "budget": _format_budget(budget), "patience": None}
    settings |= {"island_budget": None, **({"method": name} if has_llm else {"method": "evolve", "llm": "none"})}
    return Session(
        run_store,
        config.RunConfig.from_data(run_config.to_data(), [{"run": settings}]),
        run_id=_find_runs(run_store, run_id).get(name),
        budget=budget,
        llm_factory=llm_factory if has_llm else None,
        allowed=allowed,
        extra_config={BASELINE_OF: run_id, "baseline": name},
    )


def find_baselines(run_store: store.Store, run_id: str, *, has_llm: bool | None = None) -> list[Baseline]:
    """Returns the baselines of a run, including those that were not run; empty if it cannot have any.

    Args:
        has_llm: Whether the run has an LLM; None to read its configuration.
    """
    stored_config, runs_by_name = run_store.get_run(run_id).config, _find_runs(run_store, run_id)
    if "folder" not in stored_config or BASELINE_OF in stored_config:
        return []
    names = list(TITLES) if has_llm else list_names(stored_config["run"]["llm"])
    return [
        _load_baseline(run_store, name, runs_by_name[name], run_id) if name in runs_by_name else Baseline(name)
        for name in names
    ]


def describe_baseline(stored_config: Mapping[str, Any]) -> str:
    """Describes a run that is a baseline; empty for other runs."""
    if BASELINE_OF not in stored_config:
        return ""
    return f"{TITLES[stored_config['baseline']]} for {stored_config[BASELINE_OF]}"


def format_lines(baselines: Sequence[Baseline], best: float | None, run_id: str) -> Iterator[str]:
    """Yields the baselines as Markdown."""
    missing = [baseline for baseline in baselines if baseline.summary is None]
    if len(missing) == len(baselines):
        command = f" 'atoll resume {run_id} --baselines' runs them." if baselines else ""
        yield f"Baselines: not run.{command}"
        return
    heading = format_heading(baselines, f"atoll resume {run_id} --baselines")
    yield from (f"{heading}; small differences may be chance:", "")
    yield from (f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}")
    for baseline in baselines:
        yield f"| {' | '.join(format_cells(baseline, best))} |"
    if missing:
        yield from ("", f"Not run: 'atoll resume {run_id} --baselines' runs the missing ones, or says why it cannot.")


def format_heading(baselines: Sequence[Baseline], command: str) -> str:
    """Returns a heading that says whether the budgets are equal; the command makes them equal."""
    if any(baseline.is_behind for baseline in baselines):
        return f"Baselines, one run each, with a smaller budget than this run ('{command}' makes them equal)"
    return "Baselines, one run each, with as many evaluations and LLM calls as this run"


def find_winner(baselines: Sequence[Baseline], best: float | None) -> Baseline | None:
    """Returns the best baseline if it is better than the run."""
    winner, best_score = None, -math.inf if best is None else best
    for baseline in baselines:
        score = baseline.summary.best_score if baseline.summary else None
        if score is not None and score > best_score:
            winner, best_score = baseline, score
    return winner


def format_cells(baseline: Baseline, best: float | None) -> Sequence[str]:
    """Returns a table row with the columns `COLUMNS`."""
    if baseline.summary is None:
        return [baseline.title, "not run", *["-"] * 5]
    score, usage = baseline.summary.best_score, baseline.summary.totals
    lead = None if score is None or best is None else best - score
    usage_cells = (f"{usage.evaluations:,}", f"{usage.cost.calls:,}", f"{usage.cost.usd:.4f}")
    run_text = baseline.summary.run + ("" if baseline.summary.status == "done" else f", {baseline.summary.status}")
    return [baseline.title, text_format.format_number(score), text_format.format_number(lead), *usage_cells, run_text]


def _load_baseline(run_store: store.Store, name: str, baseline_id: str, run_id: str) -> Baseline:
    starts = list(run_store.journal(baseline_id).read_kinds("started"))
    equal_limit = make_equal_budget(control.Budget(), compute_totals(run_store, run_id), name).evaluations or 0
    is_behind = bool(starts) and (starts[-1].data["budget"].get("evaluations") or 0) < equal_limit
    return Baseline(name, summarize(run_store, baseline_id), is_behind=is_behind)


def _find_runs(run_store: store.Store, run_id: str) -> dict[str, str]:
    baseline_runs = [run for run in run_store.list_runs() if run.config.get(BASELINE_OF) == run_id]
    return {run.config["baseline"]: run.id for run in baseline_runs}


def _format_budget(budget: control.Budget) -> str:
    """Returns a budget as it is written in a configuration."""
    units = {"evaluations": "evals", "calls": "calls", "tokens": "tokens", "seconds": "s"}
    parts = [f"{getattr(budget, name)}{unit}" for name, unit in units.items() if getattr(budget, name) is not None]
    return ",".join([*parts, *([f"${budget.usd}"] if budget.usd is not None else [])])


class PairedRuns:
    """Samples, apply function and score function of a shadow run that compares values by whole runs.

    Every run has the budget of the configuration and leaves nothing in the store.

    Args:
        run_config: Configuration of a task that has the parameter among its settings.
        key: Key of the parameter.
        version_ledger: Has the parameters of the task; only read.
        seeds: One pair of runs for each.
        llm_factory: Makes the LLM; by default the one that the configuration names.
        allowed: Safety checks that the user waives.

    Attributes:
        parameter_name: Name of the parameter in the task, e.g. `KEY@production`; has the current value.

    Raises:
        SetupError: The task does not use the parameter.
        NotFound: The parameter does not exist.
    """

    def __init__(
        self,
        run_config: config.RunConfig,
        key: str,
        version_ledger: ledger.VersionLedger,
        seeds: Sequence[int],
        *,
        llm_factory: LLMFactory | None = None,
        allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
    ) -> None:
        self._run_config, self._seeds, self._llm_factory, self._allowed = run_config, seeds, llm_factory, allowed
        self._read_parameter, self._key = make_parameter_reader(version_ledger), key
        names = [name for name in run_config.bindings.values() if self._read_parameter(name).key == key]
        if not names:
            raise errors.SetupError(
                f'{run_config.folder.name} has no setting that is the parameter {key}. Write one as "@param:{key}", '
                f"e.g. --set {run_config.system}.KEY=@param:{key}. 'atoll params settings {run_config.system}' lists "
                "the settings that can be parameters."
            )
        self.parameter_name = names[0]

    @property
    def functions(self) -> Sequence[Callable[..., Any]]:
        return self.samples, self.apply, self.score

    def samples(self) -> Sequence[Candidate]:
        """Returns a sample for each seed."""
        return [Candidate(f"seed {seed}", json.dumps({"seed": seed})) for seed in self._seeds]

    def apply(self, candidate: Candidate, value: Any) -> Candidate:
        """Returns a sample that uses a value of the parameter."""
        return Candidate(candidate.id, json.dumps({**json.loads(candidate.content), "value": value}))

    def score(self, candidate: Candidate) -> tuple[float, dict[str, float]]:
        """Runs the task and returns its best score and its usage.

        Raises:
            SetupError: The task cannot run with this value.
            RunFailed: The run failed, or no candidate has a score.
        """
        data = json.loads(candidate.content)
        run_config = config.RunConfig.from_data(self._run_config.to_data(), [{"run": {"seed": data["seed"]}}])
        with store.Store("sqlite://") as run_store:
            with Session(
                run_store,
                run_config.bind_parameters(self._make_reader(data["value"])),
                llm_factory=self._llm_factory,
                allowed=self._allowed,
            ) as session:
                session.run()
            summary = summarize(run_store, session.run_id)
        if summary.best_score is None:
            raise errors.RunFailed(f"The run with {candidate.id} has no score.")
        usage = summary.totals
        return summary.best_score, {"evaluations": float(usage.evaluations), "usd": usage.cost.usd}

    def _make_reader(self, value: Any) -> Callable[[str], config.BoundParameter]:
        def read_parameter(name: str) -> config.BoundParameter:
            parameter = self._read_parameter(name)
            return parameter._replace(value=value) if parameter.key == self._key else parameter

        return read_parameter
