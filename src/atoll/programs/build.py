"""Builds the evolution of a program from its task folder."""

import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from atoll import archipelago, cluster, errors, executor, function, llm, mutation, strategies, system
from atoll.candidate import JSON
from atoll.programs import llm_build, prompt
from atoll.programs.config import Options, Task
from atoll.programs.evaluation import folder_text, llm_review
from atoll.programs.evaluation.cascade import SINGLE_STAGE, ScoreFunction, find_stages
from atoll.programs.evaluation.evaluator_job import CommandJob, FunctionJob
from atoll.programs.evaluation.folder_evaluator import FolderEvaluator
from atoll.programs.learners import AttemptHistory, CombinedLearner
from atoll.programs.openevolve import checkpoints, folder
from atoll.programs.openevolve.folder import discover
from atoll.programs.population import population
from atoll.programs.population.features import DEFAULT_FEATURES
from atoll.programs.population.leader import LeaderSearch
from atoll.programs.population.novelty import DuplicateTagger, NoveltyFilter, ProgramIndex
from atoll.programs.population.policy_settings import choose_window


@dataclass(frozen=True, slots=True)
class LengthLimit:
    """A proposer that drops children above a maximum length.

    Attributes:
        proposer: Makes the children.
        max_length: Maximum length, in `unit`.
        measure: Returns the length of a text.
        unit: Unit of the length, for messages.
        rule: Setting that sets the limit, for messages.
    """

    proposer: function.Proposer
    max_length: int
    measure: Callable[[str], int] = len
    unit: str = "characters"
    rule: str = "max_code_length is"

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children within the limit.

        Raises:
            ValueError: All children are too long.
        """
        children = self.proposer.propose(context)
        short_enough = [child for child in children if self.measure(str(child.skeleton())) <= self.max_length]
        if children and not short_enough:
            length = min(self.measure(str(child.skeleton())) for child in children)
            raise ValueError(f"the program has {length} {self.unit}; {self.rule} {self.max_length}.")
        return short_enough


__all__ = ["Options", "Task", "build", "discover"]

_DEFAULT_ISLANDS = 5
LANGUAGES = {
    ".py": "python",
    ".rs": "rust",
    ".r": "r",
    ".R": "r",
    ".txt": "text",
    ".md": "text",
    ".js": "javascript",
    folder_text.FOLDER: llm_build.FILES_LANGUAGE,
}


def build(task: Task, options: Options, parts: system.BuildContext) -> system.BuiltSystem:
    """Makes the parts of a run. The evaluator runs only in worker processes."""
    program, evaluator = parts.folder / task.program, parts.folder / task.evaluator
    text, suffix = _read_initial(program)
    evaluator_source = "" if task.command else _read_text(evaluator, "task.evaluator")
    chosen = strategies.choose("programs", options, parts.folder)
    is_python, language = suffix == ".py", _get_language(task, suffix)
    search = (
        llm_build.make_search(text, options, parts, language) if llm_build.uses_leader(options, parts.llm) else None
    )
    num_islands = _choose_num_islands(options, search)
    threshold = options.similarity_threshold
    program_index = ProgramIndex(text, is_python=is_python, threshold=threshold) if parts.llm else None
    mutator = _make_mutator(text, task, options, suffix, parts, chosen.mutator, evaluator_source, program_index)
    proposer = _limit_length(DuplicateTagger(mutator, program_index) if program_index else mutator, options)
    programs = checkpoints.read_programs(parts.folder / task.checkpoint) if task.checkpoint is not None else ()
    job_executor = _open_executor(task, parts, evaluator_source, suffix)
    stages = find_stages(evaluator_source) if options.cascade else SINGLE_STAGE
    score_function = ScoreFunction(task.metric, task.minimize, task.features)
    hint = folder.make_environment_hint(evaluator_source, parts.executor_config.permissions.env)
    thresholds = options.cascade_thresholds
    candidate_evaluator: function.CandidateEvaluator = FolderEvaluator(
        job_executor, parts.blobs, stages, thresholds, score_function, task.repeats, hint
    )
    if options.llm_feedback and parts.llm is not None:
        candidate_evaluator = _add_review(candidate_evaluator, options, parts, parts.llm, score_function, language)
    files = [*_list_files(program), *(() if task.command else (evaluator,)), *chosen.files]
    if task.checkpoint is not None:
        proposer = checkpoints.CheckpointProposer(programs, proposer)
        evaluator_parts = (programs, candidate_evaluator, score_function, parts.blobs)
        candidate_evaluator = checkpoints.CheckpointEvaluator(*evaluator_parts)
        files += checkpoints.list_files(parts.folder / task.checkpoint)
    props = function.DefaultFunctionProps(function.Text(text), candidate_evaluator=candidate_evaluator)
    initial = function.DefaultFunction(props)
    num_parents = options.num_parents or (2 if parts.llm is None else 1)
    novelty_filter = checkpoints.CheckpointFilter(NoveltyFilter(is_python, options.similarity_threshold))
    make_population = _make_population_factory(task, options, num_parents, parts.llm, chosen)
    prefilter = novelty_filter if parts.llm else None
    islands = cluster.IslandConfig(
        num_islands,
        1 if search else num_parents,
        initial,
        proposer,
        prefilter=prefilter,
        gate=chosen.make_gate(),
        make_population=search.make_population if search else chosen.make_population(num_parents) or make_population,
    )
    config = cluster.EvolverConfig(
        islands,
        schedule=_make_schedule(options, num_islands, parts.seed, chosen.schedule),
        learner=_make_learner(mutator, options, program_index, search),
        window=choose_window(llm_build.count_calls(parts)) if search else None,
    )
    llm_proposer = None if parts.llm is None else _limit_length(_get_llm_mutator(mutator), options)
    report = _build_report(task, options, parts, stages, make_population, num_islands, search)
    report |= chosen.report | _build_remarks(task, options, parts, hint)
    return system.BuiltSystem(
        config,
        report,
        files,
        job_executor.level,
        job_executor.close,
        baseline_proposer=llm_proposer,
        is_free=search is not None,
    )


def _get_llm_mutator(mutator: mutation.MixedMutator) -> function.Proposer:
    """Returns the mutator that makes one LLM call, without the tuner."""
    proposer = next(iter(mutator.mutators.values()))
    return proposer.mutator if isinstance(proposer, mutation.BestTuner) else proposer


def _choose_num_islands(options: Options, search: LeaderSearch | None) -> int:
    if options.num_islands is not None:
        return options.num_islands
    if search is not None:
        return min(search.settings.num_islands, options.max_islands or search.settings.num_islands)
    return options.max_islands or _DEFAULT_ISLANDS


def _get_migrate_every(options: Options, num_islands: int) -> int | None:
    """Returns the iterations of the run between migrations; the setting counts iterations per island."""
    return options.migration_interval * num_islands if options.migration_interval and num_islands > 1 else None


def _make_schedule(
    options: Options, num_islands: int, seed: int, chosen: strategies.Strategy | None
) -> archipelago.Schedule:
    select_emigrants = population.make_emigrant_selector(options.migration_rate)
    make_schedule = cluster.RoundRobin if chosen is None else partial(chosen.make, seed=seed)
    schedule: archipelago.Schedule = make_schedule(
        num_islands, migrate_every=_get_migrate_every(options, num_islands), select_emigrants=select_emigrants
    )
    return schedule


def _build_report(
    task: Task,
    options: Options,
    parts: system.BuildContext,
    stages: Sequence[str],
    make_population: population.PopulationFactory,
    num_islands: int,
    search: LeaderSearch | None,
) -> dict[str, JSON]:
    interval = _get_migrate_every(options, num_islands)
    islands: JSON = num_islands
    if search and options.max_islands and options.max_islands > num_islands:
        islands = f"{num_islands}; config.yaml allows {options.max_islands}, more pay only in longer runs"
    return {
        "program": task.program,
        "description": task.description,
        "engine": _describe_mutator(options, parts.llm),
        "islands": islands,
        "parents": 1 if search else make_population.num_parents,
        "population": "leader" if search else options.population or make_population.kind,
        "workers": parts.workers,
        "evaluator": system.SHARED_SANDBOX_RISK,
        "stages": ", ".join(stages) if len(stages) > 1 else "",
        "migration": f"the best of each island every {interval} iterations" if interval else "never",
    }


def _limit_length(proposer: function.Proposer, options: Options) -> function.Proposer:
    if options.prompt_tokens is not None:  # a longer program would not fit into the next prompt
        max_tokens = options.prompt_tokens - llm_build.RESERVED_TOKENS
        proposer = LengthLimit(proposer, max_tokens, prompt.estimate_tokens, "tokens", "prompt_tokens leaves room for")
    return LengthLimit(proposer, options.max_code_length) if options.max_code_length else proposer


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


def _get_language(task: Task, suffix: str) -> str:
    if suffix == folder_text.FOLDER:
        return llm_build.FILES_LANGUAGE
    return task.language or LANGUAGES.get(suffix, suffix.lstrip(".") or "text")


def _open_executor(
    task: Task, parts: system.BuildContext, evaluator_source: str, suffix: str
) -> executor.LocalExecutor:
    """Opens the executor of the evaluator: a Python file, or a command that the sandbox then allows to start."""
    if not task.command:
        evaluator = parts.folder / task.evaluator
        job = partial(FunctionJob, str(evaluator), suffix)
        try:
            return parts.executor_config.open(job, evaluator_source, str(evaluator.parent))
        except errors.SetupError as error:
            missing = folder.make_environment_hint(evaluator_source, parts.executor_config.permissions.env)
            hint = f" ({missing})" if missing and "KeyError" in str(error) else ""
            raise errors.SetupError(f"{error}{hint}") from error
    executable = shutil.which(task.command[0], path=f"{parts.folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if executable is None:
        raise errors.SetupError(f"Program {task.command[0]} of task.command not found: install it, or change the key.")
    arguments = [executable, *(_resolve_word(parts.folder, word) for word in task.command[1:])]
    read_paths = [word for word in arguments[1:] if os.path.exists(word)]
    permissions = parts.executor_config.permissions
    extended = replace(
        permissions, programs=(*permissions.programs, executable), read_paths=(*permissions.read_paths, *read_paths)
    )
    return replace(parts.executor_config, permissions=extended).open(partial(CommandJob, arguments, suffix))


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
    if llm_build.uses_leader(options, model):
        return "LLM, diffs and full rewrites" if options.diff_based_evolution else "LLM, full rewrites"
    return "LLM, diffs" if options.diff_based_evolution else "LLM, full rewrites"


def _make_learner(
    mutator: mutation.MixedMutator, options: Options, program_index: ProgramIndex | None, search: LeaderSearch | None
) -> function.Learner | None:
    """Returns the learner; with an LLM it also holds the history of attempts."""
    if program_index is None:
        return mutator.learner
    history = search or AttemptHistory(options.num_attempts)
    return CombinedLearner([learner for learner in (mutator.learner, history, program_index) if learner])


def _make_mutator(
    text: str,
    task: Task,
    options: Options,
    suffix: str,
    parts: system.BuildContext,
    chosen: strategies.Strategy | None,
    evaluator_source: str,
    program_index: ProgramIndex | None,
) -> mutation.MixedMutator:
    if chosen is not None:
        return mutation.MixedMutator({chosen.name: chosen.make(text, parts.llm)})
    if parts.llm is not None and program_index is not None:
        language = _get_language(task, suffix)
        llm_mutator = llm_build.make_llm_mutator(
            task, options, language, parts, parts.llm, evaluator_source, text, program_index
        )
        if llm_build.uses_leader(options, parts.llm):
            return llm_build.mix_mutators(llm_mutator, text, options, language, parts)
        return mutation.add_tuner(llm_mutator, text, llm_mutator.mode, options.engine_weights)
    if suffix != ".py" or not (mutation.is_mutable(text) or mutation.find_choices(text)):
        raise errors.SetupError(
            f"{task.program} is not Python that the syntax mutator can change: pass an LLM with --llm."
        )
    return mutation.make_default_mutator(text, weights=options.engine_weights)


def _make_population_factory(
    task: Task, options: Options, num_parents: int, model: llm.LLM | None, chosen: strategies.Chosen
) -> population.PopulationFactory:
    """Makes the factory of populations. As in OpenEvolve, a grid has at least as many cells as the archive.

    Only an LLM uses inspirations.
    """
    features, bins = task.features or DEFAULT_FEATURES, options.feature_bins
    requested_bins = bins if isinstance(bins, int) else max(bins.values(), default=2)
    min_bins = math.ceil(options.archive_size ** (1 / len(features)))
    ratios = population.SelectionRatios(options.exploration_ratio, options.exploitation_ratio, options.archive_size)
    default_kind: population.PopulationKind = "grid" if model else "clusters"
    own_kind: Any = chosen.population.name if chosen.population and chosen.population.factory is None else None
    return population.PopulationFactory(
        own_kind or default_kind,
        num_parents,
        features,
        2 * math.ceil(max(requested_bins, min_bins, 2) / 2),
        options.diversity_reference_size,
        ratios,
        options.num_top_programs if model else 0,
        options.num_diverse_programs if model else 0,
        lambda name, value: -value if task.minimize and name == task.metric else value,
        chosen.selector.make if chosen.selector else None,
    )
