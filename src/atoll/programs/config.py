"""The sections of the configuration."""

from collections.abc import Mapping
from typing import ClassVar

import pydantic

from atoll import mutation, system

EVALUATOR_FILE = "evaluator.py"


class Task(system.Settings):
    """Section `[task]`: what evolves and how it is judged.

    Attributes:
        program: The file that evolves; with EVOLVE-BLOCK markers in it, only what stands between them. Or a
            folder, whose files evolve together; the evaluator is given its path then.
        evaluator: A Python file with `evaluate(path)`, which returns a number or a dict of metrics; higher is better,
            and `combined_score` is the score if there is one, else the mean of all.
        command: Judges instead of the evaluator: words of a command that prints a number or metrics as JSON in its
            last line; `{program}` stands for the program's path.
        description: What the program is for, in words, for the model.
        metric: Which metric is the score; None: `combined_score`, else the mean of all that are no features.
        minimize: Whether less of it is better.
        features: Metrics that say what a program is like, not how good it is.
        repeats: How often each program is judged, where the evaluator is noisy; the score is the mean.
        model: The model that an OpenEvolve configuration names; asked only where `--llm config` says so.
        checkpoint: A checkpoint of OpenEvolve, whose programs are the first steps of the run.
        notes: What an OpenEvolve configuration says that has no effect, to be told at the start.
    """

    program: str = "initial_program.py"
    evaluator: str = EVALUATOR_FILE
    command: system.Names = ()
    description: str = ""
    metric: str | None = None
    minimize: bool = False
    features: system.Names = ()
    repeats: int = pydantic.Field(default=1, ge=1, le=1000)
    model: str | None = None
    checkpoint: str | None = None
    notes: system.Names = ()


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
        templates: Texts that replace templates by their names, such as `diff_user`; they win over the folder's.
        engine_weights: What the gains of an engine (syntax, refined, tuner, choices; with a model diff or rewrite, and
            tuner) count when steps are shared out; 1 where nothing is said, 0: it makes nothing.
        use_template_stochasticity: Whether the words of a prompt vary.
        prompt_chars: The longest prompt, in characters.
        prompt_tokens: The longest prompt, in tokens, which are estimated on the safe side; None: characters count.
        max_artifact_bytes: The longest artifact in a prompt.
        include_artifacts: Whether a prompt shows any.
        num_top_programs: The best programs that a prompt shows.
        num_diverse_programs: Others that it shows, and as many inspirations.
        num_attempts: The latest attempts that it tells of.
        similarity_threshold: How alike in words a program may be to its kin and still be judged.
        population: What an island keeps: `grid`, `front`, `clusters` or "file.py:Class"; None: a grid with an LLM,
            clusters without.
        selector: Draws parents; this and the next three are names of `atoll doctor --strategies`, or "file.py:Class".
        schedule: Chooses islands, migrations and resets.
        mutator: Makes proposals.
        gate: Decides which evaluated candidates enter the population.
        feature_bins: Cells per feature; with several numbers the largest counts.
        diversity_reference_size: Programs that the feature `diversity` is measured against.
        archive_size: The best cells, which exploitation draws from.
        exploration_ratio: The share of parents that are drawn from all cells alike.
        exploitation_ratio: The share that is drawn from the archive; the rest is drawn by rank.
        migration_rate: The share of an island's cells whose programs migrate, the best.
        max_code_length: Characters; a longer program is a failed proposal.
        llm_feedback: Whether the model scores each program besides, and 0.3 of the score is its mean.
        llm_feedback_weight: What its scores are multiplied with where they are kept as metrics, `llm_*`.
        llm_feedback_prompt: Who it is then, in words.
    """

    RENAMED: ClassVar[Mapping[str, str]] = {"pool": "population"}
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
    templates: dict[str, str] = pydantic.Field(default={})
    engine_weights: dict[mutation.MutatorName, float] = pydantic.Field(default={})
    use_template_stochasticity: bool = True
    prompt_chars: int = pydantic.Field(default=60_000, ge=8_000)
    prompt_tokens: int | None = pydantic.Field(default=None, ge=4_000)
    max_artifact_bytes: int = pydantic.Field(default=20_480, ge=0)
    include_artifacts: bool = True
    num_top_programs: int = pydantic.Field(default=3, ge=0, le=50)
    num_diverse_programs: int = pydantic.Field(default=2, ge=0, le=50)
    num_attempts: int = pydantic.Field(default=3, ge=0, le=20)
    similarity_threshold: float = pydantic.Field(default=1.0, ge=0)
    population: str | None = None
    selector: str | None = None
    schedule: str | None = None
    mutator: str | None = None
    gate: str | None = None
    feature_bins: int | dict[str, int] = 10
    diversity_reference_size: int = pydantic.Field(default=20, ge=1)
    archive_size: int = pydantic.Field(default=100, ge=1)
    exploration_ratio: float = pydantic.Field(default=0.2, ge=0, le=1)
    exploitation_ratio: float = pydantic.Field(default=0.7, ge=0, le=1)
    migration_rate: float = pydantic.Field(default=0.1, ge=0, le=1)
    max_code_length: int | None = pydantic.Field(default=None, ge=1)
    llm_feedback: bool = False
    llm_feedback_weight: float = pydantic.Field(default=0.1, ge=0)
    llm_feedback_prompt: str = "You are an expert code reviewer."
