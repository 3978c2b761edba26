"""Puts a run of lives together from its settings."""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

from atoll import cluster, errors, executor, function, playbook, store, system
from atoll.candidate import JSON
from atoll.survival import grid, results, together
from atoll.survival.config import Options, Task
from atoll.survival.episodes import Episodes, Experience, Live, curate, judge, world_seed
from atoll.survival.life import Life, Living
from atoll.survival.loop import Roles
from atoll.survival.mind import Mind, Temper
from atoll.survival.reins import Reins, Telling
from atoll.survival.roles.presenter import Presenter
from atoll.survival.roles.sketch import Sketch
from atoll.survival.thinkers.fixed import Dice, Policy, Waiting
from atoll.survival.thinkers.model import Modelled
from atoll.survival.thinkers.native import Native
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds import own
from atoll.survival.worlds.commands import Jailed, Runner
from atoll.survival.worlds.crafters import CrafterWorld
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.hybrid import HybridWorld
from atoll.survival.worlds.machine import MachineWorld
from atoll.survival.worlds.minigrids import MiniGridWorld
from atoll.survival.worlds.playground import Playground
from atoll.survival.worlds.table import Table
from atoll.survival.worlds.world import World

__all__ = ["Options", "Task", "build", "discover", "rehearse"]

FILE = "atoll.toml"
WATCHED_DELAY = 20.0  # seconds, as in the seed


def discover(folder: Path) -> Mapping[str, Any] | None:
    """Returns what a folder of this system implies: one life after the other, since each learns from the last."""
    file = folder / FILE
    if not file.is_file():
        return None
    try:
        named = tomllib.loads(file.read_text(encoding="utf-8")).get("system")
    except (OSError, ValueError):
        return None
    return {"run": {"workers": 1, "window": 1}} if named == "survival" else None


def build(task: Task, options: Options, parts: system.Parts) -> system.Built:
    """Makes the parts of a run."""
    name = _name(options, parts)
    runner = _runner(task, parts)
    make_world = _worlds(task, parts, runner)
    if name == "llm" and parts.llm is None:
        raise errors.SetupError("thinker=llm needs a model: give one with --llm, or take thinker=native.")
    first = make_world()  # a wrong set-up shows now
    first.close()
    presenter, experience = Presenter(), Experience()
    living = make_living(name, options, parts, is_shared=task.share_playground)
    engine = Episodes(_lives(task, parts, make_world), living, parts.bodies, presenter, parts.seed)
    start = function.Text(playbook.Playbook().dump())
    initial = function.DefaultFunction(function.DefaultFunctionProps(start, judge=judge(living.curator)))
    versions = parts.versions or store.MemoryVersions()

    def make_pool(island: int, rng: Random, announce: Any) -> cluster.Head:
        run = parts.run()
        return cluster.Head(versions, f"playbook/{run}", initial, function.Text, run=run)

    islands = cluster.IslandConfig(1, 1, initial, engine, gate=curate, make_pool=make_pool)
    config = cluster.EvolverConfig(islands, reset_period=None, learner=experience)
    is_crafter = task.env == "crafter"
    return system.Built(
        config,
        _report(first, name, living),
        [file for file in [own.path_of(task.env, parts.folder)] if file],
        runner.level if runner else _unjailed(task),
        runner.close if runner else lambda: None,
        lambda evolver: results.summed(experience.lives, is_crafter=is_crafter),
        use_profiler=presenter.use_profiler,
    )


def rehearse(task: Task, options: Options, seed: int, episodes: int) -> Iterator[Life]:
    """Yields the lives that a run with this seed would have, without a kernel and without a store."""
    parts = system.Parts(Path(), None, executor.Place(), 1, seed, store.MemoryBlobs())
    living, live = make_living(_name(options, parts), options, parts), _lives(task, parts, _worlds(task, parts))
    book, state = playbook.Playbook(), dict[str, Any]()
    for episode in range(1, episodes + 1):
        life = live(living, book, state, world_seed(seed, episode), episode)
        book, state = life.book, dict(life.state)
        yield life


def make_living(name: str, options: Options, parts: system.Parts, *, is_shared: bool = False) -> Living:
    """Returns how lives are lived under some settings."""
    is_learning = name in ("native", "llm")
    feels = (options.playbook and is_learning, options.fear, options.curiosity)
    return Living(
        playbook.Curator(_playbook_config(options)),
        lambda mind, seed: Roles(_thinker(name, mind, seed, parts), sketch=Sketch(is_shared=is_shared)),
        Temper(*feels, options.danger_threshold, options.exploration_bonus),
        options.horizon,
        options.max_turns,
        name == "llm",
        reins=Reins(parts.contact, tick_delay(name, options, parts)),
        telling=Telling(options.log_detail, options.notifications),
    )


