"""What every proposer promises: that a step is a function of its task."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from atoll import cluster, control, errors, function, llm
from atoll.candidate import content_hash
from atoll.evaluation import Evaluation
from atoll.journal import Journal, Record
from atoll.store import memory
from atoll.testing.fakes import FailingJournal, RandomDelays, get_comparable_records
from atoll.testing.scripted_llm import ScriptedLLM


class ProposerSuite(ABC):
    """Runs yours in ordered evolvers with naps, on one worker and on four, with a cut at every commit and a resume.

    All of these runs must be one and the same. `initial` and `answer` suit a proposer that makes texts of texts;
    override them for one that needs programs to start from or replies of its own format.
    """

    num_steps = 8
    num_islands = 2
    window = 3  # less than the steps: later ones start from what earlier ones made
    max_delay = 0.002

    @abstractmethod
    def make(self, model: llm.LLM) -> function.Proposer | function.MutationEngine:
        """Returns a new proposer; the model is durable already and answers by `answer`."""

    def initial(self, model: llm.LLM) -> function.Function:
        """Returns what evolution starts from, with its judge: a text whose score hangs on every character.

        A judge may ask the model too; what it buys is the candidate's.
        """
        return function.DefaultFunction(
            function.DefaultFunctionProps(function.Text("0.5"), candidate_evaluator=_evaluate)
        )

    def answer(self, step: int, call: str, prompt: str) -> str:
        """Returns what the model replies; a number from 0 to 1 by default, drawn from the place and the prompt."""
        return repr(Random(f"{step}/{call}/{prompt}").random())

    def learner(self) -> function.Learner | None:
        """Returns a new learner that advises the proposer, if it has one."""
        return None

    def test_proposer_makes_children_that_can_be_evaluated(self) -> None:
        """It proposes something here; otherwise the tests below would mean nothing."""
        journal = memory.MemoryJournal()
        self.run(journal)
        applied = [record.data for record in get_comparable_records(journal) if record.kind == "applied"]
        assert len(applied) == self.num_steps
        failures = [data["failure"] for data in applied if "failure" in data]
        assert any(data["children"] for data in applied), f"no child was proposed: {failures}"
        assert any(record.kind == "judged" for record in journal.records)

    def test_children_are_unevaluated_and_parents_are_unchanged(self) -> None:
        """It returns clones with new skeletons, which nobody has judged, and changes no function that it was shown."""
        checked: list[_CheckedProposer] = []

        def wrap(proposer: function.Proposer) -> function.Proposer:
            checked.append(_CheckedProposer(proposer))
            return checked[-1]

        self.run(memory.MemoryJournal(), wrap=wrap)
        assert checked[0].violations == []

    def test_proposer_uses_only_its_own_rng(self) -> None:
        """It reads no global random: the generator of its task is the only one."""
        state = random.getstate()
        self.run(memory.MemoryJournal())
        is_unchanged = random.getstate() == state
        assert is_unchanged, "the global random was drawn from"  # two states of 625 numbers would say less

    def test_timing_and_number_of_workers_do_not_change_the_run(self) -> None:
        """The same candidates, evaluations, decisions and calls in the order of steps."""
        expected = self._run_uninterrupted()
        for workers in (1, 4):
            for seed in range(3):
                journal = memory.MemoryJournal()
                self.run(journal, workers=workers, delays=RandomDelays(seed, self.max_delay))
                _compare_histories(get_comparable_records(journal), expected, f"{workers} workers, naps {seed}")

    def test_resume_after_any_commit_with_one_worker(self) -> None:
        """Each cut is followed by a resume on the same journal; no reply that it holds is asked for again."""
        self._test_cuts(workers=1)

    def test_resume_after_any_commit_with_four_workers(self) -> None:
        """As above, with steps of several workers under way at the cut."""
        self._test_cuts(workers=4)

    def run(
        self,
        journal: Journal,
        *,
        workers: int = 1,
        delays: RandomDelays | None = None,
        wrap: Any = lambda proposer: proposer,
    ) -> ScriptedLLM:
        """Runs the proposer on a journal to the end and returns the model that it asked."""
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

    def _test_cuts(self, workers: int) -> None:
        expected = self._run_uninterrupted()
        for num_commits, journal in self._generate_cuts(workers):
            description = f"cut at commit {num_commits}, {workers} workers"
            stored_calls = {(record.step, record.data["call"]) for record in journal.read() if record.kind == "replied"}
            delays = RandomDelays(-num_commits, self.max_delay)
            model = self.run(journal, workers=5 - workers, delays=delays)
            _compare_histories(get_comparable_records(journal), expected, description)
            repeated_calls = stored_calls.intersection(model.requests)
            assert not repeated_calls, f"{description}: the journal held the replies of {sorted(repeated_calls)}"

    def _generate_cuts(self, workers: int) -> Iterator[tuple[int, Journal]]:
        """Yields a journal cut at each commit: in turn before one that never was stored, and after one that was."""
        for num_commits in range(10_000):
            journal = memory.MemoryJournal()
            failing_journal = FailingJournal(journal, num_commits, fails_after_write=num_commits % 2 == 1)
            with suppress(errors.JournalFailed):
                self.run(failing_journal, workers=workers, delays=RandomDelays(num_commits, self.max_delay))
            yield num_commits, journal
            if not failing_journal.is_failed:
                return


class _DelayedProposer:
    """Sleeps before it proposes, so that steps overtake each other also where no model is asked."""

    def __init__(self, proposer: function.Proposer, delays: RandomDelays) -> None:
        self._proposer, self._delays = proposer, delays

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        self._delays("propose", context.iteration)
        return self._proposer.propose(context)


class _CheckedProposer:
    """Notes what a proposer must not do."""

    def __init__(self, proposer: function.Proposer) -> None:
        self._proposer = proposer
        self.violations: list[str] = []

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        inputs = [*context.parents, *(fn for fns in context.inspirations.values() for fn in fns)]
        states = [_get_state(fn) for fn in inputs]
        children = self._proposer.propose(context)
        if [_get_state(fn) for fn in inputs] != states:
            self.violations.append(f"step {context.iteration} changed a function that it was shown")
        for child in children:
            if any(child is fn for fn in inputs):
                self.violations.append(
                    f"step {context.iteration} returned a parent itself: clone it with a new skeleton"
                )
            if child.evaluation is not None:
                self.violations.append(
                    f"step {context.iteration} returned a judged function: the kernel judges children"
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
