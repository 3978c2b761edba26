"""Dashboard Presenter: hands every turn to whoever watches, as an event."""

from typing import Literal, NamedTuple

from atoll import profiler
from atoll.survival.plan import LoopSnapshot


class OnTurn(NamedTuple):
    """A turn of a life is over."""

    type: Literal["on_turn"]
    payload: LoopSnapshot


class OnLifeEnded(NamedTuple):
    """A life is over; the payload sums it up."""

    type: Literal["on_life_ended"]
    payload: dict[str, object]


type LifeEvent = OnTurn | OnLifeEnded


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
