"""Excerpts of a playbook: the bullets that match a query, for a prompt."""

from collections.abc import Sequence
from typing import NamedTuple

from atoll.playbook.bm25_index import BulletIndex
from atoll.playbook.bullet import Bullet, format_bullet
from atoll.playbook.config import Config
from atoll.playbook.meaning import Meaning
from atoll.playbook.playbook import Playbook

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
