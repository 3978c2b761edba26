"""Test suite for populations."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from atoll import archipelago, errors, evaluation, function
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.testing import fakes
from atoll.testing.fakes import make_evaluated_function

_ACCEPT = Decision("accept", "it ran", "suite")


class PopulationSuite(ABC):
    """Tests for a population. Subclass it and implement `make`."""

    @abstractmethod
    def make(self, rng: Random) -> archipelago.Population:
        """Returns a new, empty population that uses this random generator."""

    def best(self, entered: Sequence[function.Function]) -> function.Function:
        """Returns the best of the added functions: the highest fitness, or the latest version."""
        return max(entered, key=function.get_fitness)

    def test_empty_population_raises_not_found(self) -> None:
        """`best_fn` and `get` raise `NotFound`."""
        population = self.make(Random(0))
        with fakes.raises(errors.NotFound):
            population.best_fn()
        with fakes.raises(errors.NotFound):
            population.get("1.0")

    def test_new_member_can_be_read_by_id(self) -> None:
        """The first function is a member, under its candidate id or its new version id."""
        population = self.make(Random(0))
        fn, candidate_id = add_child(population, 1, (1.0, 2.0))
        member = population.get(candidate_id)
        assert str(member.skeleton()) == str(fn.skeleton())
        assert member.score() == fn.score()
        assert get_id(member) == candidate_id

    def test_accepted_decision_is_returned(self) -> None:
        """`add_fn` returns the applied decision with its reason and author."""
        decision = self.make(Random(0)).add_fn(make_evaluated_function((1.0, 2.0)), _ACCEPT)
        assert (decision.verdict, decision.reason, decision.decided_by) == ("accept", "it ran", "suite")

    def test_best_function_is_never_lost(self) -> None:
        """`best_fn` is the best of all functions ever added."""
        population, entered = self.make(Random(0)), list[function.Function]()
        for iteration, scores in enumerate(_make_scores(), 1):
            entered.append(add_child(population, iteration, scores)[0])
            assert _is_same(population.best_fn(), self.best(entered))

    def test_updated_evaluation_keeps_best_function(self) -> None:
        """Updating one member, even with the same evaluation, removes no other."""
        population, entered = self.make(Random(0)), list[function.Function]()
        for iteration, scores in enumerate(_make_scores(), 1):
            entered.append(add_child(population, iteration, scores)[0])
            population.update_evaluation(population.select().parents[0])
            assert _is_same(population.best_fn(), self.best(entered))

    def test_parents_are_members_worst_first(self) -> None:
        """`select` returns at least one parent; `get` finds all parents and inspirations."""
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
        """A single member is selected; scores may be huge, tiny or negative."""
        for score in (-1e12, -5000.0, -1e-12, 0.0, 1e-12, 5000.0, 1e12):
            population = self.make(Random(0))
            add_child(population, 1, (score, score))
            selected_ids = {get_id(fn) for fn in population.select().parents}
            assert selected_ids == {get_id(population.best_fn())}, f"with the score {score}"

    def test_add_and_update_draw_no_random_number(self) -> None:
        """A resume repeats additions without random numbers."""
        rng = Random(0)
        population = self.make(rng)
        for iteration, scores in enumerate(_make_scores(), 1):
            parents = [get_id(fn) for fn in population.select().parents] if iteration > 1 else []
            state = rng.getstate()
            population.add_fn(make_evaluated_function(scores, id=f"{iteration}.0", parents=parents), _ACCEPT)
            population.update_evaluation(population.best_fn())
            assert rng.getstate() == state

    def test_same_seed_selects_the_same(self) -> None:
        """A selection depends only on the additions and the state of the generator."""
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
        assert random.getstate() == state, "it used the global generator"

    def test_earlier_selections_have_no_effect(self) -> None:
        """A selection depends only on the additions and the generator, since a resume repeats no selection."""
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
            used_selection, new_selection = used_population.select(), new_population.select()
            assert list(map(get_id, used_selection.parents)) == list(map(get_id, new_selection.parents))

    def test_returning_migrant_is_not_added_twice(self) -> None:
        """A migrant that is a copy of a member is not added again; the member stays."""
        population = self.make(Random(0))
        fn, candidate_id = add_child(population, 1, (1.0, 2.0))
        assert fn.candidate is not None
        for _ in range(3):
            copy = fn.with_evaluation(fn.candidate, fn.evaluation, fn.score())
            assert population.add_fn(copy, _ACCEPT).verdict == "accept"
        assert _is_same(population.get(candidate_id), fn)
        population.update_evaluation(population.get(candidate_id))
        assert _is_same(population.get(candidate_id), fn)
        assert {get_id(parent) for parent in population.select().parents} == {candidate_id}

    def test_failed_only_member_is_still_selected(self) -> None:
        """A run needs a parent, so a member that failed later is still selected."""
        population = self.make(Random(0))
        _, candidate_id = add_child(population, 1, (1.0, 2.0))
        candidate = Candidate(candidate_id, "content of 1.0")
        failed = population.get(candidate_id).with_evaluation(candidate, evaluation.failed("it crashed"))
        population.update_evaluation(failed)
        assert {get_id(fn) for fn in population.select().parents} == {candidate_id}
        assert get_id(population.best_fn()) == get_id(population.get(candidate_id)) == candidate_id

    def test_updated_evaluation_replaces_the_old_one(self) -> None:
        """An updated member has its new evaluation and fitness."""
        population = self.make(Random(0))
        _, candidate_id = add_child(population, 1, (1.0, 2.0))
        new_evaluation = Evaluation(-3.0, (-2.0, -4.0), feedback="it failed in production")
        candidate = Candidate(candidate_id, "content of 1.0")
        population.update_evaluation(population.get(candidate_id).with_evaluation(candidate, new_evaluation, -3.0))
        for fn in (population.get(candidate_id), population.best_fn(), *population.select().parents):
            assert fn.evaluation == new_evaluation
            assert fn.score() == -3.0

    def test_update_of_unknown_function_is_refused(self) -> None:
        """An update does not add a function."""
        population = self.make(Random(0))
        fn, _ = add_child(population, 1, (1.0, 2.0))
        with fakes.raises(errors.NotFound):
            population.update_evaluation(make_evaluated_function((9.0, 9.0), id="77.0"))
        assert _is_same(population.best_fn(), fn)
        with fakes.raises(errors.NotFound):
            population.get("77.0")


def add_child(
    population: archipelago.Population, iteration: int, scores: Sequence[float]
) -> tuple[function.Function, str]:
    """Adds a child of selected parents; returns it and its id in the population."""
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
