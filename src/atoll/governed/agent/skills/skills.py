"""Skills: definitions, validation, and the store of approved ones."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from atoll import errors
from atoll.governed import reserved_keys
from atoll.governed.errors import ParameterNotFound, VersionConflict
from atoll.governed.parameters import ParameterStore

_MAX_NAME, _MAX_DESCRIPTION = 64, 1024
_FILE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NAME = re.compile(r"[^\W_A-Z]+(?:-[^\W_A-Z]+)*")


class InvalidSkill(errors.SetupError):
    """The skill definition is invalid."""


@dataclass(frozen=True, slots=True)
class SkillStep:
    order: int
    description: str
    tool_name: str = ""
    input_template: str = ""
    condition: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class SkillOrigin:
    """Session in which a skill was learned."""

    session_id: str = ""
    task_description: str = ""
    turn_count: int = 0
    tools_used: tuple[str, ...] = ()
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class SkillDefinition:
    """Description of a way of doing something.

    Attributes:
        name: Folder name: lower-case letters, digits and single hyphens, up to 64 characters.
        description: What the skill does. Together with `when_to_use` up to 1,024 characters.
        prompt: Further instructions.
        required_tools: Names of the tools that the steps call.
        scripts: Contents of script files by name.
        success_rate: Fraction of successful uses, 0 to 1.
    """

    name: str
    description: str
    when_to_use: str = ""
    steps: tuple[SkillStep, ...] = ()
    prompt: str = ""
    required_tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    learned_from: SkillOrigin = field(default_factory=SkillOrigin)
    success_rate: float = 0.0
    usage_count: int = 0
    version: int = 1
    created_at: str = ""
    updated_at: str = ""

    @property
    def headline(self) -> str:
        """Description and `when_to_use` in one text."""
        return f"{self.description} Use it when {self.when_to_use}" if self.when_to_use else self.description

    def to_json(self) -> dict[str, Any]:
        """Returns JSON data for `from_json`."""
        data = {**asdict(self), "scripts": dict(self.scripts)}
        data["learned_from"]["tools_used"] = list(self.learned_from.tools_used)
        return data | {name: list(data[name]) for name in ("steps", "required_tools", "tags")}


def from_json(data: Mapping[str, Any]) -> SkillDefinition:
    """Parses a skill from the store or from an LLM.

    Raises:
        InvalidSkill: A field is missing or invalid.
    """
    if not isinstance(data, Mapping):
        raise InvalidSkill("A skill must be an object with name, description and the other fields.")
    if missing := [name for name in ("name", "description") if name not in data]:
        raise InvalidSkill(f"The skill has no {', '.join(missing)}. Add it.")
    try:
        steps = tuple(SkillStep(**step) for step in data.get("steps", ()))
        origin_data = dict(data.get("learned_from", {}))
        origin = SkillOrigin(**{**origin_data, "tools_used": tuple(origin_data.get("tools_used", ()))})
        lists = {name: tuple(map(str, data.get(name, ()))) for name in ("required_tools", "tags")}
        skill = SkillDefinition(**{**data, "steps": steps, "learned_from": origin, **lists})
        _check_types(skill)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidSkill(f"The skill definition is invalid: {error}.") from None
    check_skill(skill)
    return skill


def _check_types(skill: SkillDefinition) -> None:
    """Checks the field types, since the data may come from an LLM.

    Raises:
        TypeError: A field has the wrong type.
    """
    texts: list[object] = [skill.description, skill.when_to_use, skill.prompt, skill.created_at, skill.updated_at]
    texts += [getattr(step, name) for step in skill.steps for name in SkillStep.__slots__ if name != "order"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("descriptions, conditions and times must be strings")
    numbers: tuple[object, ...] = (skill.success_rate, skill.usage_count, skill.version)
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise TypeError("success_rate, usage_count and version must be numbers")
    scripts: object = skill.scripts
    if not isinstance(scripts, Mapping) or not all(isinstance(script, str) for script in scripts.values()):
        raise TypeError("scripts must map file names to strings")


def check_skill(skill: SkillDefinition) -> None:
    """Checks the rules of the SKILL.md format.

    Raises:
        InvalidSkill: The name or a text breaks a rule.
    """
    check_name(skill.name)
    if not str(skill.description).strip():
        raise InvalidSkill(f"Skill {skill.name} has no description. Say what it does and when to use it.")
    if len(skill.headline) > _MAX_DESCRIPTION:
        raise InvalidSkill(f"The description of {skill.name} has over {_MAX_DESCRIPTION:,} characters. Shorten it.")
    if not 0.0 <= skill.success_rate <= 1.0 or skill.usage_count < 0 or skill.version < 1:
        raise InvalidSkill(f"Skill {skill.name} has an invalid success_rate, usage_count or version.")
    for name in skill.scripts:
        if not _FILE_NAME.fullmatch(name) or name.strip(".") == "":
            raise InvalidSkill(f"{name!r:.60} is not a valid script name. Use letters, digits, dots, _ and -.")


def check_name(name: Any) -> None:
    """Checks that a name is a valid folder name of a skill.

    Raises:
        InvalidSkill: The name has capitals, blanks, other characters, or misplaced hyphens.
    """
    normalized = unicodedata.normalize("NFKC", name) if isinstance(name, str) else ""
    if (
        normalized != name
        or not 1 <= len(normalized) <= _MAX_NAME
        or not _NAME.fullmatch(normalized)
        or normalized != normalized.lower()
    ):
        raise InvalidSkill(f"{name!r:.80} is not a valid skill name. Use a-z, 0-9 and single hyphens, up to 64.")


def make_slug(text: str) -> str:
    """Returns a valid skill name made from a title; `skill` if no character is usable."""
    normalized = unicodedata.normalize("NFKC", text).lower()
    # Lower-casing can undo the NFKC normalization.
    normalized = unicodedata.normalize("NFKC", normalized).lower()
    words = re.findall(r"[^\W_]+", normalized)
    shortened = "-".join(words)[:_MAX_NAME].strip("-")
    return shortened if shortened and _NAME.fullmatch(shortened) and shortened == shortened.lower() else "skill"


PREFIX = "skills/"


class SkillLearner:
    """Loads skills, saves approved ones and counts their uses."""

    def __init__(self, store: ParameterStore) -> None:
        self._store = store

    def find(self, name: str) -> SkillDefinition:
        """Returns a skill by name.

        Raises:
            NotFound: The skill does not exist.
            InvalidSkill: The stored value is not a skill.
        """
        return self._read(name)[0]

    def load_all(self) -> reserved_keys.LoadResult[SkillDefinition]:
        """Returns all skills, and an error message for each unreadable one."""
        return reserved_keys.load_all(self._store, PREFIX, self.find, InvalidSkill)

    def prepare(self, content: Mapping[str, Any]) -> SkillDefinition:
        """Returns the skill as it would be saved: with the next version, and with its own usage counts.

        Raises:
            InvalidSkill: The content is not a valid skill.
        """
        skill = from_json(content)
        try:
            existing = self.find(skill.name)
        except errors.NotFound:
            return replace(skill, version=1, usage_count=0, success_rate=0.0)  # not used in this store yet
        return replace(
            skill,
            version=existing.version + 1,
            created_at=existing.created_at or skill.created_at,
            usage_count=existing.usage_count,
            success_rate=existing.success_rate,
        )

    def save(self, content: Mapping[str, Any], reason: str, author: str, token: str) -> str:
        """Saves an approved skill and returns its key and version.

        Raises:
            InvalidSkill: The content is not a valid skill.
        """
        return reserved_keys.save_item(self._store, PREFIX, self.prepare(content), reason, author, token)

    def record_usage(self, name: str, success: bool, *, author: str = "usage") -> SkillDefinition:
        """Counts one use. The success rate is the mean over all uses.

        Raises:
            NotFound: The skill does not exist.
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
                    "used, well" if success else "used, failed",
                    author=author,
                    expected_version=version,
                )
            except VersionConflict:
                continue  # another process counted a use at the same time
            return used

    def format_for_system_prompt(self) -> str:
        """Returns the system prompt section with one line per skill."""
        skills = self.load_all().items
        lines = [f"- {skill.name}: {' '.join(skill.headline.split())}" for skill in skills]
        return "\n".join(["Learned skills:", *lines]) if lines else ""

    def _read(self, name: str) -> tuple[SkillDefinition, int]:
        try:
            value, version = self._store.get(PREFIX + name)
        except ParameterNotFound:
            raise errors.NotFound(f"Skill {name!r:.80} not found.") from None
        return from_json(value), version
