"""Dashboard Presenter: hands every turn to whoever watches, as an event, and says what they should be notified of."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from atoll import profiler
from atoll.candidate import JSON
from atoll.survival.plan import LoopSnapshot
from atoll.survival.worlds.world import Observation

LOW_LIFE, LIKELY = 0.3, 0.5  # a life in danger of ending: little is left, and damage is likely
ALARMS = {"emergency": "emergency", "blocked": "rule", "warned": "rule", "fallback": "rule"}
NEWS = {"aborted": "stopped", "steered": "steered"}


class OnTurn(NamedTuple):
    """A turn of a life is over."""

    type: Literal["on_turn"]
    payload: LoopSnapshot


class OnLifeEnded(NamedTuple):
    """A life is over; the payload sums it up."""

    type: Literal["on_life_ended"]
    payload: dict[str, object]


type LifeEvent = OnTurn | OnLifeEnded


def notices(
    level: str,
    seen: Observation,
    forecast: float,
    threshold: float,
    events: Sequence[Mapping[str, JSON]],
    warnings: Sequence[str],
) -> Iterator[Mapping[str, JSON]]:
    """Yields what a watcher is notified of: alerts, and with `all` also what is merely worth knowing."""
    if level == "off":
        return
    if seen.cause is not None:
        yield {"kind": "death", "text": f"died of {seen.cause} at tick {seen.tick}"}
    elif seen.life <= LOW_LIFE and forecast >= LIKELY:
        yield {"kind": "lethal", "text": f"life is {seen.life:.2f} and damage is likely, {forecast:.2f}"}
    if forecast > threshold:
        yield {"kind": "threshold", "text": f"danger of {forecast:.2f} is over the threshold of {threshold:.2f}"}
    for event in events:
        if kind := ALARMS.get(str(event["kind"])):
            yield {"kind": kind, "text": f"{event.get('action', event['kind'])}: {event.get('reason', '')}"[:300]}
    if level == "all":
        yield from ({"kind": "balance", "text": each} for each in warnings)
        for event in events:
            if kind := NEWS.get(str(event["kind"])):
                said = ", ".join(f"{name} {value}" for name, value in event.items() if name not in ("kind", "tick"))
                yield {"kind": kind, "text": said[:300]}


class Presenter:
    """Tells profilers of turns and lives; they observe and change nothing."""

    def __init__(self) -> None:
        self._profilers = profiler.Profilers[LifeEvent]()

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[LifeEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    @property
    def is_watched(self) -> bool:
        return bool(self._profilers)

    def show(self, snapshot: LoopSnapshot) -> None:
        self._profilers.emit(OnTurn("on_turn", snapshot))

    def end(self, summary: dict[str, object]) -> None:
        self._profilers.emit(OnLifeEnded("on_life_ended", summary))
