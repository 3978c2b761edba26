"""Tunables in a source: calls of `tunable`, comments that say so, or every number on request."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors
from atoll.mutation import markers
from atoll.mutation.syntax import numbers
from atoll.mutation.syntax.listing import Listing, Splice, spliced
from atoll.mutation.syntax.program import analysed
from atoll.mutation.syntax.vocabulary import Vocabulary
from atoll.mutation.syntax.words import Kind
from atoll.mutation.tuner.space import Point, Tunable, Value

_COMMENT = re.compile(r"#\s*tunable:\s*(?P<range>.*)")
_RANGE = re.compile(r"(?P<low>\S+?)\s*\.\.\s*(?P<high>\S+)")


def tunable[T](value: T, low: float | Sequence[T] | None = None, high: float | None = None) -> T:
    """Returns its first argument: it only marks what a tuner may change.

    decay = tunable(0.5, 0, 1)
    size = tunable(3, 1, 10)  # whole, since all three are
    mode = tunable("best", ["best", "first"])
    """
    return value


@dataclass(frozen=True, slots=True)
class Declared:
    """The tunables of a source, and where each one stands in it.

    Attributes:
        tunables: In the order of the source.
        spans: From where to where its value is written.
    """

    text: str
    tunables: Sequence[Tunable]
    spans: Sequence[tuple[int, int]]

    def written(self, point: Point) -> str:
        """Returns the source with other values; what has not changed stays as it is spelled."""
        pairs = zip(self.tunables, self.spans, point, strict=True)
        splices = [Splice(*span, _spelled(value)) for each, span, value in pairs if value != each.start]
        return spliced(self.text, splices)


def declared(text: str) -> Declared:
    """Finds what a source declares as tunable.

    Raises:
        ValueError: It is no Python.
        SetupError: A declaration cannot be meant so, such as one whose bounds are reversed.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError) as error:
        raise ValueError("It is no Python, so it declares no tunables.") from error
    if "tunable" not in text:
        return Declared(text, (), ())
    listing = Listing(text)
    found = sorted([*_calls(tree, listing), *_comments(tree, listing)], key=lambda each: each[1])
    return Declared(text, [each for each, _ in found], [span for _, span in found])


def literals(text: str, *, most: int = 12, rng: Random | None = None) -> Declared:
    """Finds the numbers of a source that may change, each with bounds around what it is now.

    Args:
        text: The source.
        most: How many at once.
        rng: Draws some of them where there are more, sometimes few: a search over one number of forty finds what a
            search over twelve others never can. Without it the first are taken.

    Raises:
        ValueError: It is no Python, or nothing in it may change.
    """
    program = analysed(text, Vocabulary())
    found: list[tuple[Tunable, tuple[int, int]]] = []
    for place in range(len(program.places)):
        for site in program.sites(place):
            value = numbers.value_of(site.node)
            # What stands in a loop's range or an index decides whether the program runs at all: leave it.
            if value is not None and site.demand in ("number", "array", "power"):
                found.append((_around(f"number {len(found)}", value, site.demand), program.listing.span(site.node)))
    found += _defaults(program.listing)
    found.sort(key=lambda each: each[1])
    if rng is not None and len(found) > most:
        found = sorted(rng.sample(found, rng.choice((1, min(3, most), most))), key=lambda each: each[1])
    return Declared(text, [each for each, _ in found[:most]], [span for _, span in found[:most]])


def _defaults(listing: Listing) -> Iterator[tuple[Tunable, tuple[int, int]]]:
    """Finds the numbers that functions between the markers take unless told otherwise: they are set by hand as well."""
    blocks = markers.evolving(listing.text)
    for node in ast.walk(ast.parse(listing.text)):
        if not isinstance(node, ast.FunctionDef) or not any(low < node.lineno <= high for low, high in blocks):
            continue
        plain = node.args.args[len(node.args.args) - len(node.args.defaults) :]
        pairs = [
            *zip(plain, node.args.defaults, strict=False),
            *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
        ]
        for argument, default in pairs:
            value = numbers.value_of(default) if default is not None else None
            if default is None or value is None or value in (0, 1):
                continue  # 0 and 1 are mostly answers to a question, not amounts
            name = f"{node.name}.{argument.arg}"
            if isinstance(value, int) and value > 0:
                # Mostly amounts of work: many times as much would only run into limits of time.
                yield Tunable(name, value, 1, 4 * value, is_whole=True), listing.span(default)
            elif isinstance(value, float):
                yield _around(name, value, "number"), listing.span(default)


def _around(name: str, value: float, demand: Kind) -> Tunable:
    """Returns a range around a number: ten times as far as it is from 0, either sign, and fine near to it."""
    if demand == "power":
        return Tunable(name, float(value), min(value, 0.25 if value > 0 else -4.0), max(value, 4.0))
    reach, scale = max(10 * abs(value), 50.0), 0.3 * max(abs(value), 1.0)
    return Tunable(name, float(value), -reach, reach, scale=scale)


def _calls(tree: ast.Module, listing: Listing) -> Iterator[tuple[Tunable, tuple[int, int]]]:
    names = _named_values(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name("tunable") | ast.Attribute(attr="tunable"), args=[value, *bounds], keywords=more
            ):
                name = names.get(node) or f"in line {node.lineno}"
                bounds += [each.value for each in more]
                given = [_literal(name, each) for each in (value, *bounds)]
                yield _made(name, given[0], given[1:]), listing.span(value)


def _comments(tree: ast.Module, listing: Listing) -> Iterator[tuple[Tunable, tuple[int, int]]]:
    assigned = {
        node.end_lineno: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
    }
    for token in tokenize.generate_tokens(io.StringIO(listing.text).readline):
        said = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
        node = assigned.get(token.start[0]) if said else None
        if said and node is None:
            raise errors.SetupError(
                f"Line {token.start[0]} declares a tunable but assigns nothing: write NAME = VALUE."
            )
        if said and node is not None and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
            yield _made(name, _literal(name, node.value), _bounds(name, said["range"])), listing.span(node.value)


def _bounds(name: str, said: str) -> list[Any]:
    """Reads `0..1`, or choices as `"best", "first"`."""
    span = _RANGE.fullmatch(said.strip())
    try:
        if span:
            return [ast.literal_eval(span["low"]), ast.literal_eval(span["high"])]
        choices = ast.literal_eval(f"[{said}]")
    except (ValueError, SyntaxError) as error:
        raise errors.SetupError(f"Tunable {name} says {said.strip()!r}: write LOW..HIGH, or choices.") from error
    return [choices]


def _made(name: str, value: Any, bounds: Sequence[Any]) -> Tunable:
    match bounds:
        case [list() | tuple() as choices] if choices:
            return Tunable(name, value, choices=tuple(choices))
        case [int() | float() as low, int() | float() as high]:
            is_whole = all(type(each) is int for each in (value, low, high))
            return Tunable(name, value, low, high, is_whole)
    raise errors.SetupError(
        f"Tunable {name} has no bounds: write tunable(VALUE, LOW, HIGH) or tunable(VALUE, CHOICES)."
    )


def _literal(name: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        said = ast.unparse(node)[:40]
        raise errors.SetupError(f"Tunable {name} says {said}: write its value and bounds as plain numbers.") from error


def _named_values(tree: ast.Module) -> dict[ast.expr, str]:
    return {
        node.value: ast.unparse(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    }


def _spelled(value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return repr(value)
    return ast.unparse(numbers.literal(value))
