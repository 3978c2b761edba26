"""Dashboard Presenter: every turn as an event, its notifications, and the changes since the last turn."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from atoll import profiler
from atoll.candidate import JSON
from atoll.survival.agent_state import AgentState
from atoll.survival.plan import LoopSnapshot
from atoll.survival.worlds.world import Cell, Observation

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


MAX_NEW_ENTRIES = 64  # log entries per turn


@runtime_checkable
class LogsRequests(Protocol):
    """World that logs the requests to its playground.

    Attributes:
        requests: Requests and their results, the newest last.
    """

    requests: Sequence[Mapping[str, JSON]]


class StateChanges:
    """Collects the changes of an episode turn by turn. Their sum is the full state at any turn.

    Args:
        is_shared: Whether playground requests may be shown.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        self._tiles: dict[Cell, str] = {}
        self._fears: dict[str, float] = {}
        self._discoveries: list[str] = []
        self._notes: list[str] | None = None
        self._num_requests = 0

    def collect(self, agent: AgentState, observation: Observation, score: float) -> dict[str, JSON]:
        view: dict[str, JSON] = {"score": round(score, 4), "edge": len(agent.world_map.frontier)}
        view["unknown"] = _get_unknown_share(agent)
        changes: dict[str, JSON] = {
            "cells": self._new_cells(agent),
            "fears": self._new_fears(agent),
            "explored": self._new_discoveries(agent),
            "notes": self._first_notes(agent),
            "requests": self._new_requests(agent),
        }
        return view | {name: value for name, value in changes.items() if value}

    def _new_cells(self, agent: AgentState) -> list[JSON]:
        changed = {cell: tile for cell, tile in agent.world_map.tiles.items() if self._tiles.get(cell) != tile}
        self._tiles |= changed
        return [[x, y, tile] for (x, y), tile in changed.items()]

    def _new_fears(self, agent: AgentState) -> dict[str, JSON]:
        tile_stats = agent.beliefs.tile_stats
        risks = {tile: round(agent.beliefs.get_risk(tile, 0.0), 3) for tile, stats in tile_stats.items() if stats.hurt}
        changed = {tile: risk for tile, risk in risks.items() if self._fears.get(tile) != risk}
        self._fears |= changed
        return dict(changed)

    def _new_discoveries(self, agent: AgentState) -> list[JSON]:
        known_entries = set(self._discoveries)
        self._discoveries = list(agent.memory.discoveries)
        return [entry for entry in self._discoveries if entry not in known_entries]

    def _first_notes(self, agent: AgentState) -> list[JSON]:
        if self._notes is not None:
            return []
        self._notes = list(agent.memory.notes)
        return list(self._notes)

    def _new_requests(self, agent: AgentState) -> list[JSON]:
        if not self._is_shared or not isinstance(agent.world, LogsRequests):
            return []
        requests = agent.world.requests
        new_requests = requests[min(self._num_requests, len(requests)) :][-MAX_NEW_ENTRIES:]
        self._num_requests = len(requests)
        return [dict(request) for request in new_requests]


def _get_unknown_share(agent: AgentState) -> JSON:
    """Returns the share of unseen cells; None if the world is unbounded."""
    world = agent.world
    if not world.num_cells:
        return None
    return round(1.0 - sum(map(world.is_inside, agent.world_map.tiles)) / world.num_cells, 4)
