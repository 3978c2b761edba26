"""Evolver: runs, events, budgets, and one failure at a time."""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from atoll import archipelago, cluster, control, errors, evaluation, function, gate, journal, llm
from atoll.cluster import evolver as evolver_module
from atoll.store import memory
from tests import fixtures


def test_run_ends_when_budget_is_used() -> None:
    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(records=records, iterations=40)
    evolver.run()
    assert evolver.reason == "budget of 40 iterations used"
    assert len(fixtures.list_records(records, "applied")) == 40
    assert fixtures.list_records(records, "ended")[0].data["reason"] == evolver.reason


def test_best_score_improves() -> None:
    evolver = fixtures.make_evolver(iterations=200)
    evolver.run()
    assert function.get_fitness(evolver.best_fn()) > -0.01


def test_start_returns_at_once_and_stop_waits_for_active_iteration() -> None:
    records = memory.MemoryJournal()

    is_free = threading.Event()
    started: list[int] = []

    class Slow:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            started.append(context.iteration)
            assert is_free.wait(60)
            return [context.parents[0].clone(function.Text("1.0"))]

    evolver = fixtures.make_evolver(Slow(), records=records, iterations=None, num_parallel=2)
    evolver.start()
    assert not is_free.is_set()
    fixtures.wait_until(lambda: len(started) >= 2)
    threading.Timer(0.1, is_free.set).start()
    evolver.stop("enough")
    applied = len(fixtures.list_records(records, "applied"))
    assert applied >= 2
    assert evolver.reason == "enough"
    time.sleep(0.3)
    assert len(fixtures.list_records(records, "applied")) == applied


def test_evolver_starts_once() -> None:
    evolver = fixtures.make_evolver(iterations=1)
    evolver.run()
    with pytest.raises(errors.SetupError, match="started before"):
        evolver.start()


def test_initial_function_without_score_fails_run() -> None:
    def refuse(skeleton: object) -> evaluation.Evaluation:
        raise ValueError("no such file")

    with pytest.raises(errors.RunFailed, match="ValueError: no such file"):
        fixtures.make_evolver(start=fixtures.make_initial(evaluator=refuse)).run()


def test_initial_failure_is_one_sentence_before_the_advice() -> None:
    start = fixtures.make_initial(evaluator=lambda skeleton: evaluation.failed("..it does not load."))
    with pytest.raises(errors.RunFailed) as caught:
        fixtures.make_evolver(start=start).run()
    assert str(caught.value) == ("The initial candidate has no score: ..it does not load. Correct it or its evaluator.")


def test_engine_exception_fails_only_its_iteration() -> None:
    records = memory.MemoryJournal()

    class Moody(fixtures.Walker):
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            if context.iteration % 3 == 0:
                raise RuntimeError("not today")
            return super().propose(context)

    fixtures.make_evolver(Moody(), records=records, iterations=9).run()
    failures = [record.data.get("failure") for record in fixtures.list_records(records, "applied")]
    assert [step for step, failure in enumerate(failures, 1) if failure] == [3, 6, 9]
    assert failures[2] == "the mutator raised RuntimeError: not today"


@pytest.mark.parametrize("garbage", [None, 7, "text", [None], [3]])
def test_invalid_engine_result_fails_only_its_iteration(garbage: Any) -> None:
    records = memory.MemoryJournal()

    class Garbage:
        def propose(self, context: function.ProposalContext) -> Any:
            return garbage

    fixtures.make_evolver(Garbage(), records=records, iterations=3).run()
    assert all("the mutator raised" in record.data["failure"] for record in fixtures.list_records(records, "applied"))


def test_gate_exception_rejects_with_reason() -> None:
    records = memory.MemoryJournal()

    def broken(proposal: gate.Proposal) -> gate.Decision:
        raise KeyError("threshold")

    fixtures.make_evolver(records=records, iterations=3, islands={"gate": broken}).run()
    decisions = [
        child["decision"] for record in fixtures.list_records(records, "applied") for child in record.data["children"]
    ]
    assert decisions == [["reject", "the gate raised KeyError: 'threshold'", "gate", None]] * 3


