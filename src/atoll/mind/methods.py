"""Mind Evolution and its baselines, as numbers for one and the same machinery."""

from dataclasses import dataclass

from atoll.mind import pool, prompts, rcc, rounds
from atoll.mind.config import Options

GENS_WITH_MODEL, GENS_WITHOUT = 10, 40
SEQ_WITH_MODEL, SEQ_WITHOUT = 4, 8
PATIENCE_WITH_MODEL, PATIENCE_WITHOUT = 3, 20


@dataclass(frozen=True, slots=True)
class Method:
    """How a run goes: whose turn it is, who mates, how one talks, when it is over."""

    schedule: rounds.Exchange
    mating: pool.Mating
    manner: rcc.Manner
    prompter: prompts.Prompter
    patience: int
    is_fresh: bool = False

    @property
    def rounds(self) -> rounds.Rounds:
        return self.schedule.rounds


def make(options: Options, num_problems: int, *, has_model: bool) -> Method:
    """Returns the method that the options ask for.

    The baselines are special cases: one pass is one plan; best of N is N plans that know of no other; sequential
    revision is some conversations, each of them long, that remember all that they have tried.
    """
    gens = options.num_gens or (GENS_WITH_MODEL if has_model else GENS_WITHOUT)
    seq = options.num_seq or (SEQ_WITH_MODEL if has_model else SEQ_WITHOUT)
    plans = options.num_plans or gens * options.num_islands * options.num_convs * seq
    prompter = prompts.Prompter(options.critic, options.feedback, options.questions)
    manner = rcc.Manner(
        options.pattern, seq, options.num_retries, 0, options.critic_llm, options.second_llm, options.second_gen
    )
    if options.method == "mind":
        usual = PATIENCE_WITH_MODEL if has_model else PATIENCE_WITHOUT
        patience = usual if options.patience is None else options.patience
        turns = rounds.Rounds(num_problems, options.num_islands, options.num_convs, gens)
        mating = pool.Mating(options.num_parent, options.pr_no_parents, options.temperature, options.population)
        return Method(_exchange(options, turns), mating, manner, prompter, patience)
    alone = pool.Mating(1, 1.0, options.temperature, options.population)
    batch = next(each for each in (10, 8, 6, 5, 4, 3, 2, 1) if plans % each == 0)  # plans of a step: fewer steps
    convs, seq, gens = {
        "one_pass": (1, 1, 1),
        "best_of_n": (1, batch, plans // batch),
        "sequential": (min(plans, options.num_threads), max(1, plans // options.num_threads), 1),
    }[options.method]
    turns = rounds.Rounds(num_problems, 1, convs, gens)
    is_fresh = options.method != "sequential"
    long = rcc.Manner(options.pattern, seq, options.num_retries, 0 if is_fresh else seq, is_fresh=is_fresh)
    return Method(_exchange(options, turns), alone, long, prompter, 0, is_fresh)


def _exchange(options: Options, turns: rounds.Rounds) -> rounds.Exchange:
    return rounds.Exchange(
        turns,
        options.num_emigrate,
        options.migration_interval,
        options.reset_interval,
        options.num_reset,
        options.num_top,
        options.num_candidate,
        rounds.by_fitness if options.elect == "fitness" else rounds.by_difference,
    )
