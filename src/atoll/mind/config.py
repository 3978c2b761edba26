"""The sections of `atoll.toml`: what is planned, and how minds evolve."""

from typing import Annotated, Literal

import pydantic

from atoll import system
from atoll.mind.conversations import Pattern
from atoll.mind.fitness import BALANCED, ISLAND_STRATEGIES, Strategy

type Strategies = Annotated[tuple[Strategy, ...], pydantic.Field(strict=False)]


class Task(system.Settings):
    """Section `[task]`: what is planned and how it is judged.

    Attributes:
        data: A file of JSON lines in the format of Natural Plan, relative to the task's folder or to the current one;
            none: problems are made up.
        most: Only the first so many problems of it.
        problem: What is made up where there is no data; `workspace`: a repository that is to be mended.
        number: How many problems are made up.
        size: Cities, friends or numbers of each.
        repository: For `workspace`: the git repository that is to be mended, relative to the task's folder or to the
            current one; of a plain folder a private copy is mended, and nothing is merged.
        runner: What finds and runs its tests.
        tests: Where in it they are looked for.
        protected: Files and folders of it that no worldline may change: what judges them.
        commands: Programs that actions may run in the jail.
        uncommitted: What to do about changes in it that are not committed; none of the three touches them.
        worktrees: How many at once; 0: none, for repositories that are too large; by default one a worker.
    """

    data: str | None = None
    most: int | None = pydantic.Field(default=None, ge=1)
    problem: Literal["trip", "meeting", "stegpoet", "workspace"] = "trip"
    number: int = pydantic.Field(default=3, ge=1)
    size: int = pydantic.Field(default=6, ge=2, le=12)
    repository: str | None = None
    runner: Literal["unittest", "pytest"] = "unittest"
    tests: str = "."
    protected: system.Names = ("tests", "test_*.py", "*/test_*.py")
    commands: system.Names = ("python",)
    uncommitted: Literal["refuse", "ignore", "include"] = "refuse"
    worktrees: int | None = pydantic.Field(default=None, ge=0)


class Options(system.Settings):
    """Section `[mind]`: how it evolves. The first twelve are the paper's, with its values for a small model.

    Attributes:
        num_gens: Generations; by default 10 with a model, and 40 without, where a plan costs next to nothing.
        num_islands: Populations that evolve apart.
        num_convs: Conversations of an island in a generation.
        num_seq: Turns of a conversation: plans that it makes; by default 4 with a model and 8 without.
        reset_interval: Generations between resets; 0: never.
        num_reset: Islands with the lowest mean that a reset empties.
        num_top: Elites that found an island anew.
        num_candidate: Of how many best they are elected.
        num_parent: Parents of a conversation at most.
        pr_no_parents: How often it has none and begins anew.
        num_emigrate: Best of an island that are cloned to the next.
        num_retries: Further attempts where a reply holds no plan.
        method: `mind`, or a baseline at the same number of plans: `one_pass`, `best_of_n`, `sequential`.
        num_plans: Plans per problem for a baseline; by default as many as `mind` would make.
        num_threads: Conversations that `sequential` revises apart.
        migration_interval: Generations between migrations.
        temperature: Of the softmax that draws parents, in units of fitness.
        population: Worldlines that an island keeps at most.
        patience: Generations without a rise that end the search for a problem; 0: never. By default 3 with a model,
            20 without.
        epsilon: An approved worldline that differs less than this from the base ends it.
        weights: Of the five terms of the fitness by which all islands are compared.
        strategies: What each island weighs, in turn.
        pattern: Who criticises, and when.
        critic: Whether anybody does.
        feedback: Whether the model is told what is wrong, or the score alone.
        questions: Whether it is given the task's own questions.
        elect: How the elites of a reset are chosen: by a `model`, by `difference`, or by `fitness` alone; `model` is
            `difference` where there is none.
        critic_llm: The critic's model, by its name among those of --llm.
        second_llm: The model of the second stage, by its name among those of --llm.
        second_gen: The generation, from 1 on, with which the second stage begins; 0: never.
        selector: Draws parents; this and `gate` are names of `atoll doctor --strategies`, or "file.py:Class".
        gate: Decides which evaluated worldlines enter the population.
    """

    num_gens: int | None = pydantic.Field(default=None, ge=1)
    num_islands: int = pydantic.Field(default=4, ge=1)
    num_convs: int = pydantic.Field(default=5, ge=1)
    num_seq: int | None = pydantic.Field(default=None, ge=1)
    reset_interval: int = pydantic.Field(default=3, ge=0)
    num_reset: int = pydantic.Field(default=2, ge=0)
    num_top: int = pydantic.Field(default=5, ge=1)
    num_candidate: int = pydantic.Field(default=15, ge=1)
    num_parent: int = pydantic.Field(default=5, ge=1)
    pr_no_parents: float = pydantic.Field(default=1 / 6, ge=0, le=1)
    num_emigrate: int = pydantic.Field(default=5, ge=0)
    num_retries: int = pydantic.Field(default=5, ge=0)
    method: Literal["mind", "best_of_n", "sequential", "one_pass"] = "mind"
    num_plans: int | None = pydantic.Field(default=None, ge=1)
    num_threads: int = pydantic.Field(default=10, ge=1)
    migration_interval: int = pydantic.Field(default=1, ge=1)
    temperature: float = pydantic.Field(default=0.03, gt=0)
    population: int = pydantic.Field(default=400, ge=10)
    patience: int | None = pydantic.Field(default=None, ge=0)
    epsilon: float = pydantic.Field(default=0.0, ge=0)
    weights: system.Numbers = tuple(BALANCED.to_list())
    strategies: Strategies = tuple(ISLAND_STRATEGIES)
    pattern: Pattern = "one_reply"
    critic: bool = True
    feedback: bool = True
    questions: bool = True
    elect: Literal["model", "difference", "fitness"] = "model"
    critic_llm: str | None = None
    second_llm: str | None = None
    second_gen: int = pydantic.Field(default=0, ge=0)
    selector: str | None = None
    gate: str | None = None
