"""Iterations: costs, order, known evaluations, events, reserved budget and commands."""

import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from atoll import cluster, control, errors, evaluation, function, gate, journal, llm, testing
from atoll.candidate import Candidate
from atoll.cluster import evolver as evolver_module
from atoll.store import memory
from tests import fixtures


def test_request_mutation_runs_one_iteration_of_its_island() -> None:
    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(fixtures.FixedProposer("1.0"), records=records)
    evolver.islands[2].request_mutation()
    evolver.islands[1].request_mutation()
    assert [(record.step, record.island) for record in fixtures.list_records(records, "begun")] == [(1, 2), (2, 1)]
    assert [(record.step, record.island) for record in fixtures.list_records(records, "applied")] == [(1, 2), (2, 1)]


def test_default_window_is_worker_count_or_32_when_ordered() -> None:
    for options, window in (({"num_parallel": 3}, 3), ({"ordered": True}, 32), ({"window": 5}, 5)):
        records = memory.MemoryJournal()
        fixtures.make_evolver(records=records, iterations=50, **options).run()
        kinds = [record.kind for record in records.read() if record.kind in ("begun", "applied")]
        assert kinds[:window] == ["begun"] * window
        flying = 0
        for kind in kinds:
            flying += 1 if kind == "begun" else -1
            assert 0 <= flying <= window


def test_worker_threads_are_named_daemons() -> None:
    observed = set[tuple[str, bool]]()

    class Looking(fixtures.Walker):
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            thread = threading.current_thread()
            observed.add((thread.name, thread.daemon))
            return super().propose(context)

    fixtures.make_evolver(Looking(), iterations=5).run()
    assert observed == {("atoll-0", True)}


def test_update_of_removed_candidate_is_recorded_and_new_best_announced() -> None:
    records, inbox, events = memory.MemoryJournal(), memory.MemoryInbox(), list[Any]()
    for id, score in (("9.9", 5.0), ("0.0", 7.0)):
        inbox.post("observe", island=1, candidate=id, evaluation={"score": score, "scores": [score]})
    evolver = fixtures.make_evolver(fixtures.FixedProposer(), records=records, iterations=1, inbox=inbox)
    evolver.use_profiler(events.append)
    evolver.run()
    assert [(record.step, record.island, record.data) for record in fixtures.list_records(records, "observed")] == [
        (0, 1, {"id": "9.9", "evaluation": {"score": 5.0, "scores": (5.0,)}}),
        (0, 1, {"id": "0.0", "evaluation": {"score": 7.0, "scores": (7.0,)}}),
    ]
    assert [event.payload.index for event in events] == [0, 1]
    assert evolver.best_fn().score() == 7.0
    assert not any("refused" in record.data for record in fixtures.list_records(records, "controlled"))


def test_trials_beyond_budget_fail_with_reason() -> None:
    result = list[evaluation.Evaluation]()

    class Drafting:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            drafts = [context.parents[0].clone(function.Text(text)) for text in ("1.0", "2.0", "1.0", "3.0")]
            result.extend(context.evaluate(drafts))
            return []

    fixtures.make_evolver(Drafting(), budget=control.Budget(evaluations=3), iterations=None).run()
    assert [item.score for item in result] == [-4.0, -1.0, -4.0, None]
    assert result[-1] == evaluation.failed("the evaluation budget is used up")


def test_later_settings_override_earlier_ones() -> None:
    records, inbox = memory.MemoryJournal(), memory.MemoryInbox()
    for data in ({"flavour": "sour", "size": 1}, {"size": 2}):
        inbox.post("set", **data)
    fixtures.make_evolver(fixtures.FixedProposer(), records=records, iterations=1, inbox=inbox).run()
    assert [record.data["advice"] for record in fixtures.list_records(records, "begun")] == [
        {"flavour": "sour", "size": 2}
    ]


