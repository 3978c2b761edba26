"""Number literals: parse, draw and move them."""

import ast
import math
import re
from collections.abc import Callable, Sequence
from random import Random

from atoll.mutation.syntax.value_kinds import Kind

_MAX_VALUE = 1e12  # a range or power of a larger number would not end

_SEED = re.compile(r"seed|random_state")
_MIN_WORK = 10  # smaller integers are rarely amounts of work
_WORK = re.compile(
    r"(?:^|_)(?:n?iters?|iterations?|maxiter|steps|epochs?|restarts?|starts|trials|tries|attempts|evaluations?|evals|"
    r"samples|rounds|generations?|repeats?|sweeps|passes|budget|timeout|seconds|popsize|population)(?:$|_)"
)


def make_literal(value: float) -> ast.expr:
    """Returns a number as a syntax node. A negative number is a negation, as Python parses it."""
    if value < 0 or (value == 0 and math.copysign(1, value) < 0):
        return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def parse_number(node: ast.expr) -> int | float | None:
    """Returns the value of a number literal, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = parse_number(node.operand) if isinstance(node.operand, ast.Constant) else None
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value
        assert isinstance(value, int | float)
        return value if abs(value) <= _MAX_VALUE else None
    return None


def move_number(rng: Random, value: float, required_kind: Kind) -> int | float:
    """Returns another number near this one; an integer or a small power if the kind requires it."""
    if required_kind == "power":
        neighbors = (value + 1, value - 1, value + 0.5, value - 0.5, -value)
        return rng.choice([new for new in neighbors if 0 < abs(new) <= 5] or [2])
    for _ in range(20):
        if required_kind == "integer" or (isinstance(value, int) and rng.random() < 0.6):
            new: int | float = rng.choice(_INTEGER_MOVES)(int(value))
        else:
            new = round_digits(rng.choices(_REAL_MOVES, _REAL_WEIGHTS)[0](rng, value), 6)
        if new != value and math.isfinite(new) and abs(new) <= _MAX_VALUE:
            return new
    return 1 if value == 0 else 0


def draw_number(rng: Random, constants: Sequence[float], required_kind: Kind) -> int | float:
    """Draws a frequent constant, or from N(0, 1) or -10 to 10 as the baseline of FunSearch does."""
    draw = rng.random()
    if required_kind == "integer":
        return rng.randint(0, 3) if draw < 0.8 else rng.randint(-10, 10)
    if draw < 0.7 and constants:
        return rng.choice(constants)
    return round_digits(rng.gauss(0, 1), 3) if draw < 0.85 else rng.randint(-10, 10)


def draw_any_scale(rng: Random) -> float:
    """Draws a number of either sign whose size is log-uniform from 0.1 to 100."""
    return round_digits(rng.choice((-1, 1)) * 10 ** rng.uniform(-1, 2), 2)


def round_digits(value: float, digits: int) -> float:
    """Returns a number rounded to significant digits."""
    return float(f"{value:.{digits}g}")


def _nudge(rng: Random, value: float) -> float:
    """Takes a relative Gaussian step: mostly small, sometimes of an order of magnitude."""
    spread = rng.choice((0.01, 0.1, 0.5))
    return value * (1 + rng.gauss(0, spread)) if value else rng.gauss(0, 1)


_INTEGER_MOVES: Sequence[Callable[[int], int]] = (
    lambda value: value + 1,
    lambda value: value - 1,
    lambda value: value + 1,
    lambda value: value - 1,
    lambda value: value * 2,
    lambda value: value // 2,
    lambda value: -value,
)
_REAL_MOVES: Sequence[Callable[[Random, float], float]] = (
    _nudge,
    lambda rng, value: -value,
    lambda rng, value: value * 2,
    lambda rng, value: value / 2,
    lambda rng, value: round_digits(value, rng.randint(1, 2)),
    lambda rng, value: value + rng.choice((-1, 1)),
)
_REAL_WEIGHTS = (8, 1, 2, 2, 2, 2)


def find_fixed_literals(tree: ast.AST) -> frozenset[tuple[int, int]]:
    """Returns the positions of integers that no mutator changes: amounts of work (`iterations = 1000`) and seeds.

    More work improves most scores without a better program, and another seed is luck.
    """
    pairs: list[tuple[str, ast.expr | None]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(name)], value=value) | ast.AnnAssign(target=ast.Name(name), value=value):
                pairs.append((name, value))
            case ast.keyword(arg=str(name), value=value):
                pairs.append((name, value))
            case ast.arguments():
                arguments = [*node.posonlyargs, *node.args]
                defaults = zip(arguments[len(arguments) - len(node.defaults) :], node.defaults, strict=True)
                pairs += [(argument.arg, default) for argument, default in defaults]
                keyword_defaults = zip(node.kwonlyargs, node.kw_defaults, strict=True)
                pairs += [(argument.arg, default) for argument, default in keyword_defaults]
    return frozenset(
        (value.lineno, value.col_offset)
        for name, value in pairs
        if isinstance(value, ast.Constant)
        and type(value.value) is int
        and ((value.value >= _MIN_WORK and _WORK.search(name.lower())) or _SEED.search(name.lower()))
    )
