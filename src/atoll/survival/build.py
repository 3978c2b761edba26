"""Builds a survival run from its settings."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from atoll import cluster, errors, executor, function, playbook, store, system
from atoll.candidate import JSON
from atoll.survival import episode_reports, grid, multi_agent
from atoll.survival.agent_state import AgentSettings, AgentState
from atoll.survival.config import Options, Task
from atoll.survival.episode import EpisodeRunner, EpisodeSummary
from atoll.survival.episode_proposer import (
    EpisodeLearner,
    EpisodeProposer,
    RunEpisode,
    curate,
    derive_world_seed,
    make_evaluator,
)
from atoll.survival.live_controls import LiveControls, NotificationSettings
from atoll.survival.loop import Roles
from atoll.survival.multi_agent import SharedGrid
from atoll.survival.roles.presenter import Presenter, StateChanges
from atoll.survival.thinkers.llm import LLMThinker
from atoll.survival.thinkers.thinker import PolicyThinker, RandomThinker, RuleThinker, Thinker, WaitThinker
from atoll.survival.worlds.crafter import CrafterWorld
from atoll.survival.worlds.gridworld import GridWorld, HybridWorld
from atoll.survival.worlds.gymnasium_world import GymnasiumWorld, complete_arguments, make_gymnasium_world, to_world
from atoll.survival.worlds.minigrid import MiniGridWorld
from atoll.survival.worlds.operating_system import CommandRunner, OSWorld, SandboxedRunner
from atoll.survival.worlds.playground import Playground
from atoll.survival.worlds.world import World, get_world_path, load_function

__all__ = ["Options", "Task", "build", "discover", "simulate_episodes"]

FILE = "atoll.toml"
WATCHED_DELAY = 20.0  # seconds, as in the seed


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns the implied settings of a survival folder. Episodes run one after another: each learns from the last."""
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        system_name = tomllib.loads(file.read_text(encoding="utf-8")).get("system")
    except (OSError, ValueError):
        return None
    return {"run": {"workers": 1, "window": 1}} if system_name == "survival" else None


def build(task: Task, options: Options, context: system.BuildContext) -> system.BuiltSystem:
    thinker_name = _get_thinker_name(options, context)
    command_runner = _make_command_runner(task, context)
    make_world = _make_world_factory(task, context, command_runner)
    if thinker_name == "llm" and context.llm is None:
        raise errors.SetupError("thinker=llm needs an LLM. Pass --llm MODEL, or set thinker=native.")
    world = make_world()  # reports setup errors before the run starts
    world.close()
    presenter, learner = Presenter(), EpisodeLearner()
    episode_runner = make_episode_runner(thinker_name, options, context, is_shared=task.share_playground)
    run_episode = _make_episode_function(task, context, make_world)
    proposer = EpisodeProposer(run_episode, episode_runner, context.blobs, presenter, context.seed)
    initial_text = function.Text(playbook.Playbook().dump())
    evaluator = make_evaluator(episode_runner.curator)
    initial = function.DefaultFunction(function.DefaultFunctionProps(initial_text, candidate_evaluator=evaluator))
    versions = context.versions or store.MemoryVersions()

    def make_population(island: int, rng: Random, announce: Any) -> cluster.VersionedPopulation:
        run = context.get_run_id()
        return cluster.VersionedPopulation(versions, f"playbook/{run}", initial, function.Text, run_id=run)

    islands = cluster.IslandConfig(1, 1, initial, proposer, gate=curate, make_population=make_population)
    config = cluster.EvolverConfig(islands, reset_period=None, learner=learner)
    is_crafter = task.env == "crafter"
    return system.BuiltSystem(
        config,
        _build_report(world, thinker_name, episode_runner),
        [file for file in [get_world_path(task.env, context.folder)] if file],
        command_runner.level if command_runner else _describe_missing_sandbox(task),
        command_runner.close if command_runner else lambda: None,
        lambda evolver: episode_reports.sum_episodes(learner.episodes, is_crafter=is_crafter),
        use_profiler=presenter.use_profiler,
    )


