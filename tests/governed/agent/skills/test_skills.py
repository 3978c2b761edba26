"""Skills: storage, usage counts, SKILL.md files (G100 to G102)."""

import contextlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import errors
from atoll.governed.agent import skills
from atoll.governed.agent.skills import InvalidSkill, SkillDefinition, SkillLearner
from atoll.governed.agent.skills.skills import check_name
from atoll.governed.parameters import MemoryParameters

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
NAMES = st.from_regex(r"[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True)
STEPS = st.builds(skills.SkillStep, st.integers(1, 9), TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
LESSONS = st.builds(skills.SkillOrigin, TEXTS, TEXTS, st.integers(0, 99), st.lists(TEXTS, max_size=2).map(tuple), TEXTS)
SKILLS = st.builds(
    SkillDefinition,
    NAMES,
    TEXTS.filter(str.strip),
    TEXTS,
    st.lists(STEPS, max_size=3).map(tuple),
    TEXTS,
    st.lists(NAMES, max_size=2).map(tuple),
    st.lists(TEXTS, max_size=2).map(tuple),
    st.just({}),
    LESSONS,
    st.floats(0, 1),
    st.integers(0, 999),
    st.integers(1, 99),
)


@given(SKILLS)
def test_skill_file_round_trips(skill: SkillDefinition) -> None:
    assert skills.parse_skill(skills.format_skill(skill)) == skill


@given(st.text())
def test_make_slug_returns_valid_name(title: str) -> None:
    check_name(skills.make_slug(title))


@given(st.text())
def test_parse_skill_accepts_or_rejects_any_text(text: str) -> None:
    for item in (text, f"---\n{text}\n---\n", f"---\nname: a\ndescription: {text!r}\n---\n{text}"):
        with contextlib.suppress(InvalidSkill):
            skills.parse_skill(item)


def test_folder_must_have_name_of_skill(tmp_path: Path) -> None:
    skill = SkillDefinition("greet", "Greets people.", "a guest comes in.", scripts={"hello.sh": "echo hello\n"})
    path = skills.write_skill(skill, tmp_path)
    assert path == tmp_path / "greet" / "SKILL.md"
    assert skills.read_skill(path.parent) == skill
    path.parent.rename(tmp_path / "other")
    with pytest.raises(InvalidSkill, match="must have the same name"):
        skills.read_skill(tmp_path / "other")


def test_links_and_pipes_are_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "greet"
    (folder / "scripts").mkdir(parents=True)
    (tmp_path / "private.txt").write_text("private")
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets.\n---\n")
    (folder / "scripts" / "a.sh").symlink_to(tmp_path / "private.txt")
    with pytest.raises(InvalidSkill, match="cannot be read"):
        skills.read_skill(folder)
    (folder / "SKILL.md").unlink()
    os.mkfifo(folder / "SKILL.md")
    with pytest.raises(InvalidSkill, match="not a regular file"):
        skills.read_skill(folder / "SKILL.md")


def test_write_skill_needs_new_folder(tmp_path: Path) -> None:
    (tmp_path / "greet").mkdir()
    with pytest.raises(InvalidSkill, match="already exists"):
        skills.write_skill(SkillDefinition("greet", "Greets."), tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"success_rate": "x"},
        {"scripts": 5},
        {"version": None},
        {"scripts": {"a\x00b": ""}},
        {"scripts": {"../up": ""}},
        {"scripts": {"x" * 300: ""}},
        {"steps": [5]},
        {"description": 5},
        {"learned_from": 5},
    ],
)
def test_skill_with_wrong_field_types_is_rejected(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidSkill):
        SkillLearner(MemoryParameters()).save(make_skill(**changes), "why", "ann", "t1")


def test_skill_of_another_agent_is_read() -> None:
    result = skills.parse_skill(
        "---\nname: pdf-forms\ndescription: Fills in forms. Use when a PDF has fields.\nlicense: MIT\n"
        "allowed-tools: [Bash, Read]\nmetadata:\n  author: example\n---\n# Forms\n\n1. Look.\n"
    )
    assert (result.name, result.required_tools, result.prompt) == ("pdf-forms", ("Bash", "Read"), "# Forms\n\n1. Look.")


@pytest.mark.parametrize(
    ("head", "sentence"),
    [
        ("name: a\ndescription: b\nextra: c", "unknown key 'extra'"),
        ("name: A\ndescription: b", "not a valid skill name"),
        ("name: -a\ndescription: b", "not a valid skill name"),
        ("name: a--b\ndescription: b", "not a valid skill name"),
        ("name: a", "1 to 1,024"),
        ("name: a\ndescription: " + "x" * 1025, "1 to 1,024"),
        ("name: a\ndescription: b\ncompatibility: ''", "1 to 500"),
        ("name: a\ndescription: b\nmetadata: {n: 5}", "map strings to strings"),
        ("name: a\ndescription: b\nallowed-tools: 5", "separated by blanks"),
        ("name: [", "not valid YAML"),
        ("just words", "must be a mapping"),
        ("name: a\ndescription: !!bool maybe", "'maybe' in line 2 is no"),
        ("name: a\ndescription: !!timestamp zzz", "'zzz' in line 2 is no"),
        (f"name: {':'.join('1' * 3000)}\ndescription: b", "a number of over 300 characters"),
        (f"name: a\nmetadata: {'[' * 5000}", "over 50 levels deep"),
        ("a: &a [*a]", "anchors or aliases"),
        ("name: &a [1]\ndescription: b\nmetadata: *a", "anchors or aliases"),
    ],
)
def test_invalid_front_matter_is_rejected(head: str, sentence: str) -> None:
    with pytest.raises(InvalidSkill, match=sentence):
        skills.parse_skill(f"---\n{head}\n---\nbody\n")


def make_skill(**changes: Any) -> dict[str, Any]:
    return {"name": "greet", "description": "Greets people.", **changes}


def test_usage_counts_survive_new_version() -> None:  # G101
    learner = SkillLearner(MemoryParameters())
    learner.save(make_skill(), "learnt", "ann", "t1")
    for success in (True, True, False, True):
        used = learner.record_usage("greet", success)
    assert (used.usage_count, used.success_rate) == (4, 0.75)
    learner.save(make_skill(description="Greets everybody.", usage_count=99, success_rate=1.0), "better", "ann", "t2")
    result = learner.find("greet")
    assert (result.version, result.usage_count, result.success_rate) == (2, 4, 0.75)
    assert learner.format_for_system_prompt() == "Learned skills:\n- greet: Greets everybody."


def test_unreadable_skill_does_not_hide_others() -> None:  # G97
    store = MemoryParameters()
    learner = SkillLearner(store)
    learner.save(make_skill(), "learnt", "ann", "t1")
    store.set("skills/odd", {"name": "Odd"}, "by hand", author="ann")
    result = learner.load_all()
    assert ([item.name for item in result.items], len(result.errors)) == (["greet"], 1)
    with pytest.raises(errors.NotFound):
        learner.record_usage("nothing", True)
