"""Fear: each turn the agent states the chance of damage within a few ticks, and is held to it."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from atoll.candidate import JSON
from atoll.survival.worlds.world import Observation

FEATURES = ("bias", "path", "hunters", "hunger", "starving", "dark", "dusk", "hurt", "standing", "unknown")
# Where somebody begins who has lived through nothing: what looks dangerous probably is.
START = (-2.5, 4.0, 1.5, 1.5, 2.5, 1.5, 0.8, 0.8, 1.0, 0.5)
RATE, DECAY = 0.15, 0.0005
WINDOW, TOO_LOW, PUSH = 60, 0.12, 0.25  # damage came so much more often than was said: say more
LEAST_DAMAGE = 0.004


class Said(NamedTuple):
    """A forecast and what became of it."""

    forecast: float
    happened: bool


@dataclass(slots=True)
class _Open:
    tick: int
    features: tuple[float, ...]
    forecast: float


@dataclass(slots=True)
class Forecaster:
    """A logistic model of "damage within `horizon` ticks", learning from every forecast that it made.

    It corrects itself when danger is under-estimated: where damage came clearly more often than it said over the last
    forecasts, everything it says is raised, at once and for all features.

    Attributes:
        corrections: How often that happened in this life.
        firsts: Looks that were entered for the first time, and those of them that hurt; the prior of the unknown.
    """

    horizon: int = 5
    weights: list[float] = field(default_factory=lambda: list(START))
    firsts: list[float] = field(default_factory=lambda: [3.0, 1.0])
    corrections: int = 0
    said: list[Said] = field(default_factory=list)
    _open: deque[_Open] = field(default_factory=deque)
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _steps: int = 0

    @property
    def prior(self) -> float:
        """The chance that something unknown hurts."""
        return self.firsts[1] / self.firsts[0]

    def forecast(self, features: Sequence[float]) -> float:
        total = sum(weight * each for weight, each in zip(self.weights, features, strict=True))
        return 1.0 / (1.0 + math.exp(-max(-12.0, min(12.0, total))))

    def state(self, tick: int, features: Sequence[float]) -> float:
        """Makes a forecast that counts."""
        found = self.forecast(features)
        self._open.append(_Open(tick, tuple(features), found))
        return found

    def settle(self, seen: Observation) -> None:
        """Closes the forecasts whose time has come, or whose damage has."""
        is_hurt = sum(seen.harm.values()) >= LEAST_DAMAGE or not seen.is_alive
        if is_hurt:
            while self._open:
                self._close(self._open.popleft(), True)
        while self._open and seen.tick - self._open[0].tick >= self.horizon:
            self._close(self._open.popleft(), False)

    def meet(self, is_hurt: bool) -> None:
        """Takes in that something was entered for the first time."""
        self.firsts[0] += 1
        self.firsts[1] += is_hurt
        if self.firsts[0] > 60:  # the world may change: the old counts fade
            self.firsts = [each / 2 for each in self.firsts]

    def _close(self, made: _Open, happened: bool) -> None:
        self.said.append(Said(made.forecast, happened))
        error = happened - self.forecast(made.features)
        self._steps += 1
        rate = RATE / math.sqrt(1.0 + self._steps / 100)
        self.weights = [
            weight + rate * error * each - DECAY * rate * (weight - start)
            for weight, each, start in zip(self.weights, made.features, START, strict=True)
        ]
        self._recent.append(happened - made.forecast)
        if len(self._recent) == WINDOW and sum(self._recent) / WINDOW > TOO_LOW:
            self.weights[0] += PUSH
            self.corrections += 1
            self._recent.clear()

    def to_data(self) -> dict[str, JSON]:
        weights, firsts = ([round(each, 5) for each in values] for values in (self.weights, self.firsts))
        return {"weights": weights, "firsts": firsts, "steps": self._steps}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], horizon: int) -> "Forecaster":
        made = cls(horizon)
        if len(data.get("weights", ())) == len(START):
            made.weights, made.firsts, made._steps = list(data["weights"]), list(data["firsts"]), int(data["steps"])
        return made
