"""Memory Manager: alert log, exploration log and notes. Playbook Store: the playbook during an episode."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import playbook
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


MAX_BULLETS = 8  # per topic


class EpisodePlaybook:
    """Holds the playbook of an episode. The kernel stores it as a version when the episode ends.

    Attributes:
        playbook: Current content.
        num_changed: Applied deltas that added, changed or removed a bullet. Tags and confirmations do not count.
        counts: Number of deltas applied (tags do not count), held and rejected, and of bullets retired.
    """

    def __init__(self, book: playbook.Playbook, curator: playbook.Curator) -> None:
        self.playbook, self._curator = book, curator
        self._index = playbook.BulletIndex()
        self._stats: dict[str, int] = {}
        self.counts = Counter[str]()
        self.num_changed = 0

    def find_bullets(self, topic: str) -> Sequence[playbook.Bullet]:
        """Returns the few bullets that match a topic best."""
        self._index.sync(self.playbook.bullets)
        return [self.playbook.bullets[hit.id] for hit in self._index.search(topic, MAX_BULLETS)]

    def get_excerpts(self, query: str) -> Sequence[str]:
        """Returns the best matches as prompt lines, within the configured number and length."""
        limit, max_chars = self._curator.config.context_limit, self._curator.config.context_chars
        self._index.sync(self.playbook.bullets)
        hits = self._index.search(query, limit, lambda bullet: 1.0 + max(-0.9, 0.1 * bullet.net_helpful))
        return [playbook.format_bullet(self.playbook.bullets[hit.id], max_chars) for hit in hits]

    def apply(self, deltas: Sequence[playbook.Delta]) -> Sequence[playbook.Verdict]:
        if not deltas:
            return ()
        result = self._curator.curate(self.playbook, deltas)
        known_ids = self.playbook.bullets.keys()
        self.playbook, self._stats = result.playbook, {}
        for verdict in result.verdicts:
            is_tag, is_applied = verdict.delta.kind == "tag", verdict.outcome == "applied"
            is_confirmation = verdict.delta.kind == "add" and not known_ids.isdisjoint(verdict.ids)
            self.counts[verdict.outcome] += not (is_tag and is_applied)
            self.num_changed += is_applied and not is_tag and not is_confirmation
        self.counts["retired"] += len(result.retired)
        return result.verdicts

    def stats(self) -> dict[str, int]:
        """Returns the size: files, sections, bullets, characters, tokens."""
        if not self._stats:
            stats = self.playbook.stats()
            names = ("files", "sections", "bullets", "characters", "tokens", "helpful", "harmful", "held")
            self._stats = {name: getattr(stats, name) for name in names}
        return self._stats
