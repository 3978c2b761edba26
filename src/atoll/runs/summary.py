"""Status, totals, failures and result of a run, read from the store; and runs found by name."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeGuard

import msgspec

from atoll import errors, evaluation, journal, noise, store
from atoll.runs import text_format
from atoll.store.records import json_codec, queries

type Status = Literal["running", "paused", "done", "interrupted", "stopped", "failed", "crashed"]

LATEST = "latest"
EVALUATOR = "judge"  # source of the rejection of a candidate without a score, as journals have it

_CALLED = "called"  # evaluation of an instance, see programs/gepa/dataset_evaluator.py
_END_KINDS = (journal.ENDED, journal.CONCLUDED, journal.EXECUTED)  # last records of an ended run
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Totals:
    """Usage of a run.

    Attributes:
        steps: Iterations that were issued.
        evaluations: Evaluated candidates and trials, including the initial program.
        failures: Children without a score, and proposals without a child.
    """

    steps: int
    evaluations: int
    failures: int
    cost: evaluation.Cost


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in a few numbers.

    Attributes:
        status: `running` or `paused` while a process writes the run; `crashed` if that process died.
        reason: Why the run ended; empty if it has not.
        best: Id of the best candidate; None if no candidate has a score.
        call_yield: Candidates evaluated per LLM call; None if no call proposed anything.
        initial_error: Standard error of the initial score; None if it was evaluated once or does not vary.
        best_error: Standard error of the best score.
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
    call_yield: "CallYield | None" = None
    initial_error: float | None = None
    best_error: float | None = None

    @property
    def is_gain_within_noise(self) -> bool:
        """True if the best candidate may be no better than the initial one."""
        if self.initial_score is None or self.best_score is None:
            return False
        return noise.is_within_noise(self.best_score - self.initial_score, self.initial_error, self.best_error)

    @property
    def is_noisy(self) -> bool:
        """True if the initial or the best candidate had different scores in several evaluations."""
        return bool(self.initial_error or self.best_error)

    def to_data(self) -> dict[str, Any]:
        """Returns plain data, as `--json` prints it."""
        data = asdict(self)
        usage, call_yield = data.pop("totals"), self.call_yield
        data |= {"yield": call_yield and call_yield.ratio, "repairs": call_yield.repairs if call_yield else 0}
        del data["call_yield"]
        cost = usage.pop("cost")
        tokens = {"tokens_in": cost["tokens_in"], "tokens_out": cost["tokens_out"]}
        data["created_at"] = self.created_at.isoformat()
        usage["iterations"] = usage["steps"]
        return {**data, **usage, "calls": cost["calls"], "cost_usd": cost["usd"], **tokens}


def compute_totals(run_store: store.Store, run_id: str) -> Totals:
    """Adds up the usage of a run."""
    steps = evaluations = failures = 0
    cost = evaluation.ZERO_COST
    for record in run_store.journal(run_id).read_kinds(journal.INITIAL, journal.ISSUED, journal.APPLIED):
        steps = max(steps, record.step)
        if record.kind == journal.INITIAL:
            initial = evaluation.from_data(record.data["evaluation"])
            evaluations += 1 + initial.repeats
            cost += initial.cost
        elif record.kind == journal.APPLIED:
            evaluations += record.data["evaluations"]
            failures += "failure" in record.data
            cost += evaluation.Cost(*record.data["cost"]) if "cost" in record.data else evaluation.ZERO_COST
    return Totals(steps, evaluations, failures + run_store.candidates(run_id).count_failed(), cost)


def summarize(run_store: store.Store, run_id: str) -> Summary:
    """Summarizes a run."""
    stored_run, rows = run_store.get_run(run_id), run_store.candidates(run_id)
    status, reason = _find_status(run_store, stored_run)
    initial_rows, best = [row for row in (rows.find("0.0"),) if row], rows.list_best()
    start_records = [record.data for record in run_store.journal(run_id).read_kinds(journal.STARTED)]
    last_start = start_records[-1] if start_records else {}
    totals = compute_totals(run_store, run_id)
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
        totals=totals,
        call_yield=compute_yield(run_store, run_id) if totals.cost.calls else None,
        initial_error=noise.get_error(initial_rows[0].metrics) if initial_rows else None,
        best_error=noise.get_error(best[0].metrics) if best else None,
    )


@dataclass(frozen=True, slots=True)
class CallYield:
    """Candidates that the LLM calls of a run led to.

    Attributes:
        evaluated: Distinct candidates evaluated in iterations that called the LLM for a proposal.
        calls: Calls for proposals; without those of evaluators and gates.
        repairs: Candidates that took a second call to repair the first response.
    """

    evaluated: int
    calls: int
    repairs: int

    @property
    def ratio(self) -> float:
        return self.evaluated / self.calls

    def __str__(self) -> str:
        candidates = f"{self.evaluated:,} candidate{'' if self.evaluated == 1 else 's'}"
        calls = f"{self.calls:,} LLM call{'' if self.calls == 1 else 's'}"
        repairs = f", {self.repairs:,} after a repair" if self.repairs else ""
        return f"{self.ratio:.2f}: {candidates} evaluated from {calls}{repairs}"


class _YieldRecord(msgspec.Struct):
    """Fields of a response or an evaluation; a long content is stored elsewhere."""

    call: str = ""
    label: str = ""
    paid: bool = False
    content: str | None = None
    meta: dict[str, Any] = {}


_yield_reader = json_codec.JSONReader(_YieldRecord)
_YIELD_BATCH = 5000  # records read at a time
_LLM_MUTATORS = ("diff", "rewrite", "cross", "llm")  # a tuner evaluates their children as trials first
_CALL_FREE_MUTATORS = ("syntax", "refined", "tuner", "choices")  # one of them may stand in for the LLM


def compute_yield(run_store: store.Store, run_id: str) -> CallYield | None:
    """Counts the candidates that LLM calls led to; None if no call proposed anything.

    Children of mutators that make no calls and trials of the tuner do not count.
    """
    record_queries = queries.RecordQueries(run_store, run_id)
    calls, repairs, end = Counter[int](), 0, record_queries.get_end()
    contents = set[int]()
    for first in range(1, end + 1, _YIELD_BATCH):
        last = min(first + _YIELD_BATCH - 1, end)
        for record in reversed(record_queries.list_by_kind(("replied", "judged"), first, last, _YIELD_BATCH)):
            data = _yield_reader.read(record.data)
            if record.kind == "replied":
                calls[record.step] += "/" not in data.call  # otherwise an evaluator or a gate made it
                continue
            mutator = data.meta.get("engine")
            is_from_llm = mutator in _LLM_MUTATORS or "conversation" in data.meta
            is_trial = (data.label.startswith("d") and not is_from_llm) or "untuned_score" in data.meta
            if calls[record.step] and data.paid and not is_trial and mutator not in _CALL_FREE_MUTATORS:
                contents.add(hash(data.content or record.links))
                repairs += bool(data.meta.get("is_repaired"))
    return CallYield(len(contents), calls.total(), repairs) if calls.total() else None


def find_end_record(run_store: store.Store, run_id: str) -> journal.Record | None:
    """Returns the record that says how a run ended; None if it has not ended."""
    run_journal = run_store.journal(run_id)
    if "shared" in run_store.get_run(run_id).config:  # other coordinators may write after the end
        return next(reversed(list(run_journal.read_kinds(journal.ENDED))), None)
    last_record = run_journal.read_last()
    if last_record is not None and last_record.kind == _CALLED:  # evaluations on test data follow the end
        last_record = next(reversed(list(run_journal.read_kinds(journal.STARTED, journal.ENDED))), None)
    return last_record if last_record is not None and last_record.kind in _END_KINDS else None


def _find_status(run_store: store.Store, run: store.Run) -> tuple[Status, str]:
    run_id, is_shared = run.id, "shared" in run.config
    if run_store.get_writer_pid(run_id) is not None or (is_shared and run_store.list_coordinators(run_id)):
        commands = list[str]()
        for record in run_store.journal(run_id).read_kinds(
            journal.STARTED, journal.CONTROLLED
        ):  # each start ends a pause
            commands = [] if record.kind == journal.STARTED else [*commands, record.data["kind"]]
        pause_commands = [kind for kind in commands if kind in ("pause", "resume")]
        return "paused" if pause_commands[-1:] == ["pause"] else "running", ""
    end_record = find_end_record(run_store, run_id)
    if end_record is None:
        return "crashed", ""
    reason = str(end_record.data["reason"])
    for status in ("interrupted", "stopped", "failed"):
        if reason.startswith(status):
            return status, reason
    return "done", reason


def find_result(run_store: store.Store, run_id: str) -> Mapping[str, Any]:
    """Returns the latest result that the system wrote; empty if it writes none, or the run has not ended."""
    result: Mapping[str, Any] = {}
    for record in run_store.journal(run_id).read_kinds(journal.CONCLUDED):
        result = record.data["result"]
    return result


def list_best_candidates(result: Mapping[str, Any]) -> list[str]:
    """Returns the ids of the best candidate of each instance, if the run solved several instances."""
    rows = result.get("instances", ())
    ids = [str(row["candidate"]) for row in rows if isinstance(row, Mapping) and row.get("candidate")]
    return ids if len(rows) > 1 else []


def format_result(result: Mapping[str, Any]) -> Iterator[str]:
    """Yields a result as Markdown: values by name, then a table for every list of rows."""
    for name, value in result.items():
        if name == "predictions":  # for plots only
            continue
        if name == "gain" and isinstance(value, Sequence):
            mean, low, high = value
            yield f"gain: {mean:+.4g}, 95 % within {low:+.4g} to {high:+.4g}"
        elif isinstance(value, Mapping):
            yield f"{name}: {', '.join(f'{key} {_format_value(item)}' for key, item in value.items())}"
        elif not _is_table(value):
            yield f"{name}: {_format_value(value)}"
    for name, rows in result.items():
        if _is_table(rows) and rows:
            yield from ("", f"{name}:", "", f"| {' | '.join(rows[0])} |", f"|{'|'.join(' --- ' for _ in rows[0])}|")
            yield from (f"| {' | '.join(_format_value(cell) for cell in row.values())} |" for row in rows)


def _is_table(value: object) -> TypeGuard[Sequence[Mapping[str, Any]]]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return all(isinstance(row, Mapping) for row in value)


_LONG_NUMBER = re.compile(r"\b\d+\.\d{7,}(?:e[+-]?\d+)?")


def _format_value(value: object) -> str:
    """Formats a value; numbers in a text, such as a law, get six digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.6g}", str(value))


