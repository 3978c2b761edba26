"""Totals of a run, computed from its journal.

`advance` reads until its deadline and returns whether it reached the end, so no request waits for a long journal.
"""

import contextlib
import itertools
import math
import time
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar, NamedTuple

import msgspec

from atoll import evaluation, store
from atoll.dashboard import response_cache
from atoll.runs import summary
from atoll.store.candidate_queries import CandidateQueries, ImprovementRow
from atoll.store.records import json_codec, queries

BATCH_RECORDS = 20_000  # records per batch: about 20 ms
FIRST_RECORDS = 2000  # records of the first batch, which contains the setup and the budget
LOCK_SECONDS = 0.05  # to wait while another thread reads a batch

type RecordRow = tuple[str, int, int, str, float | None]  # kind, iteration, island, data, time


class JournalTotals(ABC):
    """Totals over the records read so far.

    Attributes:
        kinds: Kinds of the records to read.
        seq: Sequence number of the last record read.
        end: Sequence number of the last record in the journal when `advance` was last called.
    """

    kinds: ClassVar[Sequence[str]]

    def __init__(self, run_store: store.Store, run: str) -> None:
        self._queries, self._lock = queries.RecordQueries(run_store, run), Lock()
        self.seq = self.end = 0

    @property
    def is_counted(self) -> bool:
        """True if the totals cover the journal up to `end`."""
        return self.seq >= self.end

    def advance(self, seconds: float, max_unread: float = math.inf) -> bool:
        """Reads at least one batch, and for at most this many seconds; returns whether it reached the end.

        It reads nothing if other threads read the same journal all the time.

        Args:
            seconds: Time limit.
            max_unread: Read only the first batch if more records than this follow it.
        """
        deadline = time.monotonic() + seconds
        self.end = max(self.end, self._queries.get_end())
        if (self.seq and self.end - self.seq > max_unread) or not self._lock.acquire(
            timeout=max(seconds, LOCK_SECONDS)
        ):
            return self.is_counted
        try:
            while self.seq < self.end:
                size = BATCH_RECORDS if self.seq else min(BATCH_RECORDS, FIRST_RECORDS)
                last = min(self.seq + size, self.end)
                self._add_rows(self._queries.list_rows(self.kinds, self.seq + 1, last))
                self.seq = last
                if time.monotonic() >= deadline or self.end - self.seq > max_unread:
                    break
            self._on_advanced()
        finally:
            self._lock.release()
        return self.is_counted

    def _add_rows(self, rows: Iterable[RecordRow]) -> None:
        """Adds records in order; skips malformed ones, since other systems may write others."""
        for row in rows:
            with contextlib.suppress(msgspec.ValidationError, TypeError):
                self._add_record(*row)

    @abstractmethod
    def _add_record(self, kind: str, step: int, island: int, text: str, at: float | None) -> None:
        """Adds one record to the totals."""

    def _on_advanced(self) -> None:  # noqa: B027 - optional
        """Called after each `advance`."""


class _Child(msgspec.Struct):
    id: str = ""
    decision: list[Any] = []


class _AppliedRecord(msgspec.Struct):
    evaluations: int = 0
    failure: Any = None
    cost: list[int | float] = []
    children: list[_Child] = []


_applied_reader = json_codec.JSONReader(_AppliedRecord)
_batch_decoder = msgspec.json.Decoder(list[_AppliedRecord])


def _read_applied(texts: Sequence[str]) -> Iterator[_AppliedRecord | None]:
    """Decodes records at once, which is twice as fast; a malformed one gives None."""
    try:
        yield from _batch_decoder.decode(f"[{','.join(texts)}]")
        return
    except msgspec.DecodeError:
        pass
    for text in texts:
        try:
            yield _applied_reader.read(text)
        except (msgspec.ValidationError, TypeError):
            yield None


