"""What an archipelago of functions is made from: the seed's configuration, and the sections of `atoll.toml`."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import pydantic

from atoll import function, llm, mutation, profiler, system

SEED_RESET_PERIOD = 30 * 60

type LLMSpec = llm.LLM | Callable[[str], str] | str | None  # what may be called a model


class EvolverConfig[**P, R, T](NamedTuple):
    """What `spawn_evolver` needs: the seed's fields, and a model.

    Attributes:
        equation: The start, a function defined with `def`; its docstring is shown to the model in every prompt.
        evaluation_inputs: What the evaluator is given, one at a time.
        evaluator: Scores (function, one input); higher is better.
        prompt_comment: What the function is for, in words, for the model.
        profiler_fn: Hears everything that happens.
        num_islands: Populations that evolve apart.
        num_selected_clusters: Functions that a new one is made from, each from another cluster.
        num_parallel: Functions that are made and judged at once.
        reset_period: Seconds after which the worse half of the islands is founded anew; in the default preset, which
            counts evaluations instead, only where it is not the seed's 30 minutes.
        llm: A model: its name (`openai:gpt-5@http://...`), a function from prompt to reply, or anything that
            `atoll.llm` offers. None: the syntax engine, which needs no model.
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


class Task(system.Settings):
    """Section `[task]`: what evolves and how it is judged.

    Attributes:
        file: A Python file with the function, its evaluator and its inputs.
        function: The function that evolves, defined with `def`.
        evaluator: Scores (function, one input); higher is better.
        inputs: A list, or a function that returns one.
        comment: What the function is for, in words, for the model; by default the docstring of the file.
        data: A folder with `train.csv`, instead of a file: then a law for these numbers is searched for.
    """

    file: str = "task.py"
    function: str = "equation"
    evaluator: str = "evaluate"
    inputs: str = "inputs"
    comment: str | None = None
    data: str | None = None


class Options(system.Settings):
    """Section `[llmsr]`: how it evolves.

    Attributes:
        preset: Whose formulas choose parents and reset islands; see the table in `presets.py`.
        num_islands: Populations that evolve apart.
        num_selected_clusters: Functions that a new one is made from.
        reset_period: Seconds between resets; by default the preset's.
        reset_evaluations: Functions judged between resets; by default 50 per island in the default preset.
        temperature: How evenly parents are drawn: of the softmax at its start; in the default preset, over which share
            of the ranks.
        engine_weights: What the gains of an engine (syntax, refined, tuner, choices, llm) count when steps are shared
            out; 1 where nothing is said, 0: it makes nothing.
        selector: Draws parent clusters; this and the next four are names of `atoll doctor --strategies`, or
            "file.py:Class". By default the preset's.
        population: Keeps the candidates of an island.
        schedule: Chooses islands, migrations and resets.
        mutator: Makes proposals.
        gate: Decides which evaluated candidates enter the population.
    """

    preset: Literal["default", "funsearch", "llmsr", "seed"] = "default"
    num_islands: int = pydantic.Field(default=10, ge=1)
    num_selected_clusters: int = pydantic.Field(default=2, ge=1)
    reset_period: float | None = pydantic.Field(default=None, gt=0)
    reset_evaluations: int | None = pydantic.Field(default=None, ge=1)
    temperature: float = pydantic.Field(default=0.1, gt=0, le=10)
    engine_weights: dict[mutation.MutatorName, float] = pydantic.Field(default={})
    selector: str | None = None
    population: str | None = None
    schedule: str | None = None
    mutator: str | None = None
    gate: str | None = None