@dataclass(frozen=True, slots=True)
class FailureReason:
    """A reason for failures, how often it occurred, and which component reported it."""

    count: int
    source: str
    text: str


class FailureCounts(NamedTuple):
    """Reasons of failures and rejections, the most frequent first.

    Attributes:
        failures: Proposals without a child, and children without a score.
        rejections: Children that a gate rejected.
    """

    failures: Sequence[FailureReason]
    rejections: Sequence[FailureReason]


def count_failures(run_store: store.Store, run_id: str) -> FailureCounts:
    """Counts the failures and rejections of a run."""
    failures: list[tuple[str, str]] = []
    rejections: list[tuple[str, str]] = []
    for record in run_store.journal(run_id).read_kinds(journal.APPLIED):
        if "failure" in record.data:
            failures.append(("engine", record.data["failure"]))
        for verdict, reason, source, _ in (child["decision"] for child in record.data["children"]):
            if verdict == "reject":
                (failures if source == EVALUATOR else rejections).append((str(source), str(reason)))
    return FailureCounts(list(_group_reasons(failures)), list(_group_reasons(rejections)))


def make_failure_pattern(reason: str) -> tuple[str, str]:
    """Returns the first line of a reason, and the same with N for each number."""
    message = text_format.get_first_line(reason)
    return message, _NUMBER.sub("N", message)


