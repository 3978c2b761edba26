"""Memory Manager: alert log, exploration log and meta notes; only what matters now is handed on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll.candidate import JSON
from atoll.survival.plan import Alert

MAX_ALERTS, MAX_LOG, MAX_NOTES = 64, 64, 24
FEW = 4


@dataclass(slots=True)
class Entry:
    """An alert with how often it came up, when last, and the worst of it."""

    alert: Alert
    count: int
    tick: int
    worst: float


class Memory:
    """Three logs, each bounded: the rarest and oldest goes when one is full.

    Alerts and the exploration log are of one life; meta notes, written at its end, go on to the next.
    """

    def __init__(self, notes: Sequence[str] = ()) -> None:
        self.alerts: dict[str, Entry] = {}
        self.log: list[str] = []
        self.notes: list[str] = list(notes)

    def alarm(self, alert: Alert, tick: int) -> None:
        known = self.alerts.get(alert.what)
        if known is not None:
            known.count, known.tick, known.worst = known.count + 1, tick, max(known.worst, alert.damage)
            return
        if len(self.alerts) >= MAX_ALERTS:
            weakest = min(self.alerts, key=lambda what: (self.alerts[what].count, self.alerts[what].tick))
            del self.alerts[weakest]
        self.alerts[alert.what] = Entry(alert, 1, tick, alert.damage)

    def explored(self, what: str) -> None:
        """Notes what was found; the same again is no news."""
        if what not in self.log:
            self.log = [*self.log, what][-MAX_LOG:]

    def note(self, text: str) -> None:
        """Writes a meta note, at the end of a life."""
        self.notes = [*self.notes, text][-MAX_NOTES:]

    def relevant(self, words: Sequence[str]) -> list[str]:
        """Returns the few entries that share most words with the moment; alerts first, then finds, then notes."""
        wanted = {word for each in words for word in each.split()}
        said = [
            f"alert: {entry.alert.what} ({entry.alert.cause}, {entry.worst:.2f}, {entry.count} times): "
            f"{entry.alert.remedy}"
            for entry in self.alerts.values()
        ]
        found: list[str] = []
        for lines in (said, self.log, self.notes):
            scored = [
                (len(wanted & set(line.replace(":", " ").split())), place, line) for place, line in enumerate(lines)
            ]
            found += [line for score, _, line in sorted(scored, reverse=True)[:FEW] if score]
        return found

    def patterns(self) -> list[tuple[str, int]]:
        """Returns what hurt most often: the commonest causes."""
        causes: Counter[str] = Counter()
        for entry in self.alerts.values():
            causes[entry.alert.cause] += entry.count
        return causes.most_common(5)

    def to_data(self) -> dict[str, JSON]:
        alerts: list[JSON] = [
            [each.alert.what, each.alert.cause, each.alert.condition, each.count, round(each.worst, 3)]
            for each in self.alerts.values()
        ]
        return {"alerts": alerts, "log": list(self.log), "notes": list(self.notes)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Memory":
        """Begins a life with what the last one left: its notes."""
        return cls(tuple(map(str, data.get("notes", ()))))
