"""Mutator that tunes the constants of a program, and the tunables of a source: calls, comments or literals."""

import ast
import io
import math
import re
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors, function
from atoll.mutation import text_blocks
from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.program import analyze
from atoll.mutation.syntax.source_text import SourceText, Splice, apply_splices
from atoll.mutation.syntax.value_kinds import Kind, Vocabulary
from atoll.mutation.text_blocks import NotApplicable, with_text
from atoll.mutation.tuner.optimizer import Optimizer
from atoll.mutation.tuner.space import BestPoint, Point, Space, Tunable, Value, count_digits, round_to_digits

_COMMENT = re.compile(r"#\s*tunable:\s*(?P<range>.*)")
_RANGE = re.compile(r"(?P<low>\S+?)\s*\.\.\s*(?P<high>\S+)")


def tunable[T](value: T, low: float | Sequence[T] | None = None, high: float | None = None) -> T:
    """Returns its first argument. It marks a value that the tuner may change.

    decay = tunable(0.5, 0, 1)
    size = tunable(3, 1, 10)  # an integer, because all three are
    mode = tunable("best", ["best", "first"])
    """
    return value


@dataclass(frozen=True, slots=True)
class DeclaredTunables:
    """Tunables of a source with their positions.

    Attributes:
        tunables: In the order of the source.
        spans: Start and end offset of each value.
    """

    text: str
    tunables: Sequence[Tunable]
    spans: Sequence[tuple[int, int]]

    def write_point(self, point: Point) -> str:
        """Returns the source with other values. Unchanged values keep their text."""
        pairs = zip(self.tunables, self.spans, point, strict=True)
        splices = [Splice(*span, _format_value(value)) for item, span, value in pairs if value != item.start]
        return apply_splices(self.text, splices)