def test_evaluations_before_crash_are_reused() -> None:
    for commits, paid in ((2, [False, True]), (4, [False, True])):
        records = memory.MemoryJournal()
        dying = testing.FailingJournal(records, commits)
        cut = fixtures.make_evolver(
            fixtures.FixedProposer("0.0", "1.0"), records=dying, iterations=1, ordered=True, window=1
        )
        with pytest.raises(errors.JournalFailed):
            cut.run()
        again = fixtures.make_evolver(
            fixtures.FixedProposer("0.0", "1.0"), records=records, iterations=2, ordered=True, window=1
        )
        again.run()
        evaluated = [record.data["paid"] for record in fixtures.list_records(records, "judged")]
        assert evaluated == [*paid, False, False]
        assert again.usage.evaluations == 2


def test_resume_applies_stored_decisions() -> None:
    events = list[gate.Decision]()

    class Watched(cluster.NichedPopulation):
        def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
            events.append(decision)
            return replace(super().add_fn(fn, decision), reason=f"{decision.reason}, kept")

    def population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> cluster.NichedPopulation:
        return Watched(
            cluster.single_niche, lambda key: cluster.TournamentCluster(rng, announce), cluster.RankSelector(rng)
        )

    records = memory.MemoryJournal()
    plugs: Mapping[str, Any] = {"num_islands": 1, "islands": {"make_population": population}, "iterations": 1}
    fixtures.make_evolver(fixtures.FixedProposer("1.0"), records=records, **plugs).run()
    assert [item.reason for item in events] == ["founded", "it ran"]
    events.clear()
    fixtures.make_evolver(fixtures.FixedProposer("1.0"), records=records, **plugs).run()
    assert events == [gate.Decision("accept", "founded, kept", "atoll"), gate.Decision("accept", "it ran, kept", "ran")]


@pytest.mark.parametrize("fault", ["", "no model"])
def test_run_without_new_candidates_ends_with_failure(
    fault: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Idle:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            if fault:
                raise OSError(fault)
            return []

    monkeypatch.setattr(evolver_module, "MAX_IDLE_ITERATIONS", 3)
    records = memory.MemoryJournal()
    idle = fixtures.make_evolver(Idle(), records=records, budget=control.Budget(evaluations=10))
    idle.run()
    expected = "; the mutator raised OSError: no model" if fault else ""
    assert idle.reason == f"no new candidate to evaluate in 3 iterations{expected}"
    assert len(fixtures.list_records(records, "applied")) == 3
    message = ["iteration 1: the mutator raised OSError: no model; later failures are only recorded"] if fault else []
    assert [record.getMessage() for record in caplog.records] == message


def test_run_whose_llm_repeats_itself_ends_after_fewer_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asking:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            llm.JournaledLLM(fixtures.CountingLLM())("how far?")
            return []

    monkeypatch.setattr(evolver_module, "MAX_IDLE_LLM_ITERATIONS", 3)
    evolver = fixtures.make_evolver(Asking(), budget=control.Budget(evaluations=10))
    evolver.run()
    assert evolver.reason == "no new candidate to evaluate in 3 iterations"


def test_active_iteration_reserves_llm_call() -> None:
    class Asking:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            llm.JournaledLLM(fixtures.CountingLLM())("how far?")
            return []

    for ordered in (True, False):
        records = memory.MemoryJournal()
        options: Mapping[str, Any] = {"ordered": ordered, "window": 3, "budget": control.Budget(calls=5)}
        requests = fixtures.make_evolver(Asking(), records=records, **options)
        requests.run()
        assert requests.reason == "budget of 5 calls used"
        assert len(fixtures.list_records(records, "begun")) == 5
        assert requests.usage.cost.calls == 5


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "None"),
        ("accept", "'accept'"),
        (gate.Decision("maybe", "why not", "dice"), None),  # type: ignore[arg-type]
        (gate.Decision("accept", 7, "dice"), None),  # type: ignore[arg-type]
    ],
)
def test_invalid_gate_result_rejects_with_its_value(value: Any, message: str | None) -> None:
    records = memory.MemoryJournal()
    fixtures.make_evolver(
        fixtures.FixedProposer("1.0"), records=records, iterations=1, islands={"gate": lambda proposal: value}
    ).run()
    ((child,),) = [record.data["children"] for record in fixtures.list_records(records, "applied")]
    displayed = message or f"{value!r:.80}"
    assert child["decision"] == ["reject", f"the gate returned {displayed}, which is not a decision", "gate", None]


