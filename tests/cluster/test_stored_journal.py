"""Stored journal: the kernel writes the same records and resumes from stored ones.

The run has all features: responses, trials, evaluation updates, failures, repeats, holds, commands, migrations, resets.
A change of record kinds or keys would break the resume of existing runs.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from atoll import cluster, control, errors, evaluation, function, gate, journal, llm, profiler
from atoll.candidate import JSON, Candidate, content_hash
from atoll.store import memory
from atoll.testing import FailingJournal
from tests import fixtures

DATA = Path(__file__).parent / "data"
STORED_RECORDS, STORED_EVENTS, STORED_VERSION_RECORDS = (
    DATA / name for name in ("everything.jsonl", "everything.txt", "heads.jsonl")
)


def scored(value: float) -> evaluation.Evaluation:
    scores = tuple(-abs(value - at) for at in (2.0, 3.0))
    return evaluation.Evaluation(-abs(value - 3.0), scores, {"value": value}, f"it is {value}")


class PositionLLM:
    """LLM whose response depends only on the position of the call, also after a crash."""

    def __call__(self, prompt: str) -> llm.Response:
        calls = journal.CallCache.current.get()
        assert calls is not None
        step, call = calls.position
        cost = evaluation.Cost(tokens_in=len(prompt), tokens_out=1, usd=0.25)
        return llm.Response(str((step + len(call)) % 5 - 2), "model", cost)


class FeatureEvaluator:
    """Fails values that are far off and asks an LLM about halves."""

    def __init__(self) -> None:
        self._model = llm.JournaledLLM(PositionLLM())

    def __call__(self, skeleton: object) -> evaluation.Evaluation:
        value = float(str(skeleton))
        if abs(value) > 5:
            raise ValueError("too far")
        if value % 1:
            self._model(f"is {value} good?")
        return scored(value)


class FeatureProposer:
    """Proposes by iteration number: failures, trials, evaluation updates, no child or several."""

    def __init__(self) -> None:
        self._model = llm.JournaledLLM(PositionLLM())

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent, step = context.parents[-1], context.iteration
        position = float(str(parent.skeleton()))
        if step % 3 == 0:
            position += float(self._model(f"from {position}").text)
        if step % 7 == 0:
            raise RuntimeError("not today")
        if step % 4 == 0:
            drafts = [parent.clone(function.Text(repr(position + value))) for value in (0.5, 1.0, 9.0)]
            position += sum(result.score is not None for result in context.evaluate(drafts)) / 2
        if step % 5 == 0:
            context.update_evaluation(context.parents[0], scored(float(context.rng.randrange(-2, 3))))
        texts = [repr(position + context.rng.randrange(-4, 5) / 2) for _ in range(step % 6 != 1 and 1 + step % 3)]
        return [
            function.derive_child(parent, function.Text(text), step=step, shown=sorted(context.inspirations))
            for text in texts
        ]


def decide_by_iteration(proposal: gate.Proposal) -> gate.Decision:
    assert proposal.evaluation is not None
    number = int(proposal.candidate.id.partition(".")[0]) % 6
    if number == 5:
        raise KeyError("threshold")
    verdict: gate.Verdict = "hold" if number == 4 else "reject" if number == 3 else "accept"
    return gate.Decision(verdict, f"{proposal.evaluation.score} beside {len(proposal.parent_evaluations)}", "turns")


def fitness_by_island(island: int, result: evaluation.Evaluation) -> float:
    return result.scores[island % 2]


class Inbox:
    """Adds a command at each read, from the third one on."""

    def __init__(self) -> None:
        held = content_hash("-1.0")
        message = {"candidate": "4.0", "content_hash": held, "verdict": "accept", "reason": "good", "by": "ann"}
        late = {"island": 0, "candidate": "0.0", "evaluation": evaluation.to_data(scored(-1.0))}
        self._commands: list[tuple[Any, dict[str, Any]]] = [
            ("set", {"flavour": "sour"}), ("raise", {"bananas": 3}), ("raise", {"iterations": 26}), ("observe", late),
            ("decide", {**message, "verdict": "maybe"}), ("decide", {**message, "content_hash": "0"}),
            ("decide", message),
            ("bark", {}), ("pause", {}), ("resume", {}),
        ]  # fmt: skip
        self._reads = 0

    def read(self, after: int) -> Sequence[control.Command]:
        self._reads += 1
        posted = self._commands[: max(0, self._reads - 2)]
        return [control.Command(number, *command) for number, command in enumerate(posted, 1) if number > after]


def make_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    return cluster.NichedPopulation(
        cluster.by_signature,
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.SoftmaxSelector(rng, 3.0, 12),
        inspirations=lambda niches: {"best": [niches.best_fn()]},
    )


def make_feature_evolver(
    records: journal.Journal,
    profiler_fn: Any = profiler.default_fn,
    engine: function.Proposer | None = None,
    **options: Any,
) -> cluster.Evolver:
    plugs: dict[str, Any] = {
        "prefilter": gate.reject_duplicates,
        "gate": decide_by_iteration,
        "fitness": fitness_by_island,
        "make_population": make_population,
    }
    shared = cluster.IslandConfig(
        3,
        2,
        fixtures.make_initial(evaluator=FeatureEvaluator()),
        engine or FeatureProposer(),
        profiler_fn,
        profiler_fn,
        **plugs,
    )
    clock = itertools.count()  # each call is a second later, so the inbox is always read
    settings: dict[str, Any] = {
        "num_parallel": 1,
        "schedule": cluster.RoundRobin(3, block_size=2, migrate_every=4, reset_every=5),
        "budget": control.Budget(iterations=20, evaluations=28, calls=90),
        "learner": fixtures.Bandit(),
        "seed": 4,
        "ordered": True,
        "window": 3,
        "clock": lambda: float(next(clock)),
    } | options
    return cluster.Evolver(cluster.EvolverConfig(shared, journal=records, **settings))


def lines(records: journal.Journal) -> list[str]:
    return [json.dumps(record, sort_keys=True) for record in records.read()]


def members(island: cluster.Island) -> list[str]:
    assert isinstance(island.population, cluster.NichedPopulation)
    fns = (fn for item in island.population.clusters.values() for fn in item.members())
    return [f"{fn.candidate.id}: {fn.score()}" for fn in fns if fn.candidate]


def test_run_writes_stored_records() -> None:
    records = memory.MemoryJournal()
    make_feature_evolver(records, inbox=Inbox()).run()
    assert [remove_max_calls(line) for line in lines(records)] == STORED_RECORDS.read_text().splitlines()


def remove_max_calls(line: str) -> str:
    """Removes the key that version 0.1 did not store."""
    return re.sub(r'"max_calls": \d+, ', "", line)


def test_stored_records_recover_same_run() -> None:
    records, bandit = memory.MemoryJournal(), fixtures.Bandit()
    records.write(*(journal.Record(*json.loads(line)) for line in STORED_RECORDS.read_text().splitlines()))
    evolver = make_feature_evolver(records, learner=bandit)
    evolver.run()
    assert [(island.epoch, members(island)) for island in evolver.islands] == [
        (2, ["0.0: -0.0"]),
        (2, ["0.0: -1.0"]),
        (1, ["2.2: -0.0", "0.0: -0.0", "18.0: -1.0", "24.0: -2.0"]),
    ]
    best, spent = evolver.best_fn(), evolver.usage
    assert (best.candidate, best.evaluation) == (
        Candidate("18.0", "3.0", ("2.2",), 2, 18, {"shown": ["best"], "step": 18}),
        evaluation.Evaluation(-0.0, (-1.0, -0.0), {"value": 3.0}, "it is 3.0"),
    )
    assert (spent.iterations, spent.evaluations) == (26, 20)
    assert spent.cost == evaluation.Cost(tokens_in=150, tokens_out=15, usd=3.75, calls=15)
    assert bandit.learned == list(range(1, 27))
    assert bandit.gains == {0.1: 0.0, 0.5: pytest.approx(0.27619, abs=1e-5), 2.0: 0.0}
    assert evolver.reason == "budget of 26 iterations used"


def test_events_are_announced_in_stored_order() -> None:
    events = list[str]()

    def hear(event: Any) -> None:
        displayed = event.payload
        match event.type:
            case "on_islands_removed" | "on_islands_revived":
                events.append(f"{event.type} {[(item.index, item.epoch) for item in displayed]}")
            case "on_best_island_improved":
                events.append(f"{event.type} {displayed.index}")
            case "on_fn_selected":
                events.append(f"{event.type} {displayed[1].candidate.id} of {len(displayed[0])}")
            case _:
                events.append(f"{event.type} {displayed.candidate.id}")

    evolver = make_feature_evolver(journal.NullJournal(), profiler_fn=hear, inbox=Inbox())
    evolver.use_profiler(hear)
    evolver.run()
    assert events == STORED_EVENTS.read_text().splitlines()


class Next:
    """Proposes the next of its texts."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [context.parents[-1].clone(function.Text(text)) for text in self._texts]


