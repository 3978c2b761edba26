"""Reads and writes skills as SKILL.md folders, the format that other agents use."""

import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from atoll import safe_yaml
from atoll.governed.agent.skills.skills import (
    InvalidSkill,
    SkillDefinition,
    SkillOrigin,
    SkillStep,
    check_name,
    check_skill,
    from_json,
)

SKILL_FILE = "SKILL.md"
_METADATA_PREFIX = "atoll-"  # prefix of Atoll's keys in `metadata`, whose values are strings
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_WHEN_PHRASE = " Use it when "
_MAX_BYTES = 1_000_000


def format_skill(skill: SkillDefinition) -> str:
    check_skill(skill)
    meta = {
        "when": skill.when_to_use,
        "version": skill.version,
        "success-rate": skill.success_rate,
        "usage-count": skill.usage_count,
        "tags": list(skill.tags),
        "created-at": skill.created_at,
        "updated-at": skill.updated_at,
        "prompt": skill.prompt,
        "learned-from": _origin_to_json(skill.learned_from),
        "steps": [_step_to_json(step) for step in skill.steps],
    }
    front_matter: dict[str, Any] = {"name": skill.name, "description": skill.headline}
    if skill.required_tools:
        front_matter["allowed-tools"] = " ".join(skill.required_tools)
    front_matter["metadata"] = {
        _METADATA_PREFIX + name: json.dumps(value, ensure_ascii=False) for name, value in meta.items()
    }
    yaml_text = yaml.safe_dump(front_matter, sort_keys=False, allow_unicode=True, width=10**6)
    return f"---\n{yaml_text}---\n\n{_format_body(skill)}"


def write_skill(skill: SkillDefinition, folder: Path) -> Path:
    """Writes a skill into a new folder with its name and returns the path of its SKILL.md.

    Raises:
        InvalidSkill: The folder exists or cannot be written.
    """
    text, skill_folder = format_skill(skill), folder / skill.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        skill_folder.mkdir()  # must be new, so that no file is written through an existing link
        if skill.scripts:
            (skill_folder / "scripts").mkdir()
        for name, script in skill.scripts.items():
            (skill_folder / "scripts" / name).write_text(script, encoding="utf-8")
        path = skill_folder / SKILL_FILE
        path.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise InvalidSkill(f"{skill_folder} already exists. Choose another folder, or remove it.") from None
    except (OSError, UnicodeEncodeError) as error:
        raise InvalidSkill(f"{skill_folder} cannot be written: {error}.") from None
    return path


def read_skill(path: Path) -> SkillDefinition:
    """Reads a SKILL.md file, or the one in a folder.

    Raises:
        InvalidSkill: The file breaks a rule of the format.
    """
    path = path / SKILL_FILE if path.is_dir() else path
    skill = parse_skill(_read_text(path))
    if path.parent.name != skill.name:
        raise InvalidSkill(f"Folder {path.parent.name!r} and skill {skill.name!r} must have the same name.")
    scripts = sorted((path.parent / "scripts").glob("*"))
    full_skill = replace(skill, scripts={script.name: _read_text(script) for script in scripts})
    check_skill(full_skill)
    return full_skill


