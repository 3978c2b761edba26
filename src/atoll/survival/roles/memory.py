"""Memory Manager: alert log, exploration log and notes. Prompts get only the relevant entries."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll.candidate import JSON
from atoll.survival.plan import Alert

MAX_ALERTS, MAX_DISCOVERIES, MAX_NOTES = 64, 64, 24
MAX_RELEVANT = 4


@dataclass(slots=True)
class AlertEntry:
    """Alert with its count, last tick and worst damage."""

    alert: Alert
    count: int
    tick: int
    worst: float


class Memory:
    """Three bounded logs. A full log drops its rarest or oldest entry.

    Alerts and discoveries last one episode. Notes, written at its end, pass to the next episode.
    """

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self.alerts: dict[str, AlertEntry] = {}
        self.discoveries: list[str] = []
        self.notes: list[str] = list(notes)

    def add_alert(self, alert: Alert, tick: int) -> None:
        entry = self.alerts.get(alert.what)
        if entry is not None:
            entry.count, entry.tick, entry.worst = entry.count + 1, tick, max(entry.worst, alert.damage)
            return
        if len(self.alerts) >= MAX_ALERTS:
            weakest = min(self.alerts, key=lambda key: (self.alerts[key].count, self.alerts[key].tick))
            del self.alerts[weakest]
        self.alerts[alert.what] = AlertEntry(alert, 1, tick, alert.damage)

    def add_discovery(self, discovery: str) -> None:
        if discovery not in self.discoveries:
            self.discoveries = [*self.discoveries, discovery][-MAX_DISCOVERIES:]

    def add_note(self, text: str) -> None:
        self.notes = [*self.notes, text][-MAX_NOTES:]

    def find_relevant(self, words: Sequence[str]) -> list[str]:
        """Returns the few entries that share the most words with the situation: alerts, discoveries, then notes."""
        query_words = {word for phrase in words for word in phrase.split()}
        alert_lines = [
            f"alert: {entry.alert.what} ({entry.alert.cause}, {entry.worst:.2f}, {entry.count} times): "
            f"{entry.alert.remedy}"
            for entry in self.alerts.values()
        ]
        result: list[str] = []
        for lines in (alert_lines, self.discoveries, self.notes):
            counts = [len(query_words & set(line.replace(":", " ").split())) for line in lines]
            ranked = sorted(zip(counts, range(len(lines)), lines, strict=True), reverse=True)
            result += [line for count, _, line in ranked[:MAX_RELEVANT] if count]
        return result

    def get_common_causes(self) -> list[tuple[str, int]]:
        causes: Counter[str] = Counter()
        for entry in self.alerts.values():
            causes[entry.alert.cause] += entry.count
        return causes.most_common(5)

    def to_data(self) -> dict[str, JSON]:
        alerts: list[JSON] = [
            [entry.alert.what, entry.alert.cause, entry.alert.condition, entry.count, round(entry.worst, 3)]
            for entry in self.alerts.values()
        ]
        return {"alerts": alerts, "log": list(self.discoveries), "notes": list(self.notes)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Memory":
        """Creates the memory of a new episode with the notes of the last one."""
        return cls(tuple(map(str, data.get("notes", ()))))
