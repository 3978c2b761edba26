"""Skills as SKILL.md folders, which other agents read: what we write they take, and what we wrote we read back."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from atoll.governed.skills.skill import Lesson, SkillDefinition, SkillRefused, Step, check, check_name

FILE = "SKILL.md"
_OWN = "atoll-"  # before our keys in `metadata`, whose values are texts
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_WHEN = " Use it when "
_MOST_BYTES = 1_000_000


def text_of(skill: SkillDefinition) -> str:
    """Returns the SKILL.md of a skill."""
    check(skill)
    meta = {
        "when": skill.when_to_use,
        "version": skill.version,
        "success-rate": skill.success_rate,
        "usage-count": skill.usage_count,
        "tags": list(skill.tags),
        "created-at": skill.created_at,
        "updated-at": skill.updated_at,
        "prompt": skill.prompt,
        "learned-from": _lesson(skill.learned_from),
        "steps": [_step(each) for each in skill.steps],
    }
    head: dict[str, Any] = {"name": skill.name, "description": skill.headline}
    if skill.required_tools:
        head["allowed-tools"] = " ".join(skill.required_tools)
    head["metadata"] = {_OWN + name: json.dumps(value, ensure_ascii=False) for name, value in meta.items()}
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=10**6)
    return f"---\n{front}---\n\n{_body(skill)}"


def write(skill: SkillDefinition, folder: Path) -> Path:
    """Writes a skill as a folder of its name and returns its SKILL.md."""
    text, place = text_of(skill), folder / skill.name
    place.mkdir(parents=True, exist_ok=True)
    if skill.scripts:
        (place / "scripts").mkdir(exist_ok=True)
        for name, script in skill.scripts.items():
            (place / "scripts" / name).write_text(script, encoding="utf-8")
    path = place / FILE
    path.write_text(text, encoding="utf-8")
    return path


def read(path: Path) -> SkillDefinition:
    """Reads a SKILL.md, ours or anybody's, or the folder that it is in.

    Raises:
        SkillRefused: It breaks a rule of the format; the sentence says which.
    """
    path = path / FILE if path.is_dir() else path
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SkillRefused(f"{path.name} has over {_MOST_BYTES:,} bytes.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SkillRefused(f"{path} cannot be read: {error}.") from None
    skill = parse(text)
    if path.parent.name != skill.name:
        raise SkillRefused(f"The folder is called {path.parent.name!r} and the skill {skill.name!r}: they must be one.")
    scripts = sorted(each for each in (path.parent / "scripts").glob("*") if each.is_file())
    if not scripts:
        return skill
    return replace(skill, scripts={each.name: each.read_text(encoding="utf-8") for each in scripts})


def parse(text: str) -> SkillDefinition:
    """Reads the text of a SKILL.md.

    Raises:
        SkillRefused: It breaks a rule of the format.
    """
    found = re.match(r"\A\ufeff?---[ \t]*\r?\n(.*?\r?\n)---[ \t]*(?:\r?\n|\Z)(.*)", text, re.S)
    if not found:
        raise SkillRefused("A SKILL.md begins with a block between two lines of ---.")
    head = _front(found[1])
    meta = head.get("metadata") or {}
    own = {key.removeprefix(_OWN): _value(value) for key, value in meta.items() if key.startswith(_OWN)}
    body = found[2].strip()
    tools = head.get("allowed-tools") or ()
    when = str(own.get("when", "") or "")
    description = head["description"]
    if when and description.endswith(_WHEN + when):
        description = description.removesuffix(_WHEN + when)
    else:
        when = ""
    made = SkillDefinition(
        head["name"],
        description,
        when,
        tuple(Step(**each) for each in own.get("steps", ()) or ()),
        str(own.get("prompt", "")) if "prompt" in own else body,
        tuple(tools.split()) if isinstance(tools, str) else tuple(map(str, tools)),
        tuple(own.get("tags", ()) or ()),
        {},
        _learned(own.get("learned-from")),
        float(own.get("success-rate", 0.0)),
        int(own.get("usage-count", 0)),
        int(own.get("version", 1)),
        str(own.get("created-at", "")),
        str(own.get("updated-at", "")),
    )
    check(made)
    return made


def _front(block: str) -> dict[str, Any]:
    try:
        head = yaml.safe_load(block)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SkillRefused(f"The head of the SKILL.md is no YAML: {str(error).splitlines()[0]}.") from None
    if not isinstance(head, dict):
        raise SkillRefused("The head of a SKILL.md has keys and values.")
    if odd := [key for key in head if key not in _FIELDS]:
        raise SkillRefused(f"The head of a SKILL.md has no key {odd[0]!r:.60}; it has {', '.join(_FIELDS)}.")
    check_name(head.get("name"))
    if not isinstance(head.get("description"), str) or not 1 <= len(head["description"].strip()) <= 1024:
        raise SkillRefused("The description of a skill is a text of 1 to 1,024 characters.")
    compatibility = head.get("compatibility")
    if compatibility is not None and not (isinstance(compatibility, str) and 1 <= len(compatibility) <= 500):
        raise SkillRefused("The compatibility of a skill is a text of 1 to 500 characters.")
    meta = head.get("metadata") or {}
    if not isinstance(meta, dict) or not all(isinstance(each, str) for pair in meta.items() for each in pair):
        raise SkillRefused("The metadata of a skill are texts by names.")
    tools = head.get("allowed-tools")
    if tools is not None and not isinstance(tools, str | list):
        raise SkillRefused("The allowed tools of a skill are names with blanks between them.")
    return head


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _learned(data: Any) -> Lesson:
    if not isinstance(data, Mapping):
        return Lesson()
    try:
        return Lesson(**{**data, "tools_used": tuple(data.get("tools_used", ()))})
    except TypeError:
        return Lesson()


def _lesson(lesson: Lesson) -> dict[str, Any]:
    return {name: getattr(lesson, name) for name in Lesson.__slots__} | {"tools_used": list(lesson.tools_used)}


def _step(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in Step.__slots__}


def _body(skill: SkillDefinition) -> str:
    """Returns what a reader follows: the words, then the steps by number."""
    parts = [f"# {skill.name}"]
    if skill.prompt:
        parts.append(skill.prompt)
    if skill.steps:
        parts.append("\n".join(f"{each.order}. {_sentence(each)}" for each in skill.steps))
    return "\n\n".join(parts) + "\n"


def _sentence(step: Step) -> str:
    found = step.description
    if step.tool_name:
        found += f" (tool `{step.tool_name}`{f' with `{step.input_template}`' if step.input_template else ''})"
    if step.condition:
        found += f" Only if {step.condition}."
    return found + (f" Else {step.fallback}." if step.fallback else "")
