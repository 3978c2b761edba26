"""Search index of bullets: Okapi BM25 over word stems, updated bullet by bullet."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from atoll.playbook import terms as term_tools
from atoll.playbook.bullet import Bullet

K1, B = 1.2, 0.75  # as in Okapi BM25
COMMON_TERM_SHARE = 0.3  # of all bullets; a more common term is used only if the query has no rarer one
MAX_TERMS = 64  # of a query; further terms are ignored
MAX_QUERY_CHARS = 20_000  # longer queries are cut


class SearchHit(NamedTuple):
    id: str
    score: float


class BulletIndex:
    """Inverted index. A search reads only the bullets that share a term with the query.

    Not safe to share between threads.
    """

    def __init__(self, extract_terms: Callable[[str], Iterable[str]] = term_tools.extract_terms) -> None:
        self._extract_terms = extract_terms
        self._bullets: dict[str, Bullet] = {}
        self._term_counts: dict[str, Counter[str]] = {}
        self._lengths: dict[str, int] = {}
        self._postings: dict[str, dict[str, int]] = {}
        self._total_length = 0

    def __len__(self) -> int:
        return len(self._bullets)

    def sync(self, bullets: Mapping[str, Bullet]) -> None:
        """Adds new and changed bullets and removes bullets that are not in `bullets`."""
        indexed = self._bullets
        for id in [id for id in indexed if id not in bullets]:
            self._remove(id)
        for id, bullet in bullets.items():
            previous = indexed.get(id)
            if previous is bullet:
                continue
            if previous is None or previous.content != bullet.content:
                self._remove(id)
                self._add(id, bullet)
            indexed[id] = bullet

    def search(
        self, query: str, limit: int, get_weight: Callable[[Bullet], float] = lambda bullet: 1.0
    ) -> list[SearchHit]:
        """Returns the best matches, best first. Every match shares a term with the query.

        Args:
            query: Any text.
            limit: Maximum number of matches.
            get_weight: Factor for the score of a bullet.
        """
        if not self._bullets or limit <= 0:
            return []
        scores: dict[str, float] = {}
        mean_length = self._total_length / len(self._bullets) or 1.0
        terms = list(dict.fromkeys(self._extract_terms(query[:MAX_QUERY_CHARS])))[:MAX_TERMS]
        postings = sorted((posting for term in terms if (posting := self._postings.get(term))), key=len)
        for position, posting in enumerate(postings):
            if position and len(posting) > max(COMMON_TERM_SHARE * len(self._bullets), 3 * limit):
                break  # a term of most bullets does not distinguish them
            rarity = math.log1p((len(self._bullets) - len(posting) + 0.5) / (len(posting) + 0.5))
            for id, count in posting.items():
                weight = count * (K1 + 1) / (count + K1 * (1 - B + B * self._lengths[id] / mean_length))
                scores[id] = scores.get(id, 0.0) + rarity * weight
        weighted = ((score * get_weight(self._bullets[id]), id) for id, score in scores.items())
        best = heapq.nsmallest(limit, ((-score, id) for score, id in weighted if score > 0))
        return [SearchHit(id, -score) for score, id in best]

    def _add(self, id: str, bullet: Bullet) -> None:
        counts = Counter(self._extract_terms(f"{bullet.section} {bullet.content}"))
        self._term_counts[id] = counts
        self._lengths[id] = counts.total()
        self._total_length += self._lengths[id]
        for term, count in counts.items():
            self._postings.setdefault(term, {})[id] = count

    def _remove(self, id: str) -> None:
        self._bullets.pop(id, None)
        counts = self._term_counts.pop(id, Counter())
        self._total_length -= self._lengths.pop(id, 0)
        for term in counts:
            postings = self._postings[term]
            del postings[id]
            if not postings:
                del self._postings[term]