def find_tunables(text: str) -> DeclaredTunables:
    """Returns the declared tunables of a source.

    Raises:
        ValueError: The text is not valid Python.
        SetupError: A declaration is invalid, for example its bounds are reversed.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError) as error:
        raise ValueError("The source is not valid Python, so it declares no tunables.") from error
    if "tunable" not in text:
        return DeclaredTunables(text, (), ())
    source_text = SourceText(text)
    matches = sorted([*_iter_calls(tree, source_text), *_iter_comments(tree, source_text)], key=lambda match: match[1])
    return DeclaredTunables(text, [item for item, _ in matches], [span for _, span in matches])


def find_literals(text: str, *, max_count: int = 12, rng: Random | None = None) -> DeclaredTunables:
    """Returns the number literals of a source that may change, with bounds around their values.

    Args:
        text: The source.
        max_count: Maximal number of literals.
        rng: Draws some of the literals if there are more, sometimes only a few, because a search over one number can
            find more than a search over twelve. Without it, the first literals are used.

    Raises:
        ValueError: The text is not valid Python, or nothing in it may change.
    """
    program = analyze(text, Vocabulary())
    matches: list[tuple[Tunable, tuple[int, int]]] = []
    fixed = numbers.find_fixed_literals(ast.parse(text))
    for index in range(len(program.expression_sites)):
        for site in program.get_sites(index):
            value = numbers.parse_number(site.node)
            # Changing the range of a loop or an index often breaks the program.
            if (site.node.lineno, site.node.col_offset) in fixed:
                continue
            if value is not None and site.required_kind in ("number", "array", "power"):
                tunable_range = _make_range(f"number {len(matches)}", value, site.required_kind)
                matches.append((tunable_range, program.source_text.get_span(site.node)))
    matches += _iter_defaults(program.source_text)
    matches.sort(key=lambda match: match[1])
    if rng is not None and len(matches) > max_count:
        matches = sorted(rng.sample(matches, rng.choice((1, min(3, max_count), max_count))), key=lambda match: match[1])
    return DeclaredTunables(text, [item for item, _ in matches[:max_count]], [span for _, span in matches[:max_count]])


def _iter_defaults(source_text: SourceText) -> Iterator[tuple[Tunable, tuple[int, int]]]:
    """Yields the numeric default arguments of functions between the markers, which are also chosen by hand."""
    blocks = text_blocks.find_evolving_spans(source_text.text)
    tree = ast.parse(source_text.text)
    fixed = numbers.find_fixed_literals(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not any(low < node.lineno <= high for low, high in blocks):
            continue
        arguments = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        keyword_pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        pairs = [*zip(arguments, node.args.defaults, strict=False), *keyword_pairs]
        for argument, default in pairs:
            value = numbers.parse_number(default) if default is not None else None
            if default is None or value is None or value in (0, 1) or (default.lineno, default.col_offset) in fixed:
                continue  # 0 and 1 are mostly flags, not amounts
            name = f"{node.name}.{argument.arg}"
            if isinstance(value, int) and value > 0:
                # Integers are mostly amounts of work. Much larger values would only exceed the time limit.
                yield Tunable(name, value, 1, 4 * value, is_integer=True), source_text.get_span(default)
            elif isinstance(value, float):
                yield _make_range(name, value, "number"), source_text.get_span(default)


def _make_range(name: str, value: float, required_kind: Kind) -> Tunable:
    """Returns a range of ten times the number in both directions, with a fine scale near the number."""
    if required_kind == "power":
        return Tunable(name, float(value), min(value, 0.25 if value > 0 else -4.0), max(value, 4.0))
    limit, scale = max(10 * abs(value), 50.0), 0.3 * max(abs(value), 1.0)
    return Tunable(name, float(value), -limit, limit, scale=scale)


def _iter_calls(tree: ast.Module, source_text: SourceText) -> Iterator[tuple[Tunable, tuple[int, int]]]:
    names = _map_call_names(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name("tunable") | ast.Attribute(attr="tunable"), args=[value, *bounds], keywords=keywords
            ):
                name = names.get(node) or f"in line {node.lineno}"
                bounds += [keyword.value for keyword in keywords]
                values = [_parse_literal(name, argument) for argument in (value, *bounds)]
                yield _make_tunable(name, values[0], values[1:]), source_text.get_span(value)


def _iter_comments(tree: ast.Module, source_text: SourceText) -> Iterator[tuple[Tunable, tuple[int, int]]]:
    assignments = (node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign))
    assigned = {node.end_lineno: node for node in assignments if node.value is not None}
    for token in tokenize.generate_tokens(io.StringIO(source_text.text).readline):
        match = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        node = assigned.get(token.start[0]) if match else None
        if match and node is None:
            raise errors.SetupError(f"Line {token.start[0]} declares a tunable without assignment. Write NAME = VALUE.")
        if match and node is not None and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
            bounds = _parse_bounds(name, match["range"])
            yield _make_tunable(name, _parse_literal(name, node.value), bounds), source_text.get_span(node.value)


def _parse_bounds(name: str, text: str) -> list[Any]:
    """Parses `0..1`, or choices such as `"best", "first"`."""
    span = _RANGE.fullmatch(text.strip())
    try:
        if span:
            return [ast.literal_eval(span["low"]), ast.literal_eval(span["high"])]
        choices = ast.literal_eval(f"[{text}]")
    except (ValueError, SyntaxError) as error:
        raise errors.SetupError(
            f"Tunable {name} has the bounds {text.strip()!r}. Write LOW..HIGH or choices."
        ) from error
    return [choices]


def _make_tunable(name: str, value: Any, bounds: Sequence[Any]) -> Tunable:
    match bounds:
        case [list() | tuple() as choices] if choices:
            return Tunable(name, value, choices=tuple(choices))
        case [int() | float() as low, int() | float() as high]:
            is_whole = all(type(number) is int for number in (value, low, high))
            return Tunable(name, value, low, high, is_whole)
    raise errors.SetupError(
        f"Tunable {name} has no bounds. Write tunable(VALUE, LOW, HIGH) or tunable(VALUE, CHOICES)."
    )


def _parse_literal(name: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        source = ast.unparse(node)[:40]
        raise errors.SetupError(
            f"Tunable {name} has the value {source}. Write its value and bounds as plain numbers."
        ) from error


def _map_call_names(tree: ast.Module) -> dict[ast.expr, str]:
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return {node.value: ast.unparse(node.targets[0]) for node in assignments if isinstance(node.value, ast.Call)}


def _format_value(value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return repr(value)
    return ast.unparse(numbers.make_literal(value))


NAME = "tuner"
_MAX_ROUNDING_TRIALS = 6  # at most this many evaluations to make numbers rounder


@dataclass(frozen=True, slots=True)
class Tuner:
    """Makes one child: a parent with the best constants of a search inside one iteration.

    The context evaluates the trials, so each is stored and counts in the budget. A resumed iteration makes the same
    trials and finds them in the journal.

    Attributes:
        budget: Maximal evaluations of one iteration; fewer if the context allows fewer.
        patience: Evaluations without improvement after which the iteration ends; more with many constants.
        with_literals: Whether to tune number literals if the program declares no tunables.
        max_literals: Maximal number of literals at once. Each iteration draws others if there are more.
    """

    budget: int = 40
    patience: int = 12
    with_literals: bool = False
    max_literals: int = 12

    def __post_init__(self) -> None:
        if self.budget < 1 or self.patience < 1 or self.max_literals < 1:
            raise errors.SetupError(
                f"budget is {self.budget}, patience {self.patience} and max_literals {self.max_literals}. "
                "Set all to at least 1."
            )

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns a child with better constants; an empty list if the search found none.

        Raises:
            NotApplicable: The parent has nothing to tune.
        """
        parent = _choose_parent(context)
        skeleton, trials = self.tune(context, parent, parent.score() if parent.evaluation else None)
        if skeleton is None:
            return []
        return [function.derive_child(parent, skeleton, parents=[parent], engine=NAME, trials=trials)]

    def tune(
        self,
        context: function.ProposalContext,
        fn: function.Function,
        score: float | None,
        should_stop: Callable[[int, float], bool] = lambda trials, best: False,
    ) -> tuple[function.AnySkeleton | None, int]:
        """Searches for better constants; returns the new skeleton, or None, and the number of trials.

        Args:
            score: Score of the function; None if it failed.
            should_stop: Called with the trials so far and the best score; True ends the search.

        Raises:
            NotApplicable: The function has nothing to tune.
        """
        declaration = self._find_tunables(str(fn.skeleton()), context.rng)
        optimizer = Optimizer(declaration.tunables, context.rng.getrandbits(32))
        optimizer.tell(optimizer.space.start, score)
        limit = self.budget if context.max_evaluations is None else min(self.budget, context.max_evaluations)
        trials = 0

        def evaluate_point(point: Point) -> float | None:
            trial = function.derive_child(fn, with_text(fn, declaration.write_point(point)), parents=[fn], engine=NAME)
            return context.evaluate([trial])[0].score

        while trials < limit and optimizer.since_best <= self.patience + len(optimizer.space):
            point = optimizer.ask()
            if point is None:
                break
            optimizer.tell(point, evaluate_point(point))
            trials += 1
            if optimizer.best.score is not None and should_stop(trials, optimizer.best.score):
                limit = trials
        if optimizer.best.point == optimizer.space.start:
            return None, trials
        # Rounding gets only the remaining evaluations: a better score is worth more than a round number.
        rounder = PointRounder(optimizer.space, optimizer.best)
        rounding_limit = min(limit, trials + _MAX_ROUNDING_TRIALS)
        while trials < rounding_limit and (point := rounder.ask()) is not None:
            rounder.tell(point, evaluate_point(point))
            trials += 1
        return with_text(fn, declaration.write_point(rounder.point)), trials

    def _find_tunables(self, text: str, rng: Random | None = None) -> DeclaredTunables:
        try:
            declaration = find_tunables(text)
        except errors.SetupError as error:  # the initial program was checked, so a mutator wrote this declaration
            raise NotApplicable(str(error)) from error
        if not declaration.tunables and self.with_literals:
            declaration = find_literals(text, max_count=self.max_literals, rng=rng)
        if not declaration.tunables:
            raise NotApplicable("The program declares nothing to tune. Write tunable(VALUE, LOW, HIGH).")
        return declaration


