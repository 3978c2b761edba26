"""Recovery: rebuilds the state of a run from its journal, without calling mutators, evaluators or gates."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll import errors, evaluation, function, gate, journal
from atoll.archipelago import PendingIteration, Selection
from atoll.candidate import EMPTY, content_hash
from atoll.cluster import records
from atoll.cluster.archipelago_state import ArchipelagoState
from atoll.cluster.iteration import NO_EVALUATIONS_LEFT, EvaluationCache, IterationOutcome, StoredCalls
from atoll.journal import Record


@dataclass(slots=True)
class JournalRecovery:
    """Applies records in order; afterwards holds the pending iterations with their stored calls.

    The parents of a pending iteration are looked up at once, while they are members. Other kinds of records change no
    state: `HELD` repeats a decision of `APPLIED`, and the budget of the LLM reads `CHARGED` itself.

    Attributes:
        expected_setup: The resuming set-up, which must equal the recorded one; None: any.
    """

    state: ArchipelagoState
    cache: EvaluationCache
    expected_setup: Mapping[str, Any] | None = None
    setup: Mapping[str, Any] | None = None
    last_iteration: int = 0
    pending: dict[int, PendingIteration] = field(default_factory=dict)
    stored_calls: defaultdict[int, StoredCalls] = field(default_factory=lambda: defaultdict(StoredCalls))
    commands: list[Mapping[str, Any]] = field(default_factory=list)

    def recover(self, run_records: Iterable[Record]) -> "JournalRecovery":
        """Applies all records.

        Raises:
            SetupError: The run was started with another set-up.
        """
        for record in run_records:
            self._apply_record(record)
        return self

    def _apply_record(self, record: Record) -> None:
        iteration, index, data = record.step, record.island, record.data
        state = self.state
        match record.kind:
            case journal.INITIAL:
                self.setup = recorded_setup = data.get("setup", {})
                if self.expected_setup not in (None, recorded_setup):
                    raise errors.SetupError(
                        f"This run was started with {recorded_setup}; resume with that, not {self.expected_setup}."
                    )
                state.add_initial(state.make_fn(data), [gate.Decision(*decision) for decision in data["decisions"]])
                self.cache.put(content_hash(data["content"]), 0, evaluation.from_data(data["evaluation"]))
            case journal.ISSUED:
                self.pending[iteration] = self._read_pending(record)
                self.last_iteration = max(self.last_iteration, iteration)
            case journal.RESPONSE:
                self.stored_calls[iteration].responses[data["call"]] = data
            case journal.EVALUATED:
                result = evaluation.from_data(data["evaluation"])
                stored = (records.candidate_from_data(data), result, data["paid"])
                self.stored_calls[iteration].evaluated[data["label"]] = stored
                self.cache.put(content_hash(data["content"]), iteration, result)
            case journal.APPLIED:
                state.apply(self._read_outcome(record))
                del self.pending[iteration]
                self.stored_calls.pop(iteration, None)
            case journal.MIGRATED:
                state.migrate(iteration, index, state.make_fn(data["fn"]))
            case journal.RESET:
                state.reset(iteration, index, data["epoch"], [state.make_fn(founder) for founder in data["founders"]])
            case journal.UPDATED:
                state.update_evaluation(iteration, index, data["id"], evaluation.from_data(data["evaluation"]))
            case journal.DECIDED:
                state.decide(data["id"], data["content_hash"], gate.Decision(*data["decision"]))
            case journal.CONTROLLED:
                self.commands.append(data)

    def _read_pending(self, record: Record) -> PendingIteration:
        data, population = record.data, self.state.islands[record.island].population
        parents = tuple(population.get(id) for id in data["parents"])
        inspirations = {role: tuple(population.get(id) for id in ids) for role, ids in data.get("others", {}).items()}
        issued = (record.island, data["epoch"], record.step, data["seen"])
        limits = (data.get("advice", EMPTY), data.get("allowance"), data.get("max_calls"))
        return PendingIteration(*issued, Selection(parents, inspirations), *limits)

    def _read_outcome(self, record: Record) -> IterationOutcome:
        data, evaluated = record.data, self.stored_calls[record.step].evaluated
        children = [(self._read_child(row, evaluated), gate.Decision(*row["decision"])) for row in data["children"]]
        cost = evaluation.Cost(*data["cost"]) if "cost" in data else evaluation.ZERO_COST
        pending = self.pending[record.step]
        selection = pending.selection._replace(parents=self._get_evaluated_parents(pending, evaluated))
        pending = pending._replace(selection=selection)
        return IterationOutcome(pending, children, data.get("failure"), (), data["evaluations"], cost)

    def _get_evaluated_parents(
        self, pending: PendingIteration, evaluated: Mapping[str, Any]
    ) -> Sequence[function.Function]:
        """Returns the parents as the iteration saw them: unevaluated ones were evaluated as its first trials."""
        missing = (None, evaluation.failed(NO_EVALUATIONS_LEFT))
        trials = (evaluated.get(f"d{index}", missing)[1] for index in itertools.count())
        parents = ((fn, fn.evaluation or next(trials)) for fn in pending.selection.parents)
        return [
            self.state.with_fitness(fn.with_evaluation(records.require_candidate(fn), result), pending.island)
            for fn, result in parents
        ]

    def _read_child(self, data: Mapping[str, Any], evaluated: Mapping[str, Any]) -> Any:
        if "content" in data:
            return self.state.make_fn(data)
        candidate, result, _ = evaluated[data["id"].partition(".")[2]]
        return self.state.make_evaluated_fn(candidate, result)
