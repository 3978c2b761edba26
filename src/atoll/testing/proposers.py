"""Test suites for the parts of an iteration: proposers, candidate evaluators and gates."""

import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from atoll import cluster, control, errors, evaluation, function, gate, llm
from atoll.candidate import Candidate, content_hash
from atoll.evaluation import ZERO_COST, Evaluation
from atoll.journal import APPLIED, EVALUATED, RESPONSE, Journal, Record
from atoll.store import memory
from atoll.testing import fakes
from atoll.testing.fakes import FailingJournal, RandomDelays, get_comparable_records
from atoll.testing.llms import ScriptedLLM


class ProposerSuite(ABC):
    """Tests for a proposer. Subclass it and implement `make`.

    The proposer runs in ordered evolvers with random delays, on one and on four workers, with a crash at every commit
    and a resume. All runs must be equal. `initial` and `answer` suit a proposer of plain texts; override them for
    programs or for another response format.
    """

    num_steps = 8
    num_islands = 2
    window = 3  # fewer than the iterations, so that later ones use earlier results
    max_delay = 0.002

    @abstractmethod
    def make(self, model: llm.LLM) -> function.Proposer | function.MutationEngine:
        """Returns a new proposer. The LLM is journaled and responds with `answer`."""

    def initial(self, model: llm.LLM) -> function.Function:
        """Returns the initial function with its evaluator; by default every character affects the score.

        The evaluator may call the LLM; the calls belong to the candidate.
        """
        return function.DefaultFunction(
            function.DefaultFunctionProps(function.Text("0.5"), candidate_evaluator=_evaluate)
        )

    def answer(self, step: int, call: str, prompt: str) -> str:
        """Returns the LLM response; by default a number from 0 to 1, derived from position and prompt."""
        return repr(Random(f"{step}/{call}/{prompt}").random())

    def learner(self) -> function.Learner | None:
        """Returns a new learner for the proposer, or None."""
        return None

    def test_proposer_makes_children_that_can_be_evaluated(self) -> None:
        """At least one child is proposed; otherwise the other tests check nothing."""
        journal = memory.MemoryJournal()
        self.run(journal)
        applied = [record.data for record in get_comparable_records(journal) if record.kind == APPLIED]
        assert len(applied) == self.num_steps
        failures = [data["failure"] for data in applied if "failure" in data]
        assert any(data["children"] for data in applied), f"no child was proposed: {failures}"
        assert any(record.kind == EVALUATED for record in journal.records)

    def test_children_are_unevaluated_and_parents_are_unchanged(self) -> None:
        """It returns unevaluated clones with new skeletons and does not change its inputs."""
        checked: list[_CheckedProposer] = []

        def wrap(proposer: function.Proposer) -> function.Proposer:
            checked.append(_CheckedProposer(proposer))
            return checked[-1]

        self.run(memory.MemoryJournal(), wrap=wrap)
        assert checked[0].violations == []

    def test_proposer_uses_only_its_own_rng(self) -> None:
        """It uses only the generator of its context, not the global one."""
        state = random.getstate()
        self.run(memory.MemoryJournal())
        is_unchanged = random.getstate() == state
        assert is_unchanged, "the global random generator was used"  # shorter than two states of 625 numbers

    def test_timing_and_number_of_workers_do_not_change_the_run(self) -> None:
        """Candidates, evaluations, decisions and calls are equal, in order of iterations."""
        expected = self._run_uninterrupted()
        for workers in (1, 4):
            for seed in range(3):
                journal = memory.MemoryJournal()
                self.run(journal, workers=workers, delays=RandomDelays(seed, self.max_delay))
                _compare_histories(get_comparable_records(journal), expected, f"{workers} workers, delays {seed}")

    def test_resume_after_any_commit_with_one_worker(self) -> None:
        """After a crash at each commit the run is resumed; stored responses are not requested again."""
        self._test_crashes(workers=1)

    def test_resume_after_any_commit_with_four_workers(self) -> None:
        """Like the test with one worker, with several iterations running at the crash."""
        self._test_crashes(workers=4)

    def run(
        self,
        journal: Journal,
        *,
        workers: int = 1,
        delays: RandomDelays | None = None,
        wrap: Any = lambda proposer: proposer,
    ) -> ScriptedLLM:
        """Runs the proposer until the end and returns the LLM that it called."""
        model = ScriptedLLM(self.answer, delays=delays)
        journaled_llm = llm.JournaledLLM(model)
        proposer = wrap(function.as_proposer(self.make(journaled_llm)))
        if delays is not None:
            proposer = _DelayedProposer(proposer, delays)
        island_config = cluster.IslandConfig(self.num_islands, 2, self.initial(journaled_llm), proposer)
        config = cluster.EvolverConfig(
            island_config,
            num_parallel=workers,
            schedule=cluster.RoundRobin(self.num_islands, migrate_every=4, reset_every=6),
            journal=journal,
            budget=control.Budget(iterations=self.num_steps),
            learner=self.learner(),
            ordered=True,
            window=self.window,
        )
        cluster.Evolver(config).run()
        return model

    def _run_uninterrupted(self) -> Sequence[Record]:
        journal = memory.MemoryJournal()
        self.run(journal)
        return get_comparable_records(journal)

    def _test_crashes(self, workers: int) -> None:
        expected = self._run_uninterrupted()
        for num_commits, journal in self._generate_crashes(workers):
            description = f"crash at commit {num_commits}, {workers} workers"
            stored_calls = {(record.step, record.data["call"]) for record in journal.read() if record.kind == RESPONSE}
            delays = RandomDelays(-num_commits, self.max_delay)
            model = self.run(journal, workers=5 - workers, delays=delays)
            _compare_histories(get_comparable_records(journal), expected, description)
            repeated_calls = stored_calls.intersection(model.requests)
            assert not repeated_calls, f"{description}: requested stored responses again: {sorted(repeated_calls)}"

    def _generate_crashes(self, workers: int) -> Iterator[tuple[int, Journal]]:
        """Yields a journal for a crash at each commit, alternately before and after the commit is stored."""
        for num_commits in range(10_000):
            journal = memory.MemoryJournal()
            failing_journal = FailingJournal(journal, num_commits, fails_after_write=num_commits % 2 == 1)
            with suppress(errors.JournalFailed):
                self.run(failing_journal, workers=workers, delays=RandomDelays(num_commits, self.max_delay))
            yield num_commits, journal
            if not failing_journal.is_failed:
                return