def test_fitness_exception_rejects_with_reason() -> None:
    records = memory.MemoryJournal()

    def by_missing(island: int, result: evaluation.Evaluation) -> float:
        return result.metrics["missing"] if result.score else 0.0

    start = fixtures.make_initial(str(fixtures.TARGET))  # its score is 0, so it has a fitness
    fixtures.make_evolver(start=start, records=records, iterations=2, islands={"fitness": by_missing}).run()
    decisions = [
        child["decision"] for record in fixtures.list_records(records, "applied") for child in record.data["children"]
    ]
    assert decisions == [["reject", "the fitness raised KeyError: 'missing'", "rank", None]] * 2


@pytest.mark.parametrize("result", [float("nan"), float("inf"), None, "good", b"1", object()])
def test_evaluator_result_without_number_is_failure(result: Any) -> None:
    records = memory.MemoryJournal()

    def evaluate(skeleton: function.Skeleton[..., Any]) -> Any:
        return 1.0 if str(skeleton) == "0.0" else result

    fixtures.make_evolver(start=fixtures.make_initial(evaluator=evaluate), records=records, iterations=2).run()
    for record in fixtures.list_records(records, "judged"):
        assert record.data["evaluation"]["score"] is None
        assert "not a finite number" in record.data["evaluation"]["failure"]
    assert all(
        child["decision"][0] == "reject"
        for record in fixtures.list_records(records, "applied")
        for child in record.data["children"]
    )


def test_evaluator_exception_is_failure() -> None:
    records = memory.MemoryJournal()

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        if str(skeleton) != "0.0":
            raise ZeroDivisionError("by zero")
        return evaluation.Evaluation(0.0)

    fixtures.make_evolver(start=fixtures.make_initial(evaluator=evaluate), records=records, iterations=2).run()
    failures = {record.data["evaluation"]["failure"] for record in fixtures.list_records(records, "judged")}
    assert failures == {"the evaluator raised ZeroDivisionError: by zero"}


@pytest.mark.parametrize("num_parallel", [1, 4])
def test_full_disk_ends_run_and_keeps_written_records(num_parallel: int) -> None:
    class Full(memory.MemoryJournal):
        def write(self, *records: journal.Record) -> None:
            if len(self.records) > 50:
                raise OSError(28, "No space left on device")
            super().write(*records)

    records, threads_before = Full(), set(threading.enumerate())  # other tests may leave threads
    evolver = fixtures.make_evolver(records=records, iterations=1000, num_parallel=num_parallel)
    with pytest.raises(errors.JournalFailed, match="No space left"):
        evolver.run()
    assert evolver.reason.startswith("failed: The journal could not be written: OSError")
    new_threads = set(threading.enumerate()) - threads_before
    assert not [thread for thread in new_threads if thread.name.startswith("atoll-")]
    more = memory.MemoryJournal()
    more.write(*records.read())
    again = fixtures.make_evolver(records=more, iterations=30, num_parallel=num_parallel)
    again.run()
    assert len(fixtures.list_records(more, "applied")) == 30


def test_failed_commit_prevents_later_iterations() -> None:
    class Hiccup(memory.MemoryJournal):
        failed = False

        def write(self, *records: journal.Record) -> None:
            if any(record.kind == "applied" and record.step > 20 for record in records) and not self.failed:
                self.failed = True
                raise OSError("hiccup")
            super().write(*records)

    for seed in range(10):
        records = Hiccup()
        evolver = fixtures.make_evolver(
            fixtures.Walker(delays=0.001), records=records, iterations=100, num_parallel=8, seed=seed
        )
        with pytest.raises(errors.JournalFailed):
            evolver.run()
        fixtures.make_evolver(records=records, iterations=40, num_parallel=8, seed=seed).run()
        assert sorted(record.step for record in fixtures.list_records(records, "applied")) == list(range(1, 41))


