"""Skills of an agent, stored as parameters and exchanged as SKILL.md folders."""

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
    "InvalidSkill",
    "SkillDefinition",
    "SkillLearner",
    "SkillOrigin",
    "SkillStep",
    "format_skill",
    "make_slug",
    "parse_skill",
    "read_skill",
    "write_skill",
]
