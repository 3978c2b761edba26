"""Edits that need no model: small swaps and the syntax engine's, at the lines that failing tests run through."""

import difflib
import math
from collections.abc import Iterator, Mapping
from random import Random

from atoll import function, mutation
from atoll.evaluation import Evaluation
from atoll.mind.actions import Edit
from atoll.mind.workspace import patches, swaps

_MOST_SWAPS = 400
_DRAFTS = 4  # of each edit that is kept: many are drawn twice, or change a line that no failing test runs through

# How many failing and passing tests run through each line of each file.
type Spectrum = Mapping[str, Mapping[int, tuple[int, int]]]


def suspicion(spectrum: Spectrum, num_failing: int) -> Mapping[str, Mapping[int, float]]:
    """Returns how likely each line is at fault, 0 to 1: Ochiai's measure, as in spectrum-based fault localisation."""
    return {
        path: {
            line: failing / math.sqrt(num_failing * (failing + passing))
            for line, (failing, passing) in lines.items()
            if failing
        }
        for path, lines in spectrum.items()
    }


def moves(
    files: Mapping[str, str], suspects: Mapping[str, Mapping[int, float]], seed: int, most: int
) -> tuple[Edit, ...]:
    """Returns single edits of Python files: small ones first, as most mistakes are, the most suspicious of them first.

    Args:
        files: Texts of the files that may change.
        suspects: How suspicious their lines are; files without any are left alone, unless there are none at all.
        seed: Draws the edits.
        most: How many of the syntax engine's; small swaps come besides.
    """
    named = {path: text for path, text in files.items() if suspects.get(path)} or files
    found: dict[Edit, tuple[bool, float]] = {}
    for path, text in sorted(named.items()):
        if path.endswith(".py") and mutation.can_rewrite(text):
            lines = suspects.get(path, {})
            small = [(False, each) for _, each in swaps.swaps(text)]
            number = most * _DRAFTS // len(named)
            large = ((True, each) for each in _drafts(text, Random(f"{seed}/{path}"), number))
            for is_large, after in (*small, *large):
                weight = _weight(text, after, lines) if suspects else 1.0
                edits = patches.between(path, text, after) if weight else ()
                if len(edits) == 1 and edits[0].old:
                    found.setdefault(edits[0], (is_large, -weight))
    ordered = sorted(found, key=lambda each: found[each])
    small_ones = [each for each in ordered if not found[each][0]]
    return (*small_ones[:_MOST_SWAPS], *[each for each in ordered if found[each][0]][:most])


def _drafts(text: str, rng: Random, number: int) -> Iterator[str]:
    """Yields versions of a program with one edit each."""
    engine = mutation.Syntax(more=0.0)
    parent = function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(text), judge=lambda skeleton: Evaluation(0.0))
    )
    for step in range(number):
        task = function.Task(0, step, 0, [parent], {}, {}, rng, None, lambda fns: [], lambda fn, found: None)
        try:
            yield from (str(fn.skeleton()) for fn in engine.propose(task))
        except ValueError:
            return


def _weight(before: str, after: str, lines: Mapping[int, float]) -> float:
    """Returns how suspicious the lines are that a draft changes."""
    matcher = difflib.SequenceMatcher(a=before.splitlines(), b=after.splitlines(), autojunk=False)
    changed = [
        line
        for tag, first, end, _, _ in matcher.get_opcodes()
        if tag != "equal"
        for line in range(first, max(end, first + 1))
    ]
    return max((lines.get(line + 1, 0.0) for line in changed), default=0.0)