def test_learner_exception_ends_run() -> None:
    class Broken(fixtures.Bandit):
        def learn(self, result: function.IterationResult) -> None:
            raise KeyError("stride")

    with pytest.raises(errors.RunFailed, match="KeyError"):
        fixtures.make_evolver(learner=Broken(), num_parallel=3).run()


def test_profiler_exception_is_reported_once_and_run_continues(caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Any) -> None:
        raise ValueError("observer")

    evolver = fixtures.make_evolver(
        iterations=30, islands={"island_profiler_fn": broken, "cluster_profiler_fn": broken}
    )
    evolver.use_profiler(broken)
    evolver.run()
    assert evolver.reason == "budget of 30 iterations used"
    assert len(caplog.records) == 3


def test_profiler_can_stop_run() -> None:
    evolver = fixtures.make_evolver(iterations=None)
    evolver.use_profiler(lambda event: evolver.stop("seen enough"))
    evolver.run()
    assert evolver.reason == "seen enough"


def test_best_island_is_announced_after_iteration_is_stored() -> None:
    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(records=records, iterations=60)
    stored: list[bool] = []

    def check(event: archipelago.EvolverEvent) -> None:
        if isinstance(event, archipelago.OnBestIslandImproved):
            best = event.payload.best_fn().candidate
            known = {record.data["id"] for record in records.read() if record.kind in ("founded", "judged")}
            stored.append(best is not None and best.id in known)

    evolver.use_profiler(check)
    evolver.run()
    assert len(stored) > 2
    assert all(stored)


def test_resets_replace_half_islands_and_announce_pairs() -> None:
    events: list[archipelago.EvolverEvent] = []
    schedule = cluster.RoundRobin(4, reset_every=10)
    evolver = fixtures.make_evolver(num_islands=4, iterations=40, schedule=schedule)
    evolver.use_profiler(events.append)
    evolver.run()
    swaps = [event for event in events if not isinstance(event, archipelago.OnBestIslandImproved)]
    assert [event.type for event in swaps] == ["on_islands_removed", "on_islands_revived"] * 4
    for removed, revived in zip(swaps[::2], swaps[1::2], strict=True):
        assert isinstance(removed, archipelago.OnIslandsRemoved)
        assert isinstance(revived, archipelago.OnIslandsRevived)
        assert [island.index for island in removed.payload] == [island.index for island in revived.payload]
        assert len(removed.payload) == 2
        assert all(new.epoch == old.epoch + 1 for old, new in zip(removed.payload, revived.payload, strict=True))


def test_child_of_reset_island_is_stored_but_not_added() -> None:
    records = memory.MemoryJournal()
    release = threading.Event()

    class OneSlow(fixtures.Walker):
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            if context.iteration == 1:
                release.wait(5)
                return [context.parents[0].clone(function.Text(repr(fixtures.TARGET)))]
            return [context.parents[0].clone(function.Text(repr(context.iteration + 0.5)))]

    class ResetFirst:
        uses_clock = False

        def choose_island(self, iteration: int) -> int:
            return 0 if iteration == 1 else 1

        def plan_actions(self, applied_count: int, islands: Any, seed: str) -> Sequence[archipelago.Reset]:
            if applied_count != 3:
                return []
            release.set()
            return [archipelago.Reset(0, [islands[1].best_fn()])]

    schedule = ResetFirst()
    evolver = fixtures.make_evolver(
        OneSlow(), num_islands=2, records=records, iterations=8, schedule=schedule, num_parallel=2
    )
    evolver.run()
    late = next(record for record in fixtures.list_records(records, "applied") if record.step == 1)
    decision = late.data["children"][0]["decision"]
    assert decision[:2] == ["accept", "it ran; late: its island was reset meanwhile, so it was not added"]
    assert any(record.data["id"] == "1.0" for record in fixtures.list_records(records, "judged"))
    with pytest.raises(errors.NotFound):
        evolver.islands[0].population.get("1.0")
    assert str(evolver.best_fn().skeleton()) == repr(fixtures.TARGET)


