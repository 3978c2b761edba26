"""Takes a parameter from a shadow to a canary to everybody, and back by itself.

    proposed ── shadow ── canary 1 % ── 5 % ── 10 % ── 25 % ── full ── settled
        '----------'---------'-----------'------'-------'-------'──── rolled_back, then a cool-down

The parameter itself stays as it is until `full`: who reads it plainly sees the baseline, who asks `value_for` is in the
experiment. Every move is one transaction of the store, so that the state and the parameter never disagree.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from atoll import errors
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.evidence.log_stores import now as wall_clock
from atoll.governed.parameters.store import ParameterStore
from atoll.governed.rollout.parameter_evolver import HasApproval, HasProposal, get_refusal_reason
from atoll.governed.rollout.shadow_result import Guardrail, ShadowResult
from atoll.governed.rollout.state import BASELINE, CANDIDATE, RolloutPlan, RolloutState, Stage, is_treated, state_key
from atoll.governed.statistics import Moments
from atoll.store.versions import errors as versions_errors

AUTHOR = "rollout"
WRITE_DELAY = timedelta(seconds=1)  # between the stamp of a report and its line on disk
MAX_TRIES = 20  # others may tick the same rollout at the same time


class FeedbackSource(Protocol):
    """Feedback of entities that are known: `feedback.FileFeedback`, `StoredFeedback` and `MemoryFeedback`."""

    def list_entities(self) -> Sequence[str]: ...

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]: ...


class ServedValue(NamedTuple):
    """The value that an entity gets, and from which arm."""

    value: Any
    arm: str


class Rollout:
    """The rollout of one parameter. All of its state is in the store: any process may go on with it at any time.

    Args:
        store: Where the parameter and the state live.
        key: The parameter.
        clock: Says when a step has taken long enough.
    """

    def __init__(self, store: ParameterStore, key: str, *, clock: Callable[[], datetime] = wall_clock) -> None:
        self._store, self._key, self._clock = store, key, clock
        self._new_moments: dict[tuple[str, str], Moments] = {}

    def state(self) -> RolloutState | None:
        """Returns where the rollout stands; None if there never was one."""
        loaded = self._load()
        return None if loaded is None else loaded[0]

    def start(self, proposal: HasProposal, approval: HasApproval, plan: RolloutPlan) -> RolloutState:
        """Begins a rollout of an approved proposal.

        Raises:
            SetupError: The proposal is for another key.
            Conflict: The approval does not carry it, another rollout is under way, or the last one was rolled back a
                short time ago.
            ParameterNotFound: There is no such parameter, and so nothing to go back to.
            VersionConflict: The parameter has moved on since the proposal was made.
        """
        if proposal.key != self._key:
            raise errors.SetupError(f"The proposal is about {proposal.key}, not {self._key}.")
        if refusal_reason := get_refusal_reason(proposal, approval):
            raise errors.Conflict(f"The rollout of {self._key} cannot begin: {refusal_reason}.")
        previous, timestamp = self._load(), self._clock()
        if previous is not None:
            self._check_can_start(previous[0], timestamp)
        version = self._store.get(self._key).version  # there must be something to go back to
        if proposal.expected_version not in (None, version):
            raise versions_errors.VersionConflict(self._key, proposal.expected_version or 0, version)
        state = RolloutState(
            self._key,
            proposal.value,
            proposal.id,
            proposal.author,
            salt=proposal.id,
            baseline_version=version,
            plan=plan,
            entered_at=timestamp,
            why=approval.reason,
        )
        if not plan.needs_shadow:
            state = state.move_to("canary", timestamp, approval.reason)
        self._save(state, previous[1] if previous else 0)
        return state

    def add_shadow_result(self, result: ShadowResult) -> RolloutState:
        """Goes on after a shadow run: to the canary, back, or into another shadow run.

        Raises:
            Conflict: The rollout is past its shadow.
        """
        state, version = self._require()
        if state.stage not in ("proposed", "shadow"):
            raise errors.Conflict(f"The rollout of {self._key} is {state.stage}, past its shadow.")
        reason = f"shadow run of {result.sample_size} pairs: {result.reason}"
        stages: dict[str, Stage] = {"promote": "canary", "reject": "rolled_back", "extend": "shadow"}
        stage = stages[result.verdict]
        new_state = state.move_to(stage, self._clock(), reason, is_settled=stage == "rolled_back")
        self._save(new_state, version)
        return new_state

    def value_for(self, entity: str) -> ServedValue:
        """Returns the value that an entity gets; the same one as before, unless it is newly treated or all are back.

        Raises:
            ParameterNotFound: There is no such parameter, and the entity is not treated.
        """
        state = self.state()
        if state is not None and state.stage == "canary" and self._is_treated(state, entity):
            return ServedValue(state.value, CANDIDATE)
        arm = CANDIDATE if state is not None and state.stage == "full" else BASELINE
        return ServedValue(self._store.get(self._key).value, arm)

    def observe(self, entity: str, metric: str, value: float, *, arm: str | None = None) -> None:
        """Takes in a measurement; the next tick looks at it.

        Args:
            arm: Which value was served; without it, the one that the entity gets now.
        """
        self.add_feedback([Feedback(self._clock(), entity, metric, value, meta={"arm": arm} if arm else None)])

    def add_feedback(self, records: Iterable[Feedback]) -> int:
        """Takes in feedback and returns how much of it is guarded; `meta["arm"]` says which value was served."""
        state = self.state()
        return sum(self._add_record(state, self._new_moments, record) for record in records) if state is not None else 0

    def update(self, channel: FeedbackSource | None = None) -> RolloutState:
        """Looks at all measurements and moves: back at once if a guardrail is breached, on if the step is done.

        Args:
            channel: Also takes in what was reported there since the last tick, of all entities.

        Raises:
            NotFound: There is no rollout.
            Conflict: Others kept changing the state; what was observed waits for the next tick.
        """
        for _ in range(MAX_TRIES):
            state, version = self._require()
            merged = state.with_moments(self._new_moments)
            if channel is not None and not state.is_settled:
                merged = self._read_channel(merged, channel)
            try:
                new_state = self._compute_next_state(merged)
                if new_state is merged and merged == state:
                    return state
                new_state = self._save(new_state, version)
            except versions_errors.ParameterLocked as error:
                new_state = self._save(replace(merged, why=f"waits at {merged.share:.0%}: {error}"), version)
            except versions_errors.VersionConflict as error:
                if error.key != self._key:
                    continue  # somebody else ticked meanwhile: look again
                reason = f"{self._key} was changed by others meanwhile: {error}"
                new_state = self._save(merged.move_to("rolled_back", self._clock(), reason, is_settled=True), version)
            self._new_moments.clear()
            return new_state
        raise errors.Conflict(f"The rollout of {self._key} is being changed all the time: tick again later.")

    def _read_channel(self, state: RolloutState, channel: FeedbackSource) -> RolloutState:
        """Returns the state with what was reported since the last look; what is stamped just now waits for the next."""
        until = self._clock() - WRITE_DELAY
        since = state.fed_at or state.entered_at
        new_moments: dict[tuple[str, str], Moments] = {}
        for entity in channel.list_entities():
            for record in channel.query(entity, since):
                if since < record.timestamp <= until:
                    self._add_record(state, new_moments, record)
        return replace(state.with_moments(new_moments), fed_at=max(since, until))

    def abort(self, reason: str, *, author: str) -> RolloutState:
        """Rolls back by hand.

        Raises:
            ReasonRequired: The reason is empty.
            Conflict: The rollout is over.
        """
        state, version = self._require()
        if state.is_settled:
            raise errors.Conflict(f"The rollout of {self._key} is over: it is {state.stage}.")
        full_reason = f"aborted by {author}: {reason}" if reason.strip() else ""
        return self._save(state.move_to("rolled_back", self._clock(), full_reason, is_settled=True), version, author)

    def _compute_next_state(self, state: RolloutState) -> RolloutState:
        """Returns the state after the next move, or the very same if there is none."""
        if state.is_settled or state.stage in ("proposed", "shadow"):
            return state
        timestamp, plan = self._clock(), state.plan
        for guardrail in plan.guardrails:
            evidence = state.evidence(guardrail.metric)
            if guardrail.is_breached(evidence.interval):
                reason = f"{guardrail.metric} changed by {evidence.estimate:.4g} ({_format_interval(evidence.interval)}), margin {guardrail.margin:g}"
                return state.move_to("rolled_back", timestamp, f"guardrail breached: {reason}", is_settled=True)
        if state.stage == "full":
            if timestamp - state.entered_at < timedelta(seconds=plan.bake_seconds):
                return state
            return state.move_to("full", timestamp, "no guardrail was breached while it baked", is_settled=True)
        return self._advance(state, timestamp)

    def _advance(self, state: RolloutState, timestamp: datetime) -> RolloutState:
        plan = state.plan
        num_new = min(state.count_new(guardrail.metric) for guardrail in plan.guardrails)
        if num_new < plan.min_samples or timestamp - state.entered_at < timedelta(seconds=plan.min_seconds):
            return state
        if state.step + 1 < len(plan.shares):
            share = plan.shares[state.step + 1]
            reason = f"{num_new} samples at {state.share:.0%}, no guardrail breached: on to {share:.0%}"
            return state.move_to("canary", timestamp, reason, step=state.step + 1)
        if all(_is_satisfied(guardrail, state) for guardrail in plan.guardrails):
            return state.move_to("full", timestamp, f"{num_new} samples at {state.share:.0%}, all guardrails kept")
        return state

    def _save(self, state: RolloutState, version: int, author: str = AUTHOR) -> RolloutState:
        """Writes the state and what it means for the parameter, together or not at all."""
        previous = self._load()
        previous_stage = previous[0].stage if previous else "proposed"
        with self._store.transaction(state.why, author=author) as changes:
            changes.set(state_key(self._key), state.to_data(), expected_version=version)
            if state.stage == "full" and previous_stage != "full":
                changes.set(self._key, state.value, expected_version=state.baseline_version)
            elif state.stage == "rolled_back" and previous_stage == "full":
                changes.rollback(self._key, state.baseline_version)
        return state

    def _add_record(self, state: RolloutState, new_moments: dict[tuple[str, str], Moments], record: Feedback) -> bool:
        guarded = {guardrail.metric for guardrail in state.plan.guardrails}
        if state.stage not in ("canary", "full") or record.metric not in guarded:
            return False
        reported_arm = (record.meta or {}).get("arm")
        arm = reported_arm or (CANDIDATE if self._is_treated(state, record.entity) else BASELINE)
        if arm not in (BASELINE, CANDIDATE):
            raise errors.SetupError(f"arm={reported_arm!r}: an arm is {BASELINE} or {CANDIDATE}.")
        new_moments.setdefault((record.metric, arm), Moments()).add(record.value)
        return True

    def _is_treated(self, state: RolloutState, entity: str) -> bool:
        return is_treated(state.salt, self._key, entity, state.share)

    def _check_can_start(self, state: RolloutState, timestamp: datetime) -> None:
        if not state.is_settled:
            raise errors.Conflict(f"A rollout of {self._key} is under way: it is {state.stage}. Abort it first.")
        allowed_at = state.entered_at + timedelta(seconds=state.plan.cooldown_seconds)
        if state.stage == "rolled_back" and timestamp < allowed_at:
            raise errors.Conflict(
                f"The last rollout of {self._key} was rolled back; the next may begin at {allowed_at:%Y-%m-%d %H:%M} UTC."
            )

    def _load(self) -> tuple[RolloutState, int] | None:
        try:
            stored = self._store.get(state_key(self._key))
        except errors.NotFound:
            return None
        return RolloutState.from_data(stored.value), stored.version

    def _require(self) -> tuple[RolloutState, int]:
        loaded = self._load()
        if loaded is None:
            raise errors.NotFound(f"There is no rollout of {self._key}: start one.")
        return loaded


def _is_satisfied(guardrail: Guardrail, state: RolloutState) -> bool:
    return guardrail.is_satisfied(state.evidence(guardrail.metric).interval)


def _format_interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
