"""Builds the LLM mutator of a run: prompts, reader, tuner and the search policy."""

import importlib.metadata
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from atoll import function, llm, mutation, system
from atoll.programs import prompt
from atoll.programs.config import Options, Task
from atoll.programs.evaluation import folder_text
from atoll.programs.evaluation.failures import find_error
from atoll.programs.population.leader import LeaderSearch
from atoll.programs.population.novelty import ProgramIndex
from atoll.programs.population.population import DEFAULT_FEATURES
from atoll.programs.prompt.search_prompt import SearchPromptBuilder
from atoll.programs.run_notes import NOTES_MODE, NotesMutator, RunNotes

RESERVED_CHARS, RESERVED_TOKENS = 4_000, 2_000  # of a prompt, beside the program
FILES_LANGUAGE = "files"
_MAX_EVALUATOR_TOKENS = 1_000  # a longer one distracts small LLMs
_MAX_SYNTAX_LINES = 300
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "numba", "networkx", "sympy", "torch", "ortools", "highspy")


def uses_leader(options: Options) -> bool:
    """Returns whether a run with an LLM follows the policy `leader`."""
    is_own = options.population or options.selector or options.schedule or options.mutator
    return options.policy == "leader" and not is_own


def count_calls(parts: system.BuildContext) -> int | None:
    """Returns the planned LLM calls of a run; an iteration counts as one call."""
    limits = [limit for limit in (parts.first_budget.calls, parts.first_budget.iterations) if limit is not None]
    return min(limits, default=None)


def make_search(
    text: str,
    options: Options,
    parts: system.BuildContext,
    language: str,
    make_policy: Callable[..., LeaderSearch] = LeaderSearch,
) -> LeaderSearch:
    """Makes the search policy. Mutators without an LLM get their share of iterations from `engine_weights`."""
    weights: dict[str, float] = {str(name): weight for name, weight in options.engine_weights.items()}
    engines = {}
    if _can_use_syntax(text, language) and (weight := weights.get("syntax", 0.0)) > 0:
        engines["syntax"] = weight / (weight + max(0.0, weights.get("llm", 1.0)))
    num_calls = count_calls(parts)
    notes = RunNotes(options.run_notes, num_calls)
    return make_policy(
        num_calls, find_error=find_error, can_diff=options.diff_based_evolution, engines=engines, notes=notes
    )


def _can_use_syntax(text: str, language: str) -> bool:
    return language == "python" and text.count("\n") < _MAX_SYNTAX_LINES and mutation.is_mutable(text)


def make_llm_mutator(
    task: Task,
    options: Options,
    language: str,
    parts: system.BuildContext,
    model: llm.LLM,
    evaluator_source: str,
    text: str,
    program_index: ProgramIndex,
    limits: str | None = None,
) -> mutation.EditMutator:
    """Makes the LLM mutator with its prompts.

    Args:
        limits: Limits of an evaluation in words; None: those of the sandbox.
    """
    names = mutation.find_required_names(text, evaluator_source) if language == "python" else ()
    templates = read_templates(options, parts.folder)
    make_prompt: Callable[..., Any] = _make_prompt_builder
    if uses_leader(options) and not _has_own_templates(options, parts.folder):
        make_prompt = partial(
            _make_search_prompt, names=names, evaluator_source=evaluator_source, text=text, limits=limits
        )
    parse_blocks = mutation.make_diff_parser(options.diff_pattern) if options.diff_pattern else mutation.parse_blocks
    mode: mutation.Mode = "diff" if options.diff_based_evolution else "rewrite"
    max_chars = options.prompt_chars - RESERVED_CHARS  # a longer program would not fit into the next prompt
    reader = mutation.ResponseReader(language, names, parse_blocks, max_chars)
    builder = make_prompt(task, options, language, parts, templates)
    return mutation.EditMutator(
        model,
        builder,
        reader,
        mode,
        options.crossover,
        options.proposals,
        options.repair,
        program_index.find_any_duplicate,
    )


