"""The search of `programs` without its folder: mutators, policy, islands. `build` and `atoll.evolve` share it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from atoll import archipelago, cluster, errors, function, gate, llm, mutation, strategies, system
from atoll.mutation.text_blocks import END_MARKER, START_MARKER
from atoll.programs import llm_build, prompt
from atoll.programs.config import Options, Task
from atoll.programs.evaluation import folder_text
from atoll.programs.learners import AttemptHistory, CombinedLearner
from atoll.programs.population import population
from atoll.programs.population.leader import LeaderSearch
from atoll.programs.population.leader_population import choose_window
from atoll.programs.population.novelty import DuplicateTagger, NoveltyFilter, ProgramIndex
from atoll.programs.population.population import DEFAULT_FEATURES

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


@dataclass(frozen=True, slots=True)
class SearchInputs:
    """The program that evolves, and the settings of its search.

    Attributes:
        text: The initial program.
        language: Its language, for the LLM.
        task: Description, metric and features.
        evaluator_source: Source of the evaluator; empty: unknown.
        chosen: Strategies that the settings name.
        wrap: Wraps the LLM mutator, such as with the minibatches of a data set.
        max_trials: Trials of the tuner for a new best program, and none for others; None: the time decides.
        limits: Limits of an evaluation in words, for the LLM; None: those of the sandbox.
        make_policy: Makes the policy, if the options choose `leader`.
    """

    text: str
    language: str
    task: Task
    options: Options
    parts: system.BuildContext
    evaluator_source: str = ""
    chosen: strategies.Chosen = strategies.Chosen()  # noqa: RUF009  # immutable
    wrap: Callable[[mutation.EditMutator], function.Proposer] = lambda mutator: mutator
    max_trials: int | None = None
    limits: str | None = None
    make_policy: Callable[..., LeaderSearch] = LeaderSearch

    @property
    def is_python(self) -> bool:
        return self.language == "python"


class ProgramSearch(NamedTuple):
    """Parts of the search.

    Attributes:
        mutator: Makes the children.
        proposer: The mutator with its limits and with tags for duplicates.
        learner: Learns from every iteration.
        policy: The policy `leader`; None for another one.
        llm_proposer: Makes one child with one LLM call, for baselines; None without an LLM.
        make_population: Makes the populations without the policy.
    """

    inputs: SearchInputs
    mutator: mutation.MixedMutator
    proposer: function.Proposer
    learner: function.Learner | None
    policy: LeaderSearch | None
    num_islands: int
    num_parents: int
    llm_proposer: function.Proposer | None
    make_population: population.PopulationFactory

    def make_config(
        self,
        initial: function.Function,
        proposer: function.Proposer | None = None,
        prefilter: gate.Gate | None = None,
        stop_rules: Sequence[Any] = (),
    ) -> cluster.EvolverConfig:
        """Returns the configuration of the evolver.

        Args:
            initial: The initial program with its evaluator.
            proposer: Replaces the proposer of the search.
            prefilter: Decides before an evaluation; None: accepts everything.
            stop_rules: Rules that end the run.
        """
        inputs, options, policy = self.inputs, self.inputs.options, self.policy
        chosen_population = inputs.chosen.make_population(self.num_parents) or self.make_population
        islands = cluster.IslandConfig(
            self.num_islands,
            1 if policy else self.num_parents,
            initial,
            proposer or self.proposer,
            prefilter=prefilter,
            gate=inputs.chosen.make_gate(),
            make_population=policy.make_population if policy else chosen_population,
        )
        return cluster.EvolverConfig(
            islands,
            schedule=_make_schedule(options, self.num_islands, inputs.parts.seed, inputs.chosen.schedule),
            learner=self.learner,
            window=choose_window(llm_build.count_calls(inputs.parts)) if policy else None,
            stop_rules=stop_rules,
        )


def make_program_search(inputs: SearchInputs) -> ProgramSearch:
    """Makes the parts of a search.

    Raises:
        SetupError: The program cannot change without an LLM, or a setting does not fit.
    """
    text, options, parts = inputs.text, inputs.options, inputs.parts
    policy = program_index = None
    if parts.llm is not None:
        if llm_build.uses_leader(options):
            policy = llm_build.make_search(text, options, parts, inputs.language, inputs.make_policy)
        program_index = ProgramIndex(text, is_python=inputs.is_python, threshold=options.similarity_threshold)
    mutator = _make_mutator(inputs, program_index)
    num_parents = options.num_parents or (2 if parts.llm is None else 1)
    return ProgramSearch(
        inputs,
        mutator,
        _limit_length(DuplicateTagger(mutator, program_index) if program_index else mutator, options),
        _make_learner(mutator, options, program_index, policy),
        policy,
        _choose_num_islands(options, policy),
        num_parents,
        None if parts.llm is None else _limit_length(mutator.get_first(), options),
        _make_population_factory(inputs.task, options, num_parents, parts.llm, inputs.chosen),
    )


def make_novelty_filter(inputs: SearchInputs) -> NoveltyFilter:
    """Returns the prefilter that rejects duplicates."""
    return NoveltyFilter(inputs.is_python, inputs.options.similarity_threshold)


def _choose_num_islands(options: Options, search: LeaderSearch | None) -> int:
    if options.num_islands is not None:
        return options.num_islands
    if search is not None:
        return min(search.settings.num_islands, options.max_islands or search.settings.num_islands)
    return options.max_islands or _DEFAULT_ISLANDS


def get_migrate_every(options: Options, num_islands: int) -> int | None:
    """Returns the iterations of the run between migrations; the setting counts iterations per island."""
    return options.migration_interval * num_islands if options.migration_interval and num_islands > 1 else None


def _make_schedule(
    options: Options, num_islands: int, seed: int, chosen: strategies.Strategy | None
) -> archipelago.Schedule:
    select_emigrants = population.make_emigrant_selector(options.migration_rate)
    make_schedule = cluster.RoundRobin if chosen is None else partial(chosen.make, seed=seed)
    schedule: archipelago.Schedule = make_schedule(
        num_islands, migrate_every=get_migrate_every(options, num_islands), select_emigrants=select_emigrants
    )
    return schedule


def _limit_length(proposer: function.Proposer, options: Options) -> function.Proposer:
    if options.prompt_tokens is not None:  # a longer program would not fit into the next prompt
        max_tokens = options.prompt_tokens - llm_build.RESERVED_TOKENS
        proposer = LengthLimit(proposer, max_tokens, prompt.estimate_tokens, "tokens", "prompt_tokens leaves room for")
    return LengthLimit(proposer, options.max_code_length) if options.max_code_length else proposer


def get_language(task: Task, suffix: str) -> str:
    """Returns the language of a program by its suffix, or the one that the task names."""
    if suffix == folder_text.FOLDER:
        return llm_build.FILES_LANGUAGE
    return task.language or LANGUAGES.get(suffix, suffix.lstrip(".") or "text")


def _make_learner(
    mutator: mutation.MixedMutator, options: Options, program_index: ProgramIndex | None, search: LeaderSearch | None
) -> function.Learner | None:
    """Returns the learner; with an LLM it also holds the history of attempts."""
    if program_index is None:
        return mutator.learner
    history = search or AttemptHistory(options.num_attempts)
    return CombinedLearner([learner for learner in (mutator.learner, history, program_index) if learner])


def _make_mutator(inputs: SearchInputs, program_index: ProgramIndex | None) -> mutation.MixedMutator:
    text, task, options, parts = inputs.text, inputs.task, inputs.options, inputs.parts
    if inputs.chosen.mutator is not None:
        return mutation.MixedMutator({inputs.chosen.mutator.name: inputs.chosen.mutator.make(text, parts.llm)})
    if parts.llm is not None and program_index is not None:
        llm_mutator = llm_build.make_llm_mutator(
            task,
            options,
            inputs.language,
            parts,
            parts.llm,
            inputs.evaluator_source,
            text,
            program_index,
            inputs.limits,
        )
        wrapped = inputs.wrap(llm_mutator)
        if llm_build.uses_leader(options):
            return llm_build.mix_mutators(wrapped, task, text, options, inputs.language, parts, inputs.max_trials)
        return mutation.add_mutators(wrapped, text, llm_mutator.mode, options.engine_weights)
    if not inputs.is_python or not (mutation.is_mutable(text) or mutation.find_choices(text)):
        raise _explain_immutable(text, task.program, is_python=inputs.is_python)
    return mutation.make_default_mutator(text, weights=options.engine_weights)


def _explain_immutable(text: str, name: str, *, is_python: bool) -> errors.SetupError:
    """Returns the error for a program that the syntax mutator cannot change."""
    if not is_python:
        return errors.LLMRequired(f"{name} is not Python that the syntax mutator can change: pass an LLM with --llm.")
    try:
        compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return errors.SetupError(f"{name} is not valid Python: {error}. Fix it.")
    if (num_starts := text.count(START_MARKER)) != (num_ends := text.count(END_MARKER)):
        counts = f"{START_MARKER} ({num_starts}) and {END_MARKER} ({num_ends})"
        return errors.SetupError(f"The numbers of {counts} in {name} differ. Close every block.")
    return errors.LLMRequired(f"{name} is not Python that the syntax mutator can change: pass an LLM with --llm.")


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
