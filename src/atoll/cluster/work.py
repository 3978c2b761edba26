"""What a worker does with a ticket, holding no lock: propose, screen, judge, gate."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

from atoll import archipelago, errors, evaluation, function
from atoll.candidate import NOTHING, Candidate, digest, plain
from atoll.cluster import records
from atoll.cluster.config import EvolverConfig
from atoll.cluster.memo import Memo
from atoll.evaluation import Cost, Evaluation
from atoll.gate import VERDICTS, Decision, Gate, Proposal
from atoll.journal import Journal, Ledger

NO_ALLOWANCE = "no evaluation was left in the budget"


class Done(NamedTuple):
    """A ticket that was worked: its children, late judgements of others, and what it took."""

    ticket: archipelago.Ticket
    children: Sequence[records.Child]
    failure: str | None
    observed: Sequence[tuple[str, Evaluation]]
    evaluations: int
    spent: Cost


@dataclass(slots=True)
class Stored:
    """What the journal already holds of a step: replies by call; candidate, evaluation and who paid, by label."""

    replies: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    judged: dict[str, tuple[Candidate, Evaluation, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bench:
    """The tools that all steps share."""

    config: EvolverConfig
    proposer: function.Proposer
    journal: Journal
    memo: Memo


class Work:
    """One ticket at work: a function of its task, replies and evaluations, so that run again it gives the same."""

    def __init__(self, bench: Bench, ticket: archipelago.Ticket, stored: Stored) -> None:
        self._bench, self._ticket, self._stored, self._config = bench, ticket, stored, bench.config.island_config
        self._horizon = ticket.seen if bench.config.ordered else math.inf
        self._own: dict[str, Evaluation] = {}
        self._draft_labels = (f"d{number}" for number in itertools.count())
        self._evaluations, self._spent = 0, evaluation.FREE
        self._observed: list[tuple[str, Evaluation]] = []
        self._parents = ticket.pick.parents

    def do(self) -> Done:
        """Works the ticket; an engine, judge or gate that raises becomes a failure or a rejection."""
        born, cost = self._attempt("", self._propose)
        failure = f"the engine raised {born}" if isinstance(born, errors.Caught) else None
        children = [] if isinstance(born, errors.Caught) else [self._child(*each) for each in born]
        ticket = self._ticket._replace(pick=self._ticket.pick._replace(parents=self._parents))
        return Done(ticket, children, failure, self._observed, self._evaluations, self._spent + cost)

    def _propose(self) -> list[tuple[str, Candidate, function.Function]]:
        ticket, pick = self._ticket, self._ticket.pick
        self._parents = tuple(self._known(fn) for fn in pick.parents)
        rng, advice = Random(f"{self._bench.config.seed}/{ticket.step}/propose"), MappingProxyType(dict(ticket.advice))
        context = (self._parents, pick.others, advice, rng, ticket.allowance, self._judge_drafts, self._observe)
        children = self._bench.proposer.propose(function.Task(ticket.island, ticket.step, ticket.seen, *context))
        return [(str(k), self._born(str(k), fn), fn) for k, fn in enumerate(children)]

    def _known(self, parent: function.Function) -> function.Function:
        """Judges a parent that nobody has judged: a head that was set from outside."""
        if parent.evaluation is not None:
            return parent
        found = self._judge_drafts([parent])[0]
        self._observe(parent, found)
        rank = self._config.ranked(self._ticket.island, found)
        return parent.settle(records.require(parent), found, None if isinstance(rank, errors.Caught) else rank)

    def _judge_drafts(self, drafts: Sequence[function.Function]) -> Sequence[Evaluation]:
        labelled = zip(drafts, self._draft_labels, strict=False)
        found = [self._judge(label, self._born(label, fn), fn) for fn, label in labelled]
        return [each or evaluation.failed(NO_ALLOWANCE) for each in found]

    def _observe(self, fn: function.Function, found: Evaluation) -> None:
        self._observed.append((records.require(fn).id, evaluation.clean(found)))

    def _child(self, label: str, candidate: Candidate, fn: function.Function) -> records.Child:
        screen, gate = self._config.screen, self._config.gate
        if screen and (decision := self._ask(f"{label}/screen/", screen, candidate, None)).verdict == "reject":
            return fn.settle(candidate), decision
        found = self._judge(label, candidate, fn)
        if found is None:
            return fn.settle(candidate), Decision("reject", NO_ALLOWANCE, "budget")
        if found.failure is not None:
            return fn.settle(candidate, found), Decision("reject", found.failure, "judge")
        rank = self._config.ranked(self._ticket.island, found)
        if isinstance(rank, errors.Caught):
            return fn.settle(candidate, found), Decision("reject", f"the rank raised {rank}", "rank")
        return fn.settle(candidate, found, rank), self._ask(f"{label}/gate/", gate, candidate, found)

    def _born(self, label: str, fn: function.Function) -> Candidate:
        ticket = self._ticket
        note = fn.candidate if fn.candidate and not fn.candidate.id else None  # else it is a parent's, kept by a clone
        parents = (note.parents if note else ()) or tuple(records.require(each).id for each in ticket.pick.parents)
        meta = plain(note.meta) if note else NOTHING
        return Candidate(f"{ticket.step}.{label}", str(fn.skeleton()), parents, ticket.island, ticket.step, meta)

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
        score, cost = self._attempt(f"{label}/", trial.evaluate)
        found = trial.evaluation or evaluation.failed(f"it was judged and nothing was found but {score}")
        return replace(found, cost=found.cost + cost)

    def _attempt[T](self, prefix: str, call: Callable[[], T]) -> tuple[T | errors.Caught, Cost]:
        """Runs foreign code, and stores what it buys under this step; judges and gates count apart, by `prefix`."""
        ledger = Ledger(self._ticket.step, self._ticket.island, self._bench.journal, self._stored.replies, prefix)
        token = Ledger.current.set(ledger)
        try:
            return errors.attempt(call, passing=(errors.JournalFailed, errors.SetupError)), ledger.cost
        finally:
            Ledger.current.reset(token)

    def _ask(self, prefix: str, gate: Gate, candidate: Candidate, found: Evaluation | None) -> Decision:
        kin = [*self._parents, *(fn for group in self._ticket.pick.others.values() for fn in group)]
        rivals = tuple(fn.evaluation for fn in self._parents if fn.evaluation)
        proposal = Proposal(candidate, found, rivals, tuple(records.require(fn) for fn in kin))
        decision: object
        decision, cost = self._attempt(prefix, lambda: gate(proposal))
        self._spent += cost
        if isinstance(decision, errors.Caught):
            return Decision("reject", f"the gate raised {decision}", "gate")
        if not (isinstance(decision, Decision) and decision.verdict in VERDICTS and isinstance(decision.reason, str)):
            return Decision("reject", f"the gate returned {decision!r:.80}, which is no decision", "gate")
        return decision
