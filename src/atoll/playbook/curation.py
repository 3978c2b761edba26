"""Curation of the deltas of one turn, in order. Each delta sees the effect of the deltas before it."""

import re
from collections.abc import Sequence
from dataclasses import replace

from atoll.playbook import bullet, meaning
from atoll.playbook.bullet import MAX_COUNT, MAX_SOURCES, Bullet, make_id, make_slug, to_one_line
from atoll.playbook.delta import KINDS, PRIORITIES, TAGS, Delta, Verdict
from atoll.playbook.meaning import Meaning, Relation, find_numbers, keeps_details
from atoll.playbook.playbook import Config, CountTokens, HeldEntry, Playbook, compile_phrases
from atoll.playbook.refinement import (
    MAX_NEIGHBORS,
    PRIORITY_VALUES,
    RetiredBullet,
    is_protected,
    make_room,
    merge_bullets,
)
from atoll.playbook.retrieval import BulletIndex

MAX_COMPARED = 120  # bullets that a comparer compares with a new rule
_RELATED: tuple[Relation, ...] = ("same", "duplicate", "contradiction")
MAX_NOTE_CHARS = 2_000  # longer evidence, headings and sources are cut before they are read
MAX_IDS = 1_000
_MARKUP = re.compile(r"<\|[^|>]{0,40}\|>|</?(?:system|assistant|user|instructions?)\s*>", re.IGNORECASE)


class DeltaSchema:
    """Checks the form of deltas: kind, ids, size, characters, forbidden phrases."""

    def __init__(self, config: Config) -> None:
        self._config, self._forbidden = config, compile_phrases(config.forbidden)

    def find_problem(self, delta: Delta, playbook: Playbook) -> str:
        """Describes the first problem of a delta; empty if it is valid."""
        if delta.kind not in KINDS:
            return f"unknown kind {delta.kind!r:.40}; use one of {', '.join(KINDS)}"
        if delta.priority not in PRIORITIES:
            return f"unknown priority {delta.priority!r:.40}; use one of {', '.join(PRIORITIES)}"
        if delta.kind == "tag" and delta.tag not in TAGS:
            return f"unknown tag {delta.tag!r:.40}; use one of {', '.join(TAGS)}"
        return self._find_target_problem(delta, playbook) or self._find_content_problem(delta)

    def _find_target_problem(self, delta: Delta, playbook: Playbook) -> str:
        if delta.kind == "add":
            return "" if bullet.make_slug(delta.section) else "it has no section"
        min_ids = 2 if delta.kind == "merge" else 1
        if len(delta.ids) > MAX_IDS:
            return f"it names {len(delta.ids):,} bullets; the limit is {MAX_IDS:,}"
        if len(set(delta.ids)) < min_ids:
            return f"a {delta.kind} must name {'at least two bullets' if min_ids > 1 else 'a bullet'}"
        if delta.kind in ("tag", "update") and len(delta.ids) > 1:
            return f"a {delta.kind} must name only one bullet"
        unknown = [id for id in delta.ids if id not in playbook.bullets]
        return f"bullet {unknown[0]!r:.60} not found" if unknown else ""

    def _find_content_problem(self, delta: Delta) -> str:
        if delta.kind in ("tag", "remove") or (delta.kind == "merge" and not delta.content):
            return ""
        return self.find_text_problem(delta.content)

    def find_text_problem(self, content: str) -> str:
        """Describes the first problem of a bullet's text; empty if it is valid."""
        if len(content) > self._config.max_chars:
            return f"it is {len(content):,} characters long; the limit is {self._config.max_chars:,}"
        if not meaning.normalize_words(content):
            return "it has no words"
        if problem := bullet.find_bad_character(bullet.to_one_line(content)):
            return problem
        if markup := _MARKUP.search(content):
            return f"{markup[0]!r} is LLM markup"
        forbidden = self._forbidden and self._forbidden.search(meaning.normalize_words(bullet.to_one_line(content)))
        return f"{forbidden[0]!r} is forbidden" if forbidden else ""


def tidy(text: str, max_chars: int) -> str:
    """Returns evidence, a heading or a source on one line, cut, without disallowed characters."""
    if len(text) <= max_chars and text.isascii() and text.isprintable():
        return " ".join(text.split())
    allowed = "".join(char for char in text[:MAX_NOTE_CHARS] if not bullet.find_bad_character(char) or char in "\n\r\t")
    return bullet.to_one_line(allowed)[:max_chars].rstrip()


MAX_SOURCE_CHARS = 80  # characters of a source in a bullet's provenance
MAX_STORED_CHARS, MAX_STORED_IDS = 500, 20  # limits for deltas that are held or rejected


