"""Replay: logged decisions, paired with what came of them, told to reflectors."""

from atoll.governed.replay.attribution import (
    ATTRIBUTIONS,
    Attribution,
    Decayed,
    by_decision,
    every_touch,
    first_touch,
    last_touch,
    mean_touch,
)
from atoll.governed.replay.event import Reflector, ReplayEvent, Stateful
from atoll.governed.replay.history import History
from atoll.governed.replay.replayer import EntryFilter, LogReplayer
from atoll.governed.replay.report import ReplayReport

__all__ = [
    "ATTRIBUTIONS",
    "Attribution",
    "Decayed",
    "EntryFilter",
    "History",
    "Reflector",
    "ReplayEvent",
    "LogReplayer",
    "ReplayReport",
    "Stateful",
    "by_decision",
    "every_touch",
    "first_touch",
    "last_touch",
    "mean_touch",
]
