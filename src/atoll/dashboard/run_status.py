"""Status of a run as the views show it: configuration, best candidate, usage, and the label that users give it.

Labels are versioned values, so the audit log has author and time.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field

from atoll import config, store
from atoll.dashboard import text_limits
from atoll.dashboard.run_totals import RunTotals
from atoll.runs import answer, summary
from atoll.store import candidate_queries

MAX_TEXT = 1000
LABEL_PREFIX = "run_labels/"
MAX_TAGS = 20

Tag = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[^,\x00-\x1f]+$")]
Line = Annotated[str, Field(max_length=120, pattern=r"^[^\x00-\x1f]*$")]


class RunLabel(BaseModel):
    """Name, tags and note of a run; all empty by default."""

    name: Line = ""
    tags: Annotated[list[Tag], Field(max_length=MAX_TAGS)] = []
    note: Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]*$")] = ""


class RunUsage(BaseModel):
    """Usage of a run.

    `is_counted` is false while a long journal is still being read. The numbers then cover the share `counted` of it.
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
    status: summary.Status
    reason: str
    began: str
    best: str | None
    best_score: float | None
    initial_score: float | None
    evaluations: int
    candidates: int
    steps: int
    failures: int
    calls: int
    cost_usd: float
    tokens: int
    seed: int | None
    seconds: float | None
    ended_at: float | None
    label: RunLabel
    group: str | None
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
    """Reads the status of one run from the store."""

    run_store: store.Store
    run: store.Run
    totals: RunTotals

    @property
    def candidate_queries(self) -> candidate_queries.CandidateQueries:
        return candidate_queries.CandidateQueries(self.run_store, self.run.id)

    def get_status(self) -> tuple[summary.Status, str]:
        """Returns the status, and the reason why the run ended."""
        if self.run_store.has_writer(self.run.id):
            return "paused" if self._is_paused() else "running", ""
        reason = self.totals.reason
        if not self.totals.is_counted or "shared" in self.run.config:
            reason = self.totals.find_end_reason()
        if reason is None:
            return "crashed", "the process ended before the run was done"
        return next((name for name in ("interrupted", "stopped", "failed") if reason.startswith(name)), "done"), reason

    def _is_paused(self) -> bool:
        """Checks whether the run is paused. An episode obeys between turns, before the journal records the command."""
        if config.get_episode_reader(str(self.run.config.get("system", ""))) is None:
            return self.totals.is_paused
        command_kinds = [command.kind for command in self.run_store.inbox(self.run.id).read(self.totals.last_command)]
        pause_commands = [kind for kind in command_kinds if kind in ("pause", "resume")]
        return pause_commands[-1] == "pause" if pause_commands else self.totals.is_paused

    def compute_usage(self) -> RunUsage:
        """Returns the usage. Its failures are iterations without a child, and children whose evaluation failed."""
        totals, cost = self.totals, self.totals.cost
        return RunUsage(
            steps=totals.steps,
            evaluations=totals.evaluations,
            failures=totals.failures + totals.count_failed_evaluations(),
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
        """Returns the row of the run in lists."""
        totals, queries = self.totals, self.candidate_queries
        best, initial = queries.list_best(), queries.find(["0.0"])
        status, reason = self.get_status()
        run_config, started = self.run.config, totals.started
        num_candidates = queries.count()
        run_section = _get_run_section(started, run_config)
        target, seed = run_section.get("target"), run_section.get("seed")
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
            # Until the journal is counted, the table of candidates has the better number.
            evaluations=totals.evaluations if totals.is_counted else num_candidates,
            candidates=num_candidates,
            steps=totals.steps if totals.is_counted else queries.get_last_step(),
            failures=totals.failures,
            calls=totals.cost.calls,
            cost_usd=totals.cost.usd,
            tokens=totals.cost.tokens_in + totals.cost.tokens_out,
            seed=seed if isinstance(seed, int) else None,
            seconds=totals.compute_elapsed(time.time() if status in ("running", "paused") else None),
            ended_at=None if status in ("running", "paused") else totals.last_at,
            label=load_label(self.run_store, self.run.id),
            group=_hash_group(run_config),
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


def _hash_group(run_config: Any) -> str | None:
    """Returns a short key that runs with the same task and settings but other seeds share."""
    key = answer.make_group_key(run_config)
    return None if key is None else hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:12]


def _get_run_section(started: Any, run_config: Any) -> dict[str, Any]:
    """Returns the section `run` of the configuration at the latest start."""
    section = (started.get("plan") or run_config).get("run")
    return section if isinstance(section, dict) else {}


def _format_goal(budget: dict[str, float | None], target: object) -> str:
    """Describes the target score and the limits of a run."""
    limits = [f"{limit:g} {name}" for name, limit in budget.items() if limit is not None]
    return ", ".join([*([f"score {target:g}"] if isinstance(target, int | float) else []), *limits])


def load_label(run_store: store.Store, run: str) -> RunLabel:
    """Returns the label of a run; an unreadable one is empty."""
    stored = run_store.change_log().get_value(f"{LABEL_PREFIX}{run}")
    try:
        return RunLabel() if stored is None else RunLabel.model_validate(json.loads(json.loads(stored[0])))
    except ValueError:
        return RunLabel()


def save_label(run_store: store.Store, run: str, label: RunLabel, author: str) -> None:
    """Stores the label of a run as a new version."""
    if load_label(run_store, run) == label:
        return
    data = text_limits.to_json_data(label.model_dump())
    run_store.versions().set(
        f"{LABEL_PREFIX}{run}", json.dumps(data, sort_keys=True), "name, tags and note of the run", author
    )
