"""Grow and refine: what a playbook lets go of, and in which order."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from atoll.playbook.bullet import MAX_COUNT, MAX_SOURCES, Bullet
from atoll.playbook.config import Config
from atoll.playbook.delta import Priority
from atoll.playbook.meaning import read
from atoll.playbook.playbook import CountTokens, Playbook
from atoll.playbook.relation import relate

NEIGHBOURS = 12  # that a text is compared with; BM25 puts whatever repeats it among the first
WORTH: Mapping[Priority, float] = {"low": 0.0, "normal": 0.5, "high": 1.5}  # of something that nobody has used yet


class Retired(NamedTuple):
    """A bullet that went, when and why."""

    bullet: Bullet
    turn: int
    reason: str


def is_protected(bullet: Bullet, turn: int, config: Config) -> bool:
    """Tells whether a bullet may not be retired: it is pinned, or new and not plainly harmful."""
    is_new = turn - bullet.created < config.protect_turns
    return bullet.is_pinned or (is_new and -bullet.net < 2 * config.harmful_margin)


def worth(bullet: Bullet, turn: int, config: Config) -> float:
    """Returns what a bullet is worth keeping for: what it did, and a little for having been used of late."""
    return bullet.net + 0.5 / (1.0 + max(0, turn - bullet.used) / config.stale_turns)


def joined(bullet: Bullet, other: Bullet, content: str = "") -> Bullet:
    """Returns a bullet that has taken in another."""
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


def refine(playbook: Playbook, config: Config, count: CountTokens) -> tuple[Playbook, list[Retired]]:
    """Merges what says the same, retires what is harmful, stale or old, and holds the budget."""
    retired: list[Retired] = []
    for stage in (_unite, _weed(config), _archive(config)):
        for gone, reason, heir in stage(playbook):
            if gone.id not in playbook.bullets or (heir is not None and heir.id not in playbook.bullets):
                continue
            if heir is not None:
                playbook = playbook.with_changed(joined(playbook.bullets[heir.id], playbook.bullets[gone.id]))
            retired.append(Retired(playbook.bullets[gone.id], playbook.turn, reason))
            playbook = playbook.without([gone.id])
    excess = playbook.num_tokens(count) - config.max_tokens
    room, more = make_room(playbook, config, count, excess, float("inf"))
    return room, retired + more


def make_room(
    playbook: Playbook, config: Config, count: CountTokens, tokens: int, bar: float, spared: str = ""
) -> tuple[Playbook, list[Retired]]:
    """Retires what is worth least, and less than `bar`, until so many tokens are free; what is protected stays."""
    retired: list[Retired] = []
    if tokens <= 0:
        return playbook, retired
    turn = playbook.turn
    ranked = sorted(
        (worth(each, turn, config), each.created, each.id)
        for each in playbook.bullets.values()
        if each.id != spared and not is_protected(each, turn, config)
    )
    for value, _, id in ranked:
        if tokens <= 0 or value >= bar:
            break
        bullet = playbook.bullets[id]
        tokens -= count(bullet.line)
        retired.append(Retired(bullet, turn, "the playbook is full and this is worth least"))
    return playbook.without(each.bullet.id for each in retired), retired


type Going = tuple[Bullet, str, Bullet | None]  # a bullet, why it goes, and who takes it in


def _unite(playbook: Playbook) -> Iterator[Going]:
    """Names bullets that say what an earlier one says; only what has the same concepts can."""
    alike: dict[frozenset[tuple[str, int]], list[Bullet]] = {}
    for bullet in playbook.bullets.values():
        keys = {frozenset(meaning.bag.items()) for meaning in read(bullet.content)}
        others = {other.id: other for key in keys for other in alike.get(key, ())}
        for other in others.values():
            if relate(other.content, bullet.content) in ("same", "duplicate"):
                yield bullet, f"it says what {other.id} says", other
                break
        else:
            for key in keys:
                alike.setdefault(key, []).append(bullet)


def _weed(config: Config) -> Callable[[Playbook], Iterator[Going]]:
    def stage(playbook: Playbook) -> Iterator[Going]:
        for bullet in playbook.bullets.values():
            if is_protected(bullet, playbook.turn, config):
                continue
            if -bullet.net >= config.harmful_margin:
                yield bullet, f"it did harm {bullet.harmful} times and helped {bullet.helpful} times", None
            elif bullet.net <= 0 and playbook.turn - bullet.used > config.stale_turns:
                yield bullet, f"nobody has used it for {playbook.turn - bullet.used} turns", None

    return stage


def _archive(config: Config) -> Callable[[Playbook], Iterator[Going]]:
    def stage(playbook: Playbook) -> Iterator[Going]:
        for section, bullets in playbook.sections().items():
            headings: dict[str, list[Bullet]] = {}
            for bullet in sorted(bullets, key=lambda each: (each.created, each.id)):
                headings.setdefault(bullet.heading, []).append(bullet)
            for heading in list(headings)[: -config.max_sections]:
                kept = headings[heading]
                if any(each.net > 0 or is_protected(each, playbook.turn, config) for each in kept):
                    continue
                why = f"the section {heading!r} of {section} is older than the newest {config.max_sections}"
                yield from ((each, why, None) for each in kept)

    return stage
