"""The governed system by what somebody typed: places become logs, channels, stores; texts become values and plans."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from atoll import errors, store
from atoll.config import parameters as places
from atoll.governed import (
    evaluators,
    evolver,
    feedback,
    journals,
    logs,
    ope,
    parameters,
    reflectors,
    replay,
    rollout,
    shadow,
)
from atoll.governed.logs.issues import Policy
from atoll.runs import lookup

RUN = "run:"
SHADOWS = "shadow/"  # before the key of a parameter: the newest shadow run of it that was kept
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(said: str) -> float:
    """Reads `7d`, `12h`, `30m` or `90s`.

    Raises:
        SetupError: It is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", said.strip())
    if not found:
        raise errors.SetupError(f"{said!r} is no time: write 7d, 12h, 30m or 90s.")
    return float(found[1]) * UNITS[found[2]]


def moment(said: str) -> datetime:
    """Reads a day or a moment, in UTC where no zone is named.

    Raises:
        SetupError: It is none.
    """
    try:
        found = datetime.fromisoformat(said)
    except ValueError as error:
        raise errors.SetupError(f"{said!r} is no moment: write 2026-04-18 or 2026-04-18T12:00Z.") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def value(said: str) -> Any:
    """Reads JSON; what is none is a text."""
    try:
        return json.loads(said)
    except ValueError:
        return said


def guardrail(said: str) -> shadow.Guardrail:
    """Reads `METRIC`, `METRIC:MARGIN` or `METRIC:MARGIN:lower`.

    Raises:
        SetupError: It is none of these.
    """
    metric, *rest = said.split(":")
    try:
        margin = float(rest[0]) if rest else 0.0
    except ValueError:
        margin = -1.0
    if not metric or margin < 0 or rest[1:] not in ([], ["lower"], ["higher"]):
        raise errors.SetupError(f"{said!r} is no guardrail: write METRIC:MARGIN, or METRIC:MARGIN:lower for costs.")
    return shadow.Guardrail(metric, margin, lower_is_better=rest[1:] == ["lower"])


def shares(said: str) -> Sequence[float]:
    """Reads `0.01,0.05,0.25`.

    Raises:
        SetupError: It is no list of numbers.
    """
    try:
        return tuple(float(each) for each in said.split(","))
    except ValueError as error:
        raise errors.SetupError(f"{said!r} is no list of shares: write 0.01,0.05,0.25.") from error


def open_parameters(where: str) -> parameters.Parameters:
    """Opens the parameters in a folder of files, or in a store.

    Raises:
        SetupError: There are none.
    """
    return places.open(where)


class Place:
    """Logs and feedback that were opened together, and the stores to be closed with them."""

    def __init__(self, log: str, channel: str | None, *, kept: str, on_issue: Policy, by: str) -> None:
        self._open: list[store.Store] = []
        self.is_run = log.startswith(RUN)
        if self.is_run:
            self.log, self.channel = self._journal(log.removeprefix(RUN), kept, by)
            return
        self.log = logs.FileLog(_there(log), on_issue=on_issue) if Path(log).is_dir() else self._stored(log)
        self.channel = self._channel(channel, on_issue)

    log: logs.LogSource
    channel: feedback.FeedbackChannel

    def _journal(self, name: str, kept: str, by: str) -> tuple[logs.LogSource, feedback.FeedbackChannel]:
        opened = self._store(kept)
        run = lookup.find(opened, name or lookup.LATEST)
        made = journals.JournalLog(opened.journal(run), run, opened.run(run).created_at, by=by)
        return made, made

    def _stored(self, where: str) -> logs.LogSource:
        return logs.StoredLog(self._store(where))

    def _channel(self, where: str | None, on_issue: Policy) -> feedback.FeedbackChannel:
        if where is None:
            return feedback.MemoryFeedback()
        if Path(where).is_dir():
            return feedback.FileFeedback(_there(where), on_issue=on_issue)
        return feedback.StoredFeedback(self._store(where))

    def _store(self, where: str) -> store.Store:
        self._open.append(store.Store(_there(where)))
        return self._open[-1]

    def close(self) -> None:
        for each in self._open:
            each.close()


