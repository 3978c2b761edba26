"""Skills that an agent learnt and somebody approved, also as SKILL.md folders."""

from atoll.governed.agent.skills.skill_md import format_skill, parse_skill, read_skill, write_skill
from atoll.governed.agent.skills.skills import (
    InvalidSkill,
    SkillDefinition,
    SkillLearner,
    SkillOrigin,
    SkillStep,
    make_slug,
)

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
