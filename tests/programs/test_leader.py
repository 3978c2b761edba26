"""The policy `leader`: guarantees with scripted mutators, stagnation, failures, and the same choices after a resume."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from atoll import cluster, control, evaluation, function, gate, store
from atoll.evaluation import BlobRef, Evaluation
from atoll.programs import learners
from atoll.programs.evaluation.failures import find_error
from atoll.programs.population.leader import LeaderSearch
from atoll.programs.population.leader_population import choose_settings, choose_window, get_id
from atoll.testing.populations import PopulationSuite


class TestLeaderPopulation(PopulationSuite):
    def make(self, rng: Random):
        return LeaderSearch(60).make_population(0, rng, None)


@dataclass
class World:
    """Programs are texts "score label"; `change` makes the text of a child."""

    change: Callable[[function.ProposalContext, float], str]
    contexts: list[function.ProposalContext] = field(default_factory=list)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        self.contexts.append(context)
        parent = context.parents[-1]
        text = self.change(context, float(str(parent.skeleton()).split()[0]))
        operator = context.advice["operator"]
        return [function.derive_child(parent, function.Text(f"{text} i{context.iteration}"), operator=operator)]


def evaluate(skeleton: function.AnySkeleton) -> Evaluation:
    score, label = str(skeleton).split()[:2]
    if label == "broken":
        return Evaluation(float(score), artifacts={"error": BlobRef("0" * 64, 5, "ValueError: bad")})
    return evaluation.failed("it raised") if label == "crash" else Evaluation(float(score))


def run(
    world: World,
    num_calls: int,
    window: int,
    seed: int = 0,
    *,
    iterations: int | None = None,
    journal=None,
    prefilter: gate.Gate | None = None,
):
    search = LeaderSearch(num_calls, find_error=find_error)
    props = function.DefaultFunctionProps(function.Text("0 start"), candidate_evaluator=evaluate)
    islands = cluster.IslandConfig(
        1, 1, function.DefaultFunction(props), world, make_population=search.make_population, prefilter=prefilter
    )
    evolver = cluster.Evolver(
        cluster.EvolverConfig(
            islands,
            num_parallel=1,
            reset_period=None,
            journal=journal or store.MemoryJournal(),
            budget=control.Budget(iterations=iterations or num_calls),
            learner=search,
            seed=seed,
            ordered=True,
            window=window,
        )
    )
    evolver.run()
    return evolver


def add_one(context: function.ProposalContext, score: float) -> str:
    return f"{score / 2 if context.advice['operator'] == 'new' else score + 1} x"


@pytest.mark.parametrize(
    ("num_calls", "window", "min_gain"), [(12, 1, 11), (24, 2, 12), (48, 4, 12), (120, 8, 15), (300, 8, 38)]
)
def test_gains_stack_for_every_seed(num_calls, window, min_gain):
    for seed in range(5):
        assert run(World(add_one), num_calls, window, seed).best_fn().score() >= min_gain


@pytest.mark.parametrize(("num_calls", "min_share"), [(40, 0.9), (200, 0.7), (600, 0.6)])
def test_best_is_the_usual_parent_while_gains_come(num_calls, min_share):
    world = World(add_one)
    run(world, num_calls, 1)
    parents = [context.parents[-1] for context in world.contexts]
    states: list[Any] = [context.advice["state"] for context in world.contexts]
    best = [state["best_id"] for state in states]
    shares = Counter(get_id(parent) == id for parent, id in zip(parents[1:], best[1:], strict=True))
    assert shares[True] >= min_share * (len(parents) - 1)


@pytest.mark.parametrize(("num_calls", "min_share"), [(40, 0.3), (200, 0.2), (600, 0.12)])
def test_stagnation_moves_iterations_to_other_programs_but_still_refines(num_calls, min_share):
    def lose(context: function.ProposalContext, score: float) -> str:
        return f"{score + 1 if context.iteration == 1 else 0.5 - context.iteration / 10_000} x"

    world = World(lose)
    run(world, num_calls, 1)
    operators = Counter(context.advice["operator"] for context in world.contexts[num_calls // 2 :])
    assert operators["refine"] >= min_share * operators.total()
    assert operators["new"]
    assert operators["challenge"]
    assert operators["spread"]
    initial = [context for context in world.contexts[2:] if get_id(context.parents[-1]) == "0.0"]
    assert len(initial) <= 0.15 * num_calls  # only new programs that are written from scratch


def test_new_best_is_the_parent_of_the_next_two_iterations():
    def improve_rarely(context: function.ProposalContext, score: float) -> str:
        return f"{100 + context.iteration if context.iteration % 10 == 0 else score - 1} x"

    world = World(improve_rarely)
    run(world, 100, 1)
    parents = [get_id(context.parents[-1]) for context in world.contexts]  # iteration 1 first
    for iteration in range(10, 95, 10):
        assert parents[iteration : iteration + 2] == [f"{iteration}.0"] * 2


def test_run_opens_with_samples_of_the_initial_program_that_do_not_see_each_other():
    def improve_first(context: function.ProposalContext, score: float) -> str:
        return f"{1 if context.iteration == 1 else -context.iteration} x"

    world = World(improve_first)
    run(world, 100, 1)
    opening = world.contexts[:8]
    assert {get_id(context.parents[-1]) for context in opening} == {"0.0"}
    assert not any("attempts" in context.advice for context in opening)
    assert get_id(world.contexts[8].parents[-1]) == "1.0"


def test_gains_end_the_opening():
    world = World(lambda context, score: f"{score + 1} x")
    run(world, 100, 1)
    assert [get_id(context.parents[-1]) for context in world.contexts[:4]] == ["0.0", "0.0", "1.0", "3.0"]


def test_weak_llm_gets_samples_and_prompts_without_history_that_a_strong_one_does_not():
    def make_change(valid_share: float):
        def change(context: function.ProposalContext, score: float) -> str:
            is_valid = Random(context.iteration).random() < valid_share
            return f"{score + 0.1 if context.iteration % 9 == 0 else score - 1} {'x' if is_valid else 'crash'}"

        return change

    shares = []
    for valid_share in (0.3, 0.95):
        world = World(make_change(valid_share))
        run(world, 120, 4)
        later = world.contexts[20:]
        samples = [context for context in later if context.advice["operator"] == "sample"]
        assert all(not context.inspirations and "attempts" not in context.advice for context in samples)
        plain = [context for context in later if context.advice.get("without_history")]
        shares.append((len(samples) / len(later), (len(plain) - len(samples)) / len(later)))
    (weak_samples, weak_plain), (strong_samples, strong_plain) = shares
    assert 0.05 < weak_samples < 0.3
    assert weak_plain > 0.1
    assert strong_samples == strong_plain == 0.0


def test_weak_llm_without_any_gain_gets_mostly_samples():
    def lose(context: function.ProposalContext, score: float) -> str:
        return f"{-context.iteration} {'x' if Random(context.iteration).random() < 0.3 else 'crash'}"

    world = World(lose)
    run(world, 120, 4)
    later = Counter(context.advice["operator"] for context in world.contexts[30:])
    assert 0.55 * later.total() < later["sample"] < 0.85 * later.total()
    assert later["refine"]
    assert later["new"] + later["challenge"] + later["spread"]


def test_weak_llm_with_gains_mostly_refines_the_best():
    def change(context: function.ProposalContext, score: float) -> str:
        is_valid = Random(context.iteration).random() < 0.35
        return f"{score + 1 if context.iteration % 7 == 0 else score - 1} {'x' if is_valid else 'crash'}"

    for seed in range(3):
        world = World(change)
        run(world, 120, 4, seed)
        later = Counter(context.advice["operator"] for context in world.contexts[30:])
        assert later["refine"] > 0.4 * later.total()
        assert 0.02 * later.total() < later["sample"] < 0.35 * later.total()


def test_low_challenger_gets_five_tries():
    def challenge(context: function.ProposalContext, score: float) -> str:
        if context.iteration == 1:
            return "100 x"
        return "50 x" if context.advice["operator"] == "new" else f"{score - 0.001 * context.iteration} x"

    world = World(challenge)
    run(world, 200, 1)
    tries = Counter(
        get_id(context.parents[-1]) for context in world.contexts if context.advice["operator"] == "challenge"
    )
    assert max(tries.values()) == 5
    assert sorted(tries.values())[-3:] == [5, 5, 5]


def test_deceptive_world_is_left_where_refining_the_best_is_stuck():
    """The first approach ends at 6, others at 4 to 20; `new` finds another approach in a third of its tries."""

    def make_change(seed: int):
        def change(context: function.ProposalContext, score: float) -> str:
            rng = Random(f"{seed}/{context.iteration}")
            ceiling = float(str(context.parents[-1].skeleton()).split()[2].removeprefix("c"))
            if context.advice["operator"] == "new" and rng.random() < 0.35:
                return f"{max(0.0, score - 3)} x c{rng.uniform(4, 20):.3f}"
            if rng.random() < 0.25:
                return "0 crash c6"
            gain = rng.random() if rng.random() < 0.5 else -rng.random()
            return f"{min(ceiling, score + gain)} x c{ceiling}"

        return change

    scores = []
    for seed in range(20):
        world = World(make_change(seed))
        search = LeaderSearch(300, find_error=find_error)
        props = function.DefaultFunctionProps(function.Text("0 start c6"), candidate_evaluator=evaluate)
        islands = cluster.IslandConfig(
            1, 1, function.DefaultFunction(props), world, make_population=search.make_population
        )
        budget = control.Budget(iterations=300)
        config = cluster.EvolverConfig(
            islands, 1, None, budget=budget, learner=search, seed=seed, ordered=True, window=8
        )
        evolver = cluster.Evolver(config)
        evolver.run()
        scores.append(function.get_fitness(evolver.best_fn()))
    assert sum(score > 6 for score in scores) >= 7


def test_failed_programs_are_never_shown_or_refined_and_one_iteration_may_repair_each():
    def fail(context: function.ProposalContext, score: float) -> str:
        if context.advice["operator"] == "fix":
            return f"{context.iteration} repaired"
        return f"{context.iteration} {('broken', 'crash')[context.iteration % 2]}"

    world = World(fail)
    run(world, 60, 1)
    repairs = [context for context in world.contexts if context.advice["operator"] == "fix"]
    assert repairs
    assert max(Counter(get_id(context.parents[-1]) for context in repairs).values()) == 1
    for context in world.contexts:
        shown = [fn for fns in context.inspirations.values() for fn in fns]
        shown += [] if context in repairs else context.parents
        assert not [fn for fn in shown if "broken" in str(fn.skeleton()) or "crash" in str(fn.skeleton())]


def test_repairs_that_the_prefilter_rejects_do_not_end_the_run():
    def change(context: function.ProposalContext, score: float) -> str:
        return "0 duplicate" if context.advice["operator"] == "fix" else f"{context.iteration} crash"

    def reject_duplicates(proposal: gate.Proposal) -> gate.Decision:
        is_duplicate = "duplicate" in str(proposal.candidate.content)
        return gate.Decision("reject" if is_duplicate else "accept", "known program", "novelty")

    world = World(change)
    run(world, 60, 1, prefilter=reject_duplicates)
    assert len(world.contexts) == 60
    assert "fix" in {context.advice["operator"] for context in world.contexts}


def test_program_with_an_error_is_not_the_best_although_its_score_is_higher():
    evolver = run(World(lambda context, score: "1000 broken"), 20, 1)
    assert evolver.best_fn().score() == 0


def test_initial_program_with_an_error_is_repaired_first():
    def change(context: function.ProposalContext, score: float) -> str:
        return "-5 x"

    search = LeaderSearch(20, find_error=find_error)
    props = function.DefaultFunctionProps(function.Text("0 broken"), candidate_evaluator=evaluate)
    world = World(change)
    islands = cluster.IslandConfig(1, 1, function.DefaultFunction(props), world, make_population=search.make_population)
    budget = control.Budget(iterations=6)
    evolver = cluster.Evolver(
        cluster.EvolverConfig(islands, 1, None, budget=budget, learner=search, ordered=True, window=1)
    )
    evolver.run()
    assert [context.advice["operator"] for context in world.contexts[:3]] == ["fix", "refine", "refine"]
    assert str(world.contexts[1].parents[-1].skeleton()).startswith("-5")


@pytest.mark.parametrize("window", [1, 8])
def test_resumed_run_makes_the_same_choices(window):
    def change(context: function.ProposalContext, score: float) -> str:
        rng = Random(context.iteration)
        return f"{score + rng.uniform(-1, 0.3):.6f} {rng.choice(['x', 'x', 'x', 'broken', 'crash'])}"

    whole, journal = World(change), store.MemoryJournal()
    run(whole, 120, window, iterations=60, journal=journal)
    applied = [index for index, record in enumerate(journal.records) if record.kind == "applied"]
    killed, second = store.MemoryJournal(), World(change)
    killed.records[:] = journal.records[: applied[25]]
    run(second, 120, window, iterations=60, journal=killed)
    resumed = {context.iteration: context for context in second.contexts}
    assert len(resumed) < 60
    for context in (each for each in whole.contexts if each.iteration in resumed):
        other = resumed[context.iteration]
        assert context.advice == other.advice
        assert [get_id(fn) for fn in context.parents] == [get_id(fn) for fn in other.parents]
        assert {role: [get_id(fn) for fn in fns] for role, fns in context.inspirations.items()} == {
            role: [get_id(fn) for fn in fns] for role, fns in other.inspirations.items()
        }


def test_settings_grow_with_the_budget():
    assert [choose_settings(calls).num_islands for calls in (12, 120, 499, 500, 2000, None)] == [1, 1, 1, 2, 4, 1]
    assert [choose_settings(calls).num_challengers for calls in (12, 120, 300, 500)] == [1, 1, 2, 3]
    assert [choose_window(calls) for calls in (1, 12, 24, 48, 120, None)] == [1, 1, 2, 4, 10, None]


def test_error_is_summarized_by_its_last_line_and_the_line_of_the_program():
    error = (
        'Traceback (most recent call last):\n  File "/x/evaluator.py", line 3, in evaluate\n    f()\n'
        '  File "/scratch/program.py", line 7, in f\n    return 1 / count\n           ~~^~~~~~~\n'
        "ZeroDivisionError: division by zero\n"
    )
    assert learners.summarize_error(error) == "ZeroDivisionError: division by zero (line 7: return 1 / count)"
    assert learners.summarize_error("timed out") == "timed out"


def test_lasting_stagnation_asks_for_directions_and_follows_each_at_most_twice():
    class Naming(World):
        def propose(self, context):
            (child,) = super().propose(context)
            names = [f"method {context.iteration}", "a heap"] if context.advice.get("asks_directions") else []
            operator = context.advice["operator"]
            return [function.derive_child(context.parents[-1], child.skeleton(), operator=operator, next=names)]

    def change(context, score):
        return "9 x" if context.iteration == 110 else f"{score - 1} x"

    world = Naming(change)
    run(world, 120, 1)
    advice: list[Any] = [context.advice for context in world.contexts]
    asking = [item["state"]["stagnation"] for item in advice if item.get("asks_directions")]
    assert asking
    assert min(asking) >= 2
    followed = Counter(item["direction"] for item in advice if item.get("direction"))
    assert "a heap" in followed
    assert max(followed.values()) <= 2
    assert {item["operator"] for item in advice if item.get("direction")} == {"new"}
    assert not any(item.get("direction") or item.get("asks_directions") for item in advice[-5:])  # after the gain
