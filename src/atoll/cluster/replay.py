"""Resume: the journal folded into a population; no dice, no call of an engine, judge, gate or `Versions.set`."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll import errors, evaluation, function, gate
from atoll.archipelago import Pick, Ticket
from atoll.candidate import NOTHING, digest
from atoll.cluster import records
from atoll.cluster.memo import Memo
from atoll.cluster.population import Population
from atoll.cluster.work import NO_ALLOWANCE, Done, Stored
from atoll.journal import Record


@dataclass(slots=True)
class Replay:
    """Folds records in their order; afterwards holds what was begun and not applied, with what is stored of it.

    A begun step finds its parents at once, while they are members: later they may be gone.

    Attributes:
        given: The set-up that goes on with the run, which must be the one that it was begun with; None: any.
    """

    population: Population
    memo: Memo
    given: Mapping[str, Any] | None = None
    setup: Mapping[str, Any] | None = None
    last_step: int = 0
    tickets: dict[int, Ticket] = field(default_factory=dict)
    stored: defaultdict[int, Stored] = field(default_factory=lambda: defaultdict(Stored))
    controlled: list[Mapping[str, Any]] = field(default_factory=list)

    def fold(self, journal: Iterable[Record]) -> "Replay":
        """Takes in all records.

        Raises:
            SetupError: The run was begun with another set-up, under which they mean something else.
        """
        for record in journal:
            self._take(record)
        return self

    def _take(self, record: Record) -> None:
        step, index, data = record.step, record.island, record.data
        population = self.population
        match record.kind:
            case "founded":
                self.setup = begun = data.get("setup", {})
                if self.given not in (None, begun):
                    raise errors.SetupError(f"This run was begun with {begun}; go on with that, not with {self.given}.")
                population.found(population.make_fn(data), [gate.Decision(*each) for each in data["decisions"]])
                self.memo.put(digest(data["content"]), 0, evaluation.from_data(data["evaluation"]))
            case "begun":
                self.tickets[step] = self._ticket(record)
                self.last_step = max(self.last_step, step)
            case "replied":
                self.stored[step].replies[data["call"]] = data
            case "judged":
                found = evaluation.from_data(data["evaluation"])
                self.stored[step].judged[data["label"]] = (records.to_candidate(data), found, data["paid"])
                self.memo.put(digest(data["content"]), step, found)
            case "applied":
                population.apply(self._done(record))
                del self.tickets[step]
                self.stored.pop(step, None)
            case "migrated":
                population.migrate(step, index, population.make_fn(data["fn"]))
            case "reset":
                population.reset(step, index, data["epoch"], [population.make_fn(each) for each in data["founders"]])
            case "observed":
                population.observe(step, index, data["id"], evaluation.from_data(data["evaluation"]))
            case "decided":
                population.decide(data["id"], data["content_hash"], gate.Decision(*data["decision"]))
            case "controlled":
                self.controlled.append(data)

    def _ticket(self, record: Record) -> Ticket:
        data, pool = record.data, self.population.islands[record.island].pool
        parents = tuple(pool.find(id) for id in data["parents"])
        others = {role: tuple(pool.find(id) for id in ids) for role, ids in data.get("others", {}).items()}
        advice, allowance = data.get("advice", NOTHING), data.get("allowance")
        return Ticket(record.island, data["epoch"], record.step, data["seen"], Pick(parents, others), advice, allowance)

    def _done(self, record: Record) -> Done:
        data, judged = record.data, self.stored[record.step].judged
        children = [(self._child(each, judged), gate.Decision(*each["decision"])) for each in data["children"]]
        spent = evaluation.Cost(*data["cost"]) if "cost" in data else evaluation.FREE
        ticket = self.tickets[record.step]
        ticket = ticket._replace(pick=ticket.pick._replace(parents=self._known(ticket, judged)))
        return Done(ticket, children, data.get("failure"), (), data["evaluations"], spent)

    def _known(self, ticket: Ticket, judged: Mapping[str, Any]) -> Sequence[function.Function]:
        """Returns the parents as the step saw them: one that nobody had judged was judged as its first draft."""
        unknown = (None, evaluation.failed(NO_ALLOWANCE))
        drafts = (judged.get(f"d{number}", unknown)[1] for number in itertools.count())
        parents = ((fn, fn.evaluation or next(drafts)) for fn in ticket.pick.parents)
        return [self.population.ranked(fn.settle(records.require(fn), found), ticket.island) for fn, found in parents]

    def _child(self, data: Mapping[str, Any], judged: Mapping[str, Any]) -> Any:
        if "content" in data:
            return self.population.make_fn(data)
        candidate, found, _ = judged[data["id"].partition(".")[2]]
        return self.population.settled(candidate, found)
