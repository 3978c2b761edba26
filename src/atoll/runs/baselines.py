"""What a run is compared with: plainer ways to use as many evaluations and calls, each a run of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from atoll import config, control, errors, store
from atoll.runs import executor_config, text_format
from atoll.runs.run_llm import LLMFactory
from atoll.runs.session import Session
from atoll.runs.summary import Summary, Totals, compute_totals, summarize

BASELINE_OF = "baseline_of"  # in the configuration of a baseline: the run that it is compared with
TITLES: Mapping[str, str] = {"best_of_n": "best of N", "sequential": "sequential conditioning", "no_llm": "no LLM"}
COLUMNS = ("baseline", "best", "lead of this run", "evaluations", "calls", "USD", "run")
_STEP_FACTOR = 10  # times as many as the run's: steps that judge nothing must end too


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way beside a run.

    Attributes:
        name: A key of `NAMES`.
        summary: Of its run; None: there is none.
        why: Why there is none, if somebody tried.
        is_behind: Whether its run may use less than what it is compared with has used since.
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
    """Returns the names of what a run with that model is compared with."""
    has_llm = llm.strip().lower() not in ("", "none")
    return [name for name in TITLES if has_llm or name != "no_llm"]  # it has none anyway


def make_equal_budget(limits: control.Budget, usage: Totals, name: str) -> control.Budget:
    """Returns the budget of a baseline: what the run has used, and no more seconds or dollars than it was given."""
    calls = usage.cost.calls if name != "no_llm" and usage.cost.calls else None
    tokens, usd = (limits.tokens, limits.usd) if calls else (None, None)
    evaluations = max(
        usage.evaluations, 1 + (calls or 0)
    )  # what a model repeats costs no evaluation; it may not do so here
    return control.Budget(max(1, usage.steps) * _STEP_FACTOR, evaluations, calls, tokens, usd, limits.seconds)


def describe(limits: control.Budget, llm: str) -> str:
    """Says before a run what its baselines will use."""
    names = list_names(llm)
    llm_names = [name for name in names if name != "no_llm"] if "no_llm" in names else []
    description = f"{', '.join(TITLES[name] for name in names)}: each gets as many evaluations"
    description += " and calls as this run will have used" if llm_names else " as this run will have used"
    amounts = {field.name: getattr(limits, field.name) for field in fields(limits)}
    limit_texts = [
        f"{limit * (1 + len(llm_names if name in ('calls', 'tokens', 'usd') else names)):g} {name}"
        for name, limit in amounts.items()
        if limit is not None and name != "iterations"
    ]
    cost_note = f"; calls are paid {1 + len(llm_names)} times" if llm_names else ""
    return f"{description}{cost_note}{f'; in all at most {", ".join(limit_texts)}' if limit_texts else ''}"


def start(
    run_store: store.Store,
    run_id: str,
    name: str,
    *,
    llm_factory: LLMFactory | None = None,
    allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
) -> Session:
    """Begins a baseline of a run that has ended, or goes on with it where it was cut or the run went further.

    Raises:
        SetupError: It cannot be run, such as one without a model where only a model can change the program.
    """
    stored_config = run_store.get_run(run_id).config
    if "folder" not in stored_config or BASELINE_OF in stored_config:
        raise errors.SetupError(f"Run {run_id} has no baselines: it is one, or comes from no task folder.")
    past_plans = [record.data["plan"] for record in run_store.journal(run_id).read_kinds("started")]
    run_config = config.RunConfig.from_data(past_plans[-1])
    budget = make_equal_budget(run_config.get_budget(), compute_totals(run_store, run_id), name)
    has_llm = name != "no_llm"
    limits = {
        "iterations": budget.iterations,
        "budget": _format_budget(budget),
        "patience": None,
        "island_budget": None,
    }
    method = {"method": name if name != "no_llm" else "evolve", **({} if has_llm else {"llm": "none"})}
    baseline_config = config.RunConfig.from_data(run_config.to_data(), [{"run": {**limits, **method}}])
    old_run = _find_runs(run_store, run_id).get(name)
    link = {BASELINE_OF: run_id, "baseline": name}
    return Session(
        run_store,
        baseline_config,
        run_id=old_run,
        budget=budget,
        llm_factory=llm_factory if has_llm else None,
        allowed=allowed,
        extra_config=link,
    )


def find_baselines(run_store: store.Store, run_id: str, *, has_llm: bool | None = None) -> list[Baseline]:
    """Returns the baselines of a run, those that were not run too; empty where it can have none.

    Args:
        kept: Where they are.
        run: What they are compared with.
        has_model: Whether it has a model; None: as its configuration says.

    Raises:
        NotFound: There is no such run.
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
    """Says what a run is, if it is a baseline; else empty."""
    return (
        f"{TITLES[stored_config['baseline']]} for {stored_config[BASELINE_OF]}" if BASELINE_OF in stored_config else ""
    )