def test_best_function_survives_reset_of_its_island() -> None:
    class Doom:
        uses_clock = False

        def choose_island(self, iteration: int) -> int:
            return 0

        def plan_actions(self, applied_count: int, islands: Any, seed: str) -> Sequence[archipelago.Reset]:
            worst = min(islands, key=lambda island: function.get_fitness(island.best_fn()))
            return [archipelago.Reset(0, [worst.best_fn()])] if applied_count == 30 else []

    evolver = fixtures.make_evolver(num_islands=2, iterations=30, schedule=Doom())
    evolver.run()
    assert function.get_fitness(evolver.islands[0].best_fn()) == -9.0
    assert function.get_fitness(evolver.best_fn()) > -9.0


def test_prefilter_rejection_is_stored_without_evaluation() -> None:
    records = memory.MemoryJournal()

    class Repeating:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            return [context.parents[0].clone(context.parents[0].skeleton())]

    evolver = fixtures.make_evolver(
        Repeating(), records=records, iterations=5, islands={"prefilter": gate.reject_duplicates}
    )
    evolver.run()
    assert evolver.usage.evaluations == 1
    child = fixtures.list_records(records, "applied")[0].data["children"][0]
    assert child["content"] == "0.0"
    assert child["decision"][:2] == ["reject", "it repeats 0.0"]


@pytest.mark.parametrize("num_parallel", [1, 4])
@pytest.mark.parametrize("children", [1, 3])
def test_evaluation_budget_is_used_and_never_exceeded(num_parallel: int, children: int) -> None:
    records = memory.MemoryJournal()
    calls: list[int] = []

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        calls.append(1)
        return fixtures.evaluate(skeleton)

    engine = fixtures.Walker(children=children)
    budget = control.Budget(evaluations=50)
    start = fixtures.make_initial(evaluator=evaluate)
    evolver = fixtures.make_evolver(engine, start=start, records=records, budget=budget, num_parallel=num_parallel)
    evolver.run()
    assert len(calls) == evolver.usage.evaluations == 50
    assert evolver.reason == "budget of 50 evaluations used"


def test_repeats_count_as_evaluations_of_the_budget() -> None:
    records, limits = memory.MemoryJournal(), list[int | None]()

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        calls = journal.CallCache.current.get()
        assert calls is not None
        limits.append(calls.max_evaluations)
        return replace(fixtures.evaluate(skeleton), repeats=min(2, (calls.max_evaluations or 99) - 1))

    start, budget = fixtures.make_initial(evaluator=evaluate), control.Budget(evaluations=10)
    engine = fixtures.Walker(children=3)
    evolver = fixtures.make_evolver(engine, start=start, records=records, budget=budget, num_parallel=1)
    evolver.run()
    assert evolver.usage.evaluations == 10
    assert limits == [10, 7, 4, 1]
    assert [record.data["evaluations"] for record in fixtures.list_records(records, "applied")] == [7]


def test_time_budget_limits_the_evaluations_of_an_iteration() -> None:
    """At most the rate so far times the seconds left and one more, and one evaluation in any case."""
    now = 0.0

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        nonlocal now
        now += 2.0
        return fixtures.evaluate(skeleton)

    def list_limits(window: int, **budget: Any) -> list[int]:
        nonlocal now
        now, records = 100.0, memory.MemoryJournal()
        start = fixtures.make_initial(evaluator=evaluate)
        options: dict[str, Any] = {"clock": lambda: now, "window": window, "budget": control.Budget(**budget)}
        fixtures.make_evolver(start=start, records=records, schedule=cluster.RoundRobin(3), **options).run()
        return [record.data["allowance"] for record in fixtures.list_records(records, "begun")]

    assert list_limits(1, seconds=10.0) == [5, 4, 3, 2]
    assert list_limits(2, seconds=10.0) == [3, 3, 2, 2, 1]
    assert list_limits(1, seconds=10.0, evaluations=4) == [3, 2, 1]


