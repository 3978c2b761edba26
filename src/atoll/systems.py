"""Descriptors of Atoll's own systems, named by entry points in pyproject.toml. Parts are imported when needed."""

from atoll.system import System

LLMSR = System(
    "llmsr",
    task="atoll.llmsr.config:Task",
    options="atoll.llmsr.config:Options",
    build="atoll.llmsr.build:build",
    discover="atoll.llmsr.build:discover",
    template="templates/function",
)
PROGRAMS = System(
    "programs",
    task="atoll.programs.config:Task",
    options="atoll.programs.config:Options",
    build="atoll.programs.build:build",
    discover="atoll.programs.openevolve.folder:discover",
    openevolve="atoll.programs.openevolve",
    template="templates/program",
)
MIND = System(
    "mind",
    task="atoll.mind.config:Task",
    options="atoll.mind.config:Options",
    build="atoll.mind.build:build",
    discover="atoll.mind.config:discover",
    reviews="atoll.mind.workspace.reviews",
    template="mind_rota",
)
SURVIVAL = System(
    "survival",
    task="atoll.survival.config:Task",
    options="atoll.survival.config:Options",
    build="atoll.survival.build:build",
    discover="atoll.survival.build:discover",
    display="atoll.survival.episode_reports",
    episodes="atoll.survival.episode_reports",
    template="survival",
)
