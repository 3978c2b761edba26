"""Mind Evolution and its baselines, as numbers for one and the same machinery."""

from dataclasses import dataclass

from atoll.mind import pool, prompts, rcc, rounds
from atoll.mind.config import Options

GENS_WITH_LLM, GENS_WITHOUT_LLM = 10, 40
TURNS_WITH_LLM, TURNS_WITHOUT_LLM = 4, 8
PATIENCE_WITH_LLM, PATIENCE_WITHOUT_LLM = 3, 20


@dataclass(frozen=True, slots=True)
class SearchMethod:
    """How a run goes: whose turn it is, who mates, how one talks, when it is over."""

    schedule: rounds.GenerationSchedule
    parent_sampling: pool.ParentSampling
    conversation_config: rcc.ConversationConfig
    prompt_builder: prompts.PlanPromptBuilder
    patience: int
    is_memoryless: bool = False

    @property
    def clock(self) -> rounds.GenerationClock:
        return self.schedule.clock


def make_method(options: Options, num_problems: int, *, has_llm: bool) -> SearchMethod:
    """Returns the method that the options ask for.

    The baselines are special cases: one pass is one plan; best of N is N plans that know of no other; sequential
    revision is some conversations, each of them long, that remember all that they have tried.
    """
    num_gens = options.num_gens or (GENS_WITH_LLM if has_llm else GENS_WITHOUT_LLM)
    num_turns = options.num_seq or (TURNS_WITH_LLM if has_llm else TURNS_WITHOUT_LLM)
    num_plans = options.num_plans or num_gens * options.num_islands * options.num_convs * num_turns
    prompt_builder = prompts.PlanPromptBuilder(options.critic, options.feedback, options.questions)
    conversation_config = rcc.ConversationConfig(
        options.pattern, num_turns, options.num_retries, 0, options.critic_llm, options.second_llm, options.second_gen
    )
    if options.method == "mind":
        default_patience = PATIENCE_WITH_LLM if has_llm else PATIENCE_WITHOUT_LLM
        patience = default_patience if options.patience is None else options.patience
        clock = rounds.GenerationClock(num_problems, options.num_islands, options.num_convs, num_gens)
        parent_sampling = pool.ParentSampling(options.num_parent, options.pr_no_parents, options.temperature, options.population)
        return SearchMethod(_make_schedule(options, clock), parent_sampling, conversation_config, prompt_builder, patience)
    no_parents = pool.ParentSampling(1, 1.0, options.temperature, options.population)
    batch_size = next(size for size in (10, 8, 6, 5, 4, 3, 2, 1) if num_plans % size == 0)  # plans of a step: fewer steps
    num_convs, num_turns, num_gens = {
        "one_pass": (1, 1, 1),
        "best_of_n": (1, batch_size, num_plans // batch_size),
        "sequential": (min(num_plans, options.num_threads), max(1, num_plans // options.num_threads), 1),
    }[options.method]
    clock = rounds.GenerationClock(num_problems, 1, num_convs, num_gens)
    is_memoryless = options.method != "sequential"
    baseline_config = rcc.ConversationConfig(options.pattern, num_turns, options.num_retries, 0 if is_memoryless else num_turns, is_memoryless=is_memoryless)
    return SearchMethod(_make_schedule(options, clock), no_parents, baseline_config, prompt_builder, 0, is_memoryless)


def _make_schedule(options: Options, clock: rounds.GenerationClock) -> rounds.GenerationSchedule:
    return rounds.GenerationSchedule(
        clock,
        options.num_emigrate,
        options.migration_interval,
        options.reset_interval,
        options.num_reset,
        options.num_top,
        options.num_candidate,
        rounds.select_by_fitness if options.elect == "fitness" else rounds.select_diverse,
    )
