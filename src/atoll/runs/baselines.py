"""What a run is compared with: plainer ways to use as many evaluations and calls, each a run of its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from atoll import config, control, errors, store
from atoll.runs import place, text
from atoll.runs.session import MakeLLM, Session
from atoll.runs.summary import Summary, Totals, summarise, totals

OF = "baseline_of"  # in the configuration of a baseline: the run that it is compared with
NAMES: Mapping[str, str] = {"best_of_n": "best of N", "sequential": "sequential conditioning", "no_llm": "no LLM"}
COLUMNS = ("baseline", "best", "lead of this run", "evaluations", "calls", "USD", "run")
_STEPS = 10  # times as many as the run's: steps that judge nothing must end too


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
    why: str = ""
    is_behind: bool = False

    @property
    def title(self) -> str:
        return NAMES[self.name]

    def to_data(self) -> dict[str, Any] | str:
        found = self.summary
        if found is None:
            return f"not run{f': {self.why}' if self.why else ''}"
        used, cost = found.totals, found.totals.cost
        score = {"run": found.run, "status": found.status, "best_score": found.best_score}
        return {**score, "evaluations": used.evaluations, "calls": cost.calls, "cost_usd": cost.usd}


def wanted(llm: str) -> list[str]:
    """Returns the names of what a run with that model is compared with."""
    has_model = llm.strip().lower() not in ("", "none")
    return [name for name in NAMES if has_model or name != "no_llm"]  # it has none anyway


def equal(limits: control.Budget, used: Totals, name: str) -> control.Budget:
    """Returns the budget of a baseline: what the run has used, and no more seconds or dollars than it was given."""
    calls = used.cost.calls if name != "no_llm" and used.cost.calls else None
    tokens, usd = (limits.tokens, limits.usd) if calls else (None, None)
    judged = max(used.evaluations, 1 + (calls or 0))  # what a model repeats costs no evaluation; it may not do so here
    return control.Budget(max(1, used.steps) * _STEPS, judged, calls, tokens, usd, limits.seconds)


def told(limits: control.Budget, llm: str) -> str:
    """Says before a run what its baselines will use."""
    names = wanted(llm)
    bought = [name for name in names if name != "no_llm"] if "no_llm" in names else []
    said = f"{', '.join(NAMES[name] for name in names)}: each gets as many evaluations"
    said += " and calls as this run will have used" if bought else " as this run will have used"
    amounts = {field.name: getattr(limits, field.name) for field in fields(limits)}
    most = [
        f"{limit * (1 + len(bought if name in ('calls', 'tokens', 'usd') else names)):g} {name}"
        for name, limit in amounts.items()
        if limit is not None and name != "iterations"
    ]
    paid = f"; calls are paid {1 + len(bought)} times" if bought else ""
    return f"{said}{paid}{f'; in all at most {", ".join(most)}' if most else ''}"


def start(
    kept: store.Store, run: str, name: str, *, model: MakeLLM | None = None, allowed: place.Allowed = place.NOTHING
) -> Session:
    """Begins a baseline of a run that has ended, or goes on with it where it was cut or the run went further.

    Raises:
        SetupError: It cannot be run, such as one without a model where only a model can change the program.
    """
    own = kept.run(run).config
    if "folder" not in own or OF in own:
        raise errors.SetupError(f"Run {run} has no baselines: it is one, or comes from no task folder.")
    last = [record.data["plan"] for record in kept.journal(run).of_kind("started")]
    plan = config.Plan.from_data(last[-1])
    budget = equal(plan.budget(), totals(kept, run), name)
    has_model = name != "no_llm"
    limits = {"iterations": budget.iterations, "budget": _written(budget), "patience": None, "island_budget": None}
    method = {"method": name if name != "no_llm" else "evolve", **({} if has_model else {"llm": "none"})}
    wished = config.Plan.from_data(plan.to_data(), [{"run": {**limits, **method}}])
    old = _runs(kept, run).get(name)
    link = {OF: run, "baseline": name}
    return Session(kept, wished, run=old, budget=budget, model=model if has_model else None, allowed=allowed, link=link)


def find(kept: store.Store, run: str, *, has_model: bool | None = None) -> list[Baseline]:
    """Returns the baselines of a run, those that were not run too; empty where it can have none.

    Args:
        kept: Where they are.
        run: What they are compared with.
        has_model: Whether it has a model; None: as its configuration says.

    Raises:
        NotFound: There is no such run.
    """
    own, there = kept.run(run).config, _runs(kept, run)
    if "folder" not in own or OF in own:
        return []
    names = list(NAMES) if has_model else wanted(own["run"]["llm"])
    return [_found(kept, name, there[name], run) if name in there else Baseline(name) for name in names]


def of(config: Mapping[str, Any]) -> str:
    """Says what a run is, if it is a baseline; else empty."""
    return f"{NAMES[config['baseline']]} for {config[OF]}" if OF in config else ""


def lines(found: Sequence[Baseline], best: float | None, run: str) -> Iterator[str]:
    """Yields what is known of baselines as Markdown."""
    missing = [each for each in found if each.summary is None]
    if len(missing) == len(found):
        command = f": 'atoll resume {run} --baselines' runs them" if found else ""
        yield f"Baselines: not run{command}."
        return
    yield from (f"{heading(found, f'atoll resume {run} --baselines')}; small differences may be chance:", "")
    yield from (f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}")
    for each in found:
        yield f"| {' | '.join(cells(each, best))} |"
    if missing:
        yield from ("", f"Not run: 'atoll resume {run} --baselines' runs what is missing, or says why it cannot.")


def heading(found: Sequence[Baseline], command: str) -> str:
    """Says how far baselines can be compared; the command makes them equal."""
    if any(each.is_behind for each in found):
        return f"Baselines, one run each, of when this run had used less ('{command}' brings them level)"
    return "Baselines, with as many evaluations and calls, one run each"


def winner(found: Sequence[Baseline], best: float | None) -> Baseline | None:
    """Returns the baseline that found most, if that is more than what it is compared with."""
    scored = [(each.summary.best_score, each) for each in found if each.summary and each.summary.best_score is not None]
    score, each = max(scored, key=lambda pair: pair[0], default=(None, None))
    return each if score is not None and (best is None or score > best) else None


def cells(each: Baseline, best: float | None) -> Sequence[str]:
    """Returns a row of the table of baselines, as in `COLUMNS`."""
    if each.summary is None:
        return [each.title, "not run", *["-"] * 5]
    score, used = each.summary.best_score, each.summary.totals
    lead = None if score is None or best is None else best - score
    took = (f"{used.evaluations:,}", f"{used.cost.calls:,}", f"{used.cost.usd:.4f}")
    run = each.summary.run + ("" if each.summary.status == "done" else f", {each.summary.status}")
    return [each.title, text.number(score), text.number(lead), *took, run]


def _found(kept: store.Store, name: str, own: str, run: str) -> Baseline:
    given = [record.data["budget"].get("evaluations") for record in kept.journal(own).of_kind("started")]
    level = equal(control.Budget(), totals(kept, run), name).evaluations
    return Baseline(name, summarise(kept, own), is_behind=bool(given) and (given[-1] or 0) < (level or 0))


def _runs(kept: store.Store, run: str) -> dict[str, str]:
    return {each.config["baseline"]: each.id for each in kept.runs() if each.config.get(OF) == run}


def _written(budget: control.Budget) -> str:
    """Returns a budget as the configuration writes it."""
    units = {"evaluations": "evals", "calls": "calls", "tokens": "tokens", "seconds": "s"}
    said = [f"{getattr(budget, name)}{unit}" for name, unit in units.items() if getattr(budget, name) is not None]
    return ",".join([*said, *([f"${budget.usd}"] if budget.usd is not None else [])])
