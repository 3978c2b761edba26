"""What models were asked in a run and what that took, added up reply by reply and kept."""

from array import array
from bisect import bisect_right
from collections import Counter
from typing import Any

import msgspec

from atoll import evaluation, store
from atoll.dashboard.sums import Sums
from atoll.store import decoding

RECENT = 200  # latencies that are told one by one
LLM = "llm"  # what advice names a model by


class _Reply(msgspec.Struct):
    model: str | None = None
    usage: list[int | float] = []


class _Begun(msgspec.Struct):
    advice: dict[str, Any] = {}


class _Applied(msgspec.Struct):
    failure: str | None = None


_reply, _begun, _applied = decoding.Reader(_Reply), decoding.Reader(_Begun), decoding.Reader(_Applied)


class Model:
    """What one model was asked.

    Attributes:
        chosen: Steps that were advised to ask it.
        failures: Of those, steps that gave no child.
    """

    def __init__(self) -> None:
        self.calls = self.tokens_in = self.tokens_out = self.chosen = self.failures = 0
        self.usd = 0.0
        self.seconds = array("d")

    def quantiles(self, *shares: float) -> list[float | None]:
        """Returns within how many seconds so large a share of the calls were answered."""
        ordered = sorted(self.seconds)
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None for share in shares]


class Calls(Sums):
    """The calls of one run, as far as its journal was read."""

    kinds = ("replied", "begun", "applied")

    def __init__(self, kept: store.Store, run: str) -> None:
        super().__init__(kept, run)
        self.models: dict[str, Model] = {}
        self.failures = Counter[str]()
        self._steps, self._advised = array("q"), list[str]()
        self._open: dict[int, str] = {}

    def advised(self, step: int) -> str | None:
        """Returns the model that a step was advised to ask; None: it was not advised."""
        place = bisect_right(self._steps, step) - 1
        return self._advised[place] if place >= 0 and self._steps[place] == step else None

    def shares(self, newest: int = 200) -> dict[str, float]:
        """Returns the shares of the models in the newest steps that were advised."""
        recent = Counter(self._advised[-newest:])
        return {name: count / recent.total() for name, count in recent.items()}

    def _take(self, kind: str, step: int, island: int, text: str) -> None:
        if kind == "replied":
            reply = _reply.read(text)
            model = self._model(reply.model or "unnamed")
            took = evaluation.Cost(*reply.usage[:4])  # type: ignore[arg-type] # as the ledger wrote it
            model.calls += 1
            model.tokens_in, model.tokens_out = model.tokens_in + took.tokens_in, model.tokens_out + took.tokens_out
            model.usd += took.usd
            model.seconds.append(took.seconds)
        elif kind == "begun":
            if '"advice"' in text and isinstance(name := _begun.read(text).advice.get(LLM), str):
                self._model(name).chosen += 1
                self._steps.append(step)
                self._advised.append(name)
                self._open[step] = name
        else:
            self._end_step(step, text)

    def _end_step(self, step: int, text: str) -> None:
        name = self._open.pop(step, None)
        if '"failure"' not in text:
            return
        failure = _applied.read(text).failure
        if failure is not None:
            if len(self.failures) < 1000 or failure in self.failures:
                self.failures[failure[:300]] += 1
            if name is not None:
                self._model(name).failures += 1

    def _model(self, name: str) -> Model:
        return self.models.setdefault(name, Model())
