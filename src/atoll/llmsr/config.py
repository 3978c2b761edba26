"""Configuration of llmsr: `EvolverConfig` and the sections `[task]` and `[llmsr]` of `atoll.toml`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import pydantic

from atoll import function, llm, mutation, profiler, system


class _DefaultPeriod(int):
    """Default of `EvolverConfig.reset_period`, which a number that the user sets never is."""


SEED_RESET_PERIOD = _DefaultPeriod(30 * 60)

type LLMSpec = llm.LLM | Callable[[str], str] | str | None  # accepted as an LLM


class EvolverConfig[**P, R, T](NamedTuple):
    """Input of `spawn_evolver`: the fields of the seed, and an LLM.

    Attributes:
        equation: The initial function, defined with `def`. Every prompt shows its docstring.
        evaluation_inputs: Inputs of the evaluator, one per call.
        evaluator: Scores (function, one input); higher is better.
        prompt_comment: Purpose of the function, for the prompt.
        profiler_fn: Receives all events.
        num_islands: Number of islands.
        num_selected_clusters: Number of parents, each from another cluster.
        num_parallel: Functions that are proposed and evaluated at once.
        reset_period: Seconds between resets of the worse half of the islands, in every preset. If it is not set, the
            preset decides; the default preset counts evaluations.
        llm: Name of an LLM (`openai:gpt-5@http://...`), a function from prompt to response, or an object of
            `atoll.llm`. With None, the syntax mutator is used.
    """

    equation: Callable[P, R]
    evaluation_inputs: Sequence[T]
    evaluator: function.Evaluator[P, R, T]
    prompt_comment: str
    profiler_fn: profiler.ProfilerFn[Any] = profiler.default_fn
    num_islands: int = 10
    num_selected_clusters: int = 2
    num_parallel: int = 2
    reset_period: float = SEED_RESET_PERIOD
    llm: LLMSpec = None

    def get_reset_period(self) -> float | None:
        """Returns the seconds between resets; None if the user set none."""
        return None if isinstance(self.reset_period, _DefaultPeriod) else self.reset_period


class Task(system.Settings):
    """Section `[task]`: the function to evolve and its evaluator.

    Attributes:
        file: Python file with the function, its evaluator and its inputs.
        function: Name of the function to evolve, defined with `def`.
        evaluator: Name of the evaluator, which scores (function, one input); higher is better. A file without it may
            define `score(output, case)` instead; see `source.py`.
        inputs: Name of a list of inputs, or of a function that returns one.
        comment: Purpose of the function, for the prompt; by default the docstring of the file.
        repeats: `auto` evaluates the initial function and new bests up to five times if their scores vary; 1 evaluates
            every function once.
        data: Table for a law search, instead of a file: a folder with `train.csv`, one CSV or Parquet file, or a folder
            of several, for one law with constants of its own for each table.
        target: Column that a law computes; by default the last one.
        derivative: Time column. The law then computes the derivative of the target column by time.
        units: Units by column, such as {m = "kg"}. A law must have consistent units; its constants may have any.
        monotonic: "increasing" or "decreasing" by column.
        symmetric: Groups of columns whose exchange does not change the law; a single column may change its sign.
        minimum: Smallest value of the law.
        maximum: Largest value of the law.
        poles: Whether the law may have poles outside of the data.
        margin: How far beyond the data these requirements hold, as a share of its range.
    """

    file: str = "task.py"
    function: str = "equation"
    evaluator: str = "evaluate"
    inputs: str = "inputs"
    comment: str | None = None
    repeats: Literal["auto", 1] = "auto"
    data: str | None = None
    target: str | None = None
    derivative: str | None = None
    units: dict[str, str] = pydantic.Field(default={})
    monotonic: dict[str, Literal["increasing", "decreasing"]] = pydantic.Field(default={})
    symmetric: list[list[str]] = pydantic.Field(default=[])
    minimum: float | None = None
    maximum: float | None = None
    poles: bool = True
    margin: float = pydantic.Field(default=0.2, ge=0.0)


class Options(system.Settings):
    """Section `[llmsr]`: options of the search.

    Attributes:
        preset: Rules for selection and resets; see the table in `presets.py`.
        num_islands: Number of islands.
        islands_by_budget: Whether functions with an LLM in the default preset have fewer islands, if the budget is
            small: one below 500 LLM calls, two below 2,000, four above.
        num_selected_clusters: Number of parents.
        reset_period: Seconds between resets; the default depends on the preset.
        reset_evaluations: Evaluations between resets; by default 50 per island in the default preset.
        temperature: Evenness of parent selection: the initial softmax temperature, or in the default preset a share of
            the ranks.
        engine_weights: Factor for the gain of each mutator (syntax, refined, tuner, choices, llm) when the bandit
            shares out iterations; 1 by default, 0 to turn it off.
        law_search: Search for laws of data: "trees" evolves expression trees beside sums of products, "products" only
            the latter, as in version 0.1.
        selector: Draws parent clusters; this and the next four are names of `atoll doctor --strategies`, or
            "file.py:Class". By default the preset's.
        population: Population of an island.
        schedule: Chooses islands, migrations and resets.
        mutator: Makes proposals.
        gate: Decides which evaluated candidates enter the population.
    """

    preset: Literal["default", "funsearch", "llmsr", "seed"] = "default"
    num_islands: int = pydantic.Field(default=10, ge=1)
    islands_by_budget: bool = False
    num_selected_clusters: int = pydantic.Field(default=2, ge=1)
    reset_period: float | None = pydantic.Field(default=None, gt=0)
    reset_evaluations: int | None = pydantic.Field(default=None, ge=1)
    temperature: float = pydantic.Field(default=0.1, gt=0, le=10)
    engine_weights: dict[mutation.MutatorName, float] = pydantic.Field(default={})
    law_search: Literal["trees", "products"] = "trees"
    selector: str | None = None
    population: str | None = None
    schedule: str | None = None
    mutator: str | None = None
    gate: str | None = None
