"""Islands under children, migrations and resets, compared with a model of plain sets, live and recovered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from atoll import archipelago, cluster, evaluation, function, profiler
from atoll.candidate import Candidate
from atoll.cluster.archipelago_state import ArchipelagoState
from atoll.cluster.iteration import EvaluationCache, IterationOutcome
from atoll.cluster.records import make_evaluated_record, make_issued_record
from atoll.cluster.recovery import JournalRecovery
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.journal import Record

NUM_ISLANDS = 3


def evaluate(skeleton: function.Skeleton[..., Any]) -> Evaluation:
    return Evaluation(0.0, (0.0,))


INITIAL = function.DefaultFunction(
    function.DefaultFunctionProps(function.Text("initial"), candidate_evaluator=evaluate)
)


class Engine:
    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        raise AssertionError("nothing is proposed here")


def make_test_population(island: int, rng: Random, announce: Any) -> archipelago.Population:
    return cluster.NichedPopulation(
        cluster.by_signature, lambda key: cluster.DefaultCluster(rng, announce), cluster.RankSelector(rng)
    )


def rank(island: int, result: Evaluation) -> float:
    """Fitness that differs by island."""
    return (result.score or 0.0) * (1 + island)


def population(events: list[Any] | None = None) -> tuple[ArchipelagoState, profiler.EventQueue]:
    shared = cluster.IslandConfig(NUM_ISLANDS, 2, INITIAL, Engine(), fitness=rank, make_population=make_test_population)
    mail = profiler.EventQueue()
    created = ArchipelagoState(cluster.EvolverConfig(shared), mail, lambda island: island.best_fn())
    if events is not None:
        created.profilers.use(events.append)
    return created, mail


def id_of(fn: function.Function) -> str:
    assert fn.candidate is not None
    return fn.candidate.id


def describe_islands(created: ArchipelagoState) -> list[tuple[int, dict[str, float]]]:
    """Returns epoch and members with their fitness for every island."""
    islands = []
    for island in created.islands:
        assert isinstance(island.population, cluster.NichedPopulation)
        fns = [fn for item in island.population.clusters.values() for fn in item.members()]
        assert len(fns) == len({id_of(fn) for fn in fns}), "each candidate is on an island once"
        islands.append((island.epoch, {id_of(fn): function.get_fitness(fn) for fn in fns}))
    return islands


@dataclass
class Model:
    """Islands as mappings from id to score."""

    islands: list[dict[str, float]] = field(default_factory=lambda: [{"0.0": 0.0} for _ in range(NUM_ISLANDS)])
    epochs: list[int] = field(default_factory=lambda: [0] * NUM_ISLANDS)
    best: float = 0.0

    def best_of(self, index: int) -> str:
        return max(self.islands[index], key=lambda id: self.islands[index][id])

    def describe_islands(self) -> list[tuple[int, dict[str, float]]]:
        ranked = [{id: score * (1 + index) for id, score in item.items()} for index, item in enumerate(self.islands)]
        return list(zip(self.epochs, ranked, strict=True))


class Script:
    """Applies moves to a population and to the model, and writes the records."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.live, self.mail = population(self.events)
        self.model, self.records, self.step = Model(), list[Record](), 0
        founder = INITIAL.with_evaluation(Candidate("0.0", "initial"), Evaluation(0.0, (0.0,)))
        self.records += self.live.add_initial(founder)

    def child(self, index: int, score: float, late_by: int, verdict: Any) -> None:
        """Proposes one child. Its island was reset `late_by` times since the iteration was issued."""
        self.step += 1
        island = self.live.islands[index]
        epoch = island.epoch - min(late_by, island.epoch)
        parent = island.best_fn()
        ticket = archipelago.PendingIteration(index, epoch, self.step, 0, archipelago.Selection([parent]), {}, None)
        created = Candidate(f"{self.step}.0", f"content {self.step}", (id_of(parent),), index, self.step)
        result = Evaluation(score, (score, float(self.step)))  # a unique signature
        fn = INITIAL.clone(function.Text(created.content)).with_evaluation(created, result, rank(index, result))
        done = IterationOutcome(ticket, [(fn, Decision(verdict, "because", "gate"))], None, (), 1, evaluation.ZERO_COST)
        self.records += [
            make_issued_record(ticket),
            make_evaluated_record("0", created, result, True),
            *self.live.apply(done),
        ]
        if verdict == "accept":
            self.model.best = max(self.model.best, score)
            if epoch == self.model.epochs[index]:
                self.model.islands[index][created.id] = score

    def migrate(self, source: int, target: int) -> None:
        fn = self.live.islands[source].best_fn()
        self.records += self.live.apply_actions(self.step, [archipelago.Migration(fn, target)])
        self.model.islands[target].setdefault(id_of(fn), self.model.islands[source][id_of(fn)])

    def reset(self, doomed: Sequence[int], stored: int) -> None:
        founder = self.live.islands[stored].best_fn()
        score = self.model.islands[stored][id_of(founder)]
        self.records += self.live.apply_actions(self.step, [archipelago.Reset(index, [founder]) for index in doomed])
        for index in doomed:
            self.model.islands[index] = {id_of(founder): score}
            self.model.epochs[index] += 1


