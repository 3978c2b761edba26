"""A run's configuration: its sections, how they are read and merged, and what the command line says in short."""

from atoll.config.amounts import NO_SECTION, Sections, parse_budget, parse_set
from atoll.config.binding import BoundParameter
from atoll.config.plan import (
    DETERMINISTIC_WINDOW,
    CONFIG_FILE,
    LLM_FROM_CONFIG,
    PARAMETERS_KEY,
    SYSTEMS,
    RunConfig,
    with_openevolve_model,
    with_checkpoint,
    describe_settings,
    iter_bindable_settings,
    load_system,
    get_episode_reader,
    load,
    get_display_format,
    get_review_module,
    find_task_folder,
    check_live_settings,
)
from atoll.config.sections import COMMON_SECTIONS, LLMSettings, Method, RunSettings, SandboxSettings

__all__ = [
    "NO_SECTION",
    "COMMON_SECTIONS",
    "DETERMINISTIC_WINDOW",
    "CONFIG_FILE",
    "LLM_FROM_CONFIG",
    "PARAMETERS_KEY",
    "SYSTEMS",
    "BoundParameter",
    "LLMSettings",
    "Method",
    "RunConfig",
    "RunSettings",
    "SandboxSettings",
    "Sections",
    "with_openevolve_model",
    "with_checkpoint",
    "describe_settings",
    "iter_bindable_settings",
    "load_system",
    "get_episode_reader",
    "load",
    "get_display_format",
    "parse_budget",
    "parse_set",
    "get_review_module",
    "find_task_folder",
    "check_live_settings",
]
