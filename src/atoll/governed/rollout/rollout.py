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
from atoll.governed.evolver.approval import Approved, Proposed, refusal
from atoll.governed.feedback.record import Feedback
from atoll.governed.logs.files import now as wall_clock
from atoll.governed.parameters.store import ParameterStore
from atoll.governed.rollout.assignment import is_treated
from atoll.governed.rollout.plan import Plan
from atoll.governed.rollout.state import BASELINE, CANDIDATE, Stage, State, state_key
from atoll.governed.shadow.guardrail import Guardrail
from atoll.governed.shadow.result import ShadowResult
from atoll.governed.statistics import Moments
from atoll.store import refusals

AUTHOR = "rollout"
SETTLING = timedelta(seconds=1)  # between the stamp of a report and its line on disk
MAX_TRIES = 20  # others may tick the same rollout at the same time


class Source(Protocol):
    """Feedback of entities that are known: `feedback.FileFeedback`, `StoredFeedback` and `MemoryFeedback`."""

    def entities(self) -> Sequence[str]: ...

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]: ...


class Served(NamedTuple):
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
        self._fresh: dict[tuple[str, str], Moments] = {}

    def state(self) -> State | None:
        """Returns where the rollout stands; None if there never was one."""
        found = self._load()
        return None if found is None else found[0]

    def start(self, proposal: Proposed, approval: Approved, plan: Plan) -> State:
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
        if why := refusal(proposal, approval):
            raise errors.Conflict(f"The rollout of {self._key} cannot begin: {why}.")
        before, moment = self._load(), self._clock()
        if before is not None:
            self._check_free(before[0], moment)
        version = self._store.get(self._key).version  # there must be something to go back to
        if proposal.expected_version not in (None, version):
            raise refusals.VersionConflict(self._key, proposal.expected_version or 0, version)
        state = State(
            self._key,
            proposal.value,
            proposal.id,
            proposal.author,
            salt=proposal.id,
            baseline_version=version,
            plan=plan,
            entered_at=moment,
            why=approval.reason,
        )
        if not plan.needs_shadow:
            state = state.moved("canary", moment, approval.reason)
        self._save(state, before[1] if before else 0)
        return state

    def take_shadow(self, result: ShadowResult) -> State:
        """Goes on after a shadow run: to the canary, back, or into another shadow run.

        Raises:
            Conflict: The rollout is past its shadow.
        """
        state, version = self._need()
        if state.stage not in ("proposed", "shadow"):
            raise errors.Conflict(f"The rollout of {self._key} is {state.stage}, past its shadow.")
        why = f"shadow run of {result.sample_size} pairs: {result.reason}"
        stages: dict[str, Stage] = {"promote": "canary", "reject": "rolled_back", "extend": "shadow"}
        stage = stages[result.verdict]
        moved = state.moved(stage, self._clock(), why, is_settled=stage == "rolled_back")
        self._save(moved, version)
        return moved

    def value_for(self, entity: str) -> Served:
        """Returns the value that an entity gets; the same one as before, unless it is newly treated or all are back.

        Raises:
            ParameterNotFound: There is no such parameter, and the entity is not treated.
        """
        state = self.state()
        if state is not None and state.stage == "canary" and self._is_treated(state, entity):
            return Served(state.value, CANDIDATE)
        arm = CANDIDATE if state is not None and state.stage == "full" else BASELINE
        return Served(self._store.get(self._key).value, arm)

    def observe(self, entity: str, metric: str, value: float, *, arm: str | None = None) -> None:
        """Takes in a measurement; the next tick looks at it.

        Args:
            arm: Which value was served; without it, the one that the entity gets now.
        """
        self.take([Feedback(self._clock(), entity, metric, value, meta={"arm": arm} if arm else None)])

    def take(self, records: Iterable[Feedback]) -> int:
        """Takes in feedback and returns how much of it is guarded; `meta["arm"]` says which value was served."""
        state = self.state()
        return sum(self._take(state, self._fresh, each) for each in records) if state is not None else 0

    def tick(self, channel: Source | None = None) -> State:
        """Looks at all measurements and moves: back at once if a guardrail is breached, on if the step is done.

        Args:
            channel: Also takes in what was reported there since the last tick, of all entities.

        Raises:
            NotFound: There is no rollout.
            Conflict: Others kept changing the state; what was observed waits for the next tick.
        """
        for _ in range(MAX_TRIES):
            state, version = self._need()
            merged = state.merged(self._fresh)
            if channel is not None and not state.is_settled:
                merged = self._fed(merged, channel)
            try:
                moved = self._moved(merged)
                if moved is merged and merged == state:
                    return state
                moved = self._save(moved, version)
            except refusals.ParameterLocked as error:
                moved = self._save(replace(merged, why=f"waits at {merged.share:.0%}: {error}"), version)
            except refusals.VersionConflict as error:
                if error.key != self._key:
                    continue  # somebody else ticked meanwhile: look again
                why = f"{self._key} was changed by others meanwhile: {error}"
                moved = self._save(merged.moved("rolled_back", self._clock(), why, is_settled=True), version)
            self._fresh.clear()
            return moved
        raise errors.Conflict(f"The rollout of {self._key} is being changed all the time: tick again later.")

    def _fed(self, state: State, channel: Source) -> State:
        """Returns the state with what was reported since the last look; what is stamped just now waits for the next."""
        until = self._clock() - SETTLING
        since = state.fed_at or state.entered_at
        fresh: dict[tuple[str, str], Moments] = {}
        for entity in channel.entities():
            for each in channel.query(entity, since):
                if since < each.timestamp <= until:
                    self._take(state, fresh, each)
        return replace(state.merged(fresh), fed_at=max(since, until))

    def abort(self, reason: str, *, author: str) -> State:
        """Rolls back by hand.

        Raises:
            ReasonRequired: The reason is empty.
            Conflict: The rollout is over.
        """
        state, version = self._need()
        if state.is_settled:
            raise errors.Conflict(f"The rollout of {self._key} is over: it is {state.stage}.")
        refused = f"aborted by {author}: {reason}" if reason.strip() else ""
        return self._save(state.moved("rolled_back", self._clock(), refused, is_settled=True), version, author)

    def _moved(self, state: State) -> State:
        """Returns the state after the next move, or the very same if there is none."""
        if state.is_settled or state.stage in ("proposed", "shadow"):
            return state
        moment, plan = self._clock(), state.plan
        for each in plan.guardrails:
            found = state.evidence(each.metric)
            if each.is_breached(found.interval):
                why = (
                    f"{each.metric} changed by {found.estimate:.4g} ({_shown(found.interval)}), margin {each.margin:g}"
                )
                return state.moved("rolled_back", moment, f"guardrail breached: {why}", is_settled=True)
        if state.stage == "full":
            if moment - state.entered_at < timedelta(seconds=plan.bake_seconds):
                return state
            return state.moved("full", moment, "no guardrail was breached while it baked", is_settled=True)
        return self._advanced(state, moment)

    def _advanced(self, state: State, moment: datetime) -> State:
        plan = state.plan
        num_fresh = min(state.num_fresh(each.metric) for each in plan.guardrails)
        if num_fresh < plan.min_samples or moment - state.entered_at < timedelta(seconds=plan.min_seconds):
            return state
        if state.step + 1 < len(plan.shares):
            share = plan.shares[state.step + 1]
            why = f"{num_fresh} samples at {state.share:.0%}, no guardrail breached: on to {share:.0%}"
            return state.moved("canary", moment, why, step=state.step + 1)
        if all(_is_kept(each, state) for each in plan.guardrails):
            return state.moved("full", moment, f"{num_fresh} samples at {state.share:.0%}, all guardrails kept")
        return state

    def _save(self, state: State, version: int, author: str = AUTHOR) -> State:
        """Writes the state and what it means for the parameter, together or not at all."""
        before = self._load()
        stood = before[0].stage if before else "proposed"
        with self._store.transaction(state.why, author=author) as changes:
            changes.set(state_key(self._key), state.to_data(), expected_version=version)
            if state.stage == "full" and stood != "full":
                changes.set(self._key, state.value, expected_version=state.baseline_version)
            elif state.stage == "rolled_back" and stood == "full":
                changes.rollback(self._key, state.baseline_version)
        return state

    def _take(self, state: State, fresh: dict[tuple[str, str], Moments], record: Feedback) -> bool:
        guarded = {each.metric for each in state.plan.guardrails}
        if state.stage not in ("canary", "full") or record.metric not in guarded:
            return False
        told = (record.meta or {}).get("arm")
        served = told or (CANDIDATE if self._is_treated(state, record.entity) else BASELINE)
        if served not in (BASELINE, CANDIDATE):
            raise errors.SetupError(f"arm={told!r}: an arm is {BASELINE} or {CANDIDATE}.")
        fresh.setdefault((record.metric, served), Moments()).add(record.value)
        return True

    def _is_treated(self, state: State, entity: str) -> bool:
        return is_treated(state.salt, self._key, entity, state.share)

    def _check_free(self, state: State, moment: datetime) -> None:
        if not state.is_settled:
            raise errors.Conflict(f"A rollout of {self._key} is under way: it is {state.stage}. Abort it first.")
        free_at = state.entered_at + timedelta(seconds=state.plan.cooldown_seconds)
        if state.stage == "rolled_back" and moment < free_at:
            raise errors.Conflict(
                f"The last rollout of {self._key} was rolled back; the next may begin at {free_at:%Y-%m-%d %H:%M} UTC."
            )

    def _load(self) -> tuple[State, int] | None:
        try:
            found = self._store.get(state_key(self._key))
        except errors.NotFound:
            return None
        return State.from_data(found.value), found.version

    def _need(self) -> tuple[State, int]:
        found = self._load()
        if found is None:
            raise errors.NotFound(f"There is no rollout of {self._key}: start one.")
        return found


def _is_kept(guardrail: Guardrail, state: State) -> bool:
    return guardrail.is_kept(state.evidence(guardrail.metric).interval)


def _shown(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