places = st.integers(0, NUM_ISLANDS - 1)
children = st.tuples(
    st.just("child"),
    places,
    st.integers(-9, 9).map(float),
    st.sampled_from([0, 0, 1]),
    st.sampled_from(["accept", "accept", "accept", "reject"]),
)
migrations = st.tuples(st.just("migrate"), places, places).filter(lambda move: move[1] != move[2])
resets = st.tuples(st.just("reset"), st.lists(places, unique=True, min_size=1, max_size=2), places).filter(
    lambda move: move[2] not in move[1]
)
moves = st.lists(st.one_of(children, children, migrations, resets), max_size=40)


def played(script: list[tuple[Any, ...]]) -> Script:
    game = Script()
    for name, *details in script:
        getattr(game, name)(*details)
    return game


@given(moves)
def test_children_migrations_and_resets_match_set_model(script: list[tuple[Any, ...]]) -> None:
    game = played(script)
    assert describe_islands(game.live) == game.model.describe_islands()
    for island, scores in zip(game.live.islands, game.model.islands, strict=True):
        result = island.best_fn().evaluation
        assert result is not None
        assert result.score == max(scores.values())


@given(moves)
def test_overall_best_survives_every_reset(script: list[tuple[Any, ...]]) -> None:
    game = played(script)
    assert game.live.best is not None
    assert game.live.best.evaluation is not None
    assert game.live.best.evaluation.score == game.model.best


@given(moves)
def test_recovery_from_records_gives_same_islands(script: list[tuple[Any, ...]]) -> None:
    game = played(script)
    again, _ = population()
    replay = JournalRecovery(again, EvaluationCache()).recover(game.records)
    assert describe_islands(again) == describe_islands(game.live)
    assert again.best is not None
    assert game.live.best is not None
    assert id_of(again.best) == id_of(game.live.best)
    assert (again.applied_count, again.last_improved) == (game.live.applied_count, game.live.last_improved)
    assert again.usage == game.live.usage
    assert (replay.setup, replay.last_iteration, replay.pending) == ({}, game.step, {})


@given(moves)
def test_islands_are_removed_and_revived_in_equal_pairs(script: list[tuple[Any, ...]]) -> None:
    game = played(script)
    game.mail.deliver()
    events = [event for event in game.events if event.type != "on_best_island_improved"]
    assert len(events) == 2 * sum(name == "reset" for name, *_ in script)
    for removed, revived in zip(events[::2], events[1::2], strict=True):
        assert (removed.type, revived.type) == ("on_islands_removed", "on_islands_revived")
        assert [item.index for item in removed.payload] == [item.index for item in revived.payload]
        assert [item.epoch + 1 for item in removed.payload] == [item.epoch for item in revived.payload]


def test_migrant_gets_fitness_of_target_island() -> None:
    game = Script()
    game.child(0, 5.0, 0, "accept")
    game.migrate(0, 2)
    members: Mapping[str, float] = describe_islands(game.live)[2][1]
    assert members["1.0"] == 15.0
    assert describe_islands(game.live)[0][1]["1.0"] == 5.0
