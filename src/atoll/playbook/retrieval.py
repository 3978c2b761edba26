"""Retrieval of bullets: an index (Okapi BM25 over word stems), and excerpts of a playbook for a prompt."""

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from atoll.playbook import meaning as term_tools
from atoll.playbook.bullet import Bullet, format_bullet
from atoll.playbook.meaning import Meaning
from atoll.playbook.playbook import Config, Playbook

K1, B = 1.2, 0.75  # as in Okapi BM25
COMMON_TERM_SHARE = 0.3  # of all bullets; a more common term is used only if the query has no rarer one
REPEAT_SHARE = 0.3  # of each term after the rarest: several words of one phrase count less than one rare word
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
                share = REPEAT_SHARE if id in scores else 1.0  # the rarest term comes first
                scores[id] = scores.get(id, 0.0) + share * rarity * weight
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


MAX_SIMILAR = 20  # bullets that embeddings add to a search


class Excerpt(NamedTuple):
    """A bullet that matches a query, and its text cut to the requested length."""

    bullet: Bullet
    score: float
    text: str


def format_excerpts(excerpts: Sequence[Excerpt]) -> str:
    """Returns excerpts for a prompt: one line each, with id and counts."""
    return "\n".join(format_bullet(excerpt.bullet, len(excerpt.text)) for excerpt in excerpts)


def make_excerpts(
    playbook: Playbook, query: str, config: Config, meaning: Meaning, index: BulletIndex | None = None
) -> Sequence[Excerpt]:
    """Returns the bullets of a playbook that match a query, best first. Harmful bullets rank lower.

    Args:
        playbook: Any playbook.
        query: Any text.
        config: Number of bullets and their length.
        meaning: Its embeddings add bullets with other words.
        index: Index to reuse; None makes one.
    """
    index = index or BulletIndex()
    index.sync(playbook.bullets)
    hits = index.search(query, config.context_limit, compute_reliability)
    matches = [(playbook.bullets[hit.id], hit.score) for hit in hits]
    if meaning.embed is not None and len(playbook):
        matches = _add_similar(playbook, query, matches, meaning)[: config.context_limit]
    return [Excerpt(bullet, score, _truncate(bullet.content, config.context_chars)) for bullet, score in matches]


def _add_similar(
    playbook: Playbook, query: str, matches: list[tuple[Bullet, float]], meaning: Meaning
) -> list[tuple[Bullet, float]]:
    """Returns the matches ranked together with the bullets that embeddings place close to the query."""
    bullets = list(playbook.bullets.values())
    similarities = meaning.compare(query, [bullet.content for bullet in bullets])
    weighted = [
        (value * compute_reliability(bullet), bullet) for value, bullet in zip(similarities, bullets, strict=True)
    ]
    ranked = sorted(weighted, key=lambda item: -item[0])[: 2 * MAX_SIMILAR]
    scores: dict[str, float] = {}
    for order in ([bullet for bullet, _ in matches], [bullet for _, bullet in ranked]):
        for rank, bullet in enumerate(order):  # reciprocal rank fusion
            scores[bullet.id] = scores.get(bullet.id, 0.0) + 1.0 / (MAX_SIMILAR + rank)
    best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [(playbook.bullets[id], score) for id, score in best]


def compute_reliability(bullet: Bullet) -> float:
    """Returns the weight of a bullet: 1 if unused, up to 2 if helpful, down to 0 if harmful."""
    return 2.0 * (bullet.helpful + 1.0) / (bullet.helpful + bullet.harmful + 2.0)


def _truncate(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max(0, max_chars - 1)].rstrip()}…"