def test_prefilter_hold_still_evaluates_and_gates_see_context() -> None:
    requests = list[gate.Proposal]()

    def screen(proposal: gate.Proposal) -> gate.Decision:
        requests.append(proposal)
        llm.JournaledLLM(fixtures.CountingLLM())("is it new?")
        return gate.hold_all(proposal)

    def last(proposal: gate.Proposal) -> gate.Decision:
        requests.append(proposal)
        llm.JournaledLLM(fixtures.CountingLLM())("is it good?")
        return gate.has_score(proposal)

    records, rng = memory.MemoryJournal(), Random(0)

    def population(*_: object) -> cluster.NichedPopulation:
        return cluster.NichedPopulation(
            cluster.single_niche,
            lambda key: cluster.TournamentCluster(rng),
            cluster.RankSelector(rng),
            inspirations=lambda niches: {"top": [niches.best_fn()]},
        )

    plugs = {"prefilter": screen, "gate": last, "make_population": population}
    evolver = fixtures.make_evolver(
        fixtures.FixedProposer("1.0"), records=records, iterations=1, num_islands=1, islands=plugs
    )
    evolver.run()
    founder, created = Candidate("0.0", "0.0"), Candidate("1.0", "1.0", ("0.0",), 0, 1)
    rival = fixtures.evaluate(function.Text("0.0"))
    assert requests == [
        gate.Proposal(created, None, (rival,), (founder, founder)),
        gate.Proposal(created, fixtures.evaluate(function.Text("1.0")), (rival,), (founder, founder)),
    ]
    assert [record.data["call"] for record in fixtures.list_records(records, "replied")] == ["0/screen/0", "0/gate/0"]
    assert evolver.usage.cost.calls == 2
    assert fixtures.list_records(records, "applied")[0].data["cost"] == (0.0, 0, 0, 0.0, 2)


def test_function_without_evaluation_after_evaluate_fails() -> None:
    class Forgetful(function.DefaultFunction):
        def evaluate(self) -> function.FunctionScore:
            if str(self.skeleton()) == "0.0":
                return super().evaluate()
            return 7.0

    start = Forgetful(function.DefaultFunctionProps(function.Text("0.0"), candidate_evaluator=fixtures.evaluate))
    records = memory.MemoryJournal()
    fixtures.make_evolver(fixtures.FixedProposer("1.0"), start=start, records=records, iterations=1).run()
    ((child,),) = [record.data["children"] for record in fixtures.list_records(records, "applied")]
    assert child["decision"] == ["reject", "evaluate() returned 7.0 without an evaluation", "judge", None]


@pytest.mark.parametrize("part", ["engine", "gate", "judge"])
def test_setup_error_in_any_part_ends_run(part: str) -> None:
    def refuse(*_: object) -> Any:
        raise errors.SetupError("say which")

    def evaluate(skeleton: Any) -> evaluation.Evaluation:
        return fixtures.evaluate(skeleton) if part != "judge" or str(skeleton) == "0.0" else refuse()

    class Engine(fixtures.FixedProposer):
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            return refuse() if part == "engine" else super().propose(context)

    plugs = {"gate": refuse} if part == "gate" else {}
    evolver = fixtures.make_evolver(Engine("1.0"), start=fixtures.make_initial(evaluator=evaluate), islands=plugs)
    with pytest.raises(errors.SetupError, match=r"^say which$"):
        evolver.run()


class Posted:
    """Inbox in which each command appears at a given read."""

    def __init__(self, options: Mapping[int, tuple[Any, dict[str, Any]]]) -> None:
        self._commands, self._reads = options, 0

    def read(self, after: int) -> Sequence[control.Command]:
        self._reads += 1
        result = enumerate((command for at, command in self._commands.items() if at <= self._reads), 1)
        return [control.Command(number, *command) for number, command in result if number > after]


def test_command_after_last_iteration_is_applied() -> None:
    records, inbox = memory.MemoryJournal(), Posted({2: ("raise", {"iterations": 3})})
    evolver = fixtures.make_evolver(
        fixtures.FixedProposer(), records=records, iterations=1, inbox=inbox, clock=lambda: 0.0
    )
    evolver.run()
    assert evolver.reason == "budget of 3 iterations used"
    data = {"number": 1, "kind": "raise", "data": {"iterations": 3}}
    assert fixtures.list_records(records, "controlled") == [journal.Record("controlled", 1, -1, data)]
    assert len(fixtures.list_records(records, "applied")) == 3


