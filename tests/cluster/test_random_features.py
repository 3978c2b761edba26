"""Random feature combinations: workers and crashes do not change ordered runs, and recovery matches the live run."""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from atoll import cluster, control, errors, evaluation, function, gate, journal, llm
from atoll.store import memory
from atoll.testing.fakes import FailingJournal, RandomDelays, get_comparable_records
from tests import fixtures

SEEDS = (*range(24), 30, 50)
NUM_CRASH_SEQUENCES = 4  # crash sequences per combination, each with one to three crashes


class CountingLLM:
    """LLM whose response depends on the position of the call. Records its requests."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, str]] = []

    def __call__(self, prompt: str) -> llm.Response:
        calls = journal.CallCache.current.get()
        assert calls is not None
        self.requests.append(calls.position)
        draw = Random(f"{calls.position}{prompt}").gauss(0, 1)
        return llm.Response(repr(round(draw, 1)), "model", evaluation.Cost(tokens_in=len(prompt), tokens_out=1))


class RandomProposer:
    """Proposes by its random generator: no child or several, trials, updates, LLM calls, repeats and failures."""

    def __init__(self, traits: "Traits", model: llm.LLM, delays: RandomDelays | None) -> None:
        self._traits, self._model, self._delays = traits, llm.JournaledLLM(model), delays

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        if self._delays:
            self._delays("propose", context.iteration)
        rng, traits, parent = context.rng, self._traits, context.parents[-1]
        position = value_of(parent)
        stride = float(str(context.advice.get("stride", 0.5)))
        if traits.asks:
            position += 0.1 * float(self._model(f"{position!r} of {parent.score()!r}").text)
        position += 0.01 * sum(fn.score() or 0.0 for fns in context.inspirations.values() for fn in fns)
        if rng.random() < traits.faults:
            raise RuntimeError("not today")
        if rng.random() < traits.drafts:
            texts = [repr(round(position + rng.gauss(0, 1), 1)) for _ in range(rng.randrange(1, 4))]
            result = context.evaluate([parent.clone(function.Text(text)) for text in texts])
            best = max(zip(texts, result, strict=True), key=lambda item: item[1].score or -1e9)
            position = float(best[0])
        if rng.random() < traits.observes:
            observed = rng.choice([*context.parents, *itertools.chain(*context.inspirations.values())])
            context.update_evaluation(observed, scored(value_of(observed) + rng.gauss(0, 1)))
        created = [round(position + rng.gauss(0, stride), traits.digits) for _ in range(rng.choice(traits.litter))]
        return [
            function.derive_child(parent, function.Text(repr(item)), stride=stride, odd=[item > 0]) for item in created
        ]


class RandomEvaluator:
    """Fails values that are far off; may ask an LLM; sleeps."""

    def __init__(self, traits: "Traits", model: llm.LLM, delays: RandomDelays | None) -> None:
        self._traits, self._model, self._delays = traits, llm.JournaledLLM(model), delays

    def __call__(self, skeleton: object) -> evaluation.Evaluation:
        if self._delays:
            self._delays("judge", str(skeleton))
        value = float(str(skeleton))
        if abs(value) > 6:
            raise ValueError("too far")
        if self._traits.evaluator_asks and str(skeleton) != "0.0":
            self._model(str(skeleton))
        return scored(value)


def value_of(fn: function.Function) -> float:
    return float(str(fn.skeleton()))


def scored(value: float) -> evaluation.Evaluation:
    scores = tuple(round(-abs(value - at), 3) for at in (2.0, 3.0, 4.0))
    return evaluation.Evaluation(-((value - 3.0) ** 2), scores, {"value": value})


class Traits:
    """One random combination of features."""

    def __init__(self, seed: int) -> None:
        rng = Random(f"composition {seed}")
        self.seed = seed
        self.pool = rng.choice(["funsearch", "cooling", "elites", "pareto", "bounded", "head"])
        self.asks, self.evaluator_asks = rng.random() < 0.5, rng.random() < 0.3
        self.faults, self.drafts = rng.choice([0.0, 0.2]), rng.choice([0.0, 0.4])
        self.observes = rng.choice([0.0, 0.3])
        self.digits = rng.choice([0, 1, 12])  # few digits give many repeats
        self.litter = rng.choice([[1], [0, 1, 3], [2]])
        self.gate = rng.choice([gate.has_score, gate.require_improvement(), sometimes_held])
        self.screen = rng.choice([None, gate.reject_duplicates])
        self.rank = rng.choice([cluster.config.by_score, by_side])
        self.learns = rng.random() < 0.5
        self.num_islands = rng.choice([1, 2, 3])
        self.migrate_every, self.reset_every = rng.choice([None, 3, 5]), rng.choice([None, 7])
        self.window = rng.choice([1, 3, 6])
        self.budget = control.Budget(
            iterations=22, evaluations=rng.choice([None, None, 18]), calls=rng.choice([None, None, 20])
        )
        self.stop_rules = rng.choice([(), (control.make_plateau_rule(9),)])
        self.commands = rng.random() < 0.4

    def make_population_factory(self, stored: memory.MemoryVersions) -> Any:
        def make(island: int, rng: Random, announce: Any) -> Any:
            match self.pool:
                case "funsearch" | "cooling":
                    selector = cluster.SoftmaxSelector(
                        rng, 0.1 if self.pool == "funsearch" else 2.0, 30_000 if self.pool == "funsearch" else 12
                    )
                    return cluster.NichedPopulation(
                        cluster.by_signature, lambda key: cluster.DefaultCluster(rng, announce), selector
                    )
                case "elites":
                    bins = cluster.FeatureBins(
                        [value_of, lambda fn: fn.evaluation.scores[0] if fn.evaluation else 0.0], 4
                    )
                    return cluster.NichedPopulation(
                        bins, lambda key: cluster.EliteCluster(rng, announce, ties=True), cluster.RankSelector(rng)
                    )
                case "pareto":
                    return cluster.NichedPopulation(
                        cluster.by_instance,
                        lambda key: cluster.EliteCluster(rng, announce, value=by_input(key), ties=True),
                        cluster.WeightSelector(rng, lambda score, size: float(size)),
                    )
                case "bounded":
                    return cluster.NichedPopulation(
                        cluster.single_niche,
                        lambda key: cluster.TournamentCluster(rng, announce, limit=4),
                        cluster.RankSelector(rng),
                        inspirations=lambda niches: {"top": niches.clusters["everyone"].members()},
                    )
            return cluster.VersionedPopulation(
                stored, f"key-{island}", fixtures.make_initial(), function.Text, run_id="run"
            )

        return make


def by_input(key: Any) -> Any:
    return lambda fn: fn.evaluation.scores[key]


def by_side(island: int, result: evaluation.Evaluation) -> float:
    return result.scores[island % 3] if result.scores else -9.0


def sometimes_held(proposal: gate.Proposal) -> gate.Decision:
    draw = Random(proposal.candidate.id).random()
    verdict: gate.Verdict = "hold" if draw < 0.3 else "reject" if draw < 0.4 else "accept"
    return gate.Decision(verdict, "by the dice", "dice")


class Run:
    """State that outlives a process: journal, versions and inbox."""

    def __init__(self, traits: Traits) -> None:
        self.traits, self.journal = traits, memory.MemoryJournal()
        self.versions, self.inbox = memory.MemoryVersions(), memory.MemoryInbox()
        if traits.commands:
            self.inbox.post("set", flavour="sour")
            self.inbox.post("raise", bananas=3)
            self.inbox.post("raise", iterations=25)
            self.inbox.post("decide", candidate="1.0", content_hash="0" * 64, verdict="accept", reason="?", by="ann")

    def go(
        self,
        *,
        workers: int,
        commits: int | None = None,
        after: bool = False,
        delays: int | None = None,
        folds: bool = False,
        **options: Any,
    ) -> tuple[cluster.Evolver, CountingLLM, fixtures.Bandit]:
        traits, model, bandit = self.traits, CountingLLM(), fixtures.Bandit()
        rests = None if delays is None else RandomDelays(delays, 0.001)
        shared = cluster.IslandConfig(
            traits.num_islands,
            2,
            fixtures.make_initial(evaluator=RandomEvaluator(traits, model, rests)),
            RandomProposer(traits, model, rests),
            prefilter=traits.screen,
            gate=traits.gate,
            fitness=traits.rank,
            make_population=traits.make_population_factory(self.versions),
        )
        schedule = cluster.RoundRobin(
            traits.num_islands, migrate_every=traits.migrate_every, reset_every=traits.reset_every
        )
        settings: dict[str, Any] = {
            "ordered": True,
            "window": traits.window,
            "budget": traits.budget,
            "inbox": self.inbox,
        } | options
        dying = FailingJournal(self.journal, commits, fails_after_write=after)
        evolver = cluster.Evolver(
            cluster.EvolverConfig(
                shared,
                num_parallel=workers,
                schedule=schedule,
                journal=dying,
                stop_rules=traits.stop_rules,
                learner=bandit if traits.learns else None,
                seed=traits.seed,
                **settings,
            )
        )
        if folds:
            evolver.stop("only to look")
        if commits is None:
            evolver.run()
        else:
            with suppress(errors.JournalFailed):
                evolver.run()
        self.num_commits = dying.num_commits
        return evolver, model, bandit


def state(evolver: cluster.Evolver) -> Any:
    """Returns everything that a resume must recover."""
    best = evolver.best_fn()
    spent = evolver.usage
    return (
        [(island.epoch, members(island.population)) for island in evolver.islands],
        sorted(evolver._state.held),
        (best.candidate, best.evaluation),
        (spent.evaluations, spent.cost.calls, spent.cost.tokens_in + spent.cost.tokens_out),
        (evolver._state.applied_count, evolver._state.last_improved),
    )


def members(pool: Any) -> Any:
    if isinstance(pool, cluster.VersionedPopulation):
        fn = pool.best_fn()
        return fn.candidate, fn.evaluation, fn.evaluation and fn.score()
    return [
        (repr(key), [(fn.candidate, fn.evaluation, fn.score()) for fn in item.members()])
        for key, item in pool.clusters.items()
    ]


def check_same(result: Run, full: Run, where: str) -> None:
    for one, other in itertools.zip_longest(
        get_comparable_records(result.journal), get_comparable_records(full.journal)
    ):
        assert one == other, f"{where}:\n{one}\ninstead of\n{other}"
    keys = [f"key-{island}" for island in range(3)]
    assert [result.versions.history(key) for key in keys] == [full.versions.history(key) for key in keys], where


@pytest.mark.parametrize("seed", SEEDS)
def test_ordered_run_is_independent_of_workers_and_crashes(seed: int) -> None:
    traits = Traits(seed)
    full = Run(traits)
    live, _, bandit = full.go(workers=1)
    num_commits = full.num_commits
    parallel_run = Run(traits)
    parallel_run.go(workers=4, delays=seed)
    check_same(parallel_run, full, f"{vars(traits)}, 4 workers")
    rng = Random(f"cuts {seed}")
    for number in range(NUM_CRASH_SEQUENCES):
        parts, where, stored = Run(traits), list[tuple[int, bool, int]](), set[tuple[int, str]]()
        for _ in range(rng.randrange(1, 4)):
            commits, after, workers = rng.randrange(num_commits), rng.random() < 0.5, rng.choice([1, 4])
            where.append((commits, after, workers))
            _, model, _ = parts.go(workers=workers, commits=commits, after=after, delays=number)
            again = stored & set(model.requests)
            assert not again, f"{vars(traits)}, crashes {where}: bought again {again}"
            stored |= {(record.step, record.data["call"]) for record in fixtures.list_records(parts.journal, "replied")}
        last, model, learned_bandit = parts.go(workers=rng.choice([1, 4]), delays=number)
        assert not stored & set(model.requests), f"{vars(traits)}, crashes {where}"
        check_same(parts, full, f"{vars(traits)}, crashes {where}")
        assert state(last) == state(live), f"{vars(traits)}, crashes {where}"
        assert learned_bandit.gains == bandit.gains


@pytest.mark.parametrize("seed", SEEDS)
def test_unordered_run_applies_iterations_once_and_recovers(seed: int) -> None:
    traits = Traits(seed)
    run, rng = Run(traits), Random(f"free {seed}")
    for _ in range(3):
        run.go(workers=4, commits=rng.randrange(1, 30), after=rng.random() < 0.5, delays=seed, ordered=False, window=6)
    live, _, bandit = run.go(workers=4, delays=seed, ordered=False, window=6)
    steps = [record.step for record in fixtures.list_records(run.journal, "applied")]
    assert sorted(steps) == list(range(1, len(steps) + 1))
    folded, _, again = run.go(workers=1, ordered=False, window=6, folds=True)
    assert state(folded) == state(live), vars(traits)
    assert (bandit.gains, bandit.learned) == (again.gains, again.learned)


@pytest.mark.parametrize("seed", SEEDS)
def test_commands_between_crashes_are_applied_once_and_recover(seed: int) -> None:
    traits = Traits(seed)
    traits.gate, traits.stop_rules, traits.budget = sometimes_held, (), control.Budget(iterations=22)
    run, rng = Run(traits), Random(f"commands {seed}")
    posts = Posting(run, rng)
    for last in (False, False, False, True):
        commits = None if last else rng.randrange(5, 40)
        clock = itertools.count()  # each call is a second later, so the inbox is always read
        live, _, bandit = run.go(
            workers=rng.choice([1, 4]),
            commits=commits,
            after=rng.random() < 0.5,
            delays=seed,
            ordered=seed % 2 == 0,
            inbox=posts,
            clock=lambda clock=clock: float(next(clock)),
        )
    obeyed = [record.data["number"] for record in fixtures.list_records(run.journal, "controlled")]
    assert obeyed == sorted(set(obeyed)), vars(traits)
    steps = [record.step for record in fixtures.list_records(run.journal, "applied")]
    assert sorted(steps) == list(range(1, len(steps) + 1)), vars(traits)
    folded, _, again = run.go(workers=1, folds=True, ordered=seed % 2 == 0, inbox=memory.MemoryInbox())
    assert state(folded) == state(live), vars(traits)
    assert (bandit.gains, bandit.learned) == (again.gains, again.learned)


class Posting:
    """Inbox that gets commands while it is read: decisions, evaluation updates, pauses and invalid ones."""

    def __init__(self, run: Run, rng: Random) -> None:
        self._run, self._rng = run, rng

    def read(self, after: int) -> Sequence[control.Command]:
        if self._rng.random() < 0.3:
            self._post()
        return self._run.inbox.read(after)

    def _post(self) -> None:
        rng, inbox, records = self._rng, self._run.inbox, self._run.journal
        held = [record for record in list(records.records) if record.kind == "held"]
        evaluated = [record for record in list(records.records) if record.kind in ("judged", "founded")]
        match rng.choice(["set", "decide", "decide", "observe", "observe", "pause", "nonsense"]):
            case "set":
                inbox.post("set", flavour=rng.random())
            case "decide" if held:
                data = rng.choice(held).data
                verdict = rng.choice(["accept", "reject"])
                inbox.post(
                    "decide",
                    candidate=data["id"],
                    content_hash=data["content_hash"],
                    verdict=verdict,
                    reason="so",
                    by="ann",
                )
            case "observe" if evaluated:
                item = rng.choice(evaluated)
                result = evaluation.to_data(scored(rng.gauss(0, 2)))
                inbox.post(
                    "observe",
                    candidate=item.data["id"],
                    island=rng.randrange(self._run.traits.num_islands),
                    evaluation=result,
                )
            case "pause":
                inbox.post("pause")
                inbox.post("resume")
            case "nonsense":
                inbox.post("raise", iterations=None)
                inbox.post("observe", candidate="0.0", island=99, evaluation={"score": 1.0})
