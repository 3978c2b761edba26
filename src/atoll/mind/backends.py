"""Two kinds of worldline behind one protocol: a text costs nothing to fork, a workspace is a git worktree."""

import difflib
from dataclasses import replace
from typing import Protocol

from atoll.mind import actions
from atoll.mind.actions import Action, Result
from atoll.mind.worldline import Plan, Worldline


class WorldlineBackend(Protocol):
    """Makes worldlines real: forks, carries out, compares and clears away.

    Called from several worker threads at once. What a plan does wrong is data in the worldline's tool history, never
    an exception; a machine that cannot do it at all raises a SetupError that says what to do. Nothing that a worldline
    does is seen by its base before somebody has approved it.
    """

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        """Returns a new worldline that stands where its parent stands; nothing of the plan was done yet."""

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        """Does the plan's actions in order and returns where they led; the first that fails ends them."""

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        """Says in a unified diff how a worldline differs from another."""

    def compute_divergence(self, worldline: Worldline, base: Worldline) -> float:
        """Returns how far they are apart, in code, memory and actions: 0 (the same) to 1."""

    def archive(self, worldline: Worldline) -> Worldline:
        """Gives back what it holds beside its record: it can be looked at and forked again, and costs nothing."""

    def close(self) -> None:
        """Archives all that is still held; called once, when the run is over."""


class TextBackend:
    """Worldlines that are their decision trace and nothing else."""

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
    """Returns an action in one line, for people."""
    values = (getattr(action, name) for name in action.__slots__)
    texts = (" ".join(value) if isinstance(value, tuple) else value for value in values)
    return " | ".join((actions.ACTION_NAMES[type(action)], *texts)).replace("\n", " ")


def format_trace(trace: tuple[Action, ...]) -> list[str]:
    return [format_action(action) for action in trace]


def compute_distance(first: list[str], second: list[str]) -> float:
    """Returns how much of two sequences is not in common: 0 (equal) to 1 (nothing is)."""
    if not first and not second:
        return 0.0
    return 1.0 - difflib.SequenceMatcher(a=first, b=second, autojunk=False).ratio()


def compute_set_distance(first: set[str], second: set[str]) -> float:
    """Returns the share of two sets that only one of them has."""
    return len(first ^ second) / len(first | second) if first | second else 0.0