class CurationPass:
    """Decides on the deltas of one turn.

    Attributes:
        playbook: The playbook after the deltas so far.
        retired: Bullets retired so far.
    """

    def __init__(
        self,
        playbook: Playbook,
        config: Config,
        count_tokens: CountTokens,
        schema: DeltaSchema,
        index: BulletIndex,
        meaning: Meaning,
    ) -> None:
        self.playbook, self._meaning = playbook, meaning
        self.retired: list[RetiredBullet] = []
        self._config, self._count_tokens, self._schema, self._index = config, count_tokens, schema, index
        self._num_changes = 0
        self._max_removals = max(1, len(playbook) // 2)

    def decide(self, delta: Delta) -> Verdict:
        if problem := self._schema.find_problem(delta, self.playbook):
            return Verdict(_truncate_delta(delta), "rejected", problem)
        evidence, source = tidy(delta.evidence, MAX_STORED_CHARS), tidy(delta.source, MAX_STORED_CHARS)
        delta = replace(delta, evidence=evidence, source=source, heading=tidy(delta.heading, MAX_STORED_CHARS))
        if delta.kind != "tag":
            self._num_changes += 1
            if self._num_changes > self._config.max_deltas:
                return self._reject(delta, f"a turn may make at most {self._config.max_deltas} changes")
        match delta.kind:
            case "tag":
                return self._tag(delta)
            case "add":
                return self._add(delta)
            case "update":
                return self._update(delta)
            case "merge":
                return self._merge(delta)
            case "remove":
                return self._remove(delta)

    def _tag(self, delta: Delta) -> Verdict:
        bullet = self.playbook.bullets[delta.ids[0]]
        helpful = min(bullet.helpful + (delta.tag == "helpful"), MAX_COUNT)
        harmful = min(bullet.harmful + (delta.tag == "harmful"), MAX_COUNT)
        self._replace_bullet(replace(bullet, helpful=helpful, harmful=harmful, used=self.playbook.turn))
        if self._is_harmful(self.playbook.bullets[bullet.id]):
            self._retire(bullet.id, f"harmful {harmful} times, helpful {helpful} times")
            return Verdict(delta, "applied", f"{delta.tag}; retired because it did more harm than good", (bullet.id,))
        return Verdict(delta, "applied", delta.tag, (bullet.id,))

    def _add(self, delta: Delta) -> Verdict:
        content, section = to_one_line(delta.content), make_slug(delta.section)
        relation, other = self._find_related(content)
        if other is not None and relation in ("same", "duplicate"):
            source = (_describe_source(delta, self.playbook.turn),)
            confirmation = Bullet(other.id, other.section, content, used=self.playbook.turn, provenance=source)
            self._replace_bullet(replace(merge_bullets(other, confirmation), created=other.created))
            return Verdict(delta, "applied", f"confirms {other.id}, which is the same rule", (other.id,))
        replaced = None
        if other is not None and relation == "contradiction":
            if not (other.net_helpful < 0 or self._is_confirmed(delta)):
                return self._hold(delta, f"it contradicts {other.id}: {other.content}", (other.id,))
            replaced = other
            self._retire(other.id, f"contradicted by: {content}")
        turn = self.playbook.turn
        heading = tidy(delta.heading, 80) or self._make_heading(turn)
        bullet = Bullet("", section, content, 0, 0, turn, turn, heading, (_describe_source(delta, turn),))
        if not self._make_room_for(bullet, delta):
            return self._hold(delta, "the playbook is full and its bullets are worth more")
        self._drop_held(delta)
        self.playbook = self.playbook.with_added(bullet)
        id = make_id(section, self.playbook.serial)
        return Verdict(delta, "applied", f"replaces {replaced.id}" if replaced else "new", (id,))

    def _update(self, delta: Delta) -> Verdict:
        bullet, content = self.playbook.bullets[delta.ids[0]], to_one_line(delta.content)
        if content == bullet.content:
            return self._reject(delta, "it does not change the text", delta.ids)
        relation, other = self._find_related(content, excluded_id=bullet.id)
        if other is not None and relation in ("same", "duplicate"):
            return self._reject(delta, f"{other.id} is the same rule; merge them instead", (other.id,))
        if other is not None and relation == "contradiction" and not self._is_confirmed(delta):
            return self._hold(delta, f"it contradicts {other.id}: {other.content}", (other.id,))
        has_new_numbers = find_numbers(bullet.content) != find_numbers(content)
        has_new_meaning = has_new_numbers or self._meaning.relate(bullet.content, content) == "contradiction"
        if (has_new_meaning or bullet.net_helpful > 0 or bullet.is_pinned) and not delta.evidence.strip():
            return self._hold(delta, f"changing {bullet.id} needs evidence", (bullet.id,))
        # The counts belong to the old text. A text with another meaning starts from zero.
        base = replace(bullet, helpful=0, harmful=0, created=self.playbook.turn) if has_new_meaning else bullet
        sources = (*bullet.provenance, _describe_source(delta, self.playbook.turn))[-MAX_SOURCES:]
        updated = replace(base, content=content, used=self.playbook.turn, provenance=sources)
        if not self._make_room_for(updated, delta, replaced=bullet):
            return self._hold(delta, "the playbook is full and its bullets are worth more", (bullet.id,))
        self._drop_held(delta)
        self._replace_bullet(updated)
        return Verdict(delta, "applied", "new meaning; counters reset" if has_new_meaning else "reworded", (bullet.id,))

    def _merge(self, delta: Delta) -> Verdict:
        first, *others = (self.playbook.bullets[id] for id in dict.fromkeys(delta.ids))
        content = to_one_line(delta.content) or first.content
        for other in (first, *others):
            relation = self._meaning.relate(other.content, content)
            if relation == "contradiction" or not keeps_details(content, other.content):
                return self._reject(delta, f"the merge would change {other.id}: {other.content}", (other.id,))
            is_known = relation != "different" or self._meaning.is_related(other.content, content)
            if not is_known and not self._is_confirmed(delta):
                return self._hold(delta, f"{other.id} may have another meaning", (other.id,))
        merged = replace(first, content=content)
        for other in others:
            merged = merge_bullets(merged, other)
        if not self._make_room_for(merged, delta, replaced=first):
            return self._hold(delta, "the playbook is full and its bullets are worth more", delta.ids)
        self._drop_held(delta)
        self._replace_bullet(replace(merged, used=self.playbook.turn))
        for other in others:
            self._retire(other.id, f"merged into {first.id}")
        return Verdict(delta, "applied", f"{first.id} includes {', '.join(bullet.id for bullet in others)}", delta.ids)

    def _remove(self, delta: Delta) -> Verdict:
        ids = tuple(dict.fromkeys(delta.ids))
        if len(ids) > self._max_removals:
            return self._reject(delta, f"a turn may remove at most {self._max_removals} bullets, not {len(ids)}")
        proven = [self.playbook.bullets[id] for id in ids if self._is_proven(self.playbook.bullets[id])]
        if any(bullet.is_pinned for bullet in proven):
            return self._reject(delta, f"{proven[0].id} is pinned", (proven[0].id,))
        if proven and not self._is_confirmed(delta):
            return self._hold(delta, f"{proven[0].id} was helpful {proven[0].helpful} times", (proven[0].id,))
        self._max_removals -= len(ids)
        self._drop_held(delta)
        for id in ids:
            self._retire(id, tidy(delta.evidence, 200) or "removed")
        return Verdict(delta, "applied", "removed", ids)

    def _find_related(self, content: str, excluded_id: str = "") -> tuple[Relation, Bullet | None]:
        """Returns a bullet with the same meaning, else one that contradicts the content, else None."""
        neighbors = [bullet for bullet in self._find_neighbors(content) if bullet.id != excluded_id]
        relations = self._meaning.relate_all(content, [bullet.content for bullet in neighbors])
        related: dict[Relation, Bullet] = {}
        for relation, neighbor in zip(relations, neighbors, strict=True):
            related.setdefault(relation, neighbor)
        for relation in _RELATED:
            if relation in related:
                return relation, related[relation]
        return "different", None

    def _find_neighbors(self, content: str) -> Sequence[Bullet]:
        """Returns the bullets to compare a text with: those that share words or are close in meaning.

        A comparer also sees the newest bullets, since other words may have the same meaning.
        """
        self._index.sync(self.playbook.bullets)
        ids = [hit.id for hit in self._index.search(content, MAX_NEIGHBORS)]
        bullets = self.playbook.bullets
        if self._meaning.embed is not None:
            similarities = self._meaning.compare(content, [bullet.content for bullet in bullets.values()])
            ranked = sorted(zip(similarities, bullets, strict=True), reverse=True)[:MAX_NEIGHBORS]
            ids += [id for similarity, id in ranked if similarity > 0]
        if self._meaning.comparer is not None:
            ids += [*reversed(list(bullets))]
            ids = list(dict.fromkeys(ids))[:MAX_COMPARED]
        return [bullets[id] for id in dict.fromkeys(ids)]

    def _make_room_for(self, bullet: Bullet, delta: Delta, replaced: Bullet | None = None) -> bool:
        """Retires bullets until the new one fits; returns whether it fits."""
        line = replace(bullet, id=make_id(bullet.section, 0)).line
        needed_tokens = self._count_tokens(line) + self._count_tokens(f"## {bullet.section}\n")
        needed_tokens -= self._count_tokens(replaced.line) if replaced else 0
        excess = self.playbook.count_tokens(self._count_tokens) + needed_tokens - self._config.max_tokens
        if excess <= 0:
            return True
        keep_id = replaced.id if replaced else ""
        max_value = PRIORITY_VALUES[delta.priority] if replaced is None else max(bullet.net_helpful, 0) + 1.0
        trimmed, retired = make_room(self.playbook, self._config, self._count_tokens, excess, max_value, keep_id)
        if excess > sum(self._count_tokens(item.bullet.line) for item in retired):
            return False
        self.playbook = trimmed
        self.retired += retired
        return True

    def _hold(self, delta: Delta, reason: str, ids: tuple[str, ...] = ()) -> Verdict:
        held, turn = list(self.playbook.held), self.playbook.turn
        previous = next((entry for entry in held if _is_same_delta(entry.delta, delta)), None)
        if previous is not None:
            held.remove(previous)
        times = 1 if previous is None else previous.times + (previous.turn < turn)
        self.playbook = self.playbook.with_held([*held, HeldEntry(_truncate_delta(delta), times, turn)])
        return Verdict(delta, "held", reason, ids)

    def _is_confirmed(self, delta: Delta) -> bool:
        """Returns whether the delta was proposed in enough different turns, each time with evidence."""
        previous = next((entry for entry in self.playbook.held if _is_same_delta(entry.delta, delta)), None)
        if previous is None or not (delta.evidence.strip() and previous.delta.evidence.strip()):
            return self._config.insist <= 1 and bool(delta.evidence.strip())
        return previous.times + (previous.turn < self.playbook.turn) >= self._config.insist

    def _drop_held(self, delta: Delta) -> None:
        remaining = [entry for entry in self.playbook.held if not _is_same_delta(entry.delta, delta)]
        if len(remaining) < len(self.playbook.held):
            self.playbook = self.playbook.with_held(remaining)

    def _reject(self, delta: Delta, reason: str, ids: tuple[str, ...] = ()) -> Verdict:
        return Verdict(delta, "rejected", reason, ids)

    def _replace_bullet(self, bullet: Bullet) -> None:
        self.playbook = self.playbook.with_changed(bullet)

    def _retire(self, id: str, reason: str) -> None:
        self.retired.append(RetiredBullet(self.playbook.bullets[id], self.playbook.turn, reason))
        self.playbook = self.playbook.without([id])

    def _is_harmful(self, bullet: Bullet) -> bool:
        margin = self._config.harmful_margin
        return -bullet.net_helpful >= margin and not is_protected(bullet, self.playbook.turn, self._config)

    def _is_proven(self, bullet: Bullet) -> bool:
        return bullet.is_pinned or bullet.net_helpful > 0

    def _make_heading(self, turn: int) -> str:
        first_turn = turn // self._config.heading_turns * self._config.heading_turns
        return f"turns {first_turn} to {first_turn + self._config.heading_turns - 1}"


def _is_same_delta(held_delta: Delta, delta: Delta) -> bool:
    if held_delta.kind != delta.kind or held_delta.ids != delta.ids[:MAX_STORED_IDS]:
        return False
    return meaning.normalize_words(held_delta.content) == meaning.normalize_words(tidy(delta.content, MAX_STORED_CHARS))


def _describe_source(delta: Delta, turn: int) -> str:
    text = tidy(delta.source, MAX_SOURCE_CHARS // 2) or tidy(delta.evidence, MAX_SOURCE_CHARS)
    return f"turn {turn}: {text}" if text else f"turn {turn}"


def _truncate_delta(delta: Delta) -> Delta:
    """Returns an untrusted delta with limited size, fit to be stored."""
    long_names = ("section", "content", "evidence", "source")
    texts = {name: tidy(str(getattr(delta, name)), MAX_STORED_CHARS) for name in long_names}
    short_texts = {name: tidy(str(getattr(delta, name)), 80) for name in ("kind", "heading", "tag", "priority")}
    return Delta.from_data({**texts, **short_texts, "ids": [tidy(str(id), 60) for id in delta.ids[:MAX_STORED_IDS]]})
