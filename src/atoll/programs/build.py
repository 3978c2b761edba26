"""Builds the evolution of a program from its task folder."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from atoll import errors, function, llm, noise, strategies, system
from atoll.candidate import JSON
from atoll.mutation.text_blocks import START_MARKER
from atoll.programs import llm_build, program_search
from atoll.programs.config import Options, Task
from atoll.programs.evaluation import folder_text, llm_review, scoring
from atoll.programs.evaluation.cascade import SINGLE_STAGE, ScoreFunction, find_stages
from atoll.programs.evaluation.evaluator_job import CommandJob
from atoll.programs.evaluation.folder_evaluator import FolderEvaluator
from atoll.programs.openevolve import checkpoints, folder
from atoll.programs.openevolve.folder import discover
from atoll.sandbox import missing_modules

__all__ = ["Options", "Task", "build", "discover"]


def build(task: Task, options: Options, parts: system.BuildContext) -> system.BuiltSystem:
    """Makes the parts of a run. The evaluator runs only in worker processes."""
    program, evaluator = parts.folder / task.program, parts.folder / task.evaluator
    text, suffix = _read_initial(program)
    evaluator_source = "" if task.command else _read_text(evaluator, "task.evaluator")
    chosen = strategies.choose("programs", options, parts.folder)
    language = program_search.get_language(task, suffix)
    inputs = program_search.SearchInputs(text, language, task, options, parts, evaluator_source, chosen)
    search = program_search.make_program_search(inputs)
    proposer = search.proposer
    programs = checkpoints.read_programs(parts.folder / task.checkpoint) if task.checkpoint is not None else ()
    stages = find_stages(evaluator_source) if options.cascade else SINGLE_STAGE
    score_function = ScoreFunction(task.metric, task.minimize, task.features)
    hint = folder.make_environment_hint(evaluator_source, parts.executor_config.permissions.env)
    thresholds = options.cascade_thresholds
    files_of_evaluator = scoring.EvaluatorFiles(
        str(evaluator), evaluator_source, suffix, text, stages, thresholds, score_function
    )
    opened = _open_executor(task, parts, files_of_evaluator, hint)
    job_executor = opened.executor
    repeats = 1 if task.repeats == "auto" else task.repeats
    candidate_evaluator: function.CandidateEvaluator = FolderEvaluator(
        job_executor, parts.blobs, stages, thresholds, score_function, repeats, hint, text, task.fail_on_error
    )
    if options.llm_feedback and parts.llm is not None:
        candidate_evaluator = _add_review(candidate_evaluator, options, parts, parts.llm, score_function, language)
    repeated = None
    if task.repeats == "auto" and not (options.llm_feedback and parts.llm):  # a review by an LLM costs calls
        candidate_evaluator = repeated = noise.RepeatedEvaluator(candidate_evaluator)
    files = [*_list_files(program), *(() if task.command else (evaluator,)), *chosen.files]
    if task.checkpoint is not None:
        proposer = checkpoints.CheckpointProposer(programs, proposer)
        evaluator_parts = (programs, candidate_evaluator, score_function, parts.blobs)
        candidate_evaluator = checkpoints.CheckpointEvaluator(*evaluator_parts)
        files += checkpoints.list_files(parts.folder / task.checkpoint)
    props = function.DefaultFunctionProps(function.Text(text), candidate_evaluator=candidate_evaluator)
    novelty_filter = checkpoints.CheckpointFilter(program_search.make_novelty_filter(inputs))
    prefilter = novelty_filter if parts.llm else None
    report = _build_report(search, stages, opened)
    report |= chosen.report | _build_remarks(task, options, parts, hint)
    return system.BuiltSystem(
        search.make_config(function.DefaultFunction(props), proposer, prefilter),
        report,
        files,
        job_executor.level,
        job_executor.close,
        baseline_proposer=search.llm_proposer,
        is_free=search.policy is not None,
        repeated=repeated,
    )


def _build_report(
    search: program_search.ProgramSearch, stages: Sequence[str], opened: scoring.OpenedEvaluator
) -> dict[str, JSON]:
    task, options, parts = search.inputs.task, search.inputs.options, search.inputs.parts
    num_islands, make_population = search.num_islands, search.make_population
    interval = program_search.get_migrate_every(options, num_islands)
    is_marked = START_MARKER in search.inputs.text
    islands: JSON = num_islands
    if search.policy and options.max_islands and options.max_islands > num_islands:
        islands = f"{num_islands}; config.yaml allows {options.max_islands}, more pay only in longer runs"
    return {
        "program": task.program,
        "scope": "" if is_marked or not search.inputs.is_python else f"the whole program: it has no {START_MARKER}",
        "description": task.description,
        "engine": _describe_mutator(options, parts.llm),
        "islands": islands,
        "parents": 1 if search.policy else make_population.num_parents,
        "population": "leader" if search.policy else options.population or make_population.kind,
        "workers": parts.workers,
        "evaluator": opened.scoring,
        "visible": opened.visible,
        "stages": ", ".join(stages) if len(stages) > 1 else "",
        "migration": f"the best of each island every {interval} iterations" if interval else "never",
    }


def _build_remarks(task: Task, options: Options, parts: system.BuildContext, hint: str) -> dict[str, JSON]:
    """Returns remarks on the folder: an unused LLM, missing environment variables, keys without effect."""
    model_note = f"config.yaml names {task.model}, which is not used: pass --llm config to use it"
    review_note = "none: programs.llm_feedback needs an LLM, pass --llm" if options.llm_feedback else ""
    return {
        "its model": model_note if task.model and parts.llm is None else "",
        "review": review_note if parts.llm is None else "",
        "environment": hint,
        "checkpoint": task.checkpoint or "",
        "notes": "\n".join(task.notes),
    }


def _add_review(
    evaluator: function.CandidateEvaluator,
    options: Options,
    parts: system.BuildContext,
    model: llm.LLM,
    score_function: ScoreFunction,
    language: str,
) -> function.CandidateEvaluator:
    review_options = (
        options.llm_feedback_prompt,
        options.llm_feedback_weight,
        llm_build.read_templates(options, parts.folder),
    )
    return llm_review.LLMReviewedEvaluator(evaluator, model, parts.blobs, score_function, language, *review_options)


def _open_executor(
    task: Task, parts: system.BuildContext, files: scoring.EvaluatorFiles, hint: str
) -> scoring.OpenedEvaluator:
    """Opens the executor of the evaluator: a Python file, or a command that the sandbox then allows to start."""
    if not task.command:
        try:
            return scoring.open_evaluator(files, parts.executor_config)
        except errors.SetupError as error:
            note = f" ({hint})" if hint and "KeyError" in str(error) else ""
            remedy = missing_modules.describe_missing(str(error))
            raise errors.SetupError(f"{error}{note} {remedy}".rstrip()) from error
    executable = shutil.which(task.command[0], path=f"{parts.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if executable is None:
        raise errors.SetupError(f"Program {task.command[0]} of task.command not found: install it, or change the key.")
    arguments = [executable, *(_resolve_word(parts.folder, word) for word in task.command[1:])]
    read_paths = [word for word in arguments[1:] if os.path.exists(word)]
    permissions = parts.executor_config.permissions
    extended = replace(
        permissions, programs=(*permissions.programs, executable), read_paths=(*permissions.read_paths, *read_paths)
    )
    job = partial(CommandJob, arguments, files.suffix)
    opened = replace(parts.executor_config, permissions=extended).open(job)
    return scoring.OpenedEvaluator(opened, system.SHARED_SANDBOX_RISK)


def _resolve_word(folder: Path, word: str) -> str:
    """Returns the path if the word names a file of the task folder, otherwise the word."""
    return str(folder / word) if (folder / word).is_file() else word


def _read_initial(program: Path) -> tuple[str, str]:
    """Returns the initial program as a text, and the suffix of its file or folder."""
    if not program.is_dir():
        return _read_text(program, "task.program"), program.suffix
    try:
        return folder_text.join_files(str(program)), folder_text.FOLDER
    except (ValueError, OSError) as error:
        raise errors.SetupError(f"Folder {program} cannot be used as a program: {error}.") from error


def _list_files(program: Path) -> Sequence[Path]:
    return [program / path for path in folder_text.list_paths(str(program))] if program.is_dir() else [program]


def _read_text(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"{path} cannot be read: set {key} to a text file.") from error


def _describe_mutator(options: Options, model: llm.LLM | None) -> str:
    if model is None:
        return "syntax and tuner, no LLM"
    if llm_build.uses_leader(options):
        return "LLM, diffs and full rewrites" if options.diff_based_evolution else "LLM, full rewrites"
    return "LLM, diffs" if options.diff_based_evolution else "LLM, full rewrites"
