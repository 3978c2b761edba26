"""State of the islands, and of settings, budget and pause. It changes under the evolver's lock or in recovery."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from atoll import archipelago, candidate, control, errors, evaluation, function, gate, journal, profiler
from atoll.archipelago import Migration, Reset
from atoll.candidate import Candidate, content_hash
from atoll.cluster import clusters, records
from atoll.cluster.config import EvolverConfig, funsearch_population
from atoll.cluster.iteration import IterationOutcome
from atoll.journal import Record

type RunIteration = Callable[[Island], function.Function]


@dataclass(eq=False, slots=True)
class Island:
    """A population with its index and epoch. A reset puts a new island with the next epoch at the same index."""

    index: int
    epoch: int
    population: archipelago.Population
    _profilers: profiler.Profilers[archipelago.IslandEvent]
    _run_iteration: "RunIteration"
    _best: float = -math.inf

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[archipelago.IslandEvent]) -> profiler.Remove:
        """Registers a profiler with all islands."""
        return self._profilers.use(profiler_fn)

    def best_fn(self) -> function.Function:
        return self.population.best_fn()

    def request_mutation(self) -> function.Function:
        return self._run_iteration(self)

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        """Applies the decision to the population and emits an event for a new best."""
        decision = self.population.add_fn(fn, decision)
        if decision.verdict == "accept" and function.get_fitness(fn) > self._best:
            self._best = function.get_fitness(fn)
            self._profilers.emit(archipelago.OnBestFnImproved("on_best_fn_improved", fn))
        return decision


log = logging.getLogger(__name__)

ALL_ISLANDS = -1  # in a record that concerns all islands
LATE_PREFIX = "late: its island was reset"  # journals of version 0.1 begin like this too
LATE = f"{LATE_PREFIX} meanwhile, so it was not added"


class ArchipelagoState:
    """Islands, held candidates, the best so far and the usage.

    Each change is one method without random choices that returns its records. Recovery calls the same methods with
    the recorded values and discards the new records.
    """

    def __init__(self, config: EvolverConfig, events: profiler.EventQueue, run_iteration: RunIteration) -> None:
        island_config = config.island_config
        self._island_config, self._run_iteration, self._learner = island_config, run_iteration, config.learner
        initial: Any = island_config.initial_fn.skeleton()
        make_default = initial.with_text if isinstance(initial, function.Rewritable) else type(initial)
        self._make_skeleton = config.make_skeleton or make_default
        default_population = funsearch_population(island_config.num_selected_clusters)
        self._make_population = island_config.make_population or default_population
        self.rng = Random()
        self.profilers = profiler.Profilers[archipelago.EvolverEvent](events)
        self._island_profilers = profiler.Profilers[archipelago.IslandEvent](events)
        self._cluster_profilers = profiler.Profilers[clusters.ClusterEvent](events)
        self._island_profilers.use(island_config.island_profiler_fn)
        self._cluster_profilers.use(island_config.cluster_profiler_fn)
        self.islands = [self._make_island(index, 0) for index in range(island_config.num_islands)]
        self.held: dict[str, function.Function] = {}
        self.best: function.Function | None = None
        self.last_failure, self._best_score = "", -math.inf
        self.usage = control.Usage()
        self.applied_count = self.last_improved = 0
        self.idle_iterations = 0  # since the last evaluation

    def add_initial(self, fn: function.Function, decisions: Sequence[gate.Decision] = ()) -> Sequence[Record]:
        """Adds the initial function to every island; recovery passes the recorded decisions.

        Raises:
            RunFailed: An island cannot add it.
        """
        result = fn.evaluation or evaluation.failed("it was not evaluated")
        self.usage.evaluations, self.usage.cost = (
            self.usage.evaluations + 1 + result.repeats,
            self.usage.cost + result.cost,
        )
        requested = decisions or [gate.Decision("accept", "founded", "atoll")] * len(self.islands)
        applied_decisions = [
            self._add_initial_to(island, fn, decision) for island, decision in zip(self.islands, requested, strict=True)
        ]
        decision_data = [records.decision_to_data(decision) for decision in applied_decisions]
        return [Record(journal.INITIAL, 0, ALL_ISLANDS, {**records.fn_to_data(fn), "decisions": decision_data})]

    def _add_initial_to(self, island: Island, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        if decision.verdict == "accept":
            decision = self._add_to_island(island, self.with_fitness(fn, island.index), decision)
        try:
            island.best_fn()
        except errors.NotFound as error:
            raise errors.RunFailed(f"Island {island.index} is empty: {decision.reason}.") from error
        return decision

    def apply(self, outcome: IterationOutcome) -> Sequence[Record]:
        """Applies a finished iteration. A child of a reset island may become the best, but is not added."""
        pending = outcome.pending
        island = self.islands[pending.island]
        new_records = list[Record]()
        for id, result in outcome.observed:
            new_records += self.update_evaluation(pending.iteration, pending.island, id, result)
        self.applied_count += 1
        children = [
            (fn, self._apply_decision(island, pending.epoch, fn, decision)) for fn, decision in outcome.children
        ]
        new_records += [records.make_held_record(fn) for fn, decision in children if decision.verdict == "hold"]
        self._update_usage(outcome, children)
        data: dict[str, Any] = {"children": [records.child_to_data(*child) for child in children]}
        data |= {"evaluations": outcome.evaluations}
        data |= {"failure": outcome.failure} if outcome.failure else {}
        data |= {"cost": outcome.cost.to_data()} if outcome.cost != evaluation.ZERO_COST else {}
        return [*new_records, Record(journal.APPLIED, pending.iteration, pending.island, data)]

    def _apply_decision(
        self, island: Island, epoch: int, fn: function.Function, decision: gate.Decision
    ) -> gate.Decision:
        if decision.verdict == "hold":
            self.held[records.require_candidate(fn).id] = fn
        elif decision.verdict == "accept" and island.epoch == epoch:
            return self._add_to_island(island, fn, decision)
        elif decision.verdict == "accept":
            self._update_best(island, fn)
            if LATE_PREFIX not in decision.reason:
                return replace(decision, reason=f"{decision.reason}; {LATE}")
        return decision

    def get_island(self, index: int) -> Island:
        """Returns the island with an index.

        Raises:
            SetupError: The index is out of range.
        """
        if not 0 <= index < len(self.islands):
            raise errors.SetupError(
                f"The schedule names island {index}, but the run has {len(self.islands)}: use the same num_islands."
            )
        return self.islands[index]

    def apply_actions(self, iteration: int, actions: Sequence[Migration | Reset]) -> Sequence[Record]:
        """Carries out the actions of a schedule; simultaneous resets happen at once."""
        new_records = [
            self.migrate(iteration, action.target, action.fn) for action in actions if isinstance(action, Migration)
        ]
        resets = [action for action in actions if isinstance(action, Reset)]
        removed = [self.get_island(action.island) for action in resets]
        for action in resets:
            epoch = self.islands[action.island].epoch + 1
            new_records.append(self.reset(iteration, action.island, epoch, action.founders))
        if resets:
            revived = [self.islands[action.island] for action in resets]
            self.profilers.emit(archipelago.OnIslandsRemoved("on_islands_removed", list(removed)))
            self.profilers.emit(archipelago.OnIslandsRevived("on_islands_revived", list(revived)))
        return new_records

    def migrate(self, iteration: int, target: int, fn: function.Function) -> Record:
        """Copies a function to an island, with the fitness that it has there."""
        decision = gate.Decision("accept", "migrated", "atoll")
        self._add_to_island(self.get_island(target), self.with_fitness(fn, target), decision)
        return Record(journal.MIGRATED, iteration, target, {"fn": records.fn_to_data(fn)})

    def reset(self, iteration: int, index: int, epoch: int, founders: Sequence[function.Function]) -> Record:
        """Replaces an island by a new one with the given founders."""
        if not founders:
            raise errors.SetupError(f"The schedule resets island {index} without a founder: give at least one.")
        self.islands[index] = self._make_island(index, epoch)
        for fn in founders:
            decision = gate.Decision("accept", "founded", "atoll")
            self._add_to_island(self.islands[index], self.with_fitness(fn, index), decision)
        data = {"epoch": epoch, "founders": [records.fn_to_data(fn) for fn in founders]}
        return Record(journal.RESET, iteration, index, data)

    def update_evaluation(self, iteration: int, index: int, id: str, result: evaluation.Evaluation) -> Sequence[Record]:
        """Replaces the evaluation of a member; for a removed one it only writes the record."""
        population = self.get_island(index).population
        with suppress(errors.NotFound):
            member = population.get(id)
            updated = self.with_fitness(member.with_evaluation(records.require_candidate(member), result), index)
            population.update_evaluation(updated)
            self._update_best(self.islands[index], updated)
        return [Record(journal.UPDATED, iteration, index, {"id": id, "evaluation": evaluation.to_data(result)})]

    def decide(self, id: str, expected_hash: str, decision: gate.Decision) -> Sequence[Record]:
        """Applies an approver's decision on a held candidate.

        Raises:
            Conflict: It is not held, its content differs from the decided one, or the verdict is invalid.
        """
        fn = self.held.get(id)
        if fn is None or content_hash(records.require_candidate(fn).content) != expected_hash:
            raise errors.Conflict(f"Candidate {id} is not held with the content that was decided on.")
        if decision.verdict not in ("accept", "reject"):
            raise errors.Conflict(f"{decision.verdict!r} is not a decision: use accept or reject.")
        candidate = records.require_candidate(fn)
        if decision.verdict == "accept":
            decision = self._add_to_island(self.islands[candidate.island], fn, decision)
        del self.held[id]
        data = {"id": id, "content_hash": expected_hash, "decision": records.decision_to_data(decision)}
        return [Record(journal.DECIDED, candidate.iteration, candidate.island, data)]

    def make_fn(self, data: Mapping[str, Any]) -> function.Function:
        """Makes a function from plain data."""
        result = evaluation.from_data(data["evaluation"]) if data.get("evaluation") else None
        return self.make_evaluated_fn(records.candidate_from_data(data), result)

    def make_evaluated_fn(self, candidate: Candidate, result: evaluation.Evaluation | None) -> function.Function:
        """Makes a function from a candidate and its evaluation, with the fitness of its own island."""
        fn = self._island_config.initial_fn.clone(self._make_skeleton(candidate.content))
        return self.with_fitness(fn.with_evaluation(candidate, result), candidate.island)

    def with_fitness(self, fn: function.Function, index: int) -> function.Function:
        """Returns a function with its fitness on an island."""
        result = fn.evaluation
        fitness = self._island_config.compute_fitness(index, result) if result else None
        fitness = None if isinstance(fitness, errors.CaughtException) else fitness
        return fn.with_evaluation(records.require_candidate(fn), result, fitness)

    def _warn_first_failure(self, failure: str | None) -> None:
        """Logs the first failure of a mutator or a gate, since all later ones may be like it."""
        if failure and not self.last_failure:
            text = failure.removeprefix("the mutator raised UnusableResponse: ")
            log.warning("iteration %d: %s; later failures are only recorded", self.applied_count, text.rstrip("."))
        self.last_failure = failure or self.last_failure

    def _make_island(self, index: int, epoch: int) -> Island:
        population = self._make_population(index, self.rng, self._cluster_profilers)
        return Island(index, epoch, population, self._island_profilers, self._run_iteration)

    def _add_to_island(self, island: Island, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        decision = island.add_fn(fn, decision)
        if decision.verdict == "accept":
            self._update_best(island, fn)
        return decision

    def _update_best(self, island: Island, fn: function.Function) -> None:
        result = fn.evaluation
        score = -math.inf if result is None or result.score is None else result.score
        if score > self._best_score:
            self.best, self._best_score, self.last_improved = fn, score, self.applied_count
            self.profilers.emit(archipelago.OnBestIslandImproved("on_best_island_improved", island))

    def _update_usage(self, outcome: IterationOutcome, children: Sequence[records.Child]) -> None:
        pending, usage = outcome.pending, self.usage
        usage.evaluations += outcome.evaluations
        self.idle_iterations = 0 if outcome.evaluations else self.idle_iterations + 1
        failures = (decision.reason for _, decision in children if decision.decided_by in ("gate", "rank"))
        self._warn_first_failure(outcome.failure or next(failures, None))
        usage.cost += outcome.cost
        if self._learner is not None:
            context = (pending.iteration, pending.island, pending.selection.parents, pending.advice)
            self._learner.learn(function.IterationResult(*context, children, outcome.failure, outcome.cost))


POLL_SECONDS = 0.2  # between reads of the inbox


class ControlState:
    """Settings, budget and pause of a run, as changed by commands."""

    def __init__(self, config: EvolverConfig, state: ArchipelagoState, stop_signal: control.StopSignal) -> None:
        self._inbox, self._clock, self._state, self._stop_signal = config.inbox, config.clock, state, stop_signal
        self.budget = config.budget
        self.settings: dict[str, candidate.JSON] = {}
        self.is_paused = False
        self._last_command, self._polled_at = 0, -math.inf

    def restore(self, commands: Sequence[Mapping[str, Any]]) -> None:
        """Restores the settings and raised budgets of an earlier start, but not its pause or stop."""
        for data in commands:
            self._last_command = data["number"]
            if data["kind"] in ("set", "raise") and "refused" not in data:
                self._execute(0, control.Command(data["number"], data["kind"], data["data"]))

    def read_commands(self, iteration: int, *, force: bool = False) -> Sequence[journal.Record]:
        """Carries out new commands, a few times a second or at once; refuses invalid ones."""
        if self._inbox is None or not (force or self._clock() - self._polled_at >= POLL_SECONDS):
            return ()
        self._polled_at = self._clock()
        new_records: list[journal.Record] = []
        for command in self._inbox.read(self._last_command):
            self._last_command = command.number
            result = errors.capture(lambda: self._execute(iteration, command))  # noqa: B023 - called at once
            data: dict[str, Any] = {"number": command.number, "kind": command.kind, "data": dict(command.data)}
            is_refused = isinstance(result, errors.CaughtException)
            data |= {"refused": str(result)} if is_refused else {}
            new_records.append(journal.Record(journal.CONTROLLED, iteration, ALL_ISLANDS, data))
            new_records += () if isinstance(result, errors.CaughtException) else result
        return new_records

    def _execute(self, iteration: int, command: control.Command) -> Sequence[journal.Record]:
        data = command.data
        match command.kind:
            case "pause" | "resume":
                self.is_paused = command.kind == "pause"
            case "stop":
                self._stop_signal.stop(str(data.get("reason", "stopped")))
            case "set":
                self.settings |= data
            case "raise":
                self.budget = self.budget.with_raised_limits(data)
            case "decide":
                decision = gate.Decision(data["verdict"], data["reason"], data["by"])
                return self._state.decide(data["candidate"], data["content_hash"], decision)
            case "observe":
                result = evaluation.validate(evaluation.from_data(data["evaluation"]))
                return self._state.update_evaluation(iteration, data["island"], data["candidate"], result)
            case _:
                raise errors.SetupError(f"{command.kind!r} is not a command.")
        return ()
