"""What became of a run, read from the store alone."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from atoll import evaluation, journal, store

type Status = Literal["running", "paused", "done", "interrupted", "stopped", "failed", "cut"]

_END_KINDS = ("ended", "concluded", "executed")  # records that a run ends with


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
        usage = data.pop("totals")
        cost = usage.pop("cost")
        tokens = {"tokens_in": cost["tokens_in"], "tokens_out": cost["tokens_out"]}
        data["created_at"] = self.created_at.isoformat()
        return {**data, **usage, "calls": cost["calls"], "cost_usd": cost["usd"], **tokens}


def compute_totals(run_store: store.Store, run_id: str) -> Totals:
    """Adds up what a run has used.

    Raises:
        NotFound: There is no such run.
    """
    steps = evaluations = failures = 0
    cost = evaluation.ZERO_COST
    for record in run_store.journal(run_id).read_kinds("founded", "begun", "applied"):
        steps = max(steps, record.step)
        if record.kind == "founded":
            evaluations += 1
            cost += evaluation.from_data(record.data["evaluation"]).cost
        elif record.kind == "applied":
            evaluations += record.data["evaluations"]
            failures += "failure" in record.data
            cost += evaluation.Cost(*record.data["cost"]) if "cost" in record.data else evaluation.ZERO_COST
    return Totals(steps, evaluations, failures + run_store.candidates(run_id).count_failed(), cost)


def summarize(run_store: store.Store, run_id: str) -> Summary:
    """Sums a run up.

    Raises:
        NotFound: There is no such run.
    """
    stored_run, rows = run_store.get_run(run_id), run_store.candidates(run_id)
    status, reason = _find_status(run_store, run_id)
    initial_rows, best = [row for row in (rows.find("0.0"),) if row], rows.list_best()
    start_records = [record.data for record in run_store.journal(run_id).read_kinds("started")]
    last_start = start_records[-1] if start_records else {}
    return Summary(
        run=run_id,
        created_at=stored_run.created_at,
        system=stored_run.config.get("system", ""),
        task=stored_run.config.get("folder", ""),
        llm=last_start.get("llm", "none"),
        sandbox=last_start.get("sandbox", ""),
        status=status,
        reason=reason,
        initial_score=initial_rows[0].score if initial_rows else None,
        best_score=best[0].score if best else None,
        best=best[0].id if best else None,
        totals=compute_totals(run_store, run_id),
    )


def find_end_record(run_store: store.Store, run_id: str) -> journal.Record | None:
    """Returns the record that tells how a run ended; None: none does.

    Raises:
        NotFound: There is no such run.
    """
    run_journal = run_store.journal(run_id)
    if "shared" in run_store.get_run(run_id).config:  # what another coordinator still wrote may stand behind the end
        return next(reversed(list(run_journal.read_kinds("ended"))), None)
    last_record = run_journal.read_last()
    return last_record if last_record is not None and last_record.kind in _END_KINDS else None


def _find_status(run_store: store.Store, run_id: str) -> tuple[Status, str]:
    if run_store.has_writer(run_id):
        commands = list[str]()
        for record in run_store.journal(run_id).read_kinds("started", "controlled"):  # a pause ends with the process that obeyed
            commands = [] if record.kind == "started" else [*commands, record.data["kind"]]
        pause_commands = [kind for kind in commands if kind in ("pause", "resume")]
        return "paused" if pause_commands[-1:] == ["pause"] else "running", ""
    end_record = find_end_record(run_store, run_id)
    if end_record is None:
        return "cut", ""
    reason = str(end_record.data["reason"])
    for status in ("interrupted", "stopped", "failed"):
        if reason.startswith(status):
            return status, reason
    return "done", reason
