"""Puts the evolution of a program together from its folder."""

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

from atoll import cluster, errors, executor, function, llm, mutation, system
from atoll.programs.config import Options, Task, discover
from atoll.programs.evaluator import Commanding, Evaluating
from atoll.programs.judge import FolderJudge
from atoll.programs.stages import WHOLE, Measure, stages_of

__all__ = ["Options", "Task", "build", "discover"]

LANGUAGES = {".py": "python", ".rs": "rust", ".r": "r", ".R": "r", ".txt": "text", ".md": "text", ".js": "javascript"}


def build(task: Task, options: Options, parts: system.Parts) -> system.Built:
    """Makes the parts of a run; the evaluator is run in the workers only."""
    program, evaluator = parts.folder / task.program, parts.folder / task.evaluator
    text = _text(program, "task.program")
    judging = "" if task.command else _text(evaluator, "task.evaluator")
    engine = _engine(text, task, program.suffix, parts.llm)
    place = _open(task, parts, judging, program.suffix)
    stages = stages_of(judging) if options.cascade else WHOLE
    measure = Measure(task.metric, task.minimize, task.features)
    judge = FolderJudge(place, parts.bodies, stages, options.cascade_thresholds, measure, task.repeats)
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text(text), judge=judge))
    islands = cluster.IslandConfig(
        options.num_islands, options.num_parents, initial, engine, make_pool=partial(_make_pool, options.num_parents)
    )
    interval = options.migration_interval
    every = interval * options.num_islands if interval else None
    schedule = cluster.RoundRobin(options.num_islands, migrate_every=every)
    report = {
        "program": task.program,
        "description": task.description,
        "engine": "syntax and tuner, no LLM" if parts.llm is None else "LLM, full rewrites",
        "islands": options.num_islands,
        "parents": options.num_parents,
        "workers": parts.workers,
        "evaluator": system.BESIDE,
        "stages": ", ".join(stages) if len(stages) > 1 else "",
        "migration": f"the best of each island every {every} steps" if every else "never",
    }
    config = cluster.EvolverConfig(islands, schedule=schedule, learner=engine.learner)
    files = [program] if task.command else [program, evaluator]
    return system.Built(config, report, files, place.level, place.close)


def _open(task: Task, parts: system.Parts, judging: str, suffix: str) -> executor.Local:
    """Opens the place where the evaluator runs: its file, or a command, whose program the jail then lets start."""
    if not task.command:
        evaluator = parts.folder / task.evaluator
        return parts.place.open(partial(Evaluating, str(evaluator), suffix), judging, str(evaluator.parent))
    found = shutil.which(task.command[0], path=f"{parts.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if found is None:
        raise errors.SetupError(f"There is no program {task.command[0]}, which task.command names: install it.")
    words = [found, *(_beside(parts.folder, word) for word in task.command[1:])]
    reads = [word for word in words[1:] if os.path.exists(word)]
    profile = parts.place.profile
    wider = replace(profile, programs=(*profile.programs, found), reads=(*profile.reads, *reads))
    return replace(parts.place, profile=wider).open(partial(Commanding, words, suffix))


def _beside(folder: Path, word: str) -> str:
    """Returns the path of a word that names a file of the task, else the word."""
    return str(folder / word) if (folder / word).is_file() else word


def _text(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"{path} cannot be read: {key} must name a text file.") from error


def _engine(text: str, task: Task, suffix: str, model: llm.LLM | None) -> mutation.Mixed:
    language = LANGUAGES.get(suffix, suffix.lstrip(".") or "text")
    if model is not None:
        ask = partial(mutation.program_prompt, task_description=task.description, language=language)
        rewrite = mutation.Rewrite(model, ask, partial(mutation.fenced_code, language=language))
        return mutation.mixed_with(rewrite, text, "rewrite")
    if suffix != ".py" or not mutation.can_rewrite(text):
        raise errors.SetupError(
            f"{task.program} is no Python that the syntax engine can change: give a model with --llm."
        )
    return mutation.without_llm(text)


def _make_pool(num_parents: int, island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
    return cluster.Niches(
        cluster.by_signature,
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.RankChooser(rng),
        num_parents=num_parents,
    )
