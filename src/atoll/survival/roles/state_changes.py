"""Changes of map, memory and playground since the last turn, for viewers."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from atoll.candidate import JSON
from atoll.survival.agent_state import AgentState
from atoll.survival.worlds.world import Cell, Observation

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