def _read_text(path: Path) -> str:
    """Reads a regular file. Links and devices are rejected."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise InvalidSkill(f"{path.name} is not a regular file.")
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise InvalidSkill(f"{path.name} has over {_MAX_BYTES:,} bytes. Shorten it.")
        return data.decode("utf-8")
    except OSError as error:
        raise InvalidSkill(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InvalidSkill(f"{path} is not UTF-8.") from None


def parse_skill(text: str) -> SkillDefinition:
    """Parses the text of a SKILL.md file.

    Raises:
        InvalidSkill: The text breaks a rule of the format.
    """
    match = re.match(r"\A\ufeff?---[ \t]*\r?\n(.*?\r?\n)---[ \t]*(?:\r?\n|\Z)(.*)", text, re.S)
    if not match:
        raise InvalidSkill("A SKILL.md must begin with front matter between two lines of ---.")
    front_matter = _parse_front_matter(match[1])
    meta = front_matter.get("metadata") or {}
    own_metadata = {
        key.removeprefix(_METADATA_PREFIX): _parse_value(value)
        for key, value in meta.items()
        if key.startswith(_METADATA_PREFIX)
    }
    body = match[2].strip()
    tools = front_matter.get("allowed-tools") or ()
    when = str(own_metadata.get("when", "") or "")
    description = front_matter["description"]
    if when and description.endswith(_WHEN_PHRASE + when):
        description = description.removesuffix(_WHEN_PHRASE + when)
    else:
        when = ""
    fields = {
        "name": front_matter["name"],
        "description": description,
        "when_to_use": when,
        "steps": own_metadata.get("steps") or (),
        "prompt": own_metadata.get("prompt", body),
        "required_tools": tools.split() if isinstance(tools, str) else list(tools),
        "tags": own_metadata.get("tags") or (),
        "learned_from": own_metadata.get("learned-from") or {},
        "success_rate": own_metadata.get("success-rate", 0.0),
        "usage_count": own_metadata.get("usage-count", 0),
        "version": own_metadata.get("version", 1),
        "created_at": own_metadata.get("created-at", ""),
        "updated_at": own_metadata.get("updated-at", ""),
    }
    return from_json(fields)


def _parse_front_matter(block: str) -> dict[str, Any]:
    try:
        front_matter = safe_yaml.load(block)
    except safe_yaml.InvalidYAML as error:
        raise InvalidSkill(f"The front matter of the SKILL.md is not valid YAML: {error}.") from None
    if not isinstance(front_matter, dict):
        raise InvalidSkill("The front matter of a SKILL.md must be a mapping.")
    if unknown_keys := [key for key in front_matter if key not in _FIELDS]:
        raise InvalidSkill(f"The front matter has an unknown key {unknown_keys[0]!r:.60}. Use {', '.join(_FIELDS)}.")
    check_name(front_matter.get("name"))
    if (
        not isinstance(front_matter.get("description"), str)
        or not 1 <= len(front_matter["description"].strip()) <= 1024
    ):
        raise InvalidSkill("The description of a skill must be a string of 1 to 1,024 characters.")
    compatibility = front_matter.get("compatibility")
    if compatibility is not None and not (isinstance(compatibility, str) and 1 <= len(compatibility) <= 500):
        raise InvalidSkill("The compatibility of a skill must be a string of 1 to 500 characters.")
    meta = front_matter.get("metadata") or {}
    if not isinstance(meta, dict) or not all(isinstance(item, str) for pair in meta.items() for item in pair):
        raise InvalidSkill("The metadata of a skill must map strings to strings.")
    tools = front_matter.get("allowed-tools")
    if tools is not None and not isinstance(tools, str | list):
        raise InvalidSkill("The allowed tools of a skill must be a list, or names separated by blanks.")
    return front_matter


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _origin_to_json(origin: SkillOrigin) -> dict[str, Any]:
    return {name: getattr(origin, name) for name in SkillOrigin.__slots__} | {"tools_used": list(origin.tools_used)}


def _step_to_json(step: SkillStep) -> dict[str, Any]:
    return {name: getattr(step, name) for name in SkillStep.__slots__}


def _format_body(skill: SkillDefinition) -> str:
    """Returns the Markdown body: the instructions, then the numbered steps."""
    parts = [f"# {skill.name}"]
    if skill.prompt:
        parts.append(skill.prompt)
    if skill.steps:
        parts.append("\n".join(f"{step.order}. {_format_step(step)}" for step in skill.steps))
    return "\n\n".join(parts) + "\n"


def _format_step(step: SkillStep) -> str:
    text = step.description
    if step.tool_name:
        text += f" (tool `{step.tool_name}`{f' with `{step.input_template}`' if step.input_template else ''})"
    if step.condition:
        text += f" Only if {step.condition}."
    return text + (f" Else {step.fallback}." if step.fallback else "")
