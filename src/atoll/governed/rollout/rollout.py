"""Rollout of a parameter: shadow run, canary, full, and automatic rollback.

    proposed ── shadow ── canary 1 % ── 5 % ── 10 % ── 25 % ── full ── settled
        '----------'---------'-----------'------'-------'-------'──── rolled_back, then a cool-down

The parameter keeps its value until `full`. A plain read returns the baseline; `value_for` returns the value of an
entity's arm. Every step is one transaction, so the state and the parameter never disagree.

A bundle of several keys is rolled out as a whole. All keys have the same entities, stages and guardrails.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from atoll import errors
from atoll.governed.approval.proposal import Proposal
from atoll.governed.approval.proposals import Clock, find_shadow_verdict
from atoll.governed.errors import ParameterLocked, VersionConflict
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.evidence.log_stores import now as wall_clock
from atoll.governed.parameters.store import ParameterStore, Transaction
from atoll.governed.rollout.parameter_evolver import Approval, HasApproval, HasProposal, get_refusal_reason
from atoll.governed.rollout.shadow_result import Guardrail, ShadowResult
from atoll.governed.rollout.state import Measurement, RolloutPlan, RolloutState, Stage, state_key
from atoll.governed.rollout.strata import BASELINE, CANDIDATE

AUTHOR = "rollout"
WRITE_DELAY = timedelta(seconds=1)  # delay between the time stamp of a report and its line on disk
MAX_TRIES = 20  # other processes may update the same rollout


class FeedbackSource(Protocol):
    """Feedback channel that can list its entities."""

    def list_entities(self) -> Sequence[str]: ...

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]: ...


class ServedValue(NamedTuple):
    """Value that an entity gets, and its arm."""

    value: Any
    arm: str


class Rollout:
    """Rollout of one parameter or its bundle. All state is in the store, so any process can continue it.

    Args:
        store: Holds the parameter and the state.
        key: The parameter.
        clock: Current time, for the durations of stages.
    """

    def __init__(self, store: ParameterStore, key: str, *, clock: Clock = wall_clock) -> None:
        self._store, self._key, self._clock = store, key, clock
        self._new: list[Measurement] = []
        self._leader: Rollout | None = None

    def state(self) -> RolloutState | None:
        """Returns the state of the rollout; None if it was never started."""
        loaded = self._load()
        return None if loaded is None else loaded[0]

    def start(self, proposal: HasProposal, approval: HasApproval, plan: RolloutPlan) -> RolloutState:
        """Starts the rollout of an approved proposal.

        Raises:
            SetupError: The proposal is for another key.
            Conflict: The approval is not valid, a rollout is active, or the cool-down has not ended.
            ParameterNotFound: The parameter does not exist, so a rollback would be impossible.
            VersionConflict: The parameter has changed since the proposal.
        """
        if proposal.key != self._key:
            raise errors.SetupError(f"The proposal is for {proposal.key}, not for {self._key}.")
        if refusal_reason := get_refusal_reason(proposal, approval):
            raise errors.Conflict(f"The rollout of {self._key} cannot start: {refusal_reason}.")
        timestamp = self._clock()
        changes: Sequence[tuple[str, Any]] = getattr(proposal, "changes", ()) or [(self._key, proposal.value)]
        base: Mapping[str, int] = getattr(proposal, "base", {})
        expected = {**base, self._key: base.get(self._key, proposal.expected_version)}
        state = RolloutState(
            self._key,
            proposal.value,
            proposal.id,
            proposal.author,
            salt=proposal.id,
            baseline_version=0,
            plan=plan,
            entered_at=timestamp,
            why=approval.reason,
            approved_by=(approval.by,),
            content_hash=approval.content_hash,
            group=tuple(key for key, _ in changes) if len(changes) > 1 else (),
        )
        if not plan.needs_shadow:
            state = state.move_to("canary", timestamp, approval.reason)
        states = [self._make_start(state, key, value, expected.get(key)) for key, value in changes]
        self._write(states, AUTHOR)
        return states[0][0]

    def _make_start(self, state: RolloutState, key: str, value: Any, expected: int | None) -> tuple[RolloutState, int]:
        """Returns the first state of a key, and the version of its state before. Checks that its rollout can start."""
        verdict, reason = find_shadow_verdict(self._store, key, value)
        if verdict == "reject":
            raise errors.Conflict(f"A shadow run rejected this value of {key}: {reason}.")
        previous = self._load(key)
        if previous is not None:
            _check_can_start(previous[0], state.entered_at)
        version = self._store.get(key).version  # a rollback needs a version to return to
        if expected not in (None, version):
            raise VersionConflict(key, expected or 0, version)
        return replace(state, key=key, value=value, baseline_version=version), previous[1] if previous else 0

    def add_shadow_result(self, result: ShadowResult) -> RolloutState:
        """Continues after a shadow run: with the canary, with a rollback, or with another shadow run.

        Raises:
            Conflict: The rollout is past its shadow stage.
        """
        if (leader := self._find_leader()) is not None:
            return leader.add_shadow_result(result)
        state, version = self._require()
        if state.stage not in ("proposed", "shadow"):
            raise errors.Conflict(f"The rollout of {self._key} is {state.stage}, past its shadow stage.")
        reason = f"shadow run of {result.sample_size} pairs: {result.reason}"
        stages: dict[str, Stage] = {"promote": "canary", "reject": "rolled_back", "extend": "shadow"}
        stage = stages[result.verdict]
        new_state = state.move_to(stage, self._clock(), reason, is_settled=stage == "rolled_back")
        self._save(new_state, version)
        return new_state

    def value_for(self, entity: str) -> ServedValue:
        """Returns the value for an entity. It changes only when the entity joins the canary, or after a rollback.

        Raises:
            ParameterNotFound: The parameter does not exist.
        """
        state = self.state()
        if state is not None and state.stage == "canary" and state.is_treated(entity):
            return ServedValue(state.value, CANDIDATE)
        arm = CANDIDATE if state is not None and state.stage == "full" else BASELINE
        return ServedValue(self._store.get(self._key).value, arm)

    def observe(self, entity: str, metric: str, value: float, *, arm: str | None = None) -> None:
        """Adds a measurement, to be used by the next `update`.

        Args:
            arm: Arm that was served; None: the entity's current arm.
        """
        self.add_feedback([Feedback(self._clock(), entity, metric, value, meta={"arm": arm} if arm else None)])

    def add_feedback(self, records: Iterable[Feedback]) -> int:
        """Adds feedback and returns the number of guarded measurements.

        `meta["arm"]`, or `meta["arms"][KEY]`, names the served arm. `meta["decided_at"]` is the time of the decision
        that was measured. A measurement of a decision before the current step is ignored: the share was another then.
        """
        if (leader := self._find_leader()) is not None:
            return leader.add_feedback(records)
        state = self.state()
        return sum(self._add_record(state, self._new, record) for record in records) if state is not None else 0

    def update(self, channel: FeedbackSource | None = None) -> RolloutState:
        """Evaluates all measurements. Rolls back if a guardrail is breached, else advances when the stage is complete.

        Args:
            channel: Source of new feedback for all entities.

        Raises:
            NotFound: No rollout was started.
            Conflict: Other processes kept changing the state; observations are kept for the next update.
        """
        if (leader := self._find_leader()) is not None:
            return leader.update(channel)
        for _ in range(MAX_TRIES):
            state, version = self._require()
            merged = state.with_measurements(self._new) if self._new else state
            if channel is not None and not state.is_settled:
                merged = self._read_channel(merged, channel)
            try:
                new_state = self._compute_next_state(merged)
                if new_state is merged and merged == state:
                    return state
                new_state = self._save(new_state, version)
            except ParameterLocked as error:
                new_state = self._save(replace(merged, why=f"waits at {merged.share:.0%}: {error}"), version)
            except VersionConflict as error:
                if error.key != self._key and error.key not in state.group:
                    continue  # another process updated it: try again
                reason = f"{error.key} was changed during the rollout: {error}"
                new_state = self._save(merged.move_to("rolled_back", self._clock(), reason, is_settled=True), version)
            self._new.clear()
            return new_state
        raise errors.Conflict(f"The rollout of {self._key} is being changed by other processes. Update again later.")

    def _read_channel(self, state: RolloutState, channel: FeedbackSource) -> RolloutState:
        """Adds the feedback since the last update. Feedback from the last moments is left for the next one."""
        until = self._clock() - WRITE_DELAY
        since = state.fed_at or state.entered_at
        new: list[Measurement] = []
        for entity in channel.list_entities():
            for record in channel.query(entity, since):
                if since < record.timestamp <= until:
                    self._add_record(state, new, record)
        return replace(state.with_measurements(new) if new else state, fed_at=max(since, until))

    def abort(self, reason: str, *, author: str) -> RolloutState:
        """Rolls back now.

        Raises:
            ReasonRequired: The reason is empty.
            Conflict: The rollout has ended.
        """
        if (leader := self._find_leader()) is not None:
            return leader.abort(reason, author=author)
        state, version = self._require()
        if state.is_settled:
            raise errors.Conflict(f"The rollout of {self._key} has ended with the status {state.stage}.")
        full_reason = f"aborted by {author}: {reason}" if reason.strip() else ""
        return self._save(state.move_to("rolled_back", self._clock(), full_reason, is_settled=True), version, author)

    def _compute_next_state(self, state: RolloutState) -> RolloutState:
        """Returns the next state, or the same object if nothing changes."""
        timestamp, plan = self._clock(), state.plan
        if state.is_settled:
            return state
        if state.stage != "full" and timestamp - state.entered_at > timedelta(seconds=plan.max_seconds):
            reason = f"the stage {state.stage} took longer than {timedelta(seconds=plan.max_seconds)}"
            return state.move_to("rolled_back", timestamp, reason, is_settled=True)
        if state.stage in ("proposed", "shadow"):
            return state
        for guardrail in state.guardrails:
            evidence = state.evidence(guardrail.metric)
            if guardrail.is_breached(evidence.interval):
                margin = f"margin {guardrail.allowed_loss:.4g}"
                change = f"{evidence.estimate:.4g} ({_format_interval(evidence.interval)}), {margin}"
                reason = f"guardrail breached: {guardrail.metric} changed by {change}"
                return state.move_to("rolled_back", timestamp, reason, is_settled=True)
        ratio = state.check_ratio()
        if ratio is not None and ratio.is_off:
            reason = (
                f"the split is wrong: {ratio.share:.1%} of the entities had the candidate, planned {ratio.expected:.1%}"
            )
            return state.move_to("rolled_back", timestamp, reason, is_settled=True)
        if state.stage == "full":
            if harmed := [guardrail.metric for guardrail in state.guardrails if state.has_sudden_harm(guardrail)]:
                reason = f"guardrail breached after the last stage: {', '.join(harmed)}"
                return state.move_to("rolled_back", timestamp, reason, is_settled=True)
            if timestamp - state.entered_at < timedelta(seconds=plan.bake_seconds):
                return state
            return state.move_to("full", timestamp, "no guardrail was breached during monitoring", is_settled=True)
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
        if all(_is_satisfied(guardrail, state) for guardrail in state.guardrails):
            return state.move_to("full", timestamp, f"{num_new} samples at {state.share:.0%}, all guardrails satisfied")
        return state

    def _save(self, state: RolloutState, version: int, author: str = AUTHOR) -> RolloutState:
        """Writes the state of a key, or of all keys of its bundle."""
        self._write([(state, version), *(self._update_member(state, key) for key in state.group[1:])], author)
        return state

    def _update_member(self, state: RolloutState, key: str) -> tuple[RolloutState, int]:
        """Returns the state of another key of the bundle, without the measurements, and its stored version."""
        loaded = self._load(key)
        assert loaded is not None, "all states of a bundle are written together"
        member, version = loaded
        own = {"key": key, "value": member.value, "baseline_version": member.baseline_version}
        empty: dict[str, Any] = {"arms": {}, "strata": {}, "exposed": {}, "entered_count": {}, "fed_at": None}
        return replace(state, **own, **empty), version

    def _write(self, states: Sequence[tuple[RolloutState, int]], author: str) -> None:
        """Writes states and their effects on the parameters in one transaction."""
        leader, previous = states[0][0], self._load()
        previous_stage = previous[0].stage if previous else "proposed"
        with self._store.transaction(leader.why, author=author) as changes:
            for index, (state, version) in enumerate(states):
                changes.set(state_key(state.key), state.to_data(), expected_version=version)
                if state.stage == "full" and previous_stage != "full":
                    token = f"{state.token}/{index}" if state.token and index else state.token
                    changes.set(state.key, state.value, expected_version=state.baseline_version, token=token)
                elif state.stage == "rolled_back" and previous_stage == "full":
                    changes.rollback(state.key, state.baseline_version)
            if leader.stage in ("full", "rolled_back"):
                self._close_proposal(changes, leader)

    def _close_proposal(self, changes: Transaction, state: RolloutState) -> None:
        """Marks the stored proposal of a rollout as applied or failed."""
        try:
            value, version = self._store.get(f"proposals/{state.proposal}")
        except errors.NotFound:
            return  # the rollout was started without a stored proposal
        if value.get("status") == "approved":
            status = "applied" if state.stage == "full" else "failed"
            data = {**value, "status": status, "outcome": f"rollout: {state.why}"}
            changes.set(f"proposals/{state.proposal}", data, expected_version=version)

    def _add_record(self, state: RolloutState, new: list[Measurement], record: Feedback) -> bool:
        guarded = {guardrail.metric for guardrail in state.plan.guardrails}
        if state.stage not in ("canary", "full") or record.metric not in guarded:
            return False
        meta = record.meta or {}
        decided_at = datetime.fromisoformat(meta["decided_at"]) if "decided_at" in meta else None
        if decided_at is not None and decided_at < state.entered_at:
            return False
        reported_arm = meta.get("arm") or (meta.get("arms") or {}).get(self._key)
        arm = reported_arm or (CANDIDATE if state.is_treated(record.entity) else BASELINE)
        if arm not in (BASELINE, CANDIDATE):
            raise errors.SetupError(f"arm={reported_arm!r}: use {BASELINE} or {CANDIDATE}.")
        new.append(Measurement(record.metric, arm, record.entity, record.value, decided_at or record.timestamp))
        return True

    def _find_leader(self) -> "Rollout | None":
        """Returns the rollout of the first key of a bundle; None: this one."""
        state = self.state()
        if state is None or state.leader == self._key:
            return None
        if self._leader is None or self._leader._key != state.leader:
            self._leader = Rollout(self._store, state.leader, clock=self._clock)
        return self._leader

    def _load(self, key: str = "") -> tuple[RolloutState, int] | None:
        try:
            stored = self._store.get(state_key(key or self._key))
        except errors.NotFound:
            return None
        return RolloutState.from_data(stored.value), stored.version

    def _require(self) -> tuple[RolloutState, int]:
        loaded = self._load()
        if loaded is None:
            raise errors.NotFound(f"No rollout of {self._key} found. Start one.")
        return loaded


def _check_can_start(previous: RolloutState, timestamp: datetime) -> None:
    key = previous.key
    if not previous.is_settled:
        raise errors.Conflict(f"A rollout of {key} is active with the status {previous.stage}. Abort it first.")
    allowed_at = previous.entered_at + timedelta(seconds=previous.plan.cooldown_seconds)
    if previous.stage == "rolled_back" and timestamp < allowed_at:
        raise errors.Conflict(f"The last rollout of {key} was rolled back. Wait until {allowed_at:%Y-%m-%d %H:%M} UTC.")


def start_approved(
    store: ParameterStore, proposal: Proposal, plan: RolloutPlan, *, reason: str = "", clock: Clock = wall_clock
) -> RolloutState:
    """Starts the rollout of a stored proposal, one key or a bundle.

    Raises:
        Conflict: The proposal is not approved, or `Rollout.start` refuses it.
    """
    if proposal.status != "approved" or not proposal.approvals:
        raise errors.Conflict(f"Proposal {proposal.id} is {proposal.status}, not approved.")
    review = proposal.approvals[-1]
    approval = Approval.for_proposal(proposal, is_approved=True, approver=review.by, reason=reason or review.reason)
    return Rollout(store, proposal.key, clock=clock).start(proposal, approval, plan)


def _is_satisfied(guardrail: Guardrail, state: RolloutState) -> bool:
    return guardrail.is_satisfied(state.evidence(guardrail.metric).interval)


def _format_interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
