"""Configuration of a run: sections, layers, bound parameters, and the systems that are installed."""

from atoll.config.parameter_binding import BoundParameter
from atoll.config.run_config import (
    DETERMINISTIC_WINDOW,
    LLM_FROM_CONFIG,
    PARAMETERS_KEY,
    RunConfig,
    check_live_settings,
    describe_settings,
    find_task_folder,
    iter_bindable_settings,
    load,
    with_checkpoint,
    with_openevolve_model,
)
from atoll.config.settings import (
    COMMON_SECTIONS,
    NO_SECTION,
    LLMSettings,
    Method,
    RunSettings,
    SandboxSettings,
    Sections,
    parse_budget,
    parse_set,
)
from atoll.config.systems import (
    get_display_format,
    get_episode_reader,
    get_review_module,
    get_system,
    iter_systems,
    list_systems,
)
from atoll.config.task_errors import CONFIG_FILE

# fmt: off
__all__ = [
    "COMMON_SECTIONS", "CONFIG_FILE", "DETERMINISTIC_WINDOW", "LLM_FROM_CONFIG", "NO_SECTION", "PARAMETERS_KEY",
    "BoundParameter", "LLMSettings", "Method", "RunConfig", "RunSettings", "SandboxSettings", "Sections",
    "check_live_settings", "describe_settings", "find_task_folder", "get_display_format", "get_episode_reader",
    "get_review_module", "get_system", "iter_bindable_settings", "iter_systems", "list_systems", "load",
    "parse_budget", "parse_set", "with_checkpoint", "with_openevolve_model",
]
# fmt: on
