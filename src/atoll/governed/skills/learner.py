"""The skills that were approved: kept as parameters, counted as they are used."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from atoll import errors
from atoll.governed import shelves
from atoll.governed.errors import ParameterNotFound, VersionConflict
from atoll.governed.parameters import ParameterStore
from atoll.governed.skills.skill import SkillDefinition, InvalidSkill, from_json

PREFIX = "skills/"


class SkillLearner:
    """Finds skills by name, takes in new ones and counts how they fare."""

    def __init__(self, store: ParameterStore) -> None:
        self._store = store

    def find(self, name: str) -> SkillDefinition:
        """Returns a skill as it is now.

        Raises:
            NotFound: There is none.
            SkillRefused: What is kept under its name is no skill.
        """
        return self._read(name)[0]

    def load_all(self) -> shelves.LoadResult[SkillDefinition]:
        """Returns all skills; one that cannot be read hides no other."""
        return shelves.load_all(self._store, PREFIX, self.find, InvalidSkill)

    def prepare(self, content: Mapping[str, Any]) -> SkillDefinition:
        """Returns the skill that a content describes, as it would be kept: one version on, its counts its own.

        Raises:
            SkillRefused: It cannot be kept.
        """
        skill = from_json(content)
        try:
            existing = self.find(skill.name)
        except errors.NotFound:
            return replace(skill, version=1, usage_count=0, success_rate=0.0)  # nobody has used it here
        return replace(
            skill,
            version=existing.version + 1,
            created_at=existing.created_at or skill.created_at,
            usage_count=existing.usage_count,
            success_rate=existing.success_rate,
        )

    def save(self, content: Mapping[str, Any], reason: str, author: str, token: str) -> str:
        """Keeps an approved skill and returns its name and version.

        Raises:
            SkillRefused: It cannot be kept.
        """
        return shelves.save_item(self._store, PREFIX, self.prepare(content), reason, author, token)

    def record_usage(self, name: str, success: bool, *, author: str = "usage") -> SkillDefinition:
        """Counts a use; the success rate is the mean over all of them.

        Raises:
            NotFound: There is no such skill.
        """
        while True:
            skill, version = self._read(name)
            count = skill.usage_count + 1
            rate = skill.success_rate + (float(success) - skill.success_rate) / count
            used = replace(skill, usage_count=count, success_rate=min(1.0, max(0.0, rate)))
            try:
                self._store.set(
                    PREFIX + name,
                    used.to_json(),
                    "used, well" if success else "used, in vain",
                    author=author,
                    expected_version=version,
                )
            except VersionConflict:
                continue  # somebody else used it at the same time
            return used

    def format_for_system_prompt(self) -> str:
        """Returns a line for each skill, for whoever may use them."""
        skills = self.load_all().items
        lines = [f"- {skill.name}: {' '.join(skill.headline.split())}" for skill in skills]
        return "\n".join(["Skills that were learnt:", *lines]) if lines else ""

    def _read(self, name: str) -> tuple[SkillDefinition, int]:
        try:
            value, version = self._store.get(PREFIX + name)
        except ParameterNotFound:
            raise errors.NotFound(f"There is no skill {name!r:.80}.") from None
        return from_json(value), version
