"""What became of a run, read from the store alone."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from atoll import errors, evaluation, journal, store

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
        usage["iterations"] = usage["steps"]
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
        for record in run_store.journal(run_id).read_kinds(
            "started", "controlled"
        ):  # a pause ends with the process that obeyed
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


def find_result(run_store: store.Store, run_id: str) -> Mapping[str, Any]:
    """Returns the newest result of a run; empty where its system adds none, or it has not ended.

    Raises:
        NotFound: There is no such run.
    """
    result: Mapping[str, Any] = {}
    for record in run_store.journal(run_id).read_kinds("concluded"):
        result = record.data["result"]
    return result


def list_best_candidates(result: Mapping[str, Any]) -> list[str]:
    """Returns the ids of the best of each instance, where a run has searched for several things at once."""
    rows = result.get("instances", ())
    ids = [str(row["candidate"]) for row in rows if isinstance(row, Mapping) and row.get("candidate")]
    return ids if len(rows) > 1 else []


def format_result(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields a result as Markdown: texts and numbers by name, and a table for every list of rows."""
    for name, value in result.items():
        if isinstance(value, Mapping):
            yield f"{name}: {', '.join(f'{key} {_format_value(item)}' for key, item in value.items())}"
        elif not isinstance(value, Sequence) or isinstance(value, str):
            yield f"{name}: {_format_value(value)}"
    for name, rows in result.items():
        if isinstance(rows, Sequence) and not isinstance(rows, str) and rows:
            yield from ("", f"{name}:", "", f"| {' | '.join(rows[0])} |", f"|{'|'.join(' --- ' for _ in rows[0])}|")
            yield from (f"| {' | '.join(_format_value(cell) for cell in row.values())} |" for row in rows)


def _format_value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


LATEST = "latest"


def find_run(run_store: store.Store, name: str) -> str:
    """Returns the id of a run by its id, by the beginning or end of one, `latest`, or `latest~1` for the one before.

    Baselines are never the latest: that is the run that they belong to.

    Raises:
        NotFound: There is none, or several fit.
    """
    stored_runs = run_store.list_runs()
    ids = [run.id for run in stored_runs]
    if name in ids:
        return name
    if not ids:
        raise errors.NotFound(f"There is no run in {run_store.database.name} yet: start one with 'atoll run TASK'.")
    if match := re.fullmatch(rf"{LATEST}(?:~([0-9]{{1,9}}))?", name):
        offset, main_ids = int(match[1] or 0), [run.id for run in stored_runs if "baseline_of" not in run.config]
        if offset < len(main_ids):
            return main_ids[offset]
        raise errors.NotFound(f"There are only {len(main_ids)} runs in {run_store.database.name}, so none is {name}.")
    matches = [run_id for run_id in ids if name and (run_id.startswith(name) or run_id.endswith(name))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise errors.NotFound(
            f"{len(matches)} runs fit {name!r}, such as {matches[0]} and {matches[1]}: type more of it."
        )
    raise errors.NotFound(f"There is no run {name} in {run_store.database.name}: 'atoll list' shows those there are.")
