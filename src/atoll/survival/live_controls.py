"""Live settings of a running episode. Users change them between turns."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from atoll import system
from atoll.candidate import EMPTY, JSON
from atoll.survival.agent_state import AgentSettings
from atoll.survival.config import LogDetail, NotificationLevel

POLL_SECONDS = 0.1  # polling interval during a pause or delay
SETTINGS = ("danger_threshold", "exploration_bonus", "log_detail", "notifications", "tick_delay")
DETAILS: tuple[str, ...] = get_args(LogDetail.__value__)
NOTICES: tuple[str, ...] = get_args(NotificationLevel.__value__)


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Detail of published turns, and notifications to viewers."""

    log_detail: str = "normal"
    notifications: str = "all"


class CheckedSettings:
    """Valid live settings, applied over the settings of the run. Invalid values are ignored."""

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
        """Returns the numeric settings between 0 and their maximum."""
        raw_values = {name: self._values.get(name) for name in maximums}
        numbers = {name: float(value) for name, value in raw_values.items() if isinstance(value, int | float)}
        return {name: value for name, value in numbers.items() if 0 <= value <= maximums[name]}


@dataclass(slots=True)
class LiveControls:
    """Reads live settings and waits between turns. Costs nothing without a live channel.

    Attributes:
        get_channel: Returns the live channel, or None.
        delay: Default seconds between turns.
        advice: Settings from the kernel for this iteration; the channel overrides them.
        sleep: Waits for some seconds.
    """

    get_channel: Callable[[], system.LiveChannel | None] = lambda: None
    delay: float = 0.0
    advice: Mapping[str, JSON] = EMPTY
    sleep: Callable[[float], None] = field(default=time.sleep)

    def read_settings(self) -> system.LiveSettings:
        channel = self.get_channel()
        if channel is None:
            return system.LiveSettings(self.advice)
        current = channel.get_settings()
        return current._replace(settings={**self.advice, **current.settings})

    def is_shown(self, settings: system.LiveSettings) -> bool:
        """Returns whether to publish turns live: a viewer watches, or turns are slow enough to read."""
        return settings.is_watched or CheckedSettings(settings.settings).get_delay(self.delay) > 0

    def wait(self) -> None:
        """Waits for the tick delay and during a pause. A stop ends both."""
        waited = 0.0
        while not (current := self.read_settings()).is_stopped:
            remaining = CheckedSettings(current.settings).get_delay(self.delay) - waited
            if remaining <= 0 and not current.is_paused:
                return
            pause = POLL_SECONDS if current.is_paused else min(remaining, POLL_SECONDS)
            self.sleep(pause)
            waited += pause
