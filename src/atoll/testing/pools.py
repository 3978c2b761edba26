"""What every pool promises."""

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from atoll import archipelago, errors, evaluation, function
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.testing import claims
from atoll.testing.functions import settled

_ACCEPT = Decision("accept", "it ran", "suite")


class PoolSuite(ABC):
    """Subclass it, say how to make an empty pool, and every test runs on yours."""

    @abstractmethod
    def make(self, rng: Random) -> archipelago.Pool:
        """Returns a new, empty pool that draws from this generator, the only one of its archipelago."""

    def best(self, entered: Sequence[function.Function]) -> function.Function:
        """Returns which of those that entered in this order is the best: the highest score, or the latest version."""
        return max(entered, key=function.rank_of)

    def test_an_empty_pool_says_so(self) -> None:
        """`best_fn` and `find` raise `NotFound`."""
        pool = self.make(Random(0))
        with claims.raises(errors.NotFound):
            pool.best_fn()
        with claims.raises(errors.NotFound):
            pool.find("1.0")

    def test_a_newcomer_is_found_by_its_id(self) -> None:
        """The first who enters is a member: under its candidate's id, or the version that it became."""
        pool = self.make(Random(0))
        fn, id = enter(pool, 1, (1.0, 2.0))
        found = pool.find(id)
        assert str(found.skeleton()) == str(fn.skeleton())
        assert found.score() == fn.score()
        assert id_of(found) == id

    def test_a_decision_that_could_be_carried_out_stays_an_acceptance(self) -> None:
        """`add_fn` returns the decision as it was carried out, with its reason and its author."""
        done = self.make(Random(0)).add_fn(settled((1.0, 2.0)), _ACCEPT)
        assert (done.verdict, done.reason, done.by) == ("accept", "it ran", "suite")

    def test_the_best_is_never_lost(self) -> None:
        """`best_fn` is the best of all that ever entered, however many came since."""
        pool, entered = self.make(Random(0)), list[function.Function]()
        for step, scores in enumerate(_crowd(), 1):
            entered.append(enter(pool, step, scores)[0])
            assert _same(pool.best_fn(), self.best(entered))

    def test_the_best_is_never_lost_when_another_is_observed(self) -> None:
        """A late judgement of one member, even one that only repeats what was known, costs no other its place."""
        pool, entered = self.make(Random(0)), list[function.Function]()
        for step, scores in enumerate(_crowd(), 1):
            entered.append(enter(pool, step, scores)[0])
            pool.observe(pool.pick().parents[0])
            assert _same(pool.best_fn(), self.best(entered))

    def test_parents_are_members_and_the_worst_comes_first(self) -> None:
        """`pick` offers at least one parent; `find` knows all parents and others."""
        pool = self.make(Random(0))
        for step, scores in enumerate(_crowd(), 1):
            enter(pool, step, scores)
            pick = pool.pick()
            assert pick.parents
            ranks = [function.rank_of(fn) for fn in pick.parents]
            assert ranks == sorted(ranks)
            for fn in (*pick.parents, *(fn for fns in pick.others.values() for fn in fns)):
                assert _same(pool.find(id_of(fn)), fn)

    def test_there_is_a_parent_at_any_scale_of_scores(self) -> None:
        """A pool of one member offers it; scores may be huge, tiny and below zero."""
        for score in (-1e12, -5000.0, -1e-12, 0.0, 1e-12, 5000.0, 1e12):
            pool = self.make(Random(0))
            enter(pool, 1, (score, score))
            assert {id_of(fn) for fn in pool.pick().parents} == {id_of(pool.best_fn())}, f"with the score {score}"

    def test_adding_and_observing_draw_no_random_number(self) -> None:
        """A resume adds again without any dice."""
        rng = Random(0)
        pool = self.make(rng)
        for step, scores in enumerate(_crowd(), 1):
            parents = [id_of(fn) for fn in pool.pick().parents] if step > 1 else []
            before = rng.getstate()
            pool.add_fn(settled(scores, id=f"{step}.0", parents=parents), _ACCEPT)
            pool.observe(pool.best_fn())
            assert rng.getstate() == before

    def test_equal_seeds_pick_the_same(self) -> None:
        """All dice come from the generator passed in: what was added and its state alone decide on a pick."""
        before, picks = random.getstate(), list[list[str]]()
        for _ in range(2):
            rng = Random()
            pool, picked = self.make(rng), list[str]()
            for step, scores in enumerate(_crowd(), 1):
                rng.seed(step)
                enter(pool, step, scores)
                picked += [id_of(fn) for fn in pool.pick().parents]
            picks.append(picked)
        assert picks[0] == picks[1]
        assert random.getstate() == before, "it drew from the global generator"

    def test_earlier_picks_leave_no_trace(self) -> None:
        """A pick hangs on what was added and on the generator alone: a resume adds again and picks nothing."""
        rng, other_rng = Random(0), Random(0)
        used, fresh = self.make(rng), self.make(other_rng)
        for step, scores in enumerate(_crowd(), 1):
            fn, _ = enter(used, step, scores)
            fresh.add_fn(fn, _ACCEPT)
            for _ in range(20):
                used.pick()
        for seed in range(20):
            rng.seed(seed)
            other_rng.seed(seed)
            assert [id_of(fn) for fn in used.pick().parents] == [id_of(fn) for fn in fresh.pick().parents]

    def test_who_comes_home_is_still_one_and_still_found(self) -> None:
        """A migrant may come back as a copy of a member: it does not enter twice, and the member stays."""
        pool = self.make(Random(0))
        fn, id = enter(pool, 1, (1.0, 2.0))
        assert fn.candidate is not None
        for _ in range(3):
            assert pool.add_fn(fn.settle(fn.candidate, fn.evaluation, fn.score()), _ACCEPT).verdict == "accept"
        assert _same(pool.find(id), fn)
        pool.observe(pool.find(id))
        assert _same(pool.find(id), fn)
        assert {id_of(each) for each in pool.pick().parents} == {id}

    def test_there_is_a_parent_even_if_the_only_one_was_observed_to_fail(self) -> None:
        """A run must go on: what failed late is better than nothing to start from."""
        pool = self.make(Random(0))
        _, id = enter(pool, 1, (1.0, 2.0))
        pool.observe(pool.find(id).settle(Candidate(id, "content of 1.0"), evaluation.failed("it crashed")))
        assert {id_of(fn) for fn in pool.pick().parents} == {id}
        assert id_of(pool.best_fn()) == id_of(pool.find(id)) == id

    def test_an_observation_replaces_what_was_known(self) -> None:
        """A member that was judged again is offered with its new evaluation and rank."""
        pool = self.make(Random(0))
        _, id = enter(pool, 1, (1.0, 2.0))
        worse = Evaluation(-3.0, (-2.0, -4.0), feedback="it failed in production")
        pool.observe(pool.find(id).settle(Candidate(id, "content of 1.0"), worse, -3.0))
        for fn in (pool.find(id), pool.best_fn(), *pool.pick().parents):
            assert fn.evaluation == worse
            assert fn.score() == -3.0

    def test_observing_a_stranger_is_refused_and_changes_nothing(self) -> None:
        """Whoever is gone, or was never there, does not enter by being judged."""
        pool = self.make(Random(0))
        fn, _ = enter(pool, 1, (1.0, 2.0))
        with claims.raises(errors.NotFound):
            pool.observe(settled((9.0, 9.0), id="77.0"))
        assert _same(pool.best_fn(), fn)
        with claims.raises(errors.NotFound):
            pool.find("77.0")


def enter(pool: archipelago.Pool, step: int, scores: Sequence[float]) -> tuple[function.Function, str]:
    """Lets a child of the pool's own parents in; returns it, and the id under which the pool keeps it."""
    parents = [id_of(fn) for fn in pool.pick().parents] if step > 1 else []
    fn = settled(scores, id=f"{step}.0", parents=parents)
    done = pool.add_fn(fn, _ACCEPT)
    assert done.verdict == "accept", done.reason
    return fn, done.version or id_of(fn)


def id_of(fn: function.Function) -> str:
    assert fn.candidate is not None
    return fn.candidate.id


def _same(one: function.Function, other: function.Function) -> bool:
    return str(one.skeleton()) == str(other.skeleton()) and one.evaluation == other.evaluation


def _crowd() -> Sequence[tuple[float, float]]:
    rng = Random("crowd")
    return [(rng.gauss(0.0, 3.0), rng.gauss(0.0, 3.0)) for _ in range(40)]
