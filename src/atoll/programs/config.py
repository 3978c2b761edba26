"""The sections of the configuration."""

import pydantic

from atoll import system

EVALUATOR = "evaluator.py"


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
        model: The model that an OpenEvolve configuration names; asked only where `--llm config` says so.
        checkpoint: A checkpoint of OpenEvolve, whose programs are the first steps of the run.
        notes: What an OpenEvolve configuration says that has no effect, to be told at the start.
    """

    program: str = "initial_program.py"
    evaluator: str = EVALUATOR
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
        num_parents: Programs that a new one is made from.
        migration_interval: Steps per island between migrations of the best to the next island; None: never.
        cascade: Whether an evaluator with `evaluate_stage1` and so on is asked stage by stage.
        cascade_thresholds: What a stage must reach for the next one to be asked.
        max_code_length: Characters; a longer program is a failed proposal.
        llm_feedback: Whether the model scores each program besides, and 0.3 of the score is its mean.
        llm_feedback_weight: What its scores are multiplied with where they are kept as metrics, `llm_*`.
        llm_feedback_prompt: Who it is then, in words.
    """

    num_islands: int = pydantic.Field(default=5, ge=1)
    num_parents: int = pydantic.Field(default=2, ge=1)
    migration_interval: int | None = pydantic.Field(default=50, ge=1)
    cascade: bool = True
    cascade_thresholds: system.Numbers = (0.5, 0.75, 0.9)
    max_code_length: int | None = pydantic.Field(default=None, ge=1)
    llm_feedback: bool = False
    llm_feedback_weight: float = pydantic.Field(default=0.1, ge=0)
    llm_feedback_prompt: str = "You are an expert code reviewer."
