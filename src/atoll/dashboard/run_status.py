"""How a run stands, as the views show it: what it is, what it has found, what it has used."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from atoll import config, store
from atoll.dashboard import text_limits
from atoll.dashboard.run_totals import RunTotals
from atoll.runs import summary
from atoll.store import runs
from atoll.store.candidates import queries

MAX_TEXT = 1000

type Status = Literal["running", "paused", "finished", "stopped", "failed", "interrupted"]


class RunUsage(BaseModel):
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
class RunStatusReader:
    """What is asked of the store about one run."""

    run_store: store.Store
    run: runs.Run
    totals: RunTotals

    @property
    def candidate_queries(self) -> queries.CandidateQueries:
        return queries.CandidateQueries(self.run_store, self.run.id)

    def get_status(self) -> tuple[Status, str]:
        """Returns how it stands, and why it ended."""
        if self.run_store.has_writer(self.run.id):
            return "paused" if self._is_paused() else "running", ""
        reason = self.totals.reason
        if not self.totals.is_counted or "shared" in self.run.config:
            end = summary.find_end_record(self.run_store, self.run.id)
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
        if config.get_episode_reader(str(self.run.config.get("system", ""))) is None:
            return self.totals.is_paused
        command_kinds = [command.kind for command in self.run_store.inbox(self.run.id).read(self.totals.last_command)]
        pause_commands = [kind for kind in command_kinds if kind in ("pause", "resume")]
        return pause_commands[-1] == "pause" if pause_commands else self.totals.is_paused

    def compute_usage(self, num_failed: int) -> RunUsage:
        """Returns what it has used; `num_failed`: children that were judged and got no score."""
        totals, cost = self.totals, self.totals.cost
        return RunUsage(
            steps=totals.steps,
            evaluations=totals.evaluations,
            failures=totals.failures + num_failed,
            calls=cost.calls,
            tokens_in=cost.tokens_in,
            tokens_out=cost.tokens_out,
            tokens=cost.tokens_in + cost.tokens_out,
            cost_usd=cost.usd,
            work_seconds=cost.seconds,
            is_counted=totals.is_counted,
            counted=totals.seq / totals.end if totals.end else 1.0,
        )

    def make_row(self) -> RunRow:
        """Returns the run as a list shows it."""
        totals, queries = self.totals, self.candidate_queries
        best, initial = queries.list_best(), queries.find(["0.0"])
        status, reason = self.get_status()
        run_config, started = self.run.config, totals.started
        num_candidates = queries.count()
        target = _get_run_section(started, run_config).get("target")
        return RunRow(
            id=self.run.id,
            system=text_limits.limit_text(str(run_config.get("system", "")), MAX_TEXT),
            task=text_limits.limit_text(str(run_config.get("folder", "")), MAX_TEXT),
            status=status,
            reason=text_limits.limit_text(reason, MAX_TEXT),
            began=self.run.created_at.isoformat(),
            best=best[0].id if best else None,
            best_score=best[0].score if best else None,
            initial_score=initial["0.0"].score if "0.0" in initial else None,
            # Before all is added up, what is in the table of candidates is the better number.
            evaluations=totals.evaluations if totals.is_counted else num_candidates,
            candidates=num_candidates,
            steps=totals.steps if totals.is_counted else queries.get_last_step(),
            cost_usd=totals.cost.usd,
            tokens=totals.cost.tokens_in + totals.cost.tokens_out,
            is_counted=totals.is_counted,
            budget=totals.budget,
            used_share=totals.compute_used_share(),
            target=target if isinstance(target, int | float) else None,
            goal=_format_goal(totals.budget, target),
            llm=text_limits.limit_text(str(started.get("llm", "none")), MAX_TEXT),
            sandbox=text_limits.limit_text(str(started.get("sandbox", "")), MAX_TEXT),
            baseline_of=run_config.get("baseline_of"),
            events=totals.end,
        )


def _get_run_section(started: Any, run_config: Any) -> dict[str, Any]:
    """Returns the section `run` of a run's configuration, as it was started last."""
    section = (started.get("plan") or run_config).get("run")
    return section if isinstance(section, dict) else {}


def _format_goal(budget: dict[str, float | None], target: object) -> str:
    """Says in a few words when the run will end."""
    limits = [f"{limit:g} {name}" for name, limit in budget.items() if limit is not None]
    return ", ".join([*([f"score {target:g}"] if isinstance(target, int | float) else []), *limits])