def test_evaluations_end_a_row_of_idle_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rarely(fixtures.Walker):
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            return super().propose(context) if context.iteration % 3 == 0 else []

    monkeypatch.setattr(evolver_module, "MAX_IDLE_ITERATIONS", 3)
    evolver = fixtures.make_evolver(Rarely(), budget=control.Budget(evaluations=5))
    evolver.run()
    assert evolver.reason == "budget of 5 evaluations used"


def test_learner_sees_failure_and_cost() -> None:
    results = list[function.IterationResult]()

    class Learner(fixtures.Bandit):
        def learn(self, result: function.IterationResult) -> None:
            results.append(result)

    class Paying:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            llm.JournaledLLM(fixtures.CountingLLM())("a question")
            raise RuntimeError("no answer")

    fixtures.make_evolver(Paying(), iterations=1, learner=Learner()).run()
    assert [(result.failure, result.cost.calls) for result in results] == [
        ("the mutator raised RuntimeError: no answer", 1)
    ]


def test_warning_about_the_first_failure_names_no_class_of_an_unusable_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class UnusableResponse(ValueError):
        pass

    class Unreadable:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            raise UnusableResponse("..the response has no program.")

    fixtures.make_evolver(Unreadable(), iterations=2).run()
    assert [record.getMessage() for record in caplog.records] == [
        "iteration 1: ..the response has no program; later failures are only recorded"
    ]


def test_populations_learn_why_a_candidate_is_added() -> None:
    decisions = list[tuple[int, str, str]]()

    make_default = cluster.funsearch_population(2)

    def make_population(index: int, rng: Any, profilers: Any) -> archipelago.Population:
        population = make_default(index, rng, profilers)
        add_fn = population.add_fn

        def observe(fn: function.Function, decision: gate.Decision) -> gate.Decision:
            decisions.append((index, decision.reason, decision.decided_by))
            return add_fn(fn, decision)

        population.add_fn = observe  # type: ignore[method-assign]
        return population

    fixtures.make_evolver(num_islands=2, iterations=21, islands={"make_population": make_population}).run()
    assert decisions[:2] == [(0, "founded", "atoll"), (1, "founded", "atoll")]
    assert decisions.count((0, "migrated", "atoll")) + decisions.count((1, "migrated", "atoll")) > 0
    assert sum(reason == "founded" for _, reason, _ in decisions) > 2


def test_evaluated_content_is_not_evaluated_again() -> None:
    records = memory.MemoryJournal()
    calls: list[str] = []

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        calls.append(str(skeleton))
        return fixtures.evaluate(skeleton)

    class Few:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            return [context.parents[0].clone(function.Text(repr(float(context.iteration % 4))))]

    evolver = fixtures.make_evolver(
        Few(), start=fixtures.make_initial(evaluator=evaluate), records=records, iterations=40
    )
    evolver.run()
    assert sorted(calls) == ["0.0", "1.0", "2.0", "3.0"]
    assert evolver.usage.evaluations == 4
    assert len(fixtures.list_records(records, "judged")) == 40


def test_concurrent_equal_contents_are_evaluated_once() -> None:
    calls: list[str] = []

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        calls.append(str(skeleton))
        time.sleep(0.05)
        return fixtures.evaluate(skeleton)

    class Same:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            return [context.parents[0].clone(function.Text("2.0"))]

    evolver = fixtures.make_evolver(
        Same(), start=fixtures.make_initial(evaluator=evaluate), iterations=8, num_parallel=8
    )
    evolver.run()
    assert calls == ["0.0", "2.0"]


def test_trials_are_stored_and_not_evaluated_again_as_children() -> None:
    records = memory.MemoryJournal()

    class Tuner:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            drafts = [context.parents[0].clone(function.Text(repr(context.rng.uniform(0, 6)))) for _ in range(4)]
            result = context.evaluate(drafts)
            return [max(zip(result, drafts, strict=True), key=lambda pair: pair[0].score or 0.0)[1]]

    evolver = fixtures.make_evolver(Tuner(), records=records, iterations=5)
    evolver.run()
    labels = [record.data["label"] for record in fixtures.list_records(records, "judged") if record.step == 2]
    assert labels == ["d0", "d1", "d2", "d3", "0"]
    assert evolver.usage.evaluations == 1 + 5 * 4


