"""What may be written at a site: leaves, terms, comparisons and calls."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.mutation.syntax import kinds, numbers
from atoll.mutation.syntax.kinds import NUMERIC
from atoll.mutation.syntax.trees import same
from atoll.mutation.syntax.uses import Uses
from atoll.mutation.syntax.vocabulary import Functions, Vocabulary, unshadowed
from atoll.mutation.syntax.words import Kind, Names

OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "**": ast.Pow, "//": ast.FloorDiv, "%": ast.Mod,
}  # fmt: skip
_KEEPING_WHOLE = ("+", "-", "*", "//", "%")
COMPARISONS: Sequence[type[ast.cmpop]] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_LOAD = ast.Load()


@dataclass(frozen=True, slots=True)
class Palette:
    """Draws expressions for one site.

    Attributes:
        names: What is in scope there.
        demand: The kind that may stand there.
        uses: How the function around it uses its names.
    """

    rng: Random
    vocabulary: Vocabulary
    functions: Functions
    names: Names
    demand: Kind
    uses: Uses

    def leaf(self) -> ast.expr | None:
        """Draws a name, an item of one, or a number."""
        if self.demand == "bool":
            flags = [name for name, kind in self.names.items() if kind == "bool"]
            return _name(self.rng.choice(flags)) if flags and self.rng.random() < 0.3 else self.comparison()
        named = [name for name, kind in self.names.items() if self._is_of_use(kind)]
        if self.demand not in NUMERIC:
            return self._read(self.rng.choice(named)) if named else None
        # Where the judge fits parameters, a number of our own is rarely needed.
        fitted = any(self.names[name] == "vector" for name in named)
        if not named or self.rng.random() < (0.1 if fitted else 0.3):
            return numbers.literal(numbers.fresh(self.rng, self.vocabulary.constants, self.demand))
        return self._read(self.rng.choice(named))

    def term(self) -> ast.expr | None:
        """Draws a leaf, a function of one, or two of them with an operator; often times a fitted parameter."""
        made = self._composed()
        fitted = [name for name in self.vocabulary.parameters if self.names.get(name) == "vector"]
        if made is None or not fitted or self.demand not in ("number", "array") or self.rng.random() < 0.4:
            return made
        scale = self._read(self.rng.choice(fitted))
        return scale if numbers.value_of(made) is not None else ast.BinOp(scale, ast.Mult(), made)

    def _composed(self) -> ast.expr | None:
        draw = self.rng.random()
        first = self.leaf()
        if first is None or self.demand not in NUMERIC or draw < 0.5 or numbers.value_of(first) is not None:
            return first  # a function of a number is only another number
        second = self.call(first) if draw < 0.75 else self.leaf()
        if second is None or same(first, second):
            return first
        if draw < 0.75:
            return second
        return self.operation(first, second) if draw < 0.875 else self.operation(second, first)

    def comparison(self) -> ast.expr | None:
        """Draws a comparison of two different numbers, one of them variable."""
        names = [name for name, kind in self.names.items() if kind in kinds.SCALAR or kind == "sequence"]
        if not names:
            return None
        scalar = self.of("number")
        left, right = scalar._read(self.rng.choice(names)), scalar.leaf()
        if right is None or same(left, right):
            return None
        return ast.Compare(left, [self.rng.choice(COMPARISONS)()], [right])

    def operation(self, left: ast.expr, right: ast.expr, allowed: Sequence[str] = tuple(OPERATORS)) -> ast.expr:
        """Joins two expressions by a random operator that suits them."""
        return ast.BinOp(left, self.operator(right, allowed), right)

    def operator(self, right: ast.expr, allowed: Sequence[str] = tuple(OPERATORS)) -> ast.operator:
        """Draws an operator that may stand before this operand."""
        whole, is_small = self.demand == "integer", self.is_small_power(right)
        drawn = [
            each
            for each in self.vocabulary.operators
            if each in allowed and (each in _KEEPING_WHOLE or not whole) and (each != "**" or is_small)
        ]
        return OPERATORS[self.rng.choice(drawn) if drawn else "+"]()

    def call(self, argument: ast.expr) -> ast.expr | None:
        """Draws a function of one argument and calls it."""
        match self.demand:
            case "number":
                found = unshadowed(self.functions.scalar, self.names)
            case "array":
                found = unshadowed(self.functions.by_element, self.names)
            case "integer":
                found = [name for name in unshadowed(self.functions.by_element, self.names) if name == "abs"]
            case _:
                return None
        return called(self.rng.choice(found), argument) if found else None

    def of(self, demand: Kind) -> "Palette":
        return Palette(self.rng, self.vocabulary, self.functions, self.names, demand, self.uses)

    def _is_of_use(self, kind: Kind) -> bool:
        if kinds.fits(kind, self.demand):
            return True
        if self.demand in ("number", "array"):
            return kind in ("vector", "sequence", "items", "text") or (
                kind == "array" and bool(self.functions.reducing)
            )
        return self.demand == "integer" and kind in ("sequence", "items", "text")

    def _read(self, name: str) -> ast.expr:
        """Makes a value of the demanded kind from a name."""
        kind, node = self.names[name], _name(name)
        if kinds.fits(kind, self.demand):
            return node
        match kind:
            case "vector":
                return _item(node, self._position(name))
            case "array":
                return called(self.rng.choice(self.functions.reducing), node)
            case "sequence" if self.demand != "integer":
                return self._of_sequence(node)
        return called("len", node)

    def _of_sequence(self, node: ast.Name) -> ast.expr:
        draw = self.rng.random()
        loops = [name for name, kind in self.names.items() if kind == "index"]
        if loops and draw < 0.5:
            return ast.Subscript(node, _name(self.rng.choice(loops)), _LOAD)
        if draw < 0.6:
            return _item(node, self._position(node.id))
        if draw < 0.75:
            return called(ast.Attribute(node, "count", _LOAD), ast.Constant(self.rng.choice((0, 1, 1, 2, 2))))
        found = unshadowed(self.functions.of_sequence, self.names)
        return called(self.rng.choice(found), node) if found else _item(node, 0)

    def _position(self, name: str) -> int:
        """Draws where to read a vector or sequence: a parameter that nothing else uses yet, or a small number."""
        used = self.uses.indices.get(name, set())
        if name in self.vocabulary.parameters:
            limit = max(self.vocabulary.num_parameters, max(used, default=0) + 1)
            unused = [place for place in range(limit) if place not in used]
            return unused[0] if unused and self.rng.random() < 0.7 else self.rng.randrange(limit)
        limit = max(3, max(used, default=0) + 2)
        return self.rng.randrange(-1, limit)

    def is_small_power(self, right: ast.expr) -> bool:
        """Says whether a power to this ends: whole numbers to large powers never do, fractions overflow at once."""
        value = numbers.value_of(right)
        if value is not None:
            return abs(value) <= 5
        kind = kinds.kind_of(right, self.names)
        match right:
            case ast.Subscript(ast.Name(name)) if self.names.get(name) == "vector":
                return kind == "number"
        return kind == "array"


def called(function: str | ast.expr, *arguments: ast.expr) -> ast.Call:
    """Returns a call of a function by its dotted name."""
    if isinstance(function, ast.expr):
        return ast.Call(function, list(arguments), [])
    owner, _, name = function.rpartition(".")
    return ast.Call(ast.Attribute(_name(owner), name, _LOAD) if owner else _name(name), list(arguments), [])


def _name(name: str) -> ast.Name:
    return ast.Name(name, _LOAD)


def _item(node: ast.Name, place: int) -> ast.Subscript:
    return ast.Subscript(node, numbers.literal(place), _LOAD)
