"""Journal of a run as a decision log: each child is a decision, its evaluation is the feedback.

So mutators, prompts and islands of Atoll's own runs can be compared by replay. A journal has an order but no times;
children are placed one second apart, by iteration, starting at the creation of the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Protocol

from atoll import errors, journal
from atoll.governed.evidence.feedback import Feedback, check_entity
from atoll.governed.evidence.logs import LogEntry, to_utc

SCORE = "score"  # of a child
GAIN = "gain"  # over its best parent
ACCEPTED = "accepted"  # 1 or 0
ENGINE = "engine"


class ReadableJournal(Protocol):
    """Readable journal, such as `store.StoredJournal` or `store.MemoryJournal`."""

    def read(self, island: int | None = None) -> Iterator[journal.Record]: ...


class RunLog:
    """`LogSource` and read-only feedback channel over the journal of one run.

    The entity of a decision is its mutator, or its island if none is named. The action is the mutator; the payload has
    the proposal and its parents. Pair with `attribution.by_decision`.

    Args:
        run_journal: Journal of the run.
        run: Id of the run; becomes the policy version of its decisions.
        created_at: Creation time of the run.
        group_by: `engine` or `island`: the entity of a decision.
    """

    def __init__(self, run_journal: ReadableJournal, run: str, created_at: datetime, *, group_by: str = ENGINE) -> None:
        if group_by not in (ENGINE, "island"):
            raise errors.SetupError(f"group_by={group_by!r}: use engine or island.")
        self._journal, self._run = run_journal, run
        self._created_at, self._group_by = to_utc(created_at), group_by

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the children of the run as decisions, in order of evaluation."""
        start, end = to_utc(since), to_utc(until)
        for data in self._iter_children():
            timestamp = self._get_timestamp(data)
            if start <= timestamp <= end:
                meta: Mapping[str, Any] = data.get("meta") or {}
                engine = meta.get(ENGINE)
                payload = {"content": data["content"], "parents": list(data["parents"]), "island": data["island"]}
                action = None if engine is None else str(engine)
                yield LogEntry(
                    timestamp,
                    self._get_decision_id(data),
                    self._get_entity(data),
                    payload,
                    dict(meta),
                    action,
                    None,
                    self._run,
                )

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        """Returns scores, gains over the best parent and acceptances of the children of an entity.

        Raises:
            EntityRequired: The entity is empty.
        """
        check_entity(entity)
        start = to_utc(since)
        records = sorted(
            self._iter_feedback(entity), key=attrgetter("timestamp")
        )  # iterations end in another order than they begin
        return [record for record in records if record.timestamp >= start and metric in ("", record.metric)]

    def report(
        self,
        entity: str,
        metric: str,
        value: float,
        confidence: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> Feedback:
        """Raises, because journals are read-only.

        Raises:
            SetupError: Always.
        """
        raise errors.SetupError("A journal takes no feedback. Report to another channel.")

    def _iter_feedback(self, entity: str) -> Iterator[Feedback]:
        scores: dict[str, float] = {}
        pending: dict[str, Mapping[str, Any]] = {}
        for record in self._journal.read():
            data = record.data
            if record.kind in ("judged", "founded"):
                score = (data.get("evaluation") or {}).get("score")
                if score is not None:
                    scores[data["id"]] = score
                pending[data["id"]] = data
            for child in data.get("children", ()) if record.kind == "applied" else ():
                child_data = pending.pop(child["id"], None)
                if child_data is not None and self._get_entity(child_data) == entity:
                    yield from self._make_feedback(child_data, child["decision"], scores)

    def _make_feedback(
        self, data: Mapping[str, Any], decision: Sequence[Any], scores: Mapping[str, float]
    ) -> Iterator[Feedback]:
        score = scores.get(data["id"])
        values = {ACCEPTED: float(decision[0] == "accept")}
        if score is not None:
            values[SCORE] = score
            parent_scores = [scores[parent] for parent in data["parents"] if parent in scores]
            if parent_scores:
                values[GAIN] = score - max(parent_scores)
        for metric, value in values.items():
            entity, decision_id = self._get_entity(data), self._get_decision_id(data)
            yield Feedback(self._get_timestamp(data), entity, metric, value, decision_id=decision_id)

    def _iter_children(self) -> Iterator[Mapping[str, Any]]:
        for record in self._journal.read():
            if record.kind == "judged" and not str(record.data.get("label", "")).startswith("d"):
                yield record.data

    def _get_timestamp(self, data: Mapping[str, Any]) -> datetime:
        return self._created_at + timedelta(seconds=int(data["step"]))

    def _get_decision_id(self, data: Mapping[str, Any]) -> str:
        return f"{self._run}/{data['id']}"

    def _get_entity(self, data: Mapping[str, Any]) -> str:
        engine = (data.get("meta") or {}).get(ENGINE)
        return str(engine) if self._group_by == ENGINE and engine is not None else f"island {data['island']}"
