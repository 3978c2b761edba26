"""Resume: the journal folded into a population; no dice, no call of an engine, judge, gate or `Versions.set`."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll import errors, evaluation, function, gate
from atoll.archipelago import PendingIteration, Selection
from atoll.candidate import EMPTY, content_hash
from atoll.cluster import records
from atoll.cluster.archipelago_state import ArchipelagoState
from atoll.cluster.iteration import NO_EVALUATIONS_LEFT, EvaluationCache, IterationOutcome, StoredCalls
from atoll.journal import Record


@dataclass(slots=True)
class JournalRecovery:
    """Folds records in their order; afterwards holds what was begun and not applied, with what is stored of it.

    A begun step finds its parents at once, while they are members: later they may be gone.

    Attributes:
        given: The set-up that goes on with the run, which must be the one that it was begun with; None: any.
    """

    state: ArchipelagoState
    cache: EvaluationCache
    expected_setup: Mapping[str, Any] | None = None
    setup: Mapping[str, Any] | None = None
    last_iteration: int = 0
    pending: dict[int, PendingIteration] = field(default_factory=dict)
    stored_calls: defaultdict[int, StoredCalls] = field(default_factory=lambda: defaultdict(StoredCalls))
    commands: list[Mapping[str, Any]] = field(default_factory=list)

    def recover(self, journal: Iterable[Record]) -> "JournalRecovery":
        """Takes in all records.

        Raises:
            SetupError: The run was begun with another set-up, under which they mean something else.
        """
        for record in journal:
            self._apply_record(record)
        return self

    def _apply_record(self, record: Record) -> None:
        iteration, index, data = record.step, record.island, record.data
        state = self.state
        match record.kind:
            case "founded":
                self.setup = recorded_setup = data.get("setup", {})
                if self.expected_setup not in (None, recorded_setup):
                    raise errors.SetupError(
                        f"This run was begun with {recorded_setup}; go on with that, not with {self.expected_setup}."
                    )
                state.add_initial(state.make_fn(data), [gate.Decision(*decision) for decision in data["decisions"]])
                self.cache.put(content_hash(data["content"]), 0, evaluation.from_data(data["evaluation"]))
            case "begun":
                self.pending[iteration] = self._read_pending(record)
                self.last_iteration = max(self.last_iteration, iteration)
            case "replied":
                self.stored_calls[iteration].responses[data["call"]] = data
            case "judged":
                result = evaluation.from_data(data["evaluation"])
                self.stored_calls[iteration].evaluated[data["label"]] = (
                    records.candidate_from_data(data),
                    result,
                    data["paid"],
                )
                self.cache.put(content_hash(data["content"]), iteration, result)
            case "applied":
                state.apply(self._read_outcome(record))
                del self.pending[iteration]
                self.stored_calls.pop(iteration, None)
            case "migrated":
                state.migrate(iteration, index, state.make_fn(data["fn"]))
            case "reset":
                state.reset(iteration, index, data["epoch"], [state.make_fn(founder) for founder in data["founders"]])
            case "observed":
                state.update_evaluation(iteration, index, data["id"], evaluation.from_data(data["evaluation"]))
            case "decided":
                state.decide(data["id"], data["content_hash"], gate.Decision(*data["decision"]))
            case "controlled":
                self.commands.append(data)

    def _read_pending(self, record: Record) -> PendingIteration:
        data, population = record.data, self.state.islands[record.island].population
        parents = tuple(population.get(id) for id in data["parents"])
        inspirations = {role: tuple(population.get(id) for id in ids) for role, ids in data.get("others", {}).items()}
        advice, max_evaluations = data.get("advice", EMPTY), data.get("allowance")
        return PendingIteration(
            record.island,
            data["epoch"],
            record.step,
            data["seen"],
            Selection(parents, inspirations),
            advice,
            max_evaluations,
        )

    def _read_outcome(self, record: Record) -> IterationOutcome:
        data, evaluated = record.data, self.stored_calls[record.step].evaluated
        children = [(self._read_child(row, evaluated), gate.Decision(*row["decision"])) for row in data["children"]]
        cost = evaluation.Cost(*data["cost"]) if "cost" in data else evaluation.ZERO_COST
        pending = self.pending[record.step]
        pending = pending._replace(
            selection=pending.selection._replace(parents=self._get_evaluated_parents(pending, evaluated))
        )
        return IterationOutcome(pending, children, data.get("failure"), (), data["evaluations"], cost)

    def _get_evaluated_parents(
        self, pending: PendingIteration, evaluated: Mapping[str, Any]
    ) -> Sequence[function.Function]:
        """Returns the parents as the step saw them: one that nobody had judged was judged as its first draft."""
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
