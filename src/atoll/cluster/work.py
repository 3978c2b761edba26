"""What a worker does with a ticket, holding no lock: propose, screen, judge, gate."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from atoll import errors, evaluation, function
from atoll.archipelago import Ticket
from atoll.candidate import Candidate, digest
from atoll.cluster import records
from atoll.cluster.config import IslandConfig
from atoll.cluster.memo import Memo
from atoll.evaluation import Cost, Evaluation
from atoll.gate import Decision, Gate, Proposal
from atoll.journal import Journal, Ledger


class Done(NamedTuple):
    """A ticket that was worked: its children, late judgements of others, and what it took."""

    ticket: Ticket
    children: Sequence[records.Child]
    failure: str | None
    observed: Sequence[tuple[str, Evaluation]]
    evaluations: int
    calls: int
    spent: Cost


@dataclass(slots=True)
class Stored:
    """What the journal already holds of a step: replies by call; candidate, evaluation and who paid, by label."""

    replies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    judged: dict[str, tuple[Candidate, Evaluation, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bench:
    """The tools that all steps share."""

    config: IslandConfig
    proposer: function.Proposer
    journal: Journal
    memo: Memo
    seed: int
    ordered: bool


class Work:
    """One ticket at work: a function of its task, replies and evaluations, so that run again it gives the same."""

    def __init__(self, bench: Bench, ticket: Ticket, stored: Stored) -> None:
        self._bench, self._ticket, self._stored = bench, ticket, stored
        self._horizon = ticket.seen if bench.ordered else math.inf
        self._own: dict[str, Evaluation] = {}
        self._num_drafts = self._evaluations = self._calls = 0
        self._spent = evaluation.FREE
        self._observed: list[tuple[str, Evaluation]] = []
        self._parents = ticket.pick.parents

    def do(self) -> Done:
        """Works the ticket; an engine, judge or gate that raises becomes a failure or a rejection."""
        born = errors.attempt(lambda: self._with_ledger("", self._propose))
        failure = f"the engine raised {born}" if isinstance(born, errors.Caught) else None
        children = [] if isinstance(born, errors.Caught) else [self._child(*each) for each in born]
        took = self._evaluations, self._calls, self._spent
        return Done(self._ticket, children, failure, self._observed, *took)

    def _propose(self) -> list[tuple[str, Candidate, function.Function]]:
        ticket, pick = self._ticket, self._ticket.pick
        self._parents = [self._known(fn) for fn in pick.parents]
        rng = Random(f"{self._bench.seed}/{ticket.step}/propose")
        context = (self._parents, pick.others, ticket.advice, rng, ticket.allowance, self._judge_drafts, self._observe)
        children = self._bench.proposer.propose(function.Task(ticket.island, ticket.step, ticket.seen, *context))
        return [(str(k), self._born(str(k), fn), fn) for k, fn in enumerate(children)]

    def _known(self, parent: function.Function) -> function.Function:
        """Judges a parent that nobody has judged: a head that was set from outside."""
        if parent.evaluation is not None:
            return parent
        found = self._judge_drafts([parent])[0]
        self._observe(parent, found)
        return parent.settle(records.require(parent), found, found.score)

    def _judge_drafts(self, drafts: Sequence[function.Function]) -> Sequence[Evaluation]:
        first = self._num_drafts
        self._num_drafts += len(drafts)
        labelled = [(f"d{first + place}", fn) for place, fn in enumerate(drafts)]
        found = [self._judge(label, self._born(label, fn), fn) for label, fn in labelled]
        return [each or evaluation.failed("no evaluation was left in the budget") for each in found]

    def _observe(self, fn: function.Function, found: Evaluation) -> None:
        self._observed.append((records.require(fn).id, evaluation.clean(found)))

    def _child(self, label: str, candidate: Candidate, fn: function.Function) -> records.Child:
        screen = self._bench.config.screen
        if screen and (decision := self._ask(screen, candidate, None)).verdict == "reject":
            return fn.settle(candidate), decision
        found = self._judge(label, candidate, fn)
        if found is None:
            return fn.settle(candidate), Decision("reject", "no evaluation was left in the budget", "budget")
        if found.failure is not None:
            return fn.settle(candidate, found), Decision("reject", found.failure, "judge")
        rank = errors.attempt(lambda: float(self._bench.config.rank(self._ticket.island, found)))
        if isinstance(rank, errors.Caught) or math.isnan(rank):
            return fn.settle(candidate, found), Decision("reject", f"the rank is {rank}", "rank")
        return fn.settle(candidate, found, rank), self._ask(self._bench.config.gate, candidate, found)

    def _born(self, label: str, fn: function.Function) -> Candidate:
        ticket = self._ticket
        note = fn.candidate if fn.candidate and not fn.candidate.id else None  # else it is a parent's, kept by a clone
        parents = (note.parents if note else ()) or tuple(records.require(each).id for each in ticket.pick.parents)
        born = Candidate(f"{ticket.step}.{label}", str(fn.skeleton()), parents, ticket.island, ticket.step)
        return replace(born, meta=note.meta) if note and note.meta else born

    def _judge(self, label: str, candidate: Candidate, fn: function.Function) -> Evaluation | None:
        """Finds the evaluation in the journal, in memory or by judging; None if the budget allows no judging."""
        before = self._stored.judged.get(label)
        if before is not None and before[0].content == candidate.content:
            return self._take(candidate, before[1], before[2])
        key = digest(candidate.content)
        known = self._own.get(key) or self._bench.memo.known(key, self._horizon)
        if known is None and self._ticket.allowance is not None and self._evaluations >= self._ticket.allowance:
            return None
        found = known or self._bench.memo.share(key, lambda: self._evaluate(label, fn))
        self._bench.journal.write(records.judged(label, candidate, found, paid=known is None))
        self._bench.memo.put(key, candidate.step, found)
        return self._take(candidate, found, known is None)

    def _take(self, candidate: Candidate, found: Evaluation, paid: bool) -> Evaluation:
        self._own[digest(candidate.content)] = found
        self._evaluations += paid
        self._spent += found.cost if paid else evaluation.FREE
        return found

    def _evaluate(self, label: str, fn: function.Function) -> Evaluation:
        trial = fn.clone(fn.skeleton())
        self._with_ledger(f"{label}/", trial.evaluate)
        return trial.evaluation or evaluation.failed("it was judged and nothing was found")

    def _with_ledger[T](self, prefix: str, call: Callable[[], T]) -> T:
        """Lets what the call buys be stored under this step; a judge's purchases count under its candidate."""
        ledger = Ledger(self._ticket.step, self._ticket.island, self._bench.journal, self._stored.replies, prefix)
        token = Ledger.current.set(ledger)
        try:
            return call()
        finally:
            Ledger.current.reset(token)
            self._calls += ledger.calls
            self._spent += ledger.cost

    def _ask(self, gate: Gate, candidate: Candidate, found: Evaluation | None) -> Decision:
        pick = self._ticket.pick
        kin = [*pick.parents, *(fn for group in pick.others.values() for fn in group)]
        rivals = tuple(fn.evaluation for fn in self._parents if fn.evaluation)
        proposal = Proposal(candidate, found, rivals, tuple(records.require(fn) for fn in kin))
        decision = errors.attempt(lambda: gate(proposal))
        if isinstance(decision, Decision):
            return decision
        raised = isinstance(decision, errors.Caught)
        return Decision("reject", f"the gate {'raised' if raised else 'returned'} {decision}", "gate")
