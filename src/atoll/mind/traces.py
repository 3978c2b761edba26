"""Recombination and mutation of decision traces: what needs no model.

A critic without words points at the actions that the judge found fault with, and an author changes one of them.
"""

from collections.abc import Collection, Sequence
from random import Random

from atoll.mind.actions import Action, Task

type Trace = tuple[Action, ...]

NAMED_RATE = 0.8  # how often a change begins at an action that something is wrong with


def random_trace(moves: Sequence[Action], rng: Random) -> Trace:
    """Returns all moves in a random order."""
    return tuple(rng.sample(list(moves), len(moves)))


def recombine_traces(base: Trace, donor: Trace, rng: Random) -> Trace:
    """Returns a part of one trace inside another, where it stood; what it repeats of the other is left out."""
    if len(donor) < 2:
        return base or donor
    first, last = sorted(rng.sample(range(len(donor) + 1), 2))
    segment = donor[first:last]
    remaining = [action for action in base if action not in segment]
    index = min(first, len(remaining))
    return (*remaining[:index], *segment, *remaining[index:])


def mutate_trace(
    trace: Trace, moves: Sequence[Action], rng: Random, named_goals: Collection[str] = (), *, requires_all_moves: bool = False
) -> Trace:
    """Returns a trace with one change, mostly at an action that something is wrong with.

    Args:
        trace: What is changed.
        moves: All that a trace may hold.
        rng: Draws the change.
        named: Goals of actions that a judge found fault with.
        uses_all: Every move must be in it, so none is dropped or replaced.
    """
    unused = [move for move in moves if move not in trace]
    if unused and (requires_all_moves or not trace or rng.random() < len(unused) / len(moves)):
        return _insert(trace, rng.choice(unused), rng)
    index = _choose_index(trace, named_goals, rng)
    operations = ["move", "swap", "reverse"] if len(trace) > 1 else []
    operations += ["drop"] * (len(trace) > 1 and not requires_all_moves) + ["replace"] * bool(unused and not requires_all_moves)
    match rng.choice(operations or ["none"]):
        case "move":
            return _insert((*trace[:index], *trace[index + 1 :]), trace[index], rng)
        case "swap":
            other_index = _choose_other_index(len(trace), index, rng)
            swapped = list(trace)
            swapped[index], swapped[other_index] = swapped[other_index], swapped[index]
            return tuple(swapped)
        case "reverse":
            first, last = sorted((index, _choose_other_index(len(trace), index, rng)))
            return (*trace[:first], *reversed(trace[first : last + 1]), *trace[last + 1 :])
        case "drop":
            return (*trace[:index], *trace[index + 1 :])
        case "replace":
            return (*trace[:index], rng.choice(unused), *trace[index + 1 :])
        case _:
            return trace


def find_named_goals(feedback: str, trace: Trace) -> set[str]:
    """Returns the goals of a trace that a text names: what a judge finds fault with."""
    return {action.goal for action in trace if isinstance(action, Task) and action.goal in feedback}


def _choose_index(trace: Trace, named_goals: Collection[str], rng: Random) -> int:
    """Returns the place of an action that something is wrong with, or of any."""
    named_indices = [index for index, action in enumerate(trace) if isinstance(action, Task) and action.goal in named_goals]
    return rng.choice(named_indices) if named_indices and rng.random() < NAMED_RATE else rng.randrange(len(trace))


def _choose_other_index(length: int, index: int, rng: Random) -> int:
    other_index = rng.randrange(length - 1)
    return other_index + (other_index >= index)


def _insert(trace: Trace, action: Action, rng: Random) -> Trace:
    index = rng.randrange(len(trace) + 1)
    return (*trace[:index], action, *trace[index:])
