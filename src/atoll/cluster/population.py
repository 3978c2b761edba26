"""The islands, and all that applying a step changes: under the evolver's lock, or again from the journal."""

import logging
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

from atoll import archipelago, control, errors, evaluation, function, gate, profiler
from atoll.archipelago import Migrate, Reset
from atoll.candidate import Candidate, digest
from atoll.cluster import clusters, records
from atoll.cluster.config import EvolverConfig, funsearch_pool
from atoll.cluster.island import Island, StepOn
from atoll.cluster.work import Done
from atoll.journal import Record

log = logging.getLogger(__name__)

ALL = -1  # the island of a record that concerns all of them
LATE = "late: its island was reset meanwhile, so it stays out"


class Population:
    """Islands, what is held, the best so far and what was spent.

    Every change is one method that takes outcomes, not dice, and returns the records of what it did: a resume calls
    the same methods with what the records say, and throws their records away.
    """

    def __init__(self, config: EvolverConfig, mail: profiler.Mail, step_on: StepOn) -> None:
        shared = config.island_config
        self._config, self._step_on, self._learner = shared, step_on, config.learner
        initial: Any = shared.initial_fn.skeleton()
        remade = initial.rewritten if isinstance(initial, function.Rewritable) else type(initial)
        self._make_skeleton = config.make_skeleton or remade
        self._make_pool = shared.make_pool or funsearch_pool(shared.num_selected_clusters)
        self.rng = Random()
        self.profilers = profiler.Profilers[archipelago.EvolverEvent](mail)
        self._island_profilers = profiler.Profilers[archipelago.IslandEvent](mail)
        self._cluster_profilers = profiler.Profilers[clusters.ClusterEvent](mail)
        self._island_profilers.use(shared.island_profiler_fn)
        self._cluster_profilers.use(shared.cluster_profiler_fn)
        self.islands = [self._make_island(index, 0) for index in range(shared.num_islands)]
        self.held: dict[str, function.Function] = {}
        self.best: function.Function | None = None
        self.fault, self._best_score = "", -math.inf
        self.spending = control.Spending()
        self.applied = self.last_improved = self.idle = 0  # idle: steps since one that judged anything

    def found(self, fn: function.Function, decisions: Sequence[gate.Decision] = ()) -> Sequence[Record]:
        """Puts the initial function on every island; a resume says how that was decided.

        Raises:
            RunFailed: An island cannot keep it.
        """
        self.spending.evaluations += 1
        self.spending.cost += fn.evaluation.cost if fn.evaluation else evaluation.FREE
        wanted = decisions or [gate.Decision("accept", "founded", "atoll")] * len(self.islands)
        done = [self._found(island, fn, decision) for island, decision in zip(self.islands, wanted, strict=True)]
        data = {**records.settled_data(fn), "decisions": [records.decision_data(each) for each in done]}
        return [Record("founded", 0, ALL, data)]

    def _found(self, island: Island, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        if decision.verdict == "accept":
            decision = self._enter(island, self.ranked(fn, island.index), decision)
        try:
            island.best_fn()
        except errors.NotFound as error:
            raise errors.RunFailed(f"Island {island.index} is empty: {decision.reason}.") from error
        return decision

    def apply(self, done: Done) -> Sequence[Record]:
        """Takes in a step that was worked; a child whose island was reset meanwhile may be the best, but stays out."""
        ticket = done.ticket
        island = self.islands[ticket.island]
        written = list[Record]()
        for id, found in done.observed:
            written += self.observe(ticket.step, ticket.island, id, found)
        self.applied += 1
        children = [(fn, self._decided(island, ticket.epoch, fn, decision)) for fn, decision in done.children]
        written += [records.held(fn) for fn, decision in children if decision.verdict == "hold"]
        self._count(done, children)
        data: dict[str, Any] = {"children": [records.child_data(*child) for child in children]}
        data |= {"evaluations": done.evaluations}
        data |= {"failure": done.failure} if done.failure else {}
        data |= {"cost": done.spent.to_data()} if done.spent != evaluation.FREE else {}
        return [*written, Record("applied", ticket.step, ticket.island, data)]

    def _decided(self, island: Island, epoch: int, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        if decision.verdict == "hold":
            self.held[records.require(fn).id] = fn
        elif decision.verdict == "accept" and island.epoch == epoch:
            return self._enter(island, fn, decision)
        elif decision.verdict == "accept":
            self._compare(island, fn)
            return decision if LATE in decision.reason else replace(decision, reason=f"{decision.reason}; {LATE}")
        return decision

    def island(self, index: int) -> Island:
        """Returns the island in a place.

        Raises:
            SetupError: There is no such place.
        """
        if not 0 <= index < len(self.islands):
            raise errors.SetupError(f"There is no island {index} of {len(self.islands)}: ring and schedule differ.")
        return self.islands[index]

    def carry_out(self, step: int, actions: Sequence[Migrate | Reset]) -> Sequence[Record]:
        """Does what a schedule said; all resets of one moment are one swap."""
        written = [self.migrate(step, each.target, each.fn) for each in actions if isinstance(each, Migrate)]
        resets = [each for each in actions if isinstance(each, Reset)]
        removed = [self.island(each.island) for each in resets]
        for each in resets:
            written.append(self.reset(step, each.island, self.islands[each.island].epoch + 1, each.founders))
        if resets:
            revived = [self.islands[each.island] for each in resets]
            self.profilers.emit(archipelago.OnIslandsRemoved("on_islands_removed", list(removed)))
            self.profilers.emit(archipelago.OnIslandsRevived("on_islands_revived", list(revived)))
        return written

    def migrate(self, step: int, target: int, fn: function.Function) -> Record:
        """Lets a function swim to an island, which ranks it by its own measure."""
        self._enter(self.island(target), self.ranked(fn, target), gate.Decision("accept", "migrated", "atoll"))
        return Record("migrated", step, target, {"fn": records.settled_data(fn)})

    def reset(self, step: int, index: int, epoch: int, founders: Sequence[function.Function]) -> Record:
        """Puts a new island in the place of an old one."""
        if not founders:
            raise errors.SetupError(f"The schedule resets island {index} with no founder: give at least one.")
        self.islands[index] = self._make_island(index, epoch)
        for fn in founders:
            self._enter(self.islands[index], self.ranked(fn, index), gate.Decision("accept", "founded", "atoll"))
        return Record("reset", step, index, {"epoch": epoch, "founders": [records.settled_data(fn) for fn in founders]})

    def observe(self, step: int, index: int, id: str, found: evaluation.Evaluation) -> Sequence[Record]:
        """Replaces the standing evaluation of a member; one that is gone is only recorded."""
        pool = self.island(index).pool
        with suppress(errors.NotFound):
            member = pool.find(id)
            again = self.ranked(member.settle(records.require(member), found), index)
            pool.observe(again)
            self._compare(self.islands[index], again)
        return [Record("observed", step, index, {"id": id, "evaluation": evaluation.to_data(found)})]

    def decide(self, id: str, content_hash: str, decision: gate.Decision) -> Sequence[Record]:
        """Carries out a late decision on what is held.

        Raises:
            Conflict: It is not held, its content is not the one that was decided on, or the verdict is none.
        """
        fn = self.held.get(id)
        if fn is None or digest(records.require(fn).content) != content_hash:
            raise errors.Conflict(f"{id} is not held with the content that was decided on.")
        if decision.verdict not in ("accept", "reject"):
            raise errors.Conflict(f"{decision.verdict!r} decides nothing: accept or reject.")
        candidate = records.require(fn)
        if decision.verdict == "accept":
            decision = self._enter(self.islands[candidate.island], fn, decision)
        del self.held[id]
        data = {"id": id, "content_hash": content_hash, "decision": records.decision_data(decision)}
        return [Record("decided", candidate.step, candidate.island, data)]

    def make_fn(self, data: Mapping[str, Any]) -> function.Function:
        """Makes a function from plain data."""
        found = evaluation.from_data(data["evaluation"]) if data.get("evaluation") else None
        return self.settled(records.to_candidate(data), found)

    def settled(self, candidate: Candidate, found: evaluation.Evaluation | None) -> function.Function:
        """Makes a function from what was proposed and found out, ranked by the island it was proposed on."""
        fn = self._config.initial_fn.clone(self._make_skeleton(candidate.content)).settle(candidate, found)
        return self.ranked(fn, candidate.island)

    def ranked(self, fn: function.Function, index: int) -> function.Function:
        """Returns a function with the rank that an island gives it."""
        found = fn.evaluation
        rank = self._config.ranked(index, found) if found else None
        return fn.settle(records.require(fn), found, None if isinstance(rank, errors.Caught) else rank)

    def _tell_once(self, fault: str | None) -> None:
        """Says the first fault of an engine or a gate aloud: if all are like it, the run is worth nothing."""
        if fault and not self.fault:
            log.warning("step %d: %s; later faults are only recorded", self.applied, fault)
        self.fault = fault or self.fault

    def _make_island(self, index: int, epoch: int) -> Island:
        pool = self._make_pool(index, self.rng, self._cluster_profilers)
        return Island(index, epoch, pool, self._island_profilers, self._step_on)

    def _enter(self, island: Island, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        decision = island.add_fn(fn, decision)
        if decision.verdict == "accept":
            self._compare(island, fn)
        return decision

    def _compare(self, island: Island, fn: function.Function) -> None:
        found = fn.evaluation
        score = -math.inf if found is None or found.score is None else found.score
        if score > self._best_score:
            self.best, self._best_score, self.last_improved = fn, score, self.applied
            self.profilers.emit(archipelago.OnBestIslandImproved("on_best_island_improved", island))

    def _count(self, done: Done, children: Sequence[records.Child]) -> None:
        ticket, spending = done.ticket, self.spending
        spending.evaluations += done.evaluations
        self.idle = 0 if done.evaluations else self.idle + 1
        faults = (each.reason for _, each in children if each.by in ("gate", "rank"))
        self._tell_once(done.failure or next(faults, None))
        spending.cost += done.spent
        if self._learner is not None:
            shown = (ticket.step, ticket.island, ticket.pick.parents, ticket.advice)
            self._learner.learn(function.Outcome(*shown, children, done.failure, done.spent))
