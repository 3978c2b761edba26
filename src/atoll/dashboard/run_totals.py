"""Totals of a run, computed from its journal.

`advance` reads until its deadline and returns whether it reached the end, so no request waits for a long journal.
"""

import contextlib
import math
import time
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar

import msgspec

from atoll import evaluation, store
from atoll.dashboard import response_cache
from atoll.store.records import json_codec, queries

BATCH_RECORDS = 20_000  # records per batch: about 10 ms


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

    def advance(self, seconds: float) -> bool:
        """Reads for at most this many seconds; returns whether it reached the end."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self.end = self._queries.get_end()
            while self.seq < self.end:
                last = min(self.seq + BATCH_RECORDS, self.end)
                for row in self._queries.list_rows(self.kinds, self.seq + 1, last):
                    with contextlib.suppress(msgspec.ValidationError, TypeError):  # records of other systems may differ
                        self._add_record(*row)
                self.seq = last
                if time.monotonic() >= deadline:
                    break
            self._on_advanced()
        return self.is_counted

    @abstractmethod
    def _add_record(self, kind: str, step: int, island: int, text: str) -> None:
        """Adds one record to the totals."""

    def _on_advanced(self) -> None:  # noqa: B027 - optional
        """Called after each `advance`."""


class _AppliedRecord(msgspec.Struct):
    evaluations: int = 0
    failure: Any = None
    cost: list[int | float] = []


_applied_reader = json_codec.JSONReader(_AppliedRecord)


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
        self.first_observed: tuple[float, int] | None = None  # time and evaluations at the first observation

    def get_usage_at(self, step: int) -> tuple[int, float, int]:
        """Returns evaluations, dollars and tokens up to an iteration."""
        index = bisect_right(self._steps, step) - 1
        if index < 0:
            return min(1, self.evaluations), 0.0, 0
        return self._evaluations[index], self._usd[index], self._tokens[index]

    def compute_used_share(self) -> float | None:
        """Returns the used share of the limit that is nearest; None: no limit that can be counted."""
        cost = self.cost
        used = {"iterations": self.steps, "evaluations": self.evaluations, "calls": cost.calls, "usd": cost.usd}
        used["tokens"] = cost.tokens_in + cost.tokens_out
        shares = [used[name] / limit for name, limit in self.budget.items() if limit and name in used]
        return min(1.0, max(shares)) if shares else None

    def estimate_remaining_seconds(self) -> float | None:
        """Estimates the seconds until the budget is used at the observed pace; None: unknown."""
        share = self.compute_used_share()
        if self.first_observed is None or share is None or self.reason is not None:
            return None
        start_time, start_evaluations = self.first_observed
        new_evaluations, elapsed = self.evaluations - start_evaluations, time.monotonic() - start_time
        if new_evaluations <= 0 or elapsed <= 0 or self.evaluations <= 0:
            return None
        remaining = self.evaluations * (1 / share - 1) if share > 0 else math.inf
        seconds = remaining / (new_evaluations / elapsed)
        return seconds if math.isfinite(seconds) else None

    def _on_advanced(self) -> None:
        if self.first_observed is None and self.is_counted and self.reason is None:
            self.first_observed = time.monotonic(), self.evaluations

    def _add_record(self, kind: str, step: int, island: int, text: str) -> None:
        match kind:
            case "applied":
                self._add_applied(step, _applied_reader.read(text))
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

    def _add_applied(self, step: int, record: _AppliedRecord) -> None:
        self.reason = None
        self.steps = max(self.steps, step)
        self.evaluations += record.evaluations
        self.failures += record.failure is not None
        self.cost += evaluation.Cost(*record.cost)  # type: ignore[arg-type] # written by the run
        self._steps.append(step if not self._steps else max(step, self._steps[-1]))
        self._evaluations.append(self.evaluations)
        self._usd.append(self.cost.usd)
        self._tokens.append(self.cost.tokens_in + self.cost.tokens_out)

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
