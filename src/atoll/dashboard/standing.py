"""How a run stands, as the views show it: what it is, what it has found, what it has used."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from atoll import config, store
from atoll.dashboard import plain
from atoll.dashboard.digest import Digest
from atoll.runs import summary
from atoll.store import census, runs

MAX_TEXT = 1000

type Status = Literal["running", "paused", "finished", "stopped", "failed", "interrupted"]


class Used(BaseModel):
    """What a run has used.

    `is_counted` is false while a long journal is still being added up: then these are the sums up to `counted`, a share
    of it, and a later look has the rest.
    """

    steps: int
    evaluations: int
    failures: int
    calls: int
    tokens_in: int
    tokens_out: int
    tokens: int
    cost_usd: float
    work_seconds: float
    is_counted: bool
    counted: float


class RunRow(BaseModel):
    """A run in a list."""

    id: str
    system: str
    task: str
    status: Status
    reason: str
    began: str
    best: str | None
    best_score: float | None
    initial_score: float | None
    evaluations: int
    candidates: int
    steps: int
    cost_usd: float
    tokens: int
    is_counted: bool
    budget: dict[str, float | None]
    used_share: float | None
    target: float | None
    goal: str
    llm: str
    sandbox: str
    baseline_of: str | None
    events: int


@dataclass(frozen=True, slots=True)
class Look:
    """What is asked of the store about one run."""

    kept: store.Store
    run: runs.Run
    digest: Digest

    @property
    def census(self) -> census.Census:
        return census.Census(self.kept, self.run.id)

    def status(self) -> tuple[Status, str]:
        """Returns how it stands, and why it ended."""
        if self.kept.is_written(self.run.id):
            return "paused" if self._is_paused() else "running", ""
        reason = self.digest.reason
        if not self.digest.is_counted or "shared" in self.run.config:
            end = summary.end_of(self.kept, self.run.id)
            reason = None if end is None else str(end.data.get("reason", ""))
        if reason is None:
            return "interrupted", "its process ended before the run did"
        if reason.startswith("stopped"):
            return "stopped", reason
        if reason.startswith("failed"):
            return "failed", reason
        return "interrupted" if reason.startswith("interrupted") else "finished", reason

    def _is_paused(self) -> bool:
        """Says whether it waits; a life obeys between its turns, before its step is over and the journal says so."""
        if config.lives(str(self.run.config.get("system", ""))) is None:
            return self.digest.is_braked
        asked = [each.kind for each in self.kept.inbox(self.run.id).read(self.digest.number)]
        brakes = [kind for kind in asked if kind in ("pause", "resume")]
        return brakes[-1] == "pause" if brakes else self.digest.is_braked

    def used(self, num_failed: int) -> Used:
        """Returns what it has used; `num_failed`: children that were judged and got no score."""
        digest, cost = self.digest, self.digest.cost
        return Used(
            steps=digest.steps,
            evaluations=digest.evaluations,
            failures=digest.failures + num_failed,
            calls=cost.calls,
            tokens_in=cost.tokens_in,
            tokens_out=cost.tokens_out,
            tokens=cost.tokens_in + cost.tokens_out,
            cost_usd=cost.usd,
            work_seconds=cost.seconds,
            is_counted=digest.is_counted,
            counted=digest.seq / digest.end if digest.end else 1.0,
        )

    def row(self) -> RunRow:
        """Returns the run as a list shows it."""
        digest, census = self.digest, self.census
        best, start = census.best(), census.find(["0.0"])
        status, reason = self.status()
        own, started = self.run.config, digest.started
        num_candidates = census.count()
        target = _plan(started, own).get("target")
        return RunRow(
            id=self.run.id,
            system=plain.text(str(own.get("system", "")), MAX_TEXT),
            task=plain.text(str(own.get("folder", "")), MAX_TEXT),
            status=status,
            reason=plain.text(reason, MAX_TEXT),
            began=self.run.created_at.isoformat(),
            best=best[0].id if best else None,
            best_score=best[0].score if best else None,
            initial_score=start["0.0"].score if "0.0" in start else None,
            # Before all is added up, what is in the table of candidates is the better number.
            evaluations=digest.evaluations if digest.is_counted else num_candidates,
            candidates=num_candidates,
            steps=digest.steps if digest.is_counted else census.last_step(),
            cost_usd=digest.cost.usd,
            tokens=digest.cost.tokens_in + digest.cost.tokens_out,
            is_counted=digest.is_counted,
            budget=digest.budget,
            used_share=digest.share_used(),
            target=target if isinstance(target, int | float) else None,
            goal=_goal(digest.budget, target),
            llm=plain.text(str(started.get("llm", "none")), MAX_TEXT),
            sandbox=plain.text(str(started.get("sandbox", "")), MAX_TEXT),
            baseline_of=own.get("baseline_of"),
            events=digest.end,
        )


def _plan(started: Any, own: Any) -> dict[str, Any]:
    """Returns the section `run` of a run's configuration, as it was started last."""
    found = (started.get("plan") or own).get("run")
    return found if isinstance(found, dict) else {}


def _goal(budget: dict[str, float | None], target: object) -> str:
    """Says in a few words when the run will end."""
    limits = [f"{limit:g} {name}" for name, limit in budget.items() if limit is not None]
    return ", ".join([*([f"score {target:g}"] if isinstance(target, int | float) else []), *limits])