class _DelayedProposer:
    """Sleeps before it proposes, so that iterations overtake each other without LLM calls too."""

    def __init__(self, proposer: function.Proposer, delays: RandomDelays) -> None:
        self._proposer, self._delays = proposer, delays

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        self._delays("propose", context.iteration)
        return self._proposer.propose(context)


class _CheckedProposer:
    """Records violations of the protocol."""

    def __init__(self, proposer: function.Proposer) -> None:
        self._proposer = proposer
        self.violations: list[str] = []

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        inputs = [*context.parents, *(fn for fns in context.inspirations.values() for fn in fns)]
        states = [_get_state(fn) for fn in inputs]
        children = self._proposer.propose(context)
        if [_get_state(fn) for fn in inputs] != states:
            self.violations.append(f"iteration {context.iteration} changed an input function")
        for child in children:
            if any(child is fn for fn in inputs):
                self.violations.append(f"iteration {context.iteration} returned a parent; clone it with a new skeleton")
            if child.evaluation is not None:
                self.violations.append(
                    f"iteration {context.iteration} returned an evaluated child; the evolver evaluates children"
                )
        return children


def _get_state(fn: function.Function) -> tuple[object, ...]:
    return str(fn.skeleton()), fn.candidate, fn.evaluation, fn.score() if fn.evaluation else None


def _evaluate(skeleton: object) -> Evaluation:
    scores = tuple(int(content_hash(f"{index}{skeleton}")[:6], 16) / 16**6 for index in range(3))
    return Evaluation(sum(scores) / 3, scores)


def _compare_histories(records: Sequence[Record], expected: Sequence[Record], description: str) -> None:
    for record, expected_record in zip(records, expected, strict=False):
        assert record == expected_record, f"{description}:\n{record}\ninstead of\n{expected_record}"
    assert len(records) == len(expected), f"{description}: {len(records)} records instead of {len(expected)}"


type AnySkeleton = function.Skeleton[..., Any]

_BAD_SOURCES = (
    "def f(*args): raise RuntimeError('a bad one')",
    "def f(*args): return float('nan')",
    "def f(*args): return float('-inf')",
    "def f(*args): return None",
    "def f(*args): return 'a text'",
    "def f(*args): return 10 ** 400",
    "def f(*args): return f(*args)",
    "def f(*args): exit(1)",
    "def f(*args",
    "no function = here",
    "",
)


