"""What a delta must be like before anybody thinks about what it says."""

import re

from atoll.playbook import bullet, wording
from atoll.playbook.config import Config, compile_phrases
from atoll.playbook.delta import KINDS, PRIORITIES, TAGS, Delta
from atoll.playbook.playbook import Playbook

MAX_NOTE_CHARS = 2_000  # characters of evidence, heading or source that are read at all
MAX_IDS = 1_000
_MARKUP = re.compile(r"<\|[^|>]{0,40}\|>|</?(?:system|assistant|user|instructions?)\s*>", re.IGNORECASE)


class DeltaSchema:
    """Checks deltas by their form: kinds, ids, sizes, characters, forbidden words."""

    def __init__(self, config: Config) -> None:
        self._config, self._forbidden = config, compile_phrases(config.forbidden)

    def find_problem(self, delta: Delta, playbook: Playbook) -> str:
        """Says what is wrong with a delta, or nothing."""
        if delta.kind not in KINDS:
            return f"there is no kind {delta.kind!r:.40}: it is one of {', '.join(KINDS)}"
        if delta.priority not in PRIORITIES:
            return f"there is no priority {delta.priority!r:.40}: it is one of {', '.join(PRIORITIES)}"
        if delta.kind == "tag" and delta.tag not in TAGS:
            return f"there is no tag {delta.tag!r:.40}: it is one of {', '.join(TAGS)}"
        return self._find_target_problem(delta, playbook) or self._find_content_problem(delta)

    def _find_target_problem(self, delta: Delta, playbook: Playbook) -> str:
        if delta.kind == "add":
            return "" if bullet.make_slug(delta.section) else f"{delta.section!r:.60} is no section: use letters"
        min_ids = 2 if delta.kind == "merge" else 1
        if len(delta.ids) > MAX_IDS:
            return f"it names {len(delta.ids):,} bullets at once"
        if len(set(delta.ids)) < min_ids:
            return f"a {delta.kind} names {'two bullets or more' if min_ids > 1 else 'a bullet'}"
        if delta.kind in ("tag", "update") and len(delta.ids) > 1:
            return f"a {delta.kind} names one bullet"
        unknown = [id for id in delta.ids if id not in playbook.bullets]
        return f"there is no bullet {unknown[0]!r:.60}" if unknown else ""

    def _find_content_problem(self, delta: Delta) -> str:
        if delta.kind in ("tag", "remove") or (delta.kind == "merge" and not delta.content):
            return ""
        return self.find_text_problem(delta.content)

    def find_text_problem(self, content: str) -> str:
        """Says what is wrong with the text of a bullet, or nothing."""
        if len(content) > self._config.max_chars:
            return f"it is {len(content):,} characters long; a bullet has {self._config.max_chars:,} at most"
        if not wording.normalize_words(content):
            return "it says nothing"
        if problem := bullet.find_bad_character(bullet.to_one_line(content)):
            return problem
        if markup := _MARKUP.search(content):
            return f"{markup[0]!r} is a model's markup"
        forbidden = self._forbidden and self._forbidden.search(wording.normalize_words(bullet.to_one_line(content)))
        return f"{forbidden[0]!r} is forbidden" if forbidden else ""


def tidy(text: str, max_chars: int) -> str:
    """Returns a note (evidence, a heading, a source) as it may be stored: one line, cut, nothing hidden in it."""
    if len(text) <= max_chars and text.isascii() and text.isprintable():
        return " ".join(text.split())
    allowed = "".join(char for char in text[:MAX_NOTE_CHARS] if not bullet.find_bad_character(char) or char in "\n\r\t")
    return bullet.to_one_line(allowed)[:max_chars].rstrip()
