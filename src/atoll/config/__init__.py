"""A run's configuration: its sections, how they are read and merged, and what the command line says in short."""

from atoll.config.amounts import BARE, Sections, parse_budget, parse_set
from atoll.config.plan import (
    DETERMINISTIC_WINDOW,
    FILE,
    NAMED,
    SYSTEMS,
    Plan,
    asking,
    begun_with,
    describe,
    find,
    lives,
    load,
    look,
    reviews,
    task_of,
    told,
)
from atoll.config.sections import COMMON, LLMSettings, Method, RunSettings, SandboxSettings

__all__ = [
    "BARE",
    "COMMON",
    "DETERMINISTIC_WINDOW",
    "FILE",
    "NAMED",
    "SYSTEMS",
    "LLMSettings",
    "Method",
    "Plan",
    "RunSettings",
    "SandboxSettings",
    "Sections",
    "asking",
    "begun_with",
    "describe",
    "find",
    "lives",
    "load",
    "look",
    "parse_budget",
    "parse_set",
    "reviews",
    "task_of",
    "told",
]
