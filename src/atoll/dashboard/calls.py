"""What models were asked in a run and what that took, added up reply by reply and kept."""

from array import array
from bisect import bisect_right
from collections import Counter
from typing import Any

import msgspec

from atoll import evaluation, store
from atoll.dashboard.sums import JournalTotals
from atoll.store import decoding

NUM_RECENT = 200  # latencies that are told one by one
ADVICE_KEY = "llm"  # what advice names a model by


class _ResponseRecord(msgspec.Struct):
    model: str | None = None
    usage: list[int | float] = []


class _IssuedRecord(msgspec.Struct):
    advice: dict[str, Any] = {}


class _AppliedRecord(msgspec.Struct):
    failure: str | None = None


_response_reader, _issued_reader, _applied_reader = decoding.JSONReader(_ResponseRecord), decoding.JSONReader(_IssuedRecord), decoding.JSONReader(_AppliedRecord)


class LLMStats:
    """What one model was asked.

    Attributes:
        chosen: Steps that were advised to ask it.
        failures: Of those, steps that gave no child.
    """

    def __init__(self) -> None:
        self.calls = self.tokens_in = self.tokens_out = self.chosen = self.failures = 0
        self.usd = 0.0
        self.seconds = array("d")

    def compute_quantiles(self, *shares: float) -> list[float | None]:
        """Returns within how many seconds so large a share of the calls were answered."""
        ordered = sorted(self.seconds)
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None for share in shares]


class LLMTotals(JournalTotals):
    """The calls of one run, as far as its journal was read."""

    kinds = ("replied", "begun", "applied")

    def __init__(self, run_store: store.Store, run: str) -> None:
        super().__init__(run_store, run)
        self.models: dict[str, LLMStats] = {}
        self.failures = Counter[str]()
        self._steps, self._advised_names = array("q"), list[str]()
        self._open_iterations: dict[int, str] = {}

    def get_advised(self, step: int) -> str | None:
        """Returns the model that a step was advised to ask; None: it was not advised."""
        index = bisect_right(self._steps, step) - 1
        return self._advised_names[index] if index >= 0 and self._steps[index] == step else None

    def compute_shares(self, num_newest: int = 200) -> dict[str, float]:
        """Returns the shares of the models in the newest steps that were advised."""
        recent = Counter(self._advised_names[-num_newest:])
        return {name: count / recent.total() for name, count in recent.items()}

    def _add_record(self, kind: str, step: int, island: int, text: str) -> None:
        if kind == "replied":
            response = _response_reader.read(text)
            stats = self._get_stats(response.model or "unnamed")
            cost = evaluation.Cost(*response.usage[:4])  # type: ignore[arg-type] # as the ledger wrote it
            stats.calls += 1
            stats.tokens_in, stats.tokens_out = stats.tokens_in + cost.tokens_in, stats.tokens_out + cost.tokens_out
            stats.usd += cost.usd
            stats.seconds.append(cost.seconds)
        elif kind == "begun":
            if '"advice"' in text and isinstance(name := _issued_reader.read(text).advice.get(ADVICE_KEY), str):
                self._get_stats(name).chosen += 1
                self._steps.append(step)
                self._advised_names.append(name)
                self._open_iterations[step] = name
        else:
            self._end_iteration(step, text)

    def _end_iteration(self, step: int, text: str) -> None:
        name = self._open_iterations.pop(step, None)
        if '"failure"' not in text:
            return
        failure = _applied_reader.read(text).failure
        if failure is not None:
            if len(self.failures) < 1000 or failure in self.failures:
                self.failures[failure[:300]] += 1
            if name is not None:
                self._get_stats(name).failures += 1

    def _get_stats(self, name: str) -> LLMStats:
        return self.models.setdefault(name, LLMStats())
