"""Dashboard Presenter: publishes every turn as an event and chooses the notifications."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from atoll import profiler
from atoll.candidate import JSON
from atoll.survival.plan import LoopSnapshot
from atoll.survival.worlds.world import Observation

LOW_LIFE, LIKELY_DAMAGE = 0.3, 0.5  # below this life, damage above this probability is a lethal danger
ALERT_KINDS = {"emergency": "emergency", "blocked": "rule", "warned": "rule", "fallback": "rule"}
INFO_KINDS = {"aborted": "stopped", "steered": "steered"}


class OnTurn(NamedTuple):
    """A turn has ended."""

    type: Literal["on_turn"]
    payload: LoopSnapshot


class OnEpisodeEnded(NamedTuple):
    """An episode has ended. The payload is its summary."""

    type: Literal["on_life_ended"]
    payload: dict[str, object]


type EpisodeEvent = OnTurn | OnEpisodeEnded


def iter_notices(
    level: str,
    observation: Observation,
    forecast: float,
    threshold: float,
    events: Sequence[Mapping[str, JSON]],
    warnings: Sequence[str],
) -> Iterator[Mapping[str, JSON]]:
    """Yields notifications: alerts, and with `all` also minor events."""
    if level == "off":
        return
    if observation.cause is not None:
        yield {"kind": "death", "text": f"died of {observation.cause} at tick {observation.tick}"}
    elif observation.life <= LOW_LIFE and forecast >= LIKELY_DAMAGE:
        yield {"kind": "lethal", "text": f"life is {observation.life:.2f} and damage is likely, {forecast:.2f}"}
    if forecast > threshold:
        yield {"kind": "threshold", "text": f"danger {forecast:.2f} is above the threshold {threshold:.2f}"}
    for event in events:
        if kind := ALERT_KINDS.get(str(event["kind"])):
            yield {"kind": kind, "text": f"{event.get('action', event['kind'])}: {event.get('reason', '')}"[:300]}
    if level == "all":
        yield from ({"kind": "balance", "text": warning} for warning in warnings)
        for event in events:
            if kind := INFO_KINDS.get(str(event["kind"])):
                details = ", ".join(f"{name} {value}" for name, value in event.items() if name not in ("kind", "tick"))
                yield {"kind": kind, "text": details[:300]}


class Presenter:
    def __init__(self) -> None:
        self._profilers = profiler.Profilers[EpisodeEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[EpisodeEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    @property
    def is_watched(self) -> bool:
        return bool(self._profilers)

    def publish_turn(self, snapshot: LoopSnapshot) -> None:
        self._profilers.emit(OnTurn("on_turn", snapshot))

    def publish_end(self, summary: dict[str, object]) -> None:
        self._profilers.emit(OnEpisodeEnded("on_life_ended", summary))
