"""Grow and refine: merging, retiring and archiving of bullets."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from atoll.playbook.bullet import MAX_COUNT, MAX_SOURCES, Bullet
from atoll.playbook.delta import Priority
from atoll.playbook.meaning import make_key
from atoll.playbook.playbook import Config, CountTokens, Playbook

MAX_NEIGHBORS = 12  # bullets that a text is compared with; BM25 ranks duplicates near the top
PRIORITY_VALUES: Mapping[Priority, float] = {"low": 0.0, "normal": 0.5, "high": 1.5}  # value of an unused bullet


class RetiredBullet(NamedTuple):
    """A retired bullet, with the turn and the reason."""

    bullet: Bullet
    turn: int
    reason: str


def is_protected(bullet: Bullet, turn: int, config: Config) -> bool:
    """Returns whether a bullet must stay: it is pinned, or new and not clearly harmful."""
    is_new = turn - bullet.created < config.protect_turns
    return bullet.is_pinned or (is_new and -bullet.net_helpful < 2 * config.harmful_margin)


def compute_value(bullet: Bullet, turn: int, config: Config) -> float:
    """Returns the value of a bullet: net helpfulness, plus up to 0.5 for recent use."""
    return bullet.net_helpful + 0.5 / (1.0 + max(0, turn - bullet.used) / config.stale_turns)


def merge_bullets(bullet: Bullet, other: Bullet, content: str = "") -> Bullet:
    """Returns the bullet with the counts and sources of the other added."""
    return replace(
        bullet,
        content=content or bullet.content,
        helpful=min(bullet.helpful + other.helpful, MAX_COUNT),
        harmful=min(bullet.harmful + other.harmful, MAX_COUNT),
        created=min(bullet.created, other.created),
        used=max(bullet.used, other.used),
        provenance=tuple(dict.fromkeys((*other.provenance, *bullet.provenance)))[-MAX_SOURCES:],
        is_pinned=bullet.is_pinned or other.is_pinned,
    )


def refine(playbook: Playbook, config: Config, count: CountTokens) -> tuple[Playbook, list[RetiredBullet]]:
    """Merges duplicates, retires harmful, stale and old bullets, and enforces the token limit."""
    retired: list[RetiredBullet] = []
    for stage in (_find_duplicates, _make_prune_stage(config), _make_archive_stage(config)):
        for removed, reason, target in stage(playbook):
            if removed.id not in playbook.bullets or (target is not None and target.id not in playbook.bullets):
                continue
            if target is not None:
                playbook = playbook.with_changed(
                    merge_bullets(playbook.bullets[target.id], playbook.bullets[removed.id])
                )
            retired.append(RetiredBullet(playbook.bullets[removed.id], playbook.turn, reason))
            playbook = playbook.without([removed.id])
    excess = playbook.count_tokens(count) - config.max_tokens
    trimmed, more_retired = make_room(playbook, config, count, excess, float("inf"))
    return trimmed, retired + more_retired


def make_room(
    playbook: Playbook, config: Config, count: CountTokens, tokens: int, max_value: float, keep_id: str = ""
) -> tuple[Playbook, list[RetiredBullet]]:
    """Retires the least valuable bullets below `max_value` until `tokens` are free; protected ones stay."""
    retired: list[RetiredBullet] = []
    if tokens <= 0:
        return playbook, retired
    turn = playbook.turn
    ranked = sorted(
        (compute_value(bullet, turn, config), bullet.created, bullet.id)
        for bullet in playbook.bullets.values()
        if bullet.id != keep_id and not is_protected(bullet, turn, config)
    )
    for value, _, id in ranked:
        if tokens <= 0 or value >= max_value:
            break
        bullet = playbook.bullets[id]
        tokens -= count(bullet.line)
        retired.append(RetiredBullet(bullet, turn, "the playbook is full and this bullet is worth least"))
    return playbook.without(item.bullet.id for item in retired), retired


type Removal = tuple[Bullet, str, Bullet | None]  # bullet, reason, bullet that it is merged into


def _find_duplicates(playbook: Playbook) -> Iterator[Removal]:
    """Yields bullets that repeat an earlier one in the same words."""
    by_key: dict[tuple[object, ...], Bullet] = {}
    for bullet in playbook.bullets.values():
        other = by_key.setdefault(make_key(bullet.content), bullet)
        if other is not bullet:
            yield bullet, f"same rule as {other.id}", other


def _make_prune_stage(config: Config) -> Callable[[Playbook], Iterator[Removal]]:
    def stage(playbook: Playbook) -> Iterator[Removal]:
        for bullet in playbook.bullets.values():
            if is_protected(bullet, playbook.turn, config):
                continue
            if -bullet.net_helpful >= config.harmful_margin:
                yield bullet, f"harmful {bullet.harmful} times, helpful {bullet.helpful} times", None
            elif bullet.net_helpful <= 0 and playbook.turn - bullet.used > config.stale_turns:
                yield bullet, f"unused for {playbook.turn - bullet.used} turns", None

    return stage


def _make_archive_stage(config: Config) -> Callable[[Playbook], Iterator[Removal]]:
    def stage(playbook: Playbook) -> Iterator[Removal]:
        for section, bullets in playbook.sections().items():
            headings: dict[str, list[Bullet]] = {}
            for bullet in sorted(bullets, key=lambda item: (item.created, item.id)):
                headings.setdefault(bullet.heading, []).append(bullet)
            for heading in list(headings)[: -config.max_sections]:
                group = headings[heading]
                if any(member.net_helpful > 0 or is_protected(member, playbook.turn, config) for member in group):
                    continue
                reason = f"heading {heading!r} of {section} is older than the newest {config.max_sections}"
                yield from ((member, reason, None) for member in group)

    return stage
