"""The journal of a run as a log: each child is a decision, and what was found out about it is its feedback.

So the loop closes on our own runs: which engine, prompt or island pays is learned from the same replay, reflectors,
estimates and evolvers as anything else. A journal tells the order of things and no times; its children stand a second
apart, by step, from the moment at which the run was created.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Protocol

from atoll import errors, journal
from atoll.governed.feedback.record import Feedback, check_entity
from atoll.governed.logs.entry import LogEntry, in_utc

SCORE = "score"  # of a child
GAIN = "gain"  # over its best parent
ACCEPTED = "accepted"  # 1 or 0
ENGINE = "engine"


class Readable(Protocol):
    """What is needed of a journal: `store.StoredJournal`, `store.MemoryJournal` and others have it."""

    def read(self, island: int | None = None) -> Iterator[journal.Record]: ...


class JournalLog:
    """A `LogSource` and a read-only feedback channel over the journal of one run.

    The entity of a decision is the engine that made it, or its island where no engine is named; its action is the
    engine, its payload what was proposed from what. Pair by `attribution.ByDecision`.

    Args:
        kept: The journal.
        run: The id of the run, the policy version of its decisions.
        created_at: When the run was created.
        by: `engine` or `island`: what an entity is.
    """

    def __init__(self, kept: Readable, run: str, created_at: datetime, *, by: str = ENGINE) -> None:
        if by not in (ENGINE, "island"):
            raise errors.SetupError(f"by={by!r}: the entities of a journal are its engines or its islands.")
        self._journal, self._run, self._start, self._by = kept, run, in_utc(created_at), by

    def read(self, since: datetime, until: datetime) -> Iterator[LogEntry]:
        """Yields the children of the run as decisions, in the order in which they were judged."""
        begin, end = in_utc(since), in_utc(until)
        for data in self._children():
            moment = self._when(data)
            if begin <= moment <= end:
                meta: Mapping[str, Any] = data.get("meta") or {}
                engine = meta.get(ENGINE)
                payload = {"content": data["content"], "parents": list(data["parents"]), "island": data["island"]}
                action = None if engine is None else str(engine)
                yield LogEntry(moment, self._id(data), self._entity(data), payload, dict(meta), action, None, self._run)

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        """Returns scores, gains over the best parent and acceptances of the children of an entity.

        Raises:
            EntityRequired: The entity is empty.
        """
        check_entity(entity)
        begin = in_utc(since)
        found = sorted(
            self._feedback(entity), key=attrgetter("timestamp")
        )  # steps end in another order than they begin
        return [each for each in found if each.timestamp >= begin and metric in ("", each.metric)]

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
        """Refuses: what a journal says is what was found out.

        Raises:
            SetupError: Always.
        """
        raise errors.SetupError("A journal takes no feedback: report to a channel of your own.")

    def _feedback(self, entity: str) -> Iterator[Feedback]:
        scores: dict[str, float] = {}
        waiting: dict[str, Mapping[str, Any]] = {}
        for record in self._journal.read():
            data = record.data
            if record.kind in ("judged", "founded"):
                score = (data.get("evaluation") or {}).get("score")
                if score is not None:
                    scores[data["id"]] = score
                waiting[data["id"]] = data
            for child in data.get("children", ()) if record.kind == "applied" else ():
                born = waiting.pop(child["id"], None)
                if born is not None and self._entity(born) == entity:
                    yield from self._told(born, child["decision"], scores)

    def _told(
        self, data: Mapping[str, Any], decision: Sequence[Any], scores: Mapping[str, float]
    ) -> Iterator[Feedback]:
        score = scores.get(data["id"])
        values = {ACCEPTED: float(decision[0] == "accept")}
        if score is not None:
            values[SCORE] = score
            parents = [scores[parent] for parent in data["parents"] if parent in scores]
            if parents:
                values[GAIN] = score - max(parents)
        for metric, value in values.items():
            entity, id = self._entity(data), self._id(data)
            yield Feedback(self._when(data), entity, metric, value, decision_id=id)

    def _children(self) -> Iterator[Mapping[str, Any]]:
        for record in self._journal.read():
            if record.kind == "judged" and not str(record.data.get("label", "")).startswith("d"):
                yield record.data

    def _when(self, data: Mapping[str, Any]) -> datetime:
        return self._start + timedelta(seconds=int(data["step"]))

    def _id(self, data: Mapping[str, Any]) -> str:
        return f"{self._run}/{data['id']}"

    def _entity(self, data: Mapping[str, Any]) -> str:
        engine = (data.get("meta") or {}).get(ENGINE)
        return str(engine) if self._by == ENGINE and engine is not None else f"island {data['island']}"
