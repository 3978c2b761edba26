"""Rewrites expressions: powers into products, and a sum into what each linear parameter is multiplied with."""

from collections.abc import Mapping
from dataclasses import dataclass

from atoll.llmsr.fit.expression import ONE, Binary, Constant, Expression, Parameter, Unary

_LINEAR = {"+", "-", "*", "/"}
_LARGEST_PRODUCT = 32  # powers up to this one are written as products: x**3 costs 70 times x*x*x in numpy


def power(base: Expression, exponent: float) -> Expression | None:
    """Returns a power as products, a square root or a reciprocal; None where only `np.power` will do."""
    doubled = exponent * 2
    if doubled != int(doubled) or abs(exponent) > _LARGEST_PRODUCT:
        return None
    if exponent < 0:
        found = power(base, -exponent)
        return found and Unary("reciprocal", found)
    whole = int(exponent)
    result: Expression | None = Unary("sqrt", base) if exponent != whole else None
    while whole:
        if whole % 2:
            result = base if result is None else Binary("*", result, base)
        whole //= 2
        if whole:
            base = Unary("square", base)
    return result or ONE


def add(left: Expression | None, right: Expression | None) -> Expression | None:
    """Returns a sum, where None is nothing."""
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
    """An expression as `rest + sum(params[i] * terms[i])`, with none of these parameters in the rest or in a term.

    Attributes:
        terms: What each linear parameter is multiplied with.
        rest: What is left; None for nothing.
        nonlinear: The other parameters, in order.
    """

    terms: Mapping[int, Expression]
    rest: Expression | None
    nonlinear: tuple[int, ...]


def split(node: Expression) -> Split:
    """Finds a large set of parameters that enter jointly linearly and takes the expression apart by them."""
    if not node.params:
        return Split({}, node, ())
    linear, _, pairs = _degrees(node, {})
    chosen: set[int] = set()
    rivals = {index: {other for pair in pairs if index in pair for other in pair} for index in linear}
    for index in sorted(linear, key=lambda each: (len(rivals[each]), each)):
        if chosen.isdisjoint(rivals[index]):
            chosen.add(index)
    rest, terms = _taken_apart(node, frozenset(chosen))
    return Split(terms, rest, tuple(sorted(node.params - chosen)))


# In which parameters an expression is linear, in which it is not, and which linear ones are multiplied with each other.
type _Degrees = tuple[frozenset[int], frozenset[int], frozenset[tuple[int, int]]]

_NONE: frozenset[int] = frozenset()
_NO_RIVALS: frozenset[tuple[int, int]] = frozenset()


def _degrees(node: Expression, known: dict[Expression, _Degrees]) -> _Degrees:
    if not node.params:
        return _NONE, _NONE, _NO_RIVALS
    if isinstance(node, Parameter):
        return node.params, _NONE, _NO_RIVALS
    found = known.get(node)
    if found is None:
        if isinstance(node, Binary) and node.op in _LINEAR:
            found = _joined(node.op, _degrees(node.left, known), _degrees(node.right, known))
        elif isinstance(node, Unary) and node.op == "neg":
            found = _degrees(node.arg, known)
        else:
            found = _NONE, node.params, _NO_RIVALS
        known[node] = found
    return found


def _joined(op: str, left: _Degrees, right: _Degrees) -> _Degrees:
    others, rivals = left[1] | right[1], left[2] | right[2]
    if op == "/":
        others |= right[0]
    linear = (left[0] | right[0]) - others
    if op == "*" and left[0] and right[0]:
        twice = left[0] & right[0]
        linear, others = linear - twice, others | twice
        rivals |= {(one, other) for one in left[0] for other in right[0] if one != other}
    return linear, others, rivals


def _taken_apart(node: Expression, chosen: frozenset[int]) -> tuple[Expression | None, dict[int, Expression]]:
    """Returns (rest, terms) for the chosen parameters, which must be jointly linear in the node."""
    if chosen.isdisjoint(node.params):
        return node, {}
    if isinstance(node, Unary):
        rest, terms = _taken_apart(node.arg, chosen)
        return rest and negate(rest), {index: negate(term) for index, term in terms.items()}
    if not isinstance(node, Binary):
        return None, dict.fromkeys(node.params, ONE)
    if node.op in "+-":
        rest, terms = _taken_apart(node.left, chosen)
        other_rest, other_terms = _taken_apart(node.right, chosen)
        join = add if node.op == "+" else subtract
        for index, term in other_terms.items():
            joined = join(terms.get(index), term)
            assert joined is not None  # a term is something
            terms[index] = joined
        return join(rest, other_rest), terms
    in_left = not chosen.isdisjoint(node.left.params)
    linear, factor = (node.left, node.right) if in_left else (node.right, node.left)
    rest, terms = _taken_apart(linear, chosen)
    join_ = multiply if node.op == "*" else divide
    if node.op == "/" and len(terms) > 1 and factor.params:
        factor, join_ = Unary("reciprocal", factor), multiply  # one division for all terms
    return rest and join_(rest, factor), {index: join_(term, factor) for index, term in terms.items()}
