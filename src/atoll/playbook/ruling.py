"""One turn of curating: deltas come one after the other, and each sees what the ones before it did."""

from collections.abc import Sequence
from dataclasses import replace

from atoll.playbook import wording
from atoll.playbook.bullet import MAX_COUNT, MAX_SOURCES, Bullet, make_id, one_line, slug
from atoll.playbook.config import Config
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.index import Index
from atoll.playbook.playbook import CountTokens, Held, Playbook
from atoll.playbook.refinement import NEIGHBOURS, WORTH, Retired, is_protected, joined, make_room
from atoll.playbook.relation import Relation, keeps, relate
from atoll.playbook.schema import Schema, tidy

MAX_SOURCE = 80  # characters of a source in a bullet's provenance
MAX_KEPT, MAX_NAMED = 500, 20  # characters of a text and ids of a delta that waits or was refused


class Ruling:
    """Decides on the deltas of one turn.

    Attributes:
        playbook: As it is by now.
        retired: What went so far.
    """

    def __init__(
        self, playbook: Playbook, config: Config, count_tokens: CountTokens, schema: Schema, index: Index
    ) -> None:
        self.playbook = playbook
        self.retired: list[Retired] = []
        self._config, self._count, self._schema, self._index = config, count_tokens, schema, index
        self._changes = 0
        self._removable = max(1, len(playbook) // 2)

    def decide(self, delta: Delta) -> Verdict:
        if fault := self._schema.fault(delta, self.playbook):
            return Verdict(_shown(delta), "rejected", fault)
        evidence, source, heading = (tidy(each, MAX_KEPT) for each in (delta.evidence, delta.source, delta.heading))
        delta = replace(delta, evidence=evidence, source=source, heading=heading)
        if delta.kind != "tag":
            self._changes += 1
            if self._changes > self._config.max_deltas:
                return self._reject(delta, f"a turn may bring {self._config.max_deltas} changes")
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
        self._change(replace(bullet, helpful=helpful, harmful=harmful, used=self.playbook.turn))
        if self._is_harmful(self.playbook.bullets[bullet.id]):
            self._retire(bullet.id, f"it did harm {harmful} times and helped {helpful} times")
            return Verdict(delta, "applied", f"{delta.tag}; it did more harm than good and is retired", (bullet.id,))
        return Verdict(delta, "applied", delta.tag, (bullet.id,))

    def _add(self, delta: Delta) -> Verdict:
        content, section = one_line(delta.content), slug(delta.section)
        relation, other = self._nearest(content)
        if other is not None and relation in ("same", "duplicate"):
            source = (_source(delta, self.playbook.turn),)
            again = Bullet(other.id, other.section, content, used=self.playbook.turn, provenance=source)
            self._change(replace(joined(other, again), created=other.created))
            return Verdict(delta, "applied", f"{other.id} says it already and is confirmed", (other.id,))
        replaced = None
        if other is not None and relation == "contradiction":
            if not (other.net < 0 or self._insists(delta)):
                return self._hold(delta, f"it contradicts {other.id}: {other.content}", (other.id,))
            replaced = other
            self._retire(other.id, f"contradicted: {content}")
        turn = self.playbook.turn
        heading = tidy(delta.heading, 80) or self._heading(turn)
        made = Bullet("", section, content, 0, 0, turn, turn, heading, (_source(delta, turn),))
        if not self._fits(made, delta):
            return self._hold(delta, "the playbook is full of what is worth more")
        self._forget(delta)
        self.playbook = self.playbook.with_new(made)
        id = make_id(section, self.playbook.serial)
        return Verdict(delta, "applied", f"replaces {replaced.id}" if replaced else "new", (id,))

    def _update(self, delta: Delta) -> Verdict:
        bullet, content = self.playbook.bullets[delta.ids[0]], one_line(delta.content)
        if content == bullet.content:
            return self._reject(delta, "it changes nothing", delta.ids)
        relation, other = self._nearest(content, besides=bullet.id)
        if other is not None and relation in ("same", "duplicate"):
            return self._reject(delta, f"{other.id} says that already: merge them", (other.id,))
        if other is not None and relation == "contradiction" and not self._insists(delta):
            return self._hold(delta, f"it contradicts {other.id}: {other.content}", (other.id,))
        is_turned = relate(bullet.content, content) in ("contradiction", "variant")
        if (is_turned or bullet.net > 0 or bullet.is_pinned) and not delta.evidence.strip():
            return self._hold(delta, f"{bullet.id} has proven itself: say what speaks for the change", (bullet.id,))
        # What was counted was earned by the old text: a text that says something else starts anew.
        kept = replace(bullet, helpful=0, harmful=0, created=self.playbook.turn) if is_turned else bullet
        sources = (*bullet.provenance, _source(delta, self.playbook.turn))[-MAX_SOURCES:]
        made = replace(kept, content=content, used=self.playbook.turn, provenance=sources)
        if not self._fits(made, delta, besides=bullet):
            return self._hold(delta, "the playbook is full of what is worth more", (bullet.id,))
        self._forget(delta)
        self._change(made)
        return Verdict(delta, "applied", "says something else now" if is_turned else "reworded", (bullet.id,))

    def _merge(self, delta: Delta) -> Verdict:
        first, *others = (self.playbook.bullets[id] for id in dict.fromkeys(delta.ids))
        content = one_line(delta.content) or first.content
        for other in (first, *others):
            relation = relate(other.content, content)
            if relation in ("contradiction", "variant") or not keeps(content, other.content):
                return self._reject(delta, f"merging would change what {other.id} says: {other.content}", (other.id,))
            if relation == "different" and not self._insists(delta):
                return self._hold(delta, f"it is not plain that {other.id} says the same", (other.id,))
        made = replace(first, content=content)
        for other in others:
            made = joined(made, other)
        if not self._fits(made, delta, besides=first):
            return self._hold(delta, "the playbook is full of what is worth more", delta.ids)
        self._forget(delta)
        self._change(replace(made, used=self.playbook.turn))
        for other in others:
            self._retire(other.id, f"merged into {first.id}")
        return Verdict(delta, "applied", f"{first.id} takes in {', '.join(each.id for each in others)}", delta.ids)

    def _remove(self, delta: Delta) -> Verdict:
        ids = tuple(dict.fromkeys(delta.ids))
        if len(ids) > self._removable:
            return self._reject(delta, f"a turn may remove {self._removable} of these bullets, not {len(ids)}")
        kept = [self.playbook.bullets[id] for id in ids if self._is_proven(self.playbook.bullets[id])]
        if any(each.is_pinned for each in kept):
            return self._reject(delta, f"{kept[0].id} is pinned", (kept[0].id,))
        if kept and not self._insists(delta):
            return self._hold(delta, f"{kept[0].id} has helped {kept[0].helpful} times", (kept[0].id,))
        self._removable -= len(ids)
        self._forget(delta)
        for id in ids:
            self._retire(id, tidy(delta.evidence, 200) or "removed")
        return Verdict(delta, "applied", "removed", ids)

    def _nearest(self, content: str, besides: str = "") -> tuple[Relation, Bullet | None]:
        """Returns the bullet that says it already, else the one that says the contrary, else none."""
        self._index.sync(self.playbook.bullets)
        found: tuple[Relation, Bullet | None] = ("different", None)
        for hit in self._index.search(content, NEIGHBOURS):
            bullet = self.playbook.bullets[hit.id]
            relation = relate(bullet.content, content) if hit.id != besides else "different"
            if relation in ("same", "duplicate"):
                return relation, bullet
            if relation == "contradiction" and found[1] is None:
                found = relation, bullet
        return found

    def _fits(self, made: Bullet, delta: Delta, besides: Bullet | None = None) -> bool:
        """Makes room for a bullet if there is none; tells whether it fits now."""
        need = self._count(f"[{made.section}-00000] helpful={made.helpful} harmful={made.harmful} :: {made.content}")
        need += self._count(f"## {made.section}\n") - (self._count(besides.line) if besides else 0)
        if self._excess(need) <= 0:
            return True
        spared = besides.id if besides else ""
        bar = WORTH[delta.priority] if besides is None else max(made.net, 0) + 1.0
        room, gone = make_room(self.playbook, self._config, self._count, self._excess(need), bar, spared)
        if self._excess(need) - sum(self._count(each.bullet.line) for each in gone) > 0:
            return False
        self._take(room, gone)
        return True

    def _excess(self, need: int) -> int:
        return self.playbook.num_tokens(self._count) + need - self._config.max_tokens

    def _take(self, playbook: Playbook, gone: Sequence[Retired]) -> None:
        self.playbook = playbook
        self.retired += gone

    def _hold(self, delta: Delta, reason: str, ids: tuple[str, ...] = ()) -> Verdict:
        held, turn = list(self.playbook.held), self.playbook.turn
        before = next((each for each in held if _is_again(each.delta, delta)), None)
        if before is not None:
            held.remove(before)
        times = 1 if before is None else before.times + (before.turn < turn)
        self.playbook = self.playbook.holding([*held, Held(_shown(delta), times, turn)])
        return Verdict(delta, "held", reason, ids)

    def _insists(self, delta: Delta) -> bool:
        """Tells whether it came up often enough, in turns of their own, each time with evidence."""
        before = next((each for each in self.playbook.held if _is_again(each.delta, delta)), None)
        if before is None or not (delta.evidence.strip() and before.delta.evidence.strip()):
            return self._config.insist <= 1 and bool(delta.evidence.strip())
        return before.times + (before.turn < self.playbook.turn) >= self._config.insist

    def _forget(self, delta: Delta) -> None:
        left = [each for each in self.playbook.held if not _is_again(each.delta, delta)]
        if len(left) < len(self.playbook.held):
            self.playbook = self.playbook.holding(left)

    def _reject(self, delta: Delta, reason: str, ids: tuple[str, ...] = ()) -> Verdict:
        return Verdict(delta, "rejected", reason, ids)

    def _change(self, bullet: Bullet) -> None:
        self.playbook = self.playbook.with_changed(bullet)

    def _retire(self, id: str, reason: str) -> None:
        self.retired.append(Retired(self.playbook.bullets[id], self.playbook.turn, reason))
        self.playbook = self.playbook.without([id])

    def _is_harmful(self, bullet: Bullet) -> bool:
        margin = self._config.harmful_margin
        return -bullet.net >= margin and not is_protected(bullet, self.playbook.turn, self._config)

    def _is_proven(self, bullet: Bullet) -> bool:
        return bullet.is_pinned or bullet.net > 0

    def _heading(self, turn: int) -> str:
        first = turn // self._config.heading_turns * self._config.heading_turns
        return f"turns {first} to {first + self._config.heading_turns - 1}"


def _is_again(held: Delta, delta: Delta) -> bool:
    if held.kind != delta.kind or held.ids != delta.ids[:MAX_NAMED]:
        return False
    return wording.plain(held.content) == wording.plain(tidy(delta.content, MAX_KEPT))


def _source(delta: Delta, turn: int) -> str:
    said = tidy(delta.source, MAX_SOURCE // 2) or tidy(delta.evidence, MAX_SOURCE)
    return f"turn {turn}: {said}" if said else f"turn {turn}"


def _shown(delta: Delta) -> Delta:
    """Returns a delta as it may be kept: whatever a stranger sent, in a bearable size."""
    texts = {name: tidy(str(getattr(delta, name)), MAX_KEPT) for name in ("section", "content", "evidence", "source")}
    words = {name: tidy(str(getattr(delta, name)), 80) for name in ("kind", "heading", "tag", "priority")}
    return Delta.from_data({**texts, **words, "ids": [tidy(str(id), 60) for id in delta.ids[:MAX_NAMED]]})
