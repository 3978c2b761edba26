"""Skills as SKILL.md folders, which other agents read: what we write they take, and what we wrote we read back."""

import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from atoll import foreign
from atoll.governed.skills.skill import Lesson, SkillDefinition, SkillRefused, Step, check, check_name, from_json

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
    """Writes a skill as a new folder of its name and returns its SKILL.md.

    Raises:
        SkillRefused: There is such a folder already, or it cannot be made.
    """
    text, place = text_of(skill), folder / skill.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        place.mkdir()  # a new one: nothing is written through a link that lies there
        if skill.scripts:
            (place / "scripts").mkdir()
        for name, script in skill.scripts.items():
            (place / "scripts" / name).write_text(script, encoding="utf-8")
        path = place / FILE
        path.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise SkillRefused(f"{place} is there already: give another folder, or take it away.") from None
    except (OSError, UnicodeEncodeError) as error:
        raise SkillRefused(f"{place} cannot be written: {error}.") from None
    return path


def read(path: Path) -> SkillDefinition:
    """Reads a SKILL.md, ours or anybody's, or the folder that it is in.

    Raises:
        SkillRefused: It breaks a rule of the format; the sentence says which.
    """
    path = path / FILE if path.is_dir() else path
    skill = parse(_text_in(path))
    if path.parent.name != skill.name:
        raise SkillRefused(f"The folder is called {path.parent.name!r} and the skill {skill.name!r}: they must be one.")
    scripts = sorted((path.parent / "scripts").glob("*"))
    found = replace(skill, scripts={each.name: _text_in(each) for each in scripts})
    check(found)
    return found


def _text_in(path: Path) -> str:
    """Returns what a file holds: a plain file, no link and no device, and not for ever."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as opened:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise SkillRefused(f"{path.name} is no plain file.")
            body = opened.read(_MOST_BYTES + 1)
        if len(body) > _MOST_BYTES:
            raise SkillRefused(f"{path.name} has over {_MOST_BYTES:,} bytes.")
        return body.decode("utf-8")
    except OSError as error:
        raise SkillRefused(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SkillRefused(f"{path} cannot be read: it is no UTF-8.") from None


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
    said = {
        "name": head["name"],
        "description": description,
        "when_to_use": when,
        "steps": own.get("steps") or (),
        "prompt": own.get("prompt", body),
        "required_tools": tools.split() if isinstance(tools, str) else list(tools),
        "tags": own.get("tags") or (),
        "learned_from": own.get("learned-from") or {},
        "success_rate": own.get("success-rate", 0.0),
        "usage_count": own.get("usage-count", 0),
        "version": own.get("version", 1),
        "created_at": own.get("created-at", ""),
        "updated_at": own.get("updated-at", ""),
    }
    return from_json(said)


def _front(block: str) -> dict[str, Any]:
    try:
        head = foreign.load(block)
    except foreign.Unreadable as error:
        raise SkillRefused(f"The head of the SKILL.md is no YAML: {error}.") from None
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
    except (ValueError, RecursionError):
        return text


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
