"""Rewrites expressions: powers into products, and a sum into what each linear parameter is multiplied with."""

from collections.abc import Mapping
from dataclasses import dataclass

from atoll.llmsr.fit.expression import ONE, Binary, Constant, Expression, Parameter, Unary, Where

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
    found = _Degrees.of(node, {})
    chosen: set[int] = set()
    rivals = {index: {other for pair in found.rivals if index in pair for other in pair} for index in found.linear}
    for index in sorted(found.linear, key=lambda each: (len(rivals[each]), each)):
        if chosen.isdisjoint(rivals[index]):
            chosen.add(index)
    rest, terms = _taken_apart(node, frozenset(chosen))
    return Split(terms, rest, tuple(sorted(node.params - chosen)))


@dataclass(frozen=True, slots=True)
class _Degrees:
    """In which parameters an expression is linear, in which it is not, and which of the linear ones are multiplied."""

    linear: frozenset[int]
    others: frozenset[int]
    rivals: frozenset[tuple[int, int]]

    @staticmethod
    def of(node: Expression, known: dict[Expression, "_Degrees"]) -> "_Degrees":
        if node not in known:
            known[node] = _Degrees._of(node, known)
        return known[node]

    @staticmethod
    def _of(node: Expression, known: dict[Expression, "_Degrees"]) -> "_Degrees":
        if not node.params:
            return _FREE
        match node:
            case Parameter():
                return _Degrees(node.params, frozenset(), frozenset())
            case Unary(op="neg", arg=arg):
                return _Degrees.of(arg, known)
            case Binary(op="+" | "-" | "*" | "/", left=left, right=right):
                first, second = _Degrees.of(left, known), _Degrees.of(right, known)
                return _Degrees._both(node.op, first, second)
        return _Degrees(frozenset(), node.params, frozenset())

    @staticmethod
    def _both(op: str, left: "_Degrees", right: "_Degrees") -> "_Degrees":
        others, rivals = left.others | right.others, left.rivals | right.rivals
        if op == "/":
            others |= right.linear
        linear = (left.linear | right.linear) - others
        if op == "*" and left.linear and right.linear:
            twice = left.linear & right.linear
            linear, others = linear - twice, others | twice
            rivals |= {(one, other) for one in left.linear for other in right.linear if one != other}
        return _Degrees(linear, others, rivals)


_FREE = _Degrees(frozenset(), frozenset(), frozenset())


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


def variables(node: Expression) -> frozenset[int]:
    """Returns the indices of the columns in an expression."""
    from_arguments = [variables(each) for each in node.arguments]
    return frozenset().union(*from_arguments) if from_arguments else _own(node)


def _own(node: Expression) -> frozenset[int]:
    index = getattr(node, "index", None)
    return frozenset() if index is None or isinstance(node, Parameter | Where) else frozenset((index,))
