"""Keys of OpenEvolve's config.yaml: the matching setting of each, or the reason why it has no effect."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

type RawConfig = Mapping[str, Any]


class ConfigKey(NamedTuple):
    """Translation of one key.

    Attributes:
        setting: The matching setting, `section.key`; empty: none.
        reason: Reason why it has no effect, if it has no setting.
    """

    setting: str = ""
    reason: str = ""


_STORED_KEY = ConfigKey(reason="every iteration is stored at once, with prompts, responses and artifacts")
_PROGRESS_KEY = ConfigKey(reason="progress is printed; --quiet turns it off")
_UNUSED_KEY = ConfigKey(reason="OpenEvolve does not use it either")
_LLM_OPTION_KEY = ConfigKey(reason="use --llm and the section [llm]")
_LLM_NAME_KEY = ConfigKey("task.model")
_PROMPT_KEY = ConfigKey(reason="the prompt has no such part")

TOP_LEVEL_KEYS: Mapping[str, ConfigKey] = {
    "max_iterations": ConfigKey("run.iterations"),
    "checkpoint_interval": _STORED_KEY,
    "log_level": _PROGRESS_KEY,
    "log_dir": _PROGRESS_KEY,
    "random_seed": ConfigKey("run.seed"),
    "language": ConfigKey("task.language"),
    "file_suffix": ConfigKey(reason="it is the suffix of the program's file"),
    "diff_based_evolution": ConfigKey("programs.diff_based_evolution"),
    "max_code_length": ConfigKey("programs.max_code_length"),
    "enforce_evolve_blocks": ConfigKey(reason="code outside the markers never changes"),
    "diff_pattern": ConfigKey("programs.diff_pattern"),
    "early_stopping_patience": ConfigKey("run.patience"),
    "convergence_threshold": ConfigKey("run.min_gain"),
    "early_stopping_metric": ConfigKey(
        reason="early stopping uses the score; task.metric selects the metric that is the score"
    ),
    "max_tasks_per_child": ConfigKey(reason="every candidate has its own process"),
}
LLM_KEYS: Mapping[str, ConfigKey] = {
    "api_base": _LLM_NAME_KEY,
    "api_key": _LLM_NAME_KEY,
    "name": _LLM_NAME_KEY,
    "models": _LLM_NAME_KEY,
    "primary_model": _LLM_NAME_KEY,
    "primary_model_weight": _LLM_NAME_KEY,
    "secondary_model": _LLM_NAME_KEY,
    "secondary_model_weight": _LLM_NAME_KEY,
    "weight": _LLM_NAME_KEY,
    "provider": _LLM_NAME_KEY,
    "evaluator_models": ConfigKey(reason="llm_feedback uses the LLM of the run"),
    "system_message": ConfigKey("task.description"),
    "temperature": ConfigKey("llm.temperature"),
    "max_tokens": ConfigKey("llm.max_tokens"),
    "timeout": ConfigKey("llm.timeout_seconds"),
    "top_p": ConfigKey("llm.top_p"),
    "reasoning_effort": ConfigKey("llm.thinking"),
    "retries": ConfigKey("llm.retries"),
    "retry_delay": ConfigKey("llm.backoff_seconds"),
    "random_seed": ConfigKey("llm.seed"),
    "max_budget_usd": ConfigKey(reason="limit the cost of a run with --budget '$1'"),
    "max_ai_credits": ConfigKey(reason="limit the cost of a run with --budget '$1'"),
    "allow_all_tools": ConfigKey(reason="LLMs get no tools"),
    "manual_mode": _LLM_OPTION_KEY,
    "init_client": _LLM_OPTION_KEY,
}
PROMPT_KEYS: Mapping[str, ConfigKey] = {
    "template_dir": ConfigKey("programs.template_dir"),
    "system_message": ConfigKey("task.description"),
    "evaluator_system_message": ConfigKey("programs.llm_feedback_prompt"),
    **{
        name: ConfigKey(f"programs.{name}")
        for name in (
            "num_top_programs",
            "num_diverse_programs",
            "use_template_stochasticity",
            "template_variations",
            "include_artifacts",
            "max_artifact_bytes",
        )
    },
    **dict.fromkeys(
        (
            "suggest_simplification_after_chars",
            "include_changes_under_chars",
            "concise_implementation_max_lines",
            "comprehensive_implementation_min_lines",
            "diff_summary_max_line_len",
            "diff_summary_max_lines",
            "programs_as_changes_description",
            "system_message_changes_description",
            "initial_changes_description",
        ),
        _PROMPT_KEY,
    ),
    "artifact_security_filter": ConfigKey(reason="secrets in artifacts are always hidden"),
    "code_length_threshold": _UNUSED_KEY,
    "use_meta_prompting": _UNUSED_KEY,
    "meta_prompt_weight": _UNUSED_KEY,
}
_NOVELTY_KEY = ConfigKey(reason="duplicates are found without an LLM")
DATABASE_KEYS: Mapping[str, ConfigKey] = {
    "num_islands": ConfigKey("programs.max_islands"),
    "migration_interval": ConfigKey("programs.migration_interval"),
    "migration_rate": ConfigKey("programs.migration_rate"),
    "random_seed": ConfigKey("run.seed"),
    "population_size": ConfigKey(reason="no program is deleted"),
    "feature_dimensions": ConfigKey("task.features"),
    **{
        name: ConfigKey(f"programs.{name}")
        for name in (
            "archive_size",
            "exploration_ratio",
            "exploitation_ratio",
            "feature_bins",
            "diversity_reference_size",
            "similarity_threshold",
        )
    },
    "elite_selection_ratio": ConfigKey(reason="prompt.num_top_programs sets the number of best programs"),
    "novelty_llm": _NOVELTY_KEY,
    "embedding_model": _NOVELTY_KEY,
    "embedding_api_base": _NOVELTY_KEY,
    "diversity_metric": _UNUSED_KEY,
    **dict.fromkeys(
        (
            "db_path",
            "in_memory",
            "log_prompts",
            "artifacts_base_path",
            "artifact_size_threshold",
            "cleanup_old_artifacts",
            "artifact_retention_days",
            "max_snapshot_artifacts",
        ),
        _STORED_KEY,
    ),
}
EVALUATOR_KEYS: Mapping[str, ConfigKey] = {
    "timeout": ConfigKey("sandbox.seconds"),
    "max_retries": ConfigKey(reason="failures repeat; for noisy evaluators set task.repeats"),
    "cascade_evaluation": ConfigKey("programs.cascade"),
    "cascade_thresholds": ConfigKey("programs.cascade_thresholds"),
    "parallel_evaluations": ConfigKey("run.workers"),
    "use_llm_feedback": ConfigKey("programs.llm_feedback"),
    "llm_feedback_weight": ConfigKey("programs.llm_feedback_weight"),
    "memory_limit_mb": ConfigKey("sandbox.memory_mb"),
    "cpu_limit": ConfigKey("sandbox.cpu_seconds"),
    "enable_artifacts": _STORED_KEY,
    "max_artifact_storage": _STORED_KEY,
    "distributed": ConfigKey(reason="use --executor ray for a cluster"),
}
_TRACE_KEY = ConfigKey(reason="the store has all data; write it with 'atoll export RUN --format jsonl'")
TRACE_KEYS: Mapping[str, ConfigKey] = dict.fromkeys(
    ("enabled", "format", "include_code", "include_prompts", "output_path", "buffer_size", "compress"), _TRACE_KEY
)
SECTION_KEYS: Mapping[str, Mapping[str, ConfigKey]] = {
    "llm": LLM_KEYS,
    "prompt": PROMPT_KEYS,
    "database": DATABASE_KEYS,
    "evaluator": EVALUATOR_KEYS,
    "evolution_trace": TRACE_KEYS,
}
ALL_KEYS: Mapping[str, ConfigKey] = {
    **TOP_LEVEL_KEYS,
    **{f"{section}.{name}": key for section, keys in SECTION_KEYS.items() for name, key in keys.items()},
}


def iter_keys(raw_config: RawConfig) -> Iterator[tuple[str, Any]]:
    """Yields every key with a value, with its section; an unknown section counts as one key."""
    for name, value in raw_config.items():
        if name in SECTION_KEYS and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", item) for key, item in value.items() if item is not None)
        elif value is not None:
            yield str(name), value


def translate_config(raw_config: RawConfig) -> tuple[dict[str, Any], list[str]]:
    """Returns the settings by name, and sentences about keys without effect."""
    settings: dict[str, Any] = {}
    ignored: dict[str, list[str]] = {}
    for name, value in iter_keys(raw_config):
        key = ALL_KEYS.get(name)
        if key is None:
            ignored.setdefault(f"is not an OpenEvolve key{suggest_key(name)}", []).append(name)
        elif key.setting:
            settings.setdefault(key.setting, value)
        elif not _is_default_behavior(name, value):
            ignored.setdefault(f"has no effect: {key.reason}", []).append(name)
    return settings, [f"{', '.join(names)} {reason}." for reason, names in ignored.items()]


def _is_default_behavior(name: str, value: Any) -> bool:
    """Returns whether a key without effect asks for the default behavior."""
    return (name, value) in (
        ("enforce_evolve_blocks", True),
        ("early_stopping_metric", "combined_score"),
        ("evolution_trace.enabled", False),
        ("llm.manual_mode", False),
        ("prompt.artifact_security_filter", True),
        ("evaluator.distributed", False),
        ("evaluator.enable_artifacts", True),
    )


def suggest_key(name: str) -> str:
    """Suggests a key: the same name in another section, or a similar one."""
    key_name = name.rpartition(".")[2]
    same_name = [key for key in ALL_KEYS if key.rpartition(".")[2] == key_name]
    matches = same_name or difflib.get_close_matches(name, ALL_KEYS, n=1, cutoff=0.6)
    return f" and has no effect; the nearest is {matches[0]}" if matches else " and has no effect"
