"""Reflectors: what learns from replayed decisions."""

from atoll.governed.reflectors.aggregator import Aggregator, Stats
from atoll.governed.reflectors.func import FuncReflector
from atoll.governed.reflectors.sketch import Sketch

__all__ = ["Aggregator", "FuncReflector", "Sketch", "Stats"]
