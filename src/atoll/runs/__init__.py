"""Runs: to start and resume one, to find one, to sum it up, compare and export it."""

from atoll.runs.coordinator import Coordinator, join
from atoll.runs.limits import further
from atoll.runs.lookup import find
from atoll.runs.place import Allowed
from atoll.runs.session import MakeLLM, Session, make_llm, resume
from atoll.runs.summary import Summary, Totals, summarise, totals

__all__ = [
    "Allowed",
    "Coordinator",
    "MakeLLM",
    "Session",
    "Summary",
    "Totals",
    "find",
    "further",
    "join",
    "make_llm",
    "resume",
    "summarise",
    "totals",
]