class Notes:
    """Records the results that it learns from."""

    def __init__(self) -> None:
        self.learned = list[str]()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {}

    def learn(self, result: function.IterationResult) -> None:
        observed = [f"{fn.candidate.id} {fn.score()}" for fn in result.parents if fn.candidate]
        created = [f"{fn.candidate.id} {decision.verdict}" for fn, decision in result.children if fn.candidate]
        self.learned.append(f"{result.iteration} on {result.island}: {', '.join(observed)} gave {', '.join(created)}")


def test_external_version_is_evaluated_once_as_parent() -> None:
    store, records = memory.MemoryVersions(), memory.MemoryJournal()

    def continue_run(*texts: str, **budget: int) -> list[str]:
        notes = Notes()
        plugs = {
            "make_population": lambda *_: cluster.VersionedPopulation(
                store, "prompt", fixtures.make_initial(), function.Text, run_id="run"
            ),
            "gate": gate.require_improvement(),
            "fitness": lambda island, result: result.score + island,
        }
        options: dict[str, Any] = {"num_islands": 1, "islands": plugs, "learner": notes, "ordered": True, "window": 1}
        fixtures.make_evolver(Next(*texts), records=records, budget=control.Budget(**budget), **options).run()
        return notes.learned

    continue_run("1.0", iterations=1)
    store.set("prompt", "2.0", "by hand", "ann")
    live = continue_run("2.5", "7.0", iterations=2)
    assert live[1:] == ["2 on 0: prompt@3 -1.0 gave 2.0 accept, 2.1 reject"]
    store.set("prompt", "2.25", "by hand", "ann")
    continue_run("2.75", "2.25", evaluations=6, iterations=3)
    store.set("prompt", "2.125", "by hand", "ann")
    continue_run("2.875", iterations=4, evaluations=6)
    assert lines(records) == STORED_VERSION_RECORDS.read_text().splitlines()
    assert continue_run("3.0", iterations=5) == [
        "1 on 0: prompt@1 -9.0 gave 1.0 accept",
        "2 on 0: prompt@3 -1.0 gave 2.0 accept, 2.1 reject",
        "3 on 0: prompt@5 -0.5625 gave 3.0 reject, 3.1 reject",
        "4 on 0: prompt@6 -0.765625 gave 4.0 accept",
        "5 on 0: prompt@7 0.0 gave 5.0 reject",
    ]


