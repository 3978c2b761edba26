"""Skills that an agent learnt and somebody approved, also as SKILL.md folders."""

from atoll.governed.skills.learner import SkillLearner
from atoll.governed.skills.markdown import parse_skill, read_skill, format_skill, write_skill
from atoll.governed.skills.skill import SkillOrigin, SkillDefinition, InvalidSkill, SkillStep, make_slug

__all__ = [
    "SkillOrigin",
    "SkillDefinition",
    "SkillLearner",
    "InvalidSkill",
    "SkillStep",
    "parse_skill",
    "read_skill",
    "make_slug",
    "format_skill",
    "write_skill",
]