class CandidateEvaluatorSuite(ABC):
    """Tests for an evaluator. Subclass it and implement `make` and `good`."""

    @abstractmethod
    def make(self) -> function.CandidateEvaluator:
        """Returns the evaluator."""

    @abstractmethod
    def good(self) -> AnySkeleton:
        """Returns a candidate that gets a score."""

    def bad(self) -> Sequence[AnySkeleton]:
        """Returns candidates that fail; by default functions that raise, return no number or do not parse."""
        return [function.PyAstSkeleton(source) for source in _BAD_SOURCES]

    def test_good_candidate_gets_score(self) -> None:
        """The score is finite, and the failure is None."""
        result = self.make()(self.good())
        assert result.failure is None
        assert isinstance(result.score, float)
        _check_evaluation(result)

    def test_bad_candidate_gets_failure(self) -> None:
        """The evaluation has a failure instead of a score; the evaluator does not raise."""
        evaluator = self.make()
        for skeleton in self.bad():
            result = evaluator(skeleton)
            assert result.score is None, f"{skeleton} has the score {result.score}"
            assert result.failure is not None
            assert result.failure.strip(), f"{skeleton} has an empty failure"
            _check_evaluation(result)

    def test_bad_candidates_do_not_affect_the_next(self) -> None:
        """The same candidate gets the same evaluation after bad ones."""
        evaluator = self.make()
        first_result = evaluator(self.good())
        for skeleton in self.bad():
            evaluator(skeleton)
        assert _drop_cost(evaluator(self.good())) == _drop_cost(first_result)

    def test_evaluator_is_thread_safe(self) -> None:
        """All workers share one evaluator; results do not mix."""
        evaluator = self.make()
        expected = _drop_cost(evaluator(self.good()))
        assert fakes.run_concurrently(lambda _: _drop_cost(evaluator(self.good())), 4) == [expected] * 4


def _check_evaluation(result: Evaluation) -> None:
    """Checks the invariants of an evaluation, and that it can be stored in a journal."""
    assert (result.failure is None) == (result.score is not None)
    assert all(math.isfinite(value) for value in (result.score or 0.0, *result.scores, *result.metrics.values()))
    assert evaluation.from_data(json.loads(json.dumps(evaluation.to_data(result), allow_nan=False))) == result


def _drop_cost(result: Evaluation) -> Evaluation:
    return replace(result, cost=ZERO_COST)


class GateSuite(ABC):
    """Tests for a gate. Subclass it and implement `make`."""

    @abstractmethod
    def make(self) -> gate.Gate:
        """Returns the gate."""

    def test_decision_has_verdict_reason_and_author(self) -> None:
        """No proposal raises, with or without an evaluation, and every decision is complete."""
        decide = self.make()
        for proposal in generate_proposals():
            decision = decide(proposal)
            assert decision.verdict in ("accept", "hold", "reject"), f"on {proposal}"
            assert decision.reason.strip(), f"on {proposal}"
            assert decision.decided_by.strip(), f"on {proposal}"

    def test_decision_has_no_version(self) -> None:
        """Versions are created only when a decision is applied."""
        decide = self.make()
        assert all(decide(proposal).version is None for proposal in generate_proposals())

    def test_same_proposal_gets_same_decision(self) -> None:
        """The decision depends only on the proposal, so a repeated iteration gets the same one."""
        first, second = self.make(), self.make()
        first_decisions = [first(proposal) for proposal in generate_proposals()]
        # Compared in pairs: pytest takes a minute to show how two long lists differ.
        pairs = list(zip(generate_proposals(), first_decisions, strict=True))
        assert all(first(proposal) == decision for proposal, decision in pairs)
        assert all(second(proposal) == decision for proposal, decision in reversed(pairs))

    def test_gate_is_thread_safe(self) -> None:
        """All workers share one gate."""
        decide, proposals = self.make(), list(generate_proposals())
        expected = list(map(decide, proposals))
        assert fakes.run_concurrently(lambda _: list(map(decide, proposals)), 4) == [expected] * 4


def generate_proposals() -> Iterator[gate.Proposal]:
    """Yields good, bad, failed and unevaluated proposals, with comparable and other parents."""
    parent_evaluations = (
        (),
        (Evaluation(1.0, (0.0, 1.0, 2.0)),),
        (Evaluation(1.0, (0.0, 1.0, 2.0)), Evaluation(0.0, (0.0, 0.0, 0.0))),
        (Evaluation(5.0, (5.0,)),),
        (Evaluation(1.0),),
        (evaluation.failed("it did not run"),),
    )
    evaluations = (
        None,
        Evaluation(1.0, (0.0, 1.0, 2.0)),
        Evaluation(2.0, (1.0, 2.0, 3.0)),
        Evaluation(-2.0, (-1.0, -2.0, -3.0), {"length": 3.0}, "try harder"),
        Evaluation(2.0),
        evaluation.failed("it did not run"),
    )
    known_candidates = (Candidate("0.0", "def f(): pass"), Candidate("1.0", ""))
    for content in ("def f(): pass", "def f():  pass\n", "something new", ""):
        for result in evaluations:
            for parents in parent_evaluations:
                yield gate.Proposal(Candidate("3.0", content, ("0.0", "1.0")), result, parents, known_candidates)
