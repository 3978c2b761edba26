"""Backends of worldlines. `TextBackend` keeps only text; a workspace backend uses git worktrees."""

import difflib
from dataclasses import replace
from typing import Protocol

from atoll.mind import actions
from atoll.mind.actions import Action, Result
from atoll.mind.worldline import Plan, Worldline


class WorldlineBackend(Protocol):
    """Forks, runs, compares and archives worldlines.

    Several worker threads call it at once. Errors of a plan are data in the tool history, not exceptions. If the
    machine lacks something, it raises a SetupError that says what to do. The base does not change before an approval.
    """

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        """Returns a new worldline with the state of its parent. The plan has not run yet."""

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        """Runs the actions of the plan in order, up to the first failure."""

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        """Returns a unified diff from the base to the worldline."""

    def compute_divergence(self, worldline: Worldline, base: Worldline) -> float:
        """Returns the distance in code, memory and actions: 0 (equal) to 1."""

    def archive(self, worldline: Worldline) -> Worldline:
        """Releases all resources but the record. The worldline can still be read and forked."""

    def close(self) -> None:
        """Archives all open worldlines. Called once, at the end of the run."""


class TextBackend:
    """Worldlines that consist of their decision trace only."""

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        refs = tuple(dict.fromkeys((*parent.memory_refs, *plan.memory_refs)))
        return Worldline(worldline_id, plan.parents or (parent.worldline_id,), memory_refs=refs)

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        results = tuple(Result(action) for action in plan.actions)
        trace = (*worldline.decision_trace, *plan.actions)
        history = (*worldline.tool_history, *results)
        return replace(worldline, decision_trace=trace, tool_history=history, status="ran")

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        before, after = format_trace(base.decision_trace), format_trace(worldline.decision_trace)
        return "\n".join(
            difflib.unified_diff(before, after, base.worldline_id, worldline.worldline_id, lineterm="", n=1)
        )

    def compute_divergence(self, worldline: Worldline, base: Worldline) -> float:
        trace_distance = compute_distance(format_trace(worldline.decision_trace), format_trace(base.decision_trace))
        memory_distance = compute_set_distance(set(worldline.memory_refs), set(base.memory_refs))
        return (
            (3 * trace_distance + memory_distance) / 4 if worldline.memory_refs or base.memory_refs else trace_distance
        )

    def archive(self, worldline: Worldline) -> Worldline:
        return worldline.with_status("archived")

    def close(self) -> None:
        pass


def format_action(action: Action) -> str:
    """Returns an action as one line of text."""
    values = (getattr(action, name) for name in action.__slots__)
    texts = (" ".join(value) if isinstance(value, tuple) else value for value in values)
    return " | ".join((actions.ACTION_NAMES[type(action)], *texts)).replace("\n", " ")


def format_trace(trace: tuple[Action, ...]) -> list[str]:
    return [format_action(action) for action in trace]


def compute_distance(first: list[str], second: list[str]) -> float:
    """Returns the share of two sequences that differs: 0 (equal) to 1."""
    if not first and not second:
        return 0.0
    return 1.0 - difflib.SequenceMatcher(a=first, b=second, autojunk=False).ratio()


def compute_set_distance(first: set[str], second: set[str]) -> float:
    """Returns the share of elements that are in only one of two sets."""
    return len(first ^ second) / len(first | second) if first | second else 0.0