def test_updated_evaluation_replaces_earlier_one() -> None:
    records = memory.MemoryJournal()
    observed: list[float | None] = []

    class Observing:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            parent = context.parents[0]
            observed.append(parent.score())
            context.update_evaluation(
                parent, evaluation.Evaluation(float(context.iteration), (float(context.iteration),))
            )
            return []

    fixtures.make_evolver(Observing(), num_islands=1, records=records, iterations=3).run()
    assert observed == [-9.0, 1.0, 2.0]
    assert [record.data["evaluation"]["score"] for record in fixtures.list_records(records, "observed")] == [
        1.0,
        2.0,
        3.0,
    ]


def test_child_parents_default_to_all_selected_parents() -> None:
    records = memory.MemoryJournal()

    class Three:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            first = context.parents[0]
            text = function.Text(repr(float(context.iteration)))
            return [first.clone(text), function.derive_child(first, text, parents=[first], engine="x"), first.clone()]

    fixtures.make_evolver(Three(), num_islands=1, records=records, iterations=6).run()
    evaluated = {record.data["id"]: record.data for record in fixtures.list_records(records, "judged")}
    displayed = {record.step: record.data["parents"] for record in fixtures.list_records(records, "begun")}
    for step in range(1, 7):
        assert evaluated[f"{step}.0"]["parents"] == displayed[step]
        assert evaluated[f"{step}.1"]["parents"] == displayed[step][:1]
        assert evaluated[f"{step}.1"]["meta"] == {"engine": "x"}
        assert evaluated[f"{step}.2"]["parents"] == displayed[step]
        assert "meta" not in evaluated[f"{step}.2"]


def test_run_stops_at_target_or_plateau() -> None:
    near = fixtures.make_evolver(iterations=None, stop_rules=[control.make_target_rule(-0.5)])
    near.run()
    assert near.reason == "score -0.5 reached"

    class Standstill:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            return []

    flat = fixtures.make_evolver(Standstill(), iterations=None, stop_rules=[control.make_plateau_rule(12)])
    flat.run()
    assert flat.reason == "no improvement in 12 iterations"


def test_schedule_for_too_many_islands_is_rejected() -> None:
    with pytest.raises(errors.SetupError, match="The schedule names island 2"):
        fixtures.make_evolver(num_islands=2, schedule=cluster.RoundRobin(4)).run()


def test_external_version_is_evaluated_before_use_as_parent() -> None:
    records, versions = memory.MemoryJournal(), memory.MemoryVersions()
    versions.set("number", "2.9", "a good guess", "ann")
    initial = fixtures.make_initial()

    def make_population(island: int, rng: object, announce: object) -> cluster.VersionedPopulation:
        return cluster.VersionedPopulation(versions, "number", initial, function.Text, run_id="run")

    islands = {"make_population": make_population, "gate": gate.require_improvement()}
    evolver = fixtures.make_evolver(start=initial, num_islands=1, records=records, iterations=5, islands=islands)
    evolver.run()
    scores = [fixtures.evaluate(function.Text(version.value)).score or 0.0 for version in versions.history("number")]
    assert scores == sorted(scores)
    observed = fixtures.list_records(records, "observed")[0].data
    assert observed["id"] == "number@1"
    assert observed["evaluation"]["score"] == pytest.approx(-0.01)


def test_first_engine_failure_is_logged_and_ends_idle_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            raise KeyError("price")

    evolver = fixtures.make_evolver(Broken(), budget=control.Budget(evaluations=10))
    evolver.run()
    assert evolver.reason == "no new candidate to evaluate in 2000 iterations; the mutator raised KeyError: 'price'"
    assert len(caplog.records) == 1
    assert "the mutator raised KeyError: 'price'" in caplog.text


