"""The sections `[task]` and `[mind]` of `atoll.toml`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from atoll import system
from atoll.mind.actions import Role
from atoll.mind.conversations import Pattern
from atoll.mind.fitness import BALANCED, ISLAND_STRATEGIES, Strategy, TermSource

type Strategies = Annotated[tuple[Strategy, ...], pydantic.Field(strict=False)]


class Task(system.Settings):
    """Section `[task]`: the problems and their evaluation.

    Attributes:
        data: JSON-lines file in the format of Natural Plan, relative to the task folder or the current folder. Without
            it, problems are generated.
        most: Number of problems to read from the file; all by default.
        problem: Kind of problems to generate: `trip`, `meeting`, `calendar` or `stegpoet`. `workspace` repairs a
            repository. "file.py:Class" is your own class, with the problems in `data`.
        number: Number of problems to generate.
        size: Cities, friends, participants or numbers per problem.
        repository: Git repository to repair, relative to the task folder or the current folder. A plain folder is
            repaired in a private copy, and nothing is merged.
        runner: Test runner of the repository.
        tests: Folder in which to look for tests.
        protected: Files and folders that worldlines must not change, such as the tests.
        commands: Programs that actions may run in the sandbox.
        uncommitted: Handling of uncommitted changes. No choice modifies them.
        worktrees: Maximal number of worktrees; one per worker by default. Use 0 for very large repositories.
        goal: Goal for the repository: a text, or a file with it. Without it, the failing tests are repaired.
        checks: Tests that decide whether the goal is reached: names or patterns of tests, or test files of the task
            folder, which are added to the tests. By default, the tests that fail now.
        keep: Number of worldlines to keep for review.
        shown_chars: Maximal number of characters of code in the task's text. Tools show more.
    """

    data: str | None = None
    most: int | None = pydantic.Field(default=None, ge=1)
    problem: str = pydantic.Field(default="trip", pattern=r"^(trip|meeting|calendar|stegpoet|workspace|.+\.py:\w+)$")
    number: int = pydantic.Field(default=3, ge=1)
    size: int = pydantic.Field(default=6, ge=2, le=12)
    repository: str | None = None
    runner: Literal["unittest", "pytest"] = "unittest"
    tests: str = "."
    protected: system.Names = ("tests", "test_*.py", "*/test_*.py")
    commands: system.Names = ("python",)
    uncommitted: Literal["refuse", "ignore", "include"] = "refuse"
    worktrees: int | None = pydantic.Field(default=None, ge=0)
    goal: str | None = None
    checks: system.Names = ()
    keep: int = pydantic.Field(default=5, ge=1)
    shown_chars: int = pydantic.Field(default=16_000, ge=0)


class Options(system.Settings):
    """Section `[mind]`: the search. The first twelve are the paper's, with its values for a small model.

    Attributes:
        num_gens: Generations; by default 10 with an LLM and 40 without.
        num_islands: Islands per problem.
        num_convs: Conversations per island and generation.
        num_seq: Turns (plans) per conversation; by default 4 with an LLM and 8 without.
        reset_interval: Generations between resets; 0 disables resets.
        num_reset: Number of islands that a reset empties: those with the lowest mean.
        num_top: Elites that refill an island after a reset.
        num_candidate: Number of best worldlines from which the elites are selected.
        num_parent: Maximal number of parents per conversation.
        pr_no_parents: Probability of a conversation without parents.
        num_emigrate: Number of worldlines that migrate to the next island.
        num_retries: Further attempts after a response without a plan.
        num_repeats: Repeated plans that end a conversation. One more conversations in a row without a new plan end the
            search for a problem with an LLM. 0 disables both.
        memory_tokens: Budget of the earlier turns of a conversation in a prompt; older turns become one line each.
        num_forks: Points of the critic that become worldlines of their own, per turn. Each costs at least one call.
        roles: Sub-agents that take part: `planner`, `researcher`, `critic`, `verifier`. Each is a call of its own.
        role_calls: Calls of each role per island.
        num_tools: Responses with tools per plan, if the problem has tools; 0 disables tools.
        method: `mind`, or a baseline with the same number of plans: `one_pass`, `best_of_n`, `sequential`.
        num_plans: Plans per problem for a baseline; by default as many as `mind` would make.
        num_threads: Independent conversations of `sequential`.
        migration_interval: Generations between migrations.
        temperature: Temperature of the softmax that selects parents, in units of fitness.
        population: Maximal number of worldlines per island.
        patience: Generations without improvement until the search for a problem ends; 0 disables it. By default 3 with
            an LLM and 20 without.
        epsilon: The search ends when an approved worldline differs from the base by less than this.
        fitness_terms: `measured` gives each term of the fitness its own source; `simple` computes all from the plan and
            its evaluation, as in version 0.1.
        weights: Weights of the five terms of the common fitness, which compares islands.
        strategies: Fitness weights of the islands, in turn.
        pattern: Roles of critic and author in a conversation.
        critic: Whether a critic takes part.
        feedback: Whether prompts contain the feedback, or only the score.
        questions: Whether prompts contain the questions of the task.
        elect: Selection of the elites for a reset: by a `model`, by `difference` or by `fitness`. Without an LLM,
            `model` means `difference`.
        critic_llm: LLM of the critic, one of those of --llm.
        second_llm: LLM of the second stage, one of those of --llm but not the first. It is only asked for problems
            that the first LLM did not solve.
        second_gen: First generation of the second stage, counted from 1. With 0, the second stage of a problem begins
            when its first one has ended, and has as many generations.
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
    num_repeats: int = pydantic.Field(default=2, ge=0)
    memory_tokens: int = pydantic.Field(default=2000, ge=0)
    num_forks: int = pydantic.Field(default=0, ge=0)
    roles: Annotated[tuple[Role, ...], pydantic.Field(strict=False)] = ()
    role_calls: int = pydantic.Field(default=4, ge=0)
    num_tools: int = pydantic.Field(default=8, ge=0)
    method: Literal["mind", "best_of_n", "sequential", "one_pass"] = "mind"
    num_plans: int | None = pydantic.Field(default=None, ge=1)
    num_threads: int = pydantic.Field(default=10, ge=1)
    migration_interval: int = pydantic.Field(default=1, ge=1)
    temperature: float = pydantic.Field(default=0.03, gt=0)
    population: int = pydantic.Field(default=400, ge=10)
    patience: int | None = pydantic.Field(default=None, ge=0)
    epsilon: float = pydantic.Field(default=0.0, ge=0)
    fitness_terms: TermSource = "measured"
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


_PYTEST_FILES = ("pytest.ini", "conftest.py", "tests/conftest.py")


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns the sections of a git repository with tests and without `atoll.toml`; None for any other folder."""
    has_tests = (folder / "tests").is_dir() or any(folder.glob("test_*.py"))
    if (folder / "atoll.toml").exists() or not (folder / ".git").exists() or not has_tests:
        return None
    uses_pytest = any((folder / name).is_file() for name in _PYTEST_FILES)
    task = {"problem": "workspace", "repository": ".", "tests": "tests" if (folder / "tests").is_dir() else "."}
    return {"task": {**task, "runner": "pytest" if uses_pytest else "unittest"}}