class Taught(fixtures.Bandit):
    """Learns, and records the results that it learns from."""

    def __init__(self) -> None:
        super().__init__()
        self.notes = list[str]()

    def learn(self, result: function.IterationResult) -> None:
        super().learn(result)
        parents = [(fn.candidate, fn.evaluation, fn.score()) for fn in result.parents]
        children = [(fn.candidate, fn.evaluation, decision) for fn, decision in result.children]
        rest = (dict(result.advice), result.failure, result.cost)
        self.notes.append(f"{result.iteration} {result.island} {parents} {children} {rest}")


@pytest.mark.parametrize("learns", [True, False])
def test_crash_at_any_commit_and_resume_write_stored_records(learns: bool) -> None:
    def start_run(records: journal.Journal) -> tuple[Taught, cluster.Evolver]:
        taught = Taught()
        return taught, make_feature_evolver(records, learner=taught if learns else None)

    full = memory.MemoryJournal()
    live, evolver = start_run(full)
    evolver.run()
    dying = FailingJournal(memory.MemoryJournal())
    start_run(dying)[1].run()
    for commits in range(1, dying.num_commits, 11):
        parts = memory.MemoryJournal()
        with pytest.raises(errors.JournalFailed):
            start_run(FailingJournal(parts, commits))[1].run()
        again, evolver = start_run(parts)
        evolver.run()
        assert lines(parts) == lines(full), f"crash at commit {commits}"
        assert again.notes == live.notes


def test_proposal_context_describes_run() -> None:
    requests = list[str]()

    class Asking(FeatureProposer):
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            others = {
                role: [fn.candidate and fn.candidate.id for fn in fns] for role, fns in context.inspirations.items()
            }
            parents = [fn.candidate and fn.candidate.id for fn in context.parents]
            message = (
                context.island,
                context.iteration,
                context.applied_count,
                parents,
                others,
                dict(context.advice),
                context.max_evaluations,
            )
            requests.append(f"{message} {context.rng.randrange(1000)}")
            return super().propose(context)

    make_feature_evolver(memory.MemoryJournal(), engine=Asking()).run()
    assert (requests[0], requests[12]) == (
        "(0, 1, 0, ['0.0'], {'best': ['0.0']}, {'stride': 0.1}, 9) 772",
        "(0, 13, 10, ['0.0'], {'best': ['0.0']}, {'stride': 0.5}, 2) 518",
    )
