"""What a delta must be like before anybody thinks about what it says."""

import re

from atoll.playbook import bullet, wording
from atoll.playbook.config import Config, pattern_of
from atoll.playbook.delta import KINDS, PRIORITIES, TAGS, Delta
from atoll.playbook.playbook import Playbook

MAX_NOTE = 2_000  # characters of evidence, heading or source that are read at all
MAX_IDS = 1_000
_MARKUP = re.compile(r"<\|[^|>]{0,40}\|>|</?(?:system|assistant|user|instructions?)\s*>", re.IGNORECASE)


class Schema:
    """Checks deltas by their form: kinds, ids, sizes, characters, forbidden words."""

    def __init__(self, config: Config) -> None:
        self._config, self._forbidden = config, pattern_of(config.forbidden)

    def fault(self, delta: Delta, playbook: Playbook) -> str:
        """Says what is wrong with a delta, or nothing."""
        if delta.kind not in KINDS:
            return f"there is no kind {delta.kind!r:.40}: it is one of {', '.join(KINDS)}"
        if delta.priority not in PRIORITIES:
            return f"there is no priority {delta.priority!r:.40}: it is one of {', '.join(PRIORITIES)}"
        if delta.kind == "tag" and delta.tag not in TAGS:
            return f"there is no tag {delta.tag!r:.40}: it is one of {', '.join(TAGS)}"
        return self._wrong_target(delta, playbook) or self._wrong_content(delta)

    def _wrong_target(self, delta: Delta, playbook: Playbook) -> str:
        if delta.kind == "add":
            return "" if bullet.slug(delta.section) else f"{delta.section!r:.60} is no section: use letters"
        wanted = 2 if delta.kind == "merge" else 1
        if len(delta.ids) > MAX_IDS:
            return f"it names {len(delta.ids):,} bullets at once"
        if len(set(delta.ids)) < wanted:
            return f"a {delta.kind} names {'two bullets or more' if wanted > 1 else 'a bullet'}"
        if delta.kind in ("tag", "update") and len(delta.ids) > 1:
            return f"a {delta.kind} names one bullet"
        unknown = [id for id in delta.ids if id not in playbook.bullets]
        return f"there is no bullet {unknown[0]!r:.60}" if unknown else ""

    def _wrong_content(self, delta: Delta) -> str:
        if delta.kind in ("tag", "remove") or (delta.kind == "merge" and not delta.content):
            return ""
        return self.wrong_text(delta.content)

    def wrong_text(self, content: str) -> str:
        """Says what is wrong with the text of a bullet, or nothing."""
        if len(content) > self._config.max_chars:
            return f"it is {len(content):,} characters long; a bullet has {self._config.max_chars:,} at most"
        if not wording.plain(content):
            return "it says nothing"
        if fault := bullet.wrong_with(bullet.one_line(content)):
            return fault
        if found := _MARKUP.search(content):
            return f"{found[0]!r} is a model's markup"
        forbidden = self._forbidden and self._forbidden.search(wording.plain(bullet.one_line(content)))
        return f"{forbidden[0]!r} is forbidden" if forbidden else ""


def tidy(text: str, size: int) -> str:
    """Returns a note (evidence, a heading, a source) as it may be stored: one line, cut, nothing hidden in it."""
    if len(text) <= size and text.isascii() and text.isprintable():
        return " ".join(text.split())
    kept = "".join(each for each in text[:MAX_NOTE] if not bullet.wrong_with(each) or each in "\n\r\t")
    return bullet.one_line(kept)[:size].rstrip()