class UsageAt(NamedTuple):
    """Usage of a run up to an iteration.

    Attributes:
        seconds: Elapsed time while the run was running; None: the records have no times.
    """

    evaluations: int
    cost_usd: float
    tokens: int
    calls: int
    seconds: float | None


class FailureGroup(NamedTuple):
    """Failures with the same reason.

    Attributes:
        source: `proposal` without a child, `evaluation` without a score, or `gate` that rejected it.
        text: Reason, with N for numbers that differ.
        examples: Ids of the newest candidates; for proposals, iterations.
    """

    num_failures: int
    source: str
    text: str
    examples: Sequence[str]


MAX_REASONS = 300  # distinct; the rest is counted as other reasons
NUM_EXAMPLES = 5
MAX_OPEN_ITERATIONS = 1000  # iterations before the newest one that may still be open
OTHER_REASONS = "other reasons"


class _Failures:
    """Counts failures by reason."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], tuple[Counter[str], deque[str]]] = {}

    def add(self, source: str, reason: object, example: str) -> None:
        message, pattern = summary.make_failure_pattern(str(reason)[:2000])
        key = (source, pattern[:300])
        if key not in self._groups and len(self._groups) >= MAX_REASONS:
            key, message = (source, OTHER_REASONS), OTHER_REASONS
        texts, examples = self._groups.setdefault(key, (Counter(), deque(maxlen=NUM_EXAMPLES)))
        texts[message[:300] if len(texts) < 2 or message[:300] in texts else pattern] += 1
        examples.append(example)

    def list_groups(self) -> list[FailureGroup]:
        """Returns the groups, the most frequent first."""
        groups = [
            FailureGroup(texts.total(), source, next(iter(texts)) if len(texts) == 1 else pattern, list(examples)[::-1])
            for (source, pattern), (texts, examples) in self._groups.items()
        ]
        return sorted(groups, key=lambda group: (-group.num_failures, group.source, group.text))


class RunTotals(JournalTotals):
    """Usage and state of a run.

    Attributes:
        evaluations: Number of evaluations, including trials and the initial candidate.
        failures: Iterations without a child.
        budget: Current limits.
        settings: Settings changed during the run, by name.
        sessions: Number of starts.
        reason: Why the run ended; None: it has not ended.
        is_paused: Whether the run is paused.
        last_command: Number of the last command that the run obeyed.
        result: Result of the system; may be empty.
    """

    kinds = ("applied", "founded", "started", "controlled", "ended", "concluded")

    def __init__(self, run_store: store.Store, run: str) -> None:
        super().__init__(run_store, run)
        self.run = run
        self._run_store, self._candidate_queries = run_store, CandidateQueries(run_store, run)
        self._end_reason: tuple[int, str | None] = (-1, None)  # with `end` at that time
        self._improvements: Sequence[ImprovementRow] = ()
        self._improvements_lock, self._improvements_step = Lock(), -1
        self.steps = self.evaluations = self.failures = self.sessions = 0
        self.cost = evaluation.ZERO_COST
        self.budget: dict[str, float | None] = {}
        self.settings: dict[str, Any] = {}
        self.setup: Mapping[str, Any] = {}
        self.started: Mapping[str, Any] = {}
        self.reason: str | None = None
        self.result: Mapping[str, Any] = {}
        self.is_paused, self.last_command = False, 0
        self._steps, self._evaluations = array("q"), array("q")
        self._usd, self._tokens = array("d"), array("q")
        self._calls, self._seconds = array("q"), array("d")
        self._failures = _Failures()
        self.started_at: float | None = None  # time of the newest start
        self.first_started_at: float | None = None
        self.last_at: float | None = None  # time of the newest of these records
        self._evaluations_before = 0  # evaluations of earlier sessions
        self._earlier_seconds = 0.0  # of sessions before the newest one
        self.first_observed: tuple[float, int] | None = None  # time and evaluations at the first observation

    def get_usage_at(self, step: int) -> UsageAt:
        """Returns the usage up to an iteration."""
        index = bisect_right(self._steps, step) - 1
        if index < 0:
            return UsageAt(min(1, self.evaluations), 0.0, 0, 0, None if self.first_started_at is None else 0.0)
        seconds = self._seconds[index]
        columns = (self._evaluations[index], self._usd[index], self._tokens[index], self._calls[index])
        return UsageAt(*columns, None if math.isnan(seconds) else seconds)

    def list_improvements(self) -> Sequence[ImprovementRow]:
        """Returns the new best candidates in order; reads only the newest iterations again."""
        with self._improvements_lock:
            last_step = self._candidate_queries.get_last_step()
            after = max(-1, self._improvements_step - MAX_OPEN_ITERATIONS)
            known = [row for row in self._improvements if row.step <= after]
            newest = self._candidate_queries.list_improvements(after, known[-1].score if known else None)
            self._improvements, self._improvements_step = [*known, *newest], last_step
            return self._improvements

    def find_end_reason(self) -> str | None:
        """Returns why the run ended, also before the journal is counted; None: it has not ended."""
        if self._end_reason[0] != self.end:
            record = summary.find_end_record(self._run_store, self.run)
            self._end_reason = self.end, None if record is None else str(record.data.get("reason", ""))
        return self._end_reason[1]

    def count_failed_evaluations(self) -> int:
        """Returns the number of children whose evaluation failed."""
        return sum(group.num_failures for group in self.list_failures() if group.source == "evaluation")

    def list_failures(self) -> list[FailureGroup]:
        """Returns the failures by reason, the most frequent first."""
        with self._lock:
            return self._failures.list_groups()

    def compute_elapsed(self, now: float | None = None) -> float | None:
        """Returns the seconds in which the run was running; None: its records have no times.

        Args:
            now: Current time of a running run; None: until its newest record.
        """
        if self.started_at is None or self.last_at is None:
            return None
        end = self.last_at if now is None else max(now, self.last_at)
        return self._earlier_seconds + end - self.started_at

    def compute_used_share(self) -> float | None:
        """Returns the used share of the limit that is nearest; None: no limit that can be counted."""
        cost = self.cost
        used = {"iterations": self.steps, "evaluations": self.evaluations, "calls": cost.calls, "usd": cost.usd}
        used["tokens"] = cost.tokens_in + cost.tokens_out
        shares = [used[name] / limit for name, limit in self.budget.items() if limit and name in used]
        return min(1.0, max(shares)) if shares else None

    def estimate_remaining_seconds(self) -> float | None:
        """Estimates the seconds until the first limit is reached, at the observed pace; None: unknown."""
        if self.reason is not None:
            return None
        estimates = [seconds for seconds in (self._estimate_by_pace(), self._get_seconds_left()) if seconds is not None]
        return min(estimates, default=None)

    def _get_seconds_left(self) -> float | None:
        """Returns the rest of the time limit, which counts from the newest start."""
        limit = self.budget.get("seconds")
        if limit is None:
            return None
        if self.started_at is not None:
            return max(0.0, limit - (time.time() - self.started_at))
        return None if self.first_observed is None else limit  # the start is unknown: at most this

    def _estimate_by_pace(self) -> float | None:
        share = self.compute_used_share()
        if self.first_observed is None or share is None:
            return None
        start_time, start_evaluations = self.first_observed
        new_evaluations, elapsed = self.evaluations - start_evaluations, time.monotonic() - start_time
        if self.started_at is not None:  # the pace since the start is steadier than the pace since the first look
            new_evaluations = self.evaluations - self._evaluations_before
            elapsed = time.time() - self.started_at
        if new_evaluations <= 0 or elapsed <= 0 or self.evaluations <= 0:
            return None
        remaining = self.evaluations * (1 / share - 1) if share > 0 else math.inf
        seconds = remaining / (new_evaluations / elapsed)
        return seconds if math.isfinite(seconds) else None

    def _on_advanced(self) -> None:
        if self.first_observed is None and self.is_counted and self.reason is None:
            self.first_observed = time.monotonic(), self.evaluations

    def _add_rows(self, rows: Iterable[RecordRow]) -> None:
        for is_applied, group in itertools.groupby(rows, key=lambda row: row[0] == "applied"):
            if is_applied:
                self._add_applied_rows(list(group))
            else:
                super()._add_rows(group)

    def _add_record(self, kind: str, step: int, island: int, text: str, at: float | None) -> None:
        if kind == "started":
            self._start_session(at)
        if at is not None and kind != "concluded":  # baselines of `atoll.evolve` come before it, and are not its time
            self.last_at = at
        match kind:
            case "founded":
                data = json_codec.dict_reader.read(text)
                self.evaluations += 1 + (data.get("evaluation") or {}).get("repeats", 0)
                self.setup = data.get("setup", {})
                self.cost += evaluation.Cost(*(data.get("evaluation") or {}).get("cost", ()))
            case "started":
                data = json_codec.dict_reader.read(text)
                self.sessions, self.started, self.reason, self.is_paused = self.sessions + 1, data, None, False
                self.budget = dict(data.get("budget") or {})
            case "controlled":
                self._apply_command(json_codec.dict_reader.read(text))
            case _:  # ended or concluded
                data = json_codec.dict_reader.read(text)
                self.reason, self.result = str(data.get("reason", "")), data.get("result") or {}

    def _add_applied_rows(self, rows: Sequence[RecordRow]) -> None:
        cost: list[Any] = list(self.cost.to_data())
        last_step = self._steps[-1] if self._steps else 0
        for (_, step, _, _, at), record in zip(rows, _read_applied([row[3] for row in rows]), strict=True):
            if at is not None:
                self.last_at = at
            if record is None:
                continue
            self.evaluations += record.evaluations
            for index, value in enumerate(record.cost[:5]):
                cost[index] += value
            elapsed = self.compute_elapsed()
            self._evaluations.append(self.evaluations)
            self._usd.append(cost[3])
            self._tokens.append(cost[1] + cost[2])
            self._calls.append(cost[4])
            self._seconds.append(math.nan if elapsed is None else elapsed)
            last_step = max(step, last_step)
            self._steps.append(last_step)  # last, since `get_usage_at` may run in another thread
            if record.failure is not None:
                self.failures += 1
                self._failures.add("proposal", record.failure, str(step))
            for child in record.children:
                if len(child.decision) > 2 and child.decision[0] == "reject":
                    source = "evaluation" if child.decision[2] == summary.EVALUATOR else "gate"
                    self._failures.add(source, child.decision[1], child.id)
        self.reason, self.steps, self.cost = None, max(self.steps, last_step), evaluation.Cost(*cost)

    def _start_session(self, at: float | None) -> None:
        if self.started_at is not None and self.last_at is not None:
            self._earlier_seconds += self.last_at - self.started_at
        self.started_at, self._evaluations_before = at, self.evaluations
        if self.first_started_at is None:
            self.first_started_at = at

    def _apply_command(self, data: Mapping[str, Any]) -> None:
        self.last_command = max(self.last_command, int(data.get("number", 0)))
        if "refused" in data:
            return
        match data.get("kind"):
            case "pause" | "resume":
                self.is_paused = data["kind"] == "pause"
            case "set":
                self.settings |= data["data"]
            case "raise":
                for name, limit in data["data"].items():
                    current_limit = self.budget.get(name)
                    self.budget[name] = None if current_limit is None else max(current_limit, limit)


class RunTotalsCache(response_cache.PerRunCache[RunTotals]):
    """Totals of all runs of a store."""

    def __init__(self, run_store: store.Store) -> None:
        super().__init__(run_store, RunTotals)
