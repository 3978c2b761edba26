"""What became of a run, read from the store alone."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from atoll import evaluation, journal, store

type Status = Literal["running", "paused", "done", "interrupted", "stopped", "failed", "cut"]

_ENDS = ("ended", "concluded", "executed")  # records that a run ends with


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run has used.

    Attributes:
        steps: Steps that were issued.
        evaluations: Candidates and drafts judged, the start included.
        failures: Children that got no score, and proposals that gave no child.
    """

    steps: int
    evaluations: int
    failures: int
    cost: evaluation.Cost


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in a few numbers.

    Attributes:
        status: `running` or `paused` while a process writes it; `cut` if that died; else how it ended.
        reason: Why it ended, in words; empty if it has not.
        best: Id of the best candidate, None where nothing has a score.
    """

    run: str
    created_at: datetime
    system: str
    task: str
    llm: str
    sandbox: str
    status: Status
    reason: str
    initial_score: float | None
    best_score: float | None
    best: str | None
    totals: Totals

    def to_data(self) -> dict[str, Any]:
        """Returns it as plain data, as `--json` prints it."""
        data = asdict(self)
        used = data.pop("totals")
        cost = used.pop("cost")
        tokens = {"tokens_in": cost["tokens_in"], "tokens_out": cost["tokens_out"]}
        data["created_at"] = self.created_at.isoformat()
        return {**data, **used, "calls": cost["calls"], "cost_usd": cost["usd"], **tokens}


def totals(kept: store.Store, run: str) -> Totals:
    """Adds up what a run has used.

    Raises:
        NotFound: There is no such run.
    """
    steps = evaluations = failures = 0
    cost = evaluation.FREE
    for record in kept.journal(run).of_kind("founded", "begun", "applied"):
        steps = max(steps, record.step)
        if record.kind == "founded":
            evaluations += 1
            cost += evaluation.from_data(record.data["evaluation"]).cost
        elif record.kind == "applied":
            evaluations += record.data["evaluations"]
            failures += "failure" in record.data
            cost += evaluation.Cost(*record.data["cost"]) if "cost" in record.data else evaluation.FREE
    return Totals(steps, evaluations, failures + kept.candidates(run).num_failed(), cost)


def summarise(kept: store.Store, run: str) -> Summary:
    """Sums a run up.

    Raises:
        NotFound: There is no such run.
    """
    created, rows = kept.run(run), kept.candidates(run)
    status, reason = _ending(kept, run)
    founders, best = [row for row in (rows.find("0.0"),) if row], rows.best()
    started = [record.data for record in kept.journal(run).of_kind("started")]
    last = started[-1] if started else {}
    return Summary(
        run=run,
        created_at=created.created_at,
        system=created.config.get("system", ""),
        task=created.config.get("folder", ""),
        llm=last.get("llm", "none"),
        sandbox=last.get("sandbox", ""),
        status=status,
        reason=reason,
        initial_score=founders[0].score if founders else None,
        best_score=best[0].score if best else None,
        best=best[0].id if best else None,
        totals=totals(kept, run),
    )


def end_of(kept: store.Store, run: str) -> journal.Record | None:
    """Returns the record that tells how a run ended; None: none does.

    Raises:
        NotFound: There is no such run.
    """
    written = kept.journal(run)
    if "shared" in kept.run(run).config:  # what another coordinator still wrote may stand behind the end
        return next(reversed(list(written.of_kind("ended"))), None)
    last = written.last()
    return last if last is not None and last.kind in _ENDS else None


def _ending(kept: store.Store, run: str) -> tuple[Status, str]:
    if kept.is_written(run):
        orders = list[str]()
        for record in kept.journal(run).of_kind("started", "controlled"):  # a pause ends with the process that obeyed
            orders = [] if record.kind == "started" else [*orders, record.data["kind"]]
        brakes = [kind for kind in orders if kind in ("pause", "resume")]
        return "paused" if brakes[-1:] == ["pause"] else "running", ""
    end = end_of(kept, run)
    if end is None:
        return "cut", ""
    reason = str(end.data["reason"])
    for status in ("interrupted", "stopped", "failed"):
        if reason.startswith(status):
            return status, reason
    return "done", reason
