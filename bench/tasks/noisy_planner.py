"""Scripted LLM that plans badly and repairs named errors with a fixed probability. It reads only the prompt.

It parses the task, the plans and the feedback from the prompt. It never sees a solution and calls no evaluator.

- Without a plan in the prompt it writes a random one.
- With the critic's instructions to compare, it takes the plan with the best shown score; otherwise any plan.
- With probability p it repairs one error that the feedback names. Otherwise, or without a named error, it makes a
  random change.
"""

import functools
import re
from random import Random

from atoll import llm
from atoll.evaluation import Cost
from atoll.journal import CallCache
from atoll.mind import actions, prompts, trace_mutator
from atoll.mind.tasks import meeting, trip

# US$ per million tokens in and out: Gemini 1.5 Flash, October 2024, as in the paper's tables.
PRICE_IN, PRICE_OUT = 0.075, 0.30

_PLAN = re.compile(
    r"## Plan \d+, score (\S+)\n<plan>\n(.*?)\n</plan>(?:\nFeedback:\n(.*?))?(?=\n\n## Plan |\Z)", re.DOTALL
)
_DATE = re.compile(r"You must be in (.+?) from day (\d+) to day (\d+)")
_FLIGHT = re.compile(r"no direct flight from (.+?) to (.+?)\.$")
_MISSING = re.compile(r"^- (.+?) is not visited")
_WRONG = re.compile(r"^- (?:You cannot meet (\w+) at|(\w+) is (?:there|at|met)|(\w+) wants)")
_UNMET = re.compile(r"^Not met: (.+)\.$")


@functools.cache
def read(text: str) -> trip.Trip | meeting.Day:
    """Parses a task from its text."""
    return trip.from_text("", text) if "European cities" in text else meeting.from_text("", text)


class NoisyPlanner:
    """LLM with one random draw per position (iteration, call), so that timing has no effect."""

    def __init__(self, p: float, seed: int = 0) -> None:
        self.p, self.seed = p, seed

    def __call__(self, prompt: str) -> llm.Response:
        ledger = CallCache.current.get()
        rng = Random(f"{self.seed}/{ledger.position if ledger else 0}/{self.p}")
        message = self._answer(prompt, rng)
        tokens = len(prompt) // 4, len(message) // 4
        usd = (tokens[0] * PRICE_IN + tokens[1] * PRICE_OUT) / 1e6
        return llm.Response(message, "noisy planner", Cost(0.0, *tokens, usd))

    def _answer(self, prompt: str, rng: Random) -> str:
        problem = read(prompt.partition("# Task\n")[2].partition("\n\n# Score\n")[0])
        section = prompt.partition("# Plans so far, the best last\n")[2].partition("\n\n# ")[0]
        displayed = _PLAN.findall(section)
        if not displayed:
            return f"<plan>\n{problem.format_plan(trace_mutator.random_trace(problem.moves, rng))}\n</plan>"
        is_compared = prompts.CRITIC_REQUEST in prompt
        _, plan, evaluated = max(displayed, key=lambda item: float(item[0])) if is_compared else rng.choice(displayed)
        faults = [line for line in evaluated.splitlines() if is_fault(line)]
        fault = rng.choice(faults) if faults and rng.random() < self.p else ""
        trace = problem.parse_trace(plan)
        created = mended(problem, trace, fault, rng) if fault else changed(problem, trace, rng)
        critique = f"<critic>\n{fault or '- Something should be changed.'}\n</critic>\n" if is_compared else ""
        return f"{critique}<plan>\n{problem.format_plan(created)}\n</plan>"


def is_fault(line: str) -> bool:
    return line.startswith("- ") or bool(_UNMET.match(line))


def mended(
    problem: trip.Trip | meeting.Day, trace: trace_mutator.Trace, fault: str, rng: Random
) -> trace_mutator.Trace:
    """Changes a plan so that one error is gone, whatever the effect on the rest."""
    goals = [item.goal for item in trace if isinstance(item, actions.Task)]
    if isinstance(problem, trip.Trip):
        goals = mend_trip(problem, goals, fault, rng)
        return tuple(actions.Task(trip.VISIT, goal) for goal in goals)
    if unmet := _UNMET.match(fault):
        name = rng.choice(unmet[1].split(", "))
        rest = [goal for goal in goals if goal != name]
        goals = inserted(rest, name, rng.randrange(len(rest) + 1))
    elif wrong := _WRONG.match(fault):
        goals.remove(next(group for group in wrong.groups() if group))
    return tuple(actions.Task(meeting.MEET, goal) for goal in goals) or trace


def mend_trip(problem: trip.Trip, goals: list[str], fault: str, rng: Random) -> list[str]:
    if dated := _DATE.search(fault):
        city, first = dated[1], int(dated[2])
        rest = [goal for goal in goals if goal != city]
        starts = [1 + sum(problem.days.get(item, 1) - 1 for item in rest[:index]) for index in range(len(rest) + 1)]
        return inserted(rest, city, min(range(len(starts)), key=lambda position: abs(starts[position] - first)))
    if flight := _FLIGHT.search(fault):
        one, other = flight[1], flight[2]
        linked = [goal for goal in goals if (one, goal) in problem.flights and goal != other]
        if one in goals and other in goals and linked:
            new = rng.choice(linked)
            return [new if goal == other else other if goal == new else goal for goal in goals]
    if missing := _MISSING.match(fault):
        return inserted(goals, missing[1], rng.randrange(len(goals) + 1))
    return goals


def inserted(goals: list[str], goal: str, position: int) -> list[str]:
    return [*goals[:position], goal, *goals[position:]]


def changed(problem: trip.Trip | meeting.Day, trace: trace_mutator.Trace, rng: Random) -> trace_mutator.Trace:
    """Makes a random change."""
    return trace_mutator.mutate_trace(trace, problem.moves, rng, requires_all_moves=problem.requires_all_moves)