def _group_reasons(reasons: Iterable[tuple[str, str]]) -> Iterator[FailureReason]:
    """Groups reasons that differ only in numbers. The text of such a group has N for each number."""
    groups: dict[tuple[str, str], Counter[str]] = {}
    for source, reason in reasons:
        message, pattern = make_failure_pattern(reason)
        groups.setdefault((source, pattern), Counter())[message] += 1
    for (source, pattern), texts in sorted(groups.items(), key=lambda group: (-group[1].total(), group[0])):
        yield FailureReason(texts.total(), source, next(iter(texts)) if len(texts) == 1 else pattern)


def find_run(run_store: store.Store, name: str) -> str:
    """Returns the id of the run with this id, with this beginning or end of an id, `latest`, or `latest~1` before it.

    `latest` ignores baselines.

    Raises:
        NotFound: No run or several runs match.
    """
    stored_runs = run_store.list_runs()
    ids = [run.id for run in stored_runs]
    if name in ids:
        return name
    if not ids:
        raise errors.NotFound(f"Store {run_store.database.name} has no runs. Start one with 'atoll run TASK'.")
    if match := re.fullmatch(rf"{LATEST}(?:~([0-9]{{1,9}}))?", name):
        offset, main_ids = int(match[1] or 0), [run.id for run in stored_runs if "baseline_of" not in run.config]
        if offset < len(main_ids):
            return main_ids[offset]
        raise errors.NotFound(f"Run {name} not found: {run_store.database.name} has only {len(main_ids)} runs.")
    matches = [run_id for run_id in ids if name and (run_id.startswith(name) or run_id.endswith(name))]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise errors.NotFound(
            f"{len(matches)} runs match {name!r}, e.g. {matches[0]} and {matches[1]}. Give more of the id."
        )
    raise errors.NotFound(f"Run {name} not found in {run_store.database.name}. 'atoll list' shows all runs.")
