"""Puts the evolution of a program together from its folder."""

import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from atoll import cluster, errors, executor, function, llm, mutation, system
from atoll.candidate import JSON
from atoll.programs import bounds, bundle, checkpoints, pool, prompt, review, surroundings
from atoll.programs.attempts import Attempts
from atoll.programs.config import Options, Task
from atoll.programs.evaluator import Commanding, Evaluating
from atoll.programs.features import USUAL
from atoll.programs.folder import discover
from atoll.programs.judge import FolderJudge
from atoll.programs.known import Known, Noting
from atoll.programs.learners import Together
from atoll.programs.novelty import Novel
from atoll.programs.stages import WHOLE, Measure, stages_of

__all__ = ["Options", "Task", "build", "discover"]

LANGUAGES = {
    ".py": "python",
    ".rs": "rust",
    ".r": "r",
    ".R": "r",
    ".txt": "text",
    ".md": "text",
    ".js": "javascript",
    bundle.FOLDER: "files",
}

_SEVERAL = LANGUAGES[bundle.FOLDER]
ROOM, ROOM_TOKENS = 4_000, 2_000  # characters and tokens of a prompt that are never the program's


def build(task: Task, options: Options, parts: system.Parts) -> system.Built:
    """Makes the parts of a run; the evaluator is run in the workers only."""
    program, evaluator = parts.folder / task.program, parts.folder / task.evaluator
    text, suffix = _start(program)
    judging = "" if task.command else _text(evaluator, "task.evaluator")
    mixed = _engine(text, task, options, suffix, parts)
    is_python = suffix == ".py"
    known = Known(text, is_python=is_python, threshold=options.similarity_threshold) if parts.llm else None
    engine = _bounded(Noting(mixed, known) if known else mixed, options)
    programs = checkpoints.read(parts.folder / task.checkpoint) if task.checkpoint is not None else ()
    place = _open(task, parts, judging, suffix)
    stages = stages_of(judging) if options.cascade else WHOLE
    measure = Measure(task.metric, task.minimize, task.features)
    hint = surroundings.hint(judging, parts.place.profile.env)
    thresholds = options.cascade_thresholds
    judge: function.Judge = FolderJudge(place, parts.bodies, stages, thresholds, measure, task.repeats, hint)
    if options.llm_feedback and parts.llm is not None:
        judge = _reviewed(judge, options, parts, parts.llm, measure, suffix)
    files = [*_files(program), *(() if task.command else (evaluator,))]
    if task.checkpoint is not None:
        engine = checkpoints.Imported(programs, engine)
        judge = checkpoints.Remembering(programs, judge, measure, parts.bodies)
        files += checkpoints.files_of(parts.folder / task.checkpoint)
    initial = function.DefaultFunction(function.DefaultFunctionProps(function.Text(text), judge=judge))
    num_parents = options.num_parents or (2 if parts.llm is None else 1)
    novel = checkpoints.Unscreened(Novel(is_python, options.similarity_threshold))
    shelf = _shelf(task, options, num_parents, parts.llm)
    screen = novel if parts.llm else None
    islands = cluster.IslandConfig(options.num_islands, num_parents, initial, engine, screen=screen, make_pool=shelf)
    config = cluster.EvolverConfig(islands, schedule=_schedule(options), learner=_learner(mixed, options, known))
    plain = None if parts.llm is None else _bounded(next(iter(mixed.engines.values())), options)
    report = _report(task, options, parts, stages, shelf) | _remarks(task, options, parts, hint)
    return system.Built(config, report, files, place.level, place.close, plain=plain)


def _migrate_every(options: Options) -> int | None:
    """Returns after how many steps of the run programs migrate: an interval counts the steps of each island."""
    return options.migration_interval * options.num_islands if options.migration_interval else None


def _schedule(options: Options) -> cluster.RoundRobin:
    emigrants = pool.emigrants(options.migration_rate)
    return cluster.RoundRobin(options.num_islands, migrate_every=_migrate_every(options), emigrants=emigrants)


def _report(
    task: Task, options: Options, parts: system.Parts, stages: Sequence[str], shelf: pool.Shelf
) -> dict[str, JSON]:
    every = _migrate_every(options)
    return {
        "program": task.program,
        "description": task.description,
        "engine": _said(options, parts.llm),
        "islands": options.num_islands,
        "parents": shelf.num_parents,
        "pool": shelf.kind,
        "workers": parts.workers,
        "evaluator": system.BESIDE,
        "stages": ", ".join(stages) if len(stages) > 1 else "",
        "migration": f"the best of each island every {every} steps" if every else "never",
    }


def _bounded(engine: function.Proposer, options: Options) -> function.Proposer:
    if options.prompt_tokens is not None:  # a longer one could never be shown again
        most = options.prompt_tokens - ROOM_TOKENS
        engine = bounds.Bounded(engine, most, prompt.tokens_of, "tokens", "prompt_tokens leaves room for")
    return bounds.Bounded(engine, options.max_code_length) if options.max_code_length else engine