def test_run_paused_at_end_ends_when_resumed() -> None:
    records, clock = memory.MemoryJournal(), itertools.count()
    inbox = Posted({4: ("pause", {}), 7: ("resume", {})})
    evolver = fixtures.make_evolver(
        fixtures.FixedProposer(), records=records, iterations=2, inbox=inbox, clock=lambda: float(next(clock))
    )
    evolver.run()
    assert evolver.reason == "budget of 2 iterations used"
    assert [record.data["kind"] for record in fixtures.list_records(records, "controlled")] == ["pause", "resume"]
    assert [record.kind for record in records.read()][-1] == "ended"


def test_inbox_is_read_at_most_five_times_per_second() -> None:
    reads = list[float]()
    now = itertools.count()

    def clock() -> float:
        return next(now) / 16  # each call is a sixteenth of a second later

    class Watched:
        def read(self, after: int) -> Sequence[control.Command]:
            reads.append(next(now) / 16)
            return ()

    fixtures.make_evolver(fixtures.FixedProposer(), iterations=12, inbox=Watched(), clock=clock).run()
    gaps = [later - before for before, later in itertools.pairwise(reads[:-1])]
    assert min(gaps) >= 0.2
    assert len(reads) > 4


def test_ctrl_c_ends_run_and_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    records = memory.MemoryJournal()
    evolver = fixtures.make_evolver(records=records, iterations=None)
    join, calls = evolver.join, itertools.count()

    def interrupted() -> None:
        if next(calls) == 0:
            fixtures.wait_until(lambda: bool(fixtures.list_records(records, "applied")))
            raise KeyboardInterrupt
        join()

    monkeypatch.setattr(evolver, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evolver.run()
    assert evolver.reason == "interrupted"
    assert fixtures.list_records(records, "ended")[0].data == {"reason": "interrupted"}


def test_child_evaluated_by_proposer_is_evaluated_again() -> None:
    class Eager:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            child = context.parents[0].clone(function.Text("1.0"))
            child.evaluate()
            return [child]

    records = memory.MemoryJournal()
    fixtures.make_evolver(Eager(), records=records, iterations=1).run()
    (evaluated,) = fixtures.list_records(records, "judged")
    assert (evaluated.data["id"], evaluated.data["evaluation"]["score"], evaluated.data["paid"]) == ("1.0", -4.0, True)


def test_child_with_failure_or_without_fitness_is_recorded() -> None:
    def evaluate(skeleton: Any) -> evaluation.Evaluation:
        return evaluation.failed("too far") if str(skeleton) == "9.0" else fixtures.evaluate(skeleton)

    def rank(island: int, result: evaluation.Evaluation) -> float:
        return 1 / (result.metrics["value"] - 1.0)

    records = memory.MemoryJournal()
    options: Mapping[str, Any] = {
        "start": fixtures.make_initial(evaluator=evaluate),
        "islands": {"fitness": rank},
        "iterations": 1,
    }
    fixtures.make_evolver(fixtures.FixedProposer("9.0", "1.0", "2.0"), records=records, **options).run()
    (applied,) = fixtures.list_records(records, "applied")
    assert applied.data == {
        "children": [
            {"id": "1.0", "decision": ["reject", "too far", "judge", None]},
            {
                "id": "1.1",
                "decision": ["reject", "the fitness raised ZeroDivisionError: float division by zero", "rank", None],
            },
            {"id": "1.2", "decision": ["accept", "it ran", "ran", None]},
        ],
        "evaluations": 3,
    }


def test_iterations_without_allowance_reserve_nothing() -> None:
    records, inbox = memory.MemoryJournal(), Posted({})
    requests = fixtures.make_evolver(fixtures.FixedProposer("1.0"), records=records, inbox=inbox, num_islands=1)
    requests.islands[0].request_mutation()
    again = fixtures.make_evolver(
        fixtures.FixedProposer("2.0"),
        records=records,
        num_islands=1,
        window=2,
        budget=control.Budget(evaluations=6, iterations=3),
    )
    again.run()
    assert [record.data.get("allowance") for record in fixtures.list_records(records, "begun")] == [None, 2, 1]


def test_ordered_iteration_done_early_waits() -> None:
    records = memory.MemoryJournal()

    class Overtaken:
        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            if context.iteration == 1:
                fixtures.wait_until(lambda: bool(fixtures.list_records(records, "judged")))
            return [context.parents[0].clone(function.Text(f"{context.iteration}.5"))]

    fixtures.make_evolver(Overtaken(), records=records, num_parallel=2, iterations=2, ordered=True, window=2).run()
    assert [record.data["id"] for record in fixtures.list_records(records, "judged")] == ["2.0", "1.0"]
    assert [record.step for record in fixtures.list_records(records, "applied")] == [1, 2]


def test_ordered_iteration_pays_despite_evaluation_of_later_iteration() -> None:
    for ordered, paid in ((True, [True, True]), (False, [True, False])):
        records = memory.MemoryJournal()
        fixtures.make_evolver(
            fixtures.FixedProposer("1.0"), records=records, iterations=2, ordered=ordered, window=2
        ).run()
        assert [record.data["paid"] for record in fixtures.list_records(records, "judged")] == paid


def test_seconds_are_counted_from_run_start() -> None:
    clock, records = itertools.count(1000), memory.MemoryJournal()
    budget = control.Budget(seconds=40.0)
    evolver = fixtures.make_evolver(
        fixtures.FixedProposer(), records=records, budget=budget, clock=lambda: float(next(clock))
    )
    evolver.run()
    assert evolver.reason == "budget of 40 seconds used"
    assert len(fixtures.list_records(records, "applied")) > 3
    assert 40.0 <= evolver.usage.seconds < 100.0


@pytest.mark.parametrize(("later_seconds", "end"), [(10.0, 640.0), (100.0, 800.0)])
def test_trials_end_with_the_seconds(later_seconds: float, end: float) -> None:
    now, records, count = [0.0], memory.MemoryJournal(), itertools.count()

    def evaluate_slowly(skeleton: Any) -> evaluation.Evaluation:
        now[0] += 10.0 if next(count) < 20 else later_seconds
        return fixtures.evaluate(skeleton)

    class Tuning:
        """Makes up to 40 trials of 10 seconds in each iteration."""

        def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
            limit = 40 if context.max_evaluations is None else min(40, context.max_evaluations)
            texts = [f"{context.iteration}.{number:03}1" for number in range(limit - 1)]
            context.evaluate([context.parents[0].clone(function.Text(text)) for text in texts])
            return [context.parents[0].clone(function.Text(f"{context.iteration}.5"))]

    evolver = fixtures.make_evolver(
        Tuning(),
        records=records,
        start=fixtures.make_initial(evaluator=evaluate_slowly),
        budget=control.Budget(seconds=600.0),
        clock=lambda: now[0],
    )
    evolver.run()
    assert evolver.reason == "budget of 600 seconds used"
    assert 600.0 <= now[0] <= end  # without the limit, 400 or 4,000 seconds per iteration


def test_initial_function_is_evaluated_again_with_llm_calls() -> None:
    def evaluator(skeleton: Any) -> evaluation.Evaluation:
        if journal.CallCache.current.get() is not None:
            llm.JournaledLLM(fixtures.CountingLLM())("is it good?")
        return fixtures.evaluate(skeleton)

    start, records = fixtures.make_initial(evaluator=evaluator), memory.MemoryJournal()
    start.evaluate()
    evolver = fixtures.make_evolver(fixtures.FixedProposer(), start=start, records=records, iterations=1)
    evolver.run()
    (bought,) = fixtures.list_records(records, "replied")
    assert (bought.step, bought.island, bought.data["call"]) == (0, -1, "0")
    assert evolver.usage.cost.calls == 1

    class Forgetful(function.DefaultFunction):
        def evaluate(self) -> function.FunctionScore:
            return 7.0

    forgetful = Forgetful(function.DefaultFunctionProps(function.Text("0.0"), candidate_evaluator=fixtures.evaluate))
    message = "The initial candidate has no score: it was not evaluated. Correct it or its evaluator."
    with pytest.raises(errors.RunFailed, match=f"^{message}$"):
        fixtures.make_evolver(start=forgetful).run()
