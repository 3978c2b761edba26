"""VersionedPopulation: accepted children become versions, outdated ones are stale, repeats count once."""

from random import Random
from typing import Any

import pytest

from atoll import archipelago, cluster, errors, function, testing
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.store import memory

ACCEPT = Decision("accept", "it is better", "curator")


def fail_evaluation(skeleton: function.Skeleton[..., Any]) -> Evaluation:
    raise AssertionError("a versioned population evaluates nothing")


INITIAL = function.DefaultFunction(
    function.DefaultFunctionProps(function.Text("initial"), candidate_evaluator=fail_evaluation)
)


def make_population(store: memory.MemoryVersions, run: str = "run") -> cluster.VersionedPopulation:
    return cluster.VersionedPopulation(store, "prompt", INITIAL, function.Text, run_id=run)


def child(id: str, *parents: str, score: float = 1.0, content: str = "") -> function.Function:
    return testing.make_evaluated_function(score, content or f"content of {id}", id=id, parents=parents)


class TestVersionedPopulation(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return make_population(memory.MemoryVersions())

    def best(self, entered: Any) -> function.Function:
        """The current version is the latest one, at any score."""
        latest: function.Function = entered[-1]
        return latest


def test_accepted_child_becomes_version_with_reason_and_author() -> None:
    store = memory.MemoryVersions()
    decision = make_population(store).add_fn(child("0.0"), ACCEPT)
    assert decision == Decision("accept", "it is better", "curator", "prompt@1")
    assert store.get("prompt")[1:] == (1, "content of 0.0", "it is better", "curator")


def test_parent_is_current_version_with_its_evaluation() -> None:
    pool = make_population(memory.MemoryVersions())
    pool.add_fn(child("0.0", score=2.5), ACCEPT)
    (parent,) = pool.select().parents
    assert parent.candidate == Candidate("prompt@1", "content of 0.0")
    assert (parent.score(), parent.evaluation) == (2.5, Evaluation(2.5, (2.5,)))
    assert str(parent.skeleton()) == "content of 0.0"


def test_child_of_current_version_is_next_version() -> None:
    pool = make_population(memory.MemoryVersions())
    pool.add_fn(child("0.0"), ACCEPT)
    assert pool.add_fn(child("1.0", "prompt@1"), ACCEPT).version == "prompt@2"
    assert pool.add_fn(child("2.0", "prompt@2"), ACCEPT).version == "prompt@3"


def test_child_of_older_version_is_stale() -> None:
    store = memory.MemoryVersions()
    pool = make_population(store)
    pool.add_fn(child("0.0"), ACCEPT)
    pool.add_fn(child("1.0", "prompt@1"), ACCEPT)
    decision = pool.add_fn(child("2.0", "prompt@1"), ACCEPT)
    assert (decision.verdict, decision.decided_by, decision.version) == ("reject", "versions", None)
    assert decision.reason.startswith("stale: ")
    assert store.get("prompt").value == "content of 1.0"


def test_external_version_makes_child_stale() -> None:
    store = memory.MemoryVersions()
    pool = make_population(store)
    pool.add_fn(child("0.0"), ACCEPT)
    store.set("prompt", "by hand", "I know better", "ann")
    assert pool.add_fn(child("1.0", "prompt@1"), ACCEPT).verdict == "reject"
    assert str(pool.best_fn().skeleton()) == "by hand"


def test_locked_key_rejects_with_lock_reason() -> None:
    store = memory.MemoryVersions()
    pool = make_population(store)
    pool.add_fn(child("0.0"), ACCEPT)
    store.lock("prompt", "release week", "ann")
    decision = pool.add_fn(child("1.0", "prompt@1"), ACCEPT)
    assert decision.verdict == "reject"
    assert "release week" in decision.reason


def test_same_candidate_of_same_run_is_one_version() -> None:
    store = memory.MemoryVersions()
    make_population(store).add_fn(child("0.0"), ACCEPT)
    again = make_population(store)  # as after a crash: the version exists, the record does not
    assert again.add_fn(child("0.0"), ACCEPT).version == "prompt@1"
    assert again.add_fn(child("1.0", "prompt@1"), ACCEPT).version == "prompt@2"
    assert make_population(store).add_fn(child("1.0", "prompt@1"), ACCEPT).version == "prompt@2"
    assert len(store.history("prompt")) == 2


def test_same_id_of_other_run_is_other_version() -> None:
    store = memory.MemoryVersions()
    make_population(store, "first").add_fn(child("0.0"), ACCEPT)
    assert make_population(store, "second").add_fn(child("0.0"), ACCEPT).verdict == "reject"
    assert make_population(store, "second").add_fn(child("1.0", "prompt@1"), ACCEPT).version == "prompt@2"


def test_decision_with_version_only_attaches_evaluation() -> None:
    store = memory.MemoryVersions()
    make_population(store).add_fn(child("0.0", score=2.5), ACCEPT)
    resumed = make_population(store)
    assert resumed.best_fn().evaluation is None
    recorded = Decision("accept", "it is better", "curator", "prompt@1")
    assert resumed.add_fn(child("0.0", score=2.5), recorded) == recorded
    assert len(store.history("prompt")) == 1
    assert resumed.best_fn().score() == 2.5


def test_update_evaluation_replaces_evaluation_of_version() -> None:
    pool = make_population(memory.MemoryVersions())
    pool.add_fn(child("0.0", score=2.5), ACCEPT)
    current = pool.best_fn()
    assert current.candidate is not None
    updated = Evaluation(-1.0, (-1.0,), feedback="it crashed on Monday")
    pool.update_evaluation(current.with_evaluation(current.candidate, updated, -1.0))
    (parent,) = pool.select().parents
    assert (parent.evaluation, parent.score()) == (updated, -1.0)


def test_get_finds_exactly_versions() -> None:
    pool = make_population(memory.MemoryVersions())
    pool.add_fn(child("0.0"), ACCEPT)
    pool.add_fn(child("1.0", "prompt@1", score=3.0), ACCEPT)
    assert str(pool.get("prompt@1").skeleton()) == "content of 0.0"
    assert pool.get("prompt@2").score() == 3.0
    for id in ("prompt@3", "prompt@0", "other@1", "1.0"):
        with pytest.raises(errors.NotFound):
            pool.get(id)


def test_rollback_is_next_parent_without_evaluation() -> None:
    store = memory.MemoryVersions()
    pool = make_population(store)
    pool.add_fn(child("0.0"), ACCEPT)
    pool.add_fn(child("1.0", "prompt@1"), ACCEPT)
    store.rollback("prompt", 1, "it was worse", "ann")
    (parent,) = pool.select().parents
    assert parent.candidate == Candidate("prompt@3", "content of 0.0")
    assert parent.evaluation is None


def test_key_with_at_sign_is_separate() -> None:
    store = memory.MemoryVersions()
    store.set("prompt@b", "another key", "reason", "ann")
    pool = make_population(store)
    pool.add_fn(child("0.0"), ACCEPT)
    with pytest.raises(errors.NotFound):
        pool.get("prompt@b@1")
