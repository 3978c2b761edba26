"""What a watcher sees beside the numbers: what changed on the map, in memory and in the playground since last time."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from atoll.candidate import JSON
from atoll.survival.mind import Mind
from atoll.survival.worlds.world import Observation, Spot

MAX_NEWS = 64  # entries of a log that one turn tells


@runtime_checkable
class Sharing(Protocol):
    """A world that logs what was asked of its playground.

    Attributes:
        requests: Requests and answers, the newest last.
    """

    requests: Sequence[Mapping[str, JSON]]


class Sketch:
    """Draws one life, turn by turn; whoever adds the changes up has the whole picture at any turn.

    Args:
        is_shared: Whether what was asked of the playground may be shown.
    """

    def __init__(self, *, is_shared: bool = False) -> None:
        self._is_shared = is_shared
        self._cells: dict[Spot, str] = {}
        self._fears: dict[str, float] = {}
        self._explored: list[str] = []
        self._notes: list[str] | None = None
        self._num_requests = 0

    def draw(self, mind: Mind, seen: Observation, score: float) -> dict[str, JSON]:
        """Returns how a life stands, and what is new in it."""
        found: dict[str, JSON] = {"score": round(score, 4), "edge": len(mind.atlas.edge), "unknown": _unknown(mind)}
        news: dict[str, JSON] = {
            "cells": self._new_cells(mind),
            "fears": self._new_fears(mind),
            "explored": self._new_finds(mind),
            "notes": self._first_notes(mind),
            "requests": self._new_requests(mind),
        }
        return found | {name: each for name, each in news.items() if each}

    def _new_cells(self, mind: Mind) -> list[JSON]:
        fresh = {spot: look for spot, look in mind.atlas.looks.items() if self._cells.get(spot) != look}
        self._cells |= fresh
        return [[x, y, look] for (x, y), look in fresh.items()]

    def _new_fears(self, mind: Mind) -> dict[str, JSON]:
        facts = mind.lore.facts
        now = {look: round(mind.lore.risk(look, 0.0), 3) for look, fact in facts.items() if fact.hurt}
        fresh = {look: risk for look, risk in now.items() if self._fears.get(look) != risk}
        self._fears |= fresh
        return dict(fresh)

    def _new_finds(self, mind: Mind) -> list[JSON]:
        known = set(self._explored)
        self._explored = list(mind.memory.log)
        return [each for each in self._explored if each not in known]

    def _first_notes(self, mind: Mind) -> list[JSON]:
        if self._notes is not None:
            return []
        self._notes = list(mind.memory.notes)
        return list(self._notes)

    def _new_requests(self, mind: Mind) -> list[JSON]:
        if not self._is_shared or not isinstance(mind.world, Sharing):
            return []
        requests = mind.world.requests
        fresh = requests[min(self._num_requests, len(requests)) :][-MAX_NEWS:]
        self._num_requests = len(requests)
        return [dict(each) for each in fresh]


def _unknown(mind: Mind) -> JSON:
    """Returns the share of the cells that nobody has seen; None where a world has no end."""
    world = mind.world
    if not world.num_cells:
        return None
    return round(1.0 - sum(map(world.is_inside, mind.atlas.looks)) / world.num_cells, 4)
