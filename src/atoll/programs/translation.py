"""The keys of OpenEvolve's config.yaml: what each one is here, or why it has no effect."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

type Found = Mapping[str, Any]


class Key(NamedTuple):
    """What one key is here.

    Attributes:
        ours: The setting that it gives, `section.key`; empty: none.
        why: Why it has no effect, where it gives none.
    """

    ours: str = ""
    why: str = ""


_STORED = Key(why="every step is stored as it happens, with its prompts, replies and artifacts")
_PRINTED = Key(why="progress is printed as it happens, and --quiet turns that off")
_UNUSED = Key(why="OpenEvolve has never used it either")
_MODEL = Key(why="a model is asked as --llm and the section [llm] say")
_NAMED = Key("task.model")
_FILE = Key(why="the language is read from the name of the program's file")
_PROMPT = Key(why="the prompt has no such part")

TOP: Mapping[str, Key] = {
    "max_iterations": Key("run.iterations"),
    "checkpoint_interval": _STORED,
    "log_level": _PRINTED,
    "log_dir": _PRINTED,
    "random_seed": Key("run.seed"),
    "language": _FILE,
    "file_suffix": _FILE,
    "diff_based_evolution": Key("programs.diff_based_evolution"),
    "max_code_length": Key("programs.max_code_length"),
    "enforce_evolve_blocks": Key(why="what is outside the markers never changes"),
    "diff_pattern": Key("programs.diff_pattern"),
    "early_stopping_patience": Key("run.patience"),
    "convergence_threshold": Key("run.least_gain"),
    "early_stopping_metric": Key(why="stopping early looks at the score; task.metric makes another metric the score"),
    "max_tasks_per_child": Key(why="every candidate has a process of its own"),
}
LLM: Mapping[str, Key] = {
    "api_base": _NAMED,
    "api_key": _NAMED,
    "name": _NAMED,
    "models": _NAMED,
    "primary_model": _NAMED,
    "primary_model_weight": _NAMED,
    "secondary_model": _NAMED,
    "secondary_model_weight": _NAMED,
    "weight": _NAMED,
    "provider": _NAMED,
    "evaluator_models": Key(why="llm_feedback asks the model of the run"),
    "system_message": Key("task.description"),
    "temperature": Key("llm.temperature"),
    "max_tokens": Key("llm.max_tokens"),
    "timeout": Key("llm.timeout_seconds"),
    "top_p": Key("llm.top_p"),
    "reasoning_effort": Key("llm.thinking"),
    "retries": Key("llm.retries"),
    "retry_delay": Key("llm.backoff_seconds"),
    "random_seed": _MODEL,
    "max_budget_usd": Key(why="--budget '$1' bounds what a run may spend in all"),
    "max_ai_credits": Key(why="--budget '$1' bounds what a run may spend in all"),
    "allow_all_tools": Key(why="a model is given no tools"),
    "manual_mode": _MODEL,
    "init_client": _MODEL,
}
PROMPT: Mapping[str, Key] = {
    "template_dir": Key("programs.template_dir"),
    "system_message": Key("task.description"),
    "evaluator_system_message": Key("programs.llm_feedback_prompt"),
    **{
        name: Key(f"programs.{name}")
        for name in (
            "num_top_programs",
            "num_diverse_programs",
            "use_template_stochasticity",
            "include_artifacts",
            "max_artifact_bytes",
        )
    },
    **dict.fromkeys(
        (
            "template_variations",
            "artifact_security_filter",
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
        _PROMPT,
    ),
    "code_length_threshold": _UNUSED,
    "use_meta_prompting": _UNUSED,
    "meta_prompt_weight": _UNUSED,
}
_NEW = Key(why="no program is judged twice, and no model is asked what is new")
DATABASE: Mapping[str, Key] = {
    "num_islands": Key("programs.num_islands"),
    "migration_interval": Key("programs.migration_interval"),
    "migration_rate": Key("programs.migration_rate"),
    "random_seed": Key("run.seed"),
    "population_size": Key(why="nothing is thrown away"),
    "feature_dimensions": Key("task.features"),
    **{
        name: Key(f"programs.{name}")
        for name in (
            "archive_size",
            "exploration_ratio",
            "exploitation_ratio",
            "feature_bins",
            "diversity_reference_size",
            "similarity_threshold",
        )
    },
    "elite_selection_ratio": Key(why="prompt.num_top_programs says how many of the best a model is shown"),
    "novelty_llm": _NEW,
    "embedding_model": _NEW,
    "embedding_api_base": _NEW,
    "diversity_metric": _UNUSED,
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
        _STORED,
    ),
}
EVALUATOR: Mapping[str, Key] = {
    "timeout": Key("sandbox.seconds"),
    "max_retries": Key(why="what failed once would fail again; task.repeats judges several times where it is noisy"),
    "cascade_evaluation": Key("programs.cascade"),
    "cascade_thresholds": Key("programs.cascade_thresholds"),
    "parallel_evaluations": Key("run.workers"),
    "use_llm_feedback": Key("programs.llm_feedback"),
    "llm_feedback_weight": Key("programs.llm_feedback_weight"),
    "memory_limit_mb": Key("sandbox.memory_mb"),
    "cpu_limit": Key("sandbox.cpu_seconds"),
    "enable_artifacts": _STORED,
    "max_artifact_storage": _STORED,
    "distributed": Key(why="--executor ray judges on a cluster"),
}
_TRACE = Key(why="everything is in the store: 'atoll export RUN --jsonl' writes it out")
TRACE: Mapping[str, Key] = dict.fromkeys(
    ("enabled", "format", "include_code", "include_prompts", "output_path", "buffer_size", "compress"), _TRACE
)
SECTIONS: Mapping[str, Mapping[str, Key]] = {
    "llm": LLM,
    "prompt": PROMPT,
    "database": DATABASE,
    "evaluator": EVALUATOR,
    "evolution_trace": TRACE,
}
KNOWN: Mapping[str, Key] = {
    **TOP,
    **{f"{section}.{name}": key for section, keys in SECTIONS.items() for name, key in keys.items()},
}


def flat(found: Found) -> Iterator[tuple[str, Any]]:
    """Yields every key that was given a value, with its section; a section that nobody knows is one key."""
    for name, value in found.items():
        if name in SECTIONS and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", each) for key, each in value.items() if each is not None)
        elif value is not None:
            yield str(name), value


def translated(found: Found) -> tuple[dict[str, Any], list[str]]:
    """Returns our settings by their names, and sentences about the keys that have no effect."""
    settings: dict[str, Any] = {}
    idle: dict[str, list[str]] = {}
    for name, value in flat(found):
        key = KNOWN.get(name)
        if key is None:
            idle.setdefault(f"is no key of OpenEvolve's{_nearest(name)}", []).append(name)
        elif key.ours:
            settings.setdefault(key.ours, value)
        elif not _is_agreed(name, value):
            idle.setdefault(f"has no effect: {key.why}", []).append(name)
    return settings, [f"{', '.join(names)} {why}." for why, names in idle.items()]


def _is_agreed(name: str, value: Any) -> bool:
    """Says whether a key without effect asks for what happens anyway."""
    return (name, value) in (
        ("enforce_evolve_blocks", True),
        ("early_stopping_metric", "combined_score"),
        ("evolution_trace.enabled", False),
        ("llm.manual_mode", False),
        ("evaluator.distributed", False),
        ("evaluator.enable_artifacts", True),
    )


def _nearest(name: str) -> str:
    """Says which key was probably meant: the same name in another section, else a similar one."""
    tail = name.rpartition(".")[2]
    same = [each for each in KNOWN if each.rpartition(".")[2] == tail]
    near = same or difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.6)
    return f" and has no effect; the nearest is {near[0]}" if near else " and has no effect"