def _remarks(task: Task, options: Options, parts: system.Parts, hint: str) -> dict[str, JSON]:
    """Returns what is to be said of the folder: a model that is not asked, variables not seen, keys without effect."""
    unasked = f"config.yaml names {task.model}, which is not asked: --llm config asks it"
    silent = "none: programs.llm_feedback needs a model, --llm" if options.llm_feedback else ""
    return {
        "its model": unasked if task.model and parts.llm is None else "",
        "review": silent if parts.llm is None else "",
        "environment": hint,
        "checkpoint": task.checkpoint or "",
        "notes": "\n".join(task.notes),
    }


def _reviewed(
    judge: function.Judge, options: Options, parts: system.Parts, model: llm.LLM, measure: Measure, suffix: str
) -> function.Judge:
    language, role = LANGUAGES.get(suffix, "text"), options.llm_feedback_prompt
    return review.Reviewed(judge, model, parts.bodies, measure, language, role, options.llm_feedback_weight)


def _open(task: Task, parts: system.Parts, judging: str, suffix: str) -> executor.Local:
    """Opens the place where the evaluator runs: its file, or a command, whose program the jail then lets start."""
    if not task.command:
        evaluator = parts.folder / task.evaluator
        job = partial(Evaluating, str(evaluator), suffix)
        try:
            return parts.place.open(job, judging, str(evaluator.parent))
        except errors.SetupError as error:
            missing = surroundings.hint(judging, parts.place.profile.env)
            raise errors.SetupError(
                f"{error} ({missing})" if missing and "KeyError" in str(error) else str(error)
            ) from error
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


def _start(program: Path) -> tuple[str, str]:
    """Returns what evolves as a text, and the suffix of its file or that of a folder."""
    if not program.is_dir():
        return _text(program, "task.program"), program.suffix
    try:
        return bundle.join(str(program)), bundle.FOLDER
    except (ValueError, OSError) as error:
        raise errors.SetupError(f"The folder {program} cannot evolve: {error}.") from error


def _files(program: Path) -> Sequence[Path]:
    return [program / path for path in bundle.paths(str(program))] if program.is_dir() else [program]


def _text(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"{path} cannot be read: {key} must name a text file.") from error


def _said(options: Options, model: llm.LLM | None) -> str:
    if model is None:
        return "syntax and tuner, no LLM"
    return "LLM, diffs" if options.diff_based_evolution else "LLM, full rewrites"


def _learner(engine: mutation.Mixed, options: Options, known: Known | None) -> function.Learner | None:
    """Returns who advises the steps and learns from them; with a model that is also the memory of attempts."""
    if known is None:
        return engine.learner
    return Together([each for each in (engine.learner, Attempts(options.num_attempts), known) if each])


def _engine(text: str, task: Task, options: Options, suffix: str, parts: system.Parts) -> mutation.Mixed:
    if parts.llm is not None:
        edit = _edit(task, options, LANGUAGES.get(suffix, suffix.lstrip(".") or "text"), parts, parts.llm)
        return mutation.mixed_with(edit, text, edit.mode, options.engine_weights)
    if suffix != ".py" or not (mutation.can_rewrite(text) or mutation.choices(text)):
        raise errors.SetupError(
            f"{task.program} is no Python that the syntax engine can change: give a model with --llm."
        )
    return mutation.without_llm(text, weights=options.engine_weights)


def _edit(task: Task, options: Options, language: str, parts: system.Parts, model: llm.LLM) -> mutation.Edit:
    """Makes the engine that asks a model, with its prompts."""
    folder = parts.folder / options.template_dir if options.template_dir else None
    measured = task.metric or "combined_score"
    ask = prompt.Prompter(
        parts.bodies,
        f"{task.description}\n\n{bundle.RULE}".strip() if language == _SEVERAL else task.description,
        language,
        f"minus {measured}: less of it is better" if task.minimize else "higher is better",
        task.features or USUAL,
        prompt.Templates.read(folder, options.templates),
        options.prompt_chars,
        options.max_artifact_bytes if options.include_artifacts else 0,
        options.use_template_stochasticity,
        options.prompt_tokens,
    )
    reads = mutation.reads(options.diff_pattern) if options.diff_pattern else mutation.blocks_of
    mode: mutation.Mode = "diff" if options.diff_based_evolution else "rewrite"
    longest = options.prompt_chars - ROOM  # a longer one could never be shown again
    changes = (options.crossover, options.proposals, options.repair)
    return mutation.Edit(model, ask, language, mode, *changes, reads, longest)


def _shelf(task: Task, options: Options, num_parents: int, model: llm.LLM | None) -> pool.Shelf:
    """Makes the islands' pools; as OpenEvolve, a grid has at least as many cells as the archive.

    Only a model looks at others than the parents.
    """
    features, bins = task.features or USUAL, options.feature_bins
    asked = bins if isinstance(bins, int) else max(bins.values(), default=2)
    least = math.ceil(options.archive_size ** (1 / len(features)))
    shares = pool.Shares(options.exploration_ratio, options.exploitation_ratio, options.archive_size)
    return pool.Shelf(
        options.pool or ("grid" if model else "clusters"),
        num_parents,
        features,
        2 * math.ceil(max(asked, least, 2) / 2),
        options.diversity_reference_size,
        shares,
        options.num_top_programs if model else 0,
        options.num_diverse_programs if model else 0,
        lambda name, value: -value if task.minimize and name == task.metric else value,
    )