def format_lines(baselines: Sequence[Baseline], best: float | None, run_id: str) -> Iterator[str]:
    """Yields what is known of baselines as Markdown."""
    missing = [baseline for baseline in baselines if baseline.summary is None]
    if len(missing) == len(baselines):
        command = f": 'atoll resume {run_id} --baselines' runs them" if baselines else ""
        yield f"Baselines: not run{command}."
        return
    yield from (
        f"{format_heading(baselines, f'atoll resume {run_id} --baselines')}; small differences may be chance:",
        "",
    )
    yield from (f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}")
    for each in baselines:
        yield f"| {' | '.join(format_cells(each, best))} |"
    if missing:
        yield from ("", f"Not run: 'atoll resume {run_id} --baselines' runs what is missing, or says why it cannot.")


def format_heading(baselines: Sequence[Baseline], command: str) -> str:
    """Says how far baselines can be compared; the command makes them equal."""
    if any(baseline.is_behind for baseline in baselines):
        return f"Baselines, one run each, of when this run had used less ('{command}' brings them level)"
    return "Baselines, with as many evaluations and calls, one run each"


def find_winner(baselines: Sequence[Baseline], best: float | None) -> Baseline | None:
    """Returns the baseline that found most, if that is more than what it is compared with."""
    scored = [
        (baseline.summary.best_score, baseline)
        for baseline in baselines
        if baseline.summary and baseline.summary.best_score is not None
    ]
    score, each = max(scored, key=lambda pair: pair[0], default=(None, None))
    return each if score is not None and (best is None or score > best) else None


def format_cells(baseline: Baseline, best: float | None) -> Sequence[str]:
    """Returns a row of the table of baselines, as in `COLUMNS`."""
    if baseline.summary is None:
        return [baseline.title, "not run", *["-"] * 5]
    score, usage = baseline.summary.best_score, baseline.summary.totals
    lead = None if score is None or best is None else best - score
    usage_cells = (f"{usage.evaluations:,}", f"{usage.cost.calls:,}", f"{usage.cost.usd:.4f}")
    run_text = baseline.summary.run + ("" if baseline.summary.status == "done" else f", {baseline.summary.status}")
    return [baseline.title, text_format.format_number(score), text_format.format_number(lead), *usage_cells, run_text]


def _load_baseline(run_store: store.Store, name: str, baseline_id: str, run_id: str) -> Baseline:
    evaluation_limits = [
        record.data["budget"].get("evaluations") for record in run_store.journal(baseline_id).read_kinds("started")
    ]
    equal_limit = make_equal_budget(control.Budget(), compute_totals(run_store, run_id), name).evaluations
    return Baseline(
        name,
        summarize(run_store, baseline_id),
        is_behind=bool(evaluation_limits) and (evaluation_limits[-1] or 0) < (equal_limit or 0),
    )


def _find_runs(run_store: store.Store, run_id: str) -> dict[str, str]:
    return {
        stored_run.config["baseline"]: stored_run.id
        for stored_run in run_store.list_runs()
        if stored_run.config.get(BASELINE_OF) == run_id
    }


def _format_budget(budget: control.Budget) -> str:
    """Returns a budget as the configuration writes it."""
    units = {"evaluations": "evals", "calls": "calls", "tokens": "tokens", "seconds": "s"}
    parts = [f"{getattr(budget, name)}{unit}" for name, unit in units.items() if getattr(budget, name) is not None]
    return ",".join([*parts, *([f"${budget.usd}"] if budget.usd is not None else [])])
