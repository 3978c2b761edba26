"""What people outside want of a life under way: heard between turns, in force on the next one."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from atoll import system
from atoll.candidate import EMPTY, JSON
from atoll.survival.agent_state import AgentSettings
from atoll.survival.config import LogDetail, NotificationLevel

POLL_SECONDS = 0.1  # between two looks at what is wished, while a life waits
SETTINGS = ("danger_threshold", "exploration_bonus", "log_detail", "notifications", "tick_delay")
DETAILS: tuple[str, ...] = get_args(LogDetail.__value__)
NOTICES: tuple[str, ...] = get_args(NotificationLevel.__value__)


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """How much of a turn is told, and of what a watcher is notified."""

    log_detail: str = "normal"
    notifications: str = "all"


class CheckedSettings:
    """Settings that came from outside and make sense, over those that a run began with."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def apply_to_agent(self, settings: AgentSettings) -> AgentSettings:
        numbers = self._get_numbers({"danger_threshold": 1.0, "exploration_bonus": 10.0})
        threshold = numbers.get("danger_threshold", settings.danger_threshold)
        bonus = numbers.get("exploration_bonus", settings.exploration_bonus)
        return replace(settings, danger_threshold=threshold, exploration_bonus=bonus)

    def apply_to_notifications(self, settings: NotificationSettings) -> NotificationSettings:
        choices = {"log_detail": DETAILS, "notifications": NOTICES}
        valid = {name: self._values[name] for name, allowed in choices.items() if self._values.get(name) in allowed}
        return replace(settings, **valid)

    def get_delay(self, default: float) -> float:
        return self._get_numbers({"tick_delay": 3600.0}).get("tick_delay", default)

    def _get_numbers(self, maximums: Mapping[str, float]) -> dict[str, float]:
        """Returns the numbers among the settings that lie between 0 and the most they may be."""
        raw_values = {name: self._values.get(name) for name in maximums}
        numbers = {name: float(value) for name, value in raw_values.items() if isinstance(value, int | float)}
        return {name: value for name, value in numbers.items() if 0 <= value <= maximums[name]}


@dataclass(slots=True)
class LiveControls:
    """Holds a life to what is wished; without a way to people outside it costs nothing.

    Attributes:
        contact: The way to people outside, if there is one.
        delay: Seconds between turns, unless somebody sets another number.
        advice: What the kernel told this step: it counts until something newer is heard.
        sleep: Waits so many seconds.
    """

    get_channel: Callable[[], system.LiveChannel | None] = lambda: None
    delay: float = 0.0
    advice: Mapping[str, JSON] = EMPTY
    sleep: Callable[[float], None] = field(default=time.sleep)

    def read_settings(self) -> system.LiveSettings:
        """Returns what is wished at this moment."""
        channel = self.get_channel()
        if channel is None:
            return system.LiveSettings(self.advice)
        current = channel.get_settings()
        return current._replace(settings={**self.advice, **current.settings})

    def is_shown(self, settings: system.LiveSettings) -> bool:
        """Says whether turns are shown while they are lived: somebody looks, or they are slow enough to be read."""
        return settings.is_watched or CheckedSettings(settings.settings).get_delay(self.delay) > 0

    def wait(self) -> None:
        """Waits between two turns: as long as is set, and while the run is paused; a stop ends both."""
        waited = 0.0
        while not (current := self.read_settings()).is_stopped:
            remaining = CheckedSettings(current.settings).get_delay(self.delay) - waited
            if remaining <= 0 and not current.is_paused:
                return
            pause = POLL_SECONDS if current.is_paused else min(remaining, POLL_SECONDS)
            self.sleep(pause)
            waited += pause
