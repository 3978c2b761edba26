"""Rewrites expressions: powers to products, and sums to the terms of each linear parameter."""

from collections.abc import Mapping
from dataclasses import dataclass

from atoll.llmsr.fit.expression import ONE, Binary, Constant, Expression, Parameter, Unary

_LINEAR = {"+", "-", "*", "/"}
_LARGEST_PRODUCT = 32  # larger powers are not written as products; in numpy, x**3 costs 70 times x*x*x


def make_power(base: Expression, exponent: float) -> Expression | None:
    """Returns a power as products, a square root or a reciprocal; None if it needs `np.power`."""
    doubled = exponent * 2
    if doubled != int(doubled) or abs(exponent) > _LARGEST_PRODUCT:
        return None
    if exponent < 0:
        positive_power = make_power(base, -exponent)
        return positive_power and Unary("reciprocal", positive_power)
    integer_exponent = int(exponent)
    result: Expression | None = Unary("sqrt", base) if exponent != integer_exponent else None
    while integer_exponent:
        if integer_exponent % 2:
            result = base if result is None else Binary("*", result, base)
        integer_exponent //= 2
        if integer_exponent:
            base = Unary("square", base)
    return result or ONE


def add(left: Expression | None, right: Expression | None) -> Expression | None:
    """Returns a sum. None counts as zero."""
    if left is None or right is None:
        return left or right
    return Binary("+", left, right)


def subtract(left: Expression | None, right: Expression | None) -> Expression | None:
    if left is None or right is None:
        return left or (right and negate(right))
    return Binary("-", left, right)


def negate(node: Expression) -> Expression:
    if isinstance(node, Constant):
        return Constant(-node.value)
    return node.arg if isinstance(node, Unary) and node.op == "neg" else Unary("neg", node)


def multiply(left: Expression, right: Expression) -> Expression:
    if left == ONE:
        return right
    return left if right == ONE else Binary("*", left, right)


def divide(left: Expression, right: Expression) -> Expression:
    if isinstance(right, Constant):
        return left if right == ONE else Binary("/", left, right)
    return Unary("reciprocal", right) if left == ONE else Binary("/", left, right)


@dataclass(frozen=True, slots=True)
class Split:
    """Expression as `remainder + sum(params[i] * terms[i])`. Remainder and terms do not have these parameters.

    Attributes:
        terms: Factor of each linear parameter.
        remainder: The remaining sum; None for zero.
        nonlinear: The other parameters, in order.
    """

    terms: Mapping[int, Expression]
    remainder: Expression | None
    nonlinear: tuple[int, ...]


def split(node: Expression) -> Split:
    """Splits an expression by a large set of jointly linear parameters."""
    if not node.params:
        return Split({}, node, ())
    linear, _, pairs = _degrees(node, {})
    chosen: set[int] = set()
    conflicts = {index: {other for pair in pairs if index in pair for other in pair} for index in linear}
    for index in sorted(linear, key=lambda param: (len(conflicts[param]), param)):
        if chosen.isdisjoint(conflicts[index]):
            chosen.add(index)
    remainder, terms = _split_terms(node, frozenset(chosen))
    return Split(terms, remainder, tuple(sorted(node.params - chosen)))


# Linear parameters of an expression, nonlinear ones, and pairs of linear ones that are multiplied with each other.
type _Degrees = tuple[frozenset[int], frozenset[int], frozenset[tuple[int, int]]]

_NO_PARAMS: frozenset[int] = frozenset()
_NO_CONFLICTS: frozenset[tuple[int, int]] = frozenset()


def _degrees(node: Expression, cache: dict[Expression, _Degrees]) -> _Degrees:
    if not node.params:
        return _NO_PARAMS, _NO_PARAMS, _NO_CONFLICTS
    if isinstance(node, Parameter):
        return node.params, _NO_PARAMS, _NO_CONFLICTS
    degrees = cache.get(node)
    if degrees is None:
        if isinstance(node, Binary) and node.op in _LINEAR:
            degrees = _combine_degrees(node.op, _degrees(node.left, cache), _degrees(node.right, cache))
        elif isinstance(node, Unary) and node.op == "neg":
            degrees = _degrees(node.arg, cache)
        else:
            degrees = _NO_PARAMS, node.params, _NO_CONFLICTS
        cache[node] = degrees
    return degrees


def _combine_degrees(op: str, left: _Degrees, right: _Degrees) -> _Degrees:
    nonlinear, conflicts = left[1] | right[1], left[2] | right[2]
    if op == "/":
        nonlinear |= right[0]
    linear = (left[0] | right[0]) - nonlinear
    if op == "*" and left[0] and right[0]:
        squared = left[0] & right[0]
        linear, nonlinear = linear - squared, nonlinear | squared
        conflicts |= {(first, second) for first in left[0] for second in right[0] if first != second}
    return linear, nonlinear, conflicts


def _split_terms(node: Expression, chosen: frozenset[int]) -> tuple[Expression | None, dict[int, Expression]]:
    """Returns (remainder, terms) for the chosen parameters, which must be jointly linear in the node."""
    if chosen.isdisjoint(node.params):
        return node, {}
    if isinstance(node, Unary):
        remainder, terms = _split_terms(node.arg, chosen)
        return remainder and negate(remainder), {index: negate(term) for index, term in terms.items()}
    if not isinstance(node, Binary):
        return None, dict.fromkeys(node.params, ONE)
    if node.op in "+-":
        remainder, terms = _split_terms(node.left, chosen)
        other_remainder, other_terms = _split_terms(node.right, chosen)
        join = add if node.op == "+" else subtract
        for index, term in other_terms.items():
            joined = join(terms.get(index), term)
            assert joined is not None  # a term is not empty
            terms[index] = joined
        return join(remainder, other_remainder), terms
    in_left = not chosen.isdisjoint(node.left.params)
    linear, factor = (node.left, node.right) if in_left else (node.right, node.left)
    remainder, terms = _split_terms(linear, chosen)
    combine = multiply if node.op == "*" else divide
    if node.op == "/" and len(terms) > 1 and factor.params:
        factor, combine = Unary("reciprocal", factor), multiply  # one division for all terms
    return remainder and combine(remainder, factor), {index: combine(term, factor) for index, term in terms.items()}
