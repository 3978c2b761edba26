"""A way of doing something that worked, written down so that it can be done again."""

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
    """A skill cannot be kept as it is; the sentence says why."""


@dataclass(frozen=True, slots=True)
class SkillStep:
    """One step of a skill."""

    order: int
    description: str
    tool_name: str = ""
    input_template: str = ""
    condition: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class SkillOrigin:
    """Where a skill was learnt."""

    session_id: str = ""
    task_description: str = ""
    turn_count: int = 0
    tools_used: tuple[str, ...] = ()
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class SkillDefinition:
    """What a skill is.

    Attributes:
        name: Lower-case letters, digits and single hyphens between them, up to 64: it is the name of a folder.
        description: What it does, up to 1,024 characters together with when to use it.
        steps: In their order.
        prompt: More words for whoever follows it.
        required_tools: What it needs; a skill with tools is more than words.
        scripts: Files that come with it, by name.
        success_rate: Share of uses that went well, in 0 to 1.
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
        """What it does and when to use it, in one text."""
        return f"{self.description} Use it when {self.when_to_use}" if self.when_to_use else self.description

    def to_json(self) -> dict[str, Any]:
        """Returns plain data that `from_json` reads back."""
        data = {**asdict(self), "scripts": dict(self.scripts)}
        data["learned_from"]["tools_used"] = list(self.learned_from.tools_used)
        return data | {name: list(data[name]) for name in ("steps", "required_tools", "tags")}


def from_json(data: Mapping[str, Any]) -> SkillDefinition:
    """Reads a skill, as it was stored or as a model wrote it.

    Raises:
        SkillRefused: It is none, with the reason.
    """
    if not isinstance(data, Mapping):
        raise InvalidSkill("A skill is an object with a name, a description and the rest.")
    if missing := [name for name in ("name", "description") if name not in data]:
        raise InvalidSkill(f"A skill needs {', '.join(missing)} too.")
    try:
        steps = tuple(SkillStep(**step) for step in data.get("steps", ()))
        origin_data = dict(data.get("learned_from", {}))
        origin = SkillOrigin(**{**origin_data, "tools_used": tuple(origin_data.get("tools_used", ()))})
        lists = {name: tuple(map(str, data.get(name, ()))) for name in ("required_tools", "tags")}
        skill = SkillDefinition(**{**data, "steps": steps, "learned_from": origin, **lists})
        _check_types(skill)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidSkill(f"This is no definition of a skill: {error}.") from None
    check_skill(skill)
    return skill


def _check_types(skill: SkillDefinition) -> None:
    """Refuses words that are no texts and counts that are no numbers, wherever they came from.

    Raises:
        TypeError: One is of another kind.
    """
    texts: list[object] = [skill.description, skill.when_to_use, skill.prompt, skill.created_at, skill.updated_at]
    texts += [getattr(step, name) for step in skill.steps for name in SkillStep.__slots__ if name != "order"]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("its words are no texts")
    numbers: tuple[object, ...] = (skill.success_rate, skill.usage_count, skill.version)
    if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
        raise TypeError("its counts are no numbers")
    scripts: object = skill.scripts
    if not isinstance(scripts, Mapping) or not all(isinstance(script, str) for script in scripts.values()):
        raise TypeError("its scripts are no texts by names")


def check_skill(skill: SkillDefinition) -> None:
    """Refuses a skill that no reader of SKILL.md files would take.

    Raises:
        SkillRefused: The name or a text is wrong.
    """
    check_name(skill.name)
    if not str(skill.description).strip():
        raise InvalidSkill(f"{skill.name} has no description: say what it does and when.")
    if len(skill.headline) > _MAX_DESCRIPTION:
        raise InvalidSkill(f"What {skill.name} does and when has over {_MAX_DESCRIPTION:,} characters: cut it.")
    if not 0.0 <= skill.success_rate <= 1.0 or skill.usage_count < 0 or skill.version < 1:
        raise InvalidSkill(f"The counts of {skill.name} are none.")
    for name in skill.scripts:
        if not _FILE_NAME.fullmatch(name) or name.strip(".") == "":
            raise InvalidSkill(f"{name!r:.60} is no name of a script's file: use letters, digits, dots, _ and -.")


def check_name(name: Any) -> None:
    """Refuses a name that is no folder of a skill.

    Raises:
        SkillRefused: It has capitals, blanks, odd characters, or hyphens where none may be.
    """
    normalized = unicodedata.normalize("NFKC", name) if isinstance(name, str) else ""
    if (
        normalized != name
        or not 1 <= len(normalized) <= _MAX_NAME
        or not _NAME.fullmatch(normalized)
        or normalized != normalized.lower()
    ):
        raise InvalidSkill(f"{name!r:.80} is no name of a skill: use a-z, 0-9 and single hyphens, up to 64.")


def make_slug(text: str) -> str:
    """Returns a name for a skill that is called so; `skill` where nothing is left of it."""
    normalized = unicodedata.normalize("NFKC", text).lower()
    # Lower case may bring back what NFKC had taken out.
    normalized = unicodedata.normalize("NFKC", normalized).lower()
    words = re.findall(r"[^\W_]+", normalized)
    shortened = "-".join(words)[:_MAX_NAME].strip("-")
    return shortened if shortened and _NAME.fullmatch(shortened) and shortened == shortened.lower() else "skill"


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

    def load_all(self) -> reserved_keys.LoadResult[SkillDefinition]:
        """Returns all skills; one that cannot be read hides no other."""
        return reserved_keys.load_all(self._store, PREFIX, self.find, InvalidSkill)

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
        return reserved_keys.save_item(self._store, PREFIX, self.prepare(content), reason, author, token)

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
