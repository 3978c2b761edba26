"""What every pool promises."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from atoll import archipelago, errors, evaluation, function
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.testing import assertions
from atoll.testing.fakes import make_evaluated_function

_ACCEPT = Decision("accept", "it ran", "suite")


class PopulationSuite(ABC):
    """Subclass it, say how to make an empty pool, and every test runs on yours."""

    @abstractmethod
    def make(self, rng: Random) -> archipelago.Population:
        """Returns a new, empty pool that draws from this generator, the only one of its archipelago."""

    def best(self, entered: Sequence[function.Function]) -> function.Function:
        """Returns which of those that entered in this order is the best: the highest score, or the latest version."""
        return max(entered, key=function.get_fitness)

    def test_empty_population_raises_not_found(self) -> None:
        """`best_fn` and `find` raise `NotFound`."""
        population = self.make(Random(0))
        with assertions.raises(errors.NotFound):
            population.best_fn()
        with assertions.raises(errors.NotFound):
            population.get("1.0")

    def test_new_member_can_be_read_by_id(self) -> None:
        """The first who enters is a member: under its candidate's id, or the version that it became."""
        population = self.make(Random(0))
        fn, candidate_id = add_child(population, 1, (1.0, 2.0))
        member = population.get(candidate_id)
        assert str(member.skeleton()) == str(fn.skeleton())
        assert member.score() == fn.score()
        assert get_id(member) == candidate_id

    def test_accepted_decision_is_returned(self) -> None:
        """`add_fn` returns the decision as it was carried out, with its reason and its author."""
        decision = self.make(Random(0)).add_fn(make_evaluated_function((1.0, 2.0)), _ACCEPT)
        assert (decision.verdict, decision.reason, decision.decided_by) == ("accept", "it ran", "suite")

    def test_best_function_is_never_lost(self) -> None:
        """`best_fn` is the best of all that ever entered, however many came since."""
        population, entered = self.make(Random(0)), list[function.Function]()
        for iteration, scores in enumerate(_make_scores(), 1):
            entered.append(add_child(population, iteration, scores)[0])
            assert _is_same(population.best_fn(), self.best(entered))

    def test_updated_evaluation_keeps_best_function(self) -> None:
        """A late judgement of one member, even one that only repeats what was known, costs no other its place."""
        population, entered = self.make(Random(0)), list[function.Function]()
        for iteration, scores in enumerate(_make_scores(), 1):
            entered.append(add_child(population, iteration, scores)[0])
            population.update_evaluation(population.select().parents[0])
            assert _is_same(population.best_fn(), self.best(entered))

    def test_parents_are_members_worst_first(self) -> None:
        """`pick` offers at least one parent; `find` knows all parents and others."""
        population = self.make(Random(0))
        for iteration, scores in enumerate(_make_scores(), 1):
            add_child(population, iteration, scores)
            selection = population.select()
            assert selection.parents
            fitness_values = [function.get_fitness(fn) for fn in selection.parents]
            assert fitness_values == sorted(fitness_values)
            for fn in (*selection.parents, *(fn for fns in selection.inspirations.values() for fn in fns)):
                assert _is_same(population.get(get_id(fn)), fn)

    def test_single_member_is_selected_at_any_score_scale(self) -> None:
        """A pool of one member offers it; scores may be huge, tiny and below zero."""
        for score in (-1e12, -5000.0, -1e-12, 0.0, 1e-12, 5000.0, 1e12):
            population = self.make(Random(0))
            add_child(population, 1, (score, score))
            assert {get_id(fn) for fn in population.select().parents} == {get_id(population.best_fn())}, (
                f"with the score {score}"
            )

    def test_add_and_update_draw_no_random_number(self) -> None:
        """A resume adds again without any dice."""
        rng = Random(0)
        population = self.make(rng)
        for iteration, scores in enumerate(_make_scores(), 1):
            parents = [get_id(fn) for fn in population.select().parents] if iteration > 1 else []
            state = rng.getstate()
            population.add_fn(make_evaluated_function(scores, id=f"{iteration}.0", parents=parents), _ACCEPT)
            population.update_evaluation(population.best_fn())
            assert rng.getstate() == state

    def test_same_seed_selects_the_same(self) -> None:
        """All dice come from the generator passed in: what was added and its state alone decide on a pick."""
        state, selections = random.getstate(), list[list[str]]()
        for _ in range(2):
            rng = Random()
            population, selected_ids = self.make(rng), list[str]()
            for iteration, scores in enumerate(_make_scores(), 1):
                rng.seed(iteration)
                add_child(population, iteration, scores)
                selected_ids += [get_id(fn) for fn in population.select().parents]
            selections.append(selected_ids)
        assert selections[0] == selections[1]
        assert random.getstate() == state, "it drew from the global generator"

    def test_earlier_selections_have_no_effect(self) -> None:
        """A pick hangs on what was added and on the generator alone: a resume adds again and picks nothing."""
        rng, new_rng = Random(0), Random(0)
        used_population, new_population = self.make(rng), self.make(new_rng)
        for iteration, scores in enumerate(_make_scores(), 1):
            fn, _ = add_child(used_population, iteration, scores)
            new_population.add_fn(fn, _ACCEPT)
            for _ in range(20):
                used_population.select()
        for seed in range(20):
            rng.seed(seed)
            new_rng.seed(seed)
            assert [get_id(fn) for fn in used_population.select().parents] == [
                get_id(fn) for fn in new_population.select().parents
            ]

    def test_returning_migrant_is_not_added_twice(self) -> None:
        """A migrant may come back as a copy of a member: it does not enter twice, and the member stays."""
        population = self.make(Random(0))
        fn, candidate_id = add_child(population, 1, (1.0, 2.0))
        assert fn.candidate is not None
        for _ in range(3):
            assert (
                population.add_fn(fn.with_evaluation(fn.candidate, fn.evaluation, fn.score()), _ACCEPT).verdict
                == "accept"
            )
        assert _is_same(population.get(candidate_id), fn)
        population.update_evaluation(population.get(candidate_id))
        assert _is_same(population.get(candidate_id), fn)
        assert {get_id(parent) for parent in population.select().parents} == {candidate_id}

    def test_failed_only_member_is_still_selected(self) -> None:
        """A run must go on: what failed late is better than nothing to start from."""
        population = self.make(Random(0))
        _, candidate_id = add_child(population, 1, (1.0, 2.0))
        population.update_evaluation(
            population.get(candidate_id).with_evaluation(
                Candidate(candidate_id, "content of 1.0"), evaluation.failed("it crashed")
            )
        )
        assert {get_id(fn) for fn in population.select().parents} == {candidate_id}
        assert get_id(population.best_fn()) == get_id(population.get(candidate_id)) == candidate_id

    def test_updated_evaluation_replaces_the_old_one(self) -> None:
        """A member that was judged again is offered with its new evaluation and rank."""
        population = self.make(Random(0))
        _, candidate_id = add_child(population, 1, (1.0, 2.0))
        new_evaluation = Evaluation(-3.0, (-2.0, -4.0), feedback="it failed in production")
        population.update_evaluation(
            population.get(candidate_id).with_evaluation(
                Candidate(candidate_id, "content of 1.0"), new_evaluation, -3.0
            )
        )
        for fn in (population.get(candidate_id), population.best_fn(), *population.select().parents):
            assert fn.evaluation == new_evaluation
            assert fn.score() == -3.0

    def test_update_of_unknown_function_is_refused(self) -> None:
        """Whoever is gone, or was never there, does not enter by being judged."""
        population = self.make(Random(0))
        fn, _ = add_child(population, 1, (1.0, 2.0))
        with assertions.raises(errors.NotFound):
            population.update_evaluation(make_evaluated_function((9.0, 9.0), id="77.0"))
        assert _is_same(population.best_fn(), fn)
        with assertions.raises(errors.NotFound):
            population.get("77.0")


def add_child(
    population: archipelago.Population, iteration: int, scores: Sequence[float]
) -> tuple[function.Function, str]:
    """Lets a child of the pool's own parents in; returns it, and the id under which the pool keeps it."""
    parents = [get_id(fn) for fn in population.select().parents] if iteration > 1 else []
    fn = make_evaluated_function(scores, id=f"{iteration}.0", parents=parents)
    decision = population.add_fn(fn, _ACCEPT)
    assert decision.verdict == "accept", decision.reason
    return fn, decision.version or get_id(fn)


def get_id(fn: function.Function) -> str:
    assert fn.candidate is not None
    return fn.candidate.id


def _is_same(first: function.Function, second: function.Function) -> bool:
    return str(first.skeleton()) == str(second.skeleton()) and first.evaluation == second.evaluation


def _make_scores() -> Sequence[tuple[float, float]]:
    rng = Random("crowd")
    return [(rng.gauss(0.0, 3.0), rng.gauss(0.0, 3.0)) for _ in range(40)]
