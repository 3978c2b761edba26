"""Reflectors: what learns from replayed decisions."""

from atoll.governed.reflectors.aggregator import AggregatorReflector, Stats
from atoll.governed.reflectors.func import FuncReflector
from atoll.governed.reflectors.sketch import QuantileSketch

__all__ = ["AggregatorReflector", "FuncReflector", "QuantileSketch", "Stats"]
