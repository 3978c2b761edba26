"""Recombination and mutation of decision traces: what needs no model.

A critic without words points at the actions that the judge found fault with, and an author changes one of them.
"""

from collections.abc import Collection, Sequence
from random import Random

from atoll.mind.actions import Action, Task

type Trace = tuple[Action, ...]

POINTED = 0.8  # how often a change begins at an action that something is wrong with


def random_trace(moves: Sequence[Action], rng: Random) -> Trace:
    """Returns all moves in a random order."""
    return tuple(rng.sample(list(moves), len(moves)))


def recombination(one: Trace, other: Trace, rng: Random) -> Trace:
    """Returns a part of one trace inside another, where it stood; what it repeats of the other is left out."""
    if len(other) < 2:
        return one or other
    first, last = sorted(rng.sample(range(len(other) + 1), 2))
    part = other[first:last]
    rest = [each for each in one if each not in part]
    at = min(first, len(rest))
    return (*rest[:at], *part, *rest[at:])


def mutation(
    trace: Trace, moves: Sequence[Action], rng: Random, named: Collection[str] = (), *, uses_all: bool = False
) -> Trace:
    """Returns a trace with one change, mostly at an action that something is wrong with.

    Args:
        trace: What is changed.
        moves: All that a trace may hold.
        rng: Draws the change.
        named: Goals of actions that a judge found fault with.
        uses_all: Every move must be in it, so none is dropped or replaced.
    """
    unused = [each for each in moves if each not in trace]
    if unused and (uses_all or not trace or rng.random() < len(unused) / len(moves)):
        return _inserted(trace, rng.choice(unused), rng)
    at = _pointed(trace, named, rng)
    kinds = ["move", "swap", "reverse"] if len(trace) > 1 else []
    kinds += ["drop"] * (len(trace) > 1 and not uses_all) + ["replace"] * bool(unused and not uses_all)
    match rng.choice(kinds or ["none"]):
        case "move":
            return _inserted((*trace[:at], *trace[at + 1 :]), trace[at], rng)
        case "swap":
            to = _another(len(trace), at, rng)
            changed = list(trace)
            changed[at], changed[to] = changed[to], changed[at]
            return tuple(changed)
        case "reverse":
            first, last = sorted((at, _another(len(trace), at, rng)))
            return (*trace[:first], *reversed(trace[first : last + 1]), *trace[last + 1 :])
        case "drop":
            return (*trace[:at], *trace[at + 1 :])
        case "replace":
            return (*trace[:at], rng.choice(unused), *trace[at + 1 :])
        case _:
            return trace


def named_in(said: str, trace: Trace) -> set[str]:
    """Returns the goals of a trace that a text names: what a judge finds fault with."""
    return {each.goal for each in trace if isinstance(each, Task) and each.goal in said}


def _pointed(trace: Trace, named: Collection[str], rng: Random) -> int:
    """Returns the place of an action that something is wrong with, or of any."""
    wrong = [place for place, each in enumerate(trace) if isinstance(each, Task) and each.goal in named]
    return rng.choice(wrong) if wrong and rng.random() < POINTED else rng.randrange(len(trace))


def _another(length: int, at: int, rng: Random) -> int:
    place = rng.randrange(length - 1)
    return place + (place >= at)


def _inserted(trace: Trace, action: Action, rng: Random) -> Trace:
    at = rng.randrange(len(trace) + 1)
    return (*trace[:at], action, *trace[at:])
