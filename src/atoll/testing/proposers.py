"""What every proposer promises: that a step is a function of its task."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from atoll import cluster, control, errors, function, llm
from atoll.candidate import digest
from atoll.evaluation import Evaluation
from atoll.journal import Journal, Record
from atoll.store import memory
from atoll.testing.cuts import DyingJournal
from atoll.testing.histories import history
from atoll.testing.naps import Naps
from atoll.testing.scripted import ScriptedLLM


class ProposerSuite(ABC):
    """Runs yours in ordered evolvers with naps, on one worker and on four, with a cut at every commit and a resume.

    All of these runs must be one and the same. `initial` and `answer` suit a proposer that makes texts of texts;
    override them for one that needs programs to start from or replies of its own format.
    """

    num_steps = 8
    num_islands = 2
    window = 3  # less than the steps: later ones start from what earlier ones made
    longest_nap = 0.002

    @abstractmethod
    def make(self, model: llm.LLM) -> function.Proposer | function.MutationEngine:
        """Returns a new proposer; the model is durable already and answers by `answer`."""

    def initial(self, model: llm.LLM) -> function.Function:
        """Returns what evolution starts from, with its judge: a text whose score hangs on every character.

        A judge may ask the model too; what it buys is the candidate's.
        """
        return function.DefaultFunction(function.DefaultFunctionProps(function.Text("0.5"), judge=_judge))

    def answer(self, step: int, call: str, prompt: str) -> str:
        """Returns what the model replies; a number from 0 to 1 by default, drawn from the place and the prompt."""
        return repr(Random(f"{step}/{call}/{prompt}").random())

    def learner(self) -> function.Learner | None:
        """Returns a new learner that advises the proposer, if it has one."""
        return None

    def test_it_makes_children_that_can_be_judged(self) -> None:
        """It proposes something here; otherwise the tests below would mean nothing."""
        journal = memory.MemoryJournal()
        self.run(journal)
        found = [record.data for record in history(journal) if record.kind == "applied"]
        assert len(found) == self.num_steps
        failures = [data["failure"] for data in found if "failure" in data]
        assert any(data["children"] for data in found), f"no child was proposed: {failures}"
        assert any(record.kind == "judged" for record in journal.records)

    def test_children_are_drafts_and_parents_stay_as_they_were(self) -> None:
        """It returns clones with new skeletons, which nobody has judged, and changes no function that it was shown."""
        watched: list[_Watched] = []

        def wrap(proposer: function.Proposer) -> function.Proposer:
            watched.append(_Watched(proposer))
            return watched[-1]

        self.run(memory.MemoryJournal(), wrap=wrap)
        assert watched[0].wrong == []

    def test_it_draws_from_its_task_alone(self) -> None:
        """It reads no global random: the generator of its task is the only one."""
        before = random.getstate()
        self.run(memory.MemoryJournal())
        is_untouched = random.getstate() == before
        assert is_untouched, "the global random was drawn from"  # two states of 625 numbers would say less

    def test_neither_timing_nor_the_number_of_workers_changes_anything(self) -> None:
        """The same candidates, evaluations, decisions and calls in the order of steps."""
        whole = self._whole()
        for workers in (1, 4):
            for seed in range(3):
                journal = memory.MemoryJournal()
                self.run(journal, workers=workers, naps=Naps(seed, self.longest_nap))
                _compare(history(journal), whole, f"{workers} workers, naps {seed}")

    def test_a_cut_at_any_commit_changes_nothing_and_pays_nothing_twice_on_one_worker(self) -> None:
        """Each cut is followed by a resume on the same journal; no reply that it holds is asked for again."""
        self._cut_everywhere(workers=1)

    def test_a_cut_at_any_commit_changes_nothing_and_pays_nothing_twice_on_four_workers(self) -> None:
        """As above, with steps of several workers under way at the cut."""
        self._cut_everywhere(workers=4)

    def run(
        self, journal: Journal, *, workers: int = 1, naps: Naps | None = None, wrap: Any = lambda proposer: proposer
    ) -> ScriptedLLM:
        """Runs the proposer on a journal to the end and returns the model that it asked."""
        model = ScriptedLLM(self.answer, naps=naps)
        durable = llm.Durable(model)
        proposer = wrap(function.lift(self.make(durable)))
        if naps is not None:
            proposer = _Napping(proposer, naps)
        shared = cluster.IslandConfig(self.num_islands, 2, self.initial(durable), proposer)
        config = cluster.EvolverConfig(
            shared,
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

    def _whole(self) -> Sequence[Record]:
        journal = memory.MemoryJournal()
        self.run(journal)
        return history(journal)

    def _cut_everywhere(self, workers: int) -> None:
        whole = self._whole()
        for commits, journal in self._cuts(workers):
            where = f"cut at commit {commits}, {workers} workers"
            bought = {(each.step, each.data["call"]) for each in journal.read() if each.kind == "replied"}
            naps = Naps(-commits, self.longest_nap)
            model = self.run(journal, workers=5 - workers, naps=naps)
            _compare(history(journal), whole, where)
            again = bought.intersection(model.asked)
            assert not again, f"{where}: the journal held the replies of {sorted(again)}"

    def _cuts(self, workers: int) -> Iterator[tuple[int, Journal]]:
        """Yields a journal cut at each commit: in turn before one that never was stored, and after one that was."""
        for commits in range(10_000):
            journal = memory.MemoryJournal()
            dying = DyingJournal(journal, commits, after=commits % 2 == 1)
            with suppress(errors.JournalFailed):
                self.run(dying, workers=workers, naps=Naps(commits, self.longest_nap))
            yield commits, journal
            if not dying.is_dead:
                return


class _Napping:
    """Sleeps before it proposes, so that steps overtake each other also where no model is asked."""

    def __init__(self, proposer: function.Proposer, naps: Naps) -> None:
        self._proposer, self._naps = proposer, naps

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        self._naps("propose", task.step)
        return self._proposer.propose(task)


class _Watched:
    """Notes what a proposer must not do."""

    def __init__(self, proposer: function.Proposer) -> None:
        self._proposer = proposer
        self.wrong: list[str] = []

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        shown = [*task.parents, *(fn for fns in task.others.values() for fn in fns)]
        before = [_state(fn) for fn in shown]
        children = self._proposer.propose(task)
        if [_state(fn) for fn in shown] != before:
            self.wrong.append(f"step {task.step} changed a function that it was shown")
        for child in children:
            if any(child is fn for fn in shown):
                self.wrong.append(f"step {task.step} returned a parent itself: clone it with a new skeleton")
            if child.evaluation is not None:
                self.wrong.append(f"step {task.step} returned a judged function: the kernel judges children")
        return children


def _state(fn: function.Function) -> tuple[object, ...]:
    return str(fn.skeleton()), fn.candidate, fn.evaluation, fn.score() if fn.evaluation else None


def _judge(skeleton: object) -> Evaluation:
    scores = tuple(int(digest(f"{place}{skeleton}")[:6], 16) / 16**6 for place in range(3))
    return Evaluation(sum(scores) / 3, scores)


def _compare(found: Sequence[Record], whole: Sequence[Record], where: str) -> None:
    for one, other in zip(found, whole, strict=False):
        assert one == other, f"{where}:\n{one}\ninstead of\n{other}"
    assert len(found) == len(whole), f"{where}: {len(found)} records instead of {len(whole)}"
