"""Profiler that counts all events and records the improvements of a run."""

import logging
from collections import Counter
from threading import Lock
from typing import Any, NamedTuple

from atoll import function, profiler

log = logging.getLogger(__name__)


class Improvement(NamedTuple):
    """Function that was better than all before it.

    Attributes:
        evaluations: Number of evaluations until then.
    """

    score: float
    source: str
    evaluations: int


class Profiler:
    """Collects the events of a run from all its threads. Pass it as `profiler_fn`.

    Its properties return copies, so you may read them during the run.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._improvements: list[Improvement] = []
        self._failures = 0
        self._setup: dict[str, Any] = {}

    def __call__(self, event: profiler.Event) -> None:
        with self._lock:
            self._counts[event.type] += 1
            match event.type, event.payload:
                case "on_evaluated", (_, None):
                    self._failures += 1
                case "on_best_fn_improved", fn:
                    self._record_improvement(fn)
                case "on_started", setup:
                    self._setup = dict(setup)
        log.debug("%s", event.type)

    def _record_improvement(self, fn: function.Function) -> None:
        score = function.get_fitness(fn)
        if not self._improvements or score > self._improvements[-1].score:
            self._improvements.append(Improvement(score, str(fn.skeleton()), self._counts["on_evaluated"]))
            log.info("%s after %d evaluations", score, self._counts["on_evaluated"])

    @property
    def counts(self) -> dict[str, int]:
        """Number of events of each type."""
        with self._lock:
            return dict(self._counts)

    @property
    def failures(self) -> int:
        """Number of functions without a score."""
        with self._lock:
            return self._failures

    @property
    def history(self) -> list[Improvement]:
        """Every function that was better than all before it, the best last."""
        with self._lock:
            return list(self._improvements)

    @property
    def setup(self) -> dict[str, Any]:
        """Report of the run at its start; empty before the start."""
        with self._lock:
            return dict(self._setup)
