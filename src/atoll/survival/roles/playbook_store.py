"""Playbook Store: the playbook during an episode."""

from collections import Counter
from collections.abc import Sequence

from atoll import playbook

MAX_BULLETS = 8  # per topic


class EpisodePlaybook:
    """Holds the playbook of an episode. The kernel stores it as a version when the episode ends.

    Attributes:
        playbook: Current content.
        num_applied: Applied deltas that changed a text; tags do not count.
        counts: Number of deltas applied, held, rejected and retired.
    """

    def __init__(self, book: playbook.Playbook, curator: playbook.Curator) -> None:
        self.playbook, self._curator = book, curator
        self._index = playbook.BulletIndex()
        self._stats: dict[str, int] = {}
        self.counts = Counter[str]()

    @property
    def num_applied(self) -> int:
        return self.counts["applied"]

    def find_bullets(self, topic: str) -> Sequence[playbook.Bullet]:
        """Returns the few bullets that match a topic best."""
        self._index.sync(self.playbook.bullets)
        return [self.playbook.bullets[hit.id] for hit in self._index.search(topic, MAX_BULLETS)]

    def get_excerpts(self, query: str) -> Sequence[str]:
        """Returns the best matches as prompt lines, within the configured number and length."""
        limit, max_chars = self._curator.config.context_limit, self._curator.config.context_chars
        self._index.sync(self.playbook.bullets)
        hits = self._index.search(query, limit, lambda bullet: 1.0 + max(-0.9, 0.1 * bullet.net_helpful))
        return [f"[{hit.id}] {self.playbook.bullets[hit.id].content[:max_chars]}" for hit in hits]

    def apply(self, deltas: Sequence[playbook.Delta]) -> Sequence[playbook.Verdict]:
        if not deltas:
            return ()
        result = self._curator.curate(self.playbook, deltas)
        self.playbook, self._stats = result.playbook, {}
        for verdict in result.verdicts:
            is_change = verdict.reason != "neutral" and verdict.delta.kind != "tag"
            self.counts[verdict.outcome] += is_change or verdict.outcome != "applied"
        self.counts["retired"] += len(result.retired)
        return result.verdicts

    def stats(self) -> dict[str, int]:
        """Returns the size: files, sections, bullets, characters, tokens."""
        if not self._stats:
            stats = self.playbook.stats()
            names = ("files", "sections", "bullets", "characters", "tokens", "helpful", "harmful", "held")
            self._stats = {name: getattr(stats, name) for name in names}
        return self._stats
