"""Playbook Store: the playbook during an episode."""

from collections import Counter
from collections.abc import Sequence

from atoll import playbook

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
