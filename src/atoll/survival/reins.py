"""What people outside want of a life under way: heard between turns, in force on the next one."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from atoll import system
from atoll.candidate import JSON, NOTHING
from atoll.survival.config import Detail, Notices
from atoll.survival.mind import Temper

NAP_SECONDS = 0.1  # between two looks at what is wished, while a life waits
SETTINGS = ("danger_threshold", "exploration_bonus", "log_detail", "notifications", "tick_delay")
DETAILS: tuple[str, ...] = get_args(Detail.__value__)
NOTICES: tuple[str, ...] = get_args(Notices.__value__)


@dataclass(frozen=True, slots=True)
class Telling:
    """How much of a turn is told, and of what a watcher is notified."""

    log_detail: str = "normal"
    notifications: str = "all"


class Ruled:
    """Settings that came from outside and make sense, over those that a run began with."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self._said = said

    def temper(self, temper: Temper) -> Temper:
        found = self._numbers({"danger_threshold": 1.0, "exploration_bonus": 10.0})
        threshold = found.get("danger_threshold", temper.danger_threshold)
        bonus = found.get("exploration_bonus", temper.exploration_bonus)
        return replace(temper, danger_threshold=threshold, exploration_bonus=bonus)

    def telling(self, telling: Telling) -> Telling:
        choices = {"log_detail": DETAILS, "notifications": NOTICES}
        known = {name: self._said[name] for name, each in choices.items() if self._said.get(name) in each}
        return replace(telling, **known)

    def delay(self, usual: float) -> float:
        return self._numbers({"tick_delay": 3600.0}).get("tick_delay", usual)

    def _numbers(self, most: Mapping[str, float]) -> dict[str, float]:
        """Returns the numbers among the settings that lie between 0 and the most they may be."""
        found = {name: self._said.get(name) for name in most}
        numbers = {name: float(each) for name, each in found.items() if isinstance(each, int | float)}
        return {name: each for name, each in numbers.items() if 0 <= each <= most[name]}


@dataclass(slots=True)
class Reins:
    """Holds a life to what is wished; without a way to people outside it costs nothing.

    Attributes:
        contact: The way to people outside, if there is one.
        delay: Seconds between turns, unless somebody sets another number.
        advice: What the kernel told this step: it counts until something newer is heard.
        sleep: Waits so many seconds.
    """

    contact: Callable[[], system.Contact | None] = lambda: None
    delay: float = 0.0
    advice: Mapping[str, JSON] = NOTHING
    sleep: Callable[[float], None] = field(default=time.sleep)

    def wishes(self) -> system.Wishes:
        """Returns what is wished at this moment."""
        there = self.contact()
        if there is None:
            return system.Wishes(self.advice)
        now = there.wishes()
        return now._replace(settings={**self.advice, **now.settings})

    def is_shown(self, wishes: system.Wishes) -> bool:
        """Says whether turns are shown while they are lived: somebody looks, or they are slow enough to be read."""
        return wishes.is_watched or Ruled(wishes.settings).delay(self.delay) > 0

    def wait(self) -> None:
        """Waits between two turns: as long as is set, and while the run is paused; a stop ends both."""
        waited = 0.0
        while not (now := self.wishes()).is_stopped:
            left = Ruled(now.settings).delay(self.delay) - waited
            if left <= 0 and not now.is_paused:
                return
            nap = NAP_SECONDS if now.is_paused else min(left, NAP_SECONDS)
            self.sleep(nap)
            waited += nap
