"""Skills that an agent learnt and somebody approved, also as SKILL.md folders."""

from atoll.governed.skills.learner import SkillLearner
from atoll.governed.skills.markdown import parse, read, text_of, write
from atoll.governed.skills.skill import Lesson, SkillDefinition, SkillRefused, Step, slug

__all__ = [
    "Lesson",
    "SkillDefinition",
    "SkillLearner",
    "SkillRefused",
    "Step",
    "parse",
    "read",
    "slug",
    "text_of",
    "write",
]
