"""Puts a run of lives together from its settings."""

import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from atoll import cluster, errors, function, playbook, store, system
from atoll.candidate import JSON
from atoll.survival import grid, results
from atoll.survival.config import Options, Task
from atoll.survival.episodes import Episodes, Experience, curate, judge
from atoll.survival.life import Living
from atoll.survival.loop import Roles
from atoll.survival.mind import Mind, Temper
from atoll.survival.roles.presenter import Presenter
from atoll.survival.thinkers.fixed import Dice, Policy, Waiting
from atoll.survival.thinkers.native import Native
from atoll.survival.thinkers.thinker import Thinker
from atoll.survival.worlds.crafters import CrafterWorld
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.minigrids import MiniGridWorld
from atoll.survival.worlds.world import World

__all__ = ["Options", "Task", "build", "discover"]

FILE = "atoll.toml"


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
    name = options.thinker or ("llm" if parts.llm is not None else "native")
    make_world = _worlds(task, options, parts)
    make_world().close()  # a wrong set-up shows now
    curator = playbook.Curator(_playbook_config(options))
    presenter = Presenter()
    learned = name in ("native", "llm")
    temper = Temper(
        options.playbook and learned,
        options.fear,
        options.curiosity,
        options.danger_threshold,
        options.exploration_bonus,
    )
    living = Living(
        curator,
        lambda mind, seed: Roles(_thinker(name, mind, seed, parts)),
        temper,
        options.horizon,
        options.max_turns,
        name == "llm",
        pause=_pause(options.tick_delay),
    )
    engine = Episodes(make_world, living, parts.bodies, presenter, parts.seed)
    initial = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(playbook.Playbook().dump()), judge=judge(curator))
    )
    experience = Experience()
    versions = parts.versions or store.MemoryVersions()

    def make_pool(island: int, rng: Random, announce: Any) -> cluster.Head:
        run = parts.run()
        return cluster.Head(versions, f"playbook/{run}", initial, function.Text, run=run)

    islands = cluster.IslandConfig(1, 1, initial, engine, gate=curate, make_pool=make_pool)
    config = cluster.EvolverConfig(islands, reset_period=None, learner=experience)
    report: dict[str, JSON] = {
        "world": make_world().name,
        "thinker": name,
        "playbook": "on" if temper.has_playbook else "off",
        "fear": "on" if options.fear else "off",
        "curiosity": "on" if options.curiosity else "off",
        "forecast": f"damage within {options.horizon} ticks; over {options.danger_threshold:g} the engine evades",
    }
    is_crafter = task.env == "crafter"
    return system.Built(
        config,
        report,
        [],
        "none: a life runs no code of its own",
        lambda: None,
        lambda evolver: results.summed(experience.lives, is_crafter=is_crafter),
        presenter.use_profiler,
    )


def _playbook_config(options: Options) -> playbook.Config:
    return playbook.Config(
        max_tokens=options.playbook_max_tokens,
        max_sections=options.playbook_max_sections,
        refine_interval=options.refine_interval,
        context_limit=options.playbook_context_limit,
        context_chars=options.playbook_context_chars,
    )


def _pause(seconds: float) -> Callable[[], None]:
    return (lambda: time.sleep(seconds)) if seconds else (lambda: None)


def _worlds(task: Task, options: Options, parts: system.Parts) -> Callable[[], World]:
    """Returns what makes the world that a task names.

    Raises:
        SetupError: There is none of that name.
    """
    family = parts.seed if task.family is None else task.family
    match task.env.partition(":"):
        case ("grid", _, ""):
            return lambda: GridWorld(task.world, family)
        case ("crafter", _, ""):
            return lambda: CrafterWorld()
        case ("minigrid", _, id) if id:
            return lambda: MiniGridWorld(id)
        case _:
            raise errors.SetupError(
                f"There is no env {task.env!r:.60}: there are grid, minigrid:ID, crafter, os and hybrid."
            )


def _thinker(name: str, mind: Mind, seed: int, parts: system.Parts) -> Thinker:
    match name:
        case "native":
            return Native(Random(f"native/{seed}"))
        case "wait":
            return Waiting()
        case "random":
            return Dice(Random(f"random/{seed}"))
        case "greedy" | "ceiling":
            world = mind.world
            if not isinstance(world, GridWorld):
                raise errors.SetupError(f"thinker={name} is for env=grid: it looks at the grid itself.")
            return Policy(world.grid, grid.Greedy(seed) if name == "greedy" else grid.Ceiling())
        case _:
            raise errors.SetupError("thinker=llm needs a model: give one with --llm, or take thinker=native.")