def mix_mutators(
    llm_mutator: function.Proposer,
    task: Task,
    text: str,
    options: Options,
    language: str,
    parts: system.BuildContext,
    max_trials: int | None = None,
) -> mutation.MixedMutator:
    """Adds the mutators without an LLM. The policy chooses the mutator of each iteration.

    Args:
        max_trials: Trials of the tuner for a new best program, and none for others; None: the time decides.
    """
    weights: dict[str, float] = {str(name): weight for name, weight in options.engine_weights.items()}
    proposer = llm_mutator
    if language == "python" and weights.get("tuner", 1.0) > 0:
        if max_trials is None and not parts.is_deterministic:
            proposer = mutation.ChildTuner.timed(llm_mutator, find_error, options.tuning_seconds)
        else:
            max_seconds = None if parts.is_deterministic else options.tuning_seconds
            proposer = mutation.ChildTuner(llm_mutator, find_error, max_trials or 40, max_seconds)
    mutators: dict[str, function.Proposer] = {"llm": proposer}
    if _can_use_syntax(text, language) and weights.get("syntax", 0.0) > 0:
        mutators["syntax"] = mutation.SyntaxMutator.for_source(text)
    if parts.llm is not None and options.run_notes != "built":
        templates, max_chars = read_templates(options, parts.folder), options.prompt_chars
        texts = (_describe_task(task, language), language, _describe_direction(task))
        mutators[NOTES_MODE] = NotesMutator(parts.llm, *texts, templates, max_chars)
    return mutation.MixedMutator(mutators)


def read_templates(options: Options, folder: Path) -> prompt.Templates:
    """Reads the templates of the run."""
    template_folder = folder / options.template_dir if options.template_dir else None
    return prompt.Templates.read(template_folder, options.templates, options.template_variations)


def _has_own_templates(options: Options, folder: Path) -> bool:
    """Returns whether the user replaces templates of OpenEvolve's prompt; then it is used."""
    own_texts = [name for name, text in options.templates.items() if text != "{description}"]
    names = [*own_texts, *options.template_variations]
    if options.template_dir:
        names += [file.stem for file in (folder / options.template_dir).glob("*") if file.suffix in (".txt", ".json")]
    return any(not name.startswith("search_") and name != "evaluation" for name in names)


def _describe_direction(task: Task) -> str:
    metric_name = task.metric or "combined_score"
    return f"minus {metric_name}: lower values of it are better" if task.minimize else "higher is better"


def _make_prompt_builder(
    task: Task, options: Options, language: str, parts: system.BuildContext, templates: prompt.Templates
) -> mutation.PromptBuilder:
    return prompt.ProgramPromptBuilder(
        parts.blobs,
        _describe_task(task, language),
        language,
        _describe_direction(task),
        task.features or DEFAULT_FEATURES,
        templates,
        options.prompt_chars,
        options.max_artifact_bytes if options.include_artifacts else 0,
        options.use_template_stochasticity,
        options.prompt_tokens,
    )


def _make_search_prompt(
    task: Task,
    options: Options,
    language: str,
    parts: system.BuildContext,
    templates: prompt.Templates,
    *,
    names: Sequence[str],
    evaluator_source: str,
    text: str,
    limits: str | None,
) -> mutation.PromptBuilder:
    is_short = prompt.estimate_tokens(evaluator_source) <= _MAX_EVALUATOR_TOKENS
    interface = ""
    if names:
        signatures = [mutation.find_signature(text, name) or name for name in names]
        quoted = ", ".join(f"`{signature}`" for signature in signatures)
        interface = f"The evaluator uses {quoted}. Keep these names and arguments."
    return SearchPromptBuilder(
        parts.blobs,
        _describe_task(task, language),
        language,
        _describe_direction(task),
        interface,
        _describe_limits(task, options, language, parts) if limits is None else limits,
        evaluator_source if options.show_evaluator and is_short else "",
        None if parts.is_deterministic or limits is not None else parts.executor_config.limits.seconds,
        parts.target,
        templates,
        options.prompt_chars,
        options.max_artifact_bytes if options.include_artifacts else 0,
        options.prompt_tokens,
    )


def _describe_task(task: Task, language: str) -> str:
    return (
        f"{task.description}\n\n{folder_text.FORMAT_NOTE}".strip() if language == FILES_LANGUAGE else task.description
    )


def _describe_limits(task: Task, options: Options, language: str, parts: system.BuildContext) -> str:
    """Describes time, memory, network, packages and length."""
    limits = parts.executor_config.limits
    memory = f" and {limits.memory_mb:g} MB of memory" if limits.memory_mb else ""
    sentences = [f"One evaluation has at most {limits.seconds:g} seconds{memory}. The network is blocked."]
    if language == "python":
        versions = [f"{name} {version}" for name in _PACKAGES if (version := _find_version(name))]
        sentences.append(f"Installed: {', '.join([*versions, 'the standard library'])}. The task may forbid some.")
    if options.max_code_length:
        sentences.append(f"At most {options.max_code_length:,} characters.")
    if options.include_artifacts and language == "python":
        sentences.append("You will see what the program prints: a few short lines on what limits it can help.")
    return " ".join(sentences)


def _find_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