def tick_delay(name: str, options: Options, parts: system.Parts) -> float:
    """Returns the seconds between turns: as set, else enough to read along where a model plans and somebody watches."""
    if options.tick_delay is not None:
        return options.tick_delay
    return WATCHED_DELAY if name == "llm" and parts.has_dashboard else 0.0


def _name(options: Options, parts: system.Parts) -> str:
    return options.thinker or ("llm" if parts.llm is not None else "native")


def _report(world: World, name: str, living: Living) -> dict[str, JSON]:
    temper = living.temper
    switches = {"playbook": temper.has_playbook, "fear": temper.has_fear, "curiosity": temper.has_curiosity}
    limit = f"over {temper.danger_threshold:g} the engine stops or evades"
    return {
        "world": world.name,
        "thinker": name,
        **{each: "on" if is_on else "off" for each, is_on in switches.items()},
        "forecast": f"damage within {living.horizon} ticks; {limit}",
    }


def _playbook_config(options: Options) -> playbook.Config:
    return playbook.Config(
        max_tokens=options.playbook_max_tokens,
        max_sections=options.playbook_max_sections,
        refine_interval=options.refine_interval,
        context_limit=options.playbook_context_limit,
        context_chars=options.playbook_context_chars,
    )


def _worlds(task: Task, parts: system.Parts, runner: Runner | None = None) -> Callable[[], World]:
    """Returns what makes the world that a task names.

    Raises:
        SetupError: There is none of that name.
    """
    family = parts.seed if task.family is None else task.family
    match task.env.partition(":"):
        case ("grid", _, ""):
            return lambda: GridWorld(task.world, family)
        case ("crafter", _, ""):
            return CrafterWorld
        case ("minigrid", _, id) if id:
            return lambda: MiniGridWorld(id)
        case ("os", _, ""):
            return lambda: MachineWorld(_playground(task, parts), runner)
        case ("hybrid", _, ""):
            return lambda: HybridWorld(GridWorld(task.world, family), _playground(task, parts), runner)
        case _ if own.path_of(task.env, parts.folder):
            return own.make(task.env, parts.folder)
        case _:
            raise errors.SetupError(
                f"There is no env {task.env!r:.60}: there are grid, minigrid:ID, crafter, os, hybrid and file.py:Name."
            )


def _lives(task: Task, parts: system.Parts, make_world: Callable[[], World]) -> Live:
    """Returns how a step lives: alone, or as many as there are agents in one world of the grid.

    Raises:
        SetupError: There are several agents and the world is no grid.
    """
    if task.agents > 1 and task.env != "grid":
        raise errors.SetupError(f"task.agents is {task.agents}, and only env=grid has room for several.")

    def alone(living: Living, book: playbook.Playbook, state: Mapping[str, Any], seed: int, episode: int) -> Life:
        world = make_world()
        try:
            return living.live(world, book, state, seed=seed, episode=episode)
        finally:
            world.close()

    def several(living: Living, book: playbook.Playbook, state: Mapping[str, Any], seed: int, episode: int) -> Life:
        table = Table(task.world, parts.seed if task.family is None else task.family, task.agents)
        lives = together.live_together(living, table, task.party, book, state, seed=seed, episode=episode)
        return together.summed(lives)

    return alone if task.agents == 1 else several


def _playground(task: Task, parts: system.Parts) -> Playground:
    root = (parts.folder / task.playground).resolve()
    if not root.is_relative_to(parts.folder.resolve()) or root == parts.folder.resolve():
        raise errors.SetupError(f"task.playground is {task.playground!r:.60}: name a folder inside the task's own.")
    return Playground(root, task.permission, task.commands)


def _runner(task: Task, parts: system.Parts) -> Jailed | None:
    """Opens the jail for commands, where they may be run at all."""
    if task.env not in ("os", "hybrid") or task.permission != "run":
        return None
    return Jailed(parts.place, task.commands, str(_playground(task, parts).root))


def _unjailed(task: Task) -> str:
    """Says why there is no jail."""
    if task.env in ("os", "hybrid"):
        return f"none: task.permission={task.permission} runs no commands"
    return "none: a life runs no code"


def _thinker(name: str, mind: Mind, seed: int, parts: system.Parts) -> Thinker:
    native = Native(Random(f"native/{seed}"))
    match name:
        case "native":
            return native
        case "llm" if parts.llm is not None:
            return Modelled(parts.llm, native)
        case "wait":
            return Waiting()
        case "random":
            return Dice(Random(f"random/{seed}"))
        case "greedy" | "ceiling":
            world = mind.world.grid_world if isinstance(mind.world, HybridWorld) else mind.world
            if not isinstance(world, GridWorld):
                raise errors.SetupError(f"thinker={name} is for env=grid: it looks at the grid itself.")
            return Policy(world.grid, grid.Greedy(seed) if name == "greedy" else grid.Ceiling())
        case _:
            raise errors.SetupError("thinker=llm needs a model: give one with --llm, or take thinker=native.")
