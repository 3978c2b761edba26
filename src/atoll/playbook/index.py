"""Finds the bullets that a text is about: Okapi BM25 over stems, kept up to date bullet by bullet."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from atoll.playbook import wording
from atoll.playbook.bullet import Bullet

K1, B = 1.2, 0.75  # as in Okapi BM25
COMMON = 0.3  # of all bullets: a term of more of them is looked up only if no rarer one is known
MAX_TERMS = 64  # of a query; the rest of a long text is not looked up
MAX_QUERY = 20_000  # characters of a query that are read


class Hit(NamedTuple):
    id: str
    score: float


class Index:
    """Terms of bullets; a search touches only the bullets that share a term with the query.

    Not safe to share between threads.
    """

    def __init__(self, terms_of: Callable[[str], Iterable[str]] = wording.terms) -> None:
        self._terms_of = terms_of
        self._bullets: dict[str, Bullet] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._sizes: dict[str, int] = {}
        self._postings: dict[str, dict[str, int]] = {}
        self._length = 0

    def __len__(self) -> int:
        return len(self._bullets)

    def sync(self, bullets: Mapping[str, Bullet]) -> None:
        """Takes in what is new or says something else now, and drops what is gone."""
        known = self._bullets
        for id in [id for id in known if id not in bullets]:
            self._drop(id)
        for id, bullet in bullets.items():
            before = known.get(id)
            if before is bullet:
                continue
            if before is None or before.content != bullet.content:
                self._drop(id)
                self._take(id, bullet)
            known[id] = bullet

    def search(self, query: str, limit: int, weigh: Callable[[Bullet], float] = lambda bullet: 1.0) -> list[Hit]:
        """Returns the bullets that fit best, the best first; none that shares no term.

        Args:
            query: Any text.
            limit: So many at most.
            weigh: What a bullet's score is multiplied by.
        """
        if not self._bullets or limit <= 0:
            return []
        scores: dict[str, float] = {}
        mean = self._length / len(self._bullets) or 1.0
        terms = list(dict.fromkeys(self._terms_of(query[:MAX_QUERY])))[:MAX_TERMS]
        postings = sorted((found for term in terms if (found := self._postings.get(term))), key=len)
        for place, found in enumerate(postings):
            if place and len(found) > max(COMMON * len(self._bullets), 3 * limit):
                break  # what most bullets say tells none from the others
            rarity = math.log1p((len(self._bullets) - len(found) + 0.5) / (len(found) + 0.5))
            for id, count in found.items():
                gain = count * (K1 + 1) / (count + K1 * (1 - B + B * self._sizes[id] / mean))
                scores[id] = scores.get(id, 0.0) + rarity * gain
        weighed = ((score * weigh(self._bullets[id]), id) for id, score in scores.items())
        best = heapq.nsmallest(limit, ((-score, id) for score, id in weighed if score > 0))
        return [Hit(id, -score) for score, id in best]

    def _take(self, id: str, bullet: Bullet) -> None:
        counts = Counter(self._terms_of(f"{bullet.section} {bullet.content}"))
        self._counts[id] = counts
        self._sizes[id] = counts.total()
        self._length += self._sizes[id]
        for term, count in counts.items():
            self._postings.setdefault(term, {})[id] = count

    def _drop(self, id: str) -> None:
        self._bullets.pop(id, None)
        counts = self._counts.pop(id, Counter())
        self._length -= self._sizes.pop(id, 0)
        for term in counts:
            postings = self._postings[term]
            del postings[id]
            if not postings:
                del self._postings[term]