def test_object_without_propose_or_mutate_is_rejected() -> None:
    with pytest.raises(errors.SetupError, match="add a method propose"):
        fixtures.make_evolver(object())  # type: ignore[arg-type]


def test_resume_with_other_initial_function_is_rejected() -> None:
    records = memory.MemoryJournal()
    fixtures.make_evolver(records=records, iterations=3).run()
    with pytest.raises(errors.SetupError, match="This run was started with"):
        fixtures.make_evolver(start=fixtures.make_initial("7.0"), records=records, iterations=6).run()


def test_llm_calls_of_initial_evaluation_are_not_repeated() -> None:
    records, requests = memory.MemoryJournal(), list[str]()

    def model(prompt: str) -> llm.Response:
        requests.append(prompt)
        return llm.Response("0.5", "model")

    def evaluate(skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        score = float(llm.JournaledLLM(model)(str(skeleton)).text)
        if not fixtures.list_records(records, "ended"):
            raise errors.JournalFailed("cut before the founding was stored")
        return evaluation.Evaluation(score)

    with pytest.raises(errors.JournalFailed):
        fixtures.make_evolver(start=fixtures.make_initial(evaluator=evaluate), records=records, iterations=0).run()
    records.write(journal.Record("ended", 0, -1, {"reason": "cut"}))
    evolver = fixtures.make_evolver(start=fixtures.make_initial(evaluator=evaluate), records=records, iterations=0)
    evolver.run()
    assert requests == ["0.0"]
    assert evolver.usage.cost.calls == 1


def test_skeleton_names_are_available_after_resume() -> None:
    records = memory.MemoryJournal()
    start = function.DefaultFunction(
        function.DefaultFunctionProps(
            function.PyAstSkeleton("def f(x): return math.floor(x)", {"math": math}),
            [1.5],
            lambda skeleton, x: skeleton(x),
        )
    )
    fixtures.make_evolver(start=start, records=records, iterations=0).run()
    again = fixtures.make_evolver(start=start, records=records, iterations=0)
    again.run()
    assert again.best_fn().skeleton()(2.5) == 2


def test_live_population_can_be_read_under_lock() -> None:
    evolver = fixtures.make_evolver(iterations=None, num_parallel=4)
    evolver.start()
    fixtures.wait_until(lambda: evolver.usage.evaluations > 0)
    for _ in range(50):
        with evolver.lock():
            pools = [island.population for island in evolver.islands]
            assert all(population.clusters for population in pools if isinstance(population, cluster.NichedPopulation))
    evolver.stop()


def test_request_mutation_runs_one_iteration() -> None:
    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(records=records)
    child = evolver.islands[1].request_mutation()
    assert child.candidate is not None
    assert child.candidate.island == 1
    assert child.candidate.id == "1.0"
    assert child.score() is not None
    assert [record.kind for record in records.read()] == ["founded", "begun", "judged", "applied"]


def test_ordered_run_rejects_time_limits() -> None:
    with pytest.raises(errors.SetupError, match="cannot depend on seconds"):
        fixtures.make_evolver(ordered=True, schedule=None)
    with pytest.raises(errors.SetupError, match="cannot depend on seconds"):
        fixtures.make_evolver(ordered=True, budget=control.Budget(usd=1.0))


@pytest.mark.parametrize("field", ["num_parallel", "window"])
def test_config_rejects_number_out_of_range(field: str) -> None:
    with pytest.raises(errors.SetupError, match=f"{field} is 0; it must be at least 1"):
        fixtures.make_evolver(**{field: 0})  # type: ignore[arg-type]


def test_64_workers_apply_every_iteration_once() -> None:
    records = memory.MemoryJournal()
    fixtures.make_evolver(fixtures.Walker(delays=0.002), records=records, iterations=500, num_parallel=64).run()
    assert sorted(record.step for record in fixtures.list_records(records, "applied")) == list(range(1, 501))
