"""Runs: to start and resume one, to find one, to sum it up, compare and export it."""

from atoll.runs.coordinator import Coordinator, join
from atoll.runs.limits import extend_budget
from atoll.runs.lookup import find_run
from atoll.runs.place import UnsafeOptions
from atoll.runs.session import LLMFactory, Session, make_llm, resume
from atoll.runs.summary import Summary, Totals, summarize, compute_totals

__all__ = [
    "UnsafeOptions",
    "Coordinator",
    "LLMFactory",
    "Session",
    "Summary",
    "Totals",
    "find_run",
    "extend_budget",
    "join",
    "make_llm",
    "resume",
    "summarize",
    "compute_totals",
]