def simulate_episodes(task: Task, options: Options, seed: int, episodes: int) -> Iterator[EpisodeSummary]:
    """Yields the episodes of a run with this seed, without a kernel and without a store."""
    context = system.BuildContext(Path(), None, executor.ExecutorConfig(), 1, seed, store.MemoryBlobs())
    episode_runner = make_episode_runner(_get_thinker_name(options, context), options, context)
    run_episode = _make_episode_function(task, context, _make_world_factory(task, context))
    book, state = playbook.Playbook(), dict[str, Any]()
    for episode in range(1, episodes + 1):
        summary = run_episode(episode_runner, book, state, derive_world_seed(seed, episode), episode)
        book, state = summary.book, dict(summary.state)
        yield summary


def make_episode_runner(
    thinker_name: str, options: Options, context: system.BuildContext, *, is_shared: bool = False
) -> EpisodeRunner:
    is_learning = thinker_name in ("native", "llm")
    config = playbook.Config(
        max_tokens=options.playbook_max_tokens,
        max_sections=options.playbook_max_sections,
        refine_interval=options.refine_interval,
        context_limit=options.playbook_context_limit,
        context_chars=options.playbook_context_chars,
    )
    enabled_features = (options.playbook and is_learning, options.fear, options.curiosity)
    return EpisodeRunner(
        playbook.Curator(config),
        lambda agent, seed: Roles(
            _make_thinker(thinker_name, agent, seed, context), state_changes=StateChanges(is_shared=is_shared)
        ),
        AgentSettings(*enabled_features, options.danger_threshold, options.exploration_bonus),
        options.horizon,
        options.max_turns,
        thinker_name == "llm",
        controls=LiveControls(context.get_channel, get_tick_delay(thinker_name, options, context)),
        notification_settings=NotificationSettings(options.log_detail, options.notifications),
    )


def get_tick_delay(thinker_name: str, options: Options, context: system.BuildContext) -> float:
    """Returns the seconds between turns. The default gives viewers time to read when an LLM plans."""
    if options.tick_delay is not None:
        return options.tick_delay
    return WATCHED_DELAY if thinker_name == "llm" and context.has_dashboard else 0.0


def _get_thinker_name(options: Options, context: system.BuildContext) -> str:
    return options.thinker or ("llm" if context.llm is not None else "native")


def _build_report(world: World, thinker_name: str, episode_runner: EpisodeRunner) -> dict[str, JSON]:
    settings = episode_runner.agent_settings
    switches = {"playbook": settings.has_playbook, "fear": settings.has_fear, "curiosity": settings.has_curiosity}
    rule = f"above {settings.danger_threshold:g} the engine stops or evades"
    has_no_map = isinstance(world, GymnasiumWorld) and not world.num_cells
    return {
        "world": world.name,
        **({"map": "none (the agent cannot learn places)"} if has_no_map else {}),
        "thinker": thinker_name,
        **{switch: "on" if is_on else "off" for switch, is_on in switches.items()},
        "forecast": f"damage within {episode_runner.horizon} ticks; {rule}",
    }


def _make_world_factory(
    task: Task, context: system.BuildContext, command_runner: CommandRunner | None = None
) -> Callable[[], World]:
    """Returns a function that creates the world of a task.

    Raises:
        SetupError: The task names an unknown world.
    """
    family = context.seed if task.family is None else task.family
    match task.env.partition(":"):
        case ("grid", _, ""):
            return lambda: GridWorld(task.world, family)
        case ("crafter", _, ""):
            return CrafterWorld
        case ("minigrid", _, id) if id:
            return lambda: MiniGridWorld(id, task.env_args)
        case ("gymnasium", _, id) if id:
            describe = load_function("task.describe", task.describe, context.folder) if task.describe else None
            return lambda: make_gymnasium_world(id, task.env_args, describe)
        case ("os", _, ""):
            return lambda: OSWorld(_make_playground(task, context), command_runner)
        case ("hybrid", _, ""):
            return lambda: HybridWorld(GridWorld(task.world, family), _make_playground(task, context), command_runner)
        case _ if get_world_path(task.env, context.folder):
            return _make_own_world_factory(task, context.folder)
        case _:
            raise errors.SetupError(
                f"Unknown env {task.env!r:.60}. "
                "Use grid, minigrid:ID, crafter, os, hybrid or file.py:Name, or gymnasium:ID for a registered one."
            )


