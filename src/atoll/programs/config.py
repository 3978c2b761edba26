"""The sections of the configuration, and what an OpenEvolve folder implies for them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pydantic
import yaml

from atoll import errors, system

PROGRAMS = ("initial_program.*", "init_program.*", "initial_prompt.*")
EVALUATOR = "evaluator.py"
CONFIGS = ("config.yaml", "config.yml")


class Task(system.Settings):
    """Section `[task]`: what evolves and how it is judged.

    Attributes:
        program: The file that evolves; with EVOLVE-BLOCK markers in it, only what stands between them.
        evaluator: A Python file with `evaluate(path)`, which returns a number or a dict of metrics; higher is better,
            and `combined_score` is the score if there is one, else the mean of all.
        command: Judges instead of the evaluator: words of a command that prints a number or metrics as JSON in its
            last line; `{program}` stands for the program's path.
        description: What the program is for, in words, for the model.
        metric: Which metric is the score; None: `combined_score`, else the mean of all that are no features.
        minimize: Whether less of it is better.
        features: Metrics that say what a program is like, not how good it is.
        repeats: How often each program is judged, where the evaluator is noisy; the score is the mean.
    """

    program: str = "initial_program.py"
    evaluator: str = EVALUATOR
    command: system.Names = ()
    description: str = ""
    metric: str | None = None
    minimize: bool = False
    features: system.Names = ()
    repeats: int = pydantic.Field(default=1, ge=1, le=1000)


class Options(system.Settings):
    """Section `[programs]`: how it evolves.

    Attributes:
        num_islands: Populations that evolve apart.
        num_parents: Programs that a step starts from; None: one with a model, two without.
        migration_interval: Steps per island between migrations of the best to the next island; None: never.
        cascade: Whether an evaluator with `evaluate_stage1` and so on is asked stage by stage.
        cascade_thresholds: What a stage must reach for the next one to be asked.
        diff_based_evolution: Whether a model is asked for SEARCH/REPLACE blocks; else for whole programs.
        diff_pattern: How such blocks look, START(.*?)MIDDLE(.*?)END; None: OpenEvolve's way.
        crossover: The chance that it is asked to combine two programs.
        proposals: Replies that a step asks for, each for a program of its own; parents take turns.
        repair: Whether a reply that cannot be used may be mended once.
        template_dir: A folder whose files replace the prompt's templates of the same name.
        use_template_stochasticity: Whether the words of a prompt vary.
        prompt_chars: The longest prompt, in characters.
        max_artifact_bytes: The longest artifact in a prompt.
        include_artifacts: Whether a prompt shows any.
        num_top_programs: The best programs that a prompt shows.
        num_diverse_programs: Others that it shows, and as many inspirations.
        num_attempts: The latest attempts that it tells of.
        similarity_threshold: How alike in words a program may be to its kin and still be judged.
        pool: What an island keeps: `grid`, `front` or `clusters`; None: a grid with a model, clusters without.
        feature_bins: Cells per feature; with several numbers the largest counts.
        diversity_reference_size: Programs that the feature `diversity` is measured against.
        archive_size: The best cells, which exploitation draws from.
        exploration_ratio: The share of parents that are drawn from all cells alike.
        exploitation_ratio: The share that is drawn from the archive; the rest is drawn by rank.
        migration_rate: The share of an island's cells whose programs migrate, the best.
    """

    num_islands: int = pydantic.Field(default=5, ge=1)
    num_parents: int | None = pydantic.Field(default=None, ge=1)
    migration_interval: int | None = pydantic.Field(default=50, ge=1)
    cascade: bool = True
    cascade_thresholds: system.Numbers = (0.5, 0.75, 0.9)
    diff_based_evolution: bool = True
    diff_pattern: str | None = None
    crossover: float = pydantic.Field(default=0.1, ge=0, le=1)
    proposals: int = pydantic.Field(default=1, ge=1, le=100)
    repair: bool = True
    template_dir: str | None = None
    use_template_stochasticity: bool = True
    prompt_chars: int = pydantic.Field(default=60_000, ge=8_000)
    max_artifact_bytes: int = pydantic.Field(default=20_480, ge=0)
    include_artifacts: bool = True
    num_top_programs: int = pydantic.Field(default=3, ge=0, le=50)
    num_diverse_programs: int = pydantic.Field(default=2, ge=0, le=50)
    num_attempts: int = pydantic.Field(default=3, ge=0, le=20)
    similarity_threshold: float = pydantic.Field(default=1.0, ge=0)
    pool: Literal["grid", "front", "clusters"] | None = None
    feature_bins: int | dict[str, int] = 10
    diversity_reference_size: int = pydantic.Field(default=20, ge=1)
    archive_size: int = pydantic.Field(default=100, ge=1)
    exploration_ratio: float = pydantic.Field(default=0.2, ge=0, le=1)
    exploitation_ratio: float = pydantic.Field(default=0.7, ge=0, le=1)
    migration_rate: float = pydantic.Field(default=0.1, ge=0, le=1)


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns what an OpenEvolve folder says of itself, or None if it is none.

    Raises:
        SetupError: Its `config.yaml` is no YAML, or a value has the wrong type.
    """
    program = next((path for pattern in PROGRAMS for path in sorted(folder.glob(pattern)) if path.is_file()), None)
    if program is None or not (folder / EVALUATOR).is_file():
        return None
    file = next((folder / name for name in CONFIGS if (folder / name).is_file()), None)
    found = _read(file) if file else {}
    return _sections(program.name, found)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as error:
        raise errors.SetupError(f"{file} is no YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(found or {}, dict):
        raise errors.SetupError(f"{file} holds a {type(found).__name__}, not keys with values.")
    return found or {}


def _sections(program: str, found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Translates the keys that we know; OpenEvolve ignores what it does not know, and so do we."""
    database, evaluator, prompt = (_section(found, name) for name in ("database", "evaluator", "prompt"))
    features = [name for name in database.get("feature_dimensions") or () if isinstance(name, str)]
    task = {"program": program, "description": prompt.get("system_message"), "features": features or None}
    run = {"iterations": found.get("max_iterations"), "seed": found.get("random_seed")}
    # OpenEvolve limits no memory; evaluators that load large libraries need more room than one function does.
    sandbox = {"seconds": evaluator.get("timeout") or 300, "memory_mb": evaluator.get("memory_limit_mb") or 8192}
    options = {"num_islands": database.get("num_islands"), "migration_interval": database.get("migration_interval")}
    options |= {
        "cascade": evaluator.get("cascade_evaluation"),
        "cascade_thresholds": evaluator.get("cascade_thresholds"),
        "diff_based_evolution": found.get("diff_based_evolution"),
    }
    sections = {"task": task, "programs": options, "run": run, "sandbox": sandbox}
    return {
        section: {key: value for key, value in keys.items() if value is not None} for section, keys in sections.items()
    }


def _section(found: dict[str, Any], name: str) -> dict[str, Any]:
    section = found.get(name)
    return section if isinstance(section, dict) else {}