def _there(where: str) -> str:
    if not Path(where.removeprefix("sqlite:///")).exists():
        raise errors.SetupError(f"There is no {where}: give a folder of day files, a store, or {RUN}RUN.")
    return where


def replayed(
    place: Place,
    since: datetime,
    until: datetime,
    *,
    window: timedelta,
    attribution: str,
    checkpoint: Path | None,
    collector: ope.Collector | None = None,
) -> tuple[replay.Report, reflectors.Aggregator]:
    """Replays a log and returns the report and the statistics.

    Raises:
        SetupError: There is no such attribution.
    """
    if attribution not in replay.ATTRIBUTIONS:
        raise errors.SetupError(
            f"There is no attribution {attribution!r}: choose one of {', '.join(replay.ATTRIBUTIONS)}."
        )
    replayer = replay.Replayer(place.log, place.channel, window=window, attribution=replay.ATTRIBUTIONS[attribution])
    aggregator = reflectors.Aggregator()
    replayer.register(aggregator)
    if collector is not None:
        replayer.register(collector)
    return replayer.replay(since, until, checkpoint_path=checkpoint), aggregator


def statistics(aggregator: reflectors.Aggregator) -> Sequence[Mapping[str, Any]]:
    """Returns all statistics as plain rows, by entity and metric."""
    rows = []
    for entity in aggregator.entities():
        for metric in (*aggregator.metrics(entity), ""):
            found = asdict(aggregator.stats(entity, metric))
            last = found.pop("last_timestamp")
            if metric or found["pending_count"]:
                rows.append({"entity": entity, "metric": metric, **found, "last": last and last.isoformat()})
    return rows


def collector(metric: str, policy: str) -> ope.Collector:
    """Makes a collector for a policy that takes each action with a fixed probability.

    Raises:
        SetupError: The policy is no JSON object of probabilities.
    """
    chances = value(policy)
    if not isinstance(chances, dict) or not all(isinstance(each, int | float) for each in chances.values()):
        raise errors.SetupError(f'{policy!r} is no policy: write {{"action": probability, ...}}.')
    return ope.Collector(metric, lambda entry: chances)


def estimates(collected: ope.Collector) -> Sequence[Mapping[str, Any]]:
    """Returns what every estimator says, as plain rows; all but the naive one need overlap.

    Raises:
        SetupError: No decision has all that is needed.
        TooFar: The log says nothing about the policy.
    """
    logged = collected.logged()
    found = [ope.estimate(logged, method) for method in ope.METHODS]
    return [
        {"estimator": each.method, "value": each.value, "interval": each.interval, **each.diagnostics._asdict()}
        for each in found
    ]


def approved(
    kept: parameters.Parameters, key: str, candidate: Any, *, author: str, by: str, reason: str
) -> tuple[evolver.Change, evolver.Approval]:
    """Makes a proposal with its approval, for who decides on the spot."""
    version = kept.get(key).version
    proposal = evolver.Change(f"{key}@{version}+{author}", key, candidate, author, version)
    return proposal, evolver.Approval.of(proposal, is_approved=True, by=by, reason=reason)


def rollouts(kept: parameters.Parameters) -> Sequence[rollout.State]:
    """Returns where all rollouts stand, by key."""
    keys = [key.removeprefix(rollout.STATE_PREFIX) for key in kept.list(rollout.STATE_PREFIX)]
    return [state for key in keys if (state := rollout.Rollout(kept, key).state())]


def told(state: rollout.State) -> Mapping[str, Any]:
    """Returns where a rollout stands as plain data, with what is known of its guardrails."""
    guarded = {each.metric: _guarded(each, state) for each in state.plan.guardrails}
    return {**state.to_data(), "share": state.share, "guarded": guarded}