def _make_own_world_factory(task: Task, folder: Path) -> Callable[[], World]:
    """Returns a function that makes the world of `file.py:Name`: a class or function of the task."""
    make = load_function("task.env", task.env, folder)
    describe = load_function("task.describe", task.describe, folder) if task.describe else None

    def make_world() -> World:
        env = errors.capture(lambda: make(**complete_arguments(make, task.env_args)), reraise=())
        if isinstance(env, errors.CaughtException):
            raise errors.SetupError(f"{task.env:.80} failed: {env!s:.200}.")
        return to_world(env, describe, task.env)

    return make_world


def _make_episode_function(task: Task, context: system.BuildContext, make_world: Callable[[], World]) -> RunEpisode:
    """Returns a function that runs one episode, with one agent or with several in one grid.

    Raises:
        SetupError: The task has several agents and its world is not a grid.
    """
    if task.agents > 1 and task.env != "grid":
        raise errors.SetupError(f"task.agents is {task.agents}, but only env=grid supports several agents.")

    def run_single(
        episode_runner: EpisodeRunner, book: playbook.Playbook, state: Mapping[str, Any], seed: int, episode: int
    ) -> EpisodeSummary:
        world = make_world()
        try:
            return episode_runner.run(world, book, state, seed=seed, episode=episode)
        finally:
            world.close()

    def run_multiple(
        episode_runner: EpisodeRunner, book: playbook.Playbook, state: Mapping[str, Any], seed: int, episode: int
    ) -> EpisodeSummary:
        shared_grid = SharedGrid(task.world, context.seed if task.family is None else task.family, task.agents)
        summaries = multi_agent.run_together(
            episode_runner, shared_grid, task.party, book, state, seed=seed, episode=episode
        )
        return multi_agent.merge_summaries(summaries)

    return run_single if task.agents == 1 else run_multiple


def _make_playground(task: Task, context: system.BuildContext) -> Playground:
    root = (context.folder / task.playground).resolve()
    if not root.is_relative_to(context.folder.resolve()) or root == context.folder.resolve():
        raise errors.SetupError(f"task.playground is {task.playground!r:.60}. Name a folder inside the task folder.")
    return Playground(root, task.permission, task.commands)


def _make_command_runner(task: Task, context: system.BuildContext) -> SandboxedRunner | None:
    """Opens the sandbox for commands; None if the task runs no commands."""
    if task.env not in ("os", "hybrid") or task.permission != "run":
        return None
    return SandboxedRunner(context.executor_config, task.commands, str(_make_playground(task, context).root))


def _describe_missing_sandbox(task: Task) -> str:
    """Returns the reason why the run needs no sandbox."""
    if task.env in ("os", "hybrid"):
        return f"none: task.permission={task.permission} runs no commands"
    return "none: an episode runs no code"


def _make_thinker(name: str, agent: AgentState, seed: int, context: system.BuildContext) -> Thinker:
    rule_thinker = RuleThinker(Random(f"native/{seed}"))
    match name:
        case "native":
            return rule_thinker
        case "llm" if context.llm is not None:
            return LLMThinker(context.llm, rule_thinker)
        case "wait":
            return WaitThinker()
        case "random":
            return RandomThinker(Random(f"random/{seed}"))
        case "greedy" | "ceiling":
            world = agent.world.grid_world if isinstance(agent.world, HybridWorld) else agent.world
            if not isinstance(world, GridWorld):
                raise errors.SetupError(f"thinker={name} needs env=grid, because it reads the grid directly.")
            return PolicyThinker(world.grid, grid.GreedyPolicy(seed) if name == "greedy" else grid.OraclePolicy())
        case _:
            raise errors.SetupError("thinker=llm needs an LLM. Pass --llm MODEL, or set thinker=native.")
