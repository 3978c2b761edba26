"""A way of doing something that worked, written down so that it can be done again."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from atoll import errors

_MOST_NAME, _MOST_DESCRIPTION = 64, 1024
_FILE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NAME = re.compile(r"[^\W_A-Z]+(?:-[^\W_A-Z]+)*")


class SkillRefused(errors.SetupError):
    """A skill cannot be kept as it is; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a skill."""

    order: int
    description: str
    tool_name: str = ""
    input_template: str = ""
    condition: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class Lesson:
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
    steps: tuple[Step, ...] = ()
    prompt: str = ""
    required_tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    scripts: Mapping[str, str] = field(default_factory=dict)
    learned_from: Lesson = field(default_factory=Lesson)
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
        found = {**asdict(self), "scripts": dict(self.scripts)}
        found["learned_from"]["tools_used"] = list(self.learned_from.tools_used)
        return found | {name: list(found[name]) for name in ("steps", "required_tools", "tags")}


def from_json(data: Mapping[str, Any]) -> SkillDefinition:
    """Reads a skill, as it was stored or as a model wrote it.

    Raises:
        SkillRefused: It is none, with the reason.
    """
    if not isinstance(data, Mapping):
        raise SkillRefused("A skill is an object with a name, a description and the rest.")
    if missing := [name for name in ("name", "description") if name not in data]:
        raise SkillRefused(f"A skill needs {', '.join(missing)} too.")
    try:
        steps = tuple(Step(**each) for each in data.get("steps", ()))
        said = dict(data.get("learned_from", {}))
        lesson = Lesson(**{**said, "tools_used": tuple(said.get("tools_used", ()))})
        lists = {name: tuple(map(str, data.get(name, ()))) for name in ("required_tools", "tags")}
        made = SkillDefinition(**{**data, "steps": steps, "learned_from": lesson, **lists})
        _check_kinds(made)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise SkillRefused(f"This is no definition of a skill: {error}.") from None
    check(made)
    return made


def _check_kinds(skill: SkillDefinition) -> None:
    """Refuses words that are no texts and counts that are no numbers, wherever they came from.

    Raises:
        TypeError: One is of another kind.
    """
    texts: list[object] = [skill.description, skill.when_to_use, skill.prompt, skill.created_at, skill.updated_at]
    texts += [getattr(step, name) for step in skill.steps for name in Step.__slots__ if name != "order"]
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("its words are no texts")
    numbers: tuple[object, ...] = (skill.success_rate, skill.usage_count, skill.version)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        raise TypeError("its counts are no numbers")
    scripts: object = skill.scripts
    if not isinstance(scripts, Mapping) or not all(isinstance(each, str) for each in scripts.values()):
        raise TypeError("its scripts are no texts by names")


def check(skill: SkillDefinition) -> None:
    """Refuses a skill that no reader of SKILL.md files would take.

    Raises:
        SkillRefused: The name or a text is wrong.
    """
    check_name(skill.name)
    if not str(skill.description).strip():
        raise SkillRefused(f"{skill.name} has no description: say what it does and when.")
    if len(skill.headline) > _MOST_DESCRIPTION:
        raise SkillRefused(f"What {skill.name} does and when has over {_MOST_DESCRIPTION:,} characters: cut it.")
    if not 0.0 <= skill.success_rate <= 1.0 or skill.usage_count < 0 or skill.version < 1:
        raise SkillRefused(f"The counts of {skill.name} are none.")
    for name in skill.scripts:
        if not _FILE.fullmatch(name) or name.strip(".") == "":
            raise SkillRefused(f"{name!r:.60} is no name of a script's file: use letters, digits, dots, _ and -.")


def check_name(name: Any) -> None:
    """Refuses a name that is no folder of a skill.

    Raises:
        SkillRefused: It has capitals, blanks, odd characters, or hyphens where none may be.
    """
    plain = unicodedata.normalize("NFKC", name) if isinstance(name, str) else ""
    if plain != name or not 1 <= len(plain) <= _MOST_NAME or not _NAME.fullmatch(plain) or plain != plain.lower():
        raise SkillRefused(f"{name!r:.80} is no name of a skill: use a-z, 0-9 and single hyphens, up to 64.")


def slug(text: str) -> str:
    """Returns a name for a skill that is called so; `skill` where nothing is left of it."""
    plain = unicodedata.normalize("NFKC", text).lower()
    # Lower case may bring back what NFKC had taken out.
    plain = unicodedata.normalize("NFKC", plain).lower()
    words = re.findall(r"[^\W_]+", plain)
    cut = "-".join(words)[:_MOST_NAME].strip("-")
    return cut if cut and _NAME.fullmatch(cut) and cut == cut.lower() else "skill"