def _guarded(guardrail: shadow.Guardrail, state: rollout.State) -> Mapping[str, Any]:
    found = state.evidence(guardrail.metric)
    return {
        "margin": guardrail.margin,
        "estimate": found.estimate,
        "interval": [None if abs(end) == float("inf") else end for end in found.interval],
        "baseline": state.moments(guardrail.metric, "baseline").count,
        "candidate": state.moments(guardrail.metric, "candidate").count,
    }


class Terms(NamedTuple):
    """On what terms a shadow run is judged."""

    min_effect: float
    guardrails: Sequence[shadow.Guardrail]
    alpha: float


def shadowed(
    kept: parameters.Parameters, key: str, candidate: Any, functions: Sequence[Any], traffic: float, terms: Terms
) -> shadow.ShadowResult:
    """Runs a shadow with somebody's functions: `samples()`, `apply(candidate, value)` and `score(candidate)`."""
    samples, apply, score = functions
    runner = shadow.ShadowRunner(
        kept,
        evaluators.FuncEvaluator(score),
        shadow.Fixed(list(samples())),
        apply,
        min_effect=terms.min_effect,
        guardrails=terms.guardrails,
        alpha=terms.alpha,
    )
    return runner.run_shadow(key, candidate, traffic)


def check_rollout(kept: parameters.Parameters, key: str, candidate: Any) -> None:
    """Looks whether the rollout of a key waits for a shadow run of a value.

    Raises:
        SetupError: It does not, or of another value.
    """
    state = rollout.Rollout(kept, key).state()
    if state is None or state.stage not in ("proposed", "shadow"):
        raise errors.SetupError(f"No rollout of {key} waits for a shadow run: 'atoll rollout start' begins one.")
    if state.value != candidate:
        raise errors.SetupError(f"The rollout of {key} is of {json.dumps(state.value)}: run the shadow of that value.")


def after_shadow(kept: parameters.Parameters, key: str, result: shadow.ShadowResult) -> rollout.State:
    """Lets the rollout of a key go on after a shadow run."""
    return rollout.Rollout(kept, key).take_shadow(result)


def keep_shadow(kept: parameters.Parameters, key: str, candidate: Any, result: shadow.ShadowResult, by: str) -> None:
    """Keeps what a shadow run found, for whoever decides later and for the audit log."""
    said = f"{result.verdict}: {result.reason}"
    kept.set(SHADOWS + key, {"value": candidate, **result.to_data()}, said, author=by)


def shadows(kept: parameters.Parameters) -> Sequence[Mapping[str, Any]]:
    """Returns the newest shadow run of every parameter of which one was kept."""
    found = []
    for key in kept.list(SHADOWS):
        (change,) = kept.history(key, 1)
        told = {"key": key.removeprefix(SHADOWS), "at": change.timestamp.isoformat(), "by": change.author}
        found.append({**told, **change.value})
    return found


def start_rollout(
    kept: parameters.Parameters, key: str, candidate: Any, plan: Mapping[str, Any], *, author: str, by: str, reason: str
) -> rollout.State:
    """Begins the rollout of a value that somebody approves on the spot."""
    proposal, approval = approved(kept, key, candidate, author=author, by=by, reason=reason)
    return rollout.Rollout(kept, key).start(proposal, approval, rollout.Plan(**plan))


def tick(kept: parameters.Parameters, key: str, channel: str | None) -> rollout.State:
    """Lets a rollout look at its measurements, and at what was reported to a channel since the last look."""
    if channel is None:
        return rollout.Rollout(kept, key).tick()
    if Path(channel).is_dir():
        return rollout.Rollout(kept, key).tick(feedback.FileFeedback(_there(channel)))
    with store.Store(_there(channel)) as opened:
        return rollout.Rollout(kept, key).tick(feedback.StoredFeedback(opened))


def serve(kept: parameters.Parameters, key: str, entity: str) -> rollout.Served:
    return rollout.Rollout(kept, key).value_for(entity)


def abort(kept: parameters.Parameters, key: str, *, reason: str, author: str) -> rollout.State:
    return rollout.Rollout(kept, key).abort(reason, author=author)