def _choose_parent(context: function.ProposalContext) -> function.Function:
    """Returns the best parent that was not made by the tuner, else the best."""
    for parent in reversed(context.parents):
        if parent.candidate is None or parent.candidate.meta.get("engine") != NAME:
            return parent
    return context.parents[-1]


class PointRounder:
    """Tries points like the best with rounder numbers, and keeps those that do not score less.

    It first rounds all numbers to one, two or three digits, then each number to its start value or to few digits.

    Attributes:
        point: The roundest point that scores as much as the best.
        score: Its score.
    """

    def __init__(self, space: Space, best: BestPoint) -> None:
        self._space, self.point, self.score = space, best.point, best.score
        indices = [index for index in range(len(space)) if self._count_digits(index) > 1]
        self._plans: list[tuple[tuple[int, ...], int]] = [(tuple(indices), digits) for digits in (1, 2, 3)]
        singles = sorted(indices, key=self._count_digits, reverse=True)
        self._plans += [((index,), digits) for index in singles for digits in (0, 1, 2)]
        self._tried = {best.point}

    def ask(self) -> Point | None:
        """Returns the next point to evaluate; None if nothing is left to round."""
        while self._plans:
            point = self._round_point(*self._plans.pop(0))
            if point not in self._tried and self._cost(point) < self._cost(self.point):
                self._tried.add(point)
                return point
        return None

    def tell(self, point: Point, score: float | None) -> None:
        """Keeps the point if it does not score less."""
        if score is not None and math.isfinite(score) and (self.score is None or score >= self.score):
            self.point, self.score = point, score

    def _round_point(self, indices: Sequence[int], digits: int) -> Point:
        values = list(self.point)
        for index in indices:
            tunable, value = self._space.tunables[index], values[index]
            assert isinstance(value, int | float)
            values[index] = (
                min(max(round_to_digits(value, digits), tunable.low), tunable.high) if digits else tunable.start
            )
        return tuple(values)

    def _cost(self, point: Point) -> int:
        """Returns the number of digits of all values that differ from their start."""
        return sum(self._count_digits(index, point) for index in range(len(point)))

    def _count_digits(self, index: int, point: Point | None = None) -> int:
        tunable, value = self._space.tunables[index], (point or self.point)[index]
        if tunable.choices or tunable.is_integer or value == tunable.start or not isinstance(value, int | float):
            return 0
        return count_digits(value)
