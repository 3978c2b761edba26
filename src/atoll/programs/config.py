"""Settings of the system `programs`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import pydantic

from atoll import mutation, system
from atoll.candidate import JSON

EVALUATOR_FILE = "evaluator.py"


class Task(system.Settings):
    """Section `[task]`: the program and its evaluator.

    Attributes:
        program: File that evolves; with EVOLVE-BLOCK markers, only the lines between them. Or a folder whose files
            evolve together; the evaluator then gets the folder's path.
        evaluator: Python file with `evaluate(path)`, which returns a number or a dict of metrics. Higher is better.
            The score is `combined_score`, or the mean of all metrics without it.
        command: Command to use instead of the evaluator. It prints a number or metrics as JSON in its last line;
            `{program}` is replaced by the program's path.
        language: Language of the program, for the LLM; None: by the suffix of its file. In `text`, a response without
            a fenced block is the new text.
        description: Purpose of the program, for the LLM.
        metric: Metric that is the score; None: `combined_score`, or the mean of all metrics that are not features.
        minimize: Lower values of the metric are better.
        features: Metrics that describe a program but do not rate it.
        repeats: Evaluations per program; the score is their mean. `auto` evaluates the initial program and new bests
            again, and takes the mean of up to 5 evaluations if the score varies.
        fail_on_error: Whether a score of zero with an error artifact is a failure.
        model: LLM named in an OpenEvolve configuration; used only with `--llm config`.
        checkpoint: OpenEvolve checkpoint whose programs become the first iterations.
        notes: Keys of an OpenEvolve configuration without effect, printed at the start.
    """

    OLD_DEFAULTS: ClassVar[Mapping[str, JSON]] = {"fail_on_error": False}
    program: str = "initial_program.py"
    evaluator: str = EVALUATOR_FILE
    command: system.Names = ()
    language: str | None = None
    description: str = ""
    metric: str | None = None
    minimize: bool = False
    features: system.Names = ()
    repeats: Annotated[int, pydantic.Field(ge=1, le=1000)] | Literal["auto"] = "auto"
    fail_on_error: bool = True
    model: str | None = None
    checkpoint: str | None = None
    notes: system.Names = ()


class Options(system.Settings):
    """Section `[programs]`: how it evolves.

    Attributes:
        policy: `leader` refines the best program and gives a few others a fair number of tries; `openevolve` samples a
            grid of programs on islands, with OpenEvolve's ratios and prompts. It matters only with an LLM.
        num_islands: Number of islands; None: by the budget (one below 500 LLM calls), five without an LLM.
        max_islands: Upper limit of islands if `num_islands` is None.
        num_parents: Parents per iteration; None: one with an LLM, two without.
        migration_interval: Iterations per island between migrations of the best to the next island; None: never.
        cascade: Run `evaluate_stage1`, `evaluate_stage2`, ... of the evaluator one after another.
        cascade_thresholds: Scores that a stage must reach to start the next one.
        diff_based_evolution: Ask the LLM for SEARCH/REPLACE blocks; otherwise for full programs.
        diff_pattern: Regular expression of these blocks, START(.*?)MIDDLE(.*?)END; None: OpenEvolve's format.
        crossover: Probability of asking the LLM to combine two programs.
        proposals: LLM calls per iteration, one program each; parents take turns.
        repair: Ask once more if a response cannot be used.
        template_dir: Folder whose files replace the prompt templates of the same name.
        templates: Texts that replace templates by name, such as `diff_user`; they override the folder.
        template_variations: Texts by placeholder of a template; each prompt draws one.
        engine_weights: Weight of each mutator's gains (syntax, refined, tuner, choices) when iterations are assigned;
            default 1; 0 disables a mutator. With an LLM: shares of iterations of `syntax` and `llm`; `tuner` = 0 turns
            the tuner off.
        tuning_seconds: Time of the tuner for the constants of one program that an LLM wrote, estimated from the time of
            its evaluation. A new best is tuned with 4 trials or more, any other program with 12 or more, so that slow
            evaluators are spared.
        use_template_stochasticity: Vary the wording of prompts.
        prompt_chars: Maximum prompt length in characters.
        prompt_tokens: Maximum prompt length in estimated tokens; None: only characters count.
        show_evaluator: Show the evaluator's source in prompts, if it is short.
        max_artifact_bytes: Maximum length of an artifact in a prompt.
        include_artifacts: Show artifacts in prompts.
        num_top_programs: Best programs in a prompt.
        num_diverse_programs: Diverse programs in a prompt, and as many inspirations.
        num_attempts: Latest attempts in a prompt.
        run_notes: Notes on what helped and what failed, in the prompts of `leader`. `built`: from the records, without
            a call. `llm`: also by one LLM call for every 20 evaluated programs (25 from 500 calls on), which names
            methods to try as well. `auto`: by calls in runs of 60 LLM calls or more, if at least 80 % of the LLM's
            calls give valid programs.
        similarity_threshold: Similarity to a known program from which on a program is rejected.
        population: `grid`, `front`, `clusters` or "file.py:Class"; None: by the policy, clusters without an LLM. This,
            `selector`, `schedule` and `mutator` turn the policy `leader` off.
        selector: Draws parents; this and the next three are names of `atoll doctor --strategies`, or "file.py:Class".
        schedule: Chooses islands, migrations and resets.
        mutator: Makes proposals.
        gate: Decides which evaluated candidates enter the population.
        feature_bins: Cells per feature; of several numbers, the largest counts.
        diversity_reference_size: Programs that the feature `diversity` compares with.
        archive_size: Number of best cells that exploitation draws from.
        exploration_ratio: Share of parents drawn uniformly from all cells.
        exploitation_ratio: Share of parents drawn from the archive; the rest is drawn by rank.
        migration_rate: Share of an island's best cells whose programs migrate.
        max_code_length: Maximum program length in characters.
        llm_feedback: Let the LLM rate each program; its mean rating is 0.3 of the score.
        llm_feedback_weight: Factor of the ratings in the metrics `llm_*`.
        llm_feedback_prompt: Role of the LLM in this review.
    """

    OLD_DEFAULTS: ClassVar[Mapping[str, JSON]] = {"run_notes": "built"}
    RENAMED: ClassVar[Mapping[str, str]] = {"pool": "population"}
    policy: Literal["leader", "openevolve"] = "leader"
    num_islands: int | None = pydantic.Field(default=None, ge=1)
    max_islands: int | None = pydantic.Field(default=None, ge=1)
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
    template_variations: dict[str, list[str]] = pydantic.Field(default={})
    engine_weights: dict[mutation.MutatorName, float] = pydantic.Field(default={})
    tuning_seconds: float = pydantic.Field(default=10.0, ge=0)
    use_template_stochasticity: bool = True
    prompt_chars: int = pydantic.Field(default=60_000, ge=8_000)
    prompt_tokens: int | None = pydantic.Field(default=None, ge=4_000)
    show_evaluator: bool = True
    max_artifact_bytes: int = pydantic.Field(default=20_480, ge=0)
    include_artifacts: bool = True
    num_top_programs: int = pydantic.Field(default=3, ge=0, le=50)
    num_diverse_programs: int = pydantic.Field(default=2, ge=0, le=50)
    num_attempts: int = pydantic.Field(default=3, ge=0, le=20)
    run_notes: Literal["auto", "llm", "built"] = "auto"
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
