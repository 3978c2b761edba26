"""Runs: to start and resume one, to find one, to sum it up, compare and export it."""

from atoll.runs.coordinator import Coordinator, join
from atoll.runs.executor_config import UnsafeOptions
from atoll.runs.resume_checks import extend_budget
from atoll.runs.session import LLMFactory, Session, make_llm, resume
from atoll.runs.summary import Summary, Totals, compute_totals, find_run, summarize

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
