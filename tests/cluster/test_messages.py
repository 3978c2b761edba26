"""Messages of kernel errors, stops and failures: full sentences with the value and the remedy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from atoll import archipelago, cluster, control, errors, evaluation, function, gate, journal, profiler, testing
from atoll.candidate import EMPTY, Candidate, content_hash
from atoll.cluster import records as records_module
from atoll.store import memory
from tests import fixtures


def get_message(error: type[Exception], call: Callable[[], object]) -> str:
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error
    return str(raised.value)


def test_best_fn_before_run_is_error() -> None:
    assert get_message(errors.NotFound, fixtures.make_evolver().best_fn) == "The run has not started."


def test_run_starts_once() -> None:
    evolver = fixtures.make_evolver(iterations=1)
    evolver.run()
    message = "This evolver was started before: make a new one on the same journal to resume."
    assert get_message(errors.SetupError, evolver.start) == message


def test_request_mutation_returns_best_child_or_reason() -> None:
    best = fixtures.make_evolver(fixtures.FixedProposer("1.0", "2.5", "2.0")).islands[0].request_mutation()
    assert str(best.skeleton()) == "2.5"
    requests = fixtures.make_evolver(fixtures.FixedProposer()).islands[0].request_mutation
    assert get_message(errors.RunFailed, requests) == "The iteration has no evaluated child: none was proposed."

    class Broken:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            raise OSError("no model")

    requests = fixtures.make_evolver(Broken()).islands[0].request_mutation
    message = "The iteration has no evaluated child: the mutator raised OSError: no model."
    assert get_message(errors.RunFailed, requests) == message


def test_stop_and_idle_end_have_reasons() -> None:
    evolver = fixtures.make_evolver(iterations=None)
    evolver.start()
    evolver.stop()
    assert evolver.reason == "stopped"
    idle = fixtures.make_evolver(iterations=None, budget=control.Budget(evaluations=1))
    idle.run()
    assert idle.reason == "budget of 1 evaluations used"


def test_run_failure_names_cause() -> None:
    class Broken(cluster.RoundRobin):
        def plan_actions(self, *_: object) -> Sequence[archipelago.Migration | archipelago.Reset]:
            raise ZeroDivisionError("no turns")

    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(records=records, schedule=Broken(3))
    with pytest.raises(errors.RunFailed) as raised:
        evolver.run()
    assert str(raised.value) == "The run failed: ZeroDivisionError('no turns')"
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert evolver.reason == "failed: no turns"
    assert fixtures.list_records(records, "ended") == [journal.Record("ended", 1, -1, {"reason": "failed: no turns"})]


def test_atoll_error_ends_run_unchanged() -> None:
    class Broken(cluster.RoundRobin):
        def plan_actions(self, *_: object) -> Sequence[archipelago.Migration | archipelago.Reset]:
            raise errors.Conflict("two schedules")

    evolver = fixtures.make_evolver(schedule=Broken(3))
    assert get_message(errors.Conflict, evolver.run) == "two schedules"
    assert evolver.reason == "failed: two schedules"


def test_resume_error_names_both_setups() -> None:
    records = memory.MemoryJournal()
    fixtures.make_evolver(records=records, iterations=1, ordered=True, window=3, seed=9).run()
    other = fixtures.make_evolver(records=records, num_islands=2, iterations=1, start=fixtures.make_initial("1.0"))
    was = {"num_islands": 3, "ordered": True, "initial": content_hash("0.0")[:12], "seed": 9, "window": 3}
    now = {"num_islands": 2, "ordered": False, "initial": content_hash("1.0")[:12]}
    assert get_message(errors.SetupError, other.run) == f"This run was started with {was}; resume with that, not {now}."


def test_skeleton_that_cannot_be_restored_is_rejected() -> None:
    evolver = fixtures.make_evolver(make_skeleton=lambda text: function.Text(text + "1"))
    message = "make_skeleton does not reproduce the initial function's text: pass one that does."
    assert get_message(errors.SetupError, evolver.run) == message


def test_initial_function_without_score_has_reason() -> None:
    start = fixtures.make_initial(evaluator=lambda skeleton: evaluation.failed("no data"))
    message = "The initial candidate has no score: no data. Correct it or its evaluator."
    assert get_message(errors.RunFailed, fixtures.make_evolver(start=start).run) == message


@pytest.mark.parametrize("name", ["num_islands", "num_parallel", "window"])
def test_number_out_of_range_error_has_name_and_value(name: str) -> None:
    options: Mapping[str, Any] = {"schedule": cluster.RoundRobin(1), name: 0}
    assert (
        get_message(errors.SetupError, lambda: fixtures.make_evolver(**options))
        == f"{name} is 0; it must be at least 1."
    )
    fixtures.make_evolver(**{**options, name: 1})


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": cluster.RoundRobin(3, reset_seconds=1.0)},
        {"budget": control.Budget(seconds=9.0)},
        {"budget": control.Budget(usd=9.0)},
        {"schedule": None},
    ],
)
def test_ordered_run_error_suggests_alternative_to_seconds(options: Mapping[str, Any]) -> None:
    assert get_message(errors.SetupError, lambda: fixtures.make_evolver(ordered=True, **options)) == (
        "An ordered run cannot depend on seconds or dollars: count resets in iterations (reset_period=None) "
        "and the budget in iterations, evaluations, calls or tokens."
    )
    fixtures.make_evolver(ordered=False, **options)


def test_invalid_fitness_error_includes_score() -> None:
    def config(rank: Callable[[int, evaluation.Evaluation], float]) -> cluster.IslandConfig:
        return cluster.IslandConfig(3, 2, fixtures.make_initial(), fixtures.Walker(), fitness=rank)

    result = evaluation.Evaluation(2.0)
    assert config(lambda island, item: island + (item.score or 0)).compute_fitness(4, result) == 6.0
    assert str(config(lambda *_: float("inf")).compute_fitness(0, result)) == "ValueError: a score of 2.0 ranked as inf"
    assert (
        str(config(lambda *_: 1.0).compute_fitness(0, evaluation.failed("no")))
        == "ValueError: a score of None ranked as 1.0"
    )
    assert str(config(lambda *_: 1 / 0).compute_fitness(0, result)) == "ZeroDivisionError: division by zero"
    assert cluster.by_score(1, result) == 2.0
    assert cluster.by_score(1, evaluation.failed("no")) == -float("inf")


@pytest.mark.parametrize("num_bins", [0, 1, 3, -2])
def test_odd_number_of_bins_error_includes_value(num_bins: int) -> None:
    message = f"A feature needs an even number of bins, at least 2, not {num_bins}."
    assert get_message(errors.SetupError, lambda: cluster.FeatureBins([], num_bins)) == message
    cluster.FeatureBins([], 2)


def niches(keys: cluster.NicheKey = cluster.single_niche) -> cluster.NichedPopulation:
    rng = Random(0)
    return cluster.NichedPopulation(keys, lambda key: cluster.TournamentCluster(rng), cluster.RankSelector(rng))


ACCEPT = gate.Decision("accept", "it ran", "test")


def test_empty_population_errors() -> None:
    population, fn = niches(), testing.make_evaluated_function(1.0, id="3.0")
    assert get_message(errors.NotFound, population.best_fn) == "The population is empty."
    assert get_message(errors.NotFound, lambda: population.get("3.0")) == "Candidate 3.0 is not in the population."
    assert (
        get_message(errors.NotFound, lambda: population.update_evaluation(fn))
        == "Candidate 3.0 is not in the population."
    )


def test_niche_key_exception_rejects_with_message() -> None:
    def keys(fn: function.Function) -> Sequence[Any]:
        return [[]] if fn.score() == 1.0 else [1 // 0]

    population = niches(keys)
    for score, message in ((1.0, "TypeError: unhashable type: 'list'"), (2.0, "ZeroDivisionError: integer division")):
        decision = population.add_fn(testing.make_evaluated_function(score), ACCEPT)
        assert (decision.verdict, decision.decided_by, decision.version) == ("reject", "keys", None)
        assert decision.reason.startswith(f"the niche key raised {message}")


class Due(cluster.RoundRobin):
    """Returns these actions once."""

    def __init__(self, make: Callable[[Sequence[archipelago.Island]], list[Any]]) -> None:
        super().__init__(3)
        self._make = make

    def plan_actions(self, applied_count: int, islands: Sequence[archipelago.Island], seed: str) -> Sequence[Any]:
        return self._make(islands)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda islands: [archipelago.Migration(islands[0].best_fn(), 3)],
            "The schedule names island 3, but the run has 3: use the same num_islands.",
        ),
        (
            lambda islands: [archipelago.Reset(-1, [islands[0].best_fn()])],
            "The schedule names island -1, but the run has 3: use the same num_islands.",
        ),
        (
            lambda islands: [archipelago.Reset(1, [])],
            "The schedule resets island 1 without a founder: give at least one.",
        ),
    ],
)
def test_schedule_mismatch_error_names_island(make: Any, message: str) -> None:
    assert get_message(errors.SetupError, fixtures.make_evolver(schedule=Due(make)).run) == message


def test_island_rejecting_initial_function_is_named() -> None:
    evolver = fixtures.make_evolver(islands={"make_population": lambda *_: niches(lambda fn: [1 // 0])})
    message = "Island 0 is empty: the niche key raised ZeroDivisionError: integer division or modulo by zero."
    assert get_message(errors.RunFailed, evolver.run) == message


def test_invalid_commands_are_rejected_with_messages() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    held: Mapping[str, Any] = {"iterations": 1, "islands": {"gate": gate.hold_all}, "inbox": inbox, "num_islands": 1}
    fixtures.make_evolver(fixtures.FixedProposer("1.0"), records=records, **held).run()
    decision = {
        "candidate": "1.0",
        "content_hash": content_hash("1.0"),
        "verdict": "accept",
        "reason": "good",
        "by": "ann",
    }
    late = {"island": 3, "candidate": "0.0", "evaluation": {"score": 1.0}}
    options: list[tuple[Any, dict[str, Any]]] = [
        ("bark", {}),
        ("decide", decision | {"candidate": "9.9"}),
        ("decide", decision | {"content_hash": "0"}),
        ("decide", decision | {"verdict": "hold"}),
        ("observe", late),
        ("decide", decision),
        ("decide", decision),
    ]
    for kind, data in options:
        inbox.post(kind, **data)
    fixtures.make_evolver(fixtures.FixedProposer("1.0"), records=records, **held).run()
    obeyed = [record.data for record in fixtures.list_records(records, "controlled")]
    assert [(item["number"], item["kind"], item["data"]) for item in obeyed] == [
        (number, kind, data) for number, (kind, data) in enumerate(options, 1)
    ]
    assert [item.get("refused") for item in obeyed] == [
        "SetupError: 'bark' is not a command.",
        "Conflict: Candidate 9.9 is not held with the content that was decided on.",
        "Conflict: Candidate 1.0 is not held with the content that was decided on.",
        "Conflict: 'hold' is not a decision: use accept or reject.",
        "SetupError: The schedule names island 3, but the run has 1: use the same num_islands.",
        None,
        "Conflict: Candidate 1.0 is not held with the content that was decided on.",
    ]
    (decided,) = fixtures.list_records(records, "decided")
    data = {"id": "1.0", "content_hash": content_hash("1.0"), "decision": ["accept", "good", "ann", None]}
    assert decided == journal.Record("decided", 1, 0, data)


def test_stop_command_has_reason() -> None:
    for data, reason in (({}, "stopped"), ({"reason": "dinner"}, "dinner")):
        inbox = memory.MemoryInbox()
        inbox.post("stop", **data)
        evolver = fixtures.make_evolver(inbox=inbox)
        evolver.run()
        assert evolver.reason == reason


def head(key: str = "a@b") -> cluster.VersionedPopulation:
    return cluster.VersionedPopulation(
        memory.MemoryVersions(), key, fixtures.make_initial(), function.Text, run_id="run"
    )


def test_version_key_can_contain_at_sign() -> None:
    population = head()
    first = testing.make_evaluated_function(1.0, "one", id="1.0")
    assert population.add_fn(first, ACCEPT) == gate.Decision("accept", "it ran", "test", "a@b@1")
    second = testing.make_evaluated_function(2.0, "two", id="2.0", parents=("a@b@1",))
    assert population.add_fn(second, ACCEPT).version == "a@b@2"
    assert [str(population.get(f"a@b@{n}").skeleton()) for n in (1, 2)] == ["one", "two"]


def test_unknown_version_error_names_key() -> None:
    population = head()
    assert get_message(errors.NotFound, lambda: population.get("c@1")) == "c@1 is not a version of a@b."
    assert (
        get_message(
            errors.NotFound, lambda: population.update_evaluation(testing.make_evaluated_function(1.0, id="c@1"))
        )
        == "c@1 is not a version of a@b."
    )
    assert (
        get_message(errors.NotFound, lambda: population.update_evaluation(fixtures.make_initial()))
        == "None is not a version of a@b."
    )


def test_version_rejected_by_store_has_its_message() -> None:
    decision = head().add_fn(testing.make_evaluated_function(1.0, id="1.0"), gate.Decision("accept", "", "test"))
    assert decision == gate.Decision(
        "reject", "The reason of this change is empty: give a key, a reason and an author.", "versions"
    )


def test_version_without_evaluation_stays_unevaluated() -> None:
    population = head()
    draft = fixtures.make_initial().with_evaluation(Candidate("1.0", "0.0"))
    assert population.add_fn(draft, ACCEPT).version == "a@b@1"
    assert population.best_fn().evaluation is None


def test_generation_defaults_to_one_migration_and_uses_reset_rule() -> None:
    def never(islands: object, rng: object) -> Sequence[archipelago.Reset]:
        return ()

    schedule = cluster.make_generation_schedule(3, 2, reset_every=1, reset_rule=never)
    assert (schedule.migrate_every, schedule.reset_every, schedule.block_size, schedule.reset_rule) == (6, 6, 2, never)
    assert cluster.make_generation_schedule(3, 2, migrate_every=None).migrate_every is None
    assert cluster.make_generation_schedule(3, 2).reset_every is None


def test_island_profiler_receives_events_of_all_islands() -> None:
    events = list[Any]()
    evolver = fixtures.make_evolver(iterations=3)
    evolver.islands[0].use_profiler(events.append)
    evolver.run()
    assert {event.type for event in events} == {"on_best_fn_improved"}
    assert [event.payload.candidate.id for event in events[:3]] == ["0.0"] * 3


def test_unevaluated_function_has_no_instances() -> None:
    assert list(cluster.by_instance(fixtures.make_initial())) == []
    assert list(cluster.by_instance(testing.make_evaluated_function(1.0))) == [0]


def test_grid_cells_are_stable_across_versions() -> None:
    bins = cluster.FeatureBins([lambda fn: float(str(fn.skeleton()))], 4)
    values = [0.5, 0.5 + 2.0**-19, 0.5 + 2.0**-18, 0.5, -3.0, 1e9, 1e301, float("nan"), -1e301, 0.0]
    cells = [bins(testing.make_evaluated_function(1.0, repr(value))) for value in values]
    assert cells == [((cell,),) for cell in [0, 1, 2, 0, 0, 2, 3, -1, 0, 2]]
    assert bins.generation == 4


def test_candidate_record_round_trip() -> None:
    full = Candidate("3.1", "text", ("1.0", "2.0"), 2, 3, {"engine": "swap"})
    data = {"id": "3.1", "content": "text", "parents": ["1.0", "2.0"], "island": 2, "step": 3}
    assert records_module.candidate_to_data(full) == {**data, "meta": {"engine": "swap"}}
    assert records_module.candidate_from_data({**data, "meta": {"engine": "swap"}}) == full
    bare = records_module.candidate_from_data(data)
    assert bare == replace(full, meta=EMPTY)
    assert records_module.candidate_to_data(bare) == data
    assert (
        get_message(AssertionError, lambda: records_module.require_candidate(fixtures.make_initial()))
        == "populations hold only functions with a candidate"
    )
    draft = fixtures.make_initial()
    assert (
        get_message(AssertionError, lambda: head().add_fn(draft, ACCEPT))
        == "the evolver adds only functions with a candidate"
    )


def test_funsearch_population_selects_configured_number_of_parents() -> None:
    events = profiler.Profilers[cluster.ClusterEvent]()
    for number in (1, 2, 3):
        population = cluster.funsearch_population(number)(0, Random(0), events)
        assert isinstance(population, cluster.NichedPopulation)
        assert (population.num_parents, population.niche_key) == (number, cluster.by_signature)
        for score in range(5):
            population.add_fn(testing.make_evaluated_function(float(score), id=f"{score}.0"), ACCEPT)
        assert len(population.select().parents) == number
