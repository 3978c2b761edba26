"""Runs: to start and resume one, to find one, to sum it up, compare and export it."""

from atoll.runs.coordinator import Coordinator, join
from atoll.runs.executor_config import UnsafeOptions
from atoll.runs.limits import extend_budget
from atoll.runs.run_llm import LLMFactory, make_llm
from atoll.runs.session import Session, resume
from atoll.runs.summary import Summary, Totals, compute_totals, find_run, summarize

__all__ = [
    "Coordinator",
    "LLMFactory",
    "Session",
    "Summary",
    "Totals",
    "UnsafeOptions",
    "compute_totals",
    "extend_budget",
    "find_run",
    "join",
    "make_llm",
    "resume",
    "summarize",
]
